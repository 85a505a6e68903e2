"""ActiveGroupShard: the groups of one partition that is loaded here, with what the flows around them need.

Keeps the order of appends (positions), the timer of each group, whose turn it is, the ends of transactions and the
deleted topics that were heard of while the log was being read, and up to where the state may have records that are not
committed.

    I1  nobody is told of a state that is not committed: a write of unknown outcome is replayed, and so is what a new
        leader finds above its high watermark. Of a leader that is replaced it may be cut off, and the next coordinator
        gives what it gave to another member
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import NamedTuple, TypeAlias, TypeVar

from kavka.coordinator.groups.decide.shard import GroupShard
from kavka.coordinator.groups.turns import Turns
from kavka.coordinator.shared.active_shards import ActiveShard
from kavka.coordinator.shared.uncommitted import Uncommitted
from kavka.errors import ErrorCode, RequestError
from kavka.model import GoneTopic, LeaderEpoch, Offset

_T = TypeVar("_T")

Work: TypeAlias = Callable[[], Coroutine[None, None, ErrorCode]]
"""Begins to carry out what was decided; the coroutine ends with what became of it."""
Spawn: TypeAlias = Callable[[Coroutine[None, None, ErrorCode]], asyncio.Task[ErrorCode]]
"""Runs it beside, until the coordinator shuts down."""


class Ending(NamedTuple):
    """The end of a transaction that was heard of while its partition's log was being read."""

    producer_id: int
    committed: bool


class ActiveGroupShard(ActiveShard):
    """`partition` of `__consumer_offsets`."""

    __slots__ = ("_position", "_uncommitted", "deleted_topics", "endings", "shard", "timers", "turns")

    def __init__(
        self,
        partition: int,
        shard: GroupShard,
        leader_epoch: LeaderEpoch,
        ends: Callable[[], tuple[Offset, Offset] | None],
    ) -> None:
        """`ends`: the log's high watermark and its end; None if it is not led here."""
        super().__init__(partition, leader_epoch)
        self._uncommitted = Uncommitted(ends)
        self.shard = shard
        self.timers: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        self.endings: list[Ending] = []
        self.deleted_topics: dict[GoneTopic, None] = {}
        self.turns = Turns()
        self._position = 0

    def next_position(self) -> int:
        """The place of the next append in the order of the log."""
        self._position += 1
        return self._position

    def on_uncommitted(self) -> None:
        """Records were replayed, or are about to be, of which it is not known whether they are committed."""
        self._uncommitted.note()

    def require_committed(self) -> None:
        """Before somebody is told what the state is (I1). Raises `RequestError` (COORDINATOR_NOT_AVAILABLE) while it
        has records that are not committed."""
        self._uncommitted.require_none()

    async def in_turn(
        self,
        group_id: str,
        decide: Callable[[], Awaitable[tuple[Work | None, _T]]],
        spawn: Spawn,
        *,
        at_once: bool = False,
    ) -> _T:
        """Decides in the group's turn, carries it out though who asked may go away, and returns the answer. Raises
        `RequestError`. `decide` returns None for work where there is nothing to carry out.

        Offsets are committed out of turn. A change that must know all that lie in the log is written `at_once`, in the
        step in which it was decided, and ends with who asked for it.
        """
        await self.turns.take(group_id)
        is_handed_over = False
        try:
            if self.is_gone:
                raise RequestError(ErrorCode.NOT_COORDINATOR)
            work, answer = await decide()
            if self.is_gone:
                raise RequestError(ErrorCode.NOT_COORDINATOR)
            if work is None:
                return answer
            carrying = work()
            is_handed_over = True
        finally:
            if not is_handed_over:
                self.turns.give(group_id)
        error = await (self._finish(group_id, carrying) if at_once else self._beside(group_id, spawn(carrying)))
        if error is not ErrorCode.NONE:
            raise RequestError(error)
        return answer

    def _beside(self, group_id: str, carrying: asyncio.Task[ErrorCode]) -> asyncio.Future[ErrorCode]:
        # Called back, and not a step of the task: one that is cancelled before it begins takes no step.
        carrying.add_done_callback(lambda _: self.turns.give(group_id))
        return asyncio.shield(carrying)

    async def _finish(self, group_id: str, carrying: Coroutine[None, None, ErrorCode]) -> ErrorCode:
        try:
            return await carrying
        finally:
            self.turns.give(group_id)
