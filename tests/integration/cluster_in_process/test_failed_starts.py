"""A broker whose start fails half way: everything that was begun has ended, and the next start succeeds."""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.assembly.broker import Broker
from kavka.broker.assembly.ports import Ports
from kavka.broker.assembly.start import start_broker
from kavka.broker.metadata.metadata_cache import Endpoint
from kavka.config.broker import BrokerConfig
from kavka.errors import KavkaError, LogDirectoryLocked, ZooKeeperError
from kavka.log.log_manager import LogManager
from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.loop import FileShares
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.process import wall_ms
from kavka.runtime.server import Server
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import Listener


class UnreachableZooKeeper:
    """A session whose operations fail from the `fails_at`th on. Counts who listens to its events."""

    def __init__(self, session: Any, fails_at: int) -> None:
        self._session = session
        self._left = fails_at
        self.listeners = 0

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        undo = self._session.subscribe(listener)
        self.listeners += 1
        is_there = True

        def unsubscribe() -> None:
            nonlocal is_there
            self.listeners -= is_there
            is_there = False
            undo()

        return unsubscribe

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def operation(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise ZooKeeperError(f"{name}: ZooKeeper is away")
            return await found(*args, **options)

        return operation


class Machine:
    """One log directory, one ZooKeeper, and brokers that are started on them one after another."""

    def __init__(self, path: Path, zookeeper: EmbeddedZooKeeper) -> None:
        self._zookeeper = zookeeper
        self.filesystem = LocalFileSystem()
        self.config = BrokerConfig.from_properties(
            {
                "broker.id": "1",
                "listeners": "PLAINTEXT://127.0.0.1:9092",
                "log.dirs": str(path / "logs"),
                "offsets.topic.num.partitions": "3",
            }
        )
        self.halted: list[str] = []
        self.made: list[Broker] = []
        self.is_made = asyncio.Event()
        self.filesystem.make_directory(str(path / "logs"))

    async def session(self, *, fails_at: int = 1_000_000) -> UnreachableZooKeeper:
        return UnreachableZooKeeper(await self._zookeeper.connect(), fails_at)

    async def start(self, session: Any) -> Broker:
        async def run_blocking(work: Callable[[], None]) -> None:
            work()

        ports = Ports(
            session,
            self.filesystem,
            random.Random(1),
            wall_ms,
            run_blocking,
            self.halted.append,
            1000,
            lambda config: None,
            SocketNetwork(),
            on_made=self._on_made,
        )
        return await start_broker(self.config, ports, {"PLAINTEXT": Endpoint("127.0.0.1", 9092)})

    def _on_made(self, broker: Broker) -> None:
        self.made.append(broker)
        self.is_made.set()


@asynccontextmanager
async def _machine(path: Path) -> Any:
    filesystem = LocalFileSystem()
    filesystem.make_directory(str(path / "zookeeper"))
    database = Database.open(filesystem, str(path / "zookeeper"), DatabaseSettings(sync=SyncPolicy.NEVER))
    zookeeper = EmbeddedZooKeeper(database, now_ms=wall_ms, rng=random.Random(1))
    await zookeeper.start(close_former_sessions=True)
    try:
        yield Machine(path, zookeeper)
    finally:
        await zookeeper.stop()


def on_machine(path: Path, work: Callable[[Machine], Awaitable[None]]) -> None:
    async def run() -> None:
        async with _machine(path) as machine:
            await asyncio.wait_for(work(machine), 60)

    asyncio.run(run())


async def tasks_besides(before: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Tasks that are left after those that were cancelled had the time to end."""
    for _ in range(20):
        await asyncio.sleep(0)
    return asyncio.all_tasks() - before


def test_zookeeper_may_fail_at_every_step_of_a_start(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        for fails_at in range(1_000):
            session = await machine.session(fails_at=fails_at)
            before = asyncio.all_tasks()
            try:
                broker = await machine.start(session)
            except ZooKeeperError:
                assert session.listeners == 0, f"somebody listens still, after a failure of operation {fails_at}"
                assert not await tasks_besides(before), f"tasks run on after a failure of operation {fails_at}"
                await session._session.close()
                continue
            broker.abort()
            break
        assert fails_at > 20, "a start asks ZooKeeper more often"
        assert len(machine.made) > 5, "some starts fail after the parts were made"

    on_machine(tmp_path, work)


def test_a_start_that_fails_after_the_logs_were_opened_gives_their_lock_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(machine: Machine) -> None:
        def fail(self: LogManager, now_ms: int) -> Any:
            load(self, now_ms)
            raise OSError(errno.EIO, "the disk is gone")

        load = LogManager.load
        monkeypatch.setattr(LogManager, "load", fail)
        with pytest.raises(OSError, match="the disk is gone"):
            await machine.start(await machine.session())
        monkeypatch.setattr(LogManager, "load", load)
        broker = await machine.start(await machine.session())
        await broker.stop()
        assert not machine.halted

    on_machine(tmp_path, work)


def test_a_locked_log_directory_ends_the_start_and_leaves_the_other_broker_alone(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        first = await machine.start(await machine.session())
        before = asyncio.all_tasks()
        session = await machine.session()
        with pytest.raises(LogDirectoryLocked):
            await machine.start(session)
        assert session.listeners == 0
        assert not await tasks_besides(before)
        await first.stop()

    on_machine(tmp_path, work)


def test_a_start_that_is_cancelled_ends_what_it_began(tmp_path: Path) -> None:
    async def work(machine: Machine) -> None:
        before = asyncio.all_tasks()
        session = await machine.session()
        starting = asyncio.create_task(machine.start(session))
        await machine.is_made.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert session.listeners == 0
        assert not await tasks_besides(before)
        await session._session.close()
        broker = await machine.start(await machine.session())
        await broker.stop()

    on_machine(tmp_path, work)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_port_that_is_taken_ends_the_start_before_a_log_is_touched(
    tmp_path: Path, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.runtime.network.ports.PATIENCE_S", 0.1)
    config = BrokerConfig.from_properties(
        {"broker.id": "1", "listeners": f"PLAINTEXT://127.0.0.1:{taken_port}", "log.dirs": str(tmp_path / "logs")}
    )

    async def run() -> None:
        server = Server(config, FileShares(100, 100))
        with pytest.raises(KavkaError, match=str(taken_port)):
            await server.start()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert not list(tmp_path.rglob("meta.properties"))
