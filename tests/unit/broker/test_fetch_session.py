"""Incremental fetch sessions: the table of KIP-227, and which partitions an answer leaves out."""

from __future__ import annotations

import random
import uuid

import pytest

from kavka.broker.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MIN_EVICTION_MS,
    NO_SESSION,
    FetchContext,
    FetchSessionCache,
)
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.replication.partition import EpochEndOffset
from kavka.replication.replica_manager import FetchOutcome, FetchSpec

NO_ID = uuid.UUID(int=0)


def spec(partition: int, offset: int = 0) -> FetchSpec:
    return FetchSpec(TopicPartition("orders", partition), NO_ID, offset, 1 << 20)


def found(wanted: FetchSpec, *, size: int = 0, high_watermark: int = 10) -> FetchOutcome:
    return FetchOutcome(wanted, ErrorCode.NONE, high_watermark, high_watermark, 0, (), size)


def partitions(outcomes: object) -> list[int]:
    assert isinstance(outcomes, list | tuple)
    return [outcome.spec.topic_partition.partition for outcome in outcomes]


def opened(cache: FetchSessionCache, *indexes: int, now_ms: int = 0) -> FetchContext:
    context = cache.context(NO_SESSION, INITIAL_EPOCH, [spec(index) for index in indexes], [], now_ms)
    context.worth_sending([found(wanted) for wanted in context.specs])
    return context


def cache(slots: int = 10) -> FetchSessionCache:
    return FetchSessionCache(slots, random.Random(7))


def test_a_full_fetch_opens_a_session_and_an_incremental_one_goes_on_with_it() -> None:
    sessions = cache()
    first = opened(sessions, 0, 1)
    assert first.session_id != NO_SESSION
    second = sessions.context(first.session_id, 1, [], [], 1)
    assert [wanted.topic_partition.partition for wanted in second.specs] == [0, 1]
    assert not second.everything


def test_an_incremental_answer_leaves_out_what_is_as_it_was() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 1, 2).session_id
    context = sessions.context(session_id, 1, [], [], 1)
    outcomes = [found(spec(0)), found(spec(1), size=100), found(spec(2), high_watermark=11)]
    assert partitions(context.worth_sending(outcomes)) == [1, 2]
    again = sessions.context(session_id, 2, [], [], 2)
    assert partitions(again.worth_sending([found(spec(0)), found(spec(1)), found(spec(2), high_watermark=11)])) == []


def test_an_error_is_told_every_time() -> None:
    sessions = cache()
    session_id = opened(sessions, 0).session_id
    for epoch in (1, 2):
        context = sessions.context(session_id, epoch, [], [], epoch)
        failed = FetchOutcome(spec(0), ErrorCode.OFFSET_OUT_OF_RANGE)
        assert partitions(context.worth_sending([failed])) == [0]


def test_what_came_with_a_truncation_is_told_again() -> None:
    # A follower that has to truncate takes nothing else of the answer over, its high watermark neither (KAFKA-14704).
    sessions = cache()
    session_id = opened(sessions, 0, 1).session_id
    context = sessions.context(session_id, 1, [], [], 1)
    diverging = found(spec(0), high_watermark=11)._replace(diverging_epoch=EpochEndOffset(3, 7))
    assert partitions(context.worth_sending([diverging, found(spec(1))])) == [0]
    context = sessions.context(session_id, 2, [spec(0, 7)], [], 2)
    assert partitions(context.worth_sending([found(spec(0), high_watermark=11), found(spec(1))])) == [0]


def test_who_had_records_goes_to_the_end_of_the_line() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 1, 2).session_id
    context = sessions.context(session_id, 1, [], [], 1)
    context.worth_sending([found(spec(0), size=100), found(spec(1)), found(spec(2))])
    order = sessions.context(session_id, 2, [], [], 2).specs
    assert [wanted.topic_partition.partition for wanted in order] == [1, 2, 0]


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 1).session_id
    context = sessions.context(session_id, 1, [spec(1, offset=5), spec(2)], [("orders", 0)], 1)
    assert [(wanted.topic_partition.partition, wanted.fetch_offset) for wanted in context.specs] == [(1, 5), (2, 0)]


def test_a_topic_id_that_is_unknown_stays_in_the_session() -> None:
    sessions = cache()
    topic_id = uuid.UUID(int=9)
    unknown = spec(0)._replace(topic_partition=TopicPartition("", 0), topic_id=topic_id)
    first = sessions.context(NO_SESSION, INITIAL_EPOCH, [unknown], [], 0)
    first.worth_sending([FetchOutcome(unknown, ErrorCode.UNKNOWN_TOPIC_ID)])
    again = sessions.context(first.session_id, 1, [], [], 1)
    assert list(again.specs) == [unknown]
    assert not sessions.context(first.session_id, 2, [], [(topic_id, 0)], 2).specs


@pytest.mark.parametrize("epoch", [2, 3, 2**31 - 1])
def test_another_epoch_than_the_next_is_refused(epoch: int) -> None:
    sessions = cache()
    session_id = opened(sessions, 0).session_id
    with pytest.raises(RequestError) as refused:
        sessions.context(session_id, epoch, [], [], 1)
    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(RequestError) as refused:
        cache().context(12345, 1, [], [], 1)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_request_that_names_topics_the_other_way_is_refused_and_the_session_goes_on() -> None:
    sessions = cache()
    session_id = opened(sessions, 0).session_id
    with pytest.raises(RequestError) as refused:
        sessions.context(session_id, 1, [], [], 1, by_topic_id=True)
    assert refused.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert sessions.context(session_id, 1, [], [], 1).session_id == session_id


def test_what_is_fetched_and_forgotten_at_once_is_forgotten() -> None:
    sessions = cache()
    session_id = opened(sessions, 0, 1).session_id
    context = sessions.context(session_id, 1, [spec(1, offset=5)], [("orders", 1)], 1)
    assert [wanted.topic_partition.partition for wanted in context.specs] == [0]


def test_a_final_fetch_closes_the_session() -> None:
    sessions = cache()
    session_id = opened(sessions, 0).session_id
    assert sessions.context(session_id, FINAL_EPOCH, [spec(0)], [], 1).session is None
    assert len(sessions) == 0


def test_a_full_cache_gives_place_only_for_sessions_that_are_idle() -> None:
    sessions = cache(slots=2)
    idle = opened(sessions, 0).session_id
    busy = opened(sessions, 0, now_ms=1).session_id
    assert opened(sessions, 0, now_ms=MIN_EVICTION_MS - 1).session is None
    sessions.context(busy, 1, [], [], MIN_EVICTION_MS)
    newest = opened(sessions, 0, now_ms=MIN_EVICTION_MS)
    assert newest.session is not None
    assert sessions.evictions == 1
    with pytest.raises(RequestError):
        sessions.context(idle, 1, [], [], MIN_EVICTION_MS)
