"""Channels: order, retries, bounds, and what is made of lost and refused connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kavka.controller.decide.context import LiveBroker
from kavka.controller.orders.channels import ChannelLimits, ChannelPorts, Channels
from kavka.controller.orders.control_requests import ControlRequest
from kavka.errors import ConnectionFailed, ConnectionRefused, ErrorCode
from kavka.model import BrokerId
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.update_metadata_request import UpdateMetadataRequest
from kavka.zookeeper.znodes import BrokerEndpoint
from tests.unit.controller.cluster_support import registration
from tests.unit.controller.scripted_brokers import Link, ScriptedBroker, until

LIMITS = ChannelLimits(socket_timeout_ms=1_000, max_queued_requests=5, retry_ms=5)


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, int]] = []
        """(broker, the request's controller epoch, which numbers requests here)"""
        self.notes: list[tuple[str, int]] = []

    def on_answer(self, broker_id: BrokerId, broker_epoch: int, request: ControlRequest, answer: Any) -> None:
        assert isinstance(request.message, UpdateMetadataRequest)
        self.answers.append((broker_id, request.message.controller_epoch))

    def on_unreachable(self, broker_id: BrokerId, broker_epoch: int) -> None:
        self.notes.append(("unreachable", broker_id))

    def on_reachable(self, broker_id: BrokerId, broker_epoch: int) -> None:
        self.notes.append(("reachable", broker_id))

    def on_behind(self, broker_id: BrokerId, broker_epoch: int) -> None:
        self.notes.append(("behind", broker_id))

    def on_stale_controller(self, broker_id: BrokerId) -> None:
        self.notes.append(("stale controller", broker_id))


class Setting:
    """Channels of broker 1 to itself and to scripted broker 2."""

    def __init__(self) -> None:
        self.local = ScriptedBroker(1)
        self.other = ScriptedBroker(2)
        self.heard = Heard()
        self.attempts = 0
        self.answers_connections = True
        self.channels = Channels(
            BrokerId(1), ChannelPorts(self.open_peer, "PLAINTEXT", self.local.answer, "CONTROL"), self.heard, LIMITS
        )
        self.asked: list[tuple[str, int]] = []

    async def open_peer(self, host: str, port: int, timeout_ms: int) -> Link:
        self.attempts += 1
        self.asked.append((host, port))
        await asyncio.sleep(0)
        if not self.answers_connections:
            raise ConnectionFailed(f"{host}:{port} does not answer")
        if not self.other.listens:
            raise ConnectionRefused(f"{host}:{port}")
        link = Link(self.other)
        self.other.links[link] = None
        return link

    def register(self, *, epoch: int = 10, grace_ms: int = 0, suspects: tuple[int, ...] = ()) -> None:
        brokers = {BrokerId(each): LiveBroker(registration(each), epoch) for each in (1, 2)}
        self.channels.set_brokers(brokers, grace_ms=grace_ms, suspects=[BrokerId(each) for each in suspects])

    def send(self, *numbers: int) -> Any:
        requests = [
            ControlRequest(ApiKey.UPDATE_METADATA, 8, UpdateMetadataRequest(controller_epoch=number))
            for number in numbers
        ]
        return self.channels.send({BrokerId(1): requests, BrokerId(2): requests})

    def got(self, broker: ScriptedBroker) -> list[int]:
        return [message.controller_epoch for _, message in broker.received]


def run(scenario: Callable[[Setting], Awaitable[None]]) -> None:
    async def main() -> None:
        setting = Setting()
        try:
            await scenario(setting)
        finally:
            setting.channels.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_requests_arrive_in_order_and_a_delivery_is_done_when_all_have_answered() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        first, second = setting.send(1, 2), setting.send(3)
        assert not await second.wait(0)
        assert await second.wait(1_000)
        assert await first.wait(0)
        assert setting.got(setting.local) == setting.got(setting.other) == [1, 2, 3]

    run(scenario)


@pytest.mark.setting("control.plane.listener.name")
def test_a_broker_is_reached_by_the_controllers_own_listener_where_it_has_one() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        assert await setting.send(1).wait(1_000)
        assert setting.asked == [("localhost", 9094)]
        both = replace(
            registration(2), endpoints=(*registration(2).endpoints, BrokerEndpoint("CONTROL", "PLAINTEXT", "inside", 7))
        )
        brokers = {BrokerId(1): LiveBroker(registration(1), 10), BrokerId(2): LiveBroker(both, 11)}
        setting.channels.set_brokers(brokers, grace_ms=0)
        assert await setting.send(2).wait(1_000)
        assert setting.asked == [("localhost", 9094), ("inside", 7)]

    run(scenario)


def test_a_delivery_is_waited_for_so_long_and_no_longer() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        setting.other.running.clear()
        delivery = setting.send(1)
        assert not await delivery.wait(20)
        setting.other.running.set()
        assert await delivery.wait(1_000)

    run(scenario)


def test_a_request_whose_connection_was_lost_is_sent_again_before_any_other() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        setting.other.running.clear()
        setting.send(1)
        delivery = setting.send(2)
        for _ in range(3):
            await until(lambda: bool(setting.other.links))
            await asyncio.sleep(0.01)
            setting.other.cut()
        setting.other.running.set()
        assert await delivery.wait(1_000)
        # The last answer to 1 may have been on its way when the connection was cut.
        assert list(dict.fromkeys(setting.got(setting.other))) == [1, 2]
        assert setting.got(setting.other)[-1] == 2
        assert setting.heard.notes == []

    run(scenario)


def test_a_lost_connection_that_is_refused_again_tells_of_it_once_and_frees_who_waits() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        await until(lambda: bool(setting.other.links))
        setting.other.running.clear()
        delivery = setting.send(1)
        await asyncio.sleep(0.01)
        setting.other.listens = False
        setting.other.cut()
        assert await delivery.wait(1_000)
        assert setting.heard.notes == [("unreachable", 2)]
        attempts = setting.attempts
        await until(lambda: setting.attempts > attempts + 3)
        assert setting.heard.notes == [("unreachable", 2)]
        assert not await setting.send(2).wait(0), "the controller's own broker is still waited for"
        setting.other.listens = True
        setting.other.running.set()
        await until(lambda: setting.got(setting.other) == [1, 2])
        assert setting.heard.notes == [("unreachable", 2), ("reachable", 2)]

    run(scenario)


def test_an_idle_connection_is_watched_too() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        await until(lambda: bool(setting.other.links))
        setting.other.listens = False
        setting.other.cut()
        await until(lambda: setting.heard.notes == [("unreachable", 2)])

    run(scenario)


def test_no_answer_to_a_connection_attempt_is_no_refusal() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        await until(lambda: bool(setting.other.links))
        setting.answers_connections = False
        setting.other.cut()
        attempts = setting.attempts
        await until(lambda: setting.attempts > attempts + 3)
        assert setting.heard.notes == []

    run(scenario)


def test_a_broker_that_has_just_come_may_refuse_for_a_while() -> None:
    async def scenario(setting: Setting) -> None:
        setting.other.listens = False
        setting.register(grace_ms=60)
        await until(lambda: setting.attempts > 2)
        assert setting.heard.notes == []
        await until(lambda: setting.heard.notes == [("unreachable", 2)])

    run(scenario)


def test_a_suspect_is_told_of_when_it_turns_out_to_live() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register(suspects=(2,))
        await setting.channels.look(1_000)
        assert setting.heard.notes == [("reachable", 2)]

    run(scenario)


def test_who_is_looked_for_has_answered_or_refuses_and_is_waited_for_so_long() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        await setting.channels.look(5_000)
        setting.other.running.clear()  # It is being killed: no answer, and no reset yet.
        loop.call_later(0.02, lambda: setattr(setting.other, "listens", False))
        loop.call_later(0.03, setting.other.cut)
        await setting.channels.look(5_000)
        assert setting.heard.notes == [("unreachable", 2)]
        assert loop.time() - began_at < 4
        setting.other.listens = True
        await until(lambda: setting.heard.notes[-1] == ("reachable", 2))
        await setting.channels.look(20)
        assert len(setting.heard.notes) == 2, "paused: nothing is known of it"

    run(scenario)


def test_another_epoch_drops_what_was_queued_for_the_former_life() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        setting.other.running.clear()
        delivery = setting.send(1, 2)
        await asyncio.sleep(0.01)
        setting.register(epoch=11)
        assert await delivery.wait(1_000)
        setting.other.running.set()
        await setting.send(3).wait(1_000)
        assert setting.got(setting.other)[-1] == 3
        assert 2 not in setting.got(setting.other)

    run(scenario)


def test_a_stale_broker_epoch_ends_the_channel_and_a_stale_controller_epoch_is_told() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        setting.other.refuses = {ApiKey.UPDATE_METADATA: ErrorCode.STALE_CONTROLLER_EPOCH}
        await setting.send(1).wait(1_000)
        assert setting.heard.notes == [("stale controller", 2)]
        setting.other.refuses = {ApiKey.UPDATE_METADATA: ErrorCode.STALE_BROKER_EPOCH}
        assert await setting.send(2, 3).wait(1_000)
        assert await setting.send(4).wait(1_000)
        assert setting.got(setting.other) == [1, 2]
        assert setting.heard.answers == [(1, number) for number in (1, 2, 3, 4)]

    run(scenario)


def test_a_queue_that_is_full_is_dropped_and_the_broker_is_told_everything_when_it_answers() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        setting.other.running.clear()
        first = setting.send(1)
        await asyncio.sleep(0.01)
        for number in range(2, 9):
            setting.send(number)
            await until(lambda: setting.got(setting.local)[-1:] == [number])  # noqa: B023
        assert await first.wait(1_000), "nobody waits for what was dropped"
        assert setting.heard.notes == []
        setting.other.running.set()
        await until(lambda: setting.heard.notes == [("behind", 2)])
        assert await setting.send(9).wait(1_000)
        assert setting.got(setting.other) == [1, 9]

    run(scenario)


def test_a_broker_that_drops_every_connection_is_not_asked_as_fast_as_it_can_be() -> None:
    async def scenario(setting: Setting) -> None:
        setting.register()
        setting.other.running.clear()
        setting.send(1)
        ends_at = asyncio.get_running_loop().time() + 0.1
        while asyncio.get_running_loop().time() < ends_at:
            setting.other.cut()
            await asyncio.sleep(0)
        assert setting.attempts < 40

    run(scenario)
