"""Requests to whichever broker is the controller: found anew when it moved, fell silent or is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from kavka.broker.metadata.controller_link import ControllerLink, PeerConnector
from kavka.broker.metadata.metadata_cache import BrokerMetadata, Endpoint, MetadataCache
from kavka.errors import ConnectionFailed, ConnectionRefused, ErrorCode
from kavka.model import NO_LEADER, BrokerId
from kavka.protocol.api import ApiKey, decode_request_header
from kavka.protocol.codec import encode
from kavka.protocol.messages.controlled_shutdown_request import ControlledShutdownRequest
from kavka.protocol.messages.controlled_shutdown_response import ControlledShutdownResponse
from kavka.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse

OWN, OTHER, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)
VERSION = 3


class ScriptedBroker:
    """A broker on the network: answers each request with the next error of its script; None is no answer at all."""

    def __init__(self, *script: ErrorCode | None) -> None:
        self._script = list(script)
        self.asked = asyncio.Event()

    def answer(self, frame: bytes) -> bytes | None:
        self.asked.set()
        error = self._script.pop(0) if self._script else ErrorCode.NONE
        if error is None:
            return None
        header, _ = decode_request_header(frame)
        body = encode(ControlledShutdownResponse(error_code=error), VERSION)
        # Correlation id and no tagged fields.
        return header.correlation_id.to_bytes(4, "big") + b"\0" + body


class Wire:
    """The Network port's connection to one of them."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._answers: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        answer = self._broker.answer(b"".join(parts))
        if answer is not None:
            self._answers.put_nowait(answer)

    async def drain(self) -> None:
        pass

    async def receive_frame(self) -> bytes:
        answer = await self._answers.get()
        if answer is None:
            raise ConnectionFailed("closed")
        return answer

    def close(self) -> None:
        self._answers.put_nowait(None)


class Wires:
    """The Network port: brokers by port; the others refuse."""

    def __init__(self, brokers: dict[int, ScriptedBroker]) -> None:
        self._brokers = brokers

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 1 << 28) -> Wire:
        broker = self._brokers.get(port)
        if broker is None:
            raise ConnectionRefused(f"nobody listens on {port}")
        return Wire(broker)


class Room:
    """A link of broker 1, and who is known to it."""

    def __init__(self, controller_id: BrokerId, **brokers: ScriptedBroker) -> None:
        self.metadata = MetadataCache("cluster")
        self.metadata.controller_id = controller_id
        self.metadata.set_brokers(
            BrokerMetadata(broker_id, {"PLAINTEXT": Endpoint("here", broker_id)}) for broker_id in (OWN, OTHER, THIRD)
        )
        self.local: list[object] = []
        wires = Wires({int(name.removeprefix("broker_")): broker for name, broker in brokers.items()})
        self.link = ControllerLink(PeerConnector(wires, self.metadata, OWN, "PLAINTEXT"), self.metadata, self._answer)

    async def _answer(self, key: ApiKey, version: int, message: Any) -> ControlledShutdownResponse:
        self.local.append(message)
        return ControlledShutdownResponse()

    async def ask(self, timeout_ms: int = 5_000) -> ErrorCode:
        answer = await self.link.send(
            ApiKey.CONTROLLED_SHUTDOWN,
            VERSION,
            ControlledShutdownRequest(broker_id=OWN, broker_epoch=1),
            ControlledShutdownResponse,
            timeout_ms=timeout_ms,
        )
        return ErrorCode(answer.error_code)


def runs(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_the_controller_answers() -> None:
    async def scenario() -> None:
        broker = ScriptedBroker(ErrorCode.NONE, ErrorCode.BROKER_NOT_AVAILABLE)
        room = Room(OTHER, broker_2=broker)
        assert await room.ask() is ErrorCode.NONE
        # Its errors are its caller's, but for the one that says that it is no controller.
        assert await room.ask() is ErrorCode.BROKER_NOT_AVAILABLE

    runs(scenario)


def test_this_broker_asks_itself_where_it_is_the_controller() -> None:
    async def scenario() -> None:
        room = Room(OWN)
        assert await room.ask() is ErrorCode.NONE
        assert len(room.local) == 1

    runs(scenario)


def test_a_controller_that_is_not_known_yet_is_waited_for() -> None:
    async def scenario() -> None:
        room = Room(NO_LEADER, broker_2=ScriptedBroker())
        asking = asyncio.ensure_future(room.ask())
        await asyncio.sleep(0.01)
        room.metadata.controller_id = OTHER
        assert await asking is ErrorCode.NONE

    runs(scenario)


def test_another_controller_is_looked_for_where_the_known_one_is_none_or_is_gone() -> None:
    async def scenario() -> None:
        deposed = ScriptedBroker(*[ErrorCode.NOT_CONTROLLER] * 100)
        room = Room(OTHER, broker_2=deposed, broker_3=ScriptedBroker())
        asking = asyncio.ensure_future(room.ask())
        await deposed.asked.wait()
        room.metadata.controller_id = THIRD
        assert await asking is ErrorCode.NONE

        gone = Room(OTHER, broker_3=ScriptedBroker())
        asking = asyncio.ensure_future(gone.ask())
        await asyncio.sleep(0.01)
        gone.metadata.controller_id = THIRD
        assert await asking is ErrorCode.NONE

    runs(scenario)


def test_nobody_waits_for_a_paused_controller_once_there_is_another() -> None:
    async def scenario() -> None:
        paused = ScriptedBroker(None)
        room = Room(OTHER, broker_2=paused, broker_3=ScriptedBroker())
        asking = asyncio.ensure_future(room.ask(timeout_ms=60_000))
        await paused.asked.wait()
        room.metadata.controller_id = THIRD
        room.link.on_controller_changed()
        async with asyncio.timeout(30):
            assert await asking is ErrorCode.NONE

    runs(scenario)


def test_who_gets_no_answer_in_time_is_told_so() -> None:
    async def scenario() -> None:
        with pytest.raises(ConnectionFailed, match=r"no answer from the controller.*nobody listens"):
            await Room(OTHER).ask(timeout_ms=120)
        with pytest.raises(ConnectionFailed, match="no controller is known"):
            await Room(NO_LEADER).ask(timeout_ms=60)

    runs(scenario)


def test_a_refusal_for_each_topic_counts_as_one_of_the_whole() -> None:
    async def scenario() -> None:
        room = Room(OWN)
        answers = [ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]

        async def answer(key: ApiKey, version: int, message: Any) -> CreateTopicsResponse:
            return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=answers.pop(0))])

        link = ControllerLink(PeerConnector(Wires({}), room.metadata, OWN, "PLAINTEXT"), room.metadata, answer)
        told = await link.send(
            ApiKey.CREATE_TOPICS, 7, ControlledShutdownRequest(), CreateTopicsResponse, timeout_ms=1_000
        )
        assert [topic.error_code for topic in told.topics] == [ErrorCode.NONE]

    runs(scenario)
