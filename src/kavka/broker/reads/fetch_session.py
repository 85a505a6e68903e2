"""Fetch sessions (KIP-227): a client names its partitions once and afterwards only what changed.

Decides: whether a fetch is full or incremental, which session it belongs to, which partitions it now covers, and which
of the answers are worth sending. Must not know: logs, replicas, time-outs.

    I1  a session's requests come in the order of their epochs; any other epoch is INVALID_FETCH_SESSION_EPOCH
    I2  an incremental answer leaves out a partition only if it has no records, no error and no changed offsets
    I3  a partition is served once in an answer, however often the request names it: the last time counts
    I4  the cache holds at most `max.incremental.fetch.session.cache.slots` sessions
    I5  a session of a follower never makes room for one of a consumer, unless it is idle
    I6  a session is its principal's: to all others it is not known, so that who guesses an id learns of no topics, and
        ends nothing (in Kafka it does)
    I7  a follower's session keeps its idle partitions aside (replication/decide/idle_partitions.py): they belong to it,
        and no fetch looks at them

The table, (session id, session epoch) of the request to what is done:

    0, -1              full, no session wanted
    0, 0               full, a new session if there is room
    s, -1              full, session s is closed
    s, 0               full, session s is closed and a new one made
    s, e (next of s)   incremental
    s, e (another)     INVALID_FETCH_SESSION_EPOCH
    s, names for ids   FETCH_SESSION_TOPIC_ID_ERROR: the request is of a version that names topics the other way
    s not known        FETCH_SESSION_ID_NOT_FOUND

Where the cache is full, a new session takes the place of one of these, the first that there is; else its client is
answered without a session:

    idle for more than MIN_EVICTION_MS       the one that was used longest ago
    a follower's may take: any consumer's, or an older follower's with fewer partitions
    a consumer's may take: an older consumer's with fewer partitions
                                             the one with the fewest partitions, consumers' before followers'

Older means: more than MIN_EVICTION_MS since it was made. Followers save most with their sessions: they fetch all the
time, and most of their partitions have nothing new.

Source: Kafka's FetchSessionCache, KIP-227.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Iterable, KeysView, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.errors import NO_ERROR, ErrorCode, RequestError
from kavka.model import NO_OFFSET, Offset
from kavka.replication.decide.fetching import FetchOutcome, FetchSpec, PartitionKey, partition_key

if TYPE_CHECKING:
    from kavka.replication.decide.idle_partitions import IdlePartitions

NO_SESSION = 0
NOT_RESOLVED = -1
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MIN_EVICTION_MS = 120_000
"""min.incremental.fetch.session.eviction.ms, which is a constant in Kafka."""
_MAX_EPOCH = 2**31 - 1


class _Sent(NamedTuple):
    """What the last answer to the client said about a partition."""

    high_watermark: int
    log_start_offset: int


_NOTHING_SENT = _Sent(NO_OFFSET, NO_OFFSET)


_Rank = tuple[bool, int, int]
"""(whether it is a follower's, number of partitions, session id): the lower, the sooner a session makes room."""


class FetchSession:
    """The partitions that one client fetches, in the order in which they are served."""

    __slots__ = (
        "_sent", "by_topic_id", "created_ms", "epoch", "idle", "is_followers", "is_old", "last_used_ms", "principal",
        "rank", "resolved_at", "session_id", "specs",
    )  # fmt: skip

    def __init__(
        self,
        session_id: int,
        specs: Iterable[FetchSpec],
        now_ms: int,
        *,
        by_topic_id: bool,
        is_followers: bool,
        principal: str,
    ) -> None:
        self.session_id = session_id
        self.principal = principal
        self.by_topic_id = by_topic_id
        self.is_followers = is_followers
        self.epoch = 1
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.is_old = False
        """Whether it was used later than MIN_EVICTION_MS after it was made."""
        self.rank: _Rank | None = None
        """As the cache has it."""
        self.specs: dict[PartitionKey, FetchSpec] = {partition_key(spec): spec for spec in specs}
        """Those that a fetch looks at."""
        self.idle = _nothing_idle(self.specs) if is_followers else None
        self._sent: dict[PartitionKey, _Sent] = {}
        self.resolved_at = NOT_RESOLVED
        """For which topics that are known here the specs have the names of all their topics: see `keep_resolved`."""

    @property
    def size(self) -> int:
        """How many partitions the session holds."""
        return len(self.specs) + (len(self.idle) if self.idle is not None else 0)

    def told(self, key: PartitionKey) -> tuple[Offset, Offset]:
        """The high watermark and the log start that the client was told of last; -1 for what it must be told again."""
        return self._sent.get(key, _NOTHING_SENT)

    def keep_resolved(self, specs: Iterable[FetchSpec], topics_version: int) -> None:
        """These are the partitions that a fetch looks at with the names of their topics, as they are in the broker's
        `topics_version`. The idle ones have the names with which they were found here."""
        for spec in specs:
            self.specs[partition_key(spec)] = spec
        self.resolved_at = topics_version

    def update(self, specs: Iterable[FetchSpec], forgotten: Iterable[PartitionKey]) -> None:
        """Takes over what an incremental fetch changed."""
        idle = self.idle
        for spec in specs:
            key = partition_key(spec)
            if idle is not None:
                idle.wake_key(key)
            known = self.specs.get(key)
            if known is None:
                self.resolved_at = NOT_RESOLVED
            elif self.resolved_at != NOT_RESOLVED:
                # Its topic's name was found. A fetch after records names what moved, and no name is looked up again.
                spec = spec._replace(topic_partition=known.topic_partition)
            self.specs[key] = spec
        for key in forgotten:
            if idle is not None:
                idle.wake_key(key)
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
            sent = self._sent.get(key, _NOTHING_SENT)
            if (
                everything
                or outcome.size_bytes
                or outcome.error is not NO_ERROR
                or outcome.diverging_epoch is not None
                or outcome.preferred_read_replica >= 0
                or outcome.high_watermark != sent.high_watermark
                or outcome.log_start_offset != sent.log_start_offset
            ):
                sending.append(outcome)
                # After an error or a truncation, send the partition again even if its offsets are unchanged: a follower
                # that has to truncate does not take over the high watermark (KAFKA-14704).
                is_taken = outcome.error is NO_ERROR and outcome.diverging_epoch is None
                self._sent[key] = _Sent(outcome.high_watermark, outcome.log_start_offset) if is_taken else _NOTHING_SENT
            if outcome.size_bytes and not everything:
                spec = self.specs.pop(key, None)
                if spec is not None:
                    self.specs[key] = spec
        return sending


def _nothing_idle(specs: dict[PartitionKey, FetchSpec]) -> IdlePartitions:
    # A broker alone has no followers, and does not import what they need.
    from kavka.replication.decide.idle_partitions import IdlePartitions

    return IdlePartitions(specs)


class FetchContext(NamedTuple):
    """How one fetch is to be answered: `session` is None for a sessionless one, `everything` in a full answer."""

    session: FetchSession | None
    specs: Sequence[FetchSpec]
    everything: bool

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id

    @property
    def idle(self) -> IdlePartitions | None:
        """The partitions of a follower's session that the fetch need not look at."""
        return None if self.session is None else self.session.idle

    def worth_sending(self, outcomes: Sequence[FetchOutcome]) -> Sequence[FetchOutcome]:
        if self.session is None:
            return outcomes
        return self.session.worth_sending(outcomes, everything=self.everything)


class FetchSessionCache:
    """All sessions of a broker. `random` gives session ids that another client cannot guess by counting."""

    def __init__(self, max_sessions: int, random: random.Random) -> None:
        self._max_sessions = max_sessions
        self._random = random
        # The order of use: the session that was used longest ago is the first.
        self._sessions: dict[int, FetchSession] = {}
        # Those that may make room for a consumer's session, and for a follower's, in that order.
        self._for_consumers: list[_Rank] = []
        self._for_followers: list[_Rank] = []
        self.partition_count = 0
        """Of all sessions."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def session_ids(self) -> KeysView[int]:
        return self._sessions.keys()

    def sessions(self) -> list[FetchSession]:
        """The one that was used longest ago comes first."""
        return list(self._sessions.values())

    def context(  # noqa: PLR0913 - called for every fetch request: no value is made for its arguments
        self,
        session_id: int,
        session_epoch: int,
        specs: Sequence[FetchSpec],
        forgotten: Iterable[PartitionKey],
        now_ms: int,
        *,
        by_topic_id: bool = False,
        is_follower: bool = False,
        asked_as: tuple[int, int] | None = None,
        principal: str = "",
    ) -> FetchContext:
        """Applies the table above. Raises `RequestError` for the three errors in it.

        `by_topic_id`: the request's version names topics by their ids. `is_follower`: another broker asks. `asked_as`:
        the broker id and the broker epoch that the request names, if it names any. `principal`: who asks.
        """
        session = self._sessions.get(session_id)
        if session is not None and session.principal != principal:
            session = None
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if len(specs) > 1:
                unique = {partition_key(spec): spec for spec in specs}
                if len(unique) < len(specs):
                    specs = list(unique.values())
            if session is not None:
                self._remove(session)
            if session_epoch == FINAL_EPOCH or not self._has_room(len(specs), now_ms, is_follower=is_follower):
                return FetchContext(None, specs, everything=True)
            made = self._create(specs, now_ms, by_topic_id=by_topic_id, is_follower=is_follower, principal=principal)
            if made.idle is not None:
                made.idle.ask_as(asked_as)
            return FetchContext(made, specs, everything=True)
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
        if session.idle is not None:
            session.idle.ask_as(asked_as)
        session.update(specs, forgotten)
        if not session.size:
            self._remove(session)
            return FetchContext(None, (), everything=True)
        self._use(session, now_ms)
        return FetchContext(session, list(session.specs.values()), everything=False)

    def withhold(self, context: FetchContext) -> int:
        """The answer goes out without any partition: the id of the session that goes on, NO_SESSION where there is
        none. A client takes an answer without partitions only where its session was there before (KIP-219)."""
        session = context.session
        if session is not None and context.everything:
            if self._sessions.get(session.session_id) is session:
                self._remove(session)
            return NO_SESSION
        return context.session_id

    def _create(
        self, specs: Sequence[FetchSpec], now_ms: int, *, by_topic_id: bool, is_follower: bool, principal: str
    ) -> FetchSession:
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = FetchSession(
            session_id, specs, now_ms, by_topic_id=by_topic_id, is_followers=is_follower, principal=principal
        )
        self._sessions[session_id] = session
        self._use(session, now_ms)
        return session

    def _use(self, session: FetchSession, now_ms: int) -> None:
        """The session is now the one used last. Ranks it again if that changes its rank."""
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.last_used_ms = now_ms
        is_old = now_ms - session.created_ms > MIN_EVICTION_MS
        size = session.size
        if session.rank is not None and session.rank[1] == size and session.is_old == is_old:
            return
        self._unrank(session)
        session.rank, session.is_old = (session.is_followers, size, session.session_id), is_old
        self.partition_count += size
        if is_old:
            insort(self._for_consumers, session.rank)
        if is_old or not session.is_followers:
            insort(self._for_followers, session.rank)

    def _unrank(self, session: FetchSession) -> None:
        if session.rank is None:
            return
        self.partition_count -= session.rank[1]
        for ranks in (self._for_consumers, self._for_followers):
            index = bisect_left(ranks, session.rank)
            if index < len(ranks) and ranks[index] == session.rank:
                del ranks[index]
        session.rank = None

    def _remove(self, session: FetchSession) -> None:
        if session.idle is not None:
            session.idle.wake_all()
        self._unrank(session)
        del self._sessions[session.session_id]

    def _has_room(self, size: int, now_ms: int, *, is_follower: bool) -> bool:
        """Whether a new session of `size` partitions has a place; makes one where it may."""
        if len(self._sessions) < self._max_sessions:
            return True
        loser = self._loser(size, now_ms, is_follower=is_follower)
        if loser is None:
            return False
        self._remove(loser)
        self.evictions += 1
        return True

    def _loser(self, size: int, now_ms: int, *, is_follower: bool) -> FetchSession | None:
        """The session that makes room for a new one, by the second table above."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return None
        if now_ms - oldest.last_used_ms > MIN_EVICTION_MS:
            return oldest
        ranks = self._for_followers if is_follower else self._for_consumers
        if ranks and ranks[0] <= (is_follower, size, NO_SESSION):
            return self._sessions[ranks[0][2]]
        return None
