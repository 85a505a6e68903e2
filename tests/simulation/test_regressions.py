"""What broke a rule once breaks none now; and would again, if its bug came back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kavka.simulator.runs.swarm import SeedResult
from tests.simulation.mutants import put_back
from tests.simulation.regressions import REGRESSIONS, Entry

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def runs(entry: Entry) -> Iterator[SeedResult]:
    """In its own order of steps, and in others."""
    for seed in (entry.run.plan.seed, *range(101, 100 + entry.orders)):
        yield replace(entry.run, plan=replace(entry.run.plan, seed=seed)).play()


@pytest.mark.parametrize("entry", REGRESSIONS, ids=lambda entry: entry.run.name)
def test_it_breaks_no_rule_any_more(entry: Entry) -> None:
    for result in runs(entry):
        assert not result.violation, f"{result.violation}\n{result.detail}"


@pytest.mark.parametrize("entry", REGRESSIONS, ids=lambda entry: entry.run.name)
def test_with_its_bug_put_back_it_would(entry: Entry) -> None:
    with put_back(entry.bug):
        found = [result.rule for result in runs(entry)]

    assert entry.run.rule in found, f"it does not find {entry.bug.name} any more"
