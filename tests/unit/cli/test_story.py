"""`kavka why`: which decisions belong to a story, and how it is told."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from kavka.cli.output import Failure
from kavka.cli.times import moment_ms, parse_duration
from kavka.cli.understand.story import Subject, dominant_stages, headline, parse_subject, select, standing, tell
from kavka.cli.understand.why import why
from kavka.decisions import RING_FILES, Decision, DecisionKind, RecordedDecision, encode_decision
from kavka.model import BrokerId, LeaderEpoch, TopicPartition

START_MS = 1_700_000_000_000
ORDERS_3 = TopicPartition("orders", 3)

_numbers = itertools.count()


def recorded(decision: Decision) -> RecordedDecision:
    return RecordedDecision(f"1-0-{next(_numbers)}", decision)


def elected(at_ms: int, before: int, after: int, partition: TopicPartition = ORDERS_3) -> Decision:
    return Decision(
        DecisionKind.LEADER_ELECTED,
        START_MS + at_ms,
        BrokerId(1),
        "leader 2 is not alive; 1 is the first live in-sync replica",
        partition,
        leader_epoch=8,
        controller_epoch=4,
        before={"leader": before, "isr": [1, 2, 3]},
        after={"leader": after, "isr": [1, 3]},
        evidence={"live": [1, 3], "unclean": False, "log_end_offset": 123_456},
    )


def went(at_ms: int, broker: int) -> Decision:
    return Decision(
        DecisionKind.BROKER_WENT,
        START_MS + at_ms,
        BrokerId(1),
        f"broker {broker}'s session expired",
        about_broker=BrokerId(broker),
    )


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        ([], Subject()),
        (["orders-3"], Subject(topic="orders", partition=3)),
        (["a-b-12"], Subject(topic="a-b", partition=12)),
        (["orders"], Subject(topic="orders")),
        (["slow"], Subject(slow=True)),
        (["broker"], Subject(all_brokers=True)),
        (["topic", "orders-3"], Subject(topic="orders-3")),
        (["broker", "2"], Subject(broker=2)),
        (["group", "billing"], Subject(group="billing")),
        (["controller"], Subject(controller=True)),
    ],
)
def test_a_subject_is_understood(words: list[str], subject: Subject) -> None:
    assert parse_subject(words) == subject


@pytest.mark.parametrize("words", [["broker", "two"], ["broker", "1", "2"], ["a", "b"]])
def test_what_is_no_subject_is_refused_with_what_is_expected(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"broker"):
        parse_subject(words)


def test_a_partitions_story_has_its_decisions_and_what_happened_to_its_brokers_just_before() -> None:
    cause, effect = went(0, 2), elected(40, 2, 1)
    other_broker, other_partition = went(10, 9), elected(41, 2, 1, TopicPartition("orders", 4))
    long_ago = went(-3_600_000, 2)
    decisions = [recorded(each) for each in (long_ago, cause, other_broker, effect, other_partition)]

    assert select(decisions, Subject("orders", 3)) == [cause, effect]


def test_a_topics_story_has_all_its_partitions() -> None:
    third, fourth = elected(0, 2, 1), elected(1, 2, 1, TopicPartition("orders", 4))
    decisions = [recorded(third), recorded(fourth), recorded(elected(2, 2, 1, TopicPartition("orders-eu", 3)))]

    assert select(decisions, Subject("orders")) == [third, fourth]


def test_a_topics_story_begins_with_its_creation() -> None:
    made, other = (
        Decision(DecisionKind.TOPIC_CREATED, START_MS, BrokerId(1), "", evidence={"topic": name}) for name in "ab"
    )
    decisions = [recorded(made), recorded(other)]

    assert select(decisions, Subject("a")) == select(decisions, Subject("a", 3)) == [made]


def test_a_brokers_story_has_what_was_decided_about_it_and_where_it_came_or_left() -> None:
    gone, moved, elsewhere = went(0, 2), elected(1, 2, 1), elected(2, 3, 1)
    elsewhere = elsewhere._replace(before={"leader": 3}, after={"leader": 1})
    decisions = [recorded(each) for each in (gone, moved, elsewhere, went(3, 7))]

    assert select(decisions, Subject(broker=2)) == [gone, moved]
    assert select(decisions, Subject(broker=3)) == [elsewhere]


def test_without_an_id_it_is_told_what_became_of_all_brokers() -> None:
    gone, other, moved = went(0, 3), went(1, 7), elected(2, 3, 1)
    decisions = [recorded(each) for each in (gone, other, moved)]

    assert select(decisions, Subject(all_brokers=True)) == [gone, other]


def test_at_a_moment_the_last_decision_of_each_kind_before_it_is_told() -> None:
    first, second, later = elected(0, 2, 1), elected(100_000, 1, 3), elected(900_000, 3, 2)
    decisions = [recorded(each) for each in (first, second, later)]

    assert select(decisions, Subject("orders", 3), at_ms=START_MS + 500_000) == [second]


def test_at_a_moment_it_is_told_who_led_and_who_was_in_sync() -> None:
    first, second = elected(0, 2, 1), elected(100_000, 1, 3)._replace(leader_epoch=LeaderEpoch(9))
    late = elected(101_000, 2, 1)  # An order of the former epoch that was carried out late.
    decisions = [recorded(each) for each in (first, second, late)]
    about = Subject("orders", 3)

    (before,) = standing(decisions, about, START_MS - 1)
    assert before == "orders-3: leader 2, in sync 1,2,3"
    (between,) = standing(decisions, about, START_MS + 50_000)
    assert between.startswith("orders-3: leader 1, leader epoch 8, in sync 1,3 (since ")
    (after,) = standing(decisions, about, START_MS + 200_000)
    assert after.startswith("orders-3: leader 3, leader epoch 9, in sync 1,3 (since ")
    assert list(standing(decisions, Subject("others", 0), START_MS)) == []


def test_the_story_is_told_in_sentences_with_numbers() -> None:
    lines = list(tell([went(0, 2), elected(40, 2, 1)], Subject("orders", 3)))
    text = "\n".join(lines)

    assert re.search(r"· \d\d:\d\d:\d\d\.000  broker 2: broker went", text)
    assert re.search(r"  \d\d:\d\d:\d\d\.040  orders-3: leader elected, leader 2 -> 1, in sync 1,2,3 -> 1,3", text)
    assert "Leader 2 is not alive; 1 is the first live in-sync replica." in text
    assert "decided by broker 1; leader epoch 8; controller epoch 4" in text
    assert "unclean no; log end offset 123456" in text


def test_digits_are_grouped_in_amounts_and_never_in_what_somebody_copies() -> None:
    facts = {"pid": 28_585, "producer_id": 1_234_567, "port": 19_092, "slowed_ms": 31_000}
    restarted = went(0, 2)._replace(evidence=facts, after={"leader_epoch": 10_001})
    text = "\n".join(tell([restarted], Subject(broker=2)))

    assert "pid 28585; producer id 1234567; port 19092; slowed ms 31,000" in text
    assert "leader epoch 10001" in text


def test_a_headline_says_what_is_none() -> None:
    gone = elected(0, 2, -1)._replace(after={"leader": None, "isr": []})

    assert headline(gone) == "orders-3: leader elected, leader 2 -> none, in sync 1,2,3 -> none"


def test_times_of_day_are_of_today_or_of_yesterday_and_durations_have_units() -> None:
    noon = moment_ms("2026-01-31T12:00:00", 10**15)

    assert moment_ms("10:42", noon) == noon - 78 * 60_000
    assert moment_ms("10:42:30.250", noon) == noon - 78 * 60_000 + 30_250
    evening = noon + 11 * 3_600_000
    past_midnight = noon + 13 * 3_600_000
    assert moment_ms("23:00", past_midnight) == evening
    assert moment_ms("1700000000000", noon) == START_MS
    assert [parse_duration(text) for text in ("250ms", "90s", "10m", "2h", "7d")] == [
        250, 90_000, 600_000, 7_200_000, 604_800_000,
    ]  # fmt: skip
    for future in ("12:01", "23:00", "2026-01-31T12:01:00", str(noon + 1)):
        with pytest.raises(Failure, match="lies in the future"):
            moment_ms(future, noon)
    for wrong in ("soon", "25:00", "10:42:99"):
        with pytest.raises(Failure):
            moment_ms(wrong, noon)
    with pytest.raises(Failure):
        parse_duration("10 minutes")


def test_rings_of_several_brokers_are_told_as_one_story(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    now_ms = moment_ms("2026-01-31T12:00:00", 10**15)
    for broker, decision in ((1, went(0, 2)), (3, elected(40, 2, 1))):
        directory = tmp_path / f"broker-{broker}" / "logs"
        directory.mkdir(parents=True)
        line = encode_decision(RecordedDecision(f"{broker}-0-1", decision))
        (directory / RING_FILES[1]).write_bytes(line + b"\n" + line + b"\n" + line[:20])

    why(["orders-3"], since="2000w", data=[str(tmp_path)], brief=True)
    lines = capsys.readouterr().out.splitlines()

    assert [line.split("  ")[1] for line in lines] == [
        "broker 2: broker went",
        "orders-3: leader elected, leader 2 -> 1, in sync 1,2,3 -> 1,3",
    ]
    assert now_ms > START_MS


def test_a_directory_without_a_ring_is_a_failure_with_a_next_step(tmp_path: object) -> None:
    with pytest.raises(Failure, match="no ring of decisions") as failure:
        why([], data=[str(tmp_path)])
    assert "log directory" in failure.value.next_step


def test_a_broker_that_no_recorded_decision_names_is_a_failure(tmp_path: Path) -> None:
    line = encode_decision(RecordedDecision("1-0-1", went(0, 2)))
    (tmp_path / RING_FILES[1]).write_bytes(line + b"\n")
    with pytest.raises(Failure, match="no decision in these directories names broker 9"):
        why(["broker", "9"], since="2000w", data=[str(tmp_path)])


def slow(at_ms: int, stage: str, about: int, *, untold: int = 0, topic: str = "orders") -> Decision:
    return Decision(
        DecisionKind.REQUEST_SLOW,
        START_MS + at_ms,
        BrokerId(1),
        "it took long",
        about_broker=BrokerId(about),
        evidence={"api": "Produce", "stage": stage, "topic": topic, "partition": 3, "unrecorded_before": untold},
    )


def test_slow_requests_are_counted_by_stage_and_broker_with_those_that_got_no_record() -> None:
    told = [slow(0, "remote", 3), slow(60_000, "remote", 3, untold=7), slow(1, "local", 1)]
    assert list(dominant_stages(told)) == [
        "     9 of 10  remote, broker 3  (Produce)",
        "     1 of 10  local, broker 1  (Produce)",
    ]


def test_a_slow_request_belongs_to_its_partition_its_topic_and_the_broker_that_was_waited_for() -> None:
    found = [recorded(slow(0, "remote", 3)), recorded(slow(1, "remote", 3, topic="other")), recorded(went(2, 2))]
    assert len(select(found, Subject(slow=True))) == 2
    assert len(select(found, Subject(slow=True, topic="orders"))) == 1
    assert [each.at_ms for each in select(found, Subject(topic="orders", partition=3))][:1] == [START_MS]
    assert select(found, Subject(topic="orders", partition=4)) == []
    assert len(select(found, Subject(broker=3))) == 2


def test_a_group_that_nothing_was_decided_about_may_wait_for_its_coordinators_topic() -> None:
    def refused(topic: str) -> RecordedDecision:
        kind, broker = DecisionKind.TOPIC_NOT_CREATED, BrokerId(1)
        return recorded(Decision(kind, START_MS, broker, "too few", about_broker=broker, evidence={"topic": topic}))

    decisions = [refused("__share_group_state"), refused("__transaction_state")]
    (told,) = select(decisions, Subject(group="workers"))
    assert told.evidence["topic"] == "__share_group_state"
    own = Decision(DecisionKind.GROUP_REBALANCED, START_MS, BrokerId(1), "a joined", group="readers")
    assert select([*decisions, recorded(own)], Subject(group="readers")) == [own]
    assert [each.evidence["topic"] for each in select(decisions, Subject(topic="__transaction_state"))] == [
        "__transaction_state"
    ]
