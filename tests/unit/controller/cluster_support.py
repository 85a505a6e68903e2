"""A cluster of sessions on one embedded ZooKeeper, without brokers behind them."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from kavka.controller.controller import Controller, ControllerPorts, ControllerSettings
from kavka.controller.orders.channels import ChannelPorts
from kavka.controller.orders.control_requests import LEADER_DURING_DELETE
from kavka.decisions import Decision
from kavka.errors import ConnectionFailed
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.leader_and_isr_response import LeaderAndIsrResponse
from kavka.protocol.messages.stop_replica_response import StopReplicaResponse
from kavka.protocol.messages.update_metadata_response import UpdateMetadataResponse
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import Create, CreateMode
from kavka.zookeeper.znode_paths import PERSISTENT_PATHS, broker_path, partition_state_path
from kavka.zookeeper.znodes import BrokerEndpoint, BrokerRegistration, PartitionState

NOW_MS = 1_700_000_000_000


def registration(broker_id: int, rack: str | None = None) -> BrokerRegistration:
    endpoint = BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092 + broker_id)
    return BrokerRegistration(BrokerId(broker_id), (endpoint,), NOW_MS, rack)


class Told(NamedTuple):
    """A partition as brokers were told of it."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    replicas: tuple[int, ...]
    state: LeaderAndIsr
    is_new: bool


class Change(NamedTuple):
    """One UpdateMetadata, as the controller's own broker got it; `brokers_changed`: one that says who is alive came
    just before."""

    partitions: tuple[Told, ...]
    deleted_topics: tuple[tuple[str, uuid.UUID], ...]
    brokers_changed: bool


class Candidate:
    """A broker's session and its controller; `orders` is what it was told as the controller's own broker."""

    def __init__(self, broker_id: int, zookeeper: LocalZooKeeper, settings: ControllerSettings) -> None:
        self.zookeeper = zookeeper
        self.orders: list[Change] = []
        self.ordered = asyncio.Event()
        self.decisions: list[Decision] = []
        self.failure: Exception | None = None
        """What carrying out raises."""
        self.obeys = asyncio.Event()
        """Carrying out waits for it."""
        self.obeys.set()
        self.seen: list[int] = []
        self._heard_of_brokers = False
        self._new: dict[TopicPartition, bool] = {}
        self.controller = Controller(
            zookeeper,
            BrokerId(broker_id),
            settings,
            ControllerPorts(
                channels=ChannelPorts(self._open_peer, "PLAINTEXT", self._deliver),
                now_ms=lambda: NOW_MS,
                rng=random.Random(broker_id),
                record=self.decisions.append,
                on_controller_changed=self.seen.append,
            ),
        )

    async def _open_peer(self, host: str, port: int, timeout_ms: int) -> Any:
        """Nobody is behind the other sessions; whether they live is said by ZooKeeper alone."""
        raise ConnectionFailed(f"{host}:{port} does not answer")

    async def _deliver(self, key: ApiKey, message: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        await self.obeys.wait()
        match key:
            case ApiKey.UPDATE_METADATA:
                self._note(message)
                return UpdateMetadataResponse()
            case ApiKey.LEADER_AND_ISR:
                for topic in message.topic_states:
                    for state in topic.partition_states:
                        self._new[TopicPartition(topic.topic_name, state.partition_index)] = state.is_new
                return LeaderAndIsrResponse()
            case _:
                return StopReplicaResponse()

    def _note(self, message: Any) -> None:
        told, deleted = [], []
        for topic in message.topic_states:
            if all(state.leader == LEADER_DURING_DELETE for state in topic.partition_states):
                deleted.append((topic.topic_name, topic.topic_id))
                continue
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                published = LeaderAndIsr(state.leader, state.leader_epoch, tuple(state.isr), state.zk_version)
                is_new = self._new.pop(partition, False)
                told.append(Told(partition, topic.topic_id, tuple(state.replicas), published, is_new))
        self.orders.append(Change(tuple(told), tuple(deleted), self._heard_of_brokers))
        self._heard_of_brokers = not message.topic_states
        self.ordered.set()


class Cluster:
    """Sessions by broker id."""

    def __init__(self, server: EmbeddedZooKeeper, admin: LocalZooKeeper) -> None:
        self.server = server
        self.admin = admin
        """A session that is no broker's, to look at znodes with."""
        self.candidates: dict[int, Candidate] = {}

    async def register(
        self, broker_id: int, *, rack: str | None = None, settings: ControllerSettings | None = None
    ) -> Candidate:
        """A live broker that does not take part in the election yet."""
        zookeeper = await self.server.connect()
        await zookeeper.create(
            broker_path(broker_id), registration(broker_id, rack).encode(), mode=CreateMode.EPHEMERAL
        )
        candidate = Candidate(broker_id, zookeeper, settings or ControllerSettings())
        self.candidates[broker_id] = candidate
        return candidate

    async def join(
        self, broker_id: int, *, rack: str | None = None, settings: ControllerSettings | None = None
    ) -> Candidate:
        """A live broker that takes part in the election."""
        candidate = await self.register(broker_id, rack=rack, settings=settings)
        await candidate.controller.start()
        return candidate

    async def kill(self, *broker_ids: int) -> None:
        """The sessions of these brokers are over, in one instant as far as the others can see."""
        for broker_id in broker_ids:
            await self.server.expire(self.candidates[broker_id].zookeeper.session_id)
        await self.settled()

    async def come_back(self, broker_id: int) -> None:
        """The broker registers again after its session expired."""
        candidate = self.candidates[broker_id]
        await candidate.zookeeper.renew()
        await candidate.zookeeper.create(
            broker_path(broker_id), registration(broker_id).encode(), mode=CreateMode.EPHEMERAL
        )
        await self.settled()

    async def settled(self) -> None:
        """Every controller that takes part has handled its events, and its own broker the orders."""
        for _ in range(10):
            await asyncio.sleep(0)
            for candidate in self.candidates.values():
                if candidate.controller.is_active or candidate.seen:
                    await candidate.controller.settled()

    async def state(self, topic: str, partition: int) -> PartitionState:
        key = TopicPartition(topic, partition)
        data, _ = await self.admin.get(partition_state_path(key))
        return PartitionState.decode(key, data)


def run(tmp_path: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """Runs a scenario on a fresh cluster, bounded in time."""

    async def main() -> None:
        database = Database.open(LocalFileSystem(), str(tmp_path / "zk"), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: NOW_MS, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        admin = await server.connect()
        await admin.multi([Create(path) for path in PERSISTENT_PATHS if await admin.exists(path) is None])
        cluster = Cluster(server, admin)
        try:
            await scenario(cluster)
        finally:
            for candidate in cluster.candidates.values():
                await candidate.controller.stop()
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))
