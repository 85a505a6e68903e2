"""Costly work has its turn: nobody keeps all others out, nobody waits for ever, and it ends with who asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

pytest.importorskip("starlette")

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kavka.console.access.headers import SecurityHeaders
from kavka.console.access.turns import (
    OF_ONE_VISITOR,
    WAITING_OF_ONE,
    TooBusy,
    Turns,
    ends_with_visitor,
)

LONG_S = 60.0


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG_S):
        while not is_so():  # noqa: ASYNC110 - of a server's objects, which have no event
            await asyncio.sleep(0.01)


async def take(turns: Turns, visitor: str, release: asyncio.Event, running: list[str]) -> None:
    async with turns.turn(visitor):
        running.append(visitor)
        await release.wait()
        running.remove(visitor)


def test_one_visitor_leaves_room_for_others_and_is_sent_away_after_some_that_wait() -> None:
    async def run() -> None:
        turns, release = Turns(4, patience_s=LONG_S), asyncio.Event()
        running: list[str] = []
        many = [
            asyncio.create_task(take(turns, "ada", release, running)) for _ in range(OF_ONE_VISITOR + WAITING_OF_ONE)
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy, match="searches of yours are under way"):
            await take(turns, "ada", release, running)
        other = asyncio.create_task(take(turns, "eve", release, running))
        await until(lambda: "eve" in running)
        assert sorted(running) == ["ada"] * OF_ONE_VISITOR + ["eve"]
        release.set()
        await asyncio.gather(*many, other)
        assert turns.visitors == 0

    asyncio.run(run())


def test_who_waits_too_long_is_told_so_and_takes_no_place() -> None:
    async def run() -> None:
        turns, release = Turns(1, patience_s=0.01), asyncio.Event()
        running: list[str] = []
        first = asyncio.create_task(take(turns, "ada", release, running))
        await until(lambda: running == ["ada"])
        for visitor in ("ada", "eve"):
            with pytest.raises(TooBusy, match=r"within 0.01 s"):
                await take(turns, visitor, release, running)
        release.set()
        await first
        assert turns.visitors == 0
        await take(turns, "eve", release, running)

    asyncio.run(run())


def test_what_is_cancelled_while_it_runs_or_waits_gives_its_turn_to_the_next() -> None:
    async def run() -> None:
        turns, release = Turns(1, patience_s=LONG_S), asyncio.Event()
        running: list[str] = []
        left = [asyncio.create_task(take(turns, "ada", release, running)) for _ in range(3)]
        await until(lambda: running == ["ada"])
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        release.set()
        async with asyncio.timeout(LONG_S):
            await take(turns, "eve", release, [])
        assert turns.visitors == 0

    asyncio.run(run())


# --------------------------------------------------------------------------------------- with a server and connections


class Site:
    """A page whose work never ends by itself, and one that answers at once."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0

    async def slow(self, request: Request) -> Response:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
        raise AssertionError("nobody sets this event")

    async def quick(self, request: Request) -> Response:
        return PlainTextResponse("found")


@asynccontextmanager
async def served(site: Site) -> AsyncIterator[int]:
    """The port."""
    routes = [Route("/slow", ends_with_visitor(site.slow)), Route("/quick", ends_with_visitor(site.quick))]
    app = Starlette(routes=routes, middleware=[Middleware(SecurityHeaders)])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def ask(port: int, path: str, stack: AsyncExitStack) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    stack.callback(writer.close)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return reader, writer


def test_work_ends_when_who_asked_for_it_closes_the_connection() -> None:
    async def run() -> None:
        site = Site()
        async with served(site) as port, AsyncExitStack() as stack:
            writers = [(await ask(port, "/slow", stack))[1] for _ in range(8)]
            await until(lambda: site.begun == 8)
            for writer in writers:
                writer.close()
            await until(lambda: site.cancelled == 8)
            reader, writer = await ask(port, "/quick", stack)
            assert b"found" in await reader.readuntil(b"found")

    asyncio.run(run())
