"""Shrinking: a run of the swarm that breaks a rule is made smaller while the same rule stays broken.

Decides what is tried next, and which of two runs is the smaller one. Must not know what a fault does: only that a run
is a plan, a length and a list of strikes, each of which can be left out.

In this order, again and again until a round has won nothing:

    1  a calm plan at once: it makes all runs that follow quicker
    2  only the last 1, 2, 4, ... strikes (what breaks a rule is mostly recent)
    3  time: strikes move towards the beginning, and together; the run ends soon after its last strike
    4  delta debugging: halves, quarters, ... of the strikes left out, down to each alone
    5  the plan: each number towards the default of `Plan`, then downwards; settings that are not given
    6  calmer strikes: shorter ones

A run that is not quite the same takes other steps, so it may miss by luck what it still could show. While more than
FEW strikes are left, what failed is tried again in ORDERS orders of steps (other seeds of the same plan).

    I1  what comes out was run, and broke the same rule
    I2  bounds: at most `max_runs` runs, and none is begun after `max_seconds`
    I3  on a machine that is quick enough for its bounds, the same run shrinks to the same run

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (ddmin), for step 4.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple, Protocol

from kavka.logger import set_level
from kavka.simulator.faults.mix import Argument, Strike
from kavka.simulator.runs.regression import Regression, rounded_up
from kavka.simulator.runs.swarm import Plan, SeedResult

MAX_RUNS: Final = 400
MAX_SECONDS: Final = 300.0
FEW: Final = 3
"""With so few strikes left, other orders of steps are not worth their time."""
MANY: Final = 16
"""Gaps between more strikes than these are not closed one by one: it is cheaper to leave strikes out first."""
ORDERS: Final = 3
LEAST_GAP_MS: Final = 100
CALM_MS: Final = (100, 1_000, 5_000)


class Outcome(NamedTuple):
    """Of a run: what was broken, and what it came to until then."""

    rule: str
    was: str
    strikes: tuple[Strike, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What came of it. `found` is None if the run, had again, broke nothing: it cannot be made smaller then."""

    found: Regression | None
    strikes_before: int
    runs: int
    wall_seconds: float

    def __str__(self) -> str:
        told = f"{self.runs} run{'' if self.runs == 1 else 's'}, {self.wall_seconds:.0f} s"
        if self.found is None:
            return f"not made smaller: had again, it broke no rule ({told})"
        return f"{self.strikes_before} faults made {len(self.found.strikes)} ({told})"


class Runner(Protocol):
    """Runs candidates. `width`: how many at once."""

    @property
    def width(self) -> int: ...

    def run(self, candidates: Sequence[Regression], *, within_s: float) -> list[Outcome | None]:
        """What came of each, in order; None of one that did not end in time."""
        ...


def shrink(
    result: SeedResult, *, max_runs: int = MAX_RUNS, max_seconds: float = MAX_SECONDS, runner: Runner | None = None
) -> Shrunk:
    """Makes the failing run of `result` smaller. Raises ValueError if it broke nothing."""
    if not result.violation or result.plan is None:
        raise ValueError(f"seed {result.seed} broke no rule")
    began_s = time.perf_counter()
    whole = Regression("", result.rule, result.violation, result.plan, result.swarm_seconds, result.strikes)
    search = _Search(whole, runner or Processes(), max_runs, began_s + max_seconds)
    found = search.smallest()
    if found is not None:
        found = replace(found, name=_name(found))
    return Shrunk(found, len(result.strikes), search.runs, time.perf_counter() - began_s)


def _name(found: Regression) -> str:
    kinds = list(dict.fromkeys(strike.kind for strike in found.strikes))
    return f"{found.rule} after {', '.join(kinds)}" if kinds else f"{found.rule} without any fault"


