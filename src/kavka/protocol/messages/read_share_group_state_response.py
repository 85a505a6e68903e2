"""ReadShareGroupStateResponse: response, API key 84, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int8, int16, int32, int64, string, uuid


class StateBatch(Struct):
    first_offset: int = int64("0+", default=0)
    last_offset: int = int64("0+", default=0)
    delivery_state: int = int8("0+", default=0)
    delivery_count: int = int16("0+", default=0)


class PartitionResult(Struct):
    partition: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    state_epoch: int = int32("0+", default=0)
    start_offset: int = int64("0+", default=0)
    state_batches: list[StateBatch] = array(StateBatch, "0+", default_factory=list)


class ReadStateResult(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = array(PartitionResult, "0+", default_factory=list)


class ReadShareGroupStateResponse(Message, kind="response", versions="0", flexible="0+", api_key=84):
    results: list[ReadStateResult] = array(ReadStateResult, "0+", default_factory=list)
