"""One fault at every step of a short story, instead of random faults at random steps.

    python -m kavka.simulator.runs.explore --story "log roll" --kind crash --part 3/100

Decides which runs there are, and in which order they are made. A story is a plan, a length and what administrators and
faults do in it at given times. Played undisturbed it has N steps. Then each broker is crashed after each of them, in a
run of its own: N times the number of brokers runs for one kind of fault. After its fault every run is healed, and all
rules must hold to the end, as for a seed of the swarm.

A story has milestones (`stories`). Undisturbed it must reach each of them within the steps that are explored, and the
runs with a fault must reach each of them mostly. A story that does not is an error: its runs would show nothing.

    I1  up to its fault, a run is the undisturbed one, step by step: the fault draws nothing
    I2  a part is every n-th run: all n parts together are all runs, and none twice
    I3  a fault that could cost acknowledged records is not made (`FaultGroup.may_lose`); it is counted as refused

What it does not do: pairs of faults, other orders of the same steps, and a choice of what a power cut leaves. Each run
of `power` draws one of the states that the simulated disk may be left in.

Source: ALICE (Pillai et al., OSDI 2014) and CrashMonkey (OSDI 2018): crash points are enumerated, not drawn.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kavka.simulator.faults.mix import Argument
from kavka.simulator.host.broker import LOG_DIRECTORIES
from kavka.simulator.runs.shrink import be_quiet
from kavka.simulator.runs.stories import STORIES, Story, Witness, strike
from kavka.simulator.runs.swarm import play_plan
from kavka.simulator.world import World

BACK_MS: Final = 1_500
"""How long a crashed broker is away: shorter than its session, which then ends while it comes back."""
DISK_MS: Final = 300
"""How long a disk fails or is full."""
HOUR_MS: Final = 3_600_000
_BROKEN: Final[Mapping[str, Argument]] = {"directory": LOG_DIRECTORIES, "ms": DISK_MS}
KINDS: Final[Mapping[str, tuple[str, Mapping[str, Argument]]]] = {
    "crash": ("kill", {"back_ms": BACK_MS}),
    "power": ("power cut", {"back_ms": BACK_MS}),
    "session": ("session", {}),
    "write": ("disk errors", {**_BROKEN, "what": "writes", "share": 1.0, "replaced": False}),
    "sync": ("disk errors", {**_BROKEN, "what": "syncs", "share": 1.0, "replaced": False}),
    "full": ("disk full", _BROKEN),
    "clock ahead": ("clock", {"skew_ms": HOUR_MS}),
    "clock behind": ("clock", {"skew_ms": -HOUR_MS}),
}
"""What is done to one broker at one step: the kind of strike, and its arguments beside the broker."""
MOSTLY: Final = 0.5
"""Of the runs with a fault so many must reach a milestone."""
FEW: Final = 20
"""Of so few runs no share is asked for."""


class NothingShown(Exception):
    """A story that is not worth to be explored as it is."""


class Point(NamedTuple):
    """Where the fault is."""

    story: str
    kind: str
    broker: int
    step: int

    @property
    def command(self) -> str:
        return f"--story '{self.story}' --kind {self.kind} --broker {self.broker} --step {self.step}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`is_made`: the fault was allowed at that step. `violation` is empty if every rule holds."""

    point: Point | None
    digest: str
    steps: range
    is_made: bool
    rule: str = ""
    violation: str = ""
    detail: str = ""
    reached: Mapping[str, int] = field(default_factory=dict)
    """The milestones, and at which step each was seen first."""


def run(story: Story, point: Point | None = None) -> Outcome:
    """Plays a story, with the fault of `point`, or undisturbed."""
    plan = story.plan
    world = World(
        plan.seed, brokers=plan.brokers, partitions=plan.partitions, settings=plan.settings, schedule=story.strikes
    )
    made: list[bool] = []
    if point is not None:
        kind, arguments = KINDS[point.kind]
        fault = strike(0, kind, broker=point.broker, **arguments)
        disk = world.brokers[point.broker].disk

        def make() -> None:
            disk.draw_from(f"{point.step}")  # Else each run would leave the same of what it had not synced.
            made.append(world.faults.strike_now(fault))

        world.scheduler.at_step(point.step, make)
    witness = Witness(world, story.milestones)
    violation, rule, detail = play_plan(world, plan, story.seconds / 3_600)
    return Outcome(point, world.digest, world.swarm_steps, any(made), rule, violation, detail, witness.reached)


def play_calm(name: str) -> Outcome:
    """Plays a story undisturbed. Raises NothingShown if it breaks a rule, or misses a milestone in the steps that are
    explored."""
    story = STORIES[name]
    calm = run(story)
    if calm.violation:
        raise NothingShown(f"{name}, undisturbed: {calm.violation}\n{calm.detail}")
    missed = [each.name for each in story.milestones if calm.reached.get(each.name, -1) not in calm.steps]
    if missed:
        raise NothingShown(f"{name}, undisturbed, never came to this: {'; '.join(missed)}")
    return calm


