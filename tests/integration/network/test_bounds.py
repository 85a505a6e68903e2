"""Every bound of the network room, reached."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from kavka.errors import ConfigError
from kavka.protocol.connection import ConnectionContext, Request, Response, ServerConnection
from kavka.runtime.network import memory_shortage
from kavka.runtime.network.socket_connection import SHARED_BYTES

Eventually = Callable[[Callable[[], bool]], None]


def request_bytes(correlation_id: int, body: bytes = b"") -> bytes:
    header = pack(">hhih", 18, 0, correlation_id, 4) + b"test"
    return pack(">i", len(header) + len(body)) + header + body


def echo(request: Request) -> Response:
    return Response((bytes(request.body),))


class Waiting:
    """A handler whose answers wait until the test lets them go."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[Response]] = []

    def __call__(self, request: Request) -> asyncio.Future[Response]:
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def let_go(self) -> None:
        for future in self.futures:
            if not future.done():
                future.set_result(Response((b"",)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"\xff\xff\xff\xf0", "negative length -16"),
        (pack(">i", 2000), "2000 bytes, over the 1000 of socket.request.max.bytes"),
        (pack(">ih", 2, 18), ""),
    ],
)
def test_what_is_no_request_closes_its_connection_with_one_line(
    start_server: Any, log_lines: list[Any], data: bytes, why: str
) -> None:
    server = start_server(echo, max_request_bytes=1000)
    good, bad = server.connect(), server.connect()
    bad.socket.sendall(request_bytes(1, b"before") + data)
    assert bad.answer() == (1, b"before")
    assert bad.is_closed_by_server()
    assert good.ask(2, b"fine") == b"fine"
    (line,) = log_lines
    assert line["event"] == "connection closed: no request of Kafka's protocol"
    assert why in line["why"]
    assert line["client"].startswith("127.0.0.1:")


def test_garbage_in_a_loop_does_not_fill_the_log(start_server: Any, log_lines: list[Any]) -> None:
    server = start_server(echo)
    for _ in range(40):
        client = server.connect()
        client.socket.sendall(b"\xff" * 100)
        assert client.is_closed_by_server()
        client.close()
    assert 10 <= len(log_lines) <= 20  # The minute may change during the test.


def test_a_request_that_stops_half_way_holds_little(start_server: Any, eventually: Eventually) -> None:
    server = start_server(echo)
    good = server.connect()
    for _ in range(50):
        server.connect().socket.sendall(pack(">i", 90 * 1024 * 1024) + b"some")
    pool = server.server._processor.pool
    eventually(lambda: bool(server.call(lambda: pool.lent_bytes == 50 * 4096)))
    assert good.ask(1, b"fine") == b"fine"
    for client in server.clients[1:]:
        client.close()
    eventually(lambda: bool(server.call(lambda: pool.lent_bytes == 0)))


@pytest.mark.parametrize("sent", [b"\0", pack(">i", 100) + b"some", request_bytes(1, b"quiet")])
@pytest.mark.parametrize("network_threads", [1, 2])
def test_a_connection_that_is_reset_behind_what_it_sent_is_closed(
    sent: bytes, network_threads: int, start_server: Any, eventually: Eventually
) -> None:
    """Its bytes and its end come in one event of the loop, the last one that there is."""
    server = start_server(lambda request: Response(()), network_threads=network_threads, max_idle_ms=-1)
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(sent)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
    server.connect()  # Accepted behind all the others.
    eventually(lambda: bool(server.server.connection_count == 1))


@pytest.mark.setting("kavka.max.in.flight.requests.per.connection")
def test_a_connection_has_no_more_requests_in_flight_than_it_may(start_server: Any, eventually: Eventually) -> None:
    waiting = Waiting()
    server = start_server(waiting, max_in_flight_requests=10)
    client = server.connect()
    client.socket.sendall(b"".join(request_bytes(index) for index in range(25)))
    eventually(lambda: len(waiting.futures) == 10)
    time.sleep(0.05)
    assert len(waiting.futures) == 10
    server.call(lambda: waiting.futures[0].set_result(Response((b"",))))
    assert client.answer() == (0, b"")
    eventually(lambda: len(waiting.futures) == 11)
    for _ in range(3):
        server.call(waiting.let_go)
        time.sleep(0.02)
    for index in range(1, 25):
        server.call(waiting.let_go)
        assert client.answer() == (index, b"")


