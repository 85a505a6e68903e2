"""A cluster's history and decisions as the charts and time lines of pages.

Decides which series a page draws and over which time. What is asked of the store is one reading for each line; a store
that fails costs its chart, not the page.

    I1  a chart says so where nothing was kept
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from markupsafe import Markup

from kavka.console.history import Series
from kavka.console.look import charts
from kavka.console.look.decision_text import DecisionText, describe_folded, essential, fold, of_broker
from kavka.console.look.replica_history import IsrState, spans, states_from, up_to_now
from kavka.decisions import DecisionKind
from kavka.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from kavka.console.clusters import ClusterWatch
    from kavka.console.look.charts import Look
    from kavka.observe.snapshot import PartitionView

SPANS: Final = {"15m": 15 * 60_000, "1h": 3_600_000, "6h": 6 * 3_600_000, "24h": 86_400_000, "7d": 7 * 86_400_000}
DEFAULT_SPAN: Final = "15m"
TOLD: Final = 12
"""Decisions on a page that is about something else."""
MOST_LOOKED_AT: Final = 5_000
MOST_FOLDED: Final = 500
"""Decisions out of which those are chosen."""


MOST_DIGITS: Final = 15
"""Of a time in an address."""


class Window(NamedTuple):
    """The time that a page's charts show."""

    name: str
    since_ms: int
    until_ms: int
    is_fixed: bool = False
    """It ends at the time of the link, and stays there: a colleague sees the same."""


def window_of(request: Request) -> Window:
    """What the query's `span` says, a quarter of an hour without it; up to now, or up to its `until` (ms)."""
    name = request.query_params.get("span", "")
    if name not in SPANS:
        name = DEFAULT_SPAN
    now_ms = time.time_ns() // 1_000_000
    said = request.query_params.get("until", "")
    if said.isdecimal() and len(said) <= MOST_DIGITS and int(said) < now_ms:
        return Window(name, int(said) - SPANS[name], int(said), is_fixed=True)
    return Window(name, now_ms - SPANS[name], now_ms)


async def chart(
    watch: ClusterWatch,
    title: str,
    lines: Sequence[tuple[str, Series, str]],
    look: Look,
    window: Window,
    *,
    unit: str,
) -> Markup:
    """Lines (name, series, its object) over the window."""
    drawn = []
    for name, series, of in lines[: charts.MAX_SERIES]:
        try:
            points = await watch.history.series(series, of, since_ms=window.since_ms, until_ms=window.until_ms)
        except StorageError:
            points = []
        drawn.append(charts.Series(name, [(point.at_ms, point.value) for point in points]))
    return charts.lines(title, drawn, look, unit=unit)


async def spark(watch: ClusterWatch, title: str, series: Series, window: Window) -> Markup:
    try:
        points = await watch.history.series(series, since_ms=window.since_ms, until_ms=window.until_ms, points=60)
    except StorageError:
        return Markup("")
    return charts.spark(title, [(point.at_ms, point.value) for point in points])


async def membership(watch: ClusterWatch, view: PartitionView, look: Look, window: Window) -> Markup:
    """Who led, who was in sync and who was not, from the brokers' decisions or from what the console saw."""
    snapshot, made_ms = watch.snapshot, _made_ms(watch, view.topic)
    states = states_from(watch.decisions.recent(limit=MOST_LOOKED_AT, partition=view.name), made_ms=made_ms)
    if not states:
        states = await _seen(watch, view, window)
    states = [state for state in states if state.at_ms >= made_ms]
    now = IsrState(window.until_ms, view.leader, frozenset(view.in_sync_replicas))
    # A cluster that tells its decisions tells all changes since the topic was made.
    observed_ms = made_ms or (snapshot.state_since_ms if snapshot.is_reachable else window.until_ms)
    states = up_to_now(states, now, observed_since_ms=observed_ms)
    everybody = dict.fromkeys([*view.replicas, *(each for state in states for each in sorted(state.isr or ()))])
    rows = spans(states, list(everybody), look, from_ms=window.since_ms, until_ms=window.until_ms)
    title = str(look.translate("In-sync replicas of {partition}", partition=str(view.name)))
    return charts.membership(title, rows, look, from_ms=window.since_ms, until_ms=window.until_ms)


def _made_ms(watch: ClusterWatch, topic: str) -> int:
    """When the topic was made, as the brokers recorded it; 0 where they did not."""
    found = watch.decisions.recent(
        limit=1,
        matches=lambda each: (
            each.decision.kind is DecisionKind.TOPIC_CREATED and each.decision.evidence.get("topic") == topic
        ),
    )
    return found[0].decision.at_ms if found else 0


async def _seen(watch: ClusterWatch, view: PartitionView, window: Window) -> list[IsrState]:
    """From the metadata that the console read again and again: its times are those of its readings."""
    try:
        changes = await watch.history.isr_changes(view.name, since_ms=window.since_ms, until_ms=window.until_ms)
    except StorageError:
        return []
    if not changes:
        return []
    first = changes[0]
    before = IsrState(window.since_ms, first.leader_before, frozenset(first.in_sync_before))
    return [before, *(IsrState(each.at_ms, each.leader, frozenset(each.in_sync)) for each in changes)]


def decision_texts(
    watch: ClusterWatch,
    look: Look,
    *,
    limit: int = TOLD,
    topic: str | None = None,
    broker: int | None = None,
    group: str | None = None,
) -> list[DecisionText] | None:
    """What was decided about one thing, or about all; None if the cluster publishes no decisions."""
    if not len(watch.decisions) and watch.decisions.reading.unknown_because:
        return None
    if broker is not None:
        found = of_broker(watch.decisions.recent(limit=MOST_LOOKED_AT), broker)
    elif topic is not None:
        found = watch.decisions.recent(
            limit=MOST_FOLDED,
            matches=lambda each: (
                each.decision.evidence.get("topic") == topic
                or (each.decision.partition is not None and each.decision.partition.topic == topic)
            ),
        )
    else:
        found = watch.decisions.recent(limit=MOST_FOLDED, group=group)
    return describe_folded(fold(essential(found[:MOST_FOLDED]))[:limit], watch.name, look)
