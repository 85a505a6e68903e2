"""ProduceResponse: response, API key 0, versions 0-13, flexible from 9.

Apache Kafka 3.9.2: 0-11; Apache Kafka 4.3.1: 3-13.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, int64, string, struct, uuid


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+", default=0)
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    base_offset: int = int64("0+", default=0)
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", default_factory=list, ignorable=True
    )
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "10+", tag=0, default=None)


class TopicProduceResponse(Struct):
    name: str = string("0-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+", default_factory=list)


class NodeEndpoint(Struct):
    node_id: int = int32("10+", default=0)
    host: str = string("10+", default="")
    port: int = int32("10+", default=0)
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Message, kind="response", versions="0-13", flexible="9+", api_key=0):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+", default_factory=list)
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0, default_factory=list)
