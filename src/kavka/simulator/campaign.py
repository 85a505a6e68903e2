"""Many seeds on all cores, and the figures of it: python -m kavka.simulator.campaign --seeds 300

Decides nothing about a run, only which seeds are run and how they are told. One line for each seed that failed, with
the command that has it again; in the end each is made smaller (`shrink`) and printed as what a test can play again. The
exit status is 1 if there was one.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from kavka.logger import set_level
from kavka.simulator.shrink import shrink
from kavka.simulator.swarm import HOURS, SeedResult, run_seed

SHRINK_SECONDS = 120.0
"""How long a failing seed is made smaller."""
MAX_SHRUNK = 5
"""So many failing seeds are made smaller, one of each rule first: a thousand seeds may fail for one reason."""
SEEDS_PER_PROCESS = 8
"""A simulated node is never collected: a process gives its memory back by ending."""


def run_seeds(seeds: Iterable[int], *, hours: float, brokers: int | None, processes: int) -> Iterator[SeedResult]:
    """Results as they come, in no order."""
    run = partial(_run_quietly, hours=hours, brokers=brokers)
    if processes == 1:
        yield from map(run, seeds)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(run, seeds)


def _run_quietly(seed: int, *, hours: float, brokers: int | None) -> SeedResult:
    # A request of a connection that ended before its handler began: its coroutine never runs, as intended.
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")
    set_level("error")  # What a broker warns of is what is made to happen here.
    gc.freeze()
    return run_seed(seed, hours=hours, brokers=brokers)


class Figures:
    """The sums over all seeds so far."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self.seeds = 0
        self.simulated_hours = 0.0
        self.events_checked = 0
        self.changes_checked = 0
        self.acknowledged = 0
        self.consumed = 0
        self.faults: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self.failed: list[SeedResult] = []

    def add(self, result: SeedResult) -> None:
        self.seeds += 1
        self.simulated_hours += result.simulated_hours
        self.events_checked += result.events_checked
        self.changes_checked += result.changes_checked
        self.acknowledged += result.acknowledged
        self.consumed += result.consumed
        self.faults.update(result.faults)
        self.states.update(result.states)
        if result.violation:
            self.failed.append(result)

    @property
    def wall_seconds(self) -> float:
        return time.perf_counter() - self._began_s

    def as_json(self) -> dict[str, object]:
        wall_seconds = self.wall_seconds
        return {
            "seeds": self.seeds,
            "simulated_hours": round(self.simulated_hours, 2),
            "simulated_to_wall": round(self.simulated_hours * 3_600 / wall_seconds, 1),
            "events_checked": self.events_checked,
            "changes_checked": self.changes_checked,
            "faults": self.faults.total(),
            "faults_by_kind": dict(sorted(self.faults.items())),
            "acknowledged": self.acknowledged,
            "consumed": self.consumed,
            "violations": [{"seed": result.seed, "what": result.violation} for result in self.failed],
            "wall_seconds": round(wall_seconds, 1),
        }


def one_of_each_rule_first(failed: list[SeedResult]) -> list[SeedResult]:
    """In order of seeds otherwise, whichever ended first."""
    first: dict[str, int] = {}
    for result in sorted(failed, key=lambda result: result.seed):
        first.setdefault(result.rule, result.seed)
    return sorted(failed, key=lambda result: (first[result.rule] != result.seed, result.seed))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kavka.simulator.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first one")
    parser.add_argument("--seed", type=int, help="this one alone, and what happened in it")
    parser.add_argument("--hours", type=float, default=HOURS, help="simulated hours of a seed, without its healing")
    parser.add_argument("--brokers", type=int, help="how many; drawn by each seed otherwise")
    parser.add_argument("--minutes", type=float, help="take no more results after so long")
    parser.add_argument(
        "--shrink-seconds", type=float, default=SHRINK_SECONDS, help="for each failing seed to be made smaller; 0: not"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        seeds, processes = range(arguments.seed, arguments.seed + 1), 1
    else:
        seeds, processes = range(arguments.first, arguments.first + arguments.seeds), arguments.processes
    again = f"{parser.prog} --hours {arguments.hours}"
    if arguments.brokers is not None:
        again += f" --brokers {arguments.brokers}"
    figures = Figures()
    for result in run_seeds(seeds, hours=arguments.hours, brokers=arguments.brokers, processes=processes):
        figures.add(result)
        if arguments.seed is not None:
            print(f"seed {result.seed}, digest {result.digest}: {result.mix}")
            print(result.detail)
        if result.violation:
            print(f"seed {result.seed}: {result.violation}\n    again: {again} --seed {result.seed}", flush=True)
        if arguments.minutes is not None and figures.wall_seconds > 60 * arguments.minutes:
            break
    summary = figures.as_json()
    if arguments.shrink_seconds > 0:
        for result in one_of_each_rule_first(figures.failed)[:MAX_SHRUNK]:
            shrunk = shrink(result, max_seconds=arguments.shrink_seconds)
            told = shrunk.found.as_python() if shrunk.found is not None else ""
            print(f"seed {result.seed}, {result.rule}: {shrunk}\n{told}", flush=True)
    for name, value in summary.items():
        print(f"{name:20} {value}")
    print(json.dumps(summary))
    return 1 if figures.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
