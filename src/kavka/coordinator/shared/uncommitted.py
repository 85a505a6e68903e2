"""Uncommitted: up to where a shard's state may have records that are not committed.

A write of unknown outcome is replayed, and so is what a new leader finds above its high watermark. Of a leader that is
replaced such records may be cut off. Decides whether somebody may be told what the state is. Must not know the state.

    I1  who asks again after a failure is not told that all is done because the state says so: 1. a deletion is
        appended, and nobody knows whether it is committed; 2. who asked is told of the failure, and asks again;
        3. there is nothing to delete, so nothing is written, and the answer is that it is gone; 4. this leader is
        replaced, the deletion is cut off, and what was deleted is back

Source: Kafka's CoordinatorRuntime, where an answer without records waits for those before it.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.errors import ErrorCode, RequestError
from kavka.model import Offset


class Uncommitted:
    """`ends`: the log's high watermark and its end; None if it is not led here."""

    __slots__ = ("_ends", "_open_until")

    def __init__(self, ends: Callable[[], tuple[Offset, Offset] | None]) -> None:
        self._ends = ends
        self._open_until: Offset | None = None

    def note(self) -> None:
        """Records were replayed, or are about to be, of which it is not known whether they are committed."""
        ends = self._ends()
        if ends is not None and ends[0] < ends[1]:
            self._open_until = ends[1]

    def require_none(self) -> None:
        """Raises `RequestError` (COORDINATOR_NOT_AVAILABLE) while the state has records that are not committed."""
        if self._open_until is None:
            return
        ends = self._ends()
        if ends is None or ends[0] < self._open_until:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._open_until = None
