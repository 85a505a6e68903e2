"""`kavka top`: brokers, topics and groups of a cluster as they are now, in a terminal, again and again.

Decides which rows are shown (the busiest topics, the groups that lag most) and how many fit. Must not know how a
cluster is read (observe.watcher). Works without the console's extra.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.cluster.health import cluster_settings
from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json, Metrics, ZooKeeper
from kavka.cli.output import FAILED, INTERRUPTED, Failure, Table, counted, show, show_json

if TYPE_CHECKING:
    from rich.console import Group

    from kavka.observe.cluster_settings import ClusterSettings
    from kavka.observe.snapshot import ClusterSnapshot

app = CommandLine()


POLL_MS = 1_000
ROWS_ONCE = 50
LEAST_ROWS = 3
FRAME_LINES = 12
"""Headings and blank lines around the rows."""
GAP = 2
"""Blanks between two columns."""
SPARED = ("address", "most behind", "bytes/s", "members", "bytes", "replicas", "records", "in/s", "partitions", "leads")
"""Columns that a narrow terminal does without, the first one first: a number that is cut is none."""


@app.command("top")
def top(
    once: Annotated[bool, typer.Option("--once", help="Print once, and end.")] = False,
    every_s: Annotated[
        float, typer.Option("--every", min=0.25, max=60, metavar="SECONDS", help="Seconds between refreshes.")
    ] = 1.0,
    zookeeper: ZooKeeper = None,
    metrics: Metrics = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Watch brokers, busy topics and groups that lag.

    The view refreshes until Ctrl-C. In a pipe, or where TERM is dumb, it is printed once.

    [bold]Examples[/bold]

    kavka top

    kavka top --once
    """
    settings = cluster_settings(bootstrap, zookeeper, metrics)
    from kavka.runtime.loop import run

    try:
        if once or as_json or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
            run(_once(settings, as_json=as_json))
        else:
            run(_live(settings, every_s))
    except KeyboardInterrupt:
        raise Failure("", status=0 if not once else INTERRUPTED) from None


async def _once(settings: ClusterSettings, *, as_json: bool) -> None:
    from kavka.observe.watcher import Watcher

    watcher = Watcher(settings, poll_ms=POLL_MS, client_id="kavka-top")
    try:
        snapshot = await watcher.read_all()
        if snapshot.is_reachable:
            await asyncio.sleep(POLL_MS / 1000)  # A rate takes two readings.
            snapshot = await watcher.read_all()
    finally:
        await watcher.close()
    if not snapshot.is_reachable:
        step = "is a broker running there? name another with -b HOST:PORT"
        raise Failure(f"{settings.bootstrap} does not answer: {snapshot.why}", step, status=FAILED)
    if as_json:
        show_json(_fields(snapshot))
        return
    print(_headline(snapshot))
    for table in tables(snapshot, ROWS_ONCE):
        print()
        show(table)


