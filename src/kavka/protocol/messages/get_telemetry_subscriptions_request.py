"""GetTelemetrySubscriptionsRequest: request, API key 71, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, uuid


class GetTelemetrySubscriptionsRequest(Message, kind="request", versions="0", flexible="0+", api_key=71):
    client_instance_id: UUID = uuid("0+", default=ZERO_UUID)
