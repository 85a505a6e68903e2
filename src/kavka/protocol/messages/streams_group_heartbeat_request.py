"""StreamsGroupHeartbeatRequest: request, API key 88, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string, struct, uint16


class KeyValue(Struct):
    key: str = string("0+", default="")
    value: str = string("0+", default="")


class TopicInfo(Struct):
    name: str = string("0+", default="")
    partitions: int = int32("0+", default=0)
    replication_factor: int = int16("0+", default=0)
    topic_configs: list[KeyValue] = array(KeyValue, "0+", default_factory=list)


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


class Topology(Struct):
    epoch: int = int32("0+", default=0)
    subtopologies: list[Subtopology] = array(Subtopology, "0+", default_factory=list)


class TaskIds(Struct):
    subtopology_id: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class Endpoint(Struct):
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class TaskOffset(Struct):
    subtopology_id: str = string("0+", default="")
    partition: int = int32("0+", default=0)
    offset: int = int64("0+", default=0)


class StreamsGroupHeartbeatRequest(Message, kind="request", versions="0", flexible="0+", api_key=88):
    group_id: str = string("0+", default="")
    member_id: str = string("0+", default="")
    member_epoch: int = int32("0+", default=0)
    endpoint_information_epoch: int = int32("0+", default=0)
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology: Topology | None = struct(Topology, "0+", nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    process_id: str | None = string("0+", nullable="0+", default=None)
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, "0+", nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    shutdown_application: bool = boolean("0+", default=False)
