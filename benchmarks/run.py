"""The harness: `python -m benchmarks.run [GROUP ...] [--peer PEER | --before COMMIT] [--rounds N] [--quick]`.

Runs the groups of rows.py for each candidate in turn, prints each figure as it comes, the comparison at the end, and
keeps everything in benchmarks/results/ with docs/benchmarks.md rendered from it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.apache_kafka import PeerMissing, installed
from tests.kit.kavka_process import ProcessFailed

from benchmarks import PROJECT, load_generator, render
from benchmarks.candidates import BEFORE, Candidate, candidate
from benchmarks.commits import UnknownCommit, compile_checkout, laid_out
from benchmarks.other_brokers import PEERS as OTHER_BROKERS
from benchmarks.other_brokers import WITHOUT
from benchmarks.other_work import OtherWork
from benchmarks.results import Measured, Run, compare, machine, merge, read, write
from benchmarks.rows import GROUPS as OTHER_GROUPS
from benchmarks.rows import Group, Sizes, live
from benchmarks.share_rows import share

GROUPS: dict[str, Group] = {**OTHER_GROUPS, "share": share}
QUICK_DIVISOR = 5

NARROWEST_TABLE = 150

console = Console(highlight=False)
if not console.is_terminal:
    console = Console(highlight=False, width=NARROWEST_TABLE)


def main() -> int:
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers are ended on the way out
    names = [arguments.subject, *peers(arguments)]
    asked = arguments.groups or [name for name in GROUPS if name not in WITHOUT.get(arguments.peer, ())]
    groups = {name: GROUPS[name] for name in asked}
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    sizes = Sizes().divided(QUICK_DIVISOR) if arguments.quick else Sizes()
    place = Path(tempfile.mkdtemp(prefix="kavka-bench-", dir=arguments.data))
    try:
        for name in names:
            if name in OTHER_BROKERS:
                OTHER_BROKERS[name].build()
            elif name not in ("kavka", BEFORE):
                installed(name)
        commit = laid_out(arguments.before) if arguments.before else None
        load_generator.build()
        candidates = [candidate(name, commit) for name in names]
        run = start_run({one.name: one.version() for one in candidates}, place, sizes._asdict())
        fill(run, measure(candidates, groups, rounds, sizes, place, run))
    except (PeerMissing, ProcessFailed, load_generator.LoadFailed, UnknownCommit) as failure:
        console.print(f"[red]{failure}[/red]")
        return 1
    finally:
        shutil.rmtree(place, ignore_errors=True)
    to_keep = arguments.subject == "kavka" and not arguments.quick and not arguments.before
    directory = render.RESULTS if to_keep else PROJECT / "build" / "benchmarks"
    for peer in names[1:]:
        keep(run, arguments.subject, peer, directory / f"one-broker-{peer}.json")
        show_comparison(run, arguments.subject, peer)
    if to_keep:
        render.render()
        console.print(f"docs/benchmarks.md is rendered from {directory.relative_to(PROJECT)}/")
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.run", description="Measure kavka and Apache Kafka in turn.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; all when none is named")
    parser.add_argument(
        "--peer",
        choices=["kraft", "zk", "both", *OTHER_BROKERS],
        default="kraft",
        help="the Apache Kafka to compare with, or another project's broker",
    )
    parser.add_argument("--rounds", type=int, default=0, help="A B A B ...: 3 by default, 1 with --quick")
    parser.add_argument(
        "--quick", action="store_true", help="a fifth of the operations; the result is not kept in docs/"
    )
    parser.add_argument(
        "--data", type=Path, help="where the brokers keep their data (the system's temporary directory)"
    )
    parser.add_argument(
        "--before",
        metavar="COMMIT",
        help="compare with kavka at this commit, not with Apache Kafka; the result is not kept in docs/",
    )
    parser.add_argument("--subject", choices=["kavka", "kraft", "zk"], default="kavka", help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    unknown = [name for name in parsed.groups if name not in GROUPS]
    if unknown:
        parser.error(f"{unknown[0]}: no such group; choose from {', '.join(GROUPS)}")
    lacking = [name for name in parsed.groups if name in WITHOUT.get(parsed.peer, ())]
    if lacking:
        parser.error(f"{lacking[0]}: {parsed.peer} cannot serve it")
    return parsed


def peers(arguments: argparse.Namespace) -> tuple[str, ...]:
    """What kavka is compared with."""
    if arguments.before:
        return (BEFORE,)
    return ("kraft", "zk") if arguments.peer == "both" else (arguments.peer,)


def start_run(versions: dict[str, str], place: Path, operations: dict[str, int], module: str = "benchmarks.run") -> Run:
    compile_checkout()
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return Run(
        started=time.strftime("%Y-%m-%d %H:%M"),
        command=["python", "-m", module, *sys.argv[1:]],
        machine=machine(place),
        versions={**versions, "java": java[0] if java else "", "harness": f"Python {platform.python_version()}"},
        broker_commands={},
        operations=operations,
        measurements=[],
    )


def fill(run: Run, measurements: Iterable[Measured]) -> None:
    """Adds what is measured to the run, shows it, and adds what other processes took meanwhile."""
    other_work = OtherWork()
    for measured in measurements:
        run["measurements"].append(measured)
        show(measured)
    run["others_cpu_percent"] = other_work.percent_of_a_core()


def measure(
    candidates: list[Candidate], groups: dict[str, Group], rounds: int, sizes: Sizes, place: Path, run: Run
) -> Iterator[Measured]:
    """Every group in its rounds, the candidates in turn."""
    for name, group in groups.items():
        for number in range(1, rounds + 1):
            for one in candidates:
                for measurement in live(one, place / f"{name}-{number}-{one.name}", group, sizes):
                    # Without the machine's directories: they say nothing about the measurement.
                    run["broker_commands"].setdefault(one.name, " ".join(Path(word).name for word in one.command))
                    yield Measured(
                        row=measurement.row,
                        candidate=one.name,
                        round=number,
                        at=time.strftime("%H:%M:%S"),
                        load_average=os.getloadavg()[0],
                        figures=measurement.figures,
                    )


def show(measured: Measured) -> None:
    figures = "  ".join(f"{name} {render.number(value)}" for name, value in measured["figures"].items())
    console.print(
        f"{measured['at']} load {measured['load_average']:.1f}  [bold]{measured['row']}[/bold] "
        f"{measured['candidate']} round {measured['round']}: {figures}",
        soft_wrap=True,
    )


def keep(run: Run, subject: str, peer: str, path: Path) -> None:
    """Put the run, less the measurements of other peers, into the file of the peer."""
    theirs = [one for one in run["measurements"] if one["candidate"] in (subject, peer)]
    write(path, merge(read(path), Run(**{**run, "measurements": theirs})))


def show_comparison(run: Run, subject: str, peer: str) -> None:
    table = Table(title=f"{run['versions'][subject]}  /  {run['versions'][peer]}  (min / median / max)")
    for heading in ("what", "figure", subject, peer, "ratio", "target", ""):
        table.add_column(heading)
    last = ""
    for one in compare(run["measurements"], subject, peer):
        colour = {"reached": "green", "short": "red"}.get(one.verdict, "")
        table.add_row(
            render.row_name(one.row) if one.row != last else "",
            render.figure_name(one.figure),
            render.spread_text(one.subject),
            render.spread_text(one.peer),
            render.spread_text(one.ratio),
            str(one.target or ""),
            f"[{colour}]{one.verdict}[/{colour}]" if colour else "",
        )
        last = one.row
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
