"""AddOffsetsToTxnResponse: response, API key 25, versions 0-4, flexible from 3.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16, int32


class AddOffsetsToTxnResponse(Message, kind="response", versions="0-4", flexible="3+", api_key=25):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
