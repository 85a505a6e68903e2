"""ShareFetchResponse: response, API key 78, versions 1-2, flexible from 0.

Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import (
    ZERO_UUID,
    Message,
    Records,
    Struct,
    array,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("1+", default=0)
    leader_epoch: int = int32("1+", default=0)


class AcquiredRecords(Struct):
    first_offset: int = int64("1+", default=0)
    last_offset: int = int64("1+", default=0)
    delivery_count: int = int16("1+", default=0)


class PartitionData(Struct):
    partition_index: int = int32("1+", default=0)
    error_code: int = int16("1+", default=0)
    error_message: str | None = string("1+", nullable="1+", default=None)
    acknowledge_error_code: int = int16("1+", default=0)
    acknowledge_error_message: str | None = string("1+", nullable="1+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "1+", default_factory=LeaderIdAndEpoch)
    records: Records | None = record_batches("1+", default=None)
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords, "1+", default_factory=list)


class ShareFetchableTopicResponse(Struct):
    topic_id: UUID = uuid("1+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "1+", default_factory=list)


class NodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = int32("1+", default=0)
    rack: str | None = string("1+", nullable="1+", default=None)


class ShareFetchResponse(Message, kind="response", versions="1-2", flexible="0+", api_key=78):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("1+", default=0)
    error_message: str | None = string("1+", nullable="1+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+", default=0)
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse, "1+", default_factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", default_factory=list)
