"""What a fetcher follows, when it looks at a partition again, and which parts of an answer it leaves alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kavka import logger
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode
from kavka.logger import Level, LogLevels
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse
from kavka.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kavka.replication.decide.fetch_state import FetchState, Stage
from kavka.replication.decide.followed_partitions import FetcherCounts, FetcherSettings
from kavka.replication.decide.throttle import Throttle
from tests.unit.replication.fetching_support import NOW_MS, ORDERS, TOPIC_ID, batch
from tests.unit.replication.test_followed_partitions import BACKOFF_MS, EPOCH, LEADER, Following, data, offsets

BEFORE_2_7, BY_NAME = "2.6", "3.0"
SECOND = TopicPartition("orders", 1)
Line = tuple[str, str, dict[str, Any]]


@pytest.fixture
def lines() -> Iterator[list[Line]]:
    """Log lines of all levels: (level, event, keys)."""
    written: list[Line] = []
    sink = logger.sink.set(lambda level, event, keys: written.append((level, event, dict(keys))))
    levels = logger.levels.set(LogLevels(Level.DEBUG))
    yield written
    logger.levels.reset(levels)
    logger.sink.reset(sink)


def state_of(following: Following, index: int = 0) -> FetchState:
    state = following.partitions.get(TopicPartition("orders", index))
    assert state is not None
    return state


def records(base_offset: int = 0, leader_epoch: int = EPOCH) -> bytearray:
    return batch(b"a", leader_epoch=leader_epoch, base_offset=base_offset)


def forgotten(following: Following) -> list[int]:
    request = following.ask()
    assert request is not None
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def test_without_settings_a_fetcher_has_apache_kafkas_defaults() -> None:
    # ReplicationConfigs of Apache Kafka 3.9
    assert FetcherSettings() == (1, 500, 1, 1_048_576, 10_485_760, 1_000, 30_000, "3.9-IV0")
    counts = FetcherCounts()
    assert (counts.fetches, counts.truncations, counts.truncations_below_high_watermark) == (0, 0, 0)


@pytest.mark.parametrize(
    ("release", "version", "by_id", "with_state"),
    [("3.0", 12, False, False), ("3.1", 13, True, False), ("3.5-IV0", 14, True, False), ("3.5-IV1", 15, True, True)],
)
def test_topics_go_by_id_from_release_3_1_on_and_the_replica_says_its_registration_from_3_5_iv1_on(
    release: str, version: int, *, by_id: bool, with_state: bool
) -> None:
    following = Following(release=release)
    request = following.ask()
    assert request is not None
    assert following.partitions.fetch_version == version
    assert (request.topics[0].topic_id == TOPIC_ID) is by_id
    assert (request.replica_id == 2) is (not with_state)
    assert (request.replica_state is not None) is with_state


# -- what is followed


def test_what_is_followed_already_goes_on_unchanged() -> None:
    following = Following(2)
    assert len(following.partitions) == 2
    states = list(following.partitions)
    following.asked()
    following.answer(data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    following.follow(0, EPOCH)
    assert list(following.partitions) == states
    assert state_of(following).last_error == "NOT_LEADER_OR_FOLLOWER"


def test_what_has_failed_begins_anew_when_it_is_to_be_followed_in_the_same_epoch() -> None:
    following = Following()
    following.ask()
    following.answer(data(0, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert state_of(following).stage is Stage.FAILED
    following.follow(0, EPOCH)
    assert state_of(following).stage is Stage.FETCHING
    assert following.ask() is not None
    following.answer(data(0, records()))
    assert following.node.end() == 1


def test_a_partition_that_is_hosted_anew_is_another_one() -> None:
    following = Following()
    before = state_of(following)
    following.node.replicas.unhost(ORDERS)
    following.follow(0, EPOCH)
    assert state_of(following) is not before
    assert state_of(following).partition is following.node.partition()


def test_a_log_without_epochs_is_cut_at_its_high_watermark_before_it_is_fetched() -> None:
    following = Following()
    log = following.node.partition().log
    following.fill(1, 1, 1, high_watermark=2)
    log._epochs.clear()  # as a file of epochs that was lost leaves it
    following.partitions.unfollow(ORDERS)
    following.partitions.follow(following.node.partition(), EPOCH, 0)
    assert (log.log_end_offset, following.asked()) == (2, {0: 2})


def test_an_answer_under_the_id_that_a_topic_had_is_nobodys() -> None:
    following = Following()
    following.ask()
    following.node.replicas.identify(following.node.partition(), uuid.UUID(int=88))
    following.follow(0, EPOCH)
    following.answer(data(0, records()))
    assert following.node.end() == 0


@pytest.mark.parametrize("release", ["3.9-IV0", BY_NAME])
@pytest.mark.parametrize("leave", [lambda all_: all_.unfollow(ORDERS), lambda all_: all_.clear()])
def test_what_is_followed_no_more_takes_nothing_and_waits_for_nothing(
    release: str, leave: Callable[[Any], None]
) -> None:
    following = Following(release=release)
    following.ask()
    leave(following.partitions)
    following.answer(data(0, records()))
    assert (following.node.end(), len(following.partitions)) == (0, 0)
    assert following.partitions.next_look_ms(0) is None
    assert not following.partitions.has_work(0)
    assert following.ask() is None


@pytest.mark.parametrize("leave", [lambda all_: all_.unfollow(ORDERS), lambda all_: all_.clear()])
def test_nothing_is_asked_about_what_is_followed_no_more(leave: Callable[[Any], None]) -> None:
    following = Following()
    following.ask()
    following.answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert following.partitions.next_look_ms(0) == 0, "the leader's offsets are to be asked for"
    leave(following.partitions)
    assert following.partitions.next_look_ms(0) is None
    assert following.partitions.asking(Stage.ASKING_OFFSETS, 0) == []


@pytest.mark.parametrize("leave", [lambda all_: all_.unfollow(ORDERS), lambda all_: all_.clear()])
def test_no_quota_is_waited_for_where_what_it_held_back_is_followed_no_more(leave: Callable[[Any], None]) -> None:
    following = exhausted(Following())
    assert following.ask() is None
    assert following.partitions.next_look_ms(0) == BACKOFF_MS
    leave(following.partitions)
    assert following.partitions.next_look_ms(0) is None


def test_the_leader_forgets_all_that_was_cleared() -> None:
    following = Following(2)
    following.ask()
    following.answer()
    following.partitions.clear()
    following.follow(2, EPOCH)
    request = following.ask()
    assert request is not None
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0, 1]]
    assert [p.partition for topic in request.topics for p in topic.partitions] == [2]


def test_a_request_that_was_not_sent_because_nothing_is_left_told_the_leader_nothing() -> None:
    following = Following()
    following.ask()
    following.answer()
    following.partitions.unfollow(ORDERS)
    assert following.ask() is None
    following.follow(1, EPOCH)
    request = following.ask()
    assert request is not None
    assert (request.session_id, request.session_epoch) == (55, 0), "everything is named, and the old session ends"


def test_after_a_lost_answer_everything_is_named() -> None:
    following = Following(2)
    following.ask()
    following.answer()
    following.partitions.on_lost()
    assert following.asked() == {0: 0, 1: 0}


# -- when it is looked at again


def test_of_several_that_wait_each_is_asked_for_when_its_own_time_has_come() -> None:
    following = Following(3)
    following.ask()
    following.answer(data(0, error=ErrorCode.KAFKA_STORAGE_ERROR), data(1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert following.partitions.next_look_ms(0) == 10
    assert following.asked() == {}
    following.answer()
    assert following.partitions.next_look_ms(4) == 6
    assert following.partitions.next_look_ms(25) == 0, "it is late already"
    following.now_ms = 10
    assert following.asked() == {1: 0}
    following.answer()
    assert following.partitions.next_look_ms(10) == BACKOFF_MS - 10
    following.now_ms = BACKOFF_MS - 1
    assert following.asked() == {}
    following.answer()
    following.now_ms = BACKOFF_MS
    assert following.asked() == {0: 0}
    following.answer()
    assert following.partitions.next_look_ms(BACKOFF_MS) is None


def test_what_is_known_is_not_asked_for_again() -> None:
    following = Following()
    following.fill(1, 1)
    following.ask()
    following.answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    asking = following.partitions.asking(Stage.ASKING_OFFSETS, 0)
    assert following.partitions.asking(Stage.ASKING_EPOCH, 0) == []
    following.partitions.take_leader_ends(asking, offsets((0, 1)), 0)
    assert following.partitions.next_look_ms(0) is None
    assert following.asked() == {0: 1}


class CountedThrottle(Throttle):
    """How often it was asked about a partition."""

    asked = 0

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        self.asked += 1
        return super().is_throttled(topic_partition)


def exhausted(following: Following) -> Following:
    """All partitions are throttled, far behind, and the quota is used up."""
    following.throttle.rate = 5
    following.throttle.set_replicas("orders", ["*"])
    following.throttle.record(1_000, 0)
    return following


def test_a_request_looks_only_at_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.replication.test_followed_partitions.Throttle", CountedThrottle)
    following = Following(20)
    throttle = following.throttle
    assert isinstance(throttle, CountedThrottle)
    throttle.rate = 5
    throttle.set_replicas("orders", [f"{index}:2" for index in range(19)])
    following.ask()
    following.answer(*(data(index, high_watermark=9) for index in range(20)))
    assert following.asked() == {}
    following.answer()
    assert throttle.asked == 0, "the quota is not used up"
    throttle.record(1_000, 0)
    assert forgotten(following) == list(range(19))
    assert throttle.asked == 20 + 19, "all of them whether they are named, and those whether they are to be left out"
    following.answer()
    assert forgotten(following) == []
    following.answer()
    assert following.partitions.next_look_ms(0) == BACKOFF_MS
    assert throttle.asked == 20 + 19
    throttle.rate = 1_000_000
    assert len(following.asked()) == 19
    assert following.partitions.next_look_ms(0) is None, "nothing is left out any more"


# -- which parts of an answer count


def test_each_part_of_an_answer_counts_whatever_stands_before_it() -> None:
    for release in ("3.9-IV0", BY_NAME):
        following = Following(3, release=release)
        following.ask()
        following.follow(0, EPOCH + 1)
        answer = FetchResponse(
            session_id=55,
            responses=[
                FetchableTopicResponse(topic="nobody's", topic_id=uuid.UUID(int=99), partitions=[data(0)]),
                FetchableTopicResponse(
                    topic="orders",
                    topic_id=TOPIC_ID,
                    partitions=[data(17), data(0), data(1, memoryview(records()))],  # type: ignore[arg-type]
                ),
            ],
        )
        assert following.partitions.take(answer, 0)
        assert following.node.end(SECOND) == 1


def test_what_was_not_asked_for_takes_nothing() -> None:
    following = Following()
    following.ask()
    following.follow(1, EPOCH)
    following.answer(data(1, records()))
    assert following.node.end(SECOND) == 0
    assert following.asked() == {0: 0, 1: 0}


def test_an_answer_to_another_offset_of_the_same_epoch_is_ignored() -> None:
    following = Following()
    following.fill(1, 1, 1)
    following.ask()
    following.node.logs.truncate_to(ORDERS, 1, NOW_MS)
    following.partitions.unfollow(ORDERS)
    following.follow(0, EPOCH)
    following.answer(data(0, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert state_of(following).stage is Stage.FETCHING
    assert following.asked() == {0: 1}


def test_an_answer_for_a_partition_that_heard_of_another_epoch_says_nothing_whatever_it_is() -> None:
    following = Following()
    following.ask()
    following.node.apply(ORDERS, LeaderAndIsr(LEADER, EPOCH + 1, (LEADER,), EPOCH + 1), is_fetched=False)
    following.answer(data(0, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert following.node.told(DecisionKind.FENCED) == []
    assert (state_of(following).stage, state_of(following).last_error) == (Stage.FETCHING, None)


def test_an_answer_while_the_leaders_offsets_are_asked_for_says_nothing() -> None:
    following = Following()
    following.ask()
    following.answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    following.answer(data(0, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert state_of(following).stage is Stage.ASKING_OFFSETS


def test_epoch_0_may_be_where_logs_part_and_no_epoch_is_none() -> None:
    following = Following()
    following.fill(0, 0)
    following.ask()
    none = data(0, diverging=(-1, -1))
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[none])
    following.partitions.take(FetchResponse(session_id=55, responses=[topic]), 0)
    assert following.node.end() == 2
    following.ask()
    following.answer(data(0, diverging=(0, 1)))
    assert (following.node.end(), following.asked()) == (1, {0: 1})


def test_who_waits_at_a_follower_is_woken_when_its_high_watermark_rises_and_not_else() -> None:
    following = Following()
    following.ask()
    following.answer(data(0, records(), high_watermark=0))
    assert following.node.advanced == []
    for high_watermark, woken in [(1, 1), (1, 1), (0, 1)]:
        following.ask()
        following.answer(data(0, high_watermark=high_watermark))
        assert len(following.node.advanced) == woken
    assert following.asked() == {}, "nothing of it is news for the leader"


def test_an_answer_without_records_says_how_far_the_leader_is_and_that_it_answers() -> None:
    following = Following()
    following.ask()
    following.answer(data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    following.now_ms = 10
    following.ask()
    following.answer(data(0, high_watermark=9))
    assert (state_of(following).lag, state_of(following).last_error) == (9, None)


def test_only_what_is_throttled_and_was_moved_counts() -> None:
    for names, rate, counts in ((["0:2"], 5, True), (["1:2"], 5, False), (["0:2"], 1 << 62, True), ([], 5, False)):
        following = Following(2)
        following.throttle.rate = rate
        following.throttle.set_replicas("orders", names)
        following.ask()
        following.answer(data(0, records(), high_watermark=1), data(1))
        following.throttle.rate = 0
        assert following.throttle.is_exceeded(0) is counts, (names, rate)


# -- an empty log


def test_a_batch_at_an_empty_logs_start_is_taken_as_it_is_and_one_that_is_damaged_moves_nothing() -> None:
    for start, base, is_damaged, ends_at in ((2, 1, False, 4), (2, 1, True, 2), (1, 1, False, 4), (3, 1, False, 4)):
        following = Following()
        following.node.logs.truncate_fully_and_start_at(ORDERS, start, NOW_MS)
        following.partitions.unfollow(ORDERS)
        following.follow(0, EPOCH)
        following.ask()
        whole = batch(b"a", b"b", b"c", leader_epoch=EPOCH, base_offset=base)
        if is_damaged:
            whole[-1] ^= 1
        following.answer(data(0, whole, high_watermark=4, log_start=start))
        log = following.node.partition().log
        assert (log.log_start_offset, log.log_end_offset) == (start, ends_at), (start, base, is_damaged)


def test_an_empty_log_that_lies_between_the_batches_of_an_answer_is_not_moved() -> None:
    following = Following()
    following.node.logs.truncate_fully_and_start_at(ORDERS, 5, NOW_MS)
    following.partitions.unfollow(ORDERS)
    following.follow(0, EPOCH)
    following.ask()
    following.answer(data(0, batch(b"a", b"b", leader_epoch=EPOCH, base_offset=3)))
    log = following.node.partition().log
    assert (log.log_start_offset, log.log_end_offset) == (5, 5), "it ends at 4"


def test_a_log_that_is_not_empty_never_begins_anew() -> None:
    following = Following()
    following.fill(1, 1, 1)
    following.ask()
    following.answer(data(0, batch(b"a", b"b", leader_epoch=EPOCH, base_offset=2), log_start=0))
    assert (following.node.partition().log.log_start_offset, following.node.end()) == (0, 3)


# -- answers about epochs and offsets


def ends(*told: tuple[int, int, int], error: ErrorCode = ErrorCode.NONE) -> OffsetForLeaderEpochResponse:
    """(partition, epoch, end)"""
    partitions = [
        EpochEndOffset(partition=index, error_code=error, leader_epoch=epoch, end_offset=end)
        for index, epoch, end in told
    ]
    return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="orders", partitions=partitions)])


def asking_epochs() -> tuple[Following, list[FetchState]]:
    """Partitions 0 and 1 have a record of epoch 1 each, and are followed as before 2.7."""
    following = Following(2, release=BEFORE_2_7)
    for index in range(2):
        partition = following.node.partition(TopicPartition("orders", index))
        partition.log.append_as_follower(records(leader_epoch=1), NOW_MS)
        following.partitions.unfollow(partition.topic_partition)
        following.partitions.follow(partition, EPOCH, 0)
    states = following.partitions.asking(Stage.ASKING_EPOCH, 0)
    assert [state.topic_partition for state in states] == [ORDERS, SECOND]
    assert following.partitions.asking(Stage.ASKING_OFFSETS, 0) == []
    assert following.ask() is None, "nothing is fetched before"
    return following, states


def test_the_end_of_an_epoch_cuts_or_delays_its_own_partition() -> None:
    following, states = asking_epochs()
    following.partitions.take_epoch_ends(states, ends((0, 1, 0)), 0)
    assert (following.node.end(), following.node.end(SECOND)) == (0, 1)
    assert state_of(following, 1).last_error == "UNKNOWN_TOPIC_OR_PARTITION", "the answer leaves it out"
    assert following.asked() == {0: 0}
    assert following.partitions.asking(Stage.ASKING_EPOCH, 9) == []
    assert following.partitions.asking(Stage.ASKING_EPOCH, 10) == [states[1]]


def test_an_answer_about_epochs_that_comes_too_late_cuts_nothing() -> None:
    following, states = asking_epochs()
    following.follow(0, EPOCH + 1)
    following.node.apply(SECOND, LeaderAndIsr(LEADER, EPOCH + 1, (LEADER,), EPOCH + 1), is_fetched=False)
    following.partitions.take_epoch_ends(states, ends((0, 1, 0), (1, 1, 0)), 0)
    assert (following.node.end(), following.node.end(SECOND)) == (1, 1)
    following, states = asking_epochs()
    following.partitions.take_epoch_ends(states, ends((0, 1, 1), (1, 1, 1)), 0)
    following.partitions.take_epoch_ends(states, ends((0, 1, 0), (1, 1, 0)), 0)
    assert (following.node.end(), following.node.end(SECOND)) == (1, 1), "it was answered already"


def asking_offsets() -> tuple[Following, list[FetchState]]:
    """Partitions 0 and 1 have a record each, and are out of the leader's range."""
    following = Following(2)
    for index in range(2):
        following.node.partition(TopicPartition("orders", index)).log.append_as_follower(records(), NOW_MS)
        following.partitions.unfollow(TopicPartition("orders", index))
        following.follow(index, EPOCH)
    following.ask()
    following.answer(*(data(index, error=ErrorCode.OFFSET_OUT_OF_RANGE) for index in range(2)))
    return following, following.partitions.asking(Stage.ASKING_OFFSETS, 0)


