"""Every bug that is put back is found: by a scenario, or by the swarm within its budget of seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutation import hunt

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_bug_is_found(mutant: Mutant) -> None:
    assert hunt(mutant) is not None, f"{mutant.name} lives: {mutant.bug}"


def test_no_two_have_one_name() -> None:
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)
