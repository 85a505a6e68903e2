"""One fault at every step of a story: which runs there are, that each is the undisturbed one up to its fault, and that
each story shows what it is about."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from kavka.simulator.runs import explore
from kavka.simulator.runs.exploration import FEW, Exploration, Kept, NotThisExploration, Row, program_of
from kavka.simulator.runs.exploration import explore as explore_scopes
from kavka.simulator.runs.explore import (
    DELAY,
    KINDS,
    WINDOW,
    NothingShown,
    Outcome,
    Playing,
    Point,
    Scope,
    Then,
    parse_place,
    play_calm,
    run,
)
from kavka.simulator.runs.stories import STORIES, Milestone
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutation import put_back

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


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
    found.begin("log roll", "crash", 9_999)
    for step in range(FEW):
        reached = {milestone.name: 7} if step < FEW // 2 - 1 else {}
        found.add(Outcome(Point("log roll", "crash", 1, step), str(step), range(9), is_made=True, reached=reached))

    assert found.missed() == [f"log roll: 9 of 20 runs with a fault came to this: {milestone.name}"]


def test_runs_with_two_faults_and_kept_runs_are_not_asked_for_milestones() -> None:
    found, (milestone,) = Exploration(), STORIES["log roll"].milestones
    found.begin("log roll", "crash", 3 * FEW)

    for step in range(FEW):
        found.add(
            Outcome(
                Point("log roll", "crash", 1, step), f"one {step}", range(9), is_made=True, reached={milestone.name: 7}
            )
        )
        second = Then("crash", 2, 1)
        found.add(Outcome(Point("log roll", "crash", 1, step, second), f"two {step}", range(9), is_made=True))
        found.count(Point("log roll", "crash", 3, step), f"kept {step}", is_made=True)

    assert found.missed() == []


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


def test_figures_tell_what_was_made_refused_and_broken() -> None:
    found = Exploration()
    found.begin("produce", "power", 9)
    found.add(Outcome(Point("produce", "power", 1, 5), "a", range(9), is_made=True))
    found.add(Outcome(Point("produce", "power", 2, 5), "a", range(9), is_made=False))
    found.add(Outcome(Point("produce", "power", 3, 5), "b", range(9), is_made=True, rule="R7", violation="R7: lost"))

    assert [each.rule for each in found.broken] == ["R7"]
    assert found.rows == [Row("produce", "power", 9, made=2, refused=1, broken=1)]
    assert not found.rows[0].is_complete
    assert (found.done, found.runs, found.different) == (3, 9, 2)
    assert found.broken[0].point.command == ("kavka simulate --explore power --scenario 'produce' --at 'power 3@5'")


STEPS = range(100, 107)
CALM = Outcome(None, "calm", STEPS, is_made=False, own_steps={1: [101, 102], 2: [100], 3: [105]})


OWN = [(101, 2), (102, 1), (103, 1), (106, 3)]
"""Right after which steps of `CALM` a broker had taken one of its own: step and broker."""


def test_a_scope_has_each_broker_after_each_step_of_its_own_once_whatever_the_parts() -> None:
    scope = Scope("produce", "crash", CALM)
    found = Counter(point for part in range(4) for _, point in scope.points(part, 4))

    assert found == Counter(Point("produce", "crash", broker, step) for step, broker in OWN)
    assert scope.size == len(found)


def test_a_brokers_disk_changes_in_its_own_steps_only() -> None:
    """So a fault after a step of somebody else finds what a fault after the broker's own step before it finds."""
    story = STORIES["clean election"]
    calm = run(story)
    playing = Playing(story)
    brokers = playing.world.brokers
    stored: dict[int, dict[int, int]] = {broker: {} for broker in brokers}

    def look(step: int) -> None:
        for broker, seen in stored.items():
            disk = brokers[broker].disk
            files = [(path, bytes(file.data), file.synced) for path, file in disk.files.items()]
            seen[step] = hash((tuple(files), tuple(disk.directories)))

    for step in calm.steps:
        playing.at(step, partial(look, step))
    playing.play(lambda: None)

    changed = {
        (step, broker) for broker, seen in stored.items() for step in calm.steps[1:] if seen[step] != seen[step - 1]
    }
    assert len(changed) > 10
    assert changed <= set(Scope("clean election", "crash", calm).firsts)


