"""Incremental fetch sessions: the table of KIP-227, and which partitions an answer leaves out."""

from __future__ import annotations

import random
import uuid
from typing import NamedTuple, cast

import pytest

from kavka.broker.reads.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MIN_EVICTION_MS,
    NO_SESSION,
    NOT_RESOLVED,
    FetchContext,
    FetchSessionCache,
)
from kavka.errors import ErrorCode, RequestError
from kavka.model import BrokerId, TopicPartition
from kavka.replication.decide.fetching import FetchOutcome, FetchSpec
from kavka.replication.decide.idle_partitions import IdlePartitions
from kavka.replication.decide.partition import Partition
from kavka.replication.decide.partition_results import EpochEndOffset
from kavka.replication.decide.replica import RemoteReplica

NO_ID = uuid.UUID(int=0)


def spec(partition: int, offset: int = 0) -> FetchSpec:
    return FetchSpec(TopicPartition("orders", partition), NO_ID, offset, 1 << 20)


def found(wanted: FetchSpec, *, size: int = 0, high_watermark: int = 10) -> FetchOutcome:
    return FetchOutcome(wanted, ErrorCode.NONE, high_watermark, high_watermark, 0, (), size)


def partitions(outcomes: object) -> list[int]:
    assert isinstance(outcomes, list | tuple)
    return [outcome.spec.topic_partition.partition for outcome in outcomes]


def opened(cache: FetchSessionCache, *indexes: int, now_ms: int = 0, is_follower: bool = False) -> FetchContext:
    context = cache.context(
        NO_SESSION, INITIAL_EPOCH, [spec(index) for index in indexes], [], now_ms, is_follower=is_follower
    )
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


@pytest.mark.parametrize("epoch", [INITIAL_EPOCH, FINAL_EPOCH])
def test_a_partition_that_is_named_twice_is_served_once_as_it_was_named_last(epoch: int) -> None:
    context = cache().context(NO_SESSION, epoch, [spec(0, 3), spec(1), spec(0, 7)], [], 0)
    assert list(context.specs) == [spec(0, 7), spec(1)]


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


def follower_of(*indexes: int) -> tuple[FetchSessionCache, FetchContext, IdlePartitions, list[RemoteReplica]]:
    """A follower's session all of whose partitions are idle."""
    sessions = cache()
    context = sessions.context(
        NO_SESSION, INITIAL_EPOCH, [spec(index) for index in indexes], [], 0, is_follower=True, asked_as=(2, 7)
    )
    assert context.idle is not None
    replicas = [RemoteReplica(BrokerId(2)) for _ in indexes]
    for index, replica in zip(indexes, replicas, strict=True):
        context.idle.rest(("orders", index), spec(index), cast(Partition, None), replica)
    return sessions, context, context.idle, replicas


def looked_at(sessions: FetchSessionCache, first: FetchContext, epoch: int, *named: FetchSpec) -> FetchContext:
    return sessions.context(first.session_id, epoch, named, [], epoch, is_follower=True, asked_as=(2, 7))


def test_an_idle_partition_belongs_to_the_session_and_no_fetch_looks_at_it() -> None:
    sessions, first, idle, _ = follower_of(0, 1, 2)
    assert looked_at(sessions, first, 1).specs == []
    assert (sessions.partition_count, len(idle)) == (3, 3)
    assert looked_at(sessions, first, 2, spec(1, 5)).specs == [spec(1, 5)]
    assert (sessions.partition_count, len(idle)) == (3, 2)
    assert sessions.context(first.session_id, 3, [], [("orders", 0)], 3, asked_as=(2, 7)).specs == [spec(1, 5)]
    assert (sessions.partition_count, len(idle)) == (2, 1)


def test_partitions_that_wake_go_to_the_end_of_the_line() -> None:
    """Under a small max_bytes those that had records before them do not keep them waiting, nor they those in front."""
    sessions, first, _, replicas = follower_of(0, 1, 2)
    replicas[2].wake()
    assert looked_at(sessions, first, 1).specs == [spec(2)]
    replicas[0].wake()
    context = looked_at(sessions, first, 2)
    assert context.specs == [spec(2), spec(0)]
    context.worth_sending([found(spec(2), size=100), found(spec(0))])
    assert looked_at(sessions, first, 3).specs == [spec(0), spec(2)]


def test_another_registration_of_the_follower_says_nothing_of_what_was_idle() -> None:
    sessions, first, idle, _ = follower_of(0, 1)
    context = sessions.context(first.session_id, 1, [], [], 1, is_follower=True, asked_as=(2, 8))
    assert context.specs == [spec(0), spec(1)]
    assert not len(idle)


def test_a_session_that_ends_leaves_the_time_of_its_last_fetch_and_keeps_no_replica() -> None:
    sessions, first, idle, replicas = follower_of(0, 1)
    idle.fetched_ms = 4_711
    assert [replica.last_caught_up_ms for replica in replicas] == [4_711, 4_711]
    sessions.context(first.session_id, FINAL_EPOCH, [], [], 1, asked_as=(2, 7))
    assert [(replica.idle, replica.last_caught_up_ms, replica.last_fetch_ms) for replica in replicas] == [
        (None, 4_711, 4_711),
        (None, 4_711, 4_711),
    ]


