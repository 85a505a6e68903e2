"""`kavka replay`: what the brokers of a cluster recorded is decided again, compared, and shown step by step.

Decides what is replayed and the form of the answer. What is decided again, and where it differs, is
`replay.broker_replay`'s; the page is `simulator.runs.page`'s, as for a simulated run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Json, TraceFile
from kavka.cli.output import (
    FAILED,
    Failure,
    Table,
    counted,
    json_text,
    note,
    note_files,
    require_writable,
    show,
    write_file,
)
from kavka.cli.times import moment_ms

if TYPE_CHECKING:
    from kavka.flight.ring_reader import FlightRing
    from kavka.model import TopicPartition
    from kavka.replay.cluster_replay import ReplayedCluster
    from kavka.simulator.host.trace import Event, Trace
    from kavka.simulator.runs.recorded_run import Finding

app = CommandLine()


MAX_DIFFERENCES = 20
MAX_CHANGES = 40
"""Lines of a kind that are printed; --trace and --json have all."""


Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", "-p", metavar="NAME", show_default="all", help="Only TOPIC-PARTITION, or TOPIC."),
]
Around = Annotated[
    str | None,
    typer.Option("--around", metavar="TIME", help="Only a minute before and after: 10:42, 10:42:07, or with a date."),
]
PageFile = Annotated[
    str | None, typer.Option("--page", metavar="FILE", help="Write a page to step through it in a browser.")
]


@app.command("replay")
def replay(
    directories: Annotated[
        list[str], typer.Argument(metavar="DIRECTORY", help="Brokers' log directories, or those above them.")
    ],
    partitions: Partitions = None,
    around: Around = None,
    trace: TraceFile = None,
    page: PageFile = None,
    as_json: Json = False,
) -> None:
    """Replay what brokers recorded, decision by decision.

    No broker needs to run. The same code decides again about leaders, in-sync replicas and high watermarks. It reports
    where it decides differently (another version of kavka, or a bug); the exit status is then 1.

    [bold]Examples[/bold]

    kavka replay kavka-data

    kavka replay kavka-data --partition orders-0 --around 10:42 --page incident.html

    kavka replay /srv/broker-1/logs /srv/broker-2/logs --trace incident.txt
    """
    partitions = partitions or []
    from kavka.replay.cluster_replay import replay_cluster

    rings = _rings(directories)
    wanted = _wanted(partitions)
    around_ms = None if around is None else moment_ms(around, time.time_ns() // 1_000_000, option="--around")
    for path in filter(None, (trace, page)):
        require_writable(path)  # A mistake in a name is reported before the work, not after it.
    try:
        replayed = replay_cluster(rings, wanted=wanted, around_ms=around_ms)
    except OSError as problem:
        raise Failure(f"{problem.filename} cannot be read: {problem.strerror}") from problem
    if partitions and not replayed.partitions:
        raise Failure(
            f"nothing was recorded about {', '.join(partitions)}", "leave --partition out to see what was recorded"
        )
    if not replayed.trace.recorded:
        raise Failure(
            f"nothing was recorded {'then' if around else 'about that'}",
            "leave --around and --partition out to see all",
        )
    shown = Replay(replayed, _command(directories, partitions, around))
    if trace is not None:
        write_file(trace, (f"{line}\n" for line in replayed.trace.lines()))
    if page is not None:
        from kavka.simulator.runs.page import render

        write_file(page, [render(shown)])
    if as_json:
        print(json_text(shown.as_json()))
    else:
        _show(replayed)
        note_files(trace, page)
    if replayed.differences:
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay as `simulator.runs.page.Shown`."""

    replayed: ReplayedCluster
    command: str

    @property
    def trace(self) -> Trace:
        return self.replayed.trace

    @property
    def mix(self) -> str:
        return "as they came"

    @property
    def finding(self) -> Finding | None:
        from kavka.simulator.runs.recorded_run import Finding

        differences = self.replayed.differences
        if not differences:
            return None
        first = differences[0]
        detail = "\n".join(map(str, differences[:MAX_DIFFERENCES]))
        return Finding("equality with the recording", first.at_ms - self.wall_start_ms, str(first), detail)

    @property
    def title(self) -> str:
        return f"A cluster as it was recorded on {_clock(self.wall_start_ms)}"

    @property
    def told(self) -> str:
        replayed = self.replayed
        figures = replayed.as_json()
        brokers = ", ".join(str(each.broker_id) for each in replayed.brokers)
        count = len(replayed.differences)
        decisions = sum(broker.decisions for broker in replayed.brokers)
        return (
            f"recorded by broker{'s' if len(replayed.brokers) > 1 else ''} {brokers} in "
            f"{replayed.duration_ms / 1000:,.1f} s · {replayed.partitions} partitions, an ISR shrank "
            f"{figures['isr_shrinks']} times, {figures['leader_elections']} leader elections · "
            f"{counted(decisions, 'decision')} made again, {count or 'none'} differently"
        )

    @property
    def wall_start_ms(self) -> int:
        return self.replayed.wall_start_ms

    def as_json(self) -> dict[str, object]:
        return {**self.replayed.as_json(), "again": self.command}