@pytest.mark.setting("kavka.max.output.bytes.per.connection")
def test_a_client_that_does_not_read_is_not_read_either(start_server: Any, eventually: Eventually) -> None:
    handled: list[int] = []
    answer = bytes(50_000)

    def handler(request: Request) -> Response:
        handled.append(request.header.correlation_id)
        return Response((answer,))

    server = start_server(handler, max_output_bytes=200_000, send_buffer_bytes=20_000, receive_buffer_bytes=8_000)
    client = server.connect(receive_buffer_bytes=8_000)
    total = 3000
    sender = threading.Thread(
        target=lambda: [client.socket.sendall(request_bytes(index, bytes(1000))) for index in range(total)]
    )
    sender.start()
    # Four answers fill the bound; how many more the kernel takes off it is the kernel's matter.
    eventually(lambda: len(handled) >= 4)
    before = -1
    while len(handled) != before:
        before = len(handled)
        time.sleep(0.2)
    assert before < 200
    other = server.connect()
    assert len(other.ask(1)) == len(answer)
    for index in range(total):
        assert client.answer() == (index, answer)
    sender.join()


@pytest.mark.setting("kavka.max.receiving.bytes", "queued.max.request.bytes")
def test_half_received_requests_of_all_hold_no_more_than_they_may(start_server: Any) -> None:
    server = start_server(echo, max_receiving_bytes=1_000_000)
    clients = [server.connect() for _ in range(8)]
    body = os.urandom(700_000)
    wrong: list[int] = []

    def exchange(index: int) -> None:
        request = request_bytes(index, body)
        for start in range(0, len(request), 100_000):
            clients[index].socket.sendall(request[start : start + 100_000])
            time.sleep(0.002)
        if clients[index].answer() != (index, body):
            wrong.append(index)

    threads = [threading.Thread(target=exchange, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    largest = 0
    while any(thread.is_alive() for thread in threads):
        largest = max(largest, server.call(lambda: server.server._processor.pool.lent_bytes))
        time.sleep(0.001)
    assert not wrong
    # The step of the one that goes over it, and what arrived at first from each of the others.
    assert largest <= 1_000_000 + (1 << 20) + 8 * 100_000
    assert server.call(lambda: server.server._processor.pool.lent_bytes) == 0


def hold_a_part(server: Any, count: int) -> list[Any]:
    """Clients that send a large part of a request each; returns when it has arrived."""
    clients = [server.connect() for _ in range(count)]
    before = server.call(lambda: server.server._processor.pool.lent_bytes)
    for client in clients:
        client.socket.sendall(pack(">i", 900_000) + bytes(600_000))
    deadline = time.monotonic() + 60
    while server.call(lambda: server.server._processor.pool.lent_bytes) <= max(before, 1_000_000):
        assert time.monotonic() < deadline
    return clients


def test_a_request_that_trickles_does_not_keep_others_waiting(
    start_server: Any, log_lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is short, and one connection may go on: it brings a byte now and then, for ever."""
    monkeypatch.setattr(memory_shortage, "STARVING_S", 1.0)
    server = start_server(echo, max_receiving_bytes=1_000_000)
    slow = hold_a_part(server, 3)
    stop = threading.Event()

    def trickle() -> None:
        while not stop.wait(0.1):
            for client in slow:
                with contextlib.suppress(OSError):
                    client.socket.sendall(b"\0")

    trickling = threading.Thread(target=trickle)
    trickling.start()
    try:
        body = os.urandom(300_000)
        assert server.connect().ask(1, body) == body
    finally:
        stop.set()
        trickling.join()
    assert any("too slowly" in line["event"] for line in log_lines)


def test_a_long_request_that_goes_on_is_not_slow(start_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than silence may, and brings enough meanwhile."""
    monkeypatch.setattr(memory_shortage, "STARVING_S", 1.5)
    monkeypatch.setattr(memory_shortage, "SLOWEST_BYTES", 64 * 1024)
    server = start_server(echo, max_receiving_bytes=1_000_000)
    client = server.connect()
    body = bytes(3_000_000)
    request = request_bytes(1, body)
    for start in range(0, len(request), 100_000):
        client.socket.sendall(request[start : start + 100_000])
        time.sleep(0.06)
    assert client.answer() == (1, body)


def test_who_is_not_known_yet_gives_way_when_memory_is_short(start_server: Any, log_lines: list[Any]) -> None:
    """Half requests of clients that have to log in, and do not: who is in is served at once."""
    server = start_server(echo, max_receiving_bytes=2_000_000)
    good = server.connect()
    assert good.ask(1, b"a") == b"a"
    server.call(lambda: setattr(server.acceptor, "new_gate", lambda context: ClosedGate()))
    unknown = hold_a_part(server, 2)
    began = time.monotonic()
    body = os.urandom(1_500_000)
    assert good.ask(2, body) == body
    assert time.monotonic() - began < memory_shortage.STARVING_S
    assert any(client.is_closed_by_server() for client in unknown)
    assert any("has not said who it is" in line["event"] for line in log_lines)
    assert server.call(lambda: server.server._processor.shortage) is None


class ClosedGate:
    """A gate that nobody passes."""

    is_open = False
    max_frame_bytes = 1_000_000
    limit_name = "sasl.server.max.receive.size"
    failure_delay_ms = 0

    def on_violation(self, violation: Any) -> None:
        pass


@pytest.mark.setting("connections.max.idle.ms")
def test_an_idle_connection_is_closed_and_a_busy_one_is_not(start_server: Any, eventually: Eventually) -> None:
    waiting = Waiting()
    server = start_server(
        lambda request: waiting(request) if request.body == b"wait" else echo(request), max_idle_ms=1_500
    )
    idle, busy, waits = server.connect(), server.connect(), server.connect()
    waits.send(1, b"wait")
    closed: list[bool] = []
    watcher = threading.Thread(target=lambda: closed.append(idle.is_closed_by_server()))
    watcher.start()
    index = 0
    while not closed:
        index += 1
        assert busy.ask(index) == b""
        time.sleep(0.01)
    watcher.join()
    assert closed == [True]
    # The server's thread counts after it has closed, and the client may hear of that first.
    eventually(lambda: server.server.connection_count == 2)
    server.call(waiting.let_go)
    assert waits.answer() == (1, b"")
    assert waits.is_closed_by_server()


@pytest.mark.setting("connections.max.idle.ms")
def test_with_a_negative_bound_no_connection_is_too_idle(start_server: Any) -> None:
    """As in Apache Kafka, where -1 is how operators say never."""
    server = start_server(echo, max_idle_ms=-1)
    client = server.connect()
    for index in range(3):
        assert client.ask(index + 1, b"a") == b"a"
        time.sleep(0.05)


@pytest.mark.setting("max.connections")
def test_over_max_connections_the_next_one_waits_for_a_place(start_server: Any, eventually: Eventually) -> None:
    server = start_server(echo, max_connections=2)
    first, second = server.connect(), server.connect()
    assert first.ask(1, b"a") == b"a"
    assert second.ask(1, b"b") == b"b"
    third = server.connect()  # In the kernel's queue.
    third.send(1, b"c")
    third.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        third.answer()
    third.socket.settimeout(60)
    first.close()
    assert third.answer() == (1, b"c")
    assert server.server.connection_count == 2


def test_who_waited_for_a_rate_ends_nobodys_connection_when_all_places_are_taken(start_server: Any) -> None:
    """(1) A connection comes faster than its listener's rate, and waits; there is room. (2) Another listener's clients
    take all places. (3) The wait is over."""
    server = start_server(
        echo,
        max_connections=2,
        max_connection_creation_rate_of_listeners={"PLAINTEXT": 1},
        rate_samples=2,
        rate_window_ms=500,
    )
    other = server.call(lambda: server.server.listen("OTHER", "127.0.0.1", 0))
    server.call(other.start)
    late = server.connect()
    late.send(1, b"late")
    others = [server.connect(port=other.port) for _ in range(2)]
    assert [each.ask(1, b"a") for each in others] == [b"a", b"a"]
    late.socket.settimeout(1)
    with pytest.raises(TimeoutError):
        late.answer()
    assert [each.ask(2, b"b") for each in others] == [b"b", b"b"]
    late.socket.settimeout(60)
    others[0].close()
    assert late.answer() == (1, b"late")


def test_a_second_look_for_a_place_drops_nobody_who_waits_for_a_rate(start_server: Any) -> None:
    """(1) All places are taken, and it is to be looked again for one. (2) Places come before that: the next connection
    is accepted, and has to wait for its rate. (3) It is looked again, while another one waits behind it."""
    server = start_server(
        echo,
        max_connections=2,
        max_connection_creation_rate_of_listeners={"PLAINTEXT": 1},
        rate_samples=2,
        rate_window_ms=2_000,
    )
    other = server.call(lambda: server.server.listen("OTHER", "127.0.0.1", 0))
    server.call(other.start)
    others = [server.connect(port=other.port) for _ in range(2)]
    assert [each.ask(1, b"a") for each in others] == [b"a", b"a"]
    waiting = [server.connect() for _ in range(6)]
    for client in waiting:
        client.send(1, b"late")
        client.socket.settimeout(60)
    time.sleep(0.1)
    for each in others:
        each.close()
    for client in waiting:
        assert client.answer() == (1, b"late")
        client.close()


def test_who_waited_for_a_rate_gets_the_place_of_one_who_does_not_log_in(
    start_server: Any, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind it: those who do not say who they are took the places while it waited for the rate."""
    monkeypatch.setattr("kavka.broker.acceptor.STALLED_S", 0.3)
    monkeypatch.setattr("kavka.broker.acceptor.FLOOD_S", 0.3)
    server = start_server(
        echo,
        max_connections=2,
        max_connection_creation_rate_of_listeners={"PLAINTEXT": 1},
        rate_samples=2,
        rate_window_ms=500,
    )
    other = server.call(lambda: server.server.listen("OTHER", "127.0.0.1", 0, new_gate=lambda context: ClosedGate()))
    server.call(other.start)
    late = server.connect()
    late.send(1, b"late")
    silent = [server.connect(port=other.port) for _ in range(2)]
    eventually(lambda: server.server.connection_count == 2)
    late.socket.settimeout(60)
    assert late.answer() == (1, b"late")
    assert any(client.is_closed_by_server() for client in silent)


@pytest.mark.parametrize("options", [{}, {"network_threads": 2}], ids=["one loop", "threads"])
def test_who_does_not_log_in_gives_way_when_all_places_are_taken(
    options: dict[str, int], start_server: Any, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that have to say who they are, and do not: silent ones, and bytes that trickle. Who is in stays."""
    monkeypatch.setattr("kavka.broker.acceptor.STALLED_S", 0.3)
    monkeypatch.setattr("kavka.broker.acceptor.FLOOD_S", 0.3)
    server = start_server(echo, max_connections=3, **options)
    known = server.connect()
    assert known.ask(1, b"a") == b"a"
    server.call(lambda: setattr(server.acceptor, "new_gate", lambda context: ClosedGate()))
    silent, trickling = server.connect(), server.connect()
    eventually(lambda: server.server.connection_count == 3)
    server.call(lambda: setattr(server.acceptor, "new_gate", None))
    late = server.connect()
    late.socket.settimeout(60)
    late.send(1, b"late")
    for byte in pack(">i", 1000):
        trickling.socket.sendall(bytes([byte]))
        time.sleep(0.02)
    assert late.answer() == (1, b"late")
    assert silent.is_closed_by_server()
    assert known.ask(2, b"b") == b"b"


@pytest.mark.setting("max.connections")
def test_for_a_listener_of_brokers_those_who_do_not_log_in_are_closed_first(
    start_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond max.connections brokers get in on their own listener: not for a client that is in, and idle, while there
    is one that is not in and trickles, and had its time."""
    monkeypatch.setattr("kavka.broker.acceptor.LOGIN_S", 0.3)
    server = start_server(echo, max_connections=2, listeners_of_brokers=("BROKERS",))
    brokers = server.call(lambda: server.server.listen("BROKERS", "127.0.0.1", 0))
    server.call(brokers.start)
    idle = server.connect()
    assert idle.ask(1, b"a") == b"a"
    server.call(lambda: setattr(server.acceptor, "new_gate", lambda context: ClosedGate()))
    trickling = server.connect()
    time.sleep(0.4)
    trickling.socket.sendall(b"\0")
    broker = server.connect(port=brokers.port)
    assert broker.ask(1, b"b") == b"b"
    assert trickling.is_closed_by_server()
    assert idle.ask(2, b"c") == b"c"


@pytest.mark.setting("max.connections")
def test_a_client_in_the_middle_of_its_login_does_not_give_way_to_brokers_before_idle_ones(start_server: Any) -> None:
    server = start_server(echo, max_connections=2, listeners_of_brokers=("BROKERS",))
    brokers = server.call(lambda: server.server.listen("BROKERS", "127.0.0.1", 0))
    server.call(brokers.start)
    idle = server.connect()
    assert idle.ask(1, b"a") == b"a"
    server.call(lambda: setattr(server.acceptor, "new_gate", lambda context: ClosedGate()))
    login = server.connect()
    login.socket.sendall(b"\0")
    broker = server.connect(port=brokers.port)
    assert broker.ask(1, b"b") == b"b"
    assert idle.is_closed_by_server()
    login.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        login.socket.recv(1)


def test_a_broker_that_logs_in_slowly_does_not_give_way_to_clients(
    start_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients' listener is at its own limit: to close another one's connection gives nobody a place."""
    monkeypatch.setattr("kavka.broker.acceptor.STALLED_S", 0.3)
    monkeypatch.setattr("kavka.broker.acceptor.FLOOD_S", 0.3)
    server = start_server(
        echo,
        max_connections_of_listeners={"PLAINTEXT": 1},
        listeners_of_brokers=("BROKERS",),
    )
    brokers = server.call(
        lambda: server.server.listen("BROKERS", "127.0.0.1", 0, new_gate=lambda context: ClosedGate())
    )
    server.call(brokers.start)
    broker = server.connect(port=brokers.port)
    good, waiting = server.connect(), server.connect()
    assert good.ask(1, b"a") == b"a"
    waiting.send(1, b"x")
    broker.socket.settimeout(1.5)
    with pytest.raises(TimeoutError):
        broker.socket.recv(1)


@pytest.mark.setting("max.connections.per.ip", "max.connections.per.ip.overrides")
def test_over_max_connections_per_ip_a_connection_is_refused(
    start_server: Any, log_lines: list[Any], eventually: Eventually
) -> None:
    server = start_server(echo, max_connections_per_ip=2, max_connections_per_ip_overrides={"127.0.0.3": 1})
    first, second = server.connect(), server.connect()
    assert first.ask(1, b"a") == second.ask(1, b"a") == b"a"
    assert server.connect().is_closed_by_server()
    elsewhere = server.connect(host="127.0.0.2")
    assert elsewhere.ask(1, b"c") == b"c"
    special = server.connect(host="127.0.0.3")
    assert special.ask(1, b"c") == b"c"
    assert server.connect(host="127.0.0.3").is_closed_by_server()
    refused = ["connection refused: too many from one address"] * 2
    eventually(lambda: [line["event"] for line in log_lines] == refused)
    second.close()
    deadline = time.monotonic() + 60
    while True:  # The place is free again once the server saw the close.
        again = server.connect()
        with contextlib.suppress(EOFError, ConnectionError):
            assert again.ask(1, b"d") == b"d"
            break
        assert time.monotonic() < deadline


FEW_FILES = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
from kavka.metrics import Registry
from kavka.protocol.connection import Response
from kavka.broker import acceptor as accepting
from kavka.runtime.loop import new_event_loop
from kavka.runtime.network.socket_server import SocketServer, SocketServerLimits
import structlog
structlog.get_logger().info("made")
accepting.PAUSE_S = 0.05
async def main():
    server = SocketServer(
        asyncio.get_running_loop(), lambda request: Response((bytes(request.body),)), limits=SocketServerLimits(),
        registry=Registry(), api_name=str, on_halt=print)
    acceptor = server.listen("PLAINTEXT", "127.0.0.1", 0)
    acceptor.start()
    print("port", acceptor.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(0.1)
new_event_loop().run_until_complete(main())
"""


def test_without_descriptors_nothing_is_accepted_for_a_while(start_server: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FEW_FILES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    line = process.stdout.readline()
    while not line.startswith("port"):
        assert line, "the server ended"
        line = process.stdout.readline()
    port = int(line.split()[1])
    clients = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(45)]

    def served(client: socket.socket, within_s: float = 20) -> bool:
        client.settimeout(within_s)
        client.sendall(request_bytes(1, b"x"))
        try:
            return len(client.recv(100)) == 9
        except TimeoutError:
            return False

    assert served(clients[0])
    waiting = clients[-1]
    assert not served(waiting, within_s=0.3)
    for client in clients[:20]:
        client.close()
    waiting.settimeout(60)
    assert len(waiting.recv(100)) == 9
    for client in clients[20:]:
        client.close()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert 1 <= output.count("no connections accepted for a while") <= 20


def test_a_port_that_is_taken_is_named(start_server: Any) -> None:
    server = start_server(echo)
    with pytest.raises(ConfigError, match=f"127.0.0.1:{server.port}"):
        server.call(lambda: server.server.listen("OTHER", "127.0.0.1", server.port))


def test_all_addresses_are_served_where_no_host_is_given(start_server: Any) -> None:
    server = start_server(echo)

    def listen() -> int:
        acceptor = server.server.listen("ALL", "", 0)
        acceptor.start()
        return int(acceptor.port)

    port = server.call(listen)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(request_bytes(1, b"x"))
        assert len(client.recv(100)) == 9


@pytest.mark.setting("queued.max.requests")
def test_the_request_channel_holds_no_more_than_queued_max_requests(start_server: Any, eventually: Eventually) -> None:
    blocked = threading.Event()
    handled: list[int] = []

    def handler(request: Request) -> Response:
        blocked.wait(60)
        handled.append(request.header.correlation_id)
        return echo(request)

    server = start_server(handler, network_threads=2, queued_max_requests=20)
    clients = [server.connect() for _ in range(4)]
    channel = server.server.channel
    for client in clients:
        client.socket.sendall(b"".join(request_bytes(index, b"x") for index in range(500)))
    # The one in the handler has left the channel, and nobody is woken for a single place.
    eventually(lambda: channel.size >= 19)
    time.sleep(0.1)
    # Two threads may see the same room at the same time.
    assert channel.size <= 2 * 20
    blocked.set()
    for client in clients:
        assert [client.answer()[0] for _ in range(500)] == list(range(500))
    assert len(handled) == 2000


def test_two_thousand_connections_are_served_with_little_memory_each(start_server: Any, tmp_path: Path) -> None:
    server = start_server(echo, backlog=4000)
    clients = [server.connect() for _ in range(2000)]
    for index, client in enumerate(clients):
        client.send(index, b"hello")
    for index, client in enumerate(clients):
        assert client.answer() == (index, b"hello")
    assert server.server.connection_count == 2000
    processor = server.server._processor
    assert server.call(lambda: processor.pool.lent_bytes + processor.pool.free_bytes) == 0
    assert len(processor.shared) == SHARED_BYTES


def test_a_connection_that_ended_while_it_was_throttled_is_forgotten_before_its_delay_is_over(
    start_server: Any, eventually: Eventually
) -> None:
    contexts: list[ConnectionContext] = []

    def handler(request: Request) -> Response:
        contexts.append(request.context)
        return Response((b"",), mute_ms=2**31 - 1)

    client = start_server(handler, max_idle_ms=50).connect()
    client.ask(0)
    assert client.is_closed_by_server()
    eventually(lambda: not any(isinstance(one, ServerConnection) for one in gc.get_referrers(contexts[0])))
