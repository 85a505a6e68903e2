"""The harness for clusters: `python -m benchmarks.cluster [GROUP ...] [--peer kraft|zk|both] [--rounds N] [--quick]`.

As run.py does it for one broker: the candidates in turn, round by round, each with a fresh directory and new processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.apache_kafka import PeerMissing, installed
from tests.kit.kavka_process import ProcessFailed

from benchmarks import PROJECT, load_generator, render
from benchmarks.cluster_candidates import ClusterCandidate, cluster_candidate
from benchmarks.cluster_rows import CLUSTER_GROUPS, LONG, ClusterGroup, ClusterSizes, live
from benchmarks.results import Measured, Run
from benchmarks.run import QUICK_DIVISOR, console, fill, keep, show_comparison, start_run

NAME = "three-brokers"


def main() -> int:
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers are ended on the way out
    names = [arguments.subject, *(("kraft", "zk") if arguments.peer == "both" else (arguments.peer,))]
    groups = {name: CLUSTER_GROUPS[name] for name in arguments.groups or CLUSTER_GROUPS}
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    sizes = ClusterSizes().divided(QUICK_DIVISOR) if arguments.quick else ClusterSizes()
    place = Path(tempfile.mkdtemp(prefix="kavka-bench-", dir=arguments.data))
    try:
        for name in names:
            if name != "kavka":
                installed(name)
        load_generator.build()
        candidates = [cluster_candidate(name) for name in names]
        run = start_run({one.name: one.version() for one in candidates}, place, sizes._asdict(), "benchmarks.cluster")
        fill(run, measure(candidates, groups, rounds, sizes, place, run))
    except PeerMissing as failure:
        console.print(f"[red]{failure}[/red]")
        return 1
    finally:
        shutil.rmtree(place, ignore_errors=True)
    to_keep = arguments.subject == "kavka" and not arguments.quick
    directory = render.RESULTS if to_keep else PROJECT / "build" / "benchmarks"
    for peer in names[1:]:
        keep(run, arguments.subject, peer, directory / f"{NAME}-{peer}.json")
        show_comparison(run, arguments.subject, peer)
    if to_keep:
        render.render()
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.cluster", description="Three brokers of each, measured in turn.")
    known = ", ".join(CLUSTER_GROUPS)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {known}; all when none is named")
    parser.add_argument(
        "--peer", choices=["kraft", "zk", "both"], default="both", help="the Apache Kafka to compare with"
    )
    parser.add_argument("--rounds", type=int, default=0, help="A B A B ...: 3 by default, 1 with --quick")
    parser.add_argument("--quick", action="store_true", help="a fifth of the operations; the result is not kept")
    parser.add_argument("--data", type=Path, help="where the brokers keep their data (the temporary directory)")
    parser.add_argument("--subject", choices=["kavka", "kraft", "zk"], default="kavka", help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    unknown = [name for name in parsed.groups if name not in CLUSTER_GROUPS]
    if unknown:
        parser.error(f"{unknown[0]}: no such group; choose from {known}")
    return parsed


def measure(
    candidates: list[ClusterCandidate],
    groups: dict[str, ClusterGroup],
    rounds: int,
    sizes: ClusterSizes,
    place: Path,
    run: Run,
) -> Iterator[Measured]:
    """Every group in its rounds, the candidates in turn. A life that fails costs its rows only, and is said so."""
    for name, group in groups.items():
        taking_part = list(candidates)
        for number in range(1, 1 + rounds):
            for one in list(taking_part):
                try:
                    for measurement in live(one, place / f"{name}-{number}-{one.name}", group, sizes):
                        yield Measured(
                            row=measurement.row,
                            candidate=one.name,
                            round=number,
                            at=time.strftime("%H:%M:%S"),
                            load_average=os.getloadavg()[0],
                            figures=measurement.figures,
                        )
                except (ProcessFailed, load_generator.LoadFailed, RuntimeError) as failure:
                    console.print(f"[red]{name}, {one.name}, round {number}: {failure}[/red]")
                    if name in LONG:
                        taking_part.remove(one)


if __name__ == "__main__":
    sys.exit(main())
