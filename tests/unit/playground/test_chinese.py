"""The cluster in a page, in Chinese: each text of its scripts, what happens in a run, and each lesson's proof."""

from __future__ import annotations

import json
import re
from string import Formatter

import pytest
from playground.build import HERE, MARKED, words_of_scripts

from kavka.decisions import DecisionKind
from kavka_playground.bridge import Bridge
from kavka_playground.chinese import forms, in_chinese
from kavka_playground.lessons import Lesson, Part
from tests.unit.playground.test_lessons import NAMES, PARTS, begun, play

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

SAID = re.compile(r'\bsay\("((?:[^"\\]|\\.)*)"')
ENGLISH = re.compile(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b")
"""Three words in a row: names of settings and states are shorter."""
BY_VALUE = {
    *("whole", "cut", "slow", "dead", "paused", "starting"),
    *("Producer", "Consumer", "Network", "Operator", "Simulator", "Admin"),
    *("Loading Python", "Loading kavka"),
    *("was killed", "stands still", "goes on", "starts", "serves", "is told: failed", "record lost", "link cut"),
    *("link healed", "fast", "told: written", "controller seated", "state stored", "topic removed", "topic made anew"),
    *("leads", "follows", "isr held", "log cut back", "log deleted", "session ended", "asks", "halts", "rule broken"),
    *("appended", "committed", "offsets moved", "follower asks", "produce came", "produce answered", "read"),
    "controller changed",
}
"""What scripts say that stands in a value: a state, a node, what happened."""


def test_each_text_of_the_scripts_has_its_chinese_and_nothing_else_has() -> None:
    scripts = [file.read_text(encoding="utf-8") for file in (HERE / "page").glob("*.js")]
    literal = {text for script in scripts for text in SAID.findall(script)}
    marked = set(MARKED.findall((HERE / "page" / "play.html").read_text(encoding="utf-8")))
    known = json.loads((HERE / "page" / "zh.json").read_text(encoding="utf-8"))
    assert len(literal) > 60
    assert known.keys() == literal | marked | BY_VALUE
    assert {kind.value for kind in DecisionKind} <= words_of_scripts().keys()


@pytest.mark.parametrize("table", [words_of_scripts(), forms()], ids=["words", "sentences"])
def test_a_translation_has_the_values_of_its_text(table: dict[str, str]) -> None:
    def values(text: str) -> set[str]:
        return {name for _piece, name, *_ in Formatter().parse(text) if name}

    assert not [text for text, said in table.items() if values(text) != values(said)]


@pytest.mark.parametrize(("lesson", "part"), PARTS, ids=NAMES)
def test_what_a_lesson_proves_and_what_happens_in_it_is_said_in_chinese(lesson: Lesson, part: Part) -> None:
    runs = begun(part)
    play(runs, lesson.id, part.id)
    for goal in part.goals:
        proof = goal.check(runs)
        assert proof is not None
        said = in_chinese(proof.text)
        assert said is not None, proof.text
        assert not ENGLISH.search(said), said
    for event in (event for run in runs for event in run.trace.events() if event.decision is not None):
        assert event.decision is not None
        assert in_chinese(event.decision.why) is not None, event.decision.why
    for why in (record.error for run in runs for record in run.traffic.sent if record.error):
        said = in_chinese(why)
        assert said is not None, why
        assert not ENGLISH.search(said), said


def test_the_bridge_answers_in_the_language_that_it_is_asked_in() -> None:
    bridge = Bridge()

    def ask(op: str, **fields: object) -> dict[str, object]:
        answer: dict[str, object] = json.loads(bridge.call(json.dumps({"op": op, "language": "zh", **fields})))
        return answer

    assert ask("open", run="a", choices={"brokers": 9}) == {"refused": "brokers：9，应为 1 到 5"}
    moment = ask("open", run="a", choices={})
    moment = ask("click", run="a", what="kill", target="1")
    assert ask("click", run="a", what="kill", target="1") == {"refused": "Broker 1 没有运行"}
    moment = ask("advance", run="a", to_ms=int(str(moment["at_ms"])) + 4_000)
    events = moment["events"]
    assert isinstance(events, list)
    (elected,) = [event["why"] for event in events if event["kind"] == "leader elected"]
    assert elected == "离线选举：Broker 2 自纪元 1 起担任 Leader，第一个在线的同步副本"
    english = json.loads(bridge.call(json.dumps({"op": "trace", "run": "a"})))
    assert "offline election: broker 2 leads from epoch 1, first live in-sync replica" in str(english)
    assert not [event for event in events if event.get("english")]
