"""Change nodes that are old: which go, how many are looked at, and that nobody waits for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from kavka.zookeeper.database import Database, DatabaseSettings
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.old_changes import CHANGE_RETENTION_MS, PURGE_INTERVAL_MS, OldChanges, delete_old
from kavka.zookeeper.port import ConnectionLoss, CreateMode, Stat
from tests.unit.zookeeper.memory_disk import MemoryDisk

NOW_MS = 1_700_000_000_000
PARENT = "/changes"


def run(scenario: Callable[[LocalZooKeeper], Awaitable[None]]) -> None:
    async def main() -> None:
        database = Database.open(MemoryDisk(), "/zk", DatabaseSettings())
        server = EmbeddedZooKeeper(database, now_ms=lambda: NOW_MS, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        try:
            zookeeper = await server.connect()
            await zookeeper.create(PARENT)
            await scenario(zookeeper)
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


async def change(zookeeper: LocalZooKeeper) -> None:
    await zookeeper.create(f"{PARENT}/change_", mode=CreateMode.PERSISTENT_SEQUENTIAL)


class Beside:
    """Tasks that were begun; they run when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Coroutine[Any, Any, None]] = []

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        self.begun.append(work)

    async def run_all(self) -> None:
        while self.begun:
            await self.begun.pop()


def test_change_nodes_go_after_their_time() -> None:
    async def scenario(zookeeper: LocalZooKeeper) -> None:
        await change(zookeeper)
        assert await delete_old(zookeeper, PARENT, NOW_MS + CHANGE_RETENTION_MS) == 0
        assert await delete_old(zookeeper, PARENT, NOW_MS + CHANGE_RETENTION_MS + 1) == 1
        assert await zookeeper.children(PARENT) == []

    run(scenario)


def test_of_those_that_stay_one_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change must not look at half a million. A name without a number may be of any age, and stops nobody."""
    looked_at: list[str] = []

    async def scenario(zookeeper: LocalZooKeeper) -> None:
        exists = zookeeper.exists

        async def counted(path: str, *, watch: bool = False) -> Stat | None:
            looked_at.append(path)
            return await exists(path, watch=watch)

        for _ in range(20):
            await change(zookeeper)
        await zookeeper.create(f"{PARENT}/by-hand")
        monkeypatch.setattr(zookeeper, "exists", counted)
        assert await delete_old(zookeeper, PARENT, NOW_MS + CHANGE_RETENTION_MS) == 0
        assert looked_at == [f"{PARENT}/by-hand", f"{PARENT}/change_0000000000"]
        assert await delete_old(zookeeper, PARENT, NOW_MS + CHANGE_RETENTION_MS + 1) == 21

    run(scenario)


def test_they_are_looked_for_beside_and_once_a_minute() -> None:
    async def scenario(zookeeper: LocalZooKeeper) -> None:
        beside, now_ms = Beside(), NOW_MS
        old = OldChanges(zookeeper, [PARENT], wall_ms=lambda: now_ms, spawn=beside.spawn)
        await change(zookeeper)
        now_ms += CHANGE_RETENTION_MS + 1
        old.begin()
        assert len(await zookeeper.children(PARENT)) == 1, "nothing is done before it runs beside"
        old.begin()
        now_ms += PURGE_INTERVAL_MS - 1
        old.begin()
        assert len(beside.begun) == 1
        now_ms += 1
        old.begin()
        assert len(beside.begun) == 2
        await beside.run_all()
        assert await zookeeper.children(PARENT) == []
        now_ms -= 10 * PURGE_INTERVAL_MS
        old.begin()
        assert len(beside.begun) == 1, "a clock that was set back"
        await beside.run_all()

    run(scenario)


def test_a_zookeeper_that_fails_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task runs in the broker: an exception would halt it."""

    async def scenario(zookeeper: LocalZooKeeper) -> None:
        async def gone(path: str, *, watch: bool = False) -> list[str]:
            raise ConnectionLoss(path)

        monkeypatch.setattr(zookeeper, "children", gone)
        beside = Beside()
        OldChanges(zookeeper, [PARENT], wall_ms=lambda: NOW_MS, spawn=beside.spawn).begin()
        await beside.run_all()

    run(scenario)
