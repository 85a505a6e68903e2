"""Share sessions: who fetches what, between one request of a member and the next (KIP-932).

Decides which session a request belongs to, and whether its epoch is right. Must not know records.

    I1  a member has at most one session; a new one ends the one before, and frees its locks
    I2  a request with a wrong epoch changes nothing
    I3  a session ends with its connection: nobody else could go on with it
    I4  there are never more sessions than the limit, and in none more than MOST_PARTITIONS: each fetch looks at all

Source: Kafka's ShareSessionCache and SharePartitionManager.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kavka.errors import ErrorCode, RequestError

FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MOST_PARTITIONS: Final = 20_000
"""Partitions in one session, about a second's work for each fetch. As many as `leaders.MAX_LED`; Kafka has no bound."""
_LAST_EPOCH: Final = 2**31 - 1


class PartitionId(NamedTuple):
    """A partition as requests name it."""

    topic_id: uuid.UUID
    partition: int


class ShareSession:
    """One member's. Its connection calls `cancel` when it closes."""

    def __init__(
        self, group_id: str, member_id: str, on_lost: Callable[[ShareSession], None], clock: Callable[[], float]
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = FIRST_EPOCH + 1
        self.partitions: dict[PartitionId, float] = {}
        """Since when it has them, by the loop's clock."""
        self.unsaid: set[PartitionId] = set()
        """Which of them an answer is to name even if it has nothing new to say: they came after the session began, or
        an answer has refused them since they were named last."""
        self.told: Mapping[PartitionId, ErrorCode] = {}
        """What was refused with the last answer."""
        self.is_over = False
        """What still waits for it gets nothing: it would be locked for nobody."""
        self._on_lost = on_lost
        self._clock = clock
        self.detach: Callable[[], object] = lambda: None
        """Has its connection forget it."""

    def change(self, named: Iterable[PartitionId], forgotten: Iterable[PartitionId]) -> None:
        """Takes over what a request says of its partitions. Raises `RequestError` (INVALID_REQUEST)."""
        after, now, unsaid = dict(self.partitions), self._clock(), set(self.unsaid)
        for partition in named:
            if partition not in after:
                after[partition] = now
                unsaid.add(partition)
        for partition in forgotten:
            after.pop(partition, None)
            unsaid.discard(partition)
        self.partitions, self.unsaid = _bounded(after), unsaid

    def take_unsaid(self, fetched: Iterable[PartitionId], refused: Iterable[PartitionId]) -> list[PartitionId]:
        """Those of `fetched` that the answer is to name in any case, which is their last time for now. What it
        refuses is named once more when it is refused no longer."""
        shown = [partition for partition in fetched if partition in self.unsaid] if self.unsaid else []
        self.unsaid.difference_update(shown)
        self.unsaid.update(partition for partition in refused if partition in self.partitions)
        return shown

    def advance(self) -> None:
        """The next request must have the next epoch."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def turned(self) -> list[PartitionId]:
        """The partitions, each first in its turn, so that none starves behind the others."""
        listed = list(self.partitions)
        if not listed:
            return listed
        begin = self.epoch % len(listed)
        return [*listed[begin:], *listed[:begin]]

    def cancel(self) -> None:
        """Its connection is closed."""
        self._on_lost(self)


class ShareSessions:
    """All sessions. `clock` is the loop's. `on_end` frees what a member holds. `on_last_end` is called for a group that
    has none left."""

    def __init__(
        self,
        most: Callable[[], int],
        clock: Callable[[], float],
        on_end: Callable[[str, str], None],
        on_last_end: Callable[[str], None],
    ) -> None:
        self._most = most
        self._clock = clock
        self._release = on_end
        self._forget = on_last_end
        self._of_group: Counter[str] = Counter()
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self.lost = 0
        """Sessions that ended with their connection, and not by a request."""

    @property
    def partition_count(self) -> int:
        """Partitions of all sessions together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ShareSession]:
        return iter(self._sessions.values())

    def has(self, group_id: str, member_id: str) -> bool:
        """Whether the member has a session."""
        return (group_id, member_id) in self._sessions

    def begin(self, group_id: str, member_id: str, partitions: Iterable[PartitionId]) -> ShareSession:
        """A new session. Raises `RequestError` (SHARE_SESSION_LIMIT_REACHED, INVALID_REQUEST)."""
        wanted = _bounded(dict.fromkeys(partitions, self._clock()))
        former = self._sessions.get((group_id, member_id))
        if former is not None:
            self.end(former)
        if len(self._sessions) >= self._most():
            raise RequestError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, self._on_lost, self._clock)
        session.partitions = wanted
        self._sessions[group_id, member_id] = session
        self._of_group[group_id] += 1
        return session

    def known(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session that a request goes on with, or ends (FINAL_EPOCH). Raises `RequestError`:
        SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise RequestError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in (FINAL_EPOCH, session.epoch):
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def _on_lost(self, session: ShareSession) -> None:
        self.lost += self._sessions.get((session.group_id, session.member_id)) is session
        self.end(session)

    def end(self, session: ShareSession) -> None:
        """The session is over, and with it the locks of its member; one that was replaced ends nothing."""
        key = (session.group_id, session.member_id)
        if self._sessions.get(key) is session:
            del self._sessions[key]
            session.is_over = True
            session.detach()
            self._release(session.group_id, session.member_id)
            self._of_group[session.group_id] -= 1
            if not self._of_group[session.group_id]:
                del self._of_group[session.group_id]
                self._forget(session.group_id)


def _bounded(partitions: dict[PartitionId, float]) -> dict[PartitionId, float]:
    if len(partitions) > MOST_PARTITIONS:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"{len(partitions)} partitions are more than the {MOST_PARTITIONS} of a share session.",
        )
    return partitions
