"""Twins: the same seeds in two processes with two hash seeds; they must take the same steps, all of them.

    python -m kavka.simulator.runs.twins --seeds 20

Decides whether two runs of a seed are one, and where they part if they are not: first between which milestones, then,
by running both once more and looking closely there, at which step. What a run depends on beside its seed (the order of
a set, an address in memory, a clock) shows as such a step.

Source: TigerBeetle runs its simulator's seeds twice for the same reason.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from kavka.simulator.host.scheduler import MILESTONE_STEPS, Milestone
from kavka.simulator.runs.shrink import be_quiet
from kavka.simulator.runs.swarm import Plan, run_plan

HASH_SEEDS: Final = ("1", "2")
SEEDS: Final = 20
FIRST: Final = 2_001
HOURS: Final = 0.01
"""Simulated hours of a twin: what makes runs part does so within the first minutes."""


class Run(NamedTuple):
    """One of two runs of a seed."""

    digest: str
    milestones: tuple[Milestone, ...]


class Twin(NamedTuple):
    """A seed that ran twice. `parted`: where the two are not the same any more; empty if they are."""

    seed: int
    digest: str
    parted: str


Again: TypeAlias = Callable[[range], tuple[Run, Run]]
"""Runs both once more, with a milestone at each of these steps."""


def compare(one: Run, other: Run, again: Again) -> str:
    """Where two runs part, as a sentence; empty if they are the same."""
    if one == other:
        return ""
    reached = 0
    for here, there in zip(one.milestones, other.milestones, strict=False):
        if here != there:
            break
        reached = here.steps
    close = again(range(reached, reached + 2 * MILESTONE_STEPS))
    for here, there in zip(close[0].milestones, close[1].milestones, strict=False):
        if here != there:
            return f"at step {here.steps}: {_told(here)} in one run, {_told(there)} in the other"
    ends = [run.milestones[-1].steps if run.milestones else 0 for run in close]
    if ends[0] != ends[1]:
        return f"one run ends at step {ends[0]}, the other at step {ends[1]}"
    return f"no step up to {ends[0]} differs: what came of them does, {one.digest} and {other.digest}"


def _told(milestone: Milestone) -> str:
    return f"{milestone.node} at {milestone.now_ns / 1e9:.6f} s"


# -- in processes


def run_twins(seeds: Sequence[int], hours: float) -> Iterator[Twin]:
    """Runs the seeds in two processes at once, and prints each pair."""
    runs = [_start(hash_seed, seeds, hours, range(0)) for hash_seed in HASH_SEEDS]
    results = [_finish(run) for run in runs]
    for seed, one, other in zip(seeds, *results, strict=True):

        def again(closely: range, seed: int = seed) -> tuple[Run, Run]:
            pair = [_start(hash_seed, [seed], hours, closely) for hash_seed in HASH_SEEDS]
            return _finish(pair[0])[0], _finish(pair[1])[0]

        yield Twin(seed, one.digest, compare(one, other, again))


def _start(hash_seed: str, seeds: Sequence[int], hours: float, closely: range) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "kavka.simulator.runs.twins",
        "--run",
        str(hours),
        str(closely.start),
        str(closely.stop),
    ]
    return subprocess.Popen(
        [*command, *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
    )


def _finish(process: subprocess.Popen[str]) -> list[Run]:
    output = process.communicate()[0]
    if process.returncode:
        raise RuntimeError(f"a twin ended with {process.returncode}")
    lines = [json.loads(line) for line in output.splitlines()]
    return [Run(digest, tuple(Milestone(*each) for each in milestones)) for digest, milestones in lines]


def _run(arguments: Sequence[str]) -> None:
    """What a twin's process does: a line for each seed."""
    be_quiet()
    hours, start, stop = float(arguments[0]), int(arguments[1]), int(arguments[2])
    for seed in map(int, arguments[3:]):
        result = run_plan(Plan.draw(seed), hours=hours, closely=range(start, stop))
        print(json.dumps([result.digest, result.milestones]), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kavka.simulator.runs.twins", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many")
    parser.add_argument("--first", type=int, default=FIRST, help="the first one")
    parser.add_argument("--hours", type=float, default=HOURS, help="simulated hours of each")
    parser.add_argument("--run", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        _run(arguments.run)
        sys.stdout.flush()
        os._exit(0)  # Nothing of a simulation is to be ended in order (scheduler.py, I2).
    parted = 0
    for twin in run_twins(range(arguments.first, arguments.first + arguments.seeds), arguments.hours):
        parted += bool(twin.parted)
        print(f"seed {twin.seed}, digest {twin.digest}: {twin.parted or 'one run'}", flush=True)
    return 1 if parted else 0


if __name__ == "__main__":
    raise SystemExit(main())
