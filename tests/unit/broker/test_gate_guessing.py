"""The gate where an address guesses: its clients wait, those who are gone are forgotten, the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.broker.authentication.failed_authentications import Failures
from kavka.broker.authentication.sasl_gate import MAX_HELD, MAX_HELD_BYTES, GatePorts, Gates, SaslGate
from kavka.config.sasl import SaslListener
from kavka.decisions import Decision
from kavka.model import BrokerId
from kavka.protocol.api import RequestHeader, encode_request_header
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.codec import encode_chunks
from kavka.protocol.connection import UNREAD, ConnectionContext, Outcome, Request, Response
from kavka.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from kavka.security.failed_login_delay import Guessing
from kavka.security.plain import PlainServer, client_token
from kavka.security.sasl import AuthenticationFailed, FailureReason, ServerExchange, Step
from kavka.security.secret import Secret
from tests.kit.virtual_time import in_virtual_time

NewExchange = Callable[[SaslListener, str], ServerExchange]
LISTENERS = ("CLIENTS", "BROKERS")
USERS = {"alice": Secret("right")}
FREE, LONGEST_MS = 2, 10_000


class World:
    """A broker's gates on the running loop."""

    def __init__(self, new_exchange: NewExchange = lambda listener, name: PlainServer(listener.users)) -> None:
        self.loop = asyncio.get_running_loop()
        self.recorded: list[Decision] = []
        failures = Failures(BrokerId(1), self.recorded.append, wall_ms=lambda: 7)
        guessing = Guessing(FREE, LONGEST_MS)
        ports = GatePorts(
            self.loop,
            failures,
            new_exchange,
            0,
            10_000,
            guessing,
            frozenset({"BROKERS"}),
        )
        self.gates = Gates({name: SaslListener(name, ("PLAIN",), USERS, {"PLAIN": 0}) for name in LISTENERS}, ports)

    def client(self, host: str = "10.0.0.1", listener: str = "CLIENTS") -> Client:
        return Client(self, host, listener)

    async def guess(self, times: int, **where: str) -> None:
        for _ in range(times):
            client = self.client(**where)
            await client.log_in("wrong")
            assert not client.gate.is_open


class Client:
    """One connection."""

    def __init__(self, world: World, host: str, listener: str) -> None:
        self.context = ConnectionContext("c", host, 1, listener)
        self.gate: SaslGate = world.gates.new(self.context)
        handshake = self.ask(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism="PLAIN"))
        assert isinstance(handshake, Response)

    def ask(self, key: ApiKey, message: Any) -> Outcome:
        frame = encode_request_header(RequestHeader(key, 1, 1, "c")) + b"".join(encode_chunks(message, 1))  # type: ignore[arg-type]
        return self.gate.handle(Request(UNREAD, memoryview(frame), self.context), lambda _: Response((b"served",)))

    def offer(self, password: str) -> Outcome:
        return self.ask(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=client_token("alice", password)))

    def try_in_task(self, password: str) -> asyncio.Task[Response]:
        """As the processor does."""
        outcome = self.offer(password)
        assert not isinstance(outcome, Response)
        return asyncio.ensure_future(outcome)

    async def log_in(self, password: str) -> None:
        outcome = self.offer(password)
        if not isinstance(outcome, Response):
            await asyncio.ensure_future(outcome)


