"""What comes before a client is known: plaintext, HTTP, broken records, half-open ones. A good client goes on."""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest

from kavka.runtime.tls import tls_handshakes
from kavka.runtime.tls.tls_channel import TlsSession
from kavka.runtime.tls.tls_connection import TlsConnection
from kavka.runtime.tls.tls_handshakes import HandshakeThread, Step
from kavka.runtime.tls.tls_listener import TlsListener
from kavka.security.tls_records import LARGEST_RECORD_BYTES
from tests.kit.ports import free_port
from tests.kit.tls_cluster import HOST, TlsCluster

API_VERSIONS = pack(">ihhihi", 14, 18, 0, 7, 4, 0)[:4] + pack(">hhih", 18, 0, 7, 4) + b"test"


@pytest.fixture(scope="module", params=["requested", "none"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    """Where no certificate is asked for, a handshake's last step is done in the loop."""
    settings = {
        "kavka.tls.max.handshakes": "20",
        "kavka.tls.handshake.timeout.ms": "5000",
        "ssl.client.auth": request.param,
    }
    with TlsCluster(tmp_path_factory.mktemp("tls"), settings=settings) as running:
        yield running


def is_served(cluster: TlsCluster, context: ssl.SSLContext | None = None) -> bool:
    """Whether a good client gets its answer."""
    with cluster.connect(context or cluster.context("alice")) as connection:
        connection.sendall(API_VERSIONS)
        return connection.recv(8)[4:] == pack(">i", 7)


def closes(connection: socket.socket) -> bytes:
    """What is answered until the broker closes."""
    answer = b""
    connection.settimeout(60)
    try:
        while piece := connection.recv(4096):
            answer += piece
    except ConnectionResetError:
        pass
    return answer


def hello(cluster: TlsCluster) -> bytes:
    """A good client's first bytes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = cluster.context().wrap_bio(incoming, outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def under_way(cluster: TlsCluster) -> int:
    def count(server: object) -> int:
        tls = server._tls  # type: ignore[attr-defined]  # looked at from the inside: no metric tells
        listener: TlsListener = tls._served["SSL"].listener
        return sum(room.handshakes.under_way for room in listener._rooms._rooms.values())

    return cluster.on_loop(count)


def held_bytes(cluster: TlsCluster) -> int:
    """What half-received requests and handshakes hold."""

    def count(server: object) -> int:
        tls = server._tls  # type: ignore[attr-defined]  # looked at from the inside: no metric tells
        return sum(processor.pool.lent_bytes for processor in tls._served["SSL"].listener._rooms._rooms)

    return cluster.on_loop(count)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (API_VERSIONS, "without TLS: set security.protocol=SSL in the client"),
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "without a client's hello"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "no TLS"),
        (b"\x16\x03\x01\xff\xff" + b"\x01" * 100, "65535 bytes"),
        (b"SSH-2.0-x\r\n", "no TLS"),
    ],
)
def test_what_is_no_tls_is_closed_without_a_word_and_said_in_the_log(
    cluster: TlsCluster, capfd: pytest.CaptureFixture[str], first: bytes, words: str
) -> None:
    with cluster.connect() as connection:
        connection.sendall(first)
        assert closes(connection) == b""
    assert is_served(cluster)
    printed = capfd.readouterr()
    assert words in printed.out + printed.err


def test_tls_on_a_plaintext_port_is_said_in_the_log(cluster: TlsCluster, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_connection((HOST, cluster.plain_ports[1]), 20) as connection:
        connection.sendall(hello(cluster))
        assert closes(connection) == b""
    printed = capfd.readouterr()
    said = "a TLS handshake on a listener without TLS: set security.protocol=PLAINTEXT in the client"
    assert said in printed.out + printed.err


def test_the_log_names_the_protocol_of_a_listener_that_asks_for_a_login(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    jaas = "PlainLoginModule required user_alice='a';"
    secured, in_clear = free_port(), free_port()
    settings = {
        "listeners": f"SASL_SSL://{HOST}:{secured},SASL_PLAINTEXT://{HOST}:{in_clear},PLAINTEXT://{HOST}:{free_port()}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    with TlsCluster(tmp_path, inter_broker="PLAINTEXT", protocol="SASL_SSL", settings=settings) as cluster:
        for port, first in ((secured, API_VERSIONS), (in_clear, hello(cluster))):
            with socket.create_connection((HOST, port), 20) as connection:
                connection.sendall(first)
                assert closes(connection) == b""
    printed = capfd.readouterr()
    said = printed.out + printed.err
    assert "Kafka's protocol without TLS: set security.protocol=SASL_SSL in the client" in said
    assert "set security.protocol=SASL_PLAINTEXT in the client, or use a TLS port" in said


def test_a_hello_that_comes_byte_by_byte_is_a_hello(cluster: TlsCluster) -> None:
    """Each byte of it alone, and then a whole conversation in one piece for each byte."""
    context = cluster.context("alice")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=HOST)
    with cluster.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send() -> None:
            for byte in outgoing.read():
                connection.sendall(bytes([byte]))

        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                send()
                incoming.write(connection.recv(65536))
        tls.write(API_VERSIONS)
        send()
        while True:
            try:
                assert tls.read(8)[4:] == pack(">i", 7)
                break
            except ssl.SSLWantReadError:
                incoming.write(connection.recv(65536))


def test_a_request_in_the_last_bytes_of_the_handshake_is_answered(cluster: TlsCluster) -> None:
    """The socket says nothing more after them: (T1) what OpenSSL holds must be looked at."""
    context = cluster.context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=HOST)
    with cluster.connect() as connection:
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        connection.sendall(outgoing.read())
        while True:
            incoming.write(connection.recv(65536))
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                pass
        for _ in range(100):
            tls.write(API_VERSIONS)
        connection.sendall(outgoing.read())
        answers = b""
        while answers.count(pack(">i", 7)) < 100:
            try:
                answers += tls.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(connection.recv(65536))


@pytest.mark.parametrize(
    ("client_auth", "version", "on_the_thread"),
    [
        ("none", ssl.TLSVersion.TLSv1_3, 1),
        ("none", ssl.TLSVersion.TLSv1_2, 2),
        ("requested", ssl.TLSVersion.TLSv1_3, 2),
        ("required", ssl.TLSVersion.TLSv1_3, 2),
    ],
)
def test_only_a_last_step_without_public_keys_is_done_in_the_loop(
    tmp_path: Path, client_auth: str, version: ssl.TLSVersion, on_the_thread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In TLS 1.2 the client's key comes with it, and where a certificate is asked for, that and what it signed."""
    steps: list[Step] = []
    put = HandshakeThread.put
    with TlsCluster(tmp_path, settings={"ssl.client.auth": client_auth}, inter_broker="PLAINTEXT") as cluster:
        context = cluster.context("alice")
        context.maximum_version = version
        monkeypatch.setattr(HandshakeThread, "put", lambda *all: (steps.append(all[-1]), put(*all))[1])
        assert is_served(cluster, context)
    assert len(steps) == on_the_thread


def test_a_false_proof_at_the_end_of_a_handshake_ends_its_own_connection_only(
    cluster: TlsCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    with cluster.connect() as connection:
        connection.sendall(hello(cluster))
        connection.recv(65536)
        connection.sendall(b"\x14\x03\x03\x00\x01\x01" + b"\x17\x03\x03\x00\x45" + bytes(0x45))
        closes(connection)
    assert is_served(cluster)
    printed = capfd.readouterr()
    assert "connection closed: TLS handshake failed" in printed.out + printed.err


def with_early_data(first: bytes) -> bytes:
    """A hello that announces early data. Whoever answers it passes over what cannot be decrypted."""
    changed = bytearray(first)
    position = 9 + 2 + 32
    position += 1 + changed[position]
    position += 2 + int.from_bytes(changed[position : position + 2])
    position += 1 + changed[position]
    size = int.from_bytes(changed[position : position + 2])
    changed[position : position + 2] = pack(">H", size + 4) + b"\x00\x2a\x00\x00"
    changed[6:9] = (int.from_bytes(changed[6:9]) + 4).to_bytes(3)
    changed[3:5] = pack(">H", len(changed) - 5)
    return bytes(changed)


@pytest.mark.parametrize("body", [b"", bytes(17)])
def test_records_that_do_not_go_on_with_a_handshake_end_it(
    cluster: TlsCluster, body: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """OpenSSL passes over them without an end: 64 KiB took 7 ms, in each turn of the loop."""
    with cluster.connect() as connection:
        connection.sendall(with_early_data(hello(cluster)))
        assert connection.recv(65536)[0] == 22
        connection.sendall((b"\x17\x03\x03" + pack(">H", len(body)) + body) * 100)
        closes(connection)
    assert is_served(cluster)
    printed = capfd.readouterr()
    assert "records in a row that do not go on with it" in printed.out + printed.err


def test_a_record_without_an_answer_gives_its_client_no_more_time(cluster: TlsCluster) -> None:
    def owing(server: object) -> list[float]:
        tls = server._tls  # type: ignore[attr-defined]  # looked at from the inside: no metric tells
        rooms = tls._served["SSL"].listener._rooms._rooms.values()
        return [since for room in rooms for since in room.handshakes._owing.values()]

    with cluster.connect() as connection:
        connection.sendall(hello(cluster))
        connection.recv(65536)
        since = cluster.on_loop(owing)
        assert len(since) == 1
        connection.sendall(b"\x14\x03\x03\x00\x01\x01")
        time.sleep(0.2)
        assert cluster.on_loop(owing) == since


def test_who_speaks_out_of_turn_is_read_after_the_step(cluster: TlsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the loop does not look again and again at what it may not read yet."""
    step, on_readable, looks = TlsSession.step, TlsConnection._on_readable, [0]

    def slow_step(session: TlsSession, records: bytes) -> tuple[bool, bytes]:
        time.sleep(0.3)
        return step(session, records)

    def look(connection: TlsConnection) -> None:
        looks[0] += 1
        on_readable(connection)

    monkeypatch.setattr(TlsConnection, "_on_readable", look)
    client = TlsSession(cluster.context(), server_side=False, server_hostname=HOST)
    _, first = client.step(b"")
    with cluster.connect() as connection:
        with monkeypatch.context() as slow:
            slow.setattr(TlsSession, "step", slow_step)
            connection.sendall(first)
            time.sleep(0.1)
            connection.sendall(b"\x14\x03\x03\x00\x01\x01")  # A client may send it as soon as its hello.
            is_over, last = client.step(connection.recv(65536))
        while not is_over:
            is_over, last = client.step(connection.recv(65536))
        connection.sendall(last.removeprefix(b"\x14\x03\x03\x00\x01\x01"))
        client.tls.write(API_VERSIONS)
        connection.sendall(client.outgoing.read())
        while True:
            try:
                assert client.tls.read(8)[4:] == pack(">i", 7)
                break
            except ssl.SSLWantReadError:
                client.incoming.write(connection.recv(65536))
    assert looks[0] < 10


@pytest.mark.setting("kavka.tls.max.handshakes", "kavka.tls.handshake.timeout.ms")
def test_half_open_connections_are_bounded_and_closed_in_time(cluster: TlsCluster) -> None:
    """Hellos without a finish beyond the bound: no more than that many are begun, and a good client comes in after."""
    first = hello(cluster)
    flood = [cluster.connect() for _ in range(60)]
    try:
        for number, connection in enumerate(flood):
            connection.sendall((b"", first[:100], first, first)[number % 4])
        deadline = time.monotonic() + 60
        most = 0
        while time.monotonic() < deadline and under_way(cluster) < 20:
            most = max(most, under_way(cluster))
        assert max(most, under_way(cluster)) == 20
        assert is_served(cluster)  # It waits for its turn: those before it run into the timeout.
        for connection in flood:
            closes(connection)
        while under_way(cluster):
            assert time.monotonic() < deadline + 20
    finally:
        for connection in flood:
            connection.close()


def test_half_open_handshakes_of_one_address_keep_no_other_out(tmp_path: Path) -> None:
    """All places are taken for ten minutes, and more wait: a client from elsewhere takes one."""
    settings = {"kavka.tls.max.handshakes": "5", "kavka.tls.handshake.timeout.ms": "600000"}
    with TlsCluster(tmp_path, settings=settings) as cluster:
        first = hello(cluster)
        flood = [cluster.connect() for _ in range(8)]
        for connection in flood:
            connection.sendall(first)
        deadline = time.monotonic() + 60
        while under_way(cluster) < 5:
            assert time.monotonic() < deadline
        other = socket.create_connection((HOST, cluster.ports[1]), 60, source_address=("127.0.0.2", 0))
        with cluster.context("alice").wrap_socket(other, server_hostname=HOST) as served:
            served.sendall(API_VERSIONS)
            assert served.recv(8)[4:] == pack(">i", 7)
        assert under_way(cluster) == 5  # Who waited has the place again.
        for connection in flood:
            connection.close()


def test_half_open_handshakes_of_many_addresses_keep_no_other_out(tmp_path: Path) -> None:
    """Each address has one place, for ten minutes, and more wait: a client from elsewhere comes in all the same."""
    settings = {"kavka.tls.max.handshakes": "5", "kavka.tls.handshake.timeout.ms": "600000"}
    with TlsCluster(tmp_path, settings=settings) as cluster:
        first = hello(cluster)
        place = (HOST, cluster.ports[1])
        flood = [socket.create_connection(place, 60, source_address=(f"127.0.1.{n}", 0)) for n in range(1, 11)]
        for connection in flood:
            connection.sendall(first)
        deadline = time.monotonic() + 60
        while under_way(cluster) < 5:
            assert time.monotonic() < deadline
        other = socket.create_connection(place, 60, source_address=("127.0.0.2", 0))
        with cluster.context("alice").wrap_socket(other, server_hostname=HOST) as served:
            served.sendall(API_VERSIONS)
            assert served.recv(8)[4:] == pack(">i", 7)
        assert under_way(cluster) <= 5
        for connection in flood:
            connection.close()


def test_what_waits_for_its_handshake_holds_one_record_and_counts_as_memory(
    cluster: TlsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of what a client sends before it was answered stays in the kernel."""
    monkeypatch.setattr(tls_handshakes, "STALLED_S", 600)  # Nobody's turn comes while this looks.
    first = hello(cluster)
    eager = first + (b"\x17\x03\x03\x3f\xfb" + bytes(16_379)) * 3
    others = held_bytes(cluster) + 16_384
    flood = [cluster.connect() for _ in range(40)]
    try:
        for connection in flood[:20]:
            connection.sendall(first)
        deadline = time.monotonic() + 60
        while under_way(cluster) < 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        for connection in flood[20:]:
            connection.sendall(eager)
        while (held := held_bytes(cluster)) < 20 * 16_384 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert 20 * 16_384 <= held <= 20 * (5 + LARGEST_RECORD_BYTES) + others
    finally:
        for connection in flood:
            connection.close()
    assert is_served(cluster)
    deadline = time.monotonic() + 60
    while held_bytes(cluster) > others:
        assert time.monotonic() < deadline


def test_broken_records_end_their_own_connection_only(cluster: TlsCluster, capfd: pytest.CaptureFixture[str]) -> None:
    """A slice of fuzzing: hellos with flipped, cut and repeated bytes, and garbage after a good handshake."""
    rng = random.Random(7)
    first = hello(cluster)
    for _ in range(150):
        broken = bytearray(first)
        for _ in range(rng.randrange(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        with cluster.connect() as connection:
            connection.sendall(bytes(broken[: rng.randrange(1, len(broken) + 1)]))
            connection.shutdown(socket.SHUT_WR)
            closes(connection)
    for _ in range(20):
        connection = cluster.connect(cluster.context())
        raw = socket.socket(fileno=connection.detach())
        with raw:
            raw.sendall(b"\x17\x03\x03\x00\x20" + rng.randbytes(32))
            closes(raw)
    assert is_served(cluster)
    printed = capfd.readouterr()
    assert "connection closed: broken TLS" in printed.out + printed.err


def test_requests_that_do_not_go_on_do_not_keep_others_out(cluster: TlsCluster) -> None:
    """Half a record, for ever: it costs its bytes, and the connection is one among many."""
    with cluster.connect(cluster.context()) as waiting:
        raw = socket.socket(fileno=waiting.detach())
        with raw:
            raw.sendall(b"\x17\x03\x03\x40\x00" + bytes(1000))
            assert is_served(cluster)
