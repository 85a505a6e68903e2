"""DeleteTopicsRequest: request, API key 20, versions 0-6, flexible from 4.

Apache Kafka 3.9.2: 0-6; Apache Kafka 4.3.1: 1-6.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int32, string, uuid


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: UUID = uuid("6+", default=ZERO_UUID)


class DeleteTopicsRequest(Message, kind="request", versions="0-6", flexible="4+", api_key=20):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+", default_factory=list)
    topic_names: list[str] = array("string", "0-5", default_factory=list, ignorable=True)
    timeout_ms: int = int32("0+", default=0)
