"""Sessions that end: kavka's client logs in again on the same connection, and nobody who asks notices (KIP-368)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kavka.client.connection import BrokerConnection
from kavka.client.oauthbearer_tokens import AccessTokens, TokenFile, UnsecuredToken
from kavka.client.security import SaslMechanism, SaslSettings
from kavka.client.settings import ClientSettings
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from tests.kit.virtual_time import in_virtual_time
from tests.unit.client.fake_cluster import DROP, SILENCE, FakeCluster

SESSION_S = 60
LATE_S = 52
"""When a session of SESSION_S is to be renewed, and has not ended."""
LOGIN = SaslSettings(mechanism=SaslMechanism.PLAIN, username="alice", password="right")
HANDSHAKE, AUTHENTICATE, ASK = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA


class EndingSessions(FakeCluster):
    """Its sessions last SESSION_S. A broker of Kafka closes the connection at the first request after the end."""

    def __init__(self) -> None:
        super().__init__()
        self.session_end = 0.0

    def answer(self, node: int, frame: bytes) -> bytes | object | None:
        count = len(self.requests)
        answer = super().answer(node, frame)
        key = self.requests[count][1].api_key if len(self.requests) > count else None
        is_login = key in (HANDSHAKE, AUTHENTICATE, ApiKey.API_VERSIONS)
        if not is_login and asyncio.get_running_loop().time() > self.session_end:
            return DROP
        return answer

    def logins(self) -> int:
        return len(self.asked(AUTHENTICATE))

    def sent(self) -> list[ApiKey]:
        return [ApiKey(header.api_key) for _, header, _ in self.requests]

    def _handshake(self, node: int, request: Any, version: int) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(mechanisms=[request.mechanism])

    def _authenticate(self, node: int, request: Any, version: int) -> SaslAuthenticateResponse:
        self.session_end = asyncio.get_running_loop().time() + SESSION_S
        return SaslAuthenticateResponse(session_lifetime_ms=SESSION_S * 1000)

    _answers: ClassVar[dict[ApiKey, Callable[..., Any]]] = {
        **FakeCluster._answers,
        HANDSHAKE: _handshake,
        AUTHENTICATE: _authenticate,
    }


class AtOnce(ThreadPoolExecutor):
    """No thread, so that virtual time need not wait for one."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as failure:
            future.set_exception(failure)
        return future


def virtually(test: Callable[[EndingSessions, BrokerConnection], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def scenario() -> None:
            fake = EndingSessions()
            await test(fake, await connected(fake))

        in_virtual_time(scenario)

    return run


async def connected(fake: EndingSessions, sasl: SaslSettings = LOGIN, **settings: Any) -> BrokerConnection:
    asyncio.get_running_loop().set_default_executor(AtOnce())
    return await BrokerConnection.open(fake, "fake", 9001, ClientSettings(sasl=sasl, **settings))


async def ask(connection: BrokerConnection, **options: Any) -> MetadataResponse:
    return await connection.request(ASK, MetadataRequest(topics=[]), MetadataResponse, **options)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@virtually
async def test_a_session_is_renewed_on_the_same_connection_and_not_too_early(
    fake: EndingSessions, connection: BrokerConnection
) -> None:
    for _ in range(50):
        await ask(connection)
        await asyncio.sleep(5)
    assert len(fake.connections) == 1
    assert 250 / SESSION_S <= fake.logins() <= 1 + 250 / (SESSION_S * 0.85)


@virtually
async def test_an_idle_client_logs_in_with_the_first_request_after_its_session_ended(
    fake: EndingSessions, connection: BrokerConnection
) -> None:
    await asyncio.sleep(SESSION_S * 10)
    assert fake.logins() == 1
    await ask(connection)
    assert (fake.logins(), len(fake.connections)) == (2, 1)


@virtually
async def test_requests_keep_their_order_around_the_login(fake: EndingSessions, connection: BrokerConnection) -> None:
    await asyncio.sleep(LATE_S)
    before = len(fake.requests)
    numbers = list(range(1, 21))
    await asyncio.gather(
        *(
            connection.request(
                ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key=str(n)), FindCoordinatorResponse, highest=3
            )
            for n in numbers
        )
    )
    asked = fake.requests[before:]
    assert [header.api_key for _, header, _ in asked[:2]] == [HANDSHAKE, AUTHENTICATE]
    assert [int(request.key) for _, _, request in asked[2:]] == numbers


@virtually
async def test_the_login_waits_for_the_answers_that_are_owed(
    fake: EndingSessions, connection: BrokerConnection
) -> None:
    await asyncio.sleep(LATE_S - 10)
    fake.faults[ASK].append(lambda *_: SILENCE)
    owed = asyncio.create_task(ask(connection, timeout_ms=20_000))
    await asyncio.sleep(10)
    other = asyncio.create_task(ask(connection))
    await asyncio.sleep(5)
    assert fake.sent()[-1] == ASK
    assert fake.logins() == 1
    connection.close()
    results = await asyncio.gather(owed, other, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionFailed, ConnectionFailed]


@virtually
async def test_an_answer_that_nobody_waits_for_holds_the_login_no_longer_than_its_own_time_out(
    fake: EndingSessions, connection: BrokerConnection
) -> None:
    await asyncio.sleep(LATE_S - 10)
    fake.faults[ASK].append(lambda *_: SILENCE)
    gone = asyncio.create_task(ask(connection, timeout_ms=20_000))
    await turns(3)
    gone.cancel()
    await asyncio.sleep(10)
    with pytest.raises(ConnectionFailed, match=r"could not be renewed: .* owes an answer"):
        await ask(connection)
    assert asyncio.get_running_loop().time() == pytest.approx(LATE_S + 10)
    assert not connection.is_open


@virtually
async def test_whoever_is_cancelled_during_the_login_leaves_it_to_the_others(
    fake: EndingSessions, connection: BrokerConnection
) -> None:
    for wait in range(8):
        await asyncio.sleep(LATE_S)
        logins = fake.logins()
        first = asyncio.create_task(ask(connection))
        second = asyncio.create_task(ask(connection))
        await turns(wait)
        first.cancel()
        assert (await second).cluster_id == "fake"
        assert fake.logins() == logins + 1
        await asyncio.gather(first, return_exceptions=True)
    assert len(fake.connections) == 1


@virtually
async def test_closing_during_the_login_ends_all_that_wait(fake: EndingSessions, connection: BrokerConnection) -> None:
    await asyncio.sleep(LATE_S)
    fake.faults[AUTHENTICATE].append(lambda *_: SILENCE)
    waiting = [asyncio.create_task(ask(connection)) for _ in range(3)]
    await turns(20)
    assert fake.sent()[-1] == AUTHENTICATE
    connection.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionFailed] * 3
    await turns(3)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtually
