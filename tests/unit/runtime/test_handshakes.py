"""Whose handshake is next."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kavka.runtime.tls.tls_handshakes import STALLED_S, Handshakes, HandshakeThread, Step


class Steps:
    """In the place of the thread: notes whose step is to be done, and does none."""

    def __init__(self) -> None:
        self.addresses: list[str] = []

    def put(self, group: str, step: Any) -> None:
        self.addresses.append(step.connection.address)
        step.connection.is_stepping = True


class Client:
    """A connection whose handshake never ends."""

    closed = is_stepping = False

    def __init__(self, address: str, *, unread: bool = False) -> None:
        self.address = address
        self.unread = unread

    def has_unread(self) -> bool:
        return self.unread

    def session(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True


def end_step(handshakes: Handshakes, client: Any, *, is_step: bool) -> None:
    """As a connection does when the thread is done with it."""
    client.is_stepping = False
    handshakes.answered(client, is_step=is_step)


def order_of(*addresses: str) -> list[str]:
    """In which order handshakes begin that waited for one place."""

    async def run() -> list[str]:
        steps: Any = Steps()
        handshakes = Handshakes(asyncio.get_running_loop(), steps, most=1, timeout_ms=60_000)
        clients: list[Any] = [Client("192.0.2.1"), *map(Client, addresses)]
        for client in clients:
            handshakes.enter(client)
            handshakes.go_on(client, b"hello")
        begun = 0
        while begun < len(clients):
            begun = len(steps.addresses)
            handshakes.leave(next(each for each in handshakes._begun))
        return list(steps.addresses[1:])

    return asyncio.run(run())


def test_addresses_take_turns() -> None:
    crowd, other = "192.0.2.7", "192.0.2.8"
    assert order_of(crowd, crowd, crowd, other) == [crowd, other, crowd, crowd]


def test_the_addresses_of_one_ipv6_network_have_one_turn() -> None:
    """Whoever has one such network has as many addresses in it as he likes."""
    network, other = [f"2001:db8::{number:x}" for number in range(1, 4)], "2001:db8:1::1"
    assert order_of(*network, other) == [network[0], other, *network[1:]]


def test_who_comes_alone_does_not_wait_for_all_steps_of_a_crowd_on_the_thread() -> None:
    """Nor is anything done for who has gone meanwhile."""
    done: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    class Session:
        def __init__(self, name: str) -> None:
            self.name = name

        def step(self, records: bytes) -> tuple[bool, bytes]:
            began.set()
            go_on.wait(30)
            done.append(self.name)
            return False, b""

    class Shaking(Client):
        def on_step(self, outcome: Any) -> None:
            """Goes no further."""

    async def run() -> None:
        thread, loop = HandshakeThread(), asyncio.get_running_loop()

        def put(group: str, name: str, *, closed: bool = False) -> None:
            connection: Any = Shaking(group)
            connection.closed = closed
            session: Any = Session(name)
            thread.put(group, Step(loop, connection, session, b""))

        put("crowd", "crowd 1")
        while not began.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.001)
        for number in range(2, 6):
            put("crowd", f"crowd {number}", closed=number == 4)
        put("other", "other")
        go_on.set()
        while len(done) < 5:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(run(), 60))
    assert done == ["crowd 1", "crowd 2", "other", "crowd 3", "crowd 5"]


def test_who_gives_way_owes_its_step_for_longest_and_not_what_a_busy_broker_owes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        loop, now = asyncio.get_running_loop(), [0.0]
        monkeypatch.setattr(loop, "time", lambda: now[0])
        steps: Any = Steps()
        handshakes = Handshakes(loop, steps, most=4, timeout_ms=60_000)
        handshakes.enter = lambda connection: None  # type: ignore[method-assign]  # no timer

        def come(client: Any) -> None:
            handshakes.enter(client)
            handshakes.go_on(client, b"hello")

        unanswered, late, sent, silent = [Client(f"192.0.2.{number}") for number in range(4)]
        for client in (unanswered, late, sent, silent):
            come(client)
        for client in (sent, silent):
            end_step(handshakes, client, is_step=True)
        now[0] = STALLED_S
        end_step(handshakes, late, is_step=True)
        sent.unread = True
        come(Client("192.0.2.100"))
        assert [client.closed for client in (unanswered, late, sent, silent)] == [False, False, False, True]
        come(Client("192.0.2.101"))
        now[0] += STALLED_S / 2
        come(Client("192.0.2.102"))
        assert not any(client.closed for client in (unanswered, late, sent))
        handshakes.go_on(sent, b"finished")  # type: ignore[arg-type]
        now[0] += STALLED_S / 2
        come(Client("192.0.2.103"))
        assert [client.closed for client in (unanswered, late, sent)] == [False, True, False]

    asyncio.run(run())


def test_who_sends_what_is_no_step_owes_it_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a hello, or records that OpenSSL passes over: one a second kept a place until the timeout."""

    async def run() -> None:
        loop, now = asyncio.get_running_loop(), [0.0]
        monkeypatch.setattr(loop, "time", lambda: now[0])
        steps: Any = Steps()
        handshakes = Handshakes(loop, steps, most=2, timeout_ms=60_000)
        handshakes.enter = lambda connection: None  # type: ignore[method-assign]  # no timer
        clients: list[Any] = [Client(f"192.0.2.{number}") for number in range(5)]
        trickles, answers, *others = clients
        for client in (trickles, answers):
            handshakes.go_on(client, b"hello")
            end_step(handshakes, client, is_step=client is answers)
        now[0] = STALLED_S * 0.9
        for client in (trickles, answers):
            handshakes.go_on(client, b"more")
        now[0] = STALLED_S
        handshakes.go_on(others[0], b"hello")
        assert not trickles.closed  # What it sent is with the thread.
        end_step(handshakes, answers, is_step=True)
        end_step(handshakes, trickles, is_step=False)
        handshakes.go_on(others[1], b"hello")
        assert (trickles.closed, answers.closed) == (True, False)
        handshakes.go_on(others[2], b"hello")
        assert not answers.closed

    asyncio.run(run())
