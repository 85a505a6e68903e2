"""Every bug that is put back is found: by a scenario, or by the swarm within its budget of seeds."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.simulator.runs.explore import KINDS
from kavka.simulator.runs.stories import STORIES
from tests.simulation import explored_mutants, share_mutants, streams_mutants
from tests.simulation.explored_mutants import MENDED, Mended
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutation import hunt, put_back

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_bug_is_found(mutant: Mutant) -> None:
    assert hunt(mutant) is not None, f"{mutant.name} lives: {mutant.bug}"


@pytest.mark.parametrize("mended", MENDED, ids=lambda mended: mended.mutant.name)
def test_a_mended_bug_that_exploration_looks_for_can_still_be_put_back(mended: Mended) -> None:
    with put_back(mended.mutant):
        assert all(story in STORIES and kind in KINDS for story, kind in mended.places)


def test_no_two_have_one_name() -> None:
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("program", [explored_mutants, share_mutants, streams_mutants], ids=lambda it: it.__name__)
def test_a_name_that_no_bug_has_is_told_and_nothing_counts_as_found(
    program: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["nosuch"])
    assert ended.value.code == 2
    assert "no bug's name begins with 'nosuch'" in capsys.readouterr().err
