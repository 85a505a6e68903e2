"""One fault at every step of a story: which runs there are, and that each is the undisturbed one up to its fault."""

from __future__ import annotations

from collections import Counter

import pytest

from kavka.simulator.runs.explore import KINDS, STORIES, Exploration, Outcome, Point, points, run
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutation import put_back

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def test_all_parts_together_are_every_broker_at_every_step_once() -> None:
    steps = range(100, 117)
    found = Counter(point for part in range(7) for point in points("produce", "crash", steps, part=part, parts=7))

    assert found == Counter(Point("produce", "crash", broker, step) for step in steps for broker in (1, 2, 3))


def test_a_fault_happens_right_after_its_step_and_the_run_is_the_same_when_it_is_had_again() -> None:
    calm = run(STORIES["log roll"])
    point = Point("log roll", "crash", 2, calm.steps[len(calm.steps) // 2])

    first, again = (run(STORIES["log roll"], point) for _ in range(2))

    assert not calm.violation
    assert not first.violation, first.detail
    assert first.is_made
    assert first.digest == again.digest != calm.digest


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_made_somewhere_in_a_story(kind: str) -> None:
    calm = run(STORIES["produce"])

    outcome = run(STORIES["produce"], Point("produce", kind, 1, calm.steps[100]))

    assert outcome.is_made
    assert not outcome.violation, outcome.detail


def test_figures_tell_what_was_made_refused_and_broken(capsys: pytest.CaptureFixture[str]) -> None:
    found = Exploration()
    found.add(Outcome(Point("produce", "power", 1, 5), "a", range(9), is_made=True))
    found.add(Outcome(Point("produce", "power", 2, 5), "a", range(9), is_made=False))
    found.add(Outcome(Point("produce", "power", 3, 5), "b", range(9), is_made=True, rule="R7", violation="R7: lost"))

    assert [outcome.rule for outcome in found.broken] == ["R7"]
    assert "--story 'produce' --kind power --broker 3 --step 5" in capsys.readouterr().out
    assert found.table().splitlines()[-2].split() == ["produce", "power", "0", "2", "1", "1"]
    assert found.table().splitlines()[-1] == "3 runs, 2 of them different"


def test_a_bug_that_is_put_back_is_found_where_the_undisturbed_story_does_not_show_it() -> None:
    (bug,) = (mutant for mutant in MUTANTS if mutant.name == "late answers count")
    story = STORIES["clean stop"]

    with put_back(bug):
        calm = run(story)
        found = [run(story, point).rule for point in points("clean stop", "crash", calm.steps, part=301, parts=1501)]

    assert not calm.violation, calm.detail
    assert "R20" in found
