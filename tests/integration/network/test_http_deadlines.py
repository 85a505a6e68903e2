"""Peers of the console and of the schema registry that are silent, slow, or do not read."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from kavka.runtime.http import http_deadlines, http_server
from kavka.runtime.http.http_deadlines import TimedHttp
from kavka.runtime.http.http_server import configuration
from kavka.runtime.loop import new_event_loop
from kavka.runtime.tls.server_tls import ServerTls, ServerTlsSettings
from tests.kit.certificates import Authority

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
PIECE = bytes(100_000)
SOME = bytes(60_000)
"""More than the sockets of `test_who_does_not_read_a_short_answer_is_cut_off` hold, and less than would make the server
stop to write."""


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Waits for a while, or answers with more than a connection holds, or with some."""
    if scope["path"] == "/slow":
        await asyncio.sleep(0.6)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(500 if scope["path"] == "/much" else 0):
        await send({"type": "http.response.body", "body": PIECE, "more_body": True})
    await send({"type": "http.response.body", "body": SOME if scope["path"] == "/some" else b"done"})


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_deadlines, "HEAD_S", 0.3)
    monkeypatch.setattr(http_deadlines, "UNREAD_S", 0.3)


@asynccontextmanager
async def served() -> AsyncIterator[tuple[str, int]]:
    """The application, served as the console is. Who connects before it accepts waits in the socket's queue."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(configuration(app))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        yield listening.getsockname()
        server.should_exit = True
        await serving


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the connection ends."""
    async with asyncio.timeout(20):
        return await reader.read()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    return await ended(reader)


async def trickling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """A byte from time to time never comes to an end."""

    async def trickle() -> None:
        writer.write(b"GET / HTTP/1.1\r\nx: ")
        while True:
            writer.write(b"y")
            await asyncio.sleep(0.02)

    task = asyncio.create_task(trickle())
    try:
        return await ended(reader)
    except ConnectionResetError:
        return b""  # The byte that crosses the end of the connection is answered so.
    finally:
        task.cancel()


