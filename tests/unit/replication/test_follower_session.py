"""What a follower's next Fetch request says: everything once, then only what changed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.broker.reads.fetch_session import FetchContext, FetchSessionCache
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.replication.decide.fetching import FetchSpec
from kavka.replication.decide.follower_session import FULL, FollowerSession, SessionRequest, Wanted

ID = uuid.UUID(int=7)
NO_ID = uuid.UUID(int=0)


def tp(index: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, index)


def wanted(offset: int, *, topic_id: uuid.UUID = ID, leader_epoch: int = 1) -> Wanted:
    return Wanted(topic_id, offset, leader_epoch, leader_epoch, 0, 1_000)


def named(request: SessionRequest) -> dict[TopicPartition, int]:
    return {
        tp(partition.partition, topic.topic): partition.fetch_offset
        for topic in request.topics
        for partition in topic.partitions
    }


def forgotten(request: SessionRequest) -> list[tuple[uuid.UUID, int]]:
    return [(topic.topic_id, index) for topic in request.forgotten for index in topic.partitions]


def established(*indices: int) -> FollowerSession:
    session = FollowerSession()
    session.full({tp(index): wanted(index) for index in indices})
    session.on_answer(99)
    return session


def test_the_first_request_names_all_and_the_next_ones_only_what_changed() -> None:
    session = FollowerSession()
    request = session.full({tp(index): wanted(index) for index in range(3)})
    assert (request.session_id, request.session_epoch) == (0, FULL)
    assert named(request) == {tp(0): 0, tp(1): 1, tp(2): 2}
    session.on_answer(99)
    request = session.incremental({tp(1): wanted(20)})
    assert (request.session_id, request.session_epoch) == (99, 1)
    assert named(request) == {tp(1): 20}
    session.on_answer(99)
    request = session.incremental({})
    assert (request.session_epoch, request.topics, request.forgotten) == (2, [], [])


def test_what_did_not_change_after_all_is_not_named() -> None:
    session = established(0, 1)
    assert named(session.incremental({tp(0): wanted(0), tp(1): wanted(5)})) == {tp(1): 5}


def test_a_partition_that_is_not_to_be_fetched_is_forgotten_once() -> None:
    session = established(0, 1)
    request = session.incremental({tp(0): None})
    assert (named(request), forgotten(request)) == ({}, [(ID, 0)])
    session.on_answer(99)
    assert forgotten(session.incremental({tp(0): None})) == []


def test_a_topic_made_anew_under_its_name_is_forgotten_by_its_old_id_and_named_by_the_new() -> None:
    session = established(0)
    request = session.incremental({tp(0): wanted(0, topic_id=uuid.UUID(int=8))})
    assert forgotten(request) == [(ID, 0)]
    assert [topic.topic_id.int for topic in request.topics] == [8]


def test_a_leader_without_room_for_a_session_is_told_everything_every_time() -> None:
    session = FollowerSession()
    session.full({tp(0): wanted(0)})
    session.on_answer(0)
    assert session.is_full_next
    assert not session.suits({tp(0): wanted(1)})


def test_a_session_that_the_leader_does_not_know_is_left() -> None:
    session = established(0)
    session.on_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    request = session.full({tp(0): wanted(0)})
    assert (request.session_id, request.session_epoch) == (0, FULL)


def test_a_session_out_of_step_is_closed_by_the_request_that_begins_another() -> None:
    session = established(0)
    session.on_error(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert session.is_full_next
    assert not session.suits({})
    request = session.full({tp(0): wanted(0)})
    assert (request.session_id, request.session_epoch) == (99, FULL)


def test_after_an_answer_that_was_lost_everything_is_named_again() -> None:
    session = established(0, 1)
    session.incremental({tp(0): wanted(5)})
    session.on_lost()
    assert session.is_full_next
    assert named(session.full({tp(0): wanted(5), tp(1): wanted(1)})) == {tp(0): 5, tp(1): 1}


def test_a_session_that_the_leader_closed_because_it_was_empty_begins_anew() -> None:
    session = established(0)
    session.incremental({tp(0): None})
    session.on_answer(0)
    assert session.full({}).session_id == 0


def test_topics_go_by_id_only_while_all_of_them_have_one() -> None:
    session = established(0)
    assert session.by_topic_id
    without = {tp(0, "old"): wanted(0, topic_id=NO_ID)}
    assert not session.suits(without)
    request = session.full({tp(0): wanted(0), **without})
    assert (request.session_id, request.by_topic_id) == (99, False)
    session.on_answer(100)
    assert session.suits({tp(0): wanted(9)})
    assert not session.suits({tp(0, "old"): None}), "the rest have ids again"


def test_the_epoch_goes_round_to_one() -> None:
    session = established(0)
    session._epoch = 2**31 - 1
    session.on_answer(99)
    assert session.incremental({}).session_epoch == 1


def test_the_numbers_of_a_session_are_those_of_apache_kafka() -> None:
    # FetchMetadata.INVALID_SESSION_ID and INITIAL_EPOCH; the first incremental epoch is 1.
    session = FollowerSession()
    request = session.full({})
    assert (request.session_id, request.session_epoch) == (0, 0)
    session.on_answer(99)
    request = session.incremental({})
    assert (request.session_id, request.session_epoch) == (99, 1)
    session.on_answer(0)
    request = session.full({})
    assert (request.session_id, request.session_epoch) == (0, 0)


def test_a_full_request_begins_a_session_also_where_an_incremental_one_could_have_gone() -> None:
    session = established(0)
    session.incremental({})
    session.on_answer(99)
    session.full({tp(0): wanted(0)})
    assert session.is_full_next
    session.on_answer(100)
    request = session.incremental({})
    assert (request.session_id, request.session_epoch) == (100, 1)


def test_how_many_have_no_id_is_known_whatever_came_and_went() -> None:
    session = FollowerSession()
    first, second = tp(0, "old"), tp(1, "old")
    session.full({tp(0): wanted(0), first: wanted(0, topic_id=NO_ID), second: wanted(0, topic_id=NO_ID)})
    assert not session.by_topic_id
    session.on_answer(99)
    assert session.suits({first: None})
    assert not session.suits({first: None, second: None})
    session.incremental({first: None})
    session.on_answer(99)
    assert not session.suits({second: None})
    session.incremental({second: wanted(5, topic_id=NO_ID)})
    session.on_answer(99)
    assert session.suits({tp(0): wanted(1)})
    assert not session.suits({second: wanted(5)}), "it has an id now, as all others"
    session.incremental({first: wanted(0, topic_id=NO_ID)})
    assert session.suits({second: None})


def test_where_fetches_cannot_carry_ids_topics_go_by_name_whatever_they_have() -> None:
    session = FollowerSession(may_use_topic_ids=False)
    request = session.full({tp(0): wanted(0)})
    assert not request.by_topic_id
    assert not session.suits({tp(0): wanted(1)}), "there is no session yet"
    session.on_answer(99)
    assert session.suits({tp(0): wanted(1)})
    assert session.suits({tp(1, "old"): wanted(1, topic_id=NO_ID)})
    request = session.incremental({tp(1, "old"): wanted(1, topic_id=NO_ID)})
    assert (request.session_epoch, request.by_topic_id) == (1, False)
    session.on_answer(99)
    assert session.suits({tp(1, "old"): None})


def test_partitions_stand_topic_by_topic_with_all_that_is_wanted_of_them() -> None:
    session = FollowerSession()
    other = uuid.UUID(int=8)
    request = session.full(
        {
            tp(0): Wanted(ID, 10, 3, 2, 4, 1_000),
            tp(0, "other"): Wanted(other, 20, 5, -1, 0, 2_000),
            tp(1): Wanted(ID, 30, 6, 6, 7, 3_000),
        }
    )
    assert [
        (
            topic.topic,
            topic.topic_id,
            [
                (
                    p.partition,
                    p.fetch_offset,
                    p.current_leader_epoch,
                    p.last_fetched_epoch,
                    p.log_start_offset,
                    p.partition_max_bytes,
                )
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ] == [
        ("orders", ID, [(0, 10, 3, 2, 4, 1_000), (1, 30, 6, 6, 7, 3_000)]),
        ("other", other, [(0, 20, 5, -1, 0, 2_000)]),
    ]
    session.on_answer(99)
    request = session.incremental({tp(0): None, tp(0, "other"): None, tp(1): None})
    assert [(topic.topic, topic.topic_id, topic.partitions) for topic in request.forgotten] == [
        ("orders", ID, [0, 1]),
        ("other", other, [0]),
    ]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.dictionaries(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 3))), st.integers(0, 5)))
)
def test_the_leaders_session_holds_what_the_follower_wants_whatever_is_lost_on_the_way(
    steps: list[tuple[dict[int, int | None], int]],
) -> None:
    """Against the leader's side itself. The second number of a step: 0 the request is lost, 1 the answer, 2 the leader
    restarts first; else all goes well."""
    session, leader, now_ms = FollowerSession(), FetchSessionCache(10, random.Random(1)), 0
    wants: dict[TopicPartition, Wanted] = {}
    for changes, fate in steps:
        delta: dict[TopicPartition, Wanted | None] = {}
        for index, offset in changes.items():
            delta[tp(index)] = None if offset is None else wanted(offset)
            wants.pop(tp(index), None)
            if offset is not None:
                wants[tp(index)] = wanted(offset)
        if fate == 2:
            leader = FetchSessionCache(10, random.Random(now_ms + 2))
        now_ms += 1
        request = session.incremental(delta) if session.suits(delta) else session.full(wants)
        assert session.held == wants
        if fate == 0:
            session.on_lost()
            continue
        try:
            context = _told(leader, request, now_ms)
        except RequestError as refused:
            session.on_error(refused.code)
            continue
        assert {spec.topic_partition: spec.fetch_offset for spec in context.specs} == _offsets(wants)
        if fate == 1:
            session.on_lost()
        else:
            session.on_answer(context.session_id)


def _offsets(wants: Mapping[TopicPartition, Wanted]) -> dict[TopicPartition, int]:
    return {topic_partition: one.fetch_offset for topic_partition, one in wants.items()}


def _told(leader: FetchSessionCache, request: SessionRequest, now_ms: int) -> FetchContext:
    specs = [
        FetchSpec(tp(partition.partition, topic.topic), topic.topic_id, partition.fetch_offset, 1_000)
        for topic in request.topics
        for partition in topic.partitions
    ]
    dropped = [(topic_id.int, index) for topic_id, index in forgotten(request)]
    return leader.context(
        request.session_id, request.session_epoch, specs, dropped, now_ms, by_topic_id=request.by_topic_id
    )
