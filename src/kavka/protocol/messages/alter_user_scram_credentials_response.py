"""AlterUserScramCredentialsResponse: response, API key 51, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class AlterUserScramCredentialsResult(Struct):
    user: str = string("0+", default="")
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")


class AlterUserScramCredentialsResponse(Message, kind="response", versions="0", flexible="0+", api_key=51):
    throttle_time_ms: int = int32("0+", default=0)
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+", default_factory=list)
