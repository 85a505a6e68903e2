"""StreamsGroupDescribeResponse: response, API key 89, version 0, flexible from 0.

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


class Subtopology(Struct):
    subtopology_id: str = string("0+", default="")
    source_topics: list[str] = array("string", "0+", default_factory=list)
    repartition_sink_topics: list[str] = array("string", "0+", default_factory=list)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+", default_factory=list)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+", default_factory=list)


class Topology(Struct):
    epoch: int = int32("0+", default=0)
    subtopologies: list[Subtopology] | None = array(Subtopology, "0+", nullable="0+", default=None)


class Endpoint(Struct):
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class TaskOffset(Struct):
    subtopology_id: str = string("0+", default="")
    partition: int = int32("0+", default=0)
    offset: int = int64("0+", default=0)


class TaskIds(Struct):
    subtopology_id: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class Assignment(Struct):
    active_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    standby_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)


class Member(Struct):
    member_id: str = string("0+", default="")
    member_epoch: int = int32("0+", default=0)
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    client_id: str = string("0+", default="")
    client_host: str = string("0+", default="")
    topology_epoch: int = int32("0+", default=0)
    process_id: str = string("0+", default="")
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, "0+", default_factory=list)
    task_offsets: list[TaskOffset] = array(TaskOffset, "0+", default_factory=list)
    task_end_offsets: list[TaskOffset] = array(TaskOffset, "0+", default_factory=list)
    assignment: Assignment = struct(Assignment, "0+", default_factory=Assignment)
    target_assignment: Assignment = struct(Assignment, "0+", default_factory=Assignment)
    is_classic: bool = boolean("0+", default=False)


class DescribedGroup(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+", default="")
    group_state: str = string("0+", default="")
    group_epoch: int = int32("0+", default=0)
    assignment_epoch: int = int32("0+", default=0)
    topology: Topology | None = struct(Topology, "0+", nullable="0+", default=None)
    members: list[Member] = array(Member, "0+", default_factory=list)
    authorized_operations: int = int32("0+", default=-2147483648)


class StreamsGroupDescribeResponse(Message, kind="response", versions="0", flexible="0+", api_key=89):
    throttle_time_ms: int = int32("0+", default=0)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+", default_factory=list)
