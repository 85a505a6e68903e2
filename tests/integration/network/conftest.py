"""A socket server with a handler of the test's own, on a loop in a thread, and plain blocking clients for it."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator
from struct import pack, unpack
from typing import Any, TypeVar

import pytest
import structlog

from kavka.errors import InvariantViolation
from kavka.metrics import Registry
from kavka.protocol.connection import Handler
from kavka.runtime.loop import new_event_loop
from kavka.runtime.network.processor_ports import ConnectionLimits
from kavka.runtime.network.socket_server import ListenerLimits, SocketAcceptor, SocketServer, SocketServerLimits

Result = TypeVar("Result")


class Client:
    """A blocking client of a few lines, which checks nothing that the test does not ask for."""

    def __init__(self, port: int, *, receive_buffer_bytes: int = 0, host: str = "127.0.0.1") -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(60)
        if host != "127.0.0.1":
            self.socket.bind((host, 0))
        self.socket.connect(("127.0.0.1", port))

    def send(self, correlation_id: int, body: bytes = b"") -> None:
        self.socket.sendall(request_bytes(correlation_id, body))

    def receive_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.socket.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise EOFError(f"closed after {len(data)} of {count} bytes")
            data += piece
        return bytes(data)

    def answer(self) -> tuple[int, bytes]:
        """(correlation id, body) of the next answer."""
        length, correlation_id = unpack(">ii", self.receive_exactly(8))
        return correlation_id, self.receive_exactly(length - 4)

    def ask(self, correlation_id: int, body: bytes = b"") -> bytes:
        self.send(correlation_id, body)
        answered, answer = self.answer()
        assert answered == correlation_id
        return answer

    def is_closed_by_server(self) -> bool:
        """Waits for the end of the stream; False where something else came."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()


def request_bytes(correlation_id: int, body: bytes = b"") -> bytes:
    header = pack(">hhih", 18, 0, correlation_id, 4) + b"test"
    return pack(">i", len(header) + len(body)) + header + body


class RunningServer:
    """The server on its loop in a thread."""

    def __init__(self, handler: Handler, **limits: Any) -> None:
        connection = {name: limits.pop(name) for name in list(limits) if name in ConnectionLimits.__slots__}
        of_listener = {each.name for each in dataclasses.fields(ListenerLimits)}
        listener = {name: limits.pop(name) for name in list(limits) if name in of_listener}
        self.limits = SocketServerLimits(
            connection=ConnectionLimits(**connection), listener=ListenerLimits(**listener), **limits
        )
        self.registry = Registry()
        self.halted: list[InvariantViolation] = []
        self.loop = new_event_loop()
        self.acceptor: SocketAcceptor
        self.server: SocketServer
        self.clients: list[Client] = []
        self._stopped = False
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.call(lambda: self._start(handler))

    def _start(self, handler: Handler) -> None:
        self.server = SocketServer(
            self.loop,
            handler,
            limits=self.limits,
            registry=self.registry,
            api_name=lambda key: f"api-{key}",
            on_halt=self.halted.append,
        )
        self.acceptor = self.server.listen("PLAINTEXT", "127.0.0.1", 0)
        self.acceptor.start()

    @property
    def port(self) -> int:
        return self.acceptor.port

    def call(self, function: Callable[[], Result]) -> Result:
        """Runs `function` on the server's loop."""

        async def run() -> Result:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def connect(self, *, port: int | None = None, **options: Any) -> Client:
        client = Client(self.port if port is None else port, **options)
        self.clients.append(client)
        return client

    def stop(self, grace_s: float = 1.0) -> None:
        if self._stopped:
            return
        self._stopped = True
        asyncio.run_coroutine_threadsafe(self.server.stop(grace_s), self.loop).result(60)
        for client in self.clients:
            client.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


StartServer = Callable[..., RunningServer]


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """start_server(handler, **limits): limits of the connections, the listener or the server, by their names."""
    started: list[RunningServer] = []

    def start(handler: Handler, **limits: Any) -> RunningServer:
        started.append(RunningServer(handler, **limits))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def log_lines() -> Iterator[list[Any]]:
    """The lines that are logged during the test."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """eventually(condition): waits up to 60 s for it."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            time.sleep(0.005)

    return wait
