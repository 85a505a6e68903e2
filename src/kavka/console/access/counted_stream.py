"""CountedStream: an answer that goes on and on, of which there is a bounded number at a time.

Decides whether there is room for one more, and when one is over. Must not know what is streamed.

I1  One step checks and counts, before the answer begins: of requests that come together none gets past the bound.
I2  What was counted is given back when the answer ends, also where its reader left before its first byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send


class StreamCount:
    """How many streams are open, out of `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.open = 0

    def stream(self, events: AsyncIterator[bytes] | AsyncIterator[str]) -> CountedStream | None:
        """Server-sent events as an answer that is counted from now on; None where there is no room."""
        if self.open >= self._most:
            return None
        self.open += 1
        return CountedStream(events, self)


class CountedStream(StreamingResponse):
    """Server-sent events that give their place back when they end."""

    def __init__(self, events: AsyncIterator[bytes] | AsyncIterator[str], count: StreamCount) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._count.open -= 1
