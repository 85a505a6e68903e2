"""Seeds of the swarm: whole clusters under faults of each seed's own mix, every rule checked after every step.

`make simulate` runs many more. What belongs to every change is a share of them, the seeds that found a bug, and that a
seed is one run, whatever the process and its hash seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from kavka.simulator.rules.rare_states import STATES
from kavka.simulator.runs import twins
from kavka.simulator.runs.swarm import Plan, run_plan, run_seed
from kavka.simulator.runs.twins import Run, compare, run_twins

HOURS = 0.05
TWINS = 8
LONG_HOURS = 0.15
SEEDS_FILE = Path(__file__).parent / "seeds.txt"

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


class FoundBug(NamedTuple):
    """A line of seeds.txt that names a seed; those that name a scenario are played with all scenarios."""

    seed: int
    brokers: int | None
    hours: float
    what: str


def found_bugs() -> Iterator[FoundBug]:
    for line in SEEDS_FILE.read_text().splitlines():
        seed, *told = line.split(maxsplit=3)
        if seed.isdecimal():
            brokers, hours, what = told
            yield FoundBug(int(seed), None if brokers == "drawn" else int(brokers), float(hours), what)


@pytest.mark.parametrize("seed", range(1001, 1013))
def test_a_seed_breaks_no_rule_and_loses_nothing(seed: int) -> None:
    result = run_seed(seed, hours=HOURS)

    assert not result.violation, f"{result.violation}\n{result.detail}"
    assert result.acknowledged > 0
    assert result.consumed > 0
    assert result.states.keys() <= STATES.keys()


def by_length() -> Iterator[ParameterSet]:
    """Those that simulate ten minutes and more are left to the long run."""
    for bug in found_bugs():
        marks = [pytest.mark.thorough] if bug.hours > LONG_HOURS else []
        yield pytest.param(bug, id=f"{bug.seed}: {bug.what[:40]}", marks=marks)


@pytest.mark.parametrize("bug", list(by_length()))
def test_a_seed_that_found_a_bug_finds_none_any_more(bug: FoundBug) -> None:
    result = run_seed(bug.seed, hours=bug.hours, brokers=bug.brokers)

    assert not result.violation, f"{result.violation}\n{result.detail}"


def test_a_seed_is_one_run_whatever_the_process_and_its_hash_seed() -> None:
    found = list(run_twins(range(twins.FIRST, twins.FIRST + TWINS), twins.HOURS))

    assert not [twin for twin in found if twin.parted]
    assert len({twin.digest for twin in found}) == TWINS


def test_two_runs_that_are_not_one_are_told_apart_at_their_first_step_that_differs() -> None:
    """Two seeds' runs, which part at once, and two of one seed, of which one had a fault more."""
    calm, other = Plan(seed=1), Plan(seed=2)

    def run(plan: Plan, closely: range = range(0)) -> Run:
        result = run_plan(plan, hours=0.001, schedule=(), closely=closely)
        return Run(result.digest, result.milestones)

    parted = compare(run(calm), run(other), lambda closely: (run(calm, closely), run(other, closely)))

    assert parted.startswith("at step ")
    assert int(parted.split()[2].rstrip(":")) < 1_000
    assert not compare(run(calm), run(calm), lambda closely: (run(calm, closely), run(calm, closely)))