def test_a_consumers_session_has_nothing_idle() -> None:
    assert opened(cache(), 0, 1).idle is None


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
    assert not sessions.context(first.session_id, 2, [], [(topic_id.int, 0)], 2).specs


def test_names_that_were_found_stay_in_the_session_until_it_names_another_partition() -> None:
    sessions = cache()
    topic_id = uuid.UUID(int=9)
    nameless = [
        spec(index)._replace(topic_partition=TopicPartition("", index), topic_id=topic_id) for index in range(3)
    ]
    session = sessions.context(NO_SESSION, INITIAL_EPOCH, nameless[:2], [], 0).session
    assert session is not None
    assert session.resolved_at == NOT_RESOLVED
    named = [each._replace(topic_partition=TopicPartition("orders", index)) for index, each in enumerate(nameless)]
    session.keep_resolved(named[:2], 7)
    assert list(sessions.context(session.session_id, 1, [], [], 1).specs) == named[:2]
    moved = nameless[1]._replace(fetch_offset=5)
    named[1] = named[1]._replace(fetch_offset=5)
    assert list(sessions.context(session.session_id, 2, [moved], [], 2).specs) == named[:2]
    assert session.resolved_at == 7
    assert list(sessions.context(session.session_id, 3, [nameless[2]], [], 3).specs) == [*named[:2], nameless[2]]
    assert session.resolved_at == NOT_RESOLVED
    assert [
        each.topic_partition.partition
        for each in sessions.context(session.session_id, 4, [], [(topic_id.int, 0)], 4).specs
    ] == [1, 2]


@pytest.mark.parametrize("epoch", [2, 3, 2**31 - 1])
def test_another_epoch_than_the_next_is_refused(epoch: int) -> None:
    sessions = cache()
    session_id = opened(sessions, 0).session_id
    with pytest.raises(RequestError) as refused:
        sessions.context(session_id, epoch, [], [], 1)
    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_epoch_that_was_answered_is_refused_and_the_session_goes_on() -> None:
    sessions = cache()
    session_id = opened(sessions, 0).session_id
    sessions.context(session_id, 1, [], [], 1)
    with pytest.raises(RequestError) as refused:
        sessions.context(session_id, 1, [], [], 2)
    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.context(session_id, 2, [], [], 3).session_id == session_id


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
    assert opened(sessions, 0, now_ms=MIN_EVICTION_MS).session is None
    sessions.context(busy, 1, [], [], MIN_EVICTION_MS + 1)
    newest = opened(sessions, 0, now_ms=MIN_EVICTION_MS + 1)
    assert newest.session is not None
    assert sessions.evictions == 1
    with pytest.raises(RequestError):
        sessions.context(idle, 1, [], [], MIN_EVICTION_MS + 1)


def grown(sessions: FetchSessionCache, session_id: int, *, now_ms: int, epoch: int = 1) -> None:
    """The session is used, and so is not idle."""
    sessions.context(session_id, epoch, [], [], now_ms)


def lives(sessions: FetchSessionCache, session_id: int, epoch: int, now_ms: int) -> bool:
    try:
        sessions.context(session_id, epoch, [], [], now_ms)
    except RequestError as gone:
        return gone.code is not ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    return True


def test_a_followers_session_takes_the_place_of_a_consumers_and_never_the_other_way() -> None:
    sessions = cache(slots=2)
    small, large = opened(sessions, 0).session_id, opened(sessions, 0, 1, 2).session_id
    follower = opened(sessions, 0, is_follower=True)
    assert follower.session is not None
    assert not lives(sessions, small, 1, 1)
    assert opened(sessions, 0, 1, is_follower=True).session is not None
    assert not lives(sessions, large, 1, 1)
    later = 2 * MIN_EVICTION_MS
    for number, now_ms in enumerate((MIN_EVICTION_MS, later), start=1):
        for session_id in list(sessions.session_ids()):
            grown(sessions, session_id, now_ms=now_ms, epoch=number)
    assert opened(sessions, *range(50), now_ms=later).session is None
    assert sessions.evictions == 2


@pytest.mark.parametrize("is_follower", [False, True])
def test_among_equals_an_older_session_with_fewer_partitions_makes_room(is_follower: bool) -> None:
    sessions = cache(slots=2)
    old = opened(sessions, 0, is_follower=is_follower).session_id
    later = MIN_EVICTION_MS + 1
    grown(sessions, old, now_ms=MIN_EVICTION_MS)
    assert opened(sessions, 0, 1, now_ms=MIN_EVICTION_MS, is_follower=True).session is not None
    # Nobody's session is old enough yet.
    assert opened(sessions, 0, 1, 2, now_ms=MIN_EVICTION_MS, is_follower=is_follower).session is None
    grown(sessions, old, now_ms=later, epoch=2)
    assert opened(sessions, 3, now_ms=later, is_follower=is_follower).session is None
    assert opened(sessions, 3, 4, now_ms=later, is_follower=is_follower).session is not None
    assert not lives(sessions, old, 3, later)


