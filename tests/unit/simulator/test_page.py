"""The page of a run holds what was recorded, as text whatever it says, and nothing from elsewhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId, TopicPartition
from kavka.simulator.host.trace import ReplicaLook, Trace
from kavka.simulator.runs import page
from kavka.simulator.runs.recorded_run import Finding, RecordedRun, Wish
from kavka.zookeeper.znodes import PartitionState

PARTITION = TopicPartition("orders", 0)
HOSTILE = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> & \" ' \u2028 @@ ]]>"
FIGURES = {
    "digest": "0",
    "simulated_hours": 0.1,
    "events_checked": 5,
    "changes_checked": 4,
    "sent": 3,
    "acknowledged": 2,
    "consumed": 2,
}


class Elements(HTMLParser):
    """Start tags in order, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.title = ""
        self._within = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._within = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts[-1] += data
        elif self._within == "title":
            self.title += data


def recorded(trace: Trace, *, scenario: str | None = None, finding: Finding | None = None) -> RecordedRun:
    return RecordedRun(Wish(7, scenario), trace, FIGURES, {"kill": 2}, "as drawn", finding, 1.5, result=None)


def values(text: str) -> dict[str, Any]:
    data, _script = Elements(text).scripts
    found = json.loads(data)
    assert isinstance(found, dict)
    return found


def a_trace() -> Trace:
    trace = Trace()
    trace.on_node("broker-3", "killed")
    trace.on_stored(PARTITION, PartitionState(BrokerId(1), 2, (BrokerId(1), BrokerId(2)), 1), 5)
    trace.on_replica("broker-1", PARTITION, ReplicaLook(True, 2, (1, 2), 9, 8))
    decision = Decision(
        DecisionKind.ISR_SHRUNK,
        1,
        BrokerId(1),
        "broker 3 last caught up 12000 ms ago, replica.lag.time.max.ms allows 10000 ms",
        PARTITION,
        leader_epoch=2,
        before={"isr": (1, 2, 3)},
        after={"isr": (1, 2)},
        evidence={"broker 3 log_end_offset": 4},
    )
    trace.on_decision("broker-1", decision)
    return trace


def test_events_stand_in_it_with_offsets_isr_and_reasons() -> None:
    killed, state, replica, shrunk = values(page.render(recorded(a_trace())))["events"]

    assert (killed["w"], killed["k"]) == ("broker-3", "killed")
    assert (state["k"], state["p"], state["e"], state["i"]) == ("state stored", "orders-0", 2, [1, 2])
    assert (replica["k"], replica["l"], replica["h"]) == ("leads", 9, 8)
    assert shrunk["d"]["before"] == {"isr": [1, 2, 3]}
    assert shrunk["d"]["evidence"] == {"broker 3 log_end_offset": 4}
    assert "allows 10000 ms" in shrunk["d"]["why"]


def test_the_command_that_has_it_again_and_the_figures_stand_in_it() -> None:
    found = values(page.render(recorded(a_trace())))

    assert found["command"] == "kavka simulate --seed 7"
    assert found["figures"]["digest"] == a_trace().digest
    assert found["figures"]["faults"] == 2
    assert found["finding"] is None


def test_hostile_text_stays_text() -> None:
    trace = a_trace()
    trace.on_node("broker-1", "halts", HOSTILE)
    decision = Decision(DecisionKind.FENCED, 1, BrokerId(1), HOSTILE, evidence={HOSTILE: HOSTILE})
    trace.on_decision("broker-1", decision)
    finding = Finding("R1", 3, HOSTILE, HOSTILE)
    innocent = Elements(page.render(recorded(a_trace())))

    text = page.render(recorded(trace, scenario=HOSTILE, finding=finding))

    elements = Elements(text)
    assert elements.tags == innocent.tags
    assert elements.title == HOSTILE
    assert elements.scripts[1] == innocent.scripts[1]
    found = values(text)
    assert found["title"] == HOSTILE
    assert found["events"][-2]["x"] == HOSTILE
    assert found["events"][-1]["d"]["evidence"] == {HOSTILE: HOSTILE}
    assert found["finding"]["what"] == HOSTILE


def test_the_script_makes_no_markup_of_values() -> None:
    script = Elements(page.render(recorded(a_trace()))).scripts[1]

    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script)


def test_it_needs_nothing_from_elsewhere_and_forbids_itself_to_ask() -> None:
    elements = Elements(page.render(recorded(a_trace())))

    policies = [
        attributes["content"] for tag, attributes in elements.tags if "content-security" in str(attributes).lower()
    ]
    assert policies
    assert "default-src 'none'" in str(policies[0])
    for _tag, attributes in elements.tags:
        assert not attributes.get("src")
        assert attributes.get("href") in (None, "data:,")


def test_the_latest_events_are_kept_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    trace.on_node("broker-3", "killed")
    for number in range(30):
        trace.on_replica("broker-1", PARTITION, ReplicaLook(False, 0, (), number, 0))
        trace.on_node("network", "cut", f"a --> {number}")
    monkeypatch.setattr(page, "MAX_MOVES", 4)
    monkeypatch.setattr(page, "MAX_NEWS", 6)

    found = values(page.render(recorded(trace)))

    shown = found["events"]
    assert [event["l"] for event in shown if event["k"] == "appended"] == [26, 27, 28, 29]
    assert [event["x"] for event in shown if event["k"] == "cut"][-1] == "a --> 29"
    assert len(shown) == 10
    assert found["left_out"] == trace.recorded - 10


def test_a_run_in_which_nothing_happened_has_a_page() -> None:
    assert values(page.render(recorded(Trace())))["events"] == []