def virtually(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def scenario() -> None:
            await test(World())

        in_virtual_time(scenario)

    return run


@virtually
async def test_the_right_password_waits_too_and_then_gets_in(world: World) -> None:
    await world.guess(FREE + 3)  # The last of them has the address wait 400 ms.
    began_s = world.loop.time()
    client = world.client()
    await client.log_in("right")
    assert client.gate.is_open
    assert world.loop.time() - began_s == pytest.approx(0.4, abs=0.002)


@virtually
async def test_many_connections_at_once_are_no_faster_than_one(world: World) -> None:
    clients = [world.client() for _ in range(40)]
    outcomes = [client.offer("wrong") for client in clients]
    tasks = [asyncio.ensure_future(each) for each in outcomes if not isinstance(each, Response)]
    await asyncio.sleep(60)
    failed = world.gates.counts["CLIENTS"].failed
    assert FREE + 8 <= failed <= FREE + 8 + 60 / 10 + FREE
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@virtually
async def test_other_addresses_and_the_brokers_own_listener_do_not_wait(world: World) -> None:
    await world.guess(FREE + 5)
    began_s = world.loop.time()
    for where in ({"host": "10.0.0.2"}, {"listener": "BROKERS"}):
        client = world.client(**where)
        await client.log_in("right")
        assert client.gate.is_open
    await world.guess(200, listener="BROKERS")
    assert world.loop.time() == began_s


@virtually
async def test_a_client_that_hangs_up_no_longer_waits(world: World) -> None:
    await world.guess(FREE + 8)
    client = world.client()
    waiting = client.try_in_task("wrong")
    await asyncio.sleep(0)
    failed = world.gates.counts["CLIENTS"].failed
    client.context.end()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    await asyncio.sleep(LONGEST_MS / 1000)
    assert world.gates.counts["CLIENTS"].failed == failed


@virtually
async def test_no_more_than_a_hundred_of_an_address_wait_and_the_next_one_fails(world: World) -> None:
    await world.guess(FREE + 8)
    began_s = world.loop.time()
    waiting = [world.client().try_in_task("right") for _ in range(MAX_HELD)]
    await asyncio.sleep(0)
    await world.guess(1)
    assert world.loop.time() == began_s
    other = world.client(host="10.0.0.2")
    await other.log_in("right")
    assert other.gate.is_open
    await asyncio.gather(*waiting)
    assert world.gates.counts["CLIENTS"].succeeded == MAX_HELD + 1
    await world.client().log_in("right")  # Nobody is counted twice: there is room again.
    assert world.gates.counts["CLIENTS"].succeeded == MAX_HELD + 2


@virtually
async def test_those_who_wait_hold_bounded_memory_however_many_addresses_they_have(world: World) -> None:
    """Each message is as long as a frame may be, and each address is another network."""
    hosts = [f"2001:db8:{number:x}::1" for number in range(12)]
    for host in hosts:
        await world.guess(FREE + 8, host=host)
    waiting: list[asyncio.Task[Response]] = []
    for host in hosts:
        waiting += [world.client(host=host).try_in_task("x" * 1_000_000) for _ in range(2)]
        await asyncio.sleep(0)
    assert 0 < world.gates._held.size_bytes <= MAX_HELD_BYTES
    await asyncio.wait(waiting)
    assert world.gates._held.size_bytes == 0
    assert world.gates.counts["CLIENTS"].succeeded == 0


@virtually
async def test_a_record_says_that_the_address_waits(world: World) -> None:
    await world.guess(FREE + 1)
    await asyncio.sleep(1)
    free, slowed = world.recorded
    assert free.evidence["slowed_ms"] == 0
    assert slowed.evidence["slowed_ms"] == 100
    assert slowed.why.endswith("it failed too often, and its clients wait 100 ms now before they may try again")


@virtually
async def test_what_tries_no_password_makes_nobody_wait(world: World) -> None:
    for _ in range(100):
        client = world.client()
        outcome = client.ask(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism="PLAIN"))
        if not isinstance(outcome, Response):
            await asyncio.ensure_future(outcome)
    assert world.gates.counts["CLIENTS"].failed == 100
    began_s = world.loop.time()
    await world.client().log_in("right")
    assert world.loop.time() == began_s


class Refusing:
    """An exchange that fails for one reason."""

    def __init__(self, reason: FailureReason) -> None:
        self._reason = reason

    def step(self, token: bytes) -> Step:
        raise AuthenticationFailed(self._reason)


@pytest.mark.parametrize(
    ("reason", "slowed_ms"),
    [
        (FailureReason.EXPIRED_TICKET, 0),
        (FailureReason.EARLY_TICKET, 0),
        (FailureReason.REPEATED_TICKET, 0),
        (FailureReason.CLOCK_SKEW, 0),
        (FailureReason.NO_KEYTAB, 0),
        (FailureReason.NO_SHORT_NAME, 0),
        (FailureReason.OTHER_PROTECTION, 0),
        (FailureReason.OTHER_TICKET, 100),
        (FailureReason.REFUSED_TICKET, 100),
    ],
)
def test_a_ticket_that_no_guess_can_make_keeps_nobody_waiting(reason: FailureReason, slowed_ms: int) -> None:
    async def scenario() -> None:
        world = World(lambda listener, name: Refusing(reason))
        await world.guess(FREE + 1)
        await asyncio.sleep(1)
        assert [decision.evidence["slowed_ms"] for decision in world.recorded][-1] == slowed_ms

    in_virtual_time(scenario)
