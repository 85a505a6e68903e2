"""ReadShareGroupStateSummaryResponse: response, API key 87, versions 0-1, flexible from 0.

Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, int64, string, struct, uuid


class PartitionResult(Struct):
    partition: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    state_epoch: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    start_offset: int = int64("0+", default=0)
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = array(PartitionResult, "0+", default_factory=list)


class KavkaStatesWithDueLetters(Struct):
    state_partitions: list[int] = array("int32", "0+", default_factory=list)
    group_ids: list[str] = array("string", "0+", default_factory=list)


class ReadShareGroupStateSummaryResponse(Message, kind="response", versions="0-1", flexible="0+", api_key=87):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult, "0+", default_factory=list)
    kavka_due_letters: KavkaStatesWithDueLetters | None = struct(
        KavkaStatesWithDueLetters, "0+", tag=10000, default=None, ignorable=True
    )
