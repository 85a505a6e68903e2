"""The gate of a connection that authenticates by SASL, after its session is over: what still gets an answer."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast
from weakref import ref

import pytest

from kavka.broker.authentication.failed_authentications import Failures
from kavka.broker.authentication.sasl_gate import GatePorts, Gates, SaslGate
from kavka.config.sasl import SaslListener
from kavka.decisions import Decision
from kavka.model import BrokerId
from kavka.protocol.api import RequestHeader, encode_request_header
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.codec import encode_chunks
from kavka.protocol.connection import CLOSE_CONNECTION, UNREAD, ConnectionContext, Outcome, Request, Response
from kavka.protocol.messages import MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from kavka.security.failed_login_delay import Guessing
from kavka.security.plain import PlainServer, client_token
from kavka.security.secret import Secret

SESSION_MS = 600
"""Shorter than the least time between two authentications."""
USERS = {"alice": Secret("a")}


class World:
    """A connection's gate with a clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.recorded: list[Decision] = []
        failures = Failures(BrokerId(1), self.recorded.append, wall_ms=lambda: 7)
        clock = cast(asyncio.AbstractEventLoop, self)
        ports = GatePorts(
            clock,
            failures,
            lambda listener, name: PlainServer(listener.users),
            0,
            10_000,
            Guessing(20, 10_000),
            frozenset(),
        )
        listener = SaslListener("SASL", ("PLAIN",), USERS, {"PLAIN": SESSION_MS})
        self.gates = Gates({"SASL": listener}, ports)
        self.context = ConnectionContext("c", "10.0.0.1", 1, "SASL")
        self.gate: SaslGate = self.gates.new(self.context)

    def time(self) -> float:
        return self.seconds

    def ask(self, key: ApiKey, version: int, message: Any) -> Outcome:
        header = RequestHeader(key, version, 1, "c")
        body = b"".join(bytes(chunk) for chunk in encode_chunks(message, version))
        if not self.gate.is_open:
            return self.gate.handle(
                Request(UNREAD, memoryview(encode_request_header(header) + body), self.context), self.serve
            )
        return self.gate.handle(Request(header, memoryview(body), self.context), self.serve)

    def serve(self, request: Request) -> Outcome:
        return Response((b"served",))

    def handshake(self, version: int = 1) -> Outcome:
        return self.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism="PLAIN"))

    def token(self) -> Outcome:
        return self.ask(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=client_token("alice", "a")))

    def log_in(self) -> None:
        assert isinstance(self.handshake(), Response)
        assert isinstance(self.token(), Response)
        assert self.gate.is_open


@pytest.fixture
def world() -> World:
    world = World()
    world.log_in()
    return world


def test_while_the_session_lasts_a_stray_token_is_told_so_and_the_connection_stays(world: World) -> None:
    assert world.token() is not CLOSE_CONNECTION
    assert world.ask(ApiKey.METADATA, 4, MetadataRequest(topics=[])) == Response((b"served",))
    assert world.gates.counts["SASL"].expired == 0


@pytest.mark.parametrize("what", ["token", "handshake in version 0", "handshake too soon", "metadata"])
def test_after_the_session_whatever_begins_no_new_one_ends_the_connection(world: World, what: str) -> None:
    world.seconds += 0.7
    if what == "handshake too soon":
        world.log_in()
        world.seconds += 0.7
    answers = {
        "token": world.token,
        "handshake in version 0": lambda: world.handshake(0),
        "handshake too soon": world.handshake,
        "metadata": lambda: world.ask(ApiKey.METADATA, 4, MetadataRequest(topics=[])),
    }
    assert answers[what]() is CLOSE_CONNECTION
    assert world.gates.counts["SASL"].expired == 1


def test_after_the_session_a_client_may_authenticate_again(world: World) -> None:
    world.seconds += 0.7
    world.log_in()
    assert world.ask(ApiKey.METADATA, 4, MetadataRequest(topics=[])) == Response((b"served",))
    assert world.gates.counts["SASL"].expired == 0


def test_a_closed_connection_and_its_gate_are_gone_without_a_look_for_garbage() -> None:
    world = World()
    context = ConnectionContext("other", "10.0.0.1", 2, "SASL")
    context.gate = gate = world.gates.new(context)
    place, there = ref(context), ref(gate)
    gc.disable()
    try:
        del context, gate
        assert place() is None
        assert there() is None
    finally:
        gc.enable()
