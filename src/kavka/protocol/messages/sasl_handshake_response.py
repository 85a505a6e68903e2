"""SaslHandshakeResponse: response, API key 17, versions 0-1, never flexible.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, int16


class SaslHandshakeResponse(Message, kind="response", versions="0-1", api_key=17):
    error_code: int = int16("0+", default=0)
    mechanisms: list[str] = array("string", "0+", default_factory=list)
