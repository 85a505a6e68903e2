"""StreamsGroupTopologyValue: coordinator's value, record type 23, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class TopicConfig(Struct):
    key: str = string("0+", default="")
    value: str = string("0+", default="")


class TopicInfo(Struct):
    name: str = string("0+", default="")
    partitions: int = int32("0+", default=0)
    replication_factor: int = int16("0+", default=0)
    topic_configs: list[TopicConfig] = array(TopicConfig, "0+", default_factory=list)


class CopartitionGroup(Struct):
    source_topics: list[int] = array("int16", "0+", default_factory=list)
    source_topic_regex: list[int] = array("int16", "0+", default_factory=list)
    repartition_source_topics: list[int] = array("int16", "0+", default_factory=list)


class Subtopology(Struct):
    subtopology_id: str = string("0+", default="")
    source_topics: list[str] = array("string", "0+", default_factory=list)
    source_topic_regex: list[str] = array("string", "0+", default_factory=list)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+", default_factory=list)
    repartition_sink_topics: list[str] = array("string", "0+", default_factory=list)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+", default_factory=list)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup, "0+", default_factory=list)


class StreamsGroupTopologyValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=23):
    epoch: int = int32("0+", default=0)
    subtopologies: list[Subtopology] = array(Subtopology, "0+", default_factory=list)
