"""Requests and answers over real sockets: order, sizes, awaitables, file slices."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from kavka.errors import InvariantViolation, ProtocolViolation, StorageError
from kavka.model import FileSlice
from kavka.protocol.connection import CLOSE_CONNECTION, NO_RESPONSE, Request, Response, silence

Eventually = Callable[[Callable[[], bool]], None]


class OpenFile:
    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._descriptor = os.open(path, os.O_RDONLY)

    def fileno(self) -> int:
        return self._descriptor

    def read_at(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def __del__(self) -> None:
        os.close(self._descriptor)


def request_bytes(correlation_id: int, body: bytes = b"") -> bytes:
    header = pack(">hhih", 18, 0, correlation_id, 4) + b"test"
    return pack(">i", len(header) + len(body)) + header + body


def echo(request: Request) -> Response:
    return Response((bytes(request.body),))


@pytest.fixture(params=[1, 2], ids=["own-loop", "threads"])
def network_threads(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_a_request_is_answered(start_server: Any, network_threads: int) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return echo(request)

    server = start_server(handler, network_threads=network_threads)
    client = server.connect()
    assert client.ask(5, b"hello") == b"hello"
    host, port = client.socket.getsockname()
    context = seen[0].context
    assert (context.client_host, context.client_port, context.listener_name) == (host, port, "PLAINTEXT")
    assert context.connection_id == f"127.0.0.1:{server.port}-127.0.0.1:{port}-0"


def test_pipelined_requests_are_answered_in_order(start_server: Any, network_threads: int) -> None:
    client = start_server(echo, network_threads=network_threads).connect()
    bodies = [b"%d" % index * (index % 50) for index in range(3000)]
    sender = threading.Thread(
        target=client.socket.sendall, args=(b"".join(request_bytes(i, body) for i, body in enumerate(bodies)),)
    )
    sender.start()
    for index, body in enumerate(bodies):
        assert client.answer() == (index, body)
    sender.join()


def test_bytes_that_come_one_by_one_are_a_request(start_server: Any) -> None:
    client = start_server(echo).connect()
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in request_bytes(1, b"slow"):
        client.socket.sendall(bytes([byte]))
    assert client.answer() == (1, b"slow")


def test_large_requests_of_several_connections_arrive_whole(start_server: Any, network_threads: int) -> None:
    server = start_server(echo, network_threads=network_threads)
    clients = [server.connect() for _ in range(4)]
    bodies = [os.urandom(3_000_000 + index) for index in range(4)]

    def exchange(index: int) -> None:
        for turn in range(3):
            sender = threading.Thread(target=clients[index].send, args=(turn, bodies[index]))
            sender.start()
            if clients[index].answer() != (turn, bodies[index]):
                wrong.append(index)
            sender.join()

    wrong: list[int] = []
    threads = [threading.Thread(target=exchange, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_later_requests_go_on_while_an_earlier_one_waits(
    start_server: Any, network_threads: int, eventually: Eventually
) -> None:
    waiting: list[asyncio.Future[Response]] = []
    handled: list[int] = []

    def handler(request: Request) -> Any:
        handled.append(request.header.correlation_id)
        if request.body == b"wait":
            waiting.append(asyncio.get_running_loop().create_future())
            return waiting[-1]
        return echo(request)

    server = start_server(handler, network_threads=network_threads)
    client = server.connect()
    client.socket.sendall(request_bytes(0, b"wait") + request_bytes(1, b"wait") + request_bytes(2, b"now"))
    eventually(lambda: len(handled) == 3)
    server.call(lambda: waiting[1].set_result(Response((b"second",))))
    client.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(60)
    server.call(lambda: waiting[0].set_result(Response((b"first",))))
    assert [client.answer() for _ in range(3)] == [(0, b"first"), (1, b"second"), (2, b"now")]


def test_a_coroutine_keeps_its_request_while_others_come(start_server: Any, network_threads: int) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.02)
        return echo(request)

    server = start_server(handler, network_threads=network_threads)
    clients = [server.connect() for _ in range(5)]
    for turn in range(3):
        for index, client in enumerate(clients):
            client.send(turn, b"%d-%d" % (turn, index) * (10 if index % 2 else 30_000))
    for turn in range(3):
        for index, client in enumerate(clients):
            assert client.answer() == (turn, b"%d-%d" % (turn, index) * (10 if index % 2 else 30_000))


def test_no_answer_is_sent_where_none_is_wanted(start_server: Any) -> None:
    client = start_server(lambda request: NO_RESPONSE if request.body == b"quiet" else echo(request)).connect()
    client.socket.sendall(request_bytes(0, b"quiet") + request_bytes(1, b"loud"))
    assert client.answer() == (1, b"loud")


def test_a_handler_may_close_the_connection_after_the_answers_before(start_server: Any, network_threads: int) -> None:
    seen: list[bytes] = []

    def handler(request: Request) -> Response:
        seen.append(bytes(request.body))
        return CLOSE_CONNECTION if request.body == b"bad" else echo(request)

    client = start_server(handler, network_threads=network_threads).connect()
    client.socket.sendall(request_bytes(0, b"good") + request_bytes(1, b"bad") + request_bytes(2, b"late"))
    assert client.answer() == (0, b"good")
    assert client.is_closed_by_server()
    if network_threads == 1:
        assert seen == [b"good", b"bad"]


@pytest.mark.parametrize("receive_buffer_bytes", [4096, 0])
def test_file_slices_arrive_as_they_are_in_the_file(
    start_server: Any, network_threads: int, tmp_path: Path, receive_buffer_bytes: int
) -> None:
    content = os.urandom(6_000_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    file = OpenFile(path)

    def handler(request: Request) -> Response:
        return Response(
            (
                b"head",
                FileSlice(file, 100, 5_000_000),
                b"between",
                FileSlice(file, 10, 50),
                FileSlice(file, 7, 0),
                b"",
                FileSlice(file, 5_500_000, 20_000),
                memoryview(b"end"),
            )
        )

    wanted = b"".join(
        [b"head", content[100:5_000_100], b"between", content[10:60], content[5_500_000:5_520_000], b"end"]
    )
    server = start_server(handler, network_threads=network_threads, send_buffer_bytes=100_000)
    client = server.connect(receive_buffer_bytes=receive_buffer_bytes)
    client.socket.sendall(request_bytes(1) + request_bytes(2))
    assert client.answer() == (1, wanted)
    assert client.answer() == (2, wanted)


def test_many_pieces_arrive_in_order(start_server: Any) -> None:
    pieces = [b"%06d" % index * 20 for index in range(5000)]
    client = start_server(lambda request: Response(pieces), send_buffer_bytes=8000).connect(receive_buffer_bytes=4096)
    assert client.ask(1) == b"".join(pieces)


def test_a_file_that_is_too_short_ends_the_connection_with_a_log_line(
    start_server: Any, tmp_path: Path, log_lines: list[Any]
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(100_000))
    file = OpenFile(path)
    slices = {b"long": FileSlice(file, 50_000, 100_000), b"short": FileSlice(file, 99_990, 100)}
    server = start_server(lambda request: Response((b"head", slices[bytes(request.body)])))
    for body in (b"long", b"short"):
        client = server.connect()
        client.send(1, body)
        with pytest.raises(EOFError):
            client.answer()
    assert [line["event"] for line in log_lines] == ["connection closed: a segment is shorter than its answer says"] * 2


def test_a_file_that_cannot_be_read_ends_the_connection_with_a_log_line(
    start_server: Any, tmp_path: Path, log_lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(100_000))

    class BrokenFile(OpenFile):
        def read_at(self, position: int, length: int) -> bytes:
            raise StorageError(str(path), "Input/output error")

    def fail(*_arguments: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "sendfile", fail)
    slices = {b"short": FileSlice(BrokenFile(path), 0, 1000), b"long": FileSlice(OpenFile(path), 0, 100_000)}
    server = start_server(
        lambda request: echo(request) if request.body == b"still" else Response((b"head", slices[bytes(request.body)]))
    )
    good = server.connect()
    for body in slices:
        bad = server.connect()
        bad.send(1, body)
        with pytest.raises(EOFError):
            bad.answer()
        assert good.ask(1, b"still") == b"still"
        line = log_lines.pop()
        assert line["event"] == "connection closed: a segment cannot be read"
        assert line["why"] == f"{path}: Input/output error"
    assert log_lines == []


def test_a_failing_handler_harms_only_its_own_connection(
    start_server: Any, network_threads: int, log_lines: list[Any], eventually: Eventually
) -> None:
    async def later() -> Response:
        raise LookupError("later")

    def handler(request: Request) -> Any:
        if request.body == b"now":
            raise LookupError("now")
        return later() if request.body == b"later" else echo(request)

    server = start_server(handler, network_threads=network_threads)
    good = server.connect()
    for kind in (b"now", b"later"):
        bad = server.connect()
        bad.socket.sendall(request_bytes(0, b"fine") + request_bytes(1, kind))
        assert bad.answer() == (0, b"fine")
        assert bad.is_closed_by_server()
        assert good.ask(1, b"still") == b"still"
    assert [(line["event"], line["request"], line["correlation_id"]) for line in log_lines] == [
        ("connection closed: request failed", "api-18", 1)
    ] * 2
    eventually(lambda: server.server.connection_count == 1)


def test_a_request_that_its_handler_cannot_read_closes_the_connection_with_a_short_line(
    start_server: Any, network_threads: int, log_lines: list[Any]
) -> None:
    def handler(request: Request) -> Response:
        raise ProtocolViolation("a string ends too early")

    client = start_server(handler, network_threads=network_threads).connect()
    client.send(1)
    assert client.is_closed_by_server()
    (line,) = log_lines
    assert line["log_level"] == "warning"
    assert (line["event"], line["request"]) == ("connection closed: no request of Kafka's protocol", "api-18")
    assert line["why"] == "a string ends too early"
    assert "exc_info" not in line


def test_a_broken_invariant_stops_the_serving_and_is_told(
    start_server: Any, network_threads: int, eventually: Eventually
) -> None:
    def handler(request: Request) -> Response:
        raise InvariantViolation("the high watermark went back")

    server = start_server(handler, network_threads=network_threads)
    client = server.connect()
    client.send(1)
    eventually(lambda: len(server.halted) == 1)
    if network_threads == 1:
        assert client.is_closed_by_server()


def test_a_throttled_client_is_read_again_after_its_time(start_server: Any) -> None:
    times: list[float] = []
    loop_time: list[Callable[[], float]] = []

    def handler(request: Request) -> Response:
        loop = asyncio.get_running_loop()
        loop_time.append(loop.time)
        times.append(loop.time())
        return Response((b"",), mute_ms=150 if request.header.correlation_id == 0 else 0)

    client = start_server(handler).connect()
    client.ask(0)  # The answer itself is not held back.
    client.ask(1)
    assert times[1] - times[0] >= 0.14


def test_a_client_is_throttled_until_the_longest_of_its_delays_is_over(start_server: Any) -> None:
    times: list[float] = []

    async def later() -> Response:
        await asyncio.sleep(0.05)
        return Response((b"",), mute_ms=50)

    def handler(request: Request) -> Any:
        times.append(asyncio.get_running_loop().time())
        if request.header.correlation_id == 1:
            return later()  # Its delay begins, and ends, while the connection is muted for another answer's.
        return Response((b"",), mute_ms=400 if request.header.correlation_id == 0 else 0)

    client = start_server(handler).connect()
    client.socket.sendall(request_bytes(0) + request_bytes(1))
    assert [client.answer()[0], client.answer()[0]] == [0, 1]
    client.ask(2)
    assert times[2] - times[0] >= 0.39


def test_a_client_that_gets_no_answer_is_throttled_as_well(
    start_server: Any, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    times: list[float] = []

    def handler(request: Request) -> Response:
        times.append(asyncio.get_running_loop().time())
        return silence(200) if request.header.correlation_id == 0 else Response((b"",))

    client = start_server(handler).connect()
    client.send(0)
    eventually(lambda: len(times) == 1)
    client.ask(1)
    assert times[1] - times[0] >= 0.19


def test_the_requests_of_each_api_and_version_are_counted(start_server: Any, network_threads: int) -> None:
    async def later(request: Request) -> Response:
        await asyncio.sleep(0.01)
        return Response((b"",))

    server = start_server(
        lambda request: later(request) if request.body == b"later" else Response((b"",)),
        network_threads=network_threads,
    )
    client = server.connect()
    for index in range(10):
        client.ask(index)
    client.ask(10, b"later")

    def metric(name: str, **tags: str) -> Any:
        return server.registry.get("kafka.network", "RequestMetrics", name, request="api-18", **tags)

    assert metric("RequestsPerSec", version="0").value == 11
    for name in ("RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ResponseQueueTimeMs", "TotalTimeMs"):
        assert metric(name).count == 11, name
    assert metric("RemoteTimeMs").maximum >= 9
    assert metric("TotalTimeMs").maximum >= 9
    assert metric("LocalTimeMs").percentile(0.5) < 9


def test_a_client_that_goes_away_is_forgotten_and_its_late_answer_dropped(
    start_server: Any, network_threads: int, eventually: Eventually
) -> None:
    waiting: list[asyncio.Future[Response]] = []

    def handler(request: Request) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    server = start_server(handler, network_threads=network_threads)
    client = server.connect()
    client.send(1)
    eventually(lambda: len(waiting) == 1)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
    client.close()
    eventually(lambda: server.server.connection_count == 0)
    server.call(lambda: waiting[0].set_result(Response((b"late",))))
    other = server.connect()
    other.send(2)
    eventually(lambda: len(waiting) == 2)
    server.call(lambda: waiting[1].set_result(Response((b"fine",))))
    assert other.answer() == (2, b"fine")


def test_what_was_sent_before_a_half_close_is_answered(start_server: Any) -> None:
    client = start_server(echo).connect()
    client.socket.sendall(b"".join(request_bytes(index, b"x") for index in range(500)))
    client.socket.shutdown(socket.SHUT_WR)
    assert [client.answer()[0] for _ in range(500)] == list(range(500))
    assert client.is_closed_by_server()


def test_a_stop_lets_requests_in_flight_finish(start_server: Any, network_threads: int, eventually: Eventually) -> None:
    started: list[int] = []

    async def handler(request: Request) -> Response:
        started.append(1)
        await asyncio.sleep(0.2)
        return echo(request)

    server = start_server(handler, network_threads=network_threads)
    client, idle = server.connect(), server.connect()
    client.send(1, b"slow")
    eventually(lambda: len(started) == 1)
    stopping = asyncio.run_coroutine_threadsafe(server.server.stop(10), server.loop)
    assert client.answer() == (1, b"slow")
    assert client.is_closed_by_server()
    assert idle.is_closed_by_server()
    stopping.result(60)
    with pytest.raises(ConnectionRefusedError):
        server.connect()


def test_a_stop_does_not_wait_longer_than_its_grace(
    start_server: Any, network_threads: int, eventually: Eventually
) -> None:
    waiting: list[asyncio.Future[Response]] = []

    def handler(request: Request) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    server = start_server(handler, network_threads=network_threads)
    client = server.connect()
    client.send(1)
    eventually(lambda: len(waiting) == 1)
    server.stop(0.05)
    assert server.server.connection_count == 0 or network_threads > 1


@pytest.mark.setting("control.plane.listener.name", "num.network.threads")
def test_the_controllers_requests_do_not_go_through_the_channel_of_the_network_threads(start_server: Any) -> None:
    server = start_server(echo, network_threads=2)
    control = server.call(lambda: server.server.listen("CONTROL", "127.0.0.1", 0, is_control_plane=True))
    server.call(control.start)

    def longest_wait_ms() -> float:
        times = server.registry.get("kafka.network", "RequestMetrics", "RequestQueueTimeMs", request="api-18")
        return 0.0 if times is None else float(times.maximum)

    client = server.connect(port=control.port)
    assert [client.ask(number, b"x") for number in range(20)] == [b"x"] * 20
    assert longest_wait_ms() == 0
    assert server.connect().ask(1, b"y") == b"y"
    assert longest_wait_ms() > 0
