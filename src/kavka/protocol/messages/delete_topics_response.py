"""DeleteTopicsResponse: response, API key 20, versions 0-6, flexible from 4.

Apache Kafka 3.9.2: 0-6; Apache Kafka 4.3.1: 1-6.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, uuid


class DeletableTopicResult(Struct):
    name: str | None = string("0+", nullable="6+", default="")
    topic_id: UUID = uuid("6+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message, kind="response", versions="0-6", flexible="4+", api_key=20):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+", default_factory=list)