def test_each_log_whose_leader_ends_no_earlier_is_asked_about_further() -> None:
    following, states = asking_offsets()
    assert following.partitions.take_leader_ends(states, offsets((0, 0), (1, 9)), 0) == [states[1]]
    assert (following.node.end(), following.node.end(SECOND)) == (0, 1)
    following.partitions.take_leader_starts([states[1]], offsets((1, 5)), 0)
    assert following.asked() == {0: 0, 1: 5}


def test_an_answer_about_offsets_that_comes_too_late_changes_nothing_and_those_behind_it_count() -> None:
    following, states = asking_offsets()
    following.follow(0, EPOCH + 1)
    assert following.partitions.take_leader_ends(states, offsets((0, 0), (1, 9)), 0) == [states[1]]
    assert following.node.end() == 1
    following.partitions.take_leader_starts(states, offsets((0, 7), (1, 5)), 0)
    assert (following.node.end(), following.node.end(SECOND)) == (1, 5)


def test_a_leader_that_does_not_tell_where_its_log_begins_is_asked_again() -> None:
    following, states = asking_offsets()
    longer = following.partitions.take_leader_ends(states, offsets((0, 9), (1, 9)), 0)
    following.partitions.take_leader_starts(longer, offsets((1, 0)), 0)
    assert state_of(following).last_error == "UNKNOWN_TOPIC_OR_PARTITION"
    assert state_of(following).stage is Stage.ASKING_OFFSETS
    assert state_of(following, 1).stage is Stage.FETCHING
    assert forgotten(following) == [0]