async def half_of_the_next(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(HEAD)
    first = await reader.readuntil(b"0\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200")
    writer.write(HEAD[:10])
    return await ended(reader)


@pytest.mark.parametrize("peer", [silent, trickling, half_of_the_next])
def test_who_sends_no_whole_head_is_closed(peer: Callable[..., object]) -> None:
    async def scenario() -> None:
        async with served() as address:
            assert await peer(*await asyncio.open_connection(*address)) == b""  # type: ignore[misc] # each is one

    asyncio.run(scenario())


def test_an_answer_may_take_longer_than_a_head() -> None:
    async def scenario() -> None:
        async with served() as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(HEAD.replace(b"GET /", b"GET /slow"))
            assert (await ended(reader)).endswith(b"done\r\n0\r\n\r\n")

    asyncio.run(scenario())


def test_who_does_not_read_the_answer_is_cut_off() -> None:
    async def scenario() -> None:
        async with served() as address:
            reader, writer = await asyncio.open_connection(*address, limit=1_000)
            writer.write(HEAD.replace(b"GET /", b"GET /much"))
            await asyncio.sleep(1.5)
            assert len(await ended(reader)) < 400 * len(PIECE), "what was on its way already, and no more"

    asyncio.run(scenario())


@pytest.mark.parametrize("rest", [b"\r\n", b"connection: close\r\n\r\n"], ids=["keeps", "closes"])
def test_who_does_not_read_a_short_answer_is_cut_off(rest: bytes) -> None:
    """The server has written all of it, and closes the connection when it is idle: not before the peer has read."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as peer:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            settings = configuration(app)
            settings.timeout_keep_alive = 0
            server = uvicorn.Server(settings)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            peer.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(peer, listening.getsockname())
            await loop.sock_sendall(peer, HEAD.replace(b"GET /", b"GET /some").removesuffix(b"\r\n") + rest)
            async with asyncio.timeout(10):
                while not server.server_state.total_requests:  # noqa: ASYNC110 - uvicorn is asked
                    await asyncio.sleep(0.01)
                while server.server_state.connections:  # noqa: ASYNC110 - uvicorn is asked
                    await asyncio.sleep(0.05)
            server.should_exit = True
            await serving

    asyncio.run(scenario())


def test_a_large_answer_that_is_read_is_whole() -> None:
    async def scenario() -> None:
        async with served() as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(HEAD.replace(b"GET /", b"GET /much"))
            assert len(await ended(reader)) > 500 * len(PIECE)

    asyncio.run(scenario())


def test_applications_are_served_so() -> None:
    assert configuration(app).http is TimedHttp


def test_thousands_of_silent_connections_shut_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """For ten seconds at a time all places were theirs, and they came back."""
    monkeypatch.setattr(http_deadlines, "HEAD_S", 60.0)
    monkeypatch.setattr(http_deadlines, "MOST_CONNECTIONS", 5)

    async def scenario() -> None:
        async with served() as place:
            asked_reader, asked = await asyncio.open_connection(*place)
            asked.write(HEAD.replace(b" / ", b" /slow "))
            await asyncio.sleep(0.1)
            silent_ones = [await asyncio.open_connection(*place) for _ in range(20)]
            async with asyncio.timeout(20):
                for reader, _ in silent_ones[:15]:
                    assert await reader.read() == b""
                # The last ones are still there, and so is who asked for something before them.
                _, last = silent_ones[-1]
                last.write(HEAD)
                assert b"200" in await silent_ones[-1][0].readuntil(b"0\r\n\r\n")
                assert b"200" in await asked_reader.readuntil(b"0\r\n\r\n")
            for _, writer in [*silent_ones, (asked_reader, asked)]:
                writer.close()

    asyncio.run(scenario())


def test_who_sends_too_many_requests_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    configuration(app)
    log = logging.getLogger("uvicorn.error")
    for _ in range(100):
        log.warning("Exceeded concurrency limit.")
        log.warning("another line")
    said = [each.getMessage() for each in caplog.records]
    assert said.count("Exceeded concurrency limit.") <= 1
    assert said.count("another line") == 100


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop])
def test_connections_that_never_speak_tls_shut_nobody_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """A thousand of them took all descriptors of the process for a minute, without a login."""
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 5)
    authority = Authority()
    tls = ServerTls(ServerTlsSettings(certificate=str(authority.sign("console").write(tmp_path / "console.pem"))))
    (tmp_path / "authority.pem").write_text(authority.certificate)
    trusted = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))

    async def scenario() -> None:
        before = len(os.listdir("/proc/self/fd"))
        bound = socket.create_server(("127.0.0.1", 0))
        place = bound.getsockname()
        ready = asyncio.Event()
        serving = asyncio.create_task(
            http_server.serve_application(configuration(app), bound, tls=tls, on_ready=ready.set)
        )
        async with asyncio.timeout(60):
            await ready.wait()
            asked_reader, asked = await asyncio.open_connection(*place, ssl=trusted, server_hostname="localhost")
            asked.write(HEAD.replace(b" / ", b" /slow "))
            silent_ones = [await asyncio.open_connection(*place) for _ in range(20)]
            for reader, _ in silent_ones[:15]:
                assert await reader.read() == b""
            # A listener, both sides of 5 connections, and this side of those that were ended.
            while len(os.listdir("/proc/self/fd")) > before + 1 + 2 * 6 + 15:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)
            reader, writer = await asyncio.open_connection(*place, ssl=trusted, server_hostname="localhost")
            writer.write(HEAD)
            assert b"200" in await reader.readuntil(b"0\r\n\r\n")
            assert b"200" in await asked_reader.readuntil(b"0\r\n\r\n")
        for each in [writer, asked, *(found for _, found in silent_ones)]:
            each.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())
