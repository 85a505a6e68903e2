"""How large a share session becomes: a client names what it likes, and each of its fetches looks at all of it."""

from __future__ import annotations

import uuid

import pytest

from kavka.broker.share.sessions import MOST_PARTITIONS, PartitionId, ShareSessions
from kavka.errors import ErrorCode, RequestError

TOPIC = uuid.UUID(int=1)


def partitions(first: int, count: int) -> list[PartitionId]:
    return [PartitionId(TOPIC, index) for index in range(first, first + count)]


def sessions() -> ShareSessions:
    return ShareSessions(lambda: 10, lambda: 0.0, lambda _group_id, _member_id: None, lambda _group_id: None)


def test_a_session_is_not_begun_with_more_partitions_than_one_may_have() -> None:
    known = sessions()
    former = known.begin("workers", "one", partitions(0, MOST_PARTITIONS))
    with pytest.raises(RequestError) as refused:
        known.begin("workers", "one", partitions(0, MOST_PARTITIONS + 1))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert known.known("workers", "one", 1) is former


def test_a_session_does_not_grow_beyond_that_request_by_request() -> None:
    """It had a million partitions after ten, and a fetch of fifty bytes held the broker up for most of a minute."""
    session = sessions().begin("workers", "one", partitions(0, MOST_PARTITIONS))
    with pytest.raises(RequestError) as refused:
        session.change(partitions(MOST_PARTITIONS, 1), ())
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert list(session.partitions) == partitions(0, MOST_PARTITIONS)
    session.change(partitions(MOST_PARTITIONS, 1), partitions(0, 1))
    assert list(session.partitions) == partitions(1, MOST_PARTITIONS)


def test_a_partition_that_comes_later_is_named_once_and_again_when_it_is_refused_no_longer() -> None:
    session = sessions().begin("workers", "one", partitions(0, 1))
    first, second, third = partitions(0, 3)
    assert session.take_unsaid([first], ()) == []
    session.change([first, second, third], ())
    assert session.take_unsaid([first, second], ()) == [second]
    assert session.take_unsaid([first, second], [first]) == []
    assert session.take_unsaid([first, second, third], ()) == [first, third]
    session.change([], [third])
    session.change([third], ())
    session.change([], [third])
    assert session.take_unsaid([first, second], [third]) == []
    assert session.unsaid == set()
