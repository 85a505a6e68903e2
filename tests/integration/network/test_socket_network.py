"""Outgoing connections: frames both ways, failures, bounds."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable
from struct import pack
from typing import Any

import pytest

from kavka.errors import ConnectionFailed, FrameTooLarge, HostUnknown
from kavka.protocol.connection import Request, Response
from kavka.runtime.loop import run
from kavka.runtime.network.network import QUEUED_BYTES, RECEIVED_BYTES, SocketNetwork

HEADER = pack(">hhih", 18, 0, 9, 4) + b"test"


def echo(request: Request) -> Response:
    return Response((bytes(request.body),))


class Peer:
    """A listening socket whose one connection does what `behave` says, in a thread."""

    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run, args=(behave,), daemon=True)
        self._thread.start()

    def _run(self, behave: Callable[[socket.socket], None]) -> None:
        connected, _ = self._listening.accept()
        self._listening.close()
        with connected:
            behave(connected)


def test_frames_go_out_and_come_in(start_server: Any) -> None:
    server = start_server(echo)

    async def main() -> None:
        connection = await SocketNetwork().connect("localhost", server.port)
        for size in (0, 1, 100, 70_000, 3_000_000):
            body = os.urandom(size)
            connection.send_frame([HEADER, body[: size // 2], memoryview(body)[size // 2 :]])
            await connection.drain()
            assert await connection.receive_frame() == pack(">i", 9) + body
        for index in range(500):
            connection.send_frame([HEADER, b"%d" % index])
        assert [await connection.receive_frame() for _ in range(500)] == [
            pack(">i", 9) + b"%d" % index for index in range(500)
        ]
        connection.close()
        with pytest.raises(ConnectionFailed, match="closed here"):
            connection.send_frame([b"late"])

    run(main())


def test_a_refused_connection_is_named() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}"):
            run(SocketNetwork().connect("127.0.0.1", port))


def test_a_host_without_address_is_named() -> None:
    with pytest.raises(ConnectionFailed, match=r"no\.such\.host\.invalid"):
        run(SocketNetwork().connect("no.such.host.invalid", 9092))


@pytest.mark.parametrize("name", ["broker..example", f"{'b' * 64}.example"])
def test_what_cannot_be_the_name_of_a_host_is_unknown_like_any_other(name: str) -> None:
    with pytest.raises(HostUnknown, match=f"{name} cannot be resolved"):
        run(SocketNetwork().connect(name, 9092))


def test_an_attempt_without_answer_ends_in_time() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        queued = [socket.socket() for _ in range(4)]
        for one in queued:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        began = time.monotonic()
        with pytest.raises(ConnectionFailed, match=r"no answer from .* in 0\.2 s"):
            run(SocketNetwork(connect_timeout_s=0.2).connect("127.0.0.1", port))
        assert time.monotonic() - began < 10
        for one in queued:
            one.close()


def test_frames_before_the_end_are_given_out_and_then_the_failure() -> None:
    peer = Peer(lambda connected: connected.sendall(pack(">i", 3) + b"one" + pack(">i", 3) + b"two" + pack(">i", 99)))

    async def main() -> None:
        connection = await SocketNetwork().connect("127.0.0.1", peer.port)
        assert await connection.receive_frame() == b"one"
        assert await connection.receive_frame() == b"two"
        for _ in range(2):
            with pytest.raises(ConnectionFailed, match="closed the connection"):
                await connection.receive_frame()

    run(main())


def test_a_frame_over_the_limit_ends_the_connection() -> None:
    peer = Peer(lambda connected: connected.sendall(pack(">i", 3) + b"one" + pack(">i", 2000)))

    async def main() -> None:
        connection = await SocketNetwork().connect("127.0.0.1", peer.port, max_frame_bytes=1000)
        assert await connection.receive_frame() == b"one"
        with pytest.raises(FrameTooLarge):
            await connection.receive_frame()

    run(main())


def test_drain_waits_for_a_peer_that_does_not_read() -> None:
    go_on = threading.Event()
    total = 40 * 1024 * 1024
    received: list[int] = []

    def behave(connected: socket.socket) -> None:
        go_on.wait(60)
        count = 0
        while count < total + 4 * 40:
            count += len(connected.recv(1 << 20))
        received.append(count)
        connected.sendall(pack(">i", 0))

    peer = Peer(behave)

    async def main() -> None:
        connection = await SocketNetwork().connect("127.0.0.1", peer.port)
        for _ in range(40):
            connection.send_frame([bytes(1024 * 1024)])
        assert connection.queued_bytes > QUEUED_BYTES
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.drain(), 0.1)
        go_on.set()
        await connection.drain()
        assert connection.queued_bytes <= QUEUED_BYTES
        assert await connection.receive_frame() == b""
        assert received == [total + 4 * 40]

    run(main())


def test_reading_stops_while_nobody_takes_the_frames() -> None:
    sent: list[int] = []
    frame = pack(">i", 1 << 20) + bytes(1 << 20)

    def behave(connected: socket.socket) -> None:
        connected.settimeout(60)
        for _ in range(60):
            connected.sendall(frame)
            sent.append(1)

    peer = Peer(behave)

    async def main() -> None:
        connection = await SocketNetwork().connect("127.0.0.1", peer.port)
        before = -1
        while len(sent) != before or not sent:
            before = len(sent)
            await asyncio.sleep(0.2)
        assert before < 60
        assert connection.received_bytes <= RECEIVED_BYTES + (1 << 20)
        for _ in range(60):
            assert len(await connection.receive_frame()) == 1 << 20

    run(main())


def test_a_reset_while_waiting_is_a_failure() -> None:
    def behave(connected: socket.socket) -> None:
        connected.recv(4)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))

    peer = Peer(behave)

    async def main() -> None:
        connection = await SocketNetwork().connect("127.0.0.1", peer.port)
        connection.send_frame([b"x"])
        with pytest.raises(ConnectionFailed):
            await connection.receive_frame()

    run(main())


def test_a_reset_behind_what_was_received_is_a_failure_at_once() -> None:
    """What was received and the reset come in one event of the loop, the last one that there is."""
    is_connected, has_reset = threading.Event(), threading.Event()

    def behave(connected: socket.socket) -> None:
        is_connected.wait(60)
        connected.sendall(pack(">i", 3) + b"one" + pack(">i", 99) + b"half")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
        connected.close()
        has_reset.set()

    peer = Peer(behave)

    async def main() -> None:
        connection = await SocketNetwork().connect("127.0.0.1", peer.port)
        is_connected.set()
        assert has_reset.wait(60)  # The loop stands still meanwhile.
        async with asyncio.timeout(10):
            assert await connection.receive_frame() == b"one"
            with pytest.raises(ConnectionFailed, match="reset"):
                await connection.receive_frame()

    run(main())


@pytest.mark.parametrize("resets", [True, False])
def test_what_is_under_way_when_a_resetting_connection_closes_never_arrives(resets: bool) -> None:
    closed = threading.Event()
    endings: list[str] = []

    def read_late(connected: socket.socket) -> None:
        closed.wait(60)
        time.sleep(0.05)
        try:
            while connected.recv(1 << 20):
                pass
            endings.append("all that was sent")
        except ConnectionResetError:
            endings.append("reset")

    peer = Peer(read_late)

    async def main() -> None:
        connection = await SocketNetwork(resets=resets).connect("127.0.0.1", peer.port)
        connection.send_frame([bytes(64 << 20)])  # more than the kernel takes at either end
        await asyncio.sleep(0.05)
        connection.close()

    run(main())
    closed.set()
    peer._thread.join(60)

    assert endings == ["reset" if resets else "all that was sent"]