async def test_a_broker_that_is_silent_during_the_login_costs_the_connection(
    fake: EndingSessions, connection: BrokerConnection
) -> None:
    await asyncio.sleep(LATE_S)
    fake.faults[AUTHENTICATE].append(lambda *_: SILENCE)
    with pytest.raises(ConnectionFailed, match="did not answer SaslAuthenticate"):
        await ask(connection)
    assert not connection.is_open


@virtually
async def test_a_password_that_was_revoked_fails_the_connection_and_the_next_one_says_why(
    fake: EndingSessions, connection: BrokerConnection
) -> None:
    def refused(*_: Any) -> SaslAuthenticateResponse:
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return SaslAuthenticateResponse(error_code=code, error_message="invalid credentials")

    await asyncio.sleep(LATE_S)
    fake.faults[AUTHENTICATE].extend([refused, refused])
    with pytest.raises(ConnectionFailed, match=r"could not be renewed: .*invalid credentials"):
        await ask(connection)
    assert not connection.is_open
    assert ASK not in fake.sent()
    with pytest.raises(RequestError, match="invalid credentials"):
        await connected(fake)


@virtually
async def test_what_is_not_answered_waits_for_the_login_too(fake: EndingSessions, connection: BrokerConnection) -> None:
    await asyncio.sleep(LATE_S)
    for _ in range(2):
        await connection.send_unanswered(ApiKey.PRODUCE, ProduceRequest(acks=0, timeout_ms=1000))
    await ask(connection)
    assert fake.sent()[-5:] == [HANDSHAKE, AUTHENTICATE, ApiKey.PRODUCE, ApiKey.PRODUCE, ASK]


def test_requests_go_on_until_the_end_of_the_session_while_there_is_no_token(tmp_path: Path) -> None:
    async def scenario() -> None:
        loop, fake, file = asyncio.get_running_loop(), EndingSessions(), tmp_path / "token"
        tokens = AccessTokens(TokenFile(str(file)), wall_ms=lambda: int(loop.time() * 1000))
        write(file, 55)
        sasl = SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, username="", tokens=tokens)
        connection = await connected(fake, sasl)
        file.unlink()
        for _ in range(SESSION_S - 1):
            await ask(connection)
            await asyncio.sleep(1)
        write(file, 200)
        await ask(connection)
        await asyncio.sleep(1)
        await ask(connection)
        assert fake.logins() >= 2
        assert len(fake.connections) == 1
        file.unlink()
        await asyncio.sleep(SESSION_S * 4)
        with pytest.raises(ConnectionFailed, match=r"could not be renewed: .*token's file could not be read"):
            await ask(connection)

    in_virtual_time(scenario)


def write(file: Path, end_s: int) -> None:
    """A token that nobody signed."""
    made = AccessTokens(UnsecuredToken(claims={"sub": "alice", "iat": 0, "exp": end_s}), wall_ms=lambda: 0)
    file.write_text(made.current())
