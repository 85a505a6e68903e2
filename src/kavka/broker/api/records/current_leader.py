"""Who leads now, for answers that send a client elsewhere (KIP-951). Not an API: produce and fetch share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kavka.model import NO_EPOCH, NO_LEADER, BrokerId, LeaderAndIsr

if TYPE_CHECKING:
    from kavka.broker.assembly.broker import Broker
    from kavka.protocol.connection import Request


class LeaderEndpoint(NamedTuple):
    """Where a client of the request's listener reaches broker `node_id`."""

    node_id: BrokerId
    host: str
    port: int
    rack: str | None


def leader_of(broker: Broker, topic: str, index: int) -> LeaderAndIsr:
    """The leader that this broker knows of; -1 and epoch -1 where it knows none."""
    hosted = broker.replicas.partition(topic, index)
    if hosted is not None and hosted.leader_epoch >= 0:
        return hosted.state
    published = broker.metadata.partition(topic, index)
    return LeaderAndIsr(NO_LEADER, NO_EPOCH, (), -1) if published is None else published.state


def node_endpoint(broker: Broker, request: Request, broker_id: int) -> LeaderEndpoint | None:
    """Where that broker is reached by who came in through the request's listener; None if it is not alive."""
    for metadata in broker.metadata.brokers():
        if metadata.broker_id == broker_id:
            endpoint = metadata.endpoints.get(request.context.listener_name)
            if endpoint is not None:
                return LeaderEndpoint(metadata.broker_id, endpoint.host, endpoint.port, metadata.rack)
    return None
