"""One fault, or two, at every step of a short story, instead of random faults at random steps.

Decides which runs there are, and in which order they are made. A story is a plan, a length and what administrators and
faults do in it at given times. Played undisturbed, each broker takes so many steps of its own. Then it is crashed after
each of them, in a run of its own. A crash after a step of somebody else needs no run: what the broker held, and what it
had sent, is what it was after its own step before; only the others learn of the crash a little later. With pairs, a
second fault follows each first one within `WINDOW` steps, whosesoever they are. After its faults every run is healed,
and all rules must hold to the end, as for a seed of the swarm.

A delay holds a broker back right before a step of its own, so that all others overtake it: one step in another order.
With two of them, a run has every order that two delays make, wherever they are in the story.

A story has milestones (`stories`). Undisturbed it must reach each of them within the steps that are explored, and the
runs with one fault must reach each of them mostly. A story that does not is an error: its runs would show nothing.

    I1  up to its fault, a run is the undisturbed one, step by step: the fault draws nothing
    I2  a part is every n-th run: all n parts together are all runs, and none twice
    I3  a fault that could cost acknowledged records is not made (`FaultGroup.may_lose`); it is counted as refused
    I4  the order in which runs are made is a permutation of them, so that whatever is done is spread evenly

What it does not do: every choice of what a power cut leaves. Each run of `power` draws one of the states that the
simulated disk may be left in.

Source: ALICE (Pillai et al., OSDI 2014) and CrashMonkey (OSDI 2018): crash points are enumerated, not drawn.
Delay-bounded scheduling (Emmi, Qadeer and Rakamaric, POPL 2011): few delays show most errors of order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final, NamedTuple

from kavka.simulator.faults.mix import Argument, Strike
from kavka.simulator.host.broker import LOG_DIRECTORIES
from kavka.simulator.runs.stories import STORIES, Story, Witness, strike
from kavka.simulator.runs.swarm import SeedResult, play_plan
from kavka.simulator.world import World

BACK_MS: Final = 1_500
"""How long a crashed broker is away: shorter than its session, which then ends while it comes back."""
DISK_MS: Final = 300
"""How long a disk fails or is full."""
DELAY_MS: Final = 40
"""How long a step waits: longer than messages between brokers take, shorter than any of their time-outs."""
HOUR_MS: Final = 3_600_000
_BROKEN: Final[Mapping[str, Argument]] = {"directory": LOG_DIRECTORIES, "ms": DISK_MS}
KINDS: Final[Mapping[str, tuple[str, Mapping[str, Argument]]]] = {
    "crash": ("kill", {"back_ms": BACK_MS, "regardless": True}),
    "power": ("power cut", {"back_ms": BACK_MS}),
    "session": ("session", {}),
    "write": ("disk errors", {**_BROKEN, "what": "writes", "share": 1.0, "replaced": False}),
    "sync": ("disk errors", {**_BROKEN, "what": "syncs", "share": 1.0, "replaced": False}),
    "full": ("disk full", _BROKEN),
    "clock ahead": ("clock", {"skew_ms": HOUR_MS}),
    "clock behind": ("clock", {"skew_ms": -HOUR_MS}),
    "second ahead": ("clock", {"skew_ms": 1_000}),
    "second behind": ("clock", {"skew_ms": -1_000}),
    "delay": ("pause", {"ms": DELAY_MS}),
}
"""What is done to one broker at one step: the kind of strike, and its arguments beside the broker."""
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "crash": ("crash",),
    "power": ("power",),
    "session": ("session",),
    "disk": ("write", "sync", "full"),
    "clock": ("clock ahead", "clock behind", "second ahead", "second behind"),
    "delay": ("delay",),
}
"""What `kavka simulate --explore` is asked for."""
WINDOW: Final = 300
"""So many steps after the first fault of a pair the second one is at the latest: longer than a broker takes to be
back, in most stories."""
DELAY: Final = "delay"


class NothingShown(Exception):
    """A story that is not worth to be explored as it is."""


class Then(NamedTuple):
    """A second fault, so many steps after the first."""

    kind: str
    broker: int
    gap: int


class Point(NamedTuple):
    """Where the fault is; with `then`, where both are."""

    story: str
    kind: str
    broker: int
    step: int
    then: Then | None = None

    @property
    def place(self) -> str:
        """As `parse_place` reads it: "crash 3@1520", or "crash 3@1520, power 2@+40"."""
        first = f"{self.kind} {self.broker}@{self.step}"
        return first if self.then is None else f"{first}, {self.then.kind} {self.then.broker}@+{self.then.gap}"

    @property
    def command(self) -> str:
        return f"kavka simulate --explore {family(self.kind)} --scenario '{self.story}' --at '{self.place}'"


def family(kind: str) -> str:
    """The one that a kind of fault belongs to."""
    return next(name for name, kinds in FAMILIES.items() if kind in kinds)


MOST_STEPS: Final = 1_000_000
"""No story has so many."""
_OF_A_BROKER: Final = re.compile(r"broker-(\d+)\.\d+")
_PLACE: Final = re.compile(r"(?P<kind>[a-z ]+) (?P<broker>\d+)@(?P<step>\d+)")
_THEN: Final = re.compile(r"(?P<kind>[a-z ]+) (?P<broker>\d+)@\+(?P<gap>\d+)")


def parse_place(story: str, words: str) -> Point:
    """What `Point.place` says. Raises ValueError with what is wrong."""
    first, comma, second = (each.strip() for each in words.partition(","))
    found, then = _PLACE.fullmatch(first), _THEN.fullmatch(second) if comma else None
    if found is None or (comma and then is None):
        raise ValueError("a place is 'crash 3@1520': a kind, a broker, a step; a second fault: ', crash 2@+40'")
    for match in filter(None, (found, then)):
        if match["kind"] not in KINDS:
            raise ValueError(f"no such kind of fault: {match['kind']}; there are {', '.join(KINDS)}")
        if int(match["broker"]) not in STORIES[story].brokers:
            raise ValueError(f"{story} has no broker {match['broker']}")
    after = None if then is None else Then(then["kind"], int(then["broker"]), int(then["gap"]))
    return Point(story, found["kind"], int(found["broker"]), int(found["step"]), after)


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
    struck: tuple[Strike, ...] = ()
    """All faults that were made, at their times."""
    seconds: float = 0.0
    """How long there were faults and writes before all was healed or a rule was broken."""
    own_steps: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Of an undisturbed run: after which steps a broker's own one came."""

    def as_seed_result(self) -> SeedResult:
        """The run as the swarm reports one, to be shown and made smaller. Its faults are at whole milliseconds."""
        assert self.point is not None
        plan = STORIES[self.point.story].plan
        return SeedResult(
            seed=plan.seed,
            digest=self.digest,
            simulated_hours=self.seconds / 3_600,
            events_checked=0,
            changes_checked=0,
            acknowledged=0,
            consumed=0,
            wall_seconds=0.0,
            mix="",
            violation=self.violation,
            rule=self.rule,
            detail=self.detail,
            plan=plan,
            strikes=self.struck,
            swarm_seconds=self.seconds,
        )


