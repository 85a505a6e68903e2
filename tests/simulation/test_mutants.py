"""Every bug that is put back is found: by a scenario, or by the swarm within its budget of seeds."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, Mutant, put_back

from kavka.simulator.scenarios import play
from kavka.simulator.swarm import run_seed

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

ORDERS = 4
"""Each scenario is played in so many orders of steps."""


_NONSENSE = (AttributeError, NameError, TypeError, ImportError)
"""What a mutant raises that changes the source into what cannot run."""


def found_by(mutant: Mutant) -> str | None:
    """What found it; None if it lives."""
    for seed in range(1, ORDERS + 1):
        for name in mutant.scenarios():
            try:
                play(name, seed)
            except Exception as failure:  # whatever ends a scenario has found it
                if isinstance(failure.__cause__ or failure, _NONSENSE):
                    raise
                return f"{name}, order {seed}: {failure}"
    for seed in range(1, mutant.seeds + 1):
        result = run_seed(seed, hours=mutant.hours)
        if result.violation:
            return f"seed {seed}: {result.violation}"
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_bug_is_found(mutant: Mutant) -> None:
    with put_back(mutant):
        found = found_by(mutant)

    assert found is not None, f"{mutant.name} lives: {mutant.bug}"