def test_of_very_many_partitions_a_thousand_are_asked_about_at_once() -> None:
    following = Following()
    partition = following.node.partition()
    for index in range(1_001):
        state = FetchState(partition, EPOCH, truncates_on_fetch=True)
        state._stage = Stage.ASKING_OFFSETS
        following.partitions._states[TopicPartition("many", index)] = state
        following.partitions._asking[TopicPartition("many", index)] = None
    assert len(following.partitions.asking(Stage.ASKING_OFFSETS, 0)) == 1_000


# -- what is said of it


def test_an_error_is_told_once_and_quietly_where_it_passes_by_itself(lines: list[Line]) -> None:
    following = Following()
    for code, level, pause_ms in (
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, "debug", 10),
        (ErrorCode.KAFKA_STORAGE_ERROR, "info", BACKOFF_MS),
        (ErrorCode.UNKNOWN_TOPIC_ID, "debug", BACKOFF_MS),
        (ErrorCode.OFFSET_OUT_OF_RANGE, "info", 0),
    ):
        lines.clear()
        for _ in range(2):
            following.partitions.on_lost()
            following.now_ms += 10 * BACKOFF_MS
            following.ask()
            following.answer(data(0, error=code))
        assert lines == [
            (
                level,
                "fetch refused",
                {
                    "partition": "orders-0",
                    "leader": LEADER,
                    "leader_epoch": EPOCH,
                    "fetch_offset": 0,
                    "error": code.name,
                    "again_in_ms": pause_ms,
                },
            )
        ]


