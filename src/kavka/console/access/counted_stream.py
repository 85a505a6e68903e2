"""CountedStream: an answer that goes on and on, of which there is a bounded number at a time, and of one visitor less.

Decides whether there is room for one more, and when one is over. Must not know what is streamed.

I1  One step checks and counts, before the answer begins: of requests that come together none gets past a bound.
I2  What was counted is given back when the answer ends, also where its reader left before its first byte.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Receive, Scope, Send


class StreamCount:
    """Which streams are open: `most` of all, `of_one` of one visitor."""

    def __init__(self, most: int, of_one: int) -> None:
        self._most = most
        self._of_one = of_one
        self._open: Counter[str] = Counter()

    @property
    def open(self) -> int:
        return self._open.total()

    def stream(self, events: AsyncIterator[bytes] | AsyncIterator[str], visitor: str) -> CountedStream | None:
        """Server-sent events as an answer that is counted from now on; None where there is no room."""
        if self.open >= self._most or self._open[visitor] >= self._of_one:
            return None
        self._open[visitor] += 1
        return CountedStream(events, lambda: self._close(visitor))

    def _close(self, visitor: str) -> None:
        self._open[visitor] -= 1
        if not self._open[visitor]:
            del self._open[visitor]


class CountedStream(StreamingResponse):
    """Server-sent events that give their place back when they end."""

    def __init__(self, events: AsyncIterator[bytes] | AsyncIterator[str], on_end: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()
