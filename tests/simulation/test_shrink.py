"""A failing run is made smaller, written down, and played again: the search alone, and with a bug put back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kavka.simulator.faults.mix import KINDS, Strike
from kavka.simulator.runs.regression import NotARegression, Regression, parse, regression, strike
from kavka.simulator.runs.shrink import Outcome, shrink
from kavka.simulator.runs.swarm import Plan, SeedResult, run_plan, run_seed
from tests.simulation.mutants import MUTANTS, put_back

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

STRIKES = tuple(strike(1_000 * (index + 1), "pause", broker=1 + index % 3, ms=7_300) for index in range(40))
SETTINGS = {"log.segment.bytes": "16384", "replica.lag.time.max.ms": "5000"}


class Model:
    """A runner whose runs break R1 where `breaks` says so, at the end of what is given."""

    width = 2

    def __init__(self, breaks: Callable[[Regression], bool], *, rule: str = "R1") -> None:
        self._breaks = breaks
        self._rule = rule
        self.runs = 0

    def run(self, candidates: Sequence[Regression], *, within_s: float) -> list[Outcome | None]:
        self.runs += len(candidates)
        return [self._outcome(each) for each in candidates]

    def _outcome(self, candidate: Regression) -> Outcome | None:
        is_broken = self._breaks(candidate)
        return Outcome(self._rule if is_broken else "", "it was so", candidate.strikes, candidate.seconds)


def failed(strikes: Sequence[Strike] = STRIKES, rule: str = "R1") -> SeedResult:
    """What a seed comes to that broke a rule."""
    plan = Plan(7, brokers=5, partitions=6, producers=2, mean_pause_s=0.3, settings=SETTINGS)
    return SeedResult(
        7, "0", 0.1, 0, 0, 0, 0, 0.0, "", violation="it was so", rule=rule, plan=plan, strikes=tuple(strikes),
        swarm_seconds=60.0,
    )  # fmt: skip


def brokers_of(found: Regression) -> list[object]:
    return [each.arguments["broker"] for each in found.strikes]


def test_of_many_strikes_those_are_left_that_it_takes() -> None:
    """Two strikes far apart, in their order, and one setting."""

    def breaks(candidate: Regression) -> bool:
        brokers = brokers_of(candidate)
        return 2 in brokers and 3 in brokers[brokers.index(2) :] and "log.segment.bytes" in candidate.plan.settings

    shrunk = shrink(failed(), runner=Model(breaks))

    assert shrunk.found is not None
    assert brokers_of(shrunk.found) == [2, 3]
    assert shrunk.found.plan == Plan(7, settings={"log.segment.bytes": "16384"}, brokers=3)
    assert [each.at_ms for each in shrunk.found.strikes] == [100, 200]
    assert all(each.arguments["ms"] == 100 for each in shrunk.found.strikes)
    assert shrunk.found.seconds <= 5.2
    assert shrunk.found.name == "R1 after pause"
    assert shrunk.strikes_before == len(STRIKES)


def test_what_needs_no_fault_is_left_without_any() -> None:
    shrunk = shrink(failed(), runner=Model(lambda candidate: True))

    assert shrunk.found is not None
    assert shrunk.found.strikes == ()
    assert shrunk.found.plan == Plan(7, brokers=1)
    assert shrunk.found.name == "R1 without any fault"


@pytest.mark.parametrize("brokers", [1, 2])
@pytest.mark.parametrize("clients", ["members", "transactors", "sharers", "streamers"])
def test_a_calm_plan_of_fewer_brokers_breaks_no_rule(brokers: int, clients: str) -> None:
    """Else whatever got stuck would be made smaller to that."""
    plan = replace(Plan(1, brokers=brokers), **{clients: 2})  # type: ignore[arg-type]  # each is a number

    result = run_plan(plan, hours=0.003, schedule=[])

    assert not result.violation, f"{result.violation}\n{result.detail}"


def test_another_rule_is_another_bug() -> None:
    """Without its settings it breaks R2: that is no smaller form of what broke R1."""

    class TwoBugs(Model):
        def _outcome(self, candidate: Regression) -> Outcome | None:
            rule = "R1" if candidate.plan.settings == SETTINGS else "R2"
            return Outcome(rule, "it was so", candidate.strikes, candidate.seconds)

    shrunk = shrink(failed(), runner=TwoBugs(lambda candidate: True))

    assert shrunk.found is not None
    assert shrunk.found.rule == "R1"
    assert shrunk.found.plan.settings == SETTINGS


def test_a_run_that_had_again_breaks_nothing_is_said_to_be_so() -> None:
    shrunk = shrink(failed(), runner=Model(lambda candidate: False))

    assert shrunk.found is None
    assert "had again, it broke no rule" in str(shrunk)


def test_runs_are_bounded_and_the_smallest_so_far_is_kept() -> None:
    model = Model(lambda candidate: len(candidate.strikes) >= 20)

    shrunk = shrink(failed(), runner=model, max_runs=15)

    assert model.runs == shrunk.runs == 15
    assert shrunk.found is not None
    assert 20 <= len(shrunk.found.strikes) <= len(STRIKES)


def test_after_its_time_no_run_is_begun() -> None:
    model = Model(lambda candidate: True)

    assert shrink(failed(), runner=model, max_seconds=0.0).found is None
    assert model.runs == 0


def test_what_shows_in_one_order_of_steps_only_by_luck_is_tried_in_others() -> None:
    """Ten strikes are left over in the order of steps of the seed; in that of seed 1 two are enough."""

    def breaks(candidate: Regression) -> bool:
        return len(candidate.strikes) >= (2 if candidate.plan.seed == 1 else 10)

    shrunk = shrink(failed(), runner=Model(breaks))

    assert shrunk.found is not None
    assert len(shrunk.found.strikes) == 2


def test_only_a_failing_run_can_be_made_smaller() -> None:
    with pytest.raises(ValueError, match="broke no rule"):
        shrink(replace(failed(), violation=""))


# -- written down


WRITTEN = regression(
    'R5 after "power cut", and it\'s so',
    rule="R5",
    was="a line\nand another",
    plan=Plan(9, partitions=3, mean_pause_s=0.3, settings={"min.insync.replicas": "1"}),
    seconds=12.5,
    strikes=[
        strike(1_500, "power cut", broker=2, back_ms=12_000),
        strike(2_000, "cut", one="broker-1", other="zookeeper", both=False, ms=3_000),
        strike(2_500, "move", topic="orders", partition=0, to=[3, 1, 2]),
        strike(4_000, "resets", share=0.25),
    ],
)


def test_what_is_written_is_read_again() -> None:
    assert parse(WRITTEN.as_python()) == WRITTEN
    assert parse(f"# why\n\n{replace(WRITTEN, strikes=()).as_python()}\n") == replace(WRITTEN, strikes=())


def test_what_is_written_is_python() -> None:
    space: dict[str, object] = {}
    exec(f"from kavka.simulator.runs.regression import *; from kavka.simulator.runs.swarm import Plan; it = {WRITTEN.as_python()}", space)  # noqa: E501  # fmt: skip

    assert space["it"] == WRITTEN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "regression(",
        "__import__('os').system('true')",
        "regression(open('/etc/passwd'))",
        "regression('a', rule='R1', was='', plan=Plan(seed=1), seconds=0, strikes=[])",
        "regression('a', rule='R1', was='', plan=Plan(seed=1), seconds=1e9, strikes=[])",
        "regression('a', rule='R1', was='', plan=Plan(seed=1, moons=2), seconds=1, strikes=[])",
        "regression('a', rule='R1', was='', plan=Plan(seed=1), seconds=1, strikes=[strike(1, 'earthquake')])",
        "regression('a', rule='R1', was='', plan=Plan(seed=1), seconds=1, strikes=[strike('soon', 'kill')])",
        "regression(**{})",
        "strike(1, 'kill', broker=1)",
        "[" * 5_000,
    ],
)
def test_what_is_no_regression_is_refused(text: str) -> None:
    with pytest.raises(NotARegression):
        parse(text)


# -- runs


@pytest.mark.parametrize("seed", [4, 5])
def test_the_strikes_that_a_seed_made_make_the_same_run(seed: int) -> None:
    drawn = run_seed(seed, hours=0.015)
    assert drawn.plan is not None

    given = run_plan(drawn.plan, hours=0.015, schedule=drawn.strikes)

    assert given.strikes == drawn.strikes != ()
    assert given.digest == drawn.digest
    assert given.faults == drawn.faults


def test_a_strike_that_is_left_out_leaves_the_others_as_they_are() -> None:
    strikes = [strike(2_000, "pause", broker=1, ms=500), strike(4_000, "pause", broker=2, ms=500)]

    both, later = (run_plan(Plan(5), hours=0.003, schedule=each) for each in (strikes, strikes[1:]))

    assert both.strikes == tuple(strikes)
    assert later.strikes == tuple(strikes[1:])
    assert not both.violation + later.violation


def test_every_kind_of_fault_can_be_given() -> None:
    assert {strike(1, kind).kind for kind in KINDS} == set(KINDS)


def test_a_seed_that_finds_a_bug_becomes_a_few_strikes() -> None:
    (mutant,) = (each for each in MUTANTS if each.name == "reads what is not committed")
    with put_back(mutant):
        found = next(result for seed in range(1, 10) if (result := run_seed(seed, hours=mutant.hours)).violation)
        shrunk = shrink(found, max_runs=40, max_seconds=120.0)

        assert shrunk.found is not None
        assert len(shrunk.found.strikes) <= 3
        again = parse(shrunk.found.as_python()).play()
        assert again.rule == found.rule
        assert again.violation == shrunk.found.was
    assert not shrunk.found.play().violation
