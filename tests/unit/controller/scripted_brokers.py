"""Several brokers that answer their controller by the book, on one embedded ZooKeeper: sessions, candidates, channels.

Each broker has a real `Controller` and a scripted inside: it records what it is told, and answers. It can be killed
(connections reset, others refused, its session lives on), paused, and expire.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kavka.controller.controller import Controller, ControllerPorts, ControllerSettings
from kavka.controller.orders.channels import ChannelPorts
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ConnectionFailed, ConnectionRefused, ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.api_versions_response import ApiVersionsResponse
from kavka.protocol.messages.leader_and_isr_response import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kavka.protocol.messages.stop_replica_response import StopReplicaPartitionError, StopReplicaResponse
from kavka.protocol.messages.update_metadata_response import UpdateMetadataResponse
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import Create, CreateMode, SessionExpired
from kavka.zookeeper.znode_paths import PERSISTENT_PATHS, broker_path, partition_state_path
from kavka.zookeeper.znodes import PartitionState
from tests.unit.controller.cluster_support import NOW_MS, registration

PATIENCE_S = 10.0


async def until(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds; it is an error if that takes long."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.001)


class Link:
    """A connection to a scripted broker."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._closed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return not self._closed.is_set()

    async def request(self, key: ApiKey, version: int, message: Any, answer_type: Any, *, timeout_ms: int) -> Any:
        answering = asyncio.ensure_future(self._broker.answer(key, message))
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((answering, closing), return_when=asyncio.FIRST_COMPLETED)
            if closing.done():
                raise ConnectionFailed("reset")
            return answering.result()
        finally:
            answering.cancel()
            closing.cancel()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def close(self) -> None:
        self._closed.set()
        self._broker.links.pop(self, None)


