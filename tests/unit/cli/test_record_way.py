"""`kavka trace`: the steps of a record's way, each from one finding, and what is said to be unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kavka.cli.output import Failure
from kavka.cli.understand.record_way import (
    Commit,
    Findings,
    FoundRecord,
    ShareState,
    as_fields,
    earliest_ms,
    tell,
    way_of,
)
from kavka.cli.understand.trace import _from_directories, _parse, _with_decisions
from kavka.decisions import Decision, DecisionKind
from kavka.flight.record_way import RecordedWay, Sighting
from kavka.model import BrokerId, TopicPartition
from kavka.traces import RING_FILES, FollowerStep, RequestTrace, Stages, TracedPartition, encode_trace

ORDERS = TopicPartition("orders", 3)
START_MS = 1_700_000_000_000


def produced(*, sampled: bool = True, first: int = 40, end: int = 45, follower: int = 1) -> RequestTrace:
    followers = (
        FollowerStep(BrokerId(follower), "orders", 3, 2_000, reached=True),
        FollowerStep(BrokerId(3), "orders", 3, 9_000, reached=True),
    )
    return RequestTrace(
        "2-77-1", START_MS, BrokerId(2), "Produce", 11, "app", "10.0.0.7", "User:app",
        sampled=sampled,
        stages=Stages(local=100, remote=9_100),
        partitions=(TracedPartition("orders", 3, first, end, appended_us=80 if sampled else -1),),
        followers=followers,
        committed_us=9_050 if sampled else -1,
    )  # fmt: skip


def fetched(offset: int) -> RequestTrace:
    partitions = (TracedPartition("orders", 3, offset),)
    return produced()._replace(
        trace_id="2-77-2", at_ms=START_MS + 20, api="Fetch", client_id="reader", partitions=partitions, followers=()
    )


def recording(**replicas: int) -> RecordedWay:
    seen = {BrokerId(int(name[1:])): Sighting(START_MS + at_ms, at_latest=False) for name, at_ms in replicas.items()}
    return RecordedWay(BrokerId(2), Sighting(START_MS, at_latest=False), seen, Sighting(START_MS + 9, at_latest=False))


FOUND = Findings(ORDERS, 42, FoundRecord(START_MS - 1, False, 7), leader=2, replicas=(2, 1, 3))
COMMIT = Commit("billing", START_MS + 500, 50)


def whats(found: Findings) -> list[tuple[str, float]]:
    return [(step.what, round(step.at_ms - START_MS, 3)) for step in way_of(found).steps]


def test_a_sampled_record_has_all_its_steps() -> None:
    by_this_command = fetched(42)._replace(client_id="kavka-cli", at_ms=START_MS + 15)
    found = FOUND._replace(traces=[produced(), by_this_command, fetched(42)], commits=[COMMIT])
    assert whats(found) == [
        ("received", 0),
        ("appended", 0.08),
        ("replicated", 2),
        ("replicated", 9),
        ("committed", 9.05),
        ("answered", 9.2),
        ("fetched", 29.2),
        ("read", 500),
    ]
    way = way_of(found)
    assert way.unknown == []
    assert way.dominant is not None
    assert way.dominant.broker_id == 3
    assert "offsets 40 to 44" in way.steps[0].text


def test_of_a_slow_record_recordings_know_the_followers_that_did_not_end_its_wait() -> None:
    found = FOUND._replace(traces=[produced(sampled=False)], recordings=[recording(b1=1, b3=8)], commits=[COMMIT])
    assert whats(found) == [
        ("received", 0),
        ("appended", 0),
        ("replicated", 1),  # broker 1, by the recording
        ("replicated", 9),  # broker 3, by the trace: the last one
        ("committed", 9),
        ("answered", 9.2),
        ("read", 500),
    ]
    alone = way_of(found._replace(recordings=[])).steps
    assert [step.text for step in alone if "latest" in step.text] == [
        "broker 1 has it, as its fetch shows (at the latest)"
    ]


def test_without_a_trace_the_recording_tells_and_the_writer_is_unknown() -> None:
    found = FOUND._replace(recordings=[recording(b1=1)], commits=[COMMIT])
    assert whats(found) == [("written", -1), ("appended", 0), ("replicated", 1), ("committed", 9), ("read", 500)]
    unknown = way_of(found).unknown
    assert unknown[0].startswith("who wrote it")
    assert unknown[1].startswith("when broker 3 had it")
    assert len(unknown) == 2


def test_a_trace_that_knows_its_first_offset_only_is_not_taken_for_another_record() -> None:
    found = FOUND._replace(traces=[produced(end=-1)])
    assert [what for what, _ in whats(found)] == ["written"]
    assert way_of(found).unknown[0] == (
        "who wrote it: perhaps the request of trace 2-77-1, whose last offset is not known"
    )
    assert whats(found._replace(offset=40))[0] == ("received", 0)


def test_a_follower_that_did_not_come_is_told() -> None:
    gone = FollowerStep(BrokerId(3), "orders", 3, 10, reached=False, in_sync=False)
    trace = produced()
    found = FOUND._replace(traces=[trace._replace(followers=(trace.followers[0], gone))])
    (missing,) = [step for step in way_of(found).steps if step.what == "missing"]
    assert missing.text == "broker 3 fetched for the last time, without it, and left the ISR"


def test_what_lies_elsewhere_is_said() -> None:
    slow = Decision(DecisionKind.REQUEST_SLOW, START_MS, BrokerId(2), "it took long", about_broker=BrokerId(3))
    found = FOUND._replace(unread=(1, 3), commits_missing="which group read it: no right", slow=[slow])
    way = way_of(found)
    assert [step.what for step in way.steps] == ["written", "slow"]
    assert any("brokers 1, 3 keep" in text for text in way.unknown)
    assert way.unknown[-1] == "which group read it: no right"


def test_a_record_that_is_gone_is_said_to_be_gone() -> None:
    found = FOUND._replace(record=None, record_missing="the record itself: the log begins at 99 now")
    assert way_of(found).steps == []
    assert way_of(found).unknown[0] == found.record_missing
    assert next(iter(tell(found, way_of(found)))) == "orders-3@42"


def test_lines_and_json_say_the_same() -> None:
    found = FOUND._replace(traces=[produced()], commits=[COMMIT])
    way = way_of(found)
    text = "\n".join(tell(found, way))
    fields = json.loads(json.dumps(as_fields(found, way)))
    assert len(fields["steps"]) == len(way.steps)
    assert all(step["text"] in text for step in fields["steps"])
    assert fields["dominant"]["broker"] == 3
    assert "stage remote" in text


def test_commits_are_looked_for_from_the_earliest_time_that_is_known() -> None:
    assert earliest_ms(FOUND) == START_MS - 1
    assert earliest_ms(FOUND._replace(record=None, recordings=[recording()])) == START_MS + 9
    assert earliest_ms(FOUND._replace(record=None)) == 0


@pytest.mark.parametrize("text", ["orders", "orders-3", "orders@3", "-3@3", "orders-x@3", "orders-3@x", "orders-3@-1"])
def test_what_is_no_record_is_wrong_usage(text: str) -> None:
    with pytest.raises(Failure, match="is not a record"):
        _parse(text)


def test_rings_are_found_below_a_directory_and_torn_lines_passed_over(tmp_path: Path) -> None:
    logs = tmp_path / "broker-2" / "logs"
    logs.mkdir(parents=True)
    other = produced()._replace(partitions=(TracedPartition("other", 0, 1),))
    lines = [encode_trace(produced()), b"{torn", encode_trace(other)]
    (logs / RING_FILES[1]).write_bytes(b"\n".join(lines))
    found = _from_directories(FOUND, [str(tmp_path), str(logs)], 3)
    assert found.traces == [produced()]
    with pytest.raises(Failure, match="No such file"):
        _from_directories(FOUND, [str(tmp_path / "nowhere")], 3)


def test_share_groups_tell_how_they_stand_and_why_it_came_back() -> None:
    released = Decision(
        DecisionKind.SHARE_RECORDS_RELEASED,
        START_MS + 500,
        BrokerId(2),
        "group workers gets records 40 to 44 again: the lock ran out; deliveries so far: 1 of at most 5",
        partition=ORDERS,
        evidence={"first_offset": 40, "last_offset": 44},
    )
    elsewhere = released._replace(evidence={"first_offset": 50, "last_offset": 54})
    of_another = released._replace(partition=TopicPartition("orders", 2))
    states = [
        ShareState("a", "passed", 60),
        ShareState("b", "acquired", 40, 2, "m-1"),
        ShareState("c", "not delivered", 10),
    ]
    found = _with_decisions(Findings(ORDERS, 42), [released, elsewhere, of_another])._replace(shares=states)
    way = way_of(found)
    assert [(step.what, step.text) for step in way.steps] == [("share", released.why)]
    lines = list(tell(found, way))
    begin = lines.index("Share groups, as they stand now:")
    assert lines[begin + 1].startswith("  group a has passed it, its first record that is not done is 60")
    assert lines[begin + 2 : begin + 4] == [
        "  group b: member m-1 has it now, delivered 2 times",
        "  group c was not given it yet",
    ]
    assert not any("no kept commit" in text for text in way.unknown)
    assert as_fields(found, way)["share_groups"] == [state._asdict() for state in states]
