"""CreatePartitionsResponse: response, API key 37, versions 0-3, flexible from 2.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 0-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class CreatePartitionsTopicResult(Struct):
    name: str = string("0+", default="")
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message, kind="response", versions="0-3", flexible="2+", api_key=37):
    throttle_time_ms: int = int32("0+", default=0)
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+", default_factory=list)
