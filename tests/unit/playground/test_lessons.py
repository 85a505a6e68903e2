"""Each lesson, played to its end: what it claims is in the trace, and not before something was done for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playground.build import WORDS, languages

from kavka_playground.bridge import Bridge
from kavka_playground.choices import Click
from kavka_playground.lessons import LESSONS, Goal, Lesson, Part
from kavka_playground.run import Run
from tests.kit.lesson_scripts import SCRIPTS

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

CODES = re.compile(r"[a-z]+(?:\.[a-z]+)+|acks=\w+|[A-Z]{2,}(?:_[A-Z]+)*|/controller|--unclean|\{\w+\}|\d+(?:\.\d+)?")
PARTS = [(lesson, part) for lesson in LESSONS for part in lesson.parts]
NAMES = [f"{lesson.id}/{part.id}" for lesson, part in PARTS]


def texts() -> Iterator[str]:
    for lesson in LESSONS:
        yield from (lesson.title, lesson.lead)
        for part in lesson.parts:
            yield from (part.title, *part.text, *(label for label, _, _ in part.buttons))
            yield from (board.title for board in part.boards)
            for goal in part.goals:
                yield from (goal.do, goal.hint)


def test_each_text_has_its_chinese_and_nothing_else_has() -> None:
    _, chinese = languages()
    assert set(chinese.texts) == {*filter(None, texts()), *WORDS}
    for english, text in chinese.texts.items():
        assert re.search(r"[\u4e00-\u9fff]", text) or CODES.fullmatch(text), english


def test_codes_and_places_are_the_same_in_chinese() -> None:
    """Numbers that are words in one of the two languages are left to the reader."""
    _, chinese = languages()
    for english, text in chinese.texts.items():
        named = {code for code in CODES.findall(english) if not code.isascii() or not code[0].isdigit()}
        assert named <= set(CODES.findall(text)), english


def test_chinese_has_the_words_that_the_cluster_beside_it_has() -> None:
    _, chinese = languages()
    other = re.compile(r"(?<![\w./])(broker|leader|follower|controller|epoch)(?![\w.])|消息")
    assert [text for text in chinese.texts.values() if other.search(text)] == []


def begun(part: Part) -> list[Run]:
    """The runs as the reader meets them."""
    runs = [Run(board.choices, [Click.parse(word) for word in board.clicks]) for board in part.boards]
    for run, board in zip(runs, part.boards, strict=True):
        run.advance(board.at_ms)
    return runs


def play(runs: list[Run], lesson: str, part: str) -> None:
    for step in SCRIPTS[lesson, part]:
        for run in runs:
            if isinstance(step, int):
                for _ in range(step // 250):
                    run.advance(run.at_ms + 250)
                run.advance(run.at_ms + step % 250)
            else:
                run.click(*step)


def goal(lesson: str, part: str, name: str) -> Goal:
    return next(each for each in LESSONS if each.id == lesson).part(part).goal(name)


@pytest.mark.parametrize(("lesson", "part"), PARTS, ids=NAMES)
def test_its_claims_are_shown_by_the_run_that_was_asked_for(lesson: Lesson, part: Part) -> None:
    runs = begun(part)
    assert {each.id: each.check(runs) for each in part.goals} == {each.id: None for each in part.goals}

    play(runs, lesson.id, part.id)

    for each in part.goals:
        proof = each.check(runs)
        assert proof is not None, each.id
        numbers = {event.number for run in runs for event in run.trace.events()}
        assert proof.events
        assert set(proof.events) <= numbers
    assert [run.ended for run in runs] == [""] * len(runs)
    assert [run.skipped for run in runs] == [[]] * len(runs)


def test_each_part_has_a_script_and_a_question_stands_in_each_lesson() -> None:
    assert set(SCRIPTS) == {(lesson.id, part.id) for lesson, part in PARTS}
    assert all(any(each.ask for part in lesson.parts for each in part.goals) for lesson in LESSONS)


def test_one_after_the_other_is_not_at_once() -> None:
    runs = begun(next(lesson for lesson in LESSONS if lesson.id == "crashes").part("at-once"))
    play(runs, "crashes", "one-by-one")

    assert goal("crashes", "at-once", "both").check(runs) is None
    assert goal("crashes", "at-once", "either").check(runs) is None
    assert goal("crashes", "unclean", "lose").check(runs) is None


def test_a_shrink_by_a_fault_is_no_false_alarm() -> None:
    runs = begun(next(lesson for lesson in LESSONS if lesson.id == "lag").part("burst"))
    for run in runs:
        run.click("pause", "3")
        run.advance(run.at_ms + 4_000)

    assert goal("lag", "burst", "wolf").check(runs) is None
    assert goal("lag", "burst", "flap").check(runs) is None


def test_a_record_that_an_unclean_election_loses_does_not_answer_what_acks_1_promises() -> None:
    runs = begun(next(lesson for lesson in LESSONS if lesson.id == "request").part("one"))
    (run,) = runs
    for broker in ("2", "3"):
        run.click("cut", f"1-{broker}")
    run.click("write", "1")
    run.advance(run.at_ms + 4_000)
    run.click("kill", "1")
    run.advance(run.at_ms + 1_000)
    run.click("unclean")
    run.advance(run.at_ms + 1_000)

    assert run.lost
    assert goal("request", "one", "lose").check(runs) is None


def test_the_bridge_tells_which_goals_are_reached() -> None:
    bridge = Bridge()
    part = LESSONS[1].part("leader")
    words = {"op": "open", "run": "a", **part.boards[0].as_json()}
    bridge.call(json.dumps(words))
    bridge.call(json.dumps({"op": "advance", "run": "a", "to_ms": part.boards[0].at_ms}))
    ask = json.dumps({"op": "goals", "lesson": "crashes", "part": "leader", "runs": ["a"]})

    assert json.loads(bridge.call(ask)) == {"next": None}

    bridge.call('{"op": "click", "run": "a", "what": "kill", "target": "1"}')
    bridge.call(json.dumps({"op": "advance", "run": "a", "to_ms": part.boards[0].at_ms + 1_000}))
    assert "broker 2 was the leader of epoch 1" in json.loads(bridge.call(ask))["next"]["text"]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [2, 3, 4, 5])
@pytest.mark.parametrize(("lesson", "part"), PARTS, ids=NAMES)
def test_its_claims_do_not_hang_on_a_seed(lesson: Lesson, part: Part, seed: int) -> None:
    boards = tuple(replace(board, choices=replace(board.choices, seed=seed)) for board in part.boards)
    runs = begun(replace(part, boards=boards))

    play(runs, lesson.id, part.id)

    assert [each.id for each in part.goals if each.check(runs) is None] == []