class Playing:
    """A story as it is played, once: what is to be done at its steps is said first, then `play` plays it."""

    def __init__(self, story: Story) -> None:
        plan = story.plan
        self._story = story
        self.world = World(
            plan.seed,
            brokers=plan.brokers,
            partitions=plan.partitions,
            settings=plan.settings,
            schedule=story.strikes,
            sharing=plan.sharers > 0,
            streaming=plan.streamers > 0,
        )
        self._made: list[bool] = []

    def at(self, step: int, action: Callable[[], object]) -> None:
        """Has `action` called right after this step."""
        self.world.scheduler.at_step(step, action)

    def strike(self, point: Point) -> None:
        """Makes the fault of `point` now, and its second one when its steps have passed."""
        self._make(point.kind, point.broker)
        if point.then is not None:
            self.at(point.step + point.then.gap, partial(self._make, point.then.kind, point.then.broker))

    def _make(self, kind: str, broker: int) -> None:
        world, (name, arguments) = self.world, KINDS[kind]
        # Else each run would leave the same of what it had not synced.
        world.brokers[broker].disk.draw_from(f"{world.scheduler.steps}")
        at_ms = round(1_000 * world.faults.elapsed_s)
        self._made.append(world.faults.strike_now(strike(at_ms, name, broker=broker, **arguments)))

    def play(self, of: Callable[[], Point | None]) -> Outcome:
        """Plays the story to its end, or to the first rule that is broken. `of` is asked then: the faults that were
        made, None if it was undisturbed."""
        world, story = self.world, self._story
        witness = Witness(world, story.milestones)
        violation, rule, detail = play_plan(world, story.plan, story.seconds / 3_600)
        point = of()
        return Outcome(
            point,
            world.digest,
            world.swarm_steps,
            bool(self._made) and all(self._made),
            rule,
            violation,
            detail,
            witness.reached,
            tuple(sorted(world.faults.struck, key=lambda each: each.at_ms)),
            min(world.faults.elapsed_s, story.seconds),
            _own_steps(world) if point is None else {},
        )

    def look_closely(self) -> None:
        """Notes whose step each one is."""
        self.world.scheduler.look_closely(range(1, MOST_STEPS))