def test_pairs_are_each_fault_with_each_one_of_the_window_after_it() -> None:
    scope = Scope("produce", "power", CALM, pairs=True)
    found = Counter(point for _, point in scope.points())

    assert found == Counter(
        Point("produce", "power", broker, step, Then("power", second, gap))
        for step, broker in OWN
        for gap in range(1, WINDOW + 1)
        for second in (1, 2, 3)
    )
    first_hundredth = islice(scope.points(), scope.size // 100)
    assert {point.step for _, point in first_hundredth} == {step for step, _ in OWN}, "what is done is spread evenly"


def test_delays_come_before_a_brokers_own_steps_and_two_of_them_anywhere() -> None:
    one, two = Scope("produce", DELAY, CALM), Scope("produce", DELAY, CALM, pairs=True)

    own = [(100, 2), (101, 1), (102, 1), (105, 3)]
    assert sorted((point.step, point.broker) for _, point in one.points()) == own
    pairs = Counter()
    for _, point in two.points():
        assert point.then is not None
        pairs[(point.step, point.broker), (point.step + point.then.gap, point.then.broker)] += 1
    assert pairs == Counter((own[earlier], own[later]) for later in range(4) for earlier in range(later))


def test_an_own_step_of_the_undisturbed_run_is_the_brokers() -> None:
    calm = run(STORIES["produce"])

    assert {owner: bool(steps) for owner, steps in calm.own_steps.items()} == {1: True, 2: True, 3: True}
    everybodys = [step for steps in calm.own_steps.values() for step in steps]
    assert len(set(everybodys)) == len(everybodys), "a step is one broker's"
    step = calm.own_steps[2][len(calm.own_steps[2]) // 2]
    delayed = run(STORIES["produce"], Point("produce", DELAY, 2, step))
    assert delayed.is_made
    assert delayed.digest != calm.digest
    assert not delayed.violation, delayed.detail


@pytest.mark.parametrize("then", [None, Then("second behind", 2, 40)])
def test_a_place_is_read_as_it_is_written(then: Then | None) -> None:
    point = Point("produce", "clock ahead", 3, 1520, then)

    assert parse_place("produce", point.place) == point


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("crash 3", "a place is"),
        ("crash 9@1520", "produce has no broker 9"),
        ("fire 1@1520", "no such kind of fault: fire"),
        ("crash 1@1520, 2@40", "a place is"),
        ("crash 1@1520, crash 7@+40", "no broker 7"),
    ],
)
def test_a_place_that_is_none_is_told(words: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_place("produce", words)


def test_two_faults_are_made_at_their_steps() -> None:
    calm = run(STORIES["produce"])
    outcome = run(STORIES["produce"], Point("produce", "crash", 2, calm.steps[50], Then("crash", 3, 200)))

    assert outcome.is_made
    assert [strike.kind for strike in outcome.struck] == ["kill", "kill"]
    assert not outcome.violation, outcome.detail


def test_what_was_kept_is_not_made_again_and_other_runs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    calm = play_calm("log roll")
    few = replace(calm, own_steps={2: calm.own_steps[2][:9]})
    scopes = [Scope("log roll", "crash", few)]
    kept = Kept(path, scopes)
    found = explore_scopes(scopes, part=0, parts=2, kept=kept)
    kept.close()
    assert found.done == 5
    with path.open("a") as file:
        file.write('[0, 1, "cut o')  # as a kill leaves it

    kept = Kept(path, scopes)
    made: list[int] = []
    again = explore_scopes(scopes, kept=kept, tell=lambda found: made.append(found.done))
    kept.close()

    assert made == [6, 7, 8, 9]
    assert again.done == again.runs == 9
    assert again.rows[0].is_complete
    assert len(path.read_text().splitlines()) == 10
    for others in ([Scope("log roll", "power", few)], [Scope("log roll", "crash", replace(few, digest="another"))]):
        with pytest.raises(NotThisExploration, match="keeps other runs"):
            Kept(path, others)


@pytest.mark.parametrize(
    "line", ["garbage", "[0, 1]", '[0, 9, "a digest", true, "", ""]', '[1, 0, "a digest", true, "", ""]', "7"]
)
def test_a_damaged_line_of_what_was_kept_is_told_with_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "kept"
    calm = play_calm("log roll")
    scopes = [Scope("log roll", "crash", replace(calm, own_steps={2: calm.own_steps[2][:9]}))]
    Kept(path, scopes).close()
    with path.open("a") as file:
        file.write(line + "\n")

    with pytest.raises(NotThisExploration, match="line 2 is not a"):
        Kept(path, scopes)


def test_what_was_kept_by_other_sources_is_refused_though_the_undisturbed_run_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept"
    scopes = [Scope("log roll", "crash", play_calm("log roll"))]
    Kept(path, scopes).close()
    Kept(path, scopes).close()
    monkeypatch.setattr("kavka.simulator.runs.exploration.program_of", lambda _sources: "another")

    with pytest.raises(NotThisExploration, match="another version of kavka"):
        Kept(path, scopes)


def test_each_change_of_a_source_is_another_program(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    module = tmp_path / "log" / "segment.py"
    module.write_text("A = 1\n")
    found = {program_of(tmp_path), program_of(tmp_path)}
    module.write_text("A = 2\n")
    found.add(program_of(tmp_path))
    module.rename(tmp_path / "segment.py")
    found.add(program_of(tmp_path))

    assert len(found) == 3


def test_a_bug_that_is_put_back_is_found_where_the_undisturbed_story_does_not_show_it() -> None:
    (bug,) = (mutant for mutant in MUTANTS if mutant.name == "late answers count")
    story = STORIES["clean stop"]

    with put_back(bug):
        calm = run(story)
        tried = islice(Scope("clean stop", "crash", calm).points(), 60)
        is_found = any(run(story, point).rule == "R20" for _, point in tried)

    assert not calm.violation, calm.detail
    assert is_found
