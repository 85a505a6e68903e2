"""The pages of groups: all of them with their lag, and one: members, partitions, lag over time, records in flight.

Decides what is said of a group, which one is probably a Spark streaming query, and how many runs of a share group's
records are shown. Must not know how lag was read.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.routing import Route

from kavka.console.console import absent
from kavka.console.history import Series
from kavka.console.look import history_charts
from kavka.console.look.record_band import band
from kavka.console.look.view import cut, links, look_of, ordered, search

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.client.share_group_admin import RecordRun
    from kavka.console.console import Console
    from kavka.model import TopicPartition
    from kavka.observe.snapshot import GroupOffset, GroupView

SPARK_GROUP: Final = re.compile(r"spark-kafka-(source|relation|batch)-|spark-kavka-|kavka-spark-")
"""How streaming queries of Spark name their groups: the official connector, and kavka's source."""
LAGGING: Final = "lagging"
SHOWN_RUNS: Final = 200
_COLUMNS: Final[dict[str, Callable[[GroupView], Any]]] = {
    "group": lambda group: group.group_id,
    "state": lambda group: group.state,
    "members": lambda group: len(group.members),
    "topics": lambda group: len(group.topics),
    "lag": lambda group: group.lag,
    "late": lambda group: lag_ms(group),
}
_OFFSET_COLUMNS: Final[dict[str, Callable[[GroupOffset], Any]]] = {
    "partition": lambda each: each.partition,
    "committed": lambda each: each.committed,
    "lag": lambda each: each.lag,
    "late": lambda each: each.lag_ms,
    "member": lambda each: each.member_id or "",
}


def routes(console: Console) -> list[Route]:
    async def groups(request: Request) -> Response:
        return _groups(console, request)

    async def group(request: Request) -> Response:
        return await _group(console, request)

    return [Route("/c/{cluster}/groups", groups), Route("/c/{cluster}/groups/{group:path}", group)]


def lag_ms(group: GroupView) -> int | None:
    """How late its latest partition is; None where that is not known of any."""
    return max((each.lag_ms for each in group.offsets if each.lag_ms is not None), default=None)


def is_streaming_query(group: GroupView) -> bool:
    return SPARK_GROUP.match(group.group_id) is not None


class _ShownRun(NamedTuple):
    """A run of a share group's records. `client` is its holder's, None where that is no longer a member."""

    partition: TopicPartition
    run: RecordRun
    client: str | None


def _runs(group: GroupView) -> tuple[list[_ShownRun], int]:
    """The first runs, and how many there are besides."""
    clients = {member.member_id: member.client_id for member in group.members}
    records = group.records or {}
    runs = [
        _ShownRun(partition, run, clients.get(run.member_id or ""))
        for partition, each in records.items()
        for run in each.runs
    ]
    shown = runs[:SHOWN_RUNS]
    return shown, sum(each.run_count for each in records.values()) - len(shown)


def _groups(console: Console, request: Request) -> Response:
    snapshot = console.cluster(request).snapshot
    wanted, only = search(request), request.query_params.get("only", "")
    found = [
        group
        for group in snapshot.groups.values()
        if wanted.lower() in group.group_id.lower() and (only != LAGGING or group.lag)
    ]
    items, sort, order = ordered(found, request, _COLUMNS, "group")
    return console.show(
        request,
        "groups.html",
        section="groups",
        groups=cut(items, request),
        q=wanted,
        only=only,
        sort=sort,
        order=order,
        link=links(request),
        lag_ms=lag_ms,
        stuck_ms=console.settings.thresholds.stuck_ms,
        is_streaming_query=is_streaming_query,
    )


async def _group(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    name = request.path_params["group"]
    found = watch.snapshot.groups.get(name)
    if found is None:
        raise absent(watch, f"There is no group {name!r} in {watch.name}, or the console has not read it yet.")
    look, window = look_of(request), history_charts.window_of(request)
    _ = look.translate
    items, sort, order = ordered(found.offsets, request, _OFFSET_COLUMNS, "partition")
    lines = [(str(_("all topics")), Series.GROUP_LAG, name)]
    if len(found.topics) > 1:
        lines += [(topic, Series.GROUP_TOPIC_LAG, f"{name}/{topic}") for topic in found.topics]
    late = [(str(_("behind")), Series.GROUP_LAG_MS, name)]
    runs, more_runs = _runs(found)
    lag_title = _("Records not done") if found.is_share else _("Lag: records not yet read")
    return console.show(
        request,
        "group.html",
        section="groups",
        group=found,
        rows=cut(items, request),
        sort=sort,
        order=order,
        link=links(request),
        window=window,
        late_ms=lag_ms(found),
        stuck_ms=console.settings.thresholds.stuck_ms,
        is_streaming_query=is_streaming_query(found),
        runs=runs,
        more_runs=more_runs,
        bands={place: band(each, str(_("Records in flight"))) for place, each in (found.records or {}).items()},
        readers=Counter(place for member in found.members for place in member.assignment),
        charts=[
            await history_charts.chart(watch, str(lag_title), lines, look, window, unit="records"),
            await history_charts.chart(watch, str(_("Lag in time")), late, look, window, unit="ms"),
        ],
        stories=history_charts.decision_texts(watch, look, group=name),
    )
