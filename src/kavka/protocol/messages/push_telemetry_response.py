"""PushTelemetryResponse: response, API key 72, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16, int32


class PushTelemetryResponse(Message, kind="response", versions="0", flexible="0+", api_key=72):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
