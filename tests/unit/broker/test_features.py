"""Features: what a broker tells of feature levels follows /feature and the live brokers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

from kavka.broker.metadata.features import SUPPORTED, Features
from kavka.model import BrokerId
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import Create
from kavka.zookeeper.znode_paths import FEATURE_PATH, PERSISTENT_PATHS, broker_path
from kavka.zookeeper.znodes import BrokerEndpoint, BrokerRegistration, FeatureNode


def run(tmp_path: Path, scenario: Callable[[LocalZooKeeper, Features], Awaitable[None]]) -> None:
    async def main() -> None:
        database = Database.open(LocalFileSystem(), str(tmp_path), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: 0, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        flows: list[asyncio.Task[None]] = []

        def spawn(flow: Coroutine[None, None, None]) -> None:
            flows.append(asyncio.get_running_loop().create_task(flow))

        try:
            zookeeper = await server.connect()
            await zookeeper.multi([Create(path) for path in PERSISTENT_PATHS])
            await scenario(zookeeper, Features(zookeeper, spawn))
        finally:
            for flow in flows:
                flow.cancel()
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


async def register(zookeeper: LocalZooKeeper, broker_id: int, *, is_kavka: bool = True) -> int:
    endpoint = BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092)
    registration = BrokerRegistration(BrokerId(broker_id), (endpoint,), 0, features=SUPPORTED if is_kavka else {})
    return (await zookeeper.create(broker_path(broker_id), registration.encode())).stat.czxid


def test_among_kavkas_brokers_everything_is_in_force_and_nothing_next_to_one_of_apache_kafka(tmp_path: Path) -> None:
    async def scenario(zookeeper: LocalZooKeeper, features: Features) -> None:
        assert (features.finalized.epoch, features.transaction_version(), features.group_version()) == (-1, 0, 0)
        registered = await register(zookeeper, 1)
        await features.start()
        assert features.finalized.epoch == registered
        assert (features.transaction_version(), features.group_version()) == (2, 1)
        registered = await register(zookeeper, 2, is_kavka=False)
        await features.await_epoch(registered, 10)
        assert (features.finalized.epoch, features.finalized.levels) == (registered, {})
        await zookeeper.delete(broker_path(2))
        await features.await_epoch(registered + 1, 10)
        assert features.transaction_version() == 2

    run(tmp_path, scenario)


def test_a_level_that_is_set_is_told_with_a_higher_epoch(tmp_path: Path) -> None:
    async def scenario(zookeeper: LocalZooKeeper, features: Features) -> None:
        await register(zookeeper, 1)
        await features.start()
        before = features.finalized.epoch
        node = FeatureNode(enabled=True, features={"transaction.version": 1}, held_at_zero=("group.version",))
        created = await zookeeper.create(FEATURE_PATH, node.encode())
        await features.await_epoch(created.stat.mzxid, 10)
        assert before < features.finalized.epoch == created.stat.mzxid
        assert (features.transaction_version(), features.group_version()) == (1, 0)

    run(tmp_path, scenario)


def test_a_feature_znode_that_cannot_be_read_leaves_nothing_in_force(tmp_path: Path) -> None:
    async def scenario(zookeeper: LocalZooKeeper, features: Features) -> None:
        await register(zookeeper, 1)
        await features.start()
        created = await zookeeper.create(FEATURE_PATH, b"garbage")
        await features.await_epoch(created.stat.mzxid, 10)
        assert features.finalized.levels == {}

    run(tmp_path, scenario)


def test_waiting_for_an_epoch_that_does_not_come_ends(tmp_path: Path) -> None:
    async def scenario(zookeeper: LocalZooKeeper, features: Features) -> None:
        await features.start()
        await features.await_epoch(1 << 40, 0.01)
        assert features.finalized.epoch < 1 << 40

    run(tmp_path, scenario)
