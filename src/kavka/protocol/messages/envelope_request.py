"""EnvelopeRequest: request, API key 58, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, binary


class EnvelopeRequest(Message, kind="request", versions="0", flexible="0+", api_key=58):
    request_data: bytes = binary("0+", default=b"")
    request_principal: bytes | None = binary("0+", nullable="0+", default=b"")
    client_host_address: bytes = binary("0+", default=b"")
