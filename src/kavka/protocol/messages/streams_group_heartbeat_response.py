"""StreamsGroupHeartbeatResponse: response, API key 88, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int16, int32, string, struct, uint16


class Status(Struct):
    status_code: int = int8("0+", default=0)
    status_detail: str = string("0+", default="")


class TaskIds(Struct):
    subtopology_id: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class Endpoint(Struct):
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class TopicPartition(Struct):
    topic: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = struct(Endpoint, "0+", default_factory=Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition, "0+", default_factory=list)
    standby_partitions: list[TopicPartition] = array(TopicPartition, "0+", default_factory=list)


class StreamsGroupHeartbeatResponse(Message, kind="response", versions="0", flexible="0+", api_key=88):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str = string("0+", default="")
    member_epoch: int = int32("0+", default=0)
    heartbeat_interval_ms: int = int32("0+", default=0)
    acceptable_recovery_lag: int = int32("0+", default=0)
    task_offset_interval_ms: int = int32("0+", default=0)
    status: list[Status] | None = array(Status, "0+", nullable="0+", default_factory=list)
    active_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    endpoint_information_epoch: int = int32("0+", default=0)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, "0+", nullable="0+", default=None
    )
