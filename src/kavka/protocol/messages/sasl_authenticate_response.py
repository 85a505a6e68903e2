"""SaslAuthenticateResponse: response, API key 36, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, binary, int16, int64, string


class SaslAuthenticateResponse(Message, kind="response", versions="0-2", flexible="2+", api_key=36):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    auth_bytes: bytes = binary("0+", default=b"")
    session_lifetime_ms: int = int64("1+", default=0, ignorable=True)
