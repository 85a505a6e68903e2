"""One fault at every step of a short story, instead of random faults at random steps.

    python -m kavka.simulator.runs.explore --story "log roll" --kind crash --part 3/100

Decides which runs there are, and in which order they are made. A story is a plan, a length and what administrators and
faults do in it at given times. Played undisturbed it has N steps. Then each broker is crashed after each of them, in a
run of its own: N times the number of brokers runs for one kind of fault. After its fault every run is healed, and all
rules must hold to the end, as for a seed of the swarm.

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
from dataclasses import dataclass
from typing import Final, NamedTuple

from kavka.simulator.faults.mix import Strike
from kavka.simulator.runs.shrink import be_quiet
from kavka.simulator.runs.swarm import Plan, play_plan
from kavka.simulator.world import World

BACK_MS: Final = 1_500
"""How long a crashed broker is away: shorter than its session, which then ends while it comes back."""
KINDS: Final[Mapping[str, tuple[str, Mapping[str, int]]]] = {
    "crash": ("kill", {"back_ms": BACK_MS}),
    "power": ("power cut", {"back_ms": BACK_MS}),
    "session": ("session", {}),
}
"""What is done to one broker at one step: the kind of strike, and its arguments beside the broker."""


class Story(NamedTuple):
    """`strikes` count from the moment when writes began; `seconds` is the virtual time in which faults are explored."""

    plan: Plan
    seconds: float
    strikes: tuple[Strike, ...] = ()

    @property
    def brokers(self) -> range:
        return range(1, self.plan.brokers + 1)


def _plan(*, settings: Mapping[str, str] | None = None, members: int = 0, transactors: int = 0) -> Plan:
    own = {"offsets.topic.replication.factor": "3", "zookeeper.session.timeout.ms": "4000", **(settings or {})}
    if transactors:
        own |= {"transaction.state.log.num.partitions": "1", "transaction.state.log.replication.factor": "3"}
        own |= {"transaction.state.log.min.isr": "2"}
    return Plan(1, mean_pause_s=0.2, settings=own, members=members, transactors=transactors)


def _strike(at_ms: int, kind: str, **arguments: object) -> Strike:
    return Strike.from_json({"at_ms": at_ms, "kind": kind, **arguments})


_CREATED: Final = _strike(50, "create topic", topic="invoices", partitions=1, replicas=3)
STORIES: Final[Mapping[str, Story]] = {
    "produce": Story(_plan(), 1.5),
    "a follower behind": Story(_plan(), 3.0, (_strike(50, "pause", broker=3, ms=2_500),)),
    "ISR shrink and expansion": Story(
        _plan(settings={"replica.lag.time.max.ms": "1500"}), 6.0, (_strike(50, "pause", broker=3, ms=3_500),)
    ),
    "clean election": Story(_plan(), 2.0, (_strike(200, "session", broker=1),)),
    "controller change": Story(_plan(), 2.0, (_strike(200, "new controller"),)),
    "reassignment": Story(
        _plan(),
        2.5,
        (_CREATED, _strike(600, "move", topic="invoices", partition=0, to=[2, 3])),
    ),
    "topic deleted and made again": Story(
        _plan(),
        3.0,
        (
            _CREATED,
            _strike(700, "delete topic", topic="invoices"),
            _strike(1_500, "create topic", topic="invoices", partitions=1, replicas=3),
        ),
    ),
    "log roll": Story(_plan(settings={"log.segment.bytes": "1024"}), 2.0),
    "records deleted": Story(_plan(), 2.5, (_strike(1_200, "delete records", topic="orders", partition=0, share=0.6),)),
    "group commit and rebalance": Story(_plan(members=2), 4.0, (_strike(2_000, "member leaves", place=0, ms=1_000),)),
    "a transaction to its end": Story(_plan(transactors=1), 3.0),
    "clean stop": Story(_plan(), 3.0, (_strike(200, "restart", broker=1, back_ms=1_500),)),
    "preferred leaders": Story(_plan(), 4.0, (_strike(100, "restart", broker=1, back_ms=800), _strike(3_000, "elect"))),
}
"""By name. Each is a second or a few: what is near its beginning is explored as well as its end."""


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


def run(story: Story, point: Point | None = None) -> Outcome:
    """Plays a story, with the fault of `point`, or undisturbed."""
    plan = story.plan
    world = World(
        plan.seed, brokers=plan.brokers, partitions=plan.partitions, settings=plan.settings, schedule=story.strikes
    )
    made: list[bool] = []
    if point is not None:
        kind, arguments = KINDS[point.kind]
        strike = _strike(0, kind, broker=point.broker, **arguments)
        world.scheduler.at_step(point.step, lambda: made.append(world.faults.strike_now(strike)))
    violation, rule, detail = play_plan(world, plan, story.seconds / 3_600)
    return Outcome(point, world.digest, world.swarm_steps, any(made), rule, violation, detail)


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
        self.digests: dict[str, None] = {}
        self.broken: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        point = outcome.point
        assert point is not None
        self.counts[point.story, point.kind, "made" if outcome.is_made else "refused"] += 1
        self.digests[outcome.digest] = None
        if outcome.violation:
            self.counts[point.story, point.kind, "broken"] += 1
            self.broken.append(outcome)
            print(f"{outcome.rule}: {outcome.violation}\n    again: {point.command}", flush=True)

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
        calm = run(STORIES[name])
        if calm.violation:
            raise SystemExit(f"{name}, undisturbed: {calm.violation}\n{calm.detail}")
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
    print(found.table())
    return 1 if found.broken else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # Nothing of a simulation is to be ended in order (scheduler.py, I2).
