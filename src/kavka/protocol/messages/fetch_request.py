"""FetchRequest: request, API key 1, versions 0-18, flexible from 12.

Apache Kafka 3.9.2: 0-17; Apache Kafka 4.3.1: 4-18.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int8, int32, int64, string, struct, uuid


class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = int32("0+", default=0)
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64("0+", default=0)
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32("0+", default=0)
    replica_directory_id: UUID = uuid("17+", tag=0, default=ZERO_UUID, ignorable=True)
    high_watermark: int = int64("18+", tag=1, default=9223372036854775807, ignorable=True)


class FetchTopic(Struct):
    topic: str = string("0-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition, "0+", default_factory=list)


class ForgottenTopic(Struct):
    topic: str = string("7-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[int] = array("int32", "7+", default_factory=list)


class FetchRequest(Message, kind="request", versions="0-18", flexible="12+", api_key=1):
    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState | None = struct(ReplicaState, "15+", tag=1, default=None)
    max_wait_ms: int = int32("0+", default=0)
    min_bytes: int = int32("0+", default=0)
    max_bytes: int = int32("3+", default=2147483647, ignorable=True)
    isolation_level: int = int8("4+", default=0, ignorable=True)
    session_id: int = int32("7+", default=0, ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic, "0+", default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+", default_factory=list)
    rack_id: str = string("11+", default="", ignorable=True)
