"""TxnOffsetCommitRequest: request, API key 28, versions 0-5, flexible from 3.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, int64, string


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+", default=0)
    committed_offset: int = int64("0+", default=0)
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string("0+", nullable="0+", default="")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[TxnOffsetCommitRequestPartition] = array(
        TxnOffsetCommitRequestPartition, "0+", default_factory=list
    )


class TxnOffsetCommitRequest(Message, kind="request", versions="0-5", flexible="3+", api_key=28):
    transactional_id: str = string("0+", default="")
    group_id: str = string("0+", default="")
    producer_id: int = int64("0+", default=0)
    producer_epoch: int = int16("0+", default=0)
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+", default_factory=list)
