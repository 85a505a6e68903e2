"""Bugs of compaction are found by its property when they are put back."""

from __future__ import annotations

import pytest

from tests.fuzz.property_mutants import MUTANTS, hunt
from tests.simulation.mutation import Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_of_compaction_that_is_put_back_is_found(mutant: Mutant) -> None:
    found = hunt(mutant)
    assert found is not None
    assert found[0] <= 30, "within the examples that every change makes"
