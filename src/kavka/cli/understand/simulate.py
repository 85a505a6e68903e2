"""`kavka simulate`: a whole cluster under faults in virtual time, from a seed or a named scenario, and what came of it.

Decides what is asked of the simulator, and the form of the answer. What is run is `simulator.runs.recorded_run`'s,
the page `simulator.runs.page`'s.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Json, TraceFile
from kavka.cli.output import (
    FAILED,
    Failure,
    Table,
    json_text,
    note,
    note_files,
    require_writable,
    show,
    usage,
    write_file,
)
from kavka.cli.understand.explore import Wanted, list_stories, point_of
from kavka.cli.understand.explore import explore as explore_all

if TYPE_CHECKING:
    from kavka.simulator.runs.explore import Point
    from kavka.simulator.runs.recorded_run import RecordedRun, Wish

app = CommandLine()


SEEDS = 1_000_000
"""A seed that nobody chose is below this: short enough to be read out."""


Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="N", show_default="drawn", help="The same seed gives the same run."),
]
Scenario = Annotated[
    str | None,
    typer.Option("--scenario", metavar="NAME", help="A named scenario, or enough of its name; see --list."),
]
Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers", "-n", min=1, max=9, metavar="N", show_default="drawn from the seed", help="Number of brokers."
    ),
]
Hours = Annotated[
    float | None,
    typer.Option(
        "--hours", min=0.001, max=1000, metavar="H", show_default="ten minutes", help="Virtual hours of faults."
    ),
]
Faults = Annotated[
    str | None,
    typer.Option(
        "--faults",
        metavar="KIND,...",
        show_default="drawn from the seed",
        help="Only these kinds, each equally often: kill, pause, cut, ..., or none; an unknown one lists all.",
    ),
]
Replay = Annotated[
    str | None,
    typer.Option("--replay", metavar="FILE", help="Play a run that --shrink or a person wrote."),
]
Trace = Annotated[str | None, typer.Option("--trace", metavar="FILE", help="Write what happened, one event per line.")]
PageFile = Annotated[
    str | None, typer.Option("--page", metavar="FILE", help="Write a page to step through the run in a browser.")
]
Shrink = Annotated[
    str | None,
    typer.Option(
        "--shrink",
        metavar="FILE",
        help="If a rule is broken, write a smaller run for --replay.",
    ),
]
Explore = Annotated[
    str | None,
    typer.Option(
        "--explore",
        metavar="KIND",
        help="At every step of a story in turn: crash, power, session, disk, clock, delay, or all.",
    ),
]
Pairs = Annotated[bool, typer.Option("--pairs", help="With --explore: a second fault soon after the first.")]
Bound = Annotated[
    int | None, typer.Option("--bound", metavar="N", show_default="1", help="With --explore delay: 1 delay, or any 2.")
]
Part = Annotated[
    str | None, typer.Option("--part", metavar="I/N", help="With --explore: every N-th run, from the I-th.")
]
Minutes = Annotated[float | None, typer.Option("--minutes", metavar="M", help="With --explore: stop after this long.")]
Keep = Annotated[
    str | None, typer.Option("--keep", metavar="FILE", help="With --explore: note each run there, and go on from it.")
]
At = Annotated[
    str | None, typer.Option("--at", metavar="PLACE", help="With --explore: one run, such as 'crash 3@1520'.")
]
OnlyNames = Annotated[bool, typer.Option("--list", help="Only print the names of the scenarios.")]


@app.command("simulate")
def simulate(
    seed: Seed = None,
    scenario: Scenario = None,
    brokers: Brokers = None,
    hours: Hours = None,
    faults: Faults = None,
    replay: Replay = None,
    trace: TraceFile = None,
    page: PageFile = None,
    shrink: Shrink = None,
    explore: Explore = None,
    pairs: Pairs = False,
    bound: Bound = None,
    part: Part = None,
    minutes: Minutes = None,
    keep: Keep = None,
    at: At = None,
    names: OnlyNames = False,
    as_json: Json = False,
) -> None:
    """Run a cluster under faults in virtual time.

    Brokers, controller and clients run their own code; network, disks, clocks and ZooKeeper are simulated. Kafka's
    promises are checked after every step. The exit status is 1 if one was broken.

    [bold]Examples[/bold]

    kavka simulate

    kavka simulate --seed 7 --faults kill,pause,cut --page run.html

    kavka simulate --scenario S13 --trace s13.txt

    kavka simulate --seed 7 --shrink small.txt

    kavka simulate --explore crash --scenario produce --minutes 1
    """
    wanted = Wanted(explore, scenario, pairs, bound, part, minutes, keep, at) if explore is not None else None
    if wanted is None and (pairs or any(each is not None for each in (bound, part, minutes, keep, at))):
        usage("--pairs, --bound, --part, --minutes, --keep and --at belong to --explore", "add --explore KIND")
    if names:
        _list_scenarios(as_json=as_json) if wanted is None else list_stories(as_json=as_json)
        return
    drawn = (seed, brokers, hours, faults)
    if wanted is not None and (replay is not None or any(each is not None for each in drawn)):
        usage("a story has its own seed, brokers, length and faults", "give --scenario, or nothing for all stories")
    if wanted is not None and wanted.at is None:
        _explore(wanted, trace, page, shrink, as_json=as_json)
        return
    if wanted is not None:
        wish = _at(point_of(wanted))
    elif replay is not None:
        if (scenario, *drawn) != (None,) * 5:
            usage("a recorded run has its own seed, brokers, length and faults", "give --replay alone")
        wish = _written_down(replay)
    else:
        wish = _wish(seed, scenario, brokers, hours, faults, is_shrunk=shrink is not None)
    _play(wish, trace, page, shrink, as_json=as_json)


def _play(wish: Wish, trace: str | None, page: str | None, shrink: str | None, *, as_json: bool) -> None:
    """Makes one run and shows what came of it."""
    _require_places(trace, page, shrink)
    if not as_json:
        note(f"Simulating: {wish.command}")
    run = _run(wish)
    _write(run, trace, page)
    _show(run, shrink, as_json=as_json)
    if not as_json:
        note_files(trace, page)
    if run.finding is not None:
        raise typer.Exit(FAILED)


def _require_places(trace: str | None, page: str | None, shrink: str | None) -> None:
    """A mistake in a name is reported before the run, not after it."""
    # The file to shrink into is not made where nothing is broken, and may be the one that is played.
    if shrink is not None and not os.access(os.path.dirname(os.path.abspath(shrink)), os.W_OK):
        raise Failure(f"{shrink} cannot be written", "name a file in an existing directory that you may write to")
    for path in filter(None, (trace, page)):
        require_writable(path)


def _write(run: RecordedRun, trace: str | None, page: str | None) -> None:
    if trace is not None:
        write_file(trace, (f"{line}\n" for line in run.trace.lines()))
    if page is not None:
        from kavka.simulator.runs.page import render

        write_file(page, [render(run)])


def _explore(wanted: Wanted, trace: str | None, page: str | None, shrink: str | None, *, as_json: bool) -> None:
    """Makes many runs; the first one that broke a rule is had again for the trace, the page and a smaller run."""
    _require_places(trace, page, shrink)
    status, broken = explore_all(wanted, as_json=as_json)
    if broken is not None and (trace, page, shrink) != (None, None, None):
        run = _run(_at(broken.point))
        _write(run, trace, page)
        if shrink is not None:
            _shrink(run, shrink, tell=note)
        note_files(trace, page)
    elif broken is None and (trace, page, shrink) != (None, None, None):
        note("No rule is broken: there is no run to show.")
    if status:
        raise typer.Exit(status)


def _at(point: Point) -> Wish:
    from kavka.simulator.runs.recorded_run import Wish
    from kavka.simulator.runs.stories import STORIES

    story = STORIES[point.story]
    return Wish(story.plan.seed, hours=story.seconds / 3_600, point=point)


def _show(run: RecordedRun, shrink: str | None, *, as_json: bool) -> None:
    """Prints what came of a run, and the smaller one that breaks the same rule."""
    if as_json:
        _tell_finding(run, note)
    else:
        show(_figures(run))
        _tell_finding(run, print)
    small = None if shrink is None else _shrink(run, shrink, tell=note if as_json else print)
    if as_json:
        facts = run.as_json() if shrink is None else {**run.as_json(), "regression": small}
        print(json_text(facts))


def _list_scenarios(*, as_json: bool) -> None:
    from kavka.simulator.scenarios import SCENARIOS

    if as_json:
        print(json_text(list(SCENARIOS)))
        return
    for name in SCENARIOS:
        print(name)


def _wish(
    seed: int | None,
    scenario: str | None,
    brokers: int | None,
    hours: float | None,
    faults: str | None,
    *,
    is_shrunk: bool,
) -> Wish:
    from kavka.simulator.faults.mix import KINDS
    from kavka.simulator.runs.recorded_run import NO_FAULTS, Wish, find_scenarios, parse_faults
    from kavka.simulator.runs.swarm import HOURS

    if scenario is not None and is_shrunk:
        usage("--shrink does not go with --scenario", "a scenario is small already; give --seed instead")
    if scenario is not None:
        if brokers is not None or hours is not None or faults is not None:
            usage("a scenario has its own brokers, faults and end", "only --seed goes with --scenario")
        found = find_scenarios(scenario)
        if not found:
            usage(f"unknown scenario {scenario!r}", "`kavka simulate --list` shows their names")
        if len(found) > 1:
            usage(f"--scenario {scenario!r} matches {len(found)} scenarios", "\n        ".join(found))
        return Wish(1 if seed is None else seed, found[0])
    kinds = None
    if faults is not None:
        try:
            kinds = parse_faults(faults)
        except ValueError as problem:
            usage(str(problem), f"comma-separated, of: {', '.join(KINDS)}; or {NO_FAULTS}")
    chosen = random.SystemRandom().randrange(SEEDS) if seed is None else seed
    return Wish(chosen, None, HOURS if hours is None else hours, brokers, kinds)


def _written_down(path: str) -> Wish:
    from kavka.simulator.runs.recorded_run import Wish
    from kavka.simulator.runs.regression import NotARegression, parse

    try:
        with open(path, encoding="utf-8") as file:
            found = parse(file.read())
    except OSError as problem:
        raise Failure(f"{path} cannot be read: {problem.strerror}", "name a file that --shrink wrote") from problem
    except (NotARegression, UnicodeDecodeError) as problem:
        usage(f"{path} is not a recorded run: {problem}", "kavka simulate --shrink writes one")
    return Wish(found.plan.seed, hours=found.seconds / 3_600, regression=found, replay=path)


def _run(wish: Wish) -> RecordedRun:
    from kavka.simulator.runs.recorded_run import run
    from kavka.simulator.runs.shrink import be_quiet

    be_quiet()
    return run(wish)


def _shrink(run: RecordedRun, path: str, *, tell: Callable[[str], None]) -> str | None:
    """Makes a run that broke a rule smaller, and writes down what is left; None if there is nothing to write."""
    from kavka.simulator.runs.shrink import MAX_SECONDS, shrink

    if run.finding is None:
        tell("\nNo rule is broken: there is nothing to make smaller.")
        return None
    assert run.result is not None
    note(f"Making the run smaller, for {MAX_SECONDS / 60:.0f} minutes at most.")
    shrunk = shrink(run.result)
    if shrunk.found is None:
        tell(f"\nThe run is {shrunk}.")
        if run.wish.point is not None:
            # A file has times in whole milliseconds, and each run of a power cut loses something else.
            tell(f"It breaks it at that very step only, so {path} is not written. Have it again: {run.wish.command}")
        return None
    written = shrunk.found.as_python()
    write_file(path, [written, "\n"])
    tell(f"\nMade smaller, {shrunk}:\n\n{written}\n\nHave it again: kavka simulate --replay {quote(path)}")
    return written


def _figures(run: RecordedRun) -> Table:
    facts = run.as_json()
    table = Table(("figure", "value"))
    is_swarm = run.wish.is_swarm
    if not is_swarm:
        table.add("scenario", run.wish.scenario)
    table.add("seed", run.wish.seed)
    if is_swarm:
        table.add("faults drawn", run.mix)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(run.faults.items()))
    table.add("faults made", f"{facts['faults']:,}{f' ({kinds})' if kinds else ''}")
    virtual_s = run.trace.now_ms / 1_000
    virtual = f"{virtual_s:.1f} s" if virtual_s < 120 else f"{virtual_s / 60:.1f} minutes"
    table.add("simulated", f"{virtual} in {run.wall_seconds:.1f} s")
    records = ("sent", "acknowledged", "consumed") if is_swarm else ()
    names = ("events_checked", "changes_checked", *records, "leader_elections", "isr_shrinks", "isr_expansions")
    for name in (*names, "logs_cut_back", "trace_events"):
        table.add(name.replace("_", " "), f"{facts[name]:,}")
    table.add("violations", 0 if run.finding is None else 1)
    table.add("digest", run.trace.digest)
    return table


def _tell_finding(run: RecordedRun, tell: Callable[[str], None]) -> None:
    finding = run.finding
    if finding is None:
        return
    from kavka.simulator.host.trace import COLUMNS

    promise = f": {finding.promise}" if finding.promise else ""
    tell(f"\nBroken: {finding.rule}, at {finding.at_ms / 1000:.3f} s of virtual time{promise}\n    {finding.what}\n")
    tell(f"What led to it, the last {len(run.led_to_it)} events:\n  {COLUMNS}")
    for event in run.led_to_it:
        tell(f"  {event.line}")
    tell(f"\nHave it again: {run.wish.command}")
