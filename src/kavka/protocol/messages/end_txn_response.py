"""EndTxnResponse: response, API key 26, versions 0-5, flexible from 3.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16, int32, int64


class EndTxnResponse(Message, kind="response", versions="0-5", flexible="3+", api_key=26):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
