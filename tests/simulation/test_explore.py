"""One fault at every step of a story: which runs there are, that each is the undisturbed one up to its fault, and that
each story shows what it is about."""

from __future__ import annotations

from collections import Counter

import pytest

from kavka.simulator.runs import explore
from kavka.simulator.runs.explore import (
    FEW,
    KINDS,
    Exploration,
    NothingShown,
    Outcome,
    Point,
    play_calm,
    points,
    run,
)
from kavka.simulator.runs.stories import STORIES, Milestone
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutation import put_back

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def test_all_parts_together_are_every_broker_at_every_step_once() -> None:
    steps = range(100, 117)
    found = Counter(point for part in range(7) for point in points("produce", "crash", steps, part=part, parts=7))

    assert found == Counter(Point("produce", "crash", broker, step) for step in steps for broker in (1, 2, 3))


@pytest.mark.parametrize("name", STORIES)
def test_a_story_reaches_its_milestones_while_it_is_explored(name: str) -> None:
    assert STORIES[name].milestones
    play_calm(name)


def test_who_watches_for_milestones_changes_nothing() -> None:
    story = STORIES["produce"]

    assert run(story).digest == run(story._replace(milestones=())).digest


def test_a_story_in_which_nothing_happens_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    never = Milestone("pigs have flown", lambda witness: False)
    late = Milestone("all is over", lambda witness: witness.world.swarm_steps.stop > 0)
    story = STORIES["produce"]._replace(milestones=(never, late))
    monkeypatch.setattr(explore, "STORIES", {"produce": story})

    with pytest.raises(NothingShown, match="pigs have flown; all is over"):
        play_calm("produce")


def test_milestones_that_most_runs_with_a_fault_miss_are_told() -> None:
    found, (milestone,) = Exploration(), STORIES["log roll"].milestones
    for step in range(FEW):
        reached = {milestone.name: 7} if step < FEW // 2 - 1 else {}
        found.add(Outcome(Point("log roll", "crash", 1, step), str(step), range(9), is_made=True, reached=reached))

    assert found.missed() == [f"log roll: 9 of 20 runs with a fault came to this: {milestone.name}"]


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
        tried = list(points("clean stop", "crash", calm.steps, part=31, parts=151))[:9]
        found = [run(story, point).rule for point in tried]

    assert not calm.violation, calm.detail
    assert "R20" in found
