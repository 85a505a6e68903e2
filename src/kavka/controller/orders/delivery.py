"""Delivery: requests on their way to brokers, for a caller that waits until they were answered.

It counts the requests that are still waiting for an answer, and knows nothing else.
"""

from __future__ import annotations

import asyncio


class Delivery:
    """Requests on their way. Those to brokers that are gone, or turn out to be, are not waited for."""

    def __init__(self) -> None:
        self._outstanding = 0
        self._done = asyncio.Event()
        self._done.set()

    def expect(self, count: int) -> None:
        """Adds requests that are still to be answered."""
        self._outstanding += count
        if self._outstanding:
            self._done.clear()

    def settle(self) -> None:
        """One request was answered, or never will be."""
        self._outstanding -= 1
        if not self._outstanding:
            self._done.set()

    async def wait(self, timeout_ms: int) -> bool:
        """Returns when all were answered (True), or after `timeout_ms` (False)."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._done.wait()
        except TimeoutError:
            return False
        return True
