"""`kavka lag-policy`: what the lag policies do to ISRs, on drawn workloads, on traces, and on what a cluster recorded.

Decides what is compared, and the form of the report. The figures are `studies.lag_policy`'s; what a cluster recorded
is `studies.isr_history`'s, the advice `studies.lag_advice`'s.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Json, PlotFile, StudySeed
from kavka.cli.output import Failure, Table, note, show, usage, write_file

if TYPE_CHECKING:
    from kavka.studies.isr_history import IsrHistory, Judgement
    from kavka.studies.lag_advice import Advice
    from kavka.studies.lag_outcome import Choice, Outcome
    from kavka.studies.lag_trace import Recorded
    from kavka.studies.lag_workload import Workload

app = CommandLine()


MAX_POLICIES = 12
RING_DEPTH = 3
"""How far below a directory rings are looked for: data/broker-1/logs."""
COLUMNS = (
    "workload",
    "policy",
    "shrinks",
    "false alarms",
    "found",
    "detection",
    "refused",
    "stalled",
    "commit p99",
    "isr updates",
)


Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        help="Kafka's server.log, `kavka why --json`, a broker's directory, a trace; drawn workloads by default.",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="POLICY",
        show_default="the usual ones",
        help="time:MS, messages:COUNT or messages:COUNT:MS; may be repeated.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option("--workload", "-w", metavar="NAME", show_default="all", help="Only these workloads."),
]
Minutes = Annotated[
    float, typer.Option("--minutes", min=1, max=60, metavar="N", help="Virtual minutes of each workload.")
]
WriteTrace = Annotated[
    str | None,
    typer.Option("--write-trace", metavar="FILE", help="Only write what the leader saw of one workload."),
]
Fetches = Annotated[
    bool,
    typer.Option("--fetches", help="With brokers' directories: check at each recorded fetch."),
]


@app.command("lag-policy")
def lag_policy(
    files: Files = None,
    policies: Policies = None,
    names: Names = None,
    minutes: Minutes = 10,
    seed: StudySeed = 1,
    plot: PlotFile = None,
    write_trace: WriteTrace = None,
    fetches: Fetches = False,
    as_json: Json = False,
) -> None:
    """Compare rules for when a follower leaves the ISR.

    It compares limits in time and in messages: false alarms, missed cases, and why. The workloads run on a
    broker's own decision code in virtual time. With files, the rules are applied to what a cluster recorded.

    [bold]Examples[/bold]

    kavka lag-policy --plot report.html

    kavka lag-policy -w bursts -p time:30000 -p messages:4000 -p messages:20000

    kavka lag-policy /var/log/kafka/server.log*

    kavka lag-policy kavka-data

    kavka lag-policy kavka-data --fetches
    """
    files, policies, names = files or [], policies or [], names or []
    from kavka.studies.lag_outcome import DEFAULT_CHOICES

    choices = tuple(dict.fromkeys(parse_policy(text) for text in policies)) or DEFAULT_CHOICES
    if len(choices) > MAX_POLICIES:
        usage(f"{len(choices)} policies are too many", f"name at most {MAX_POLICIES}")
    if files:
        if names or write_trace:
            usage("--workload and --write-trace are for generated workloads, not for files")
        if fetches:
            _fetched(files, choices, plot=plot, as_json=as_json)
            return
        _recorded(files, choices, plot=plot, as_json=as_json)
        return
    if fetches:
        usage("--fetches needs what a cluster recorded", "name the brokers' directories")
    workloads = _chosen(names, minutes)
    if write_trace is not None:
        _write_trace(write_trace, workloads, choices[0], minutes=minutes, seed=seed, as_json=as_json)
        return
    _drawn(workloads, choices, minutes=minutes, seed=seed, plot=plot, as_json=as_json)


def _drawn(
    workloads: Sequence[Workload],
    choices: Sequence[Choice],
    *,
    minutes: float,
    seed: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """Runs each workload under each policy, and prints how they compare."""
    from kavka.studies.lag_advice import advise
    from kavka.studies.lag_policy import run_workload

    outcomes = [
        run_workload(workload, choice, minutes=minutes, seed=seed) for workload in workloads for choice in choices
    ]
    advice = advise(outcomes, workloads)
    if plot is not None:
        from kavka.studies.lag_report import comparison_page

        about = {each.name: each.what for each in workloads}
        _write(plot, comparison_page(outcomes, advice, about, seed=seed))
    if as_json:
        print(json.dumps({"seed": seed, "minutes": minutes, **_fields(outcomes, advice)}))
        return
    _show_outcomes(outcomes, f"seed {seed}, {minutes:g} min each; times are virtual")
    _show_advice(advice)


def parse_policy(text: str) -> Choice:
    """`time:10000`, `messages:4000` or `messages:4000:10000`: the limit, and for messages when a follower is stuck."""
    from kavka.replication.decide.lag_policy import MESSAGES, TIME
    from kavka.studies.lag_outcome import Choice

    name, *numbers = text.split(":")
    counts = {TIME: (1,), MESSAGES: (1, 2)}.get(name, ())
    if len(numbers) not in counts or not all(each.isdecimal() and int(each) > 0 for each in numbers):
        usage(f"--policy {text}: unknown policy", "write time:10000, messages:4000 or messages:4000:10000")
    if name == TIME:
        return Choice(TIME, int(numbers[0]))
    return Choice(MESSAGES, int(numbers[1]) if len(numbers) == 2 else 10_000, int(numbers[0]))


def _chosen(names: Sequence[str], minutes: float) -> list[Workload]:
    from kavka.studies.lag_workload import articles_example, workloads

    usual = workloads(minutes)
    known = {workload.name: workload for workload in (*usual, *articles_example(minutes))}
    unknown = [name for name in names if name not in known]
    if unknown:
        usage(f"--workload {unknown[0]} is unknown", f"one of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)] or list(usual)


def _fields(outcomes: Sequence[Outcome], advice: Advice) -> dict[str, object]:
    return {"outcomes": [outcome.as_json() for outcome in outcomes], "recommendation": advice.as_json()}


def _show_outcomes(outcomes: Sequence[Outcome], title: str) -> None:
    from kavka.studies.lag_report import row_of

    table = Table(COLUMNS, COLUMNS[2:], title=title)
    for outcome in outcomes:
        table.add(*row_of(outcome))
    show(table)


def _show_advice(advice: Advice) -> None:
    print(f"\nRecommended: {advice.choice}")
    for reason in advice.reasons:
        print(f"  {reason}")


# -- files


def _recorded(files: Sequence[str], choices: Sequence[Choice], *, plot: str | None, as_json: bool) -> None:
    recorded = _read(files)
    if recorded.trace and recorded.changes:
        usage("these files hold a trace and a cluster's ISR changes", "run the command once for each kind")
    if recorded.trace:
        _replayed(recorded, choices, plot=plot, as_json=as_json)
    elif recorded.changes:
        _told(recorded.history(), choices, plot=plot, as_json=as_json)
    else:
        raise Failure(
            f"no changes of ISRs in {recorded.lines:,} lines",
            "give server.log files of Apache Kafka, `kavka why --json` or a broker's log directory, or a trace of "
            "`kavka lag-policy --write-trace`",
        )


def _fetched(directories: Sequence[str], choices: Sequence[Choice], *, plot: str | None, as_json: bool) -> None:
    from kavka.flight.ring_reader import find_rings
    from kavka.studies.lag_flight import fetch_trace
    from kavka.studies.lag_trace import Recorded

    try:
        trace = fetch_trace(find_rings(directories))
    except OSError as problem:
        raise Failure(
            f"{problem.filename} cannot be read: {problem.strerror}", "name brokers' directories"
        ) from problem
    if not trace:
        raise Failure(
            f"no follower's fetch is recorded in {', '.join(directories)}",
            "name the directories of kavka brokers that led partitions with several replicas",
        )
    _replayed(Recorded(trace, lines=len(trace)), choices, plot=plot, as_json=as_json)


def _read(files: Sequence[str]) -> Recorded:
    from kavka.studies.lag_trace import MalformedTrace, Recorded

    recorded = Recorded()
    for path in (path for each in files for path in _paths(each)):
        try:
            with open(path, "rb") as lines:
                recorded.read(lines)
        except OSError as problem:
            raise Failure(f"{path} cannot be read: {problem.strerror}", "name files that you may read") from problem
        except MalformedTrace as problem:
            raise Failure(f"{path}: {problem}", "write it again with --write-trace") from problem
    try:
        recorded.check()
    except MalformedTrace as problem:
        raise Failure(str(problem), "write it again with --write-trace") from problem
    return recorded


def _paths(path: str) -> Iterator[str]:
    """The file itself, or the rings of decisions in a directory and below."""
    from kavka.decisions import RING_FILES

    if not os.path.isdir(path):
        yield path
        return
    base = path.rstrip(os.sep).count(os.sep)
    for directory, below, names in os.walk(path):
        below.sort()
        if directory.count(os.sep) - base >= RING_DEPTH:
            below.clear()
        yield from (os.path.join(directory, name) for name in RING_FILES if name in names)


def _replayed(recorded: Recorded, choices: Sequence[Choice], *, plot: str | None, as_json: bool) -> None:
    from kavka.studies.lag_advice import advise
    from kavka.studies.lag_policy import replay

    outcomes = [replay(recorded.trace, choice, ailments=recorded.ailments) for choice in choices]
    advice = advise(outcomes)
    if plot is not None:
        from kavka.studies.lag_report import comparison_page

        _write(plot, comparison_page(outcomes, advice, {"trace": "as recorded"}, seed=None))
    if as_json:
        print(json.dumps({"lines": recorded.lines, **_fields(outcomes, advice)}))
        return
    _show_outcomes(outcomes, f"a trace of {len(recorded.trace):,} appends and fetches")
    _show_advice(advice)


def _told(history: IsrHistory, choices: Sequence[Choice], *, plot: str | None, as_json: bool) -> None:
    from kavka.studies.lag_advice import advise_from_history

    judgements = [history.judge(choice) for choice in choices]
    advice = advise_from_history(history, judgements)
    if plot is not None:
        from kavka.studies.lag_report import history_page

        _write(plot, history_page(history, judgements, advice))
    if as_json:
        print(json.dumps(_told_fields(history, judgements, advice)))
        return
    removals = history.removals()
    needless = sum(removal.was_needless for removal in removals)
    print(f"ISR updates: {history.updates:,} ({history.shrinks:,} shrinks, {history.expands:,} expansions)")
    print(f"thrown out: {len(removals):,} followers, {needless:,} of them back within 10 s")
    print(f"fewer than 2 in sync: {history.refused_ms() / 1000:,.1f} s over all partitions\n")
    headings = ["policy", "out", "needlessly", "kept then", "of these long away", "cannot be told"]
    table = Table(headings, headings[1:], title="what each policy says to those who were thrown out")
    for each in judgements:
        table.add(each.choice, each.out, each.needless, each.stays, each.late, each.unknown)
    show(table)
    if advice is None and removals:
        note("These lines have no offsets and no times of the followers: Kafka logs them since 2.2 and 3.6.")
    elif advice is not None:
        _show_advice(advice)


def _told_fields(history: IsrHistory, judgements: Sequence[Judgement], advice: Advice | None) -> dict[str, object]:
    removals = history.removals()
    return {
        "isr_updates": history.updates,
        "shrinks": history.shrinks,
        "expands": history.expands,
        "removals": len(removals),
        "back_within_10s": sum(removal.was_needless for removal in removals),
        "median_out_ms": history.median_out_ms(),
        "refused_ms": history.refused_ms(),
        "judgements": [
            {
                "policy": each.choice.name,
                "max_ms": each.choice.max_ms,
                "max_messages": each.choice.max_messages if each.choice.name == "messages" else None,
                "out": each.out,
                "needless": each.needless,
                "stays": each.stays,
                "late": each.late,
                "unknown": each.unknown,
            }
            for each in judgements
        ],
        "recommendation": None if advice is None else advice.as_json(),
    }


def _write_trace(
    path: str, workloads: Sequence[Workload], choice: Choice, *, minutes: float, seed: int, as_json: bool
) -> None:
    from kavka.studies.lag_policy import LagRun
    from kavka.studies.lag_trace import trace_lines

    if len(workloads) != 1:
        usage("a trace holds one workload", "name it with --workload")
    run = LagRun(workloads[0], choice, minutes=minutes, seed=seed, keeps_trace=True)
    run.run()
    trace = run.trace or []
    _write(path, "".join(trace_lines(workloads[0], trace)))
    if as_json:
        print(json.dumps({"file": path, "workload": workloads[0].name, "lines": len(trace) + 1}))


def _write(path: str, text: str) -> None:
    write_file(path, [text])
    note(f"{path} written")
