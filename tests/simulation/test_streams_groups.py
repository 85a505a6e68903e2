"""Streams groups in the simulator (ST1 to ST8): no seed breaks a rule, nor a fault at a step of their stories. Bugs are
found: `streams_mutants` has all of them. `make simulate SIMULATE=--streaming` runs many seeds, `make explore` all
steps."""

from __future__ import annotations

from itertools import islice

import pytest

from kavka.simulator.faults import streams_faults
from kavka.simulator.faults.mix import KINDS, Strike
from kavka.simulator.runs.explore import Scope, run
from kavka.simulator.runs.stories import STORIES
from kavka.simulator.runs.swarm import Plan, run_plan, run_seed
from tests.simulation.mutation import put_back
from tests.simulation.share_mutants import Shared
from tests.simulation.streams_mutants import COORDINATOR, STREAMS

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.mark.parametrize("seed", [7, 8])
def test_a_seed_with_a_streams_group_breaks_no_rule(seed: int) -> None:
    result = run_seed(seed, hours=0.01, streaming=True)

    assert not result.violation, f"{result.violation}\n{result.detail}"


def test_a_plan_is_what_it_was_where_nobody_asks_for_streams_groups() -> None:
    assert all(Plan.draw(seed).streamers == 0 for seed in range(20))


def test_a_crash_at_a_step_of_the_story_breaks_no_rule() -> None:
    calm = run(STORIES[COORDINATOR])
    assert not calm.violation, calm.detail
    for _, point in islice(Scope(COORDINATOR, "crash", calm).points(part=3, parts=2_000), 1):
        outcome = run(STORIES[COORDINATOR], point)
        assert outcome.is_made
        assert not outcome.violation, f"{point.command}: {outcome.violation}"


def test_every_fault_of_its_members_strikes_and_is_got_over() -> None:
    strikes = [
        Strike(1_000 + 4_000 * number, kind, {"place": number % 2, "ms": 2_000})
        for number, kind in enumerate(streams_faults.KINDS[:3])
    ]
    strikes.append(Strike(13_000, "change standbys", {"count": 0}))

    result = run_plan(Plan(5, streamers=3), hours=20 / 3_600, schedule=strikes)

    assert not set(streams_faults.KINDS) & set(KINDS)
    assert not result.violation, f"{result.violation}\n{result.detail}"
    assert result.faults == dict.fromkeys(streams_faults.KINDS, 1)


@pytest.mark.parametrize("bug", STREAMS, ids=lambda bug: bug.mutant.name)
def test_a_bug_can_be_put_back_and_is_found_where_the_story_shows_it(bug: Shared) -> None:
    """Those that need a fault are hunted for by `streams_mutants`."""
    with put_back(bug.mutant):
        if bug.is_shown:
            assert run(STORIES[bug.story]).rule in bug.rules
