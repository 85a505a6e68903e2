"""A TLS channel over a pair of sockets: what the kernel does not take, and what comes in pieces."""

from __future__ import annotations

import ctypes
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.runtime.tls.tls_channel import OWED_BYTES, SCRATCH_BYTES, TURN_BYTES, TlsChannel, TlsSession
from tests.kit.certificates import Authority


class Pair(NamedTuple):
    """A channel as a broker has it, and the client's end of its socket."""

    channel: TlsChannel
    client: TlsSession
    wire: socket.socket

    def read(self, size: int) -> bytes:
        """So many bytes of plaintext, at the client."""
        found = b""
        while len(found) < size:
            try:
                found += self.client.tls.read(size - len(found))
            except ssl.SSLWantReadError:
                self.client.incoming.write(self.wire.recv(65536))
        return found


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.certificate)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(authority.sign("broker").write(tmp_path / "broker.pem"))
    client_context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    server = TlsSession(server_context, server_side=True)
    client = TlsSession(client_context, server_side=False, server_hostname="localhost")
    to_server, to_client, over = b"", b"", False
    while not over:
        _, to_server = client.step(to_client)
        over, to_client = server.step(to_server)
    client.incoming.write(to_client)
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        there.settimeout(60)
        yield Pair(TlsChannel(here, server, bytearray(SCRATCH_BYTES)), client, there)


def test_what_the_kernel_does_not_take_leaves_before_anything_else_is_taken(pair: Pair) -> None:
    data = bytes(range(256)) * 2048
    assert pair.channel.send(data) == len(data)
    assert pair.channel.unsent
    with pytest.raises(BlockingIOError):
        pair.channel.send(b"more")
    found: list[bytes] = []
    reading = threading.Thread(target=lambda: found.append(pair.read(len(data) + 4)))
    reading.start()
    while not pair.channel.flush():
        pass
    assert pair.channel.send(b"more") == 4
    while not pair.channel.flush():
        pass
    reading.join(60)
    assert found == [data + b"more"]


def test_a_turn_takes_a_bounded_part(pair: Pair) -> None:
    assert pair.channel.send(bytes(TURN_BYTES + 1)) == TURN_BYTES


def test_pieces_become_one(pair: Pair) -> None:
    assert pair.channel.sendmsg([b"one ", memoryview(b"two "), bytearray(b"three")]) == 13
    assert pair.read(13) == b"one two three"


def test_plaintext_that_did_not_fit_is_told_of(pair: Pair) -> None:
    pair.client.tls.write(b"a" * 3000)
    pair.client.tls.write(b"b" * 3000)
    pair.wire.sendall(pair.client.outgoing.read())
    target = bytearray(4000)
    assert pair.channel.recv_into(memoryview(target)) == 4000
    assert pair.channel.has_more
    assert pair.channel.recv_into(memoryview(target)) == 2000
    assert not pair.channel.has_more
    with pytest.raises(BlockingIOError):
        pair.channel.recv_into(memoryview(target))


def test_half_a_record_is_held_here_and_not_given_to_openssl(pair: Pair) -> None:
    pair.client.tls.write(b"c" * 3000)
    record = pair.client.outgoing.read()
    pair.wire.sendall(record[:2000])
    target = memoryview(bytearray(4000))
    with pytest.raises(BlockingIOError):
        pair.channel.recv_into(target)
    assert len(pair.channel.held) == 2000
    assert not pair.channel.has_more
    pair.wire.sendall(record[2000:])
    assert pair.channel.recv_into(target) == 3000
    assert pair.channel.held == b""


def test_a_goodbye_is_the_end(pair: Pair) -> None:
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.tls.unwrap()
    pair.wire.sendall(pair.client.outgoing.read())
    assert pair.channel.recv_into(memoryview(bytearray(10))) == 0


def test_a_changed_record_is_an_error_and_an_alert(pair: Pair) -> None:
    pair.client.tls.write(b"d" * 100)
    record = bytearray(pair.client.outgoing.read())
    record[-1] ^= 1
    pair.wire.sendall(record)
    with pytest.raises(ssl.SSLError):
        pair.channel.recv_into(memoryview(bytearray(10)))
    assert pair.channel.failure is not None
    assert pair.wire.recv(100)[:1] == b"\x17"  # the alert, encrypted


def test_key_updates_whose_answers_are_not_taken_end_the_connection(pair: Pair) -> None:
    """Each asks for an answer of OpenSSL's own. With a byte of data among them none is fruitless, and a client that
    reads nothing would have the answers pile up for as long as it likes."""
    ask_for_new_keys = _key_updates(pair.client.tls)
    target = memoryview(bytearray(100))

    def update(times: int) -> None:
        for _ in range(times):
            for _ in range(100):
                ask_for_new_keys()
            pair.client.tls.write(b"x")
            pair.wire.sendall(pair.client.outgoing.read())
            assert pair.channel.recv_into(target) == 1
            assert len(pair.channel.unsent) <= OWED_BYTES + 100 * 64

    with pytest.raises(ConnectionAbortedError, match="key updates"):
        update(200)
    assert pair.channel.failure is not None


def test_key_updates_whose_answers_are_taken_are_no_harm(pair: Pair) -> None:
    ask_for_new_keys = _key_updates(pair.client.tls)
    target = memoryview(bytearray(100))
    for _ in range(50):
        for _ in range(100):
            ask_for_new_keys()
        pair.client.tls.write(b"x")
        pair.wire.sendall(pair.client.outgoing.read())
        assert pair.channel.recv_into(target) == 1
        assert pair.channel.send(b"y") == 1
        assert pair.read(1) == b"y"


def _key_updates(tls: ssl.SSLObject) -> Callable[[], None]:
    """What puts a key update into the outgoing bytes. Python's ssl has no call for it, and so OpenSSL is asked."""
    found = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libssl.so" in line}
    if not found or sys.implementation.name != "cpython" or sys.version_info >= (3, 15) or sys.flags.debug:
        pytest.skip("the place of OpenSSL's state in an SSLObject is not known here")
    library = ctypes.CDLL(found.pop())
    library.SSL_key_update.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.SSL_do_handshake.argtypes = [ctypes.c_void_p]
    inner = tls._sslobj  # type: ignore[attr-defined]
    # struct PySSLSocket: the object's head of 16 bytes, the Python socket, then OpenSSL's SSL.
    state = ctypes.cast(id(inner) + 24, ctypes.POINTER(ctypes.c_void_p))[0]

    def update() -> None:
        assert library.SSL_key_update(state, 1) == 1
        library.SSL_do_handshake(state)

    return update
