"""Turns: work that is costly, of which little runs at a time, and of one visitor less; and that ends with its visitor.

Decides who has to wait, for how long, and who is sent away. Must not know what the work is.

I1  At most `at_once` run, at most `OF_ONE_VISITOR` of them one visitor's, so that nobody keeps all others out.
I2  Nobody waits longer than `PATIENCE_S`, and at most `WAITING_OF_ONE` of one visitor wait.
I3  Who closes the connection has no work under way any more: neither a turn nor a place among those that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from kavka.errors import KavkaError

if TYPE_CHECKING:
    from starlette.requests import Request

OF_ONE_VISITOR: Final = 2
WAITING_OF_ONE: Final = 4
PATIENCE_S: Final = 10.0
CLIENT_CLOSED: Final = 499
"""What proxies write down for a request whose client left. Nobody is there to read it."""


class TooBusy(KavkaError):
    """There is no turn now; its text says whose work is in the way."""


class _Visitor:
    """`under_way` counts those that run and those that wait."""

    def __init__(self) -> None:
        self.under_way = 0
        self.runs = asyncio.Semaphore(OF_ONE_VISITOR)


class Turns:
    """`at_once` pieces of work at a time."""

    def __init__(self, at_once: int, *, patience_s: float = PATIENCE_S) -> None:
        self._runs = asyncio.Semaphore(at_once)
        self._patience_s = patience_s
        self._visitors: dict[str, _Visitor] = {}

    @property
    def visitors(self) -> int:
        """Who runs or waits."""
        return len(self._visitors)

    @asynccontextmanager
    async def turn(self, visitor: str) -> AsyncIterator[None]:
        """The visitor's turn lasts as long as the block. Raises TooBusy."""
        of = self._visitors.setdefault(visitor, _Visitor())
        if of.under_way >= OF_ONE_VISITOR + WAITING_OF_ONE:
            n = of.under_way
            raise TooBusy(f"{n} searches of yours are under way: wait for one of them, or close its page")
        of.under_way += 1
        try:
            await self._begin(of)
            try:
                yield
            finally:
                self._runs.release()
                of.runs.release()
        finally:
            of.under_way -= 1
            if not of.under_way:
                del self._visitors[visitor]

    async def _begin(self, of: _Visitor) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await of.runs.acquire()
                try:
                    await self._runs.acquire()
                except BaseException:
                    of.runs.release()
                    raise
        except TimeoutError:
            seconds = f"{self._patience_s:g}"
            raise TooBusy(f"no other search ended within {seconds} s. Try again in a moment") from None


def visitor_of(request: Request) -> str:
    """Whose work it is: of everybody who is logged in by this name at this address."""
    user = getattr(request.state, "user", None)
    address = "" if request.client is None else request.client.host
    return f"{'' if user is None else user.name} {address}"


def ends_with_visitor(
    page: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """The page, whose work is cancelled when who asked for it closes the connection."""

    async def endpoint(request: Request) -> Response:
        work = asyncio.ensure_future(page(request))
        gone = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else Response(status_code=CLIENT_CLOSED)
        finally:
            gone.cancel()
            work.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    return endpoint


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
