"""EnvelopeResponse: response, API key 58, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, binary, int16


class EnvelopeResponse(Message, kind="response", versions="0", flexible="0+", api_key=58):
    response_data: bytes | None = binary("0+", nullable="0+", default=None)
    error_code: int = int16("0+", default=0)
