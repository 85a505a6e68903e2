"""DescribeQuorumResponse: response, API key 55, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, int64, string, uint16, uuid


class ReplicaState(Struct):
    replica_id: int = int32("0+", default=0)
    replica_directory_id: UUID = uuid("2+", default=ZERO_UUID)
    log_end_offset: int = int64("0+", default=0)
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("2+", nullable="2+", default="", ignorable=True)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    high_watermark: int = int64("0+", default=0)
    current_voters: list[ReplicaState] = array(ReplicaState, "0+", default_factory=list)
    observers: list[ReplicaState] = array(ReplicaState, "0+", default_factory=list)


class TopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class Listener(Struct):
    name: str = string("2+", default="")
    host: str = string("2+", default="")
    port: int = uint16("2+", default=0)


class Node(Struct):
    node_id: int = int32("2+", default=0)
    listeners: list[Listener] = array(Listener, "2+", default_factory=list)


class DescribeQuorumResponse(Message, kind="response", versions="0-2", flexible="0+", api_key=55):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("2+", nullable="2+", default="", ignorable=True)
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)
    nodes: list[Node] = array(Node, "2+", default_factory=list)
