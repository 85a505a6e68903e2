"""The page of durability: what is lost if a broker dies now, who is the last replica standing, who may be restarted.

Decides form only: the verdicts are `kavka.client.durability`'s, of the snapshot that the page shows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from starlette.routing import Route

from kavka.client.durability import Health
from kavka.console.look.replica_history import health_of, risks_of
from kavka.console.look.view import cut, links

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console
    from kavka.observe.snapshot import PartitionView

NAMED: Final = 12
"""Partitions that a broker's row names."""
Judged: TypeAlias = "tuple[PartitionView, Health]"
ORDER: Final = {health: place for place, health in enumerate(Health)}


def routes(console: Console) -> list[Route]:
    async def durability(request: Request) -> Response:
        return _durability(console, request)

    return [Route("/c/{cluster}/durability", durability)]


def _durability(console: Console, request: Request) -> Response:
    snapshot = console.cluster(request).snapshot
    judged = [(each, health_of(each)) for each in snapshot.partitions() if each.is_under_replicated or each.is_offline]
    internal = {topic.name for topic in snapshot.topics.values() if topic.is_internal}
    judged = worst_topics_first(judged, internal)
    alone = sum(len(each.replicas) == 1 for each in snapshot.partitions())
    page = cut(judged, request)
    return console.show(
        request,
        "durability.html",
        section="durability",
        snapshot=snapshot,
        risks=risks_of(snapshot),
        rows=page,
        by_topic=_by_topic(page.items),
        internal=internal,
        affected={topic: len(some) for topic, some in _by_topic(judged).items()},
        unreplicated_topics=sorted(
            topic.name for topic in snapshot.topics.values() if topic.replication_factor == 1 and not topic.is_internal
        ),
        alone=alone,
        named=NAMED,
        link=links(request),
    )


def worst_topics_first(judged: Sequence[Judged], internal: Collection[str]) -> list[Judged]:
    """By topic: one's own before internal ones, those first that are worst off, and of each its worst partitions."""
    worst = {topic: min(ORDER[health] for _, health in some) for topic, some in _by_topic(judged).items()}
    return sorted(
        judged,
        key=lambda pair: (
            pair[0].topic in internal,
            worst[pair[0].topic],
            pair[0].topic,
            ORDER[pair[1]],
            pair[0].partition,
        ),
    )


def _by_topic(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """In the order in which they come."""
    found: dict[str, list[Judged]] = {}
    for each in judged:
        found.setdefault(each[0].topic, []).append(each)
    return found
