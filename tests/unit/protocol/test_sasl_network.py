"""Connections that log in before anything else is sent on them, and again before their sessions end."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from kavka.errors import ConnectionFailed, ErrorCode
from kavka.network import Connection
from kavka.protocol.api import ApiKey, decode_request_header
from kavka.protocol.codec import decode, encode_chunks
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kavka.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kavka.protocol.sasl_network import CORRELATION_ID, SaslNetwork
from kavka.security.plain import PlainServer, client_token
from kavka.security.sasl_server import SaslServer
from kavka.security.secret import Secret
from tests.kit.virtual_time import in_virtual_time


class Broker:
    """The other side: a `SaslServer`, and an echo once it is open."""

    def __init__(self, lifetime_ms: int = 0) -> None:
        self.server = SaslServer(
            {"PLAIN": lambda: PlainServer({"broker": Secret("secret")})}, lambda mechanism: lifetime_ms
        )
        self.received: list[bytes] = []
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = False

    # -- Network

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 0) -> Connection:
        return self

    # -- Connection

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        frame = b"".join(parts)
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        if frame.startswith(b"echo"):
            assert self.server.user == "broker"
            assert not self.server.is_expired(now_ms)
            assert self.server.phase.value == "open"
            self.received.append(frame)
            self.answers.put_nowait(frame)
            return
        header, position = decode_request_header(frame)
        assert header.correlation_id == CORRELATION_ID
        body = memoryview(frame)[position:]
        answer: Any
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            reaction = self.server.on_handshake(decode(SaslHandshakeRequest, body, 1).mechanism, 1, now_ms)
            answer = SaslHandshakeResponse(error_code=reaction.error, mechanisms=self.server.mechanisms)
        else:
            reaction = self.server.on_token(bytes(decode(SaslAuthenticateRequest, body, 1).auth_bytes), now_ms)
            answer = SaslAuthenticateResponse(
                error_code=reaction.error,
                error_message=reaction.message,
                auth_bytes=reaction.token,
                session_lifetime_ms=reaction.lifetime_ms,
            )
        chunks = b"".join(bytes(chunk) for chunk in encode_chunks(answer, 1))  # type: ignore[arg-type]
        self.answers.put_nowait(CORRELATION_ID.to_bytes(4, "big") + chunks)

    async def drain(self) -> None:
        await asyncio.sleep(0)

    async def receive_frame(self) -> bytes:
        return await self.answers.get()

    def close(self) -> None:
        self.closed = True


def network(broker: Broker, password: str = "secret", mechanism: str = "PLAIN") -> SaslNetwork:
    def exchange(_host: str) -> Generator[bytes, bytes, None]:
        yield client_token("broker", password)

    return SaslNetwork(broker, mechanism, exchange, client_id="1")


def test_the_login_comes_first() -> None:
    async def scenario() -> None:
        broker = Broker()
        connection = await network(broker).connect("h", 1)
        connection.send_frame([b"echo", b" one"])
        assert await connection.receive_frame() == b"echo one"
        assert broker.server.user == "broker"

    in_virtual_time(scenario)


@pytest.mark.parametrize(
    ("password", "mechanism", "why"),
    [
        ("wrong", "PLAIN", "did not let this broker log in: Authentication failed: Invalid username or password"),
        ("secret", "SCRAM-SHA-512", r"SCRAM-SHA-512 is not accepted there \(error 33\); it offers PLAIN"),
    ],
)
def test_whoever_cannot_log_in_has_no_connection(password: str, mechanism: str, why: str) -> None:
    async def scenario() -> None:
        broker = Broker()
        with pytest.raises(ConnectionFailed, match=why) as failed:
            await network(broker, password, mechanism).connect("h", 1)
        assert broker.closed
        assert password not in str(failed.value)

    in_virtual_time(scenario)


class Preparing:
    """What a login needs, which takes a second, and may fail."""

    def __init__(self) -> None:
        self.times = 0
        self.fails = False

    async def __call__(self) -> None:
        await asyncio.sleep(1)
        if self.fails:
            raise ConnectionFailed("no token")
        self.times += 1


def prepared(broker: Broker, prepare: Preparing) -> SaslNetwork:
    def exchange(_host: str) -> Generator[bytes, bytes, None]:
        assert prepare.times, "an exchange begins with what it needs"
        yield client_token("broker", "secret")

    return SaslNetwork(broker, "PLAIN", exchange, client_id="1", prepare=prepare)


def test_what_a_login_needs_is_got_ready_before_each_and_frames_wait_for_it() -> None:
    async def scenario() -> None:
        broker, prepare = Broker(lifetime_ms=10_000), Preparing()
        connection = await prepared(broker, prepare).connect("h", 1)
        assert prepare.times == 1
        await asyncio.sleep(9)
        for number in range(3):
            connection.send_frame([f"echo {number}".encode()])
        await asyncio.sleep(0.5)
        assert broker.received == [], "the token is on its way"
        assert [await connection.receive_frame() for _ in range(3)] == [b"echo 0", b"echo 1", b"echo 2"]
        assert (prepare.times, broker.server.is_again) == (2, True)

    in_virtual_time(scenario)


def test_while_a_login_cannot_be_prepared_requests_go_on_in_the_session_that_there_is() -> None:
    async def scenario() -> None:
        broker, prepare = Broker(lifetime_ms=100_000), Preparing()
        connection = await prepared(broker, prepare).connect("h", 1)
        prepare.fails = True
        await asyncio.sleep(86)
        connection.send_frame([b"echo 1"])
        assert await connection.receive_frame() == b"echo 1"
        connection.send_frame([b"echo 2"])  # At once: it is tried again after ten seconds.
        assert await connection.receive_frame() == b"echo 2"
        prepare.fails = False
        await asyncio.sleep(10)
        connection.send_frame([b"echo 3"])
        assert await connection.receive_frame() == b"echo 3"
        assert (prepare.times, broker.server.is_again) == (2, True)

    in_virtual_time(scenario)


def test_who_cannot_prepare_its_login_does_not_connect() -> None:
    async def scenario() -> None:
        broker, prepare = Broker(), Preparing()
        prepare.fails = True
        with pytest.raises(ConnectionFailed, match="no token"):
            await prepared(broker, prepare).connect("h", 1)
        assert broker.answers.empty()

    in_virtual_time(scenario)


def test_a_connection_that_is_closed_prepares_no_login() -> None:
    async def scenario() -> None:
        broker, prepare = Broker(lifetime_ms=10_000), Preparing()
        connection = await prepared(broker, prepare).connect("h", 1)
        await asyncio.sleep(9)
        connection.send_frame([b"echo 1"])
        connection.close()
        await asyncio.sleep(5)
        assert (prepare.times, broker.server.is_again, broker.received) == (1, False, [])

    in_virtual_time(scenario)


def test_a_broker_that_does_not_answer_is_given_up() -> None:
    async def scenario() -> None:
        broker = Broker()
        broker.send_frame = lambda parts: None  # type: ignore[method-assign]
        with pytest.raises(ConnectionFailed, match="within 10"):
            await network(broker).connect("h", 1)
        assert broker.closed

    in_virtual_time(scenario)


def test_a_connection_logs_in_again_before_its_session_ends_and_nothing_overtakes() -> None:
    async def scenario() -> None:
        broker = Broker(lifetime_ms=10_000)
        connection = await network(broker).connect("h", 1)
        sent = []
        for at in range(100):
            for each in range(3):
                frame = f"echo {at}.{each}".encode()
                connection.send_frame([frame])
                sent.append(frame)
            for _ in range(3):
                assert await connection.receive_frame() == sent[len(broker.received) - 3 + _]
            await asyncio.sleep(1)
        assert broker.received == sent
        assert broker.server.is_again

    in_virtual_time(scenario)


def test_a_login_that_is_refused_later_on_ends_the_connection() -> None:
    async def scenario() -> None:
        broker = Broker(lifetime_ms=10_000)
        connection = await network(broker).connect("h", 1)
        broker.server._mechanisms = {"PLAIN": lambda: PlainServer({"broker": Secret("changed")})}
        await asyncio.sleep(9)
        connection.send_frame([b"echo"])
        with pytest.raises(ConnectionFailed, match=f"did not let this broker log in.*{ErrorCode.NONE.name}|Invalid"):
            await connection.receive_frame()
        assert broker.closed
        assert broker.received == []

    in_virtual_time(scenario)
