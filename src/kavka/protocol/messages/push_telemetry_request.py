"""PushTelemetryRequest: request, API key 72, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, binary, boolean, int8, int32, uuid


class PushTelemetryRequest(Message, kind="request", versions="0", flexible="0+", api_key=72):
    client_instance_id: UUID = uuid("0+", default=ZERO_UUID)
    subscription_id: int = int32("0+", default=0)
    terminating: bool = boolean("0+", default=False)
    compression_type: int = int8("0+", default=0)
    metrics: bytes = binary("0+", default=b"")
