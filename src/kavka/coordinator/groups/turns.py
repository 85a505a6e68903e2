"""Turns: who may change a group now.

I1  changes of one group that are decided from its committed state take turns: the next one is decided when the
    records of the one before are committed and replayed. Two decisions from one state could give a partition twice
I2  a turn that is taken is given on exactly once, also when who has it or who waits for it is cancelled
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """Who may change a group now. Waiters are served in order; there are no more than requests under way."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """A group is in here while its turn is taken."""

    def is_taken(self, group_id: str) -> bool:
        return group_id in self._waiting

    async def take(self, group_id: str) -> None:
        """Returns when it is the caller's turn."""
        waiting = self._waiting.get(group_id)
        if waiting is None:
            self._waiting[group_id] = deque()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(group_id)  # It had become ours in the moment in which we were cancelled.
            raise

    def give(self, group_id: str) -> None:
        """The caller's turn is over."""
        waiting = self._waiting[group_id]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[group_id]
