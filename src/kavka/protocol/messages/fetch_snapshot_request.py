"""FetchSnapshotRequest: request, API key 59, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int32, int64, string, struct, uuid


class SnapshotId(Struct):
    end_offset: int = int64("0+", default=0)
    epoch: int = int32("0+", default=0)


class PartitionSnapshot(Struct):
    partition: int = int32("0+", default=0)
    current_leader_epoch: int = int32("0+", default=0)
    snapshot_id: SnapshotId = struct(SnapshotId, "0+", default_factory=SnapshotId)
    position: int = int64("0+", default=0)
    replica_directory_id: UUID = uuid("1+", tag=0, default=ZERO_UUID, ignorable=True)


class TopicSnapshot(Struct):
    name: str = string("0+", default="")
    partitions: list[PartitionSnapshot] = array(PartitionSnapshot, "0+", default_factory=list)


class FetchSnapshotRequest(Message, kind="request", versions="0-1", flexible="0+", api_key=59):
    cluster_id: str | None = string("0+", nullable="0+", tag=0, default=None)
    replica_id: int = int32("0+", default=-1)
    max_bytes: int = int32("0+", default=2147483647)
    topics: list[TopicSnapshot] = array(TopicSnapshot, "0+", default_factory=list)
