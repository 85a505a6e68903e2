"""PushTelemetry (key 72): metrics of a client, in OpenTelemetry's form (KIP-714).

Behaviour   The rules are in `broker.telemetry.client_telemetry`: the broker decompresses the metrics, up to
            telemetry.max.bytes, counts them, and hands them to the host's exporter.
Versions    0. Apache Kafka 3.9 on ZooKeeper does not serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.cluster.client_identity import identity_of
from kavka.broker.telemetry.client_telemetry import CompressedPush
from kavka.errors import RequestError
from kavka.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kavka.protocol.messages.push_telemetry_response import PushTelemetryResponse

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request


def handle(broker: ClusterBroker, request: Request, message: PushTelemetryRequest) -> PushTelemetryResponse:
    try:
        broker.telemetry().push(
            message.client_instance_id,
            identity_of(request, message.client_instance_id),
            broker.replicas.now_ms(),
            CompressedPush(message.subscription_id, message.terminating, message.compression_type, message.metrics),
        )
    except RequestError as refused:
        return PushTelemetryResponse(error_code=refused.code)
    return PushTelemetryResponse()
