"""DeleteShareGroupStateResponse: response, API key 86, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, uuid


class PartitionResult(Struct):
    partition: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)


class DeleteStateResult(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = array(PartitionResult, "0+", default_factory=list)


class DeleteShareGroupStateResponse(Message, kind="response", versions="0", flexible="0+", api_key=86):
    results: list[DeleteStateResult] = array(DeleteStateResult, "0+", default_factory=list)
