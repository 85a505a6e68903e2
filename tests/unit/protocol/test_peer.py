"""Requests between brokers on one connection, over a simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kavka.errors import ConnectionFailed, ConnectionRefused
from kavka.protocol.api import ApiKey, decode_request_header, encode_response_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    FetchRequest,
    FetchResponse,
)
from kavka.protocol.messages.fetch_response import FetchableTopicResponse, PartitionData
from kavka.protocol.peer import MAX_PENDING_REQUESTS, PeerConnection
from kavka.simulator.host.network import Endpoint, SimulatedNetwork
from kavka.simulator.host.scheduler import Scheduler

PORT = 9092
VERSION = 3
Reply = Callable[[int, int], bytes | None]
"""(correlation id, broker id of the request) -> the frame to answer with, None for none."""


def shutdown(number: int) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(broker_id=number, broker_epoch=1)


def answered(correlation_id: int, number: int) -> bytes:
    """The answer carries the request's number as its error code."""
    head = encode_response_header(ApiKey.CONTROLLED_SHUTDOWN, VERSION, correlation_id)
    return head + encode(ControlledShutdownResponse(error_code=number), VERSION)


def silent(correlation_id: int, number: int) -> None:
    return None


class World:
    """One broker that asks, one that answers as `reply` says."""

    def __init__(self, reply: Reply = answered) -> None:
        self.scheduler = Scheduler(1)
        self.network = SimulatedNetwork(self.scheduler)
        self.near, self.far = self.scheduler.node("near"), self.scheduler.node("far")
        self.reply = reply
        self.accepted: list[Endpoint] = []
        self.seen: list[tuple[str | None, int]] = []
        self.network.port_of("far", self.far).listen(PORT, self._on_connection)

    def _on_connection(self, endpoint: Endpoint) -> None:
        self.accepted.append(endpoint)
        self.far.create_task(self._serve(endpoint))

    async def _serve(self, endpoint: Endpoint) -> None:
        try:
            while True:
                frame = await endpoint.receive_frame()
                header, body = decode_request_header(frame)
                is_numbered = header.api_key is ApiKey.CONTROLLED_SHUTDOWN
                number = decode(ControlledShutdownRequest, frame[body:], VERSION).broker_id if is_numbered else 0
                self.seen.append((header.client_id, number))
                reply = self.reply(header.correlation_id, number)
                if reply is not None:
                    endpoint.send_frame([reply])
        except ConnectionFailed:
            pass

    async def open(self) -> PeerConnection:
        port = self.network.port_of("near", self.near)
        return await PeerConnection.open(port, "far", PORT, client_id="broker-1", connect_timeout_ms=1_000)

    def run(self, work: Coroutine[Any, Any, Any], *, within_s: float = 60) -> Any:
        return self.scheduler.run(self.near, work, within_s=within_s)


async def ask(peer: PeerConnection, number: int, *, timeout_ms: int = 5_000) -> int:
    answer = await peer.request(
        ApiKey.CONTROLLED_SHUTDOWN, VERSION, shutdown(number), ControlledShutdownResponse, timeout_ms=timeout_ms
    )
    return answer.error_code


def test_answers_reach_those_who_asked_in_whatever_order_they_asked() -> None:
    world = World()

    async def scenario() -> None:
        peer = await world.open()
        assert await asyncio.gather(*(ask(peer, number) for number in range(10))) == list(range(10))
        assert (peer.is_open, peer.pending_requests) == (True, 0)

    world.run(scenario())
    assert [number for _, number in world.seen] == list(range(10)), "one connection keeps the order"
    assert {client_id for client_id, _ in world.seen} == {"broker-1"}
    assert len(world.accepted) == 1


def test_nobody_listening_is_told_apart_from_other_failures() -> None:
    world = World()
    world.network.port_of("far", world.far).close_listener(PORT)
    with pytest.raises(ConnectionRefused):
        world.run(world.open())


