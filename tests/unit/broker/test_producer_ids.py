"""Producer ids: each once, also beside logs that are older than ZooKeeper's tree."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kavka.broker.transactions.producer_ids import DISTANCE, ProducerIds
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.model import BrokerId
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import ConnectionLoss, SessionExpired
from kavka.zookeeper.znode_paths import PRODUCER_ID_BLOCK_PATH
from kavka.zookeeper.znodes import ProducerIdBlock


def run(tmp_path: Path, scenario: Callable[[LocalZooKeeper], Awaitable[None]]) -> None:
    async def main() -> None:
        database = Database.open(LocalFileSystem(), str(tmp_path), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: 0, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        try:
            await scenario(await server.connect())
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_new_cluster_begins_with_0_and_another_broker_with_another_block(tmp_path: Path) -> None:
    async def scenario(zookeeper: LocalZooKeeper) -> None:
        first, second = ProducerIds(zookeeper, BrokerId(1)), ProducerIds(zookeeper, BrokerId(2))
        assert [await first.next(), await second.next(), await first.next()] == [0, 1000, 1]

    run(tmp_path, scenario)


def test_beside_older_logs_the_first_id_is_far_above_all_that_they_remember(tmp_path: Path) -> None:
    async def scenario(zookeeper: LocalZooKeeper) -> None:
        ids = ProducerIds(zookeeper, BrokerId(1))
        for remembered in (0, 4_321, 17):
            ids.stay_above(remembered)
        given = await ids.next()
        assert DISTANCE < given <= DISTANCE + 4_321
        again = ProducerIds(zookeeper, BrokerId(1))
        again.stay_above(1 << 61)  # What a client claims in its batches moves nothing once a block was reserved.
        assert await again.next() == given - given % 1000 + 1000

    run(tmp_path, scenario)


def test_an_id_that_no_cluster_gave_out_uses_nothing_up(tmp_path: Path) -> None:
    async def scenario(zookeeper: LocalZooKeeper) -> None:
        ids = ProducerIds(zookeeper, BrokerId(1))
        ids.stay_above(2**63 - 1)
        assert await ids.next() == 0

    run(tmp_path, scenario)


class Away:
    """Stands for a ZooKeeper that cannot be reached."""

    def __init__(self, failure: ZooKeeperError) -> None:
        self.failure = failure

    async def get(self, path: str) -> object:
        raise self.failure


@pytest.mark.parametrize("failure", [ConnectionLoss("get"), SessionExpired("get")])
def test_while_zookeeper_is_away_clients_ask_the_same_broker_again(failure: ZooKeeperError) -> None:
    """As Kafka's do while their controller is away. COORDINATOR_NOT_AVAILABLE has a producer look for a coordinator,
    and one without a transactional id has none: its client asked for that of no key."""

    async def ask() -> None:
        await ProducerIds(Away(failure), BrokerId(1)).next()  # type: ignore[arg-type]  # it comes no further

    with pytest.raises(RequestError) as refused:
        asyncio.run(ask())
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_when_all_ids_are_used_up_there_are_no_more(tmp_path: Path) -> None:
    async def scenario(zookeeper: LocalZooKeeper) -> None:
        last_but_one = ProducerIdBlock(BrokerId(1), 2**63 - 2001, 2**63 - 1002)
        await zookeeper.create(PRODUCER_ID_BLOCK_PATH, last_but_one.encode())
        ids = ProducerIds(zookeeper, BrokerId(1))
        assert [await ids.next() for _ in range(1000)][-1] == 2**63 - 2
        with pytest.raises(RequestError, match="used up"):
            await ids.next()

    run(tmp_path, scenario)