class _Search:
    """`best` is the smallest run so far that broke the rule (I1)."""

    def __init__(self, whole: Regression, runner: Runner, max_runs: int, end_s: float) -> None:
        self._best = whole
        self._runner = runner
        self._max_runs = max_runs
        self._end_s = end_s
        self._tried: set[str] = set()
        self.runs = 0

    def smallest(self) -> Regression | None:
        # A round length if it will do; what broke when all was healed may need the very same.
        if not self._take((replace(self._best, seconds=rounded_up(self._best.seconds)), self._best)):
            return None
        orders = 1
        while True:
            before = self._best
            self._take(bold_plans(self._best))
            self._last_strikes()
            self._time()
            self._delta_debug(orders)
            self._plan(orders)
            self._calm()
            if self._best != before:
                continue
            if orders == ORDERS or len(self._best.strikes) <= FEW:
                return self._best
            orders = ORDERS

    # -- the steps

    def _last_strikes(self) -> None:
        strikes = self._best.strikes
        counts = [0, *(1 << power for power in range(len(strikes).bit_length()))]
        self._take(self._with(strikes[len(strikes) - count :]) for count in counts if count < len(strikes))

    def _delta_debug(self, orders: int) -> None:
        parts = 2
        while strikes := self._best.strikes:
            size = -(-len(strikes) // parts)
            rests = [strikes[:begin] + strikes[begin + size :] for begin in range(0, len(strikes), size)]
            if self._take(candidate for rest in rests for candidate in _orders(self._with(rest), orders)):
                parts = max(parts - 1, 2)
            elif size == 1:
                return
            else:
                parts = min(2 * parts, len(strikes))

    def _plan(self, orders: int) -> None:
        while self._take(
            candidate
            for plan in smaller_plans(self._best.plan)
            for candidate in _orders(replace(self._best, plan=plan, strikes=fitting(self._best.strikes, plan)), orders)
        ):
            pass

    def _time(self) -> None:
        while self._take(self._shorter()):
            pass

    def _shorter(self) -> Iterator[Regression]:
        strikes = self._best.strikes
        end_ms = strikes[-1].at_ms if strikes else 0
        for seconds in (1, 5, 15):
            if (after := rounded_up(end_ms / 1_000) + seconds) < self._best.seconds:
                yield replace(self._best, seconds=after)
        for index, strike in enumerate(strikes if len(strikes) <= MANY else strikes[:1]):
            gap_ms = strike.at_ms - (strikes[index - 1].at_ms if index else 0)
            for less_ms in (LEAST_GAP_MS, 1_000, gap_ms // 2 // 100 * 100):
                if LEAST_GAP_MS <= less_ms < gap_ms:
                    earlier_ms = gap_ms - less_ms
                    moved = tuple(replace(each, at_ms=each.at_ms - earlier_ms) for each in strikes[index:])
                    sooner = max(rounded_up(self._best.seconds - earlier_ms / 1_000), 0.1)
                    yield replace(self._best, strikes=strikes[:index] + moved, seconds=sooner)

    def _calm(self) -> None:
        for index in range(len(self._best.strikes)):
            strikes = self._best.strikes
            if index < len(strikes):
                self._take(
                    self._with((*strikes[:index], calmer, *strikes[index + 1 :])) for calmer in _calmer(strikes[index])
                )

    # -- trying

    def _with(self, strikes: Sequence[Strike]) -> Regression:
        return replace(self._best, strikes=tuple(strikes))

    def _take(self, candidates: Iterable[Regression]) -> bool:
        """Runs these until one breaks the rule, which is then the best. False if none did."""
        rest = iter(candidates)
        while wave := list(islice(self._new(rest), self._runner.width)):
            left_s = self._end_s - time.perf_counter()
            wave = wave[: self._max_runs - self.runs]
            if left_s <= 0 or not wave:
                return False
            self.runs += len(wave)
            for candidate, outcome in zip(wave, self._runner.run(wave, within_s=left_s), strict=True):
                if outcome is not None and outcome.rule == self._best.rule:
                    self._best = _as_it_was(candidate, outcome)
                    return True
        return False

    def _new(self, candidates: Iterator[Regression]) -> Iterator[Regression]:
        for candidate in candidates:
            # What a run was called, and what broke in it, makes it no other run.
            key = repr((candidate.plan, candidate.seconds, candidate.strikes))
            if key not in self._tried:
                self._tried.add(key)
                yield candidate


def _as_it_was(candidate: Regression, outcome: Outcome) -> Regression:
    """Without what did not come to pass: strikes after the end, or that could not be had; and no longer than it was."""
    seconds = min(candidate.seconds, rounded_up(outcome.seconds))
    return replace(candidate, was=outcome.was, strikes=outcome.strikes, seconds=seconds)


def _orders(candidate: Regression, orders: int) -> Iterator[Regression]:
    yield candidate
    for seed in range(1, orders):
        yield replace(candidate, plan=replace(candidate.plan, seed=seed))


# -- smaller plans and strikes


def bold_plans(whole: Regression) -> Iterator[Regression]:
    """The calm plan; with its settings, if it takes them to break the rule; and with as many brokers as there were."""
    plan = whole.plan
    still = Plan(plan.seed, secured=plan.secured)
    for calm in (still, replace(still, settings=plan.settings)):
        for brokers in dict.fromkeys((calm.brokers, plan.brokers)):
            smaller = replace(calm, brokers=brokers)
            yield replace(whole, plan=smaller, strikes=fitting(whole.strikes, smaller))


def smaller_plans(plan: Plan) -> Iterator[Plan]:
    """Plans of fewer things, the boldest first. A field's default is its calm value."""
    calm = Plan(plan.seed)
    changed: dict[str, Any]
    if plan.settings:
        yield replace(plan, settings={})
    for field in fields(plan):
        if field.name in ("seed", "settings", "secured"):
            continue
        value: Any = getattr(plan, field.name)
        wanted: list[object] = [getattr(calm, field.name)]
        if isinstance(value, int) and not isinstance(value, bool):
            least = min(1, getattr(calm, field.name))
            wanted += [each for each in (least, value // 2, value - 1) if least <= each < value]
        for each in dict.fromkeys(wanted):
            if each != value:
                changed = {field.name: each}
                yield replace(plan, **changed)
    for name in plan.settings:
        yield replace(plan, settings={key: value for key, value in plan.settings.items() if key != name})


def fitting(strikes: Sequence[Strike], plan: Plan) -> tuple[Strike, ...]:
    """Those that are about brokers of the plan."""
    names = {f"broker-{broker}" for broker in range(1, plan.brokers + 1)}

    def is_there(name: str, value: Argument) -> bool:
        if name == "broker":
            return isinstance(value, int) and value <= plan.brokers
        if isinstance(value, str):
            return not value.startswith("broker-") or value in names
        return isinstance(value, int | float) or max(value, default=0) <= plan.brokers

    return tuple(each for each in strikes if all(is_there(*argument) for argument in each.arguments.items()))


def _calmer(strike: Strike) -> Iterator[Strike]:
    """What is told in milliseconds for a shorter time, or as a round one."""
    for name, value in strike.arguments.items():
        if name.endswith("ms") and isinstance(value, int) and not isinstance(value, bool):
            for less in dict.fromkeys((*CALM_MS, value // 1_000 * 1_000, value // 100 * 100)):
                if 0 < less < value:
                    yield replace(strike, arguments={**strike.arguments, name: less})


# -- processes


class Processes:
    """Runs each candidate in a process of its own, forked from this one as it is (a bug put back is in it, too): a
    simulated node is never collected, so a process gives its memory back by ending."""

    def __init__(self, width: int | None = None) -> None:
        self._width = width or multiprocessing.cpu_count()

    @property
    def width(self) -> int:
        return self._width

    def run(self, candidates: Sequence[Regression], *, within_s: float) -> list[Outcome | None]:
        end_s = time.perf_counter() + within_s
        children = [_Child(candidate) for candidate in candidates]
        return [child.outcome(max(end_s - time.perf_counter(), 0.0)) for child in children]


class _Child:
    def __init__(self, candidate: Regression) -> None:
        context = multiprocessing.get_context("fork")
        self._answer, answer = context.Pipe(duplex=False)
        self._process = context.Process(target=_play, args=(candidate, answer))
        self._process.start()
        answer.close()

    def outcome(self, within_s: float) -> Outcome | None:
        found = None
        try:
            if self._answer.poll(within_s):
                found = self._answer.recv()
        except EOFError:
            pass  # It died, of too much memory perhaps: it showed nothing.
        finally:
            self._answer.close()
            self._process.kill()
            self._process.join()
        return found


def _play(candidate: Regression, answer: Connection) -> None:
    be_quiet()
    result = candidate.play()
    answer.send(Outcome(result.rule, result.violation, result.strikes, result.swarm_seconds))
    answer.close()


def be_quiet() -> None:
    """Simulated brokers log errors only, and Python does not warn of coroutines that their ends leave unfinished."""
    # A request of a connection that ended before its handler began: its coroutine never runs, as intended.
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")
    set_level("error")
    gc.freeze()
