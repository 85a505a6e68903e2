"""ExpireDelegationTokenRequest: request, API key 40, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, binary, int64


class ExpireDelegationTokenRequest(Message, kind="request", versions="0-2", flexible="2+", api_key=40):
    hmac: bytes = binary("0+", default=b"")
    expiry_time_period_ms: int = int64("0+", default=0)