async def _live(settings: ClusterSettings, every_s: float) -> None:
    from rich.live import Live

    from kavka.cli.output import console
    from kavka.observe.watcher import Watcher

    watcher = Watcher(settings, poll_ms=POLL_MS, client_id="kavka-top")
    running = asyncio.create_task(watcher.run())
    screen = console(sys.stdout)
    try:
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            while not running.done():
                rows = max((screen.size.height - FRAME_LINES) // 3, LEAST_ROWS)
                live.update(_page(watcher.snapshot, rows, screen.size.width), refresh=True)
                with suppress(TimeoutError):
                    async with asyncio.timeout(every_s):
                        await watcher.changes.after(watcher.changes.number)
                await asyncio.sleep(min(every_s, 0.25))
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await watcher.close()


def _page(snapshot: ClusterSnapshot, rows: int, width: int) -> Group:
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    parts: list[Text | RichTable] = [Text(_headline(snapshot), style="" if snapshot.is_reachable else "bold red")]
    for table in tables(snapshot, rows):
        shown = RichTable(title=table.title, title_justify="left", box=None, header_style="bold", pad_edge=False)
        places = columns_that_fit(table, width)
        for heading in (table.headings[place] for place in places):
            shown.add_column(
                heading.capitalize(), justify="right" if heading in table.numbers else "left", no_wrap=True
            )
        for row in table.rows:
            shown.add_row(*(Text(row[place]) for place in places))
        parts += [Text(), shown]
    parts.append(Text("\nCtrl-C ends it.", style="dim"))
    return Group(*parts)


def columns_that_fit(table: Table, width: int) -> list[int]:
    """The places of the columns that are shown in so many characters; the others are SPARED. Names may be cut."""
    places = list(range(len(table.headings)))
    needed = [
        max([len(heading), *(len(row[place]) for row in table.rows)]) for place, heading in enumerate(table.headings)
    ]
    for heading in SPARED:
        if sum(needed[place] + GAP for place in places) - GAP <= width:
            break
        places = [place for place in places if table.headings[place] != heading]
    return places


def _headline(snapshot: ClusterSnapshot) -> str:
    from kavka.observe.health.checks import check_health

    if not snapshot.is_reachable:
        return f"{snapshot.bootstrap}: {snapshot.state.value}. {snapshot.why}"
    found = check_health(snapshot, snapshot.at_ms)
    score = "unknown" if found.score is None else str(found.score)
    failed = "".join(f"\n  {each.check.title}: no. {each.evidence}" for each in found.failed[:3])
    counts = snapshot.counts
    return (
        f"{snapshot.bootstrap}  health {score}  controller {snapshot.controller_id}  "
        f"{counted(counts.topics, 'topic')}  {counted(counts.partitions, 'partition')} "
        f"({counts.offline} offline, {counts.under_replicated} under-replicated)  "
        f"{_rates_in(snapshot)}{failed}"
    )


def _rates_in(snapshot: ClusterSnapshot) -> str:
    """A rate takes two looks: after the first it is being measured."""
    if snapshot.in_records_per_s is None:
        return "measuring rates ..."
    return f"{_rate(snapshot.in_records_per_s)} records/s in  {_bytes(snapshot.in_bytes_per_s)}/s in"


def tables(snapshot: ClusterSnapshot, rows: int) -> list[Table]:
    """Brokers, the busiest topics, the groups that lag most: at most `rows` of each."""
    brokers = Table(
        ["broker", "address", "state", "leads", "replicas", "out of sync", "bytes", "in/s"],
        ["leads", "replicas", "out of sync", "bytes", "in/s"],
        title="Brokers",
    )
    for broker in list(snapshot.brokers.values())[:rows]:
        state = "controller" if broker.is_controller else "alive" if broker.is_alive else "gone"
        brokers.add(
            broker.broker_id,
            broker.address,
            state,
            broker.leads,
            broker.replicas,
            broker.out_of_sync or "",
            _bytes(broker.size_bytes),
            _bytes(broker.in_bytes_per_s),
        )
    topics = Table(
        ["topic", "partitions", "replicas", "out of sync", "records/s", "bytes/s", "records", "bytes"],
        ["partitions", "replicas", "out of sync", "records/s", "bytes/s", "records", "bytes"],
        title="Topics",
    )
    busiest = sorted(
        snapshot.topics.values(), key=lambda topic: (-(topic.in_records_per_s or 0), topic.is_internal, topic.name)
    )
    for topic in busiest[:rows]:
        topics.add(
            topic.name,
            topic.partition_count,
            topic.replication_factor,
            topic.under_replicated or "",
            _rate(topic.in_records_per_s),
            _bytes(topic.in_bytes_per_s),
            _count(topic.record_count),
            _bytes(topic.size_bytes),
        )
    groups = Table(
        ["group", "state", "members", "lag", "most behind"], ["members", "lag", "most behind"], title="Groups"
    )
    lagging = sorted(snapshot.groups.values(), key=lambda group: (-(group.lag or 0), group.group_id))
    for group in lagging[:rows]:
        most = "<=" if group.uncommitted and group.lag else ""
        groups.add(group.group_id, group.state, len(group.members), most + _count(group.lag), _count(group.max_lag))
    return [brokers, topics, groups]


def _fields(snapshot: ClusterSnapshot) -> dict[str, object]:
    return {
        "bootstrap": snapshot.bootstrap,
        "cluster_id": snapshot.cluster_id,
        "controller": snapshot.controller_id,
        "records_per_s": snapshot.in_records_per_s,
        "bytes_per_s": snapshot.in_bytes_per_s,
        **snapshot.counts._asdict(),
        "brokers": [
            {
                "id": each.broker_id,
                "address": each.address,
                "alive": each.is_alive,
                "controller": each.is_controller,
                "leads": each.leads,
                "replicas": each.replicas,
                "out_of_sync": each.out_of_sync,
                "bytes": each.size_bytes,
                "bytes_per_s": each.in_bytes_per_s,
            }
            for each in snapshot.brokers.values()
        ],
        "topic_rates": [
            {"name": each.name, "records_per_s": each.in_records_per_s, "bytes_per_s": each.in_bytes_per_s}
            for each in snapshot.topics.values()
        ],
        "groups": [
            {
                "id": each.group_id,
                "state": each.state,
                "members": len(each.members),
                "lag": each.lag,
                "uncommitted": each.uncommitted,
            }
            for each in snapshot.groups.values()
        ],
    }


def _rate(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _bytes(value: float | None) -> str:
    """In the unit that leaves at most four digits before the point."""
    if value is None:
        return "?"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"