def _rings(directories: Sequence[str]) -> list[FlightRing]:
    from kavka.flight.ring_reader import find_rings

    try:
        rings = find_rings(directories)
    except OSError as problem:
        raise Failure(
            f"{problem.filename} cannot be read: {problem.strerror}", "name directories that you may read"
        ) from None
    if not rings:
        raise Failure(
            f"no flight recording in {', '.join(directories)}",
            "name a broker's first log directory, or the one above it; kavka.flight.recorder.enable=false records none",
        )
    return rings


def _wanted(names: Sequence[str]) -> Callable[[TopicPartition], bool]:
    """TOPIC-PARTITION, or TOPIC for all of its own."""
    wanted = frozenset(names)
    if not wanted:
        return lambda partition: True
    return lambda partition: str(partition) in wanted or partition.topic in wanted


def _command(directories: Sequence[str], partitions: Sequence[str], around: str | None) -> str:
    words = ["kavka replay", *map(quote, directories), *(f"--partition {quote(each)}" for each in partitions)]
    return " ".join([*words, f"--around {quote(around)}"] if around is not None else words)


# -- showing


def _show(replayed: ReplayedCluster) -> None:
    facts = replayed.as_json()
    table = Table(("figure", "value"))
    table.add("brokers", ", ".join(str(each.broker_id) for each in replayed.brokers))
    table.add("recorded by kavka", ", ".join(replayed.versions))
    table.add("from", _clock(replayed.wall_start_ms))
    table.add("to", _clock(replayed.wall_start_ms + replayed.duration_ms))
    for name in ("partitions", "inputs", "decisions", "leader_elections", "isr_changes"):
        table.add(f"{name.replace('_', ' ')}{' made again' if name == 'decisions' else ''}", f"{facts[name]:,}")
    table.add("differences", len(replayed.differences))
    table.add("digest", facts["digest"])
    show(table)
    _show_changes(replayed)
    for gap in replayed.gaps[:MAX_DIFFERENCES]:
        note(f"{gap}{'; nothing follows' if gap.at_end else '; what follows is read on'}")
    for difference in replayed.differences[:MAX_DIFFERENCES]:
        print(f"\nDiffers at {_clock(difference.at_ms)}: {difference}")
    if len(replayed.differences) > MAX_DIFFERENCES:
        print(f"\n{len(replayed.differences) - MAX_DIFFERENCES} more; --json has all of them.")


def _show_changes(replayed: ReplayedCluster) -> None:
    """When leaders and ISRs changed, and why, as far as it fits."""
    from kavka.decisions import DecisionKind

    kinds = (
        DecisionKind.ISR_SHRUNK,
        DecisionKind.ISR_EXPANDED,
        DecisionKind.LEADER_ELECTED,
        DecisionKind.LEADER_NOT_ELECTED,
        DecisionKind.CONTROLLER_ELECTED,
        DecisionKind.BROKER_UNREACHABLE,
    )
    told = [event for event in replayed.trace.events() if event.decision is not None and event.decision.kind in kinds]
    # The leader's own reason is the better one: what the controller writes of a leader's wish repeats it.
    told = [event for event in told if event.decision is not None and "proposed_isr" not in event.decision.evidence]
    if not told:
        return
    print()
    for event in told[-MAX_CHANGES:]:
        print(_change_line(event, replayed.wall_start_ms))
    if len(told) > MAX_CHANGES:
        print(f"  {len(told) - MAX_CHANGES} changes before these are in --trace, --page and --around.")


def _change_line(event: Event, wall_start_ms: int) -> str:
    clock = _clock(wall_start_ms + event.at_ms)[11:23]
    return f"  {clock}  {event.node:<9}  {event.partition or '-':<14}  {event.kind}: {event.text}"


def _clock(at_ms: int) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")
