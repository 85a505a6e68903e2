"""GetTelemetrySubscriptionsResponse: response, API key 71, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, array, boolean, int16, int32, uuid


class GetTelemetrySubscriptionsResponse(Message, kind="response", versions="0", flexible="0+", api_key=71):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    client_instance_id: UUID = uuid("0+", default=ZERO_UUID)
    subscription_id: int = int32("0+", default=0)
    accepted_compression_types: list[int] = array("int8", "0+", default_factory=list)
    push_interval_ms: int = int32("0+", default=0)
    telemetry_max_bytes: int = int32("0+", default=0)
    delta_temporality: bool = boolean("0+", default=False)
    requested_metrics: list[str] = array("string", "0+", default_factory=list)