def run(story: Story, point: Point | None = None) -> Outcome:
    """Plays a story, with the faults of `point`, or undisturbed."""
    playing = Playing(story)
    if point is None:
        playing.look_closely()
    else:
        playing.at(point.step, partial(playing.strike, point))
    return playing.play(lambda: point)


def _own_steps(world: World) -> dict[int, list[int]]:
    """By broker: the explored steps right after which it took one itself. Every step was looked at closely."""
    found: dict[int, list[int]] = {broker_id: [] for broker_id in world.brokers}
    for milestone in world.scheduler.milestones:
        owner = _OF_A_BROKER.fullmatch(milestone.node)
        if owner is not None and milestone.steps - 1 in world.swarm_steps:
            found[int(owner[1])].append(milestone.steps - 1)
    return found


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


@dataclass(frozen=True)  # no slots: `firsts` is kept
class Scope:
    """All runs of one story with one kind of fault: `size` of them, each with a number.

    `pairs`: with a second fault of the same kind at each step of the window that follows. Of delays a pair is any two.
    """

    story: str
    kind: str
    calm: Outcome
    pairs: bool = False

    @cached_property
    def firsts(self) -> Sequence[tuple[int, int]]:
        """Where a first fault may be: step and broker, in order of the steps. A delay comes before a broker's own step,
        whatever else right after it."""
        own = sorted((step, broker) for broker, steps in self.calm.own_steps.items() for step in steps)
        if self.kind == DELAY:
            return own
        return [(step + 1, broker) for step, broker in own if step + 1 in self.calm.steps]

    @property
    def size(self) -> int:
        many = len(self.firsts)
        if not self.pairs:
            return many
        return many * (many - 1) // 2 if self.kind == DELAY else many * WINDOW * len(STORIES[self.story].brokers)

    def points(self, part: int = 0, parts: int = 1) -> Iterator[tuple[int, Point]]:
        """Every n-th run with its number, spread evenly over the story (I2, I4)."""
        size = self.size
        stride = _coprime(size)
        for place in range(part, size, parts):
            number = place * stride % size
            yield number, self.point(number)

    def point(self, number: int) -> Point:
        """The run with this number."""
        firsts = self.firsts
        if not self.pairs:
            step, broker = firsts[number]
            return Point(self.story, self.kind, broker, step)
        if self.kind == DELAY:
            later = (1 + math.isqrt(1 + 8 * number)) // 2
            earlier = number - later * (later - 1) // 2
            (step, broker), (step_after, broker_after) = firsts[earlier], firsts[later]
            return Point(self.story, self.kind, broker, step, Then(self.kind, broker_after, max(step_after - step, 1)))
        brokers = STORIES[self.story].brokers
        rest, second = divmod(number, len(brokers))
        first, gap = divmod(rest, WINDOW)
        step, broker = firsts[first]
        return Point(self.story, self.kind, broker, step, Then(self.kind, brokers[second], gap + 1))


def _coprime(size: int) -> int:
    """A stride through `size` numbers that comes to each of them once, in leaps of about 0.618 of them."""
    stride = max(round(size * 0.618_034), 1)
    while math.gcd(stride, size) != 1:
        stride += 1
    return stride


def run_point(point: Point) -> Outcome:
    """In any process: a point names its story."""
    return run(STORIES[point.story], point)