class ScriptedBroker:
    """What a broker's process is for the others: it listens, or not, and answers."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.listens = True
        self.running = asyncio.Event()
        self.running.set()
        self.links: dict[Link, None] = {}
        self.received: list[tuple[ApiKey, Any]] = []
        self.errors: dict[tuple[ApiKey, TopicPartition], ErrorCode] = {}
        """What it answers for a partition instead of NONE."""
        self.refuses: dict[ApiKey, ErrorCode] = {}
        """What it answers for all of a request."""

    async def answer(self, key: ApiKey, message: Any) -> Any:
        await self.running.wait()
        if key is ApiKey.API_VERSIONS:
            return ApiVersionsResponse()
        self.received.append((key, message))
        error = self.refuses.get(key, ErrorCode.NONE)
        match key:
            case ApiKey.UPDATE_METADATA:
                return UpdateMetadataResponse(error_code=error)
            case ApiKey.LEADER_AND_ISR:
                topics = [
                    LeaderAndIsrTopicError(
                        topic_id=topic.topic_id,
                        partition_errors=[
                            LeaderAndIsrPartitionError(
                                partition_index=state.partition_index,
                                error_code=self._error(key, topic.topic_name, state.partition_index),
                            )
                            for state in topic.partition_states
                        ],
                    )
                    for topic in message.topic_states
                ]
                return LeaderAndIsrResponse(error_code=error, topics=[] if error else topics)
            case _:
                errors = [
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=self._error(key, topic.topic_name, state.partition_index),
                    )
                    for topic in message.topic_states
                    for state in topic.partition_states
                ]
                return StopReplicaResponse(error_code=error, partition_errors=[] if error else errors)

    def _error(self, key: ApiKey, topic: str, partition: int) -> ErrorCode:
        return self.errors.get((key, TopicPartition(topic, partition)), ErrorCode.NONE)

    def told(self, key: ApiKey) -> list[Any]:
        """The messages of this kind that it got."""
        return [message for kind, message in self.received if kind is key]

    def leads(self, topic: str, partition: int) -> tuple[int, int, list[int]] | None:
        """(leader, leader epoch, ISR) as the last LeaderAndIsr said."""
        found = None
        for message in self.told(ApiKey.LEADER_AND_ISR):
            for each in message.topic_states:
                for state in each.partition_states:
                    if (each.topic_name, state.partition_index) == (topic, partition):
                        found = state.leader, state.leader_epoch, list(state.isr)
        return found

    def metadata(self, topic: str, partition: int) -> tuple[int, int, list[int]] | None:
        """(leader, leader epoch, ISR) as the last UpdateMetadata said."""
        found = None
        for message in self.told(ApiKey.UPDATE_METADATA):
            for each in message.topic_states:
                for state in each.partition_states:
                    if (each.topic_name, state.partition_index) == (topic, partition):
                        found = state.leader, state.leader_epoch, list(state.isr)
        return found

    def cut(self) -> None:
        """Its connections are reset; it takes new ones if it listens."""
        for link in list(self.links):
            link.close()


class Member:
    """A broker of the cluster: session, candidate, inside."""

    def __init__(self, cluster: Brokers, broker_id: int, zookeeper: LocalZooKeeper, settings: ControllerSettings):
        self.broker_id = broker_id
        self.settings = settings
        self.zookeeper = zookeeper
        self.inside = ScriptedBroker(broker_id)
        self.decisions: list[Decision] = []
        self.epoch = -1
        self.is_unclean = False
        """Whether it registers as one whose last stop was not clean."""
        self.seen: list[int] = []
        self.controller = Controller(
            zookeeper,
            BrokerId(broker_id),
            settings,
            ControllerPorts(
                channels=ChannelPorts(cluster.open_peer, "PLAINTEXT", self.inside.answer),
                now_ms=lambda: NOW_MS,
                rng=random.Random(broker_id),
                record=self.decisions.append,
                on_controller_changed=self.seen.append,
            ),
        )

    def reasons(self, kind: DecisionKind) -> list[str]:
        return [decision.why for decision in self.decisions if decision.kind is kind]


class Brokers:
    """Members by id, and the network between them."""

    def __init__(self, server: EmbeddedZooKeeper, admin: LocalZooKeeper) -> None:
        self.server = server
        self.admin = admin
        self.members: dict[int, Member] = {}

    def __getitem__(self, broker_id: int) -> Member:
        return self.members[broker_id]

    async def open_peer(self, host: str, port: int, timeout_ms: int) -> Link:
        await asyncio.sleep(0)
        inside = self.members[port - 9092].inside
        if not inside.listens:
            raise ConnectionRefused(f"{host}:{port}")
        link = Link(inside)
        inside.links[link] = None
        return link

    async def join(
        self, *broker_ids: int, settings: ControllerSettings | None = None, is_unclean: bool = False
    ) -> None:
        """These brokers register and take part in the election, one after another."""
        for broker_id in broker_ids:
            zookeeper = await self.server.connect()
            former = self.members.get(broker_id)
            settings = settings or (former.settings if former is not None else None)
            member = Member(self, broker_id, zookeeper, settings or ControllerSettings())
            member.is_unclean = is_unclean
            self.members[broker_id] = member
            await self._register(member)
            await member.controller.start()
        await self.settled()

    async def _register(self, member: Member) -> None:
        registered = replace(registration(member.broker_id), is_unclean=member.is_unclean)
        created = await member.zookeeper.create(
            broker_path(member.broker_id), registered.encode(), mode=CreateMode.EPHEMERAL
        )
        member.epoch = created.stat.czxid

    def kill(self, *broker_ids: int) -> None:
        """As kill -9: nothing listens, connections are reset, sessions live on."""
        for broker_id in broker_ids:
            member = self.members[broker_id]
            member.controller.abort()
            member.inside.listens = False
            member.inside.cut()

    async def expire(self, *broker_ids: int) -> None:
        """The sessions of these brokers are over, in one instant; for those whose are already, nothing happens."""
        sessions = [self.members[broker_id].zookeeper.session_id for broker_id in broker_ids]
        ended = await asyncio.gather(*map(self.server.expire, sessions), return_exceptions=True)
        assert all(each is None or isinstance(each, SessionExpired) for each in ended)
        await self.settled()

    async def restart(self, broker_id: int, *, is_unclean: bool = False) -> None:
        """A killed broker is started again; its former session is over by then."""
        await self.expire(broker_id)
        await self.join(broker_id, is_unclean=is_unclean)

    async def register_again(self, broker_id: int) -> None:
        """The broker, whose session expired, begins another one."""
        member = self.members[broker_id]
        await member.zookeeper.renew()
        await self._register(member)
        await self.settled()

    @property
    def controller(self) -> Member:
        (active,) = [member for member in self.members.values() if member.controller.is_active]
        return active

    async def settled(self) -> None:
        """Every event that is known of has been handled."""
        for _ in range(5):
            await asyncio.sleep(0)
            for member in list(self.members.values()):
                if member.inside.listens:
                    await member.controller.settled()

    async def state(self, topic: str, partition: int = 0) -> PartitionState:
        key = TopicPartition(topic, partition)
        data, _ = await self.admin.get(partition_state_path(key))
        return PartitionState.decode(key, data)

    async def until_state(self, topic: str, leader: int, isr: Sequence[int], partition: int = 0) -> PartitionState:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                state = await self.state(topic, partition)
                if state.leader == leader and list(state.isr) == list(isr):
                    return state
                await asyncio.sleep(0.001)


def run(tmp_path: Path, scenario: Callable[[Brokers], Awaitable[None]]) -> None:
    """Runs a scenario on a fresh cluster, bounded in time; a task that fails by a bug fails the test."""

    async def main() -> None:
        bugs: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: bugs.append(context))
        database = Database.open(LocalFileSystem(), str(tmp_path / "zk"), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: NOW_MS, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        admin = await server.connect()
        await admin.multi([Create(path) for path in PERSISTENT_PATHS if await admin.exists(path) is None])
        cluster = Brokers(server, admin)
        try:
            await scenario(cluster)
        finally:
            for member in cluster.members.values():
                await member.controller.stop()
            await server.stop()
        assert bugs == []

    asyncio.run(asyncio.wait_for(main(), 60))