def test_a_session_that_grows_is_ranked_anew() -> None:
    sessions = cache(slots=2)
    one, other = opened(sessions, 0).session_id, opened(sessions, 0, 1).session_id
    sessions.context(one, 1, [spec(index) for index in range(1, 5)], [], 1)
    assert opened(sessions, 0, is_follower=True).session is not None
    assert lives(sessions, one, 2, 2)
    assert not lives(sessions, other, 1, 2)


class Known(NamedTuple):
    """What the rules ask of a session."""

    is_follower: bool
    size: int
    created_ms: int
    used_ms: int


def loser(known: dict[int, Known], size: int, now_ms: int, *, is_follower: bool) -> int | None:
    """The rules of Kafka's FetchSessionCache, looked up among all sessions."""
    longest_idle = min(known, key=lambda session_id: known[session_id].used_ms)
    if now_ms - known[longest_idle].used_ms > MIN_EVICTION_MS:
        return longest_idle
    candidates = [
        (session.is_follower, session.size, session_id)
        for session_id, session in known.items()
        if session.used_ms - session.created_ms > MIN_EVICTION_MS or (is_follower and not session.is_follower)
    ]
    if not candidates or min(candidates) > (is_follower, size, 0):
        return None
    return min(candidates)[2]


@pytest.mark.parametrize("seed", range(20))
def test_who_makes_room_is_who_makes_room_in_kafka(seed: int) -> None:
    draw = random.Random(seed)
    sessions, known, epochs = cache(slots=6), dict[int, Known](), dict[int, int]()
    now_ms = evictions = 0
    for _ in range(400):
        now_ms += draw.choice((1, 1_000, 30_000))
        if known and draw.random() < 0.6:
            session_id = draw.choice(list(known))
            size = max(1, known[session_id].size + draw.choice((-1, 0, 0, 1)))
            added = [spec(index) for index in range(known[session_id].size, size)]
            forgotten = [("orders", index) for index in range(size, known[session_id].size)]
            sessions.context(session_id, epochs[session_id], added, forgotten, now_ms)
            known[session_id] = known[session_id]._replace(size=size, used_ms=now_ms)
            epochs[session_id] += 1
            continue
        is_follower, size = draw.random() < 0.4, draw.randrange(1, 8)
        gone = loser(known, size, now_ms, is_follower=is_follower) if len(known) == 6 else None
        made = opened(sessions, *range(size), now_ms=now_ms, is_follower=is_follower).session
        assert (made is not None) == (len(known) < 6 or gone is not None)
        if gone is not None:
            assert not lives(sessions, gone, epochs[gone], now_ms)
            del known[gone]
            evictions += 1
        if made is not None:
            known[made.session_id] = Known(is_follower, size, now_ms, now_ms)
            epochs[made.session_id] = 1
        assert sessions.session_ids() == known.keys()
        assert sessions.partition_count == sum(session.size for session in known.values())
        assert sessions.evictions == evictions


def test_a_session_that_would_begin_with_a_withheld_answer_does_not() -> None:
    sessions = cache()
    first = opened(sessions, 0, 1)
    assert sessions.withhold(first) == NO_SESSION
    assert len(sessions) == 0


def test_a_session_outlives_a_withheld_answer_and_forgets_nothing() -> None:
    sessions = cache()
    first = opened(sessions, 0)
    first.worth_sending([found(spec(0), size=1)])
    going_on = sessions.context(first.session_id, 1, [], [], 0)
    assert sessions.withhold(going_on) == first.session_id
    next_one = sessions.context(first.session_id, 2, [], [], 0)
    assert partitions(next_one.worth_sending([found(spec(0), size=1, high_watermark=11)])) == [0]


@pytest.mark.parametrize("session_epoch", [1, 2])
def test_a_session_of_another_principal_is_not_known(session_epoch: int) -> None:
    """Whoever guesses its id would see the names of its topics in the refusals."""
    sessions = cache()
    first = sessions.context(NO_SESSION, INITIAL_EPOCH, [spec(0)], [], 0, principal="User:alice")
    with pytest.raises(RequestError) as refused:
        sessions.context(first.session_id, session_epoch, [], [], 1, principal="User:mallory")
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.context(first.session_id, 1, [], [], 1, principal="User:alice").session is first.session


@pytest.mark.parametrize("session_epoch", [INITIAL_EPOCH, FINAL_EPOCH])
def test_nobody_ends_a_session_of_another_principal(session_epoch: int) -> None:
    sessions = cache()
    first = sessions.context(NO_SESSION, INITIAL_EPOCH, [spec(0)], [], 0, principal="User:alice")
    sessions.context(first.session_id, session_epoch, [], [], 1, principal="User:mallory")
    assert sessions.context(first.session_id, 1, [], [], 1, principal="User:alice").session is first.session
    sessions.context(first.session_id, session_epoch, [], [], 1, principal="User:alice")
    assert first.session_id not in sessions.session_ids()
