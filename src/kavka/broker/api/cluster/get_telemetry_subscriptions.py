"""GetTelemetrySubscriptions (key 71): which of its metrics a client must push, and how often (KIP-714).

Behaviour   The rules are in `broker.telemetry.client_telemetry`. Administrators make subscriptions, as settings of
            client metrics. A client that fits none is asked for no metrics, and asks again after five minutes. Clients
            push deltas.
Versions    0. Apache Kafka 3.9 on ZooKeeper does not serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.cluster.client_identity import identity_of
from kavka.broker.telemetry.client_telemetry import ACCEPTED_COMPRESSION
from kavka.errors import RequestError
from kavka.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kavka.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ClusterBroker, request: Request, message: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    try:
        assigned = broker.telemetry().subscribe(
            message.client_instance_id, identity_of(request, message.client_instance_id), broker.replicas.now_ms()
        )
    except RequestError as refused:
        return GetTelemetrySubscriptionsResponse(error_code=refused.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=assigned.client_instance_id,
        subscription_id=assigned.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_COMPRESSION],
        push_interval_ms=assigned.interval_ms,
        telemetry_max_bytes=broker.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(assigned.metrics),
    )
