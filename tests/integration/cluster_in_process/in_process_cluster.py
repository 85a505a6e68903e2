"""InProcessCluster: brokers on one event loop and one embedded ZooKeeper, that a test can look into and break.

Decides how a broker is started, stopped and killed, and waits for conditions. Everything between brokers goes over
sockets, as between processes; what a test reads of a broker are its own questions, never its private parts.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from kavka.broker.assembly.broker import Broker
from kavka.client.cluster import Cluster
from kavka.config.broker import BrokerConfig
from kavka.controller.term.controller_term import NotController
from kavka.log.unified_log import UnifiedLog
from kavka.model import BrokerId, TopicPartition
from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.loop import FileShares
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.process import wall_ms
from kavka.runtime.server import Server, Surroundings
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import NoNode, ZooKeeper
from kavka.zookeeper.znode_paths import partition_state_path
from kavka.zookeeper.znodes import PartitionState
from tests.kit.ports import free_port

PATIENCE_S = 60.0
"""How long a test waits for what should take a moment; a machine may be busy."""
SHORT: Mapping[str, str] = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.retry.backoff.ms": "100",
    "replica.lag.time.max.ms": "2000",
    "num.network.threads": "1",
}


class InProcessCluster:
    """`async with InProcessCluster(tmp_path) as cluster`: brokers 1 to `count`, started together."""

    def __init__(
        self,
        path: Path,
        *,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        more_listeners: Sequence[str] = (),
        prepare: Callable[[ZooKeeper], Awaitable[None]] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        """`more_listeners`: names of those that each broker has beside PLAINTEXT; their ports are in `ports_of`.
        `prepare` is called with a session before any broker starts. `host` is the loopback, by a name or not."""
        self._host = host
        self._prepare = prepare
        self._path = path
        self._settings = {**SHORT, **(settings or {})}
        self._ports = {broker_id: free_port() for broker_id in range(1, count + 1)}
        self.ports_of = {name: {broker_id: free_port() for broker_id in self._ports} for name in more_listeners}
        self._servers: dict[int, Server] = {}
        self._database: Database | None = None
        self.halted: dict[int, str] = {}
        """What halted a broker, by its id."""

    async def __aenter__(self) -> InProcessCluster:
        filesystem = LocalFileSystem()
        directory = str(self._path / "zookeeper")
        filesystem.make_directory(directory)
        database = Database.open(filesystem, directory, DatabaseSettings(sync=SyncPolicy.NEVER))
        self.zookeeper = EmbeddedZooKeeper(database, now_ms=wall_ms, rng=random.Random(1))
        await self.zookeeper.start(close_former_sessions=True)
        self.session = await self.zookeeper.connect()
        if self._prepare is not None:
            await self._prepare(self.session)
        await asyncio.gather(*(self.start(broker_id) for broker_id in self._ports))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker_id in list(self._servers):
            await self.kill(broker_id)
        await self.zookeeper.stop()

    # -- brokers

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", port) for port in self._ports.values()]

    def client(self) -> Cluster:
        return Cluster(SocketNetwork(), self.bootstrap)

    def broker(self, broker_id: int) -> Broker:
        return self._servers[broker_id].broker

    @property
    def running(self) -> list[int]:
        return sorted(self._servers)

    @property
    def controller_id(self) -> int:
        """The broker that is the controller as far as it knows itself; -1 while none is."""
        for broker_id, server in self._servers.items():
            try:
                _ = server.broker.topics
            except NotController:
                continue
            return broker_id
        return -1

    def add_broker(self, broker_id: int) -> int:
        """Its port; it has no listener but PLAINTEXT. `start` starts it."""
        self._ports[broker_id] = free_port()
        return self._ports[broker_id]

    async def start(self, broker_id: int) -> Broker:
        properties = {
            "broker.id": str(broker_id),
            "listeners": ",".join(
                f"{name}://{self._host}:{ports[broker_id]}"
                for name, ports in {"PLAINTEXT": self._ports, **self.ports_of}.items()
            ),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ("PLAINTEXT", *self.ports_of)),
            "log.dirs": str(self._path / f"broker-{broker_id}"),
            **self._settings,
        }
        surroundings = Surroundings(zookeeper=self.zookeeper, halt=lambda why: self.halted.__setitem__(broker_id, why))
        server = Server(BrokerConfig.from_properties(properties), FileShares(1000, 200), surroundings)
        await server.start()
        self._servers[broker_id] = server
        return server.broker

    async def stop(self, broker_id: int) -> None:
        """In order: a controlled shutdown."""
        await self._servers.pop(broker_id).stop()

    async def kill(self, broker_id: int, *, expire: bool = True) -> None:
        """As kill -9 would: sockets and tasks are gone, nothing is written; the session ends some time later."""
        server = self._servers.pop(broker_id)
        session_id = server.broker.session_id
        server.abort()
        if expire:
            await self.zookeeper.expire(session_id)

    # -- what is to be seen

    async def state(self, topic: str, partition: int = 0) -> PartitionState | None:
        """What ZooKeeper says of a partition."""
        topic_partition = TopicPartition(topic, partition)
        try:
            data, _stat = await self.session.get(partition_state_path(topic_partition))
        except NoNode:
            return None
        return PartitionState.decode(topic_partition, data)

    async def leader(self, topic: str, partition: int = 0) -> int:
        state = await self.state(topic, partition)
        return -1 if state is None else state.leader

    async def isr(self, topic: str, partition: int = 0) -> list[int]:
        state = await self.state(topic, partition)
        return [] if state is None else sorted(state.isr)

    async def wait_for_isr(self, topic: str, partition: int, members: list[int]) -> None:
        """Until ZooKeeper and the leader's own broker say so."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE_S:
            state = await self.state(topic, partition)
            if state is not None and sorted(state.isr) == members and state.leader in self._servers:
                led = self.broker(state.leader).replicas.partition(topic, partition)
                if led is not None and led.is_leader and sorted(led.state.isr) == members:
                    return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{topic}-{partition} has {await self.state(topic, partition)}, expected ISR {members}")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > PATIENCE_S:
                raise AssertionError(f"not within {PATIENCE_S} s: {what}")
            await asyncio.sleep(0.01)

    async def wait_until_offline(self, topic: str, partition: int = 0) -> PartitionState:
        """Until the controller has written that nobody leads; the state."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE_S:
            state = await self.state(topic, partition)
            if state is not None and state.leader == -1:
                return state
            await asyncio.sleep(0.01)
        raise AssertionError(f"{topic}-{partition} has {await self.state(topic, partition)}")

    async def wait_until_all_know(self, members: list[int]) -> None:
        """Until every running broker knows these brokers, and no others, to be alive."""
        expected = [BrokerId(member) for member in members]
        await self.until(
            lambda: all(
                [known.broker_id for known in server.broker.metadata.brokers()] == expected
                for server in self._servers.values()
            ),
            f"all brokers know {members}",
        )

    def log(self, broker_id: int, topic: str, partition: int = 0) -> UnifiedLog:
        """A replica's log."""
        hosted = self.broker(broker_id).replicas.partition(topic, partition)
        assert hosted is not None
        return hosted.log

    def contents(self, broker_id: int, topic: str, partition: int = 0) -> bytes:
        """All bytes of a replica's log."""
        log = self.log(broker_id, topic, partition)
        result = log.read(log.log_start_offset, 1 << 30, max_offset=log.log_end_offset, min_one_batch=True)
        return b"".join(chunk.tobytes() for chunk in result.chunks)
