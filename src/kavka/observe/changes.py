"""Changes: wakes whoever waits for something newer than they have seen, once, however much happened meanwhile."""

from __future__ import annotations

import asyncio


class Changes:
    """The number, time and state of the newest snapshot, and those who wait for a newer one. Of one event loop."""

    def __init__(self) -> None:
        self.number = 0
        self.at_ms = 0
        self.state = "connecting"
        self._newer = asyncio.Event()

    def publish(self, at_ms: int, state: str) -> None:
        """There is something newer."""
        self.number += 1
        self.at_ms = at_ms
        self.state = state
        # Each waiter holds the event that it began to wait for: setting it and making another wakes all of them once.
        self._newer.set()
        self._newer = asyncio.Event()

    async def after(self, seen: int) -> None:
        """Returns as soon as `number` is above `seen`."""
        while self.number <= seen:
            await self._newer.wait()
