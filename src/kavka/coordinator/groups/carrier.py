"""Carrier: what the group coordinator does for the flows of the newer groups (consumer, share, streams).

Must not know what a flow decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Protocol, TypeVar

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard
from kavka.coordinator.groups.classic.decide.membership import Effects
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode

_T = TypeVar("_T")


class Carrier(Protocol):
    """One coordinator, as a flow sees it."""

    def write_change(self, active: ActiveGroupShard, records: Sequence[CoordinatorRecord]) -> Awaitable[ErrorCode]:
        """Writes and replays them; what is not certainly refused is replayed too."""
        ...

    def spawn(self, work: Coroutine[None, None, _T]) -> asyncio.Task[_T]:
        """Runs it beside, until the coordinator shuts down."""
        ...

    def deliver(self, effects: Effects) -> None:
        """Answers what a classic group held."""
        ...

    def arm(self, active: ActiveGroupShard, group_id: str, changed_ms: int | None = None) -> None:
        """Sees to it that the group's next deadline is noticed. `changed_ms` is the one that has changed, where all
        others are as they were: nobody looks at those of all members then."""
        ...

    def now_ms(self) -> int:
        """The monotonic clock."""
        ...
