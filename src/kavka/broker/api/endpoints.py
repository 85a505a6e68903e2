"""Where clients reach the live brokers: each through the listener that its own request came in through.

Not an API: every answer that names brokers shares it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.model import BrokerId
    from kavka.protocol.connection import Request


class NodeAddress(NamedTuple):
    """Where a client of one listener reaches broker `node_id`."""

    node_id: BrokerId
    host: str
    port: int
    rack: str | None


def reachable_brokers(metadata: MetadataCache, request: Request) -> Iterator[NodeAddress]:
    """The live brokers that have the request's listener."""
    listener = request.context.listener_name
    for broker in metadata.brokers():
        endpoint = broker.endpoints.get(listener)
        if endpoint is not None:
            yield NodeAddress(broker.broker_id, endpoint.host, endpoint.port, broker.rack)


def address_of(metadata: MetadataCache, request: Request, broker_id: int) -> NodeAddress | None:
    """Where the client reaches that broker. None: the broker is not alive, or does not have the request's listener."""
    for address in reachable_brokers(metadata, request):
        if address.node_id == broker_id:
            return address
    return None


def addresses_of(metadata: MetadataCache, request: Request, broker_ids: Iterable[int]) -> list[NodeAddress]:
    """Where the client reaches those of the brokers that it can reach, by their ids."""
    wanted = set(broker_ids)
    if not wanted:
        return []  # Nearly every answer.
    found = [address for address in reachable_brokers(metadata, request) if address.node_id in wanted]
    return sorted(found, key=lambda address: address.node_id)
