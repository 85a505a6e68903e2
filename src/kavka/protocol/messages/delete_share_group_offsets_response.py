"""DeleteShareGroupOffsetsResponse: response, API key 92, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, uuid


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string("0+", default="")
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Message, kind="response", versions="0", flexible="0+", api_key=92):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic, "0+", default_factory=list
    )
