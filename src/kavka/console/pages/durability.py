"""The page of durability: what is lost if a broker dies now, who is the last replica standing, who may be restarted.

Decides form only: the verdicts are `kavka.client.durability`'s, of the snapshot that the page shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from kavka.client.durability import Health
from kavka.console.look.replica_history import health_of, risks_of
from kavka.console.look.view import cut, links

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

NAMED: Final = 12
"""Partitions that a broker's row names."""
ORDER: Final = {health: place for place, health in enumerate(Health)}


def routes(console: Console) -> list[Route]:
    async def durability(request: Request) -> Response:
        return _durability(console, request)

    return [Route("/c/{cluster}/durability", durability)]


def _durability(console: Console, request: Request) -> Response:
    snapshot = console.cluster(request).snapshot
    judged = [(each, health_of(each)) for each in snapshot.partitions() if each.is_under_replicated or each.is_offline]
    judged.sort(key=lambda pair: (ORDER[pair[1]], pair[0].name))
    alone = sum(len(each.replicas) == 1 for each in snapshot.partitions())
    return console.show(
        request,
        "durability.html",
        section="durability",
        snapshot=snapshot,
        risks=risks_of(snapshot),
        rows=cut(judged, request),
        unreplicated_topics=sorted(
            topic.name for topic in snapshot.topics.values() if topic.replication_factor == 1 and not topic.is_internal
        ),
        alone=alone,
        named=NAMED,
        link=links(request),
    )