def points(name: str, kind: str, steps: range, *, part: int = 0, parts: int = 1) -> Iterator[Point]:
    """Every n-th of all points of a story, in order of their steps (I2)."""
    brokers = STORIES[name].brokers
    for index in range(part, len(steps) * len(brokers), parts):
        yield Point(name, kind, brokers[index % len(brokers)], steps[index // len(brokers)])


def _run_point(point: Point) -> Outcome:
    return run(STORIES[point.story], point)


class Exploration:
    """The figures of many runs."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """By story, kind and what came of it: of, made, refused, broken."""
        self.reached: Counter[tuple[str, str]] = Counter()
        """By story and milestone: how many of its runs with a fault came to it."""
        self.digests: dict[str, None] = {}
        self.broken: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        point = outcome.point
        assert point is not None
        self.counts[point.story, point.kind, "made" if outcome.is_made else "refused"] += 1
        self.digests[outcome.digest] = None
        if outcome.is_made:
            self.reached.update((point.story, name) for name in outcome.reached)
        if outcome.violation:
            self.counts[point.story, point.kind, "broken"] += 1
            self.broken.append(outcome)
            print(f"{outcome.rule}: {outcome.violation}\n    again: {point.command}", flush=True)

    def missed(self) -> list[str]:
        """Milestones that too few of the runs with a fault reached, in words."""
        found = []
        for story in dict.fromkeys(story for story, _, _ in self.counts):
            made = sum(count for key, count in self.counts.items() if (key[0], key[2]) == (story, "made"))
            for milestone in STORIES[story].milestones:
                reached = self.reached[story, milestone.name]
                if made >= FEW and reached < MOSTLY * made:
                    found.append(f"{story}: {reached:,} of {made:,} runs with a fault came to this: {milestone.name}")
        return found

    def table(self) -> str:
        rows = [f"{'story':<32}{'kind':<9}{'runs there are':>15}{'made':>8}{'refused':>9}{'broken':>8}"]
        for story, kind in dict.fromkeys((story, kind) for story, kind, _ in self.counts):
            of, made, refused, broken = (self.counts[story, kind, what] for what in ("of", "made", "refused", "broken"))
            rows.append(f"{story:<32}{kind:<9}{of:>15,}{made:>8,}{refused:>9,}{broken:>8,}")
        rows.append(f"{sum(self.counts[key] for key in self.counts if key[2] in ('made', 'refused')):,} runs, ")
        rows[-1] += f"{len(self.digests):,} of them different"
        return "\n".join(rows)


def explore(stories: Sequence[str], kinds: Sequence[str], part: int, parts: int, minutes: float | None) -> Exploration:
    """Makes one part of all runs, on all cores; ends after `minutes` with what it has."""
    found = Exploration()
    todo: list[Point] = []
    for name in stories:
        calm = play_calm(name)
        for kind in kinds:
            found.counts[name, kind, "of"] = len(calm.steps) * len(STORIES[name].brokers)
            todo += points(name, kind, calm.steps, part=part, parts=parts)
    # By place in the part, not by story: a slice that ends early has seen something of each.
    todo.sort(key=lambda point: (point.step * 2_654_435_761) & 0xFFFF_FFFF)
    end_s = time.monotonic() + (60 * minutes if minutes is not None else 1e9)
    with multiprocessing.get_context("fork").Pool(os.cpu_count(), be_quiet, maxtasksperchild=50) as pool:
        for outcome in pool.imap_unordered(_run_point, todo):
            found.add(outcome)
            if time.monotonic() > end_s:
                break
        pool.terminate()
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--story", choices=STORIES, help="default: all")
    parser.add_argument("--kind", choices=KINDS, help="default: all")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every N-th run, from the I-th on")
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument("--broker", type=int, help="with --step, --story and --kind: this run alone")
    parser.add_argument("--step", type=int)
    arguments = parser.parse_args(argv)
    be_quiet()
    if arguments.step is not None:
        outcome = _run_point(Point(arguments.story, arguments.kind, arguments.broker, arguments.step))
        print(outcome.violation or f"every rule holds, digest {outcome.digest}", outcome.detail, sep="\n")
        return 1 if outcome.violation else 0
    part, parts = (int(number) for number in arguments.part.split("/"))
    stories = [arguments.story] if arguments.story else list(STORIES)
    found = explore(stories, [arguments.kind] if arguments.kind else list(KINDS), part, parts, arguments.minutes)
    missed = found.missed()
    print(found.table(), *missed, sep="\n")
    return 1 if found.broken or missed else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # Nothing of a simulation is to be ended in order (scheduler.py, I2).
