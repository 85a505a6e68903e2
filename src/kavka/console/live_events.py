"""Live events: a stream that reports to an open page that there is something newer.

Decides when a page is notified: at each new snapshot, at most once in `LEAST_PAUSE_S`, and at least every `BEAT_S`, so
that a page knows that the console lives. Must not know what the page shows: it asks for itself again, with the rights
that its reader has then.

    GET /c/{cluster}/live, /live    text/event-stream
    event: snapshot                 data: {"number": N, "at_ms": T, "state": "reachable"}
    event: beat                     the same

Source: the HTML standard's server-sent events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kavka.console.access.counted_stream import StreamCount
from kavka.console.access.turns import visitor_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console
    from kavka.observe.changes import Changes

LEAST_PAUSE_S: Final = 1.0
BEAT_S: Final = 5.0
RETRY_MS: Final = 2_000
"""After how long a browser connects again."""
MAX_STREAMS: Final = 500
"""Open pages; one more is asked to come back later."""
MAX_STREAMS_OF_ONE: Final = 100
"""Of one visitor. A browser holds one for all its pages of a cluster."""


def live_routes(console: Console) -> list[Route]:
    streams = _Streams(console.closing)

    async def of_cluster(request: Request) -> Response:
        return streams.answer(request, console.cluster(request).changes)

    async def of_wall(request: Request) -> Response:
        return streams.answer(request, console.clusters.changes)

    return [Route("/live", of_wall), Route("/c/{cluster}/live", of_cluster)]


class _Streams:
    """How many there are. They end when the console closes, which would else wait for its open pages."""

    def __init__(self, closing: asyncio.Event) -> None:
        self._closing = closing
        self._count = StreamCount(MAX_STREAMS, MAX_STREAMS_OF_ONE)

    def answer(self, request: Request, changes: Changes) -> Response:
        stream = self._count.stream(self._events(changes), visitor_of(request))
        return stream or PlainTextResponse("too many open pages", 503, {"retry-after": "30"})

    async def _events(self, changes: Changes) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_MS}\n\n".encode()
        seen = changes.number
        yield _event("beat", changes)
        while not self._closing.is_set():
            if await self._newer(changes, seen):
                seen = changes.number
                yield _event("snapshot", changes)
                await self._pause()
            elif not self._closing.is_set():
                yield _event("beat", changes)

    async def _newer(self, changes: Changes, seen: int) -> bool:
        """Whether there is a newer snapshot, within BEAT_S and before the console closes."""
        waits = [asyncio.ensure_future(changes.after(seen)), asyncio.ensure_future(self._closing.wait())]
        try:
            await asyncio.wait(waits, timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED)
            return waits[0].done()
        finally:
            for wait in waits:
                wait.cancel()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(LEAST_PAUSE_S):
                await self._closing.wait()
        except TimeoutError:
            pass


def _event(name: str, changes: Changes) -> bytes:
    data = json.dumps({"number": changes.number, "at_ms": changes.at_ms, "state": changes.state})
    return f"event: {name}\ndata: {data}\n\n".encode()
