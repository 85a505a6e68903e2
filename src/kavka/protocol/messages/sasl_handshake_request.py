"""SaslHandshakeRequest: request, API key 17, versions 0-1, never flexible.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class SaslHandshakeRequest(Message, kind="request", versions="0-1", api_key=17):
    mechanism: str = string("0+", default="")
