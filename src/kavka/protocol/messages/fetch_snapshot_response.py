"""FetchSnapshotResponse: response, API key 59, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import (
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
    uint16,
)


class SnapshotId(Struct):
    end_offset: int = int64("0+", default=0)
    epoch: int = int32("0+", default=0)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


class PartitionSnapshot(Struct):
    index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    snapshot_id: SnapshotId = struct(SnapshotId, "0+", default_factory=SnapshotId)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "0+", tag=0, default=None)
    size: int = int64("0+", default=0)
    position: int = int64("0+", default=0)
    unaligned_records: Records | None = record_batches("0+", default=None)


class TopicSnapshot(Struct):
    name: str = string("0+", default="")
    partitions: list[PartitionSnapshot] = array(PartitionSnapshot, "0+", default_factory=list)


class NodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class FetchSnapshotResponse(Message, kind="response", versions="0-1", flexible="0+", api_key=59):
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)
    error_code: int = int16("0+", default=0)
    topics: list[TopicSnapshot] = array(TopicSnapshot, "0+", default_factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, default_factory=list)