def test_a_refusal_of_the_whole_request_is_told(lines: list[Line]) -> None:
    following = Following()
    following.ask()
    lines.clear()
    following.answer(error=ErrorCode.UNKNOWN_SERVER_ERROR, session_id=0)
    assert lines == [("debug", "fetch refused", {"leader": LEADER, "error": -1})]


def test_records_that_cannot_be_used_are_told_with_what_to_do(lines: list[Line]) -> None:
    following = Following()
    following.ask()
    lines.clear()
    following.answer(data(0, batch(b"a", leader_epoch=EPOCH + 1)))
    (line,) = lines
    assert line[:2] == ("error", "records from the leader not appended")
    assert line[2]["why"].endswith(f"bytes begin with no whole batch of leader epoch {EPOCH} or before")
    assert line[2] | {"why": ""} == {
        "partition": "orders-0",
        "leader": LEADER,
        "fetch_offset": 0,
        "why": "",
        "next_step": "they are fetched again; if this goes on, check the leader's disk",
    }


def test_what_a_fenced_follower_records() -> None:
    following = Following()
    following.ask()
    following.answer(data(0, error=ErrorCode.FENCED_LEADER_EPOCH))
    (decision,) = following.node.told(DecisionKind.FENCED)
    assert decision.why == (
        "broker 1 knows a later leader epoch than 3: this broker fetches nothing until the controller announces it here"
    )
    assert (decision.at_ms, decision.broker_id, decision.partition) == (NOW_MS, BrokerId(2), ORDERS)
    assert (decision.before, decision.after) == ({}, {})
    assert decision.evidence == {"fetch_offset": 0, "leader": LEADER}


