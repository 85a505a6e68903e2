"""FollowerSession: what a follower's next Fetch request carries, so that it says only what the leader does not know.

Decides whether a request is a full or an incremental one, which partitions it names, and in which version. Must not
know logs, connections, or why a partition is fetched or not. The leader's side is broker/reads/fetch_session.py.

    I1  what the leader's session holds is `held`, as of the last request that it took
    I2  an incremental request costs as much as there are changes, however many partitions the session holds
    I3  after an answer that was lost, or that refuses the session, everything is named again: never a guess about what
        the leader may have taken
    I4  partitions are named by topic id where all of them have one, else all of them by name; a session that changes
        from one to the other begins anew

| the last request was        | its answer                              | the next request                      |
|-----------------------------|-----------------------------------------|---------------------------------------|
| (none)                      |                                         | full, session 0, epoch 0              |
| full                        | session id S                            | incremental, session S, epoch 1       |
| full                        | session id 0: the leader has no room    | full, session 0, epoch 0              |
| incremental, epoch e        | session id S                            | incremental, session S, epoch e+1     |
| incremental                 | session id 0: closed by the leader      | full, session 0, epoch 0              |
| incremental                 | FETCH_SESSION_ID_NOT_FOUND              | full, session 0, epoch 0              |
| any                         | another error, or none came             | full, session S, epoch 0: S is closed |

Source: KIP-227, KIP-516; Kafka's FetchSessionHandler, 3.9.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kavka.errors import ErrorCode
from kavka.model import LeaderEpoch, Offset, TopicPartition
from kavka.protocol.messages.fetch_request import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
FULL: Final = 0
"""The session epoch of a request that names everything and asks for a new session."""
_MAX_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """What is to be fetched of one partition."""

    topic_id: uuid.UUID
    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    max_bytes: int


class SessionRequest(NamedTuple):
    """The part of a Fetch request that depends on the session."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    by_topic_id: bool


class FollowerSession:
    """The session of one fetcher with its leader."""

    def __init__(self, *, may_use_topic_ids: bool = True) -> None:
        """`may_use_topic_ids`: the protocol's fetches can carry them."""
        self.held: dict[TopicPartition, Wanted] = {}
        """What the leader's session holds after the last request."""
        self._may_use_topic_ids = may_use_topic_ids
        self._session_id = NO_SESSION
        self._epoch = FULL
        self._by_topic_id = may_use_topic_ids
        self._without_id = 0
        """How many held partitions have no topic id."""

    @property
    def is_full_next(self) -> bool:
        return self._epoch == FULL

    @property
    def by_topic_id(self) -> bool:
        """How the last request named topics."""
        return self._by_topic_id

    def full(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        """A request that names all that is to be fetched."""
        self._epoch = FULL
        self.held = dict(wanted)
        self._without_id = sum(map(_lacks_id, wanted.values()))
        self._by_topic_id = self._may_use_topic_ids and not self._without_id
        return SessionRequest(self._session_id, FULL, _topics(wanted.items()), [], self._by_topic_id)

    def suits(self, changes: Mapping[TopicPartition, Wanted | None]) -> bool:
        """Whether an incremental request can carry `changes`: not if it would begin or cease to use topic ids (I4)."""
        if self._epoch == FULL:
            return False
        if not self._may_use_topic_ids:
            return True
        without_id = self._without_id
        for topic_partition, wanted in changes.items():
            without_id += _lacks_id(wanted) - _lacks_id(self.held.get(topic_partition))
        return self._by_topic_id == (not without_id)

    def incremental(self, changes: Mapping[TopicPartition, Wanted | None]) -> SessionRequest:
        """A request that names what changed: None is not to be fetched (now). Call it only if they suit."""
        held = self.held
        named: list[tuple[TopicPartition, Wanted]] = []
        forgotten: list[tuple[TopicPartition, uuid.UUID]] = []
        for topic_partition, wanted in changes.items():
            before = held.get(topic_partition)
            if wanted == before:
                continue
            if before is not None:
                if wanted is None or wanted.topic_id != before.topic_id:
                    forgotten.append((topic_partition, before.topic_id))
                    del held[topic_partition]
                self._without_id -= _lacks_id(before)
            if wanted is not None:
                named.append((topic_partition, wanted))
                held[topic_partition] = wanted
                self._without_id += _lacks_id(wanted)
        return SessionRequest(self._session_id, self._epoch, _topics(named), _forgotten(forgotten), self._by_topic_id)

    def on_answer(self, session_id: int) -> None:
        """The leader answered without an error for the whole; `session_id` is in its answer."""
        if session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, FULL
        elif self._epoch == FULL:
            self._session_id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1

    def on_error(self, code: int) -> None:
        """The leader refused the request as a whole."""
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION
        self._epoch = FULL

    def on_lost(self) -> None:
        """No answer came: whether the leader took the request is not known."""
        self._epoch = FULL


def _lacks_id(wanted: Wanted | None) -> bool:
    return wanted is not None and not wanted.topic_id.int


def _topics(named: Iterable[tuple[TopicPartition, Wanted]]) -> list[FetchTopic]:
    topics: dict[tuple[str, int], FetchTopic] = {}
    for (name, index), wanted in named:
        key = (name, wanted.topic_id.int)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchTopic(topic=name, topic_id=wanted.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.fetch_offset,
                last_fetched_epoch=wanted.last_fetched_epoch,
                log_start_offset=wanted.log_start_offset,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(forgotten: Iterable[tuple[TopicPartition, uuid.UUID]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, uuid.UUID], ForgottenTopic] = {}
    for (name, index), topic_id in forgotten:
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
        topic.partitions.append(index)
    return list(topics.values())
