"""BrokerRegistrationResponse: response, API key 62, versions 0-4, flexible from 0.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16, int32, int64


class BrokerRegistrationResponse(Message, kind="response", versions="0-4", flexible="0+", api_key=62):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
