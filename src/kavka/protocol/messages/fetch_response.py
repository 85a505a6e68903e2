"""FetchResponse: response, API key 1, versions 0-18, flexible from 12.

Apache Kafka 3.9.2: 0-17; Apache Kafka 4.3.1: 4-18.
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


class EpochEndOffset(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64("4+", default=0)
    first_offset: int = int64("4+", default=0)


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    high_watermark: int = int64("0+", default=0)
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, "12+", tag=0, default=None)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "12+", tag=1, default=None)
    snapshot_id: SnapshotId | None = struct(SnapshotId, "12+", tag=2, default=None)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", default_factory=list, ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = record_batches("0+", nullable="0+", default=None)


class FetchableTopicResponse(Struct):
    topic: str = string("0-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class NodeEndpoint(Struct):
    node_id: int = int32("16+", default=0)
    host: str = string("16+", default="")
    port: int = int32("16+", default=0)
    rack: str | None = string("16+", nullable="16+", default=None)


class FetchResponse(Message, kind="response", versions="0-18", flexible="12+", api_key=1):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("7+", default=0, ignorable=True)
    session_id: int = int32("7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+", default_factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0, default_factory=list)
