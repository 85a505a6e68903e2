"""Fetch sessions (KIP-227): a client names its partitions once and afterwards only what changed.

Decides: whether a fetch is full or incremental, which session it belongs to, which partitions it now covers, and which
of the answers are worth sending. Must not know: logs, replicas, time-outs.

    I1  a session's requests come in the order of their epochs; any other epoch is INVALID_FETCH_SESSION_EPOCH
    I2  an incremental answer leaves out a partition only if it has no records, no error and no changed offsets
    I3  the cache holds at most `max.incremental.fetch.session.cache.slots` sessions; a newer one takes the place of one
        that has been idle for min_eviction_ms, else the client is answered without a session

The table, (session id, session epoch) of the request to what is done:

    0, -1              full, no session wanted
    0, 0               full, a new session if there is room
    s, -1              full, session s is closed
    s, 0               full, session s is closed and a new one made
    s, e (next of s)   incremental
    s, e (another)     INVALID_FETCH_SESSION_EPOCH
    s, names for ids   FETCH_SESSION_TOPIC_ID_ERROR: the request is of a version that names topics the other way
    s not known        FETCH_SESSION_ID_NOT_FOUND

Source: Kafka's FetchSession.scala, KIP-227.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.errors import ErrorCode, RequestError
from kavka.model import NO_OFFSET
from kavka.replication.fetching import FetchOutcome, FetchSpec

PartitionKey = tuple[str | uuid.UUID, int]
"""A partition as the client names it: by topic name before version 13, by topic id from then on. A topic id that is not
known here yet stays in the session, and is served as soon as it is."""


def partition_key(spec: FetchSpec) -> PartitionKey:
    return (spec.topic_id if spec.topic_id.int else spec.topic_partition.topic, spec.topic_partition.partition)


NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MIN_EVICTION_MS = 120_000
"""A session idle for so long may lose its place; Kafka's constant."""
_MAX_EPOCH = 2**31 - 1


class _Sent(NamedTuple):
    """What the client was last told of a partition."""

    high_watermark: int
    log_start_offset: int


_NOTHING_SENT = _Sent(NO_OFFSET, NO_OFFSET)


class FetchSession:
    """The partitions that one client fetches, in the order in which they are served."""

    __slots__ = ("_sent", "by_topic_id", "epoch", "last_used_ms", "session_id", "specs")

    def __init__(self, session_id: int, specs: Iterable[FetchSpec], now_ms: int, *, by_topic_id: bool) -> None:
        self.session_id = session_id
        self.by_topic_id = by_topic_id
        self.epoch = 1
        self.last_used_ms = now_ms
        self.specs: dict[PartitionKey, FetchSpec] = {partition_key(spec): spec for spec in specs}
        self._sent: dict[PartitionKey, _Sent] = {}

    def update(self, specs: Iterable[FetchSpec], forgotten: Iterable[PartitionKey]) -> None:
        """Takes over what an incremental fetch changed."""
        for spec in specs:
            self.specs[partition_key(spec)] = spec
        for key in forgotten:
            self.specs.pop(key, None)
            self._sent.pop(key, None)

    def worth_sending(self, outcomes: Sequence[FetchOutcome], *, everything: bool) -> list[FetchOutcome]:
        """The outcomes that an answer must carry (I2), and remembers them.

        Partitions that had records go to the end of the line, so that those behind get their turn under a small
        max_bytes.
        """
        sending = []
        for outcome in outcomes:
            key = partition_key(outcome.spec)
            now_sent = _Sent(outcome.high_watermark, outcome.log_start_offset)
            if (
                everything
                or outcome.size_bytes
                or outcome.error is not ErrorCode.NONE
                or outcome.diverging_epoch is not None
                or outcome.preferred_read_replica >= 0
                or now_sent != self._sent.get(key, _NOTHING_SENT)
            ):
                sending.append(outcome)
                # After an error, or a truncation, the partition is told again whatever its offsets are: a follower that
                # has to truncate does not take the high watermark over (KAFKA-14704).
                is_taken = outcome.error is ErrorCode.NONE and outcome.diverging_epoch is None
                self._sent[key] = now_sent if is_taken else _NOTHING_SENT
            if outcome.size_bytes and not everything:
                spec = self.specs.pop(key, None)
                if spec is not None:
                    self.specs[key] = spec
        return sending


class FetchContext(NamedTuple):
    """How one fetch is to be answered: `session` is None for a sessionless one, `everything` in a full answer."""

    session: FetchSession | None
    specs: Sequence[FetchSpec]
    everything: bool

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id

    def worth_sending(self, outcomes: Sequence[FetchOutcome]) -> Sequence[FetchOutcome]:
        if self.session is None:
            return outcomes
        return self.session.worth_sending(outcomes, everything=self.everything)


class FetchSessionCache:
    """All sessions of a broker. `random` gives session ids that another client cannot guess by counting."""

    def __init__(self, max_sessions: int, random: random.Random) -> None:
        self._max_sessions = max_sessions
        self._random = random
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def context(
        self,
        session_id: int,
        session_epoch: int,
        specs: Sequence[FetchSpec],
        forgotten: Iterable[PartitionKey],
        now_ms: int,
        *,
        by_topic_id: bool = False,
    ) -> FetchContext:
        """Applies the table above. Raises `RequestError` for the three errors in it.

        `by_topic_id`: the request's version names topics by their ids.
        """
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self._sessions.pop(session_id, None)
            if session_epoch == FINAL_EPOCH:
                return FetchContext(None, specs, everything=True)
            return FetchContext(self._create(specs, now_ms, by_topic_id=by_topic_id), specs, everything=True)
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != session_epoch:
            raise RequestError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"session {session_id} expects epoch {session.epoch}, the request has {session_epoch}",
            )
        if session.by_topic_id != by_topic_id:
            raise RequestError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session_epoch == _MAX_EPOCH else session_epoch + 1
        session.update(specs, forgotten)
        if not session.specs:
            del self._sessions[session_id]
            return FetchContext(None, (), everything=True)
        # The order of use is the order of the dict: the least recently used session is the first.
        self._sessions[session_id] = self._sessions.pop(session_id)
        session.last_used_ms = now_ms
        return FetchContext(session, list(session.specs.values()), everything=False)

    def _create(self, specs: Sequence[FetchSpec], now_ms: int, *, by_topic_id: bool) -> FetchSession | None:
        if len(self._sessions) >= self._max_sessions and not self._evict(now_ms):
            return None
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = FetchSession(session_id, specs, now_ms, by_topic_id=by_topic_id)
        self._sessions[session_id] = session
        return session

    def _evict(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < MIN_EVICTION_MS:
            return False
        del self._sessions[oldest.session_id]
        self.evictions += 1
        return True
