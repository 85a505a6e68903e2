"""The wall: all clusters with their scores; and the overview of one: score, failed checks, plots, recent decisions.

Decides what a look must find first: the score, what failed, on which object, by which evidence, and what to do. Must
not know how a check decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import RedirectResponse
from starlette.routing import Route

from kavka.console.access.route_rights import sees_all
from kavka.console.history import Series
from kavka.console.look import history_charts
from kavka.console.look.failures import failure
from kavka.console.look.format import path_part
from kavka.console.look.health_text import finding_link, level_of, say
from kavka.console.look.view import links, look_of
from kavka.console.pages.groups import is_streaming_query

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

SPARKS: Final = 12
"""Clusters on the wall with a line of their throughput: each is a reading of the history."""


def install(console: Console) -> None:
    console.templates.globals.update(level_of=level_of, finding_link=finding_link, say=say, failure=failure)


def routes(console: Console) -> list[Route]:
    async def wall(request: Request) -> Response:
        return await _wall(console, request)

    async def overview(request: Request) -> Response:
        return await _overview(console, request)

    async def with_slash(request: Request) -> Response:
        return RedirectResponse(f"/c/{path_part(console.cluster(request).name)}/", 307)

    return [Route("/", wall), Route("/c/{cluster}/", overview), Route("/c/{cluster}", with_slash)]


async def _wall(console: Console, request: Request) -> Response:
    look, window = look_of(request), history_charts.window_of(request)
    title = str(look.translate("Records in, the last quarter of an hour"))
    found = console.visible_to(request)
    sparks = {
        watch.name: await history_charts.spark(watch, title, Series.CLUSTER_RECORDS_IN, window)
        for watch in found[:SPARKS]
        if sees_all(request, watch.name)
    }
    return console.render(request, "wall.html", watches=found, sparks=sparks)


async def _overview(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    if not sees_all(request, watch.name):
        return RedirectResponse(f"/c/{path_part(watch.name)}/topics", 303)
    look, window = look_of(request), history_charts.window_of(request)
    _ = look.translate
    snapshot = watch.snapshot
    busy = sorted(snapshot.topics.values(), key=lambda topic: -(topic.in_bytes_per_s or 0))
    # A Spark query commits nothing: its offsets are in its checkpoint, and counting from the log's start says nothing.
    lags = [
        group for group in snapshot.groups.values() if group.lag and (group.commits or not is_streaming_query(group))
    ]
    lagging = sorted(lags, key=lambda group: -(group.lag or 0))
    traffic = (
        (_("Records in"), Series.CLUSTER_RECORDS_IN, "records/s"),
        (_("Bytes in"), Series.CLUSTER_BYTES_IN, "B/s"),
    )
    trouble = ((_("Partitions out of sync"), Series.UNDER_REPLICATED, ""), (_("Health score"), Series.HEALTH, ""))
    plots = (*trouble, *traffic) if watch.health is not None and watch.health.failed else (*traffic, *trouble)
    return console.show(
        request,
        "overview.html",
        section="",
        report=watch.health,
        window=window,
        link=links(request),
        busy=[topic for topic in busy if topic.in_bytes_per_s][:5],
        lagging=lagging[:5],
        charts=[
            await history_charts.chart(watch, str(title), [(str(title), series, "")], look, window, unit=unit)
            for title, series, unit in plots
        ],
        stories=history_charts.decision_texts(watch, look),
    )