def test_a_host_that_does_not_answer_is_given_up_in_time() -> None:
    world = World()
    world.network.cut("near", "far")
    with pytest.raises(ConnectionFailed, match="did not accept the connection within 1000 ms"):
        world.run(world.open(), within_s=1.1)


def test_a_late_answer_closes_the_connection_and_fails_all_that_wait_on_it() -> None:
    world = World(silent)

    async def scenario() -> None:
        peer = await world.open()
        patient = asyncio.ensure_future(ask(peer, 1, timeout_ms=60_000))
        with pytest.raises(ConnectionFailed, match="did not answer ControlledShutdown within 500 ms"):
            await ask(peer, 2, timeout_ms=500)
        with pytest.raises(ConnectionFailed):
            await patient
        assert not peer.is_open
        with pytest.raises(ConnectionFailed):
            await ask(peer, 3)
        assert "did not answer" in str(await peer.wait_closed())

    world.run(scenario(), within_s=1.0)
    assert sorted(number for _, number in world.seen) == [1, 2]


def test_the_end_of_an_idle_connection_is_seen_at_once() -> None:
    world = World()

    async def scenario() -> None:
        peer = await world.open()
        assert await ask(peer, 1) == 1
        world.scheduler.after(5.0, lambda: world.network.process_died(world.far))
        await peer.wait_closed()
        assert not peer.is_open

    world.run(scenario(), within_s=5.1)


@pytest.mark.parametrize(
    "reply",
    [
        lambda correlation_id, number: answered(correlation_id + 1, number),
        lambda correlation_id, number: answered(correlation_id, number)[:7],
        lambda correlation_id, number: b"\0\0",
        lambda correlation_id, number: answered(correlation_id, number) + b"more",
    ],
    ids=["of nobody's request", "cut short", "too short for a header", "with bytes behind it"],
)
def test_bytes_that_are_no_answer_end_the_connection(reply: Reply) -> None:
    world = World(reply)

    async def scenario() -> None:
        peer = await world.open()
        with pytest.raises(ConnectionFailed):
            await ask(peer, 1)
        assert not peer.is_open

    world.run(scenario(), within_s=1.0)


def test_no_more_requests_are_in_flight_than_the_bound_says_and_the_rest_wait() -> None:
    world = World(silent)

    async def scenario() -> None:
        peer = await world.open()
        asking = [asyncio.ensure_future(ask(peer, number)) for number in range(MAX_PENDING_REQUESTS + 10)]
        await asyncio.sleep(0.5)
        assert peer.pending_requests == MAX_PENDING_REQUESTS
        assert len(world.seen) == MAX_PENDING_REQUESTS
        peer.close()
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(outcome, ConnectionFailed) for outcome in outcomes)

    world.run(scenario(), within_s=1.0)


def test_a_caller_that_went_away_leaves_the_connection_to_the_others() -> None:
    world = World()

    async def scenario() -> None:
        peer = await world.open()
        gone = asyncio.ensure_future(ask(peer, 1))
        await asyncio.sleep(0)
        gone.cancel()
        assert await ask(peer, 2) == 2
        assert (peer.is_open, peer.pending_requests) == (True, 0)

    world.run(scenario())
    assert [number for _, number in world.seen] == [1, 2]


def test_records_in_an_answer_are_a_view_of_its_frame() -> None:
    records, version = b"r" * 1_000, 12
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])

    def reply(correlation_id: int, number: int) -> bytes:
        head = encode_response_header(ApiKey.FETCH, version, correlation_id)
        return head + encode(FetchResponse(responses=[topic]), version)

    world = World(reply)

    async def scenario() -> None:
        peer = await world.open()
        answer = await peer.request(ApiKey.FETCH, version, FetchRequest(replica_id=1), FetchResponse, timeout_ms=1_000)
        found = answer.responses[0].partitions[0].records
        assert isinstance(found, memoryview)
        assert found == records

    world.run(scenario())