def test_a_loss_is_told_and_a_truncation_that_loses_nothing_is_only_recorded(lines: list[Line]) -> None:
    for high_watermark, is_loss in ((3, True), (2, True), (1, False), (0, False)):
        lines.clear()
        following = Following()
        following.fill(1, 1, 2, high_watermark=high_watermark)
        following.ask()
        following.answer(data(0, diverging=(1, 1)))
        (decision,) = following.node.told(DecisionKind.LOG_TRUNCATED)
        assert decision.evidence["below_high_watermark"] is is_loss
        assert decision.evidence["leader"] == LEADER
        assert following.counts.truncations_below_high_watermark == int(is_loss)
        told = [line for line in lines if line[1] == "committed records truncated"]
        assert [line[0] for line in told] == (["warning"] if is_loss else [])
        if is_loss:
            assert told[0][2] == {
                "partition": "orders-0",
                "leader": LEADER,
                "leader_epoch": EPOCH,
                "high_watermark": high_watermark,
                "log_end_offset": 3,
                "truncated_to": 1,
                "why": decision.why,
            }


def test_a_disk_that_fails_at_a_truncation_ends_its_partition() -> None:
    following = Following(2)
    following.fill(1, 1, 1)
    following.ask()
    following.node.disk.volume("/logs").failing_writes = 1.0
    following.answer(data(0, diverging=(1, 1)))
    following.node.disk.repair()
    assert len(following.node.storage_errors) == 1
    assert state_of(following).stage is Stage.FAILED
    assert state_of(following).last_error == str(following.node.storage_errors[0])
    assert following.counts.truncations == 0
    assert following.node.told(DecisionKind.LOG_TRUNCATED) == []
    assert following.asked() == {1: 0}


def test_the_leader_forgets_a_partition_whose_disk_failed() -> None:
    following = Following(2)
    following.ask()
    following.node.disk.volume("/logs").failing_writes = 1.0
    following.answer(data(0, records()), data(1))
    following.node.disk.repair()
    assert forgotten(following) == [0]
