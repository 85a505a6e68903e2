"""The pages of topics: all of them, and one with its partitions, its settings, who reads it, and what was decided.

Decides what is said of a topic and of a partition, and which partitions come first: nothing is where all is well, so
that a look finds what is not. Must not know how any of it was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.routing import Route

from kavka.client.durability import Health
from kavka.console.access.route_rights import rights_of
from kavka.console.console import absent
from kavka.console.history import Series
from kavka.console.look import history_charts
from kavka.console.look.replica_history import health_of
from kavka.console.look.view import cut, judged, links, look_of, number, ordered, search
from kavka.console.rights import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console
    from kavka.observe.snapshot import ClusterSnapshot, PartitionView, TopicView

UNHEALTHY: Final = "unhealthy"
_COLUMNS: Final[dict[str, Callable[[TopicView], Any]]] = {
    "name": lambda topic: topic.name,
    "partitions": lambda topic: topic.partition_count,
    "replication": lambda topic: topic.replication_factor,
    "out": lambda topic: (topic.offline, topic.under_min_isr, topic.under_replicated),
    "records": lambda topic: topic.record_count,
    "size": lambda topic: topic.size_bytes,
    "rate": lambda topic: topic.in_records_per_s,
    "bytes": lambda topic: topic.in_bytes_per_s,
}
_PARTITION_COLUMNS: Final[dict[str, Callable[[PartitionView], Any]]] = {
    "partition": lambda each: each.partition,
    "leader": lambda each: each.leader,
    "epoch": lambda each: each.leader_epoch,
    "out": lambda each: (each.is_offline, len(each.out_of_sync)),
    "records": lambda each: each.record_count,
    "end": lambda each: each.log_end_offset,
    "size": lambda each: each.size_bytes,
}


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition with what is said of it."""

    view: PartitionView
    health: Health

    @property
    def log_end_offset(self) -> int | None:
        """The leader's, which is never below the high watermark: the two were read one after the other."""
        known = [each for each in (self.view.log_end_offset, self.view.high_watermark) if each is not None]
        return max(known, default=None)

    @property
    def level(self) -> str:
        return LEVELS[self.health]


LEVELS: Final = {
    Health.OFFLINE: "bad",
    Health.BLOCKED: "bad",
    Health.LAST_REPLICA: "bad",
    Health.AT_LIMIT: "warn",
    Health.UNDER_REPLICATED: "warn",
    Health.FULL: "ok",
}


def routes(console: Console) -> list[Route]:
    async def topics(request: Request) -> Response:
        return _topics(console, request)

    async def topic(request: Request) -> Response:
        return await _topic(console, request)

    return [Route("/c/{cluster}/topics", topics), Route("/c/{cluster}/topics/{topic}", topic)]


def _topics(console: Console, request: Request) -> Response:
    watch, rights = console.cluster(request), rights_of(request)
    seen = [topic for topic in watch.snapshot.topics.values() if rights.on_topic(watch.name, topic.name, Role.VIEWER)]
    wanted = search(request)
    internal = request.query_params.get("internal") == "1"
    only = request.query_params.get("only", "")
    found = [
        topic
        for topic in seen
        if (internal or not topic.is_internal)
        and wanted.lower() in topic.name.lower()
        and (only != UNHEALTHY or topic.under_replicated or topic.offline)
    ]
    items, sort, order = ordered(found, request, _COLUMNS, "name")
    if sort == "name":
        items = sorted(items, key=lambda topic: topic.is_internal)
    return console.show(
        request,
        "topics.html",
        section="topics",
        topics=cut(items, request),
        q=wanted,
        internal=internal,
        only=only,
        sort=sort,
        order=order,
        link=links(request),
        hidden=sum(topic.is_internal for topic in seen) if not internal else 0,
    )


class Missing(NamedTuple):
    """Brokers whose replicas of a topic are out of sync."""

    dead: list[int]
    alive: list[int]


def missing_of(topic: TopicView, snapshot: ClusterSnapshot) -> Missing:
    behind = sorted({broker for each in topic.partitions for broker in each.out_of_sync})
    alive = {broker.broker_id for broker in snapshot.alive_brokers}
    return Missing([each for each in behind if each not in alive], [each for each in behind if each in alive])


async def _topic(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    name = request.path_params["topic"]
    found = watch.snapshot.topics.get(name)
    if found is None:
        raise absent(watch, f"There is no topic {name!r} in {watch.name}, or the console has not read it yet.")
    only = request.query_params.get("only", "")
    partitions: Sequence[PartitionView] = found.partitions
    if only == UNHEALTHY:
        partitions = [each for each in partitions if each.is_under_replicated or each.is_offline]
    items, sort, order = ordered(partitions, request, _PARTITION_COLUMNS, "partition", is_in_order=True)
    page = judged(cut(items, request), lambda each: PartitionRow(each, health_of(each)))
    unhealthy = 0
    if found.under_replicated:
        unhealthy = next((each.partition for each in found.partitions if each.is_under_replicated), 0)
    chosen = min(number(request, "partition", unhealthy), max(found.partition_count - 1, 0))
    readers = [group for group in watch.snapshot.groups.values() if name in group.topics]
    look, window = look_of(request), history_charts.window_of(request)
    _ = look.translate
    lines = [(str(_("records in")), Series.TOPIC_RECORDS_IN, name)], [(str(_("bytes in")), Series.TOPIC_BYTES_IN, name)]
    return console.show(
        request,
        "topic.html",
        section="topics",
        topic=found,
        rows=page,
        only=only,
        sort=sort,
        order=order,
        link=links(request),
        chosen=chosen,
        readers=readers,
        missing=missing_of(found, watch.snapshot),
        window=window,
        membership=await history_charts.membership(watch, found.partitions[chosen], look, window)
        if found.partitions
        else None,
        stories=history_charts.decision_texts(watch, look, topic=name),
        charts=[
            await history_charts.chart(watch, str(_("Records in")), lines[0], look, window, unit="records/s"),
            await history_charts.chart(watch, str(_("Bytes in")), lines[1], look, window, unit="B/s"),
        ],
    )
