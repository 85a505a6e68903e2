"""A cluster of sessions on one embedded ZooKeeper, without brokers behind them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from kavka.controller.controller import Controller, ControllerSettings
from kavka.controller.reign import ClusterChange
from kavka.model import BrokerId, TopicPartition
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.local import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import Create, CreateMode
from kavka.zookeeper.znodes import (
    PERSISTENT_PATHS,
    BrokerEndpoint,
    BrokerRegistration,
    PartitionState,
    broker_path,
    partition_state_path,
)

NOW_MS = 1_700_000_000_000


def registration(broker_id: int, rack: str | None = None) -> BrokerRegistration:
    endpoint = BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092 + broker_id)
    return BrokerRegistration(BrokerId(broker_id), (endpoint,), NOW_MS, rack)


class Candidate:
    """A broker's session and its controller; `orders` is what it was told to carry out."""

    def __init__(self, broker_id: int, zookeeper: LocalZooKeeper, settings: ControllerSettings) -> None:
        self.zookeeper = zookeeper
        self.orders: list[ClusterChange] = []
        self.ordered = asyncio.Event()
        self.failure: Exception | None = None
        """What carrying out raises."""
        self.seen: list[int] = []
        self.controller = Controller(
            zookeeper,
            BrokerId(broker_id),
            settings=settings,
            carry_out=self.carry_out,
            now_ms=lambda: NOW_MS,
            rng=random.Random(broker_id),
            on_controller_changed=self.seen.append,
        )

    async def carry_out(self, change: ClusterChange) -> None:
        if self.failure is not None:
            raise self.failure
        if change.brokers_changed:
            assert self.controller.context.brokers, "whoever carries out may ask for the brokers"
        self.orders.append(change)
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
        """Every controller that takes part has handled its events."""
        for _ in range(3):
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

    asyncio.run(asyncio.wait_for(main(), 30))
