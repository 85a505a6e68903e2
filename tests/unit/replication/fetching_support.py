"""Brokers that only replicate, on simulated networks and disks, in virtual time.

A `Node` has logs, a ReplicaManager, fetchers, and serves Fetch, ListOffsets and OffsetForLeaderEpoch with the handlers
of a whole broker. Who leads is said by the test, which is the controller.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from kavka.broker.dispatcher import Dispatcher
from kavka.broker.late import Late
from kavka.broker.metadata.metadata_cache import Endpoint as Address
from kavka.broker.reads.fetch_session import FetchSessionCache
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ConnectionFailed, StorageError
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition, chunk_bytes
from kavka.protocol.api import ApiKey, RequestHeader, decode_request_header, encode_response_header
from kavka.protocol.connection import ConnectionContext, Outcome, Request, Response
from kavka.records.builder import BatchBuilder
from kavka.replication.decide.fetch_state import Followed
from kavka.replication.decide.partition import Partition
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.decide.throttle import Throttle
from kavka.replication.fetcher_manager import FetcherManager, FetcherPorts, FetcherSettings, LocalPorts
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts
from kavka.simulator.host.disk import SimulatedDisk
from kavka.simulator.host.network import Endpoint, SimulatedNetwork
from kavka.simulator.host.scheduler import Scheduler

PORT = 9092
NOW_MS = 1_700_000_000_000
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID(int=77)
REPLICAS = (BrokerId(1), BrokerId(2), BrokerId(3))
DEFAULT_SETTINGS = FetcherSettings()


class Seen(NamedTuple):
    """A request that a node was sent."""

    at_ms: int
    header: RequestHeader
    size: int


def batch(*values: bytes, leader_epoch: int = -1, base_offset: int = 0) -> bytearray:
    builder = BatchBuilder()
    for number, value in enumerate(values):
        builder.append(NOW_MS + number, None, value)
    data = bytearray(builder.build(base_offset=base_offset))
    data[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
    return data


class World:
    """A scheduler, a network, and nodes."""

    def __init__(self, seed: int = 1, settings: FetcherSettings = DEFAULT_SETTINGS) -> None:
        self.scheduler = Scheduler(seed)
        self.network = SimulatedNetwork(self.scheduler)
        self.settings = settings
        self.nodes: dict[BrokerId, Node] = {}
        self.states: dict[TopicPartition, LeaderAndIsr] = {}

    def node(self, broker_id: int) -> Node:
        """The node, started if it was not."""
        known = self.nodes.get(BrokerId(broker_id))
        if known is None:
            known = self.nodes[BrokerId(broker_id)] = Node(self, BrokerId(broker_id))
            for node in self.nodes.values():
                node.fetchers.set_endpoints(self.endpoints())
        return known

    def endpoints(self) -> Mapping[BrokerId, Address]:
        return {broker_id: Address(f"broker-{broker_id}", PORT) for broker_id in self.nodes}

    def lead(
        self,
        leader: int,
        leader_epoch: int,
        *,
        partition: TopicPartition = ORDERS,
        isr: Sequence[int] = (1, 2, 3),
        tell: Sequence[int] | None = None,
        topic_id: uuid.UUID = TOPIC_ID,
    ) -> None:
        """Makes `leader` lead, and tells all nodes (or those of `tell`, in that order)."""
        state = LeaderAndIsr(BrokerId(leader), leader_epoch, tuple(map(BrokerId, isr)), leader_epoch)
        self.states[partition] = state
        for broker_id in self.nodes if tell is None else tell:
            self.nodes[BrokerId(broker_id)].apply(partition, state, topic_id)

    def isolate(self, broker_id: int) -> None:
        """Cuts a node from all others, both ways."""
        for other in self.nodes:
            if other != broker_id:
                self.network.cut(f"broker-{broker_id}", f"broker-{other}")

    def run_until(self, condition: Callable[[], bool], *, within_s: float = 5.0) -> float:
        """Returns the virtual seconds that it took."""
        before = self.scheduler.now_ns
        self.scheduler.run_until(condition, within_s=within_s, after_step=self.check)
        return (self.scheduler.now_ns - before) / 1e9

    def run_for(self, seconds: float) -> None:
        self.scheduler.run_for(seconds, after_step=self.check)

    def check(self) -> None:
        """Nothing may fail by a mistake of ours."""
        for node in self.nodes.values():
            if node.loop.failures or node.bugs:
                raise AssertionError(f"broker {node.broker_id}: {node.loop.failures} {node.bugs}")


class Node:
    """One broker, as far as replication goes."""

    def __init__(self, world: World, broker_id: BrokerId) -> None:
        self.world = world
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.disk = SimulatedDisk(world.scheduler.new_random())
        self.lives = 0
        self.mutes = False
        """Whether it answers a request before it reads the next, as Apache Kafka does."""
        self.start()

    def start(self) -> None:
        """Begins a life on the same disk."""
        scheduler, network = self.world.scheduler, self.world.network
        self.lives += 1
        self.loop = scheduler.node(f"{self.name}.{self.lives}")
        network.machine_up(self.name)
        self.bugs: list[BaseException] = []
        self.decisions: list[Decision] = []
        self.storage_errors: list[StorageError] = []
        self.advanced: list[TopicPartition] = []
        self.seen: list[Seen] = []
        self.throttle = Throttle(self.broker_id)
        filesystem = self.disk.port(self.loop)
        filesystem.make_directory("/logs")
        self.logs = LogManager(
            filesystem,
            ["/logs"],
            LogManagerSettings(broker_id=int(self.broker_id), cluster_id="c"),
            lambda topic: LogConfig(),
        )
        self.logs.load(NOW_MS)
        self.rules = PartitionRules()
        self.replicas = ReplicaManager(
            self.loop, ReplicaPorts(self.storage_errors.append, record=self.decisions.append), self.rules
        )
        self.fetchers = FetcherManager(
            FetcherPorts(
                self.loop,
                network.port_of(self.name, self.loop),
                LocalPorts(
                    self.logs,
                    self.broker_id,
                    lambda: 100 + self.lives,
                    lambda: NOW_MS + scheduler.now_ms,
                    self.throttle,
                    on_high_watermark_advanced=lambda partition: self.advanced.append(partition.topic_partition),
                    on_storage_error=self.storage_errors.append,
                    record=self.decisions.append,
                ),
                on_bug=self.bugs.append,
            ),
            self.world.settings,
        )
        self.fetchers.set_endpoints(self.world.endpoints())
        self.sessions = FetchSessionCache(1_000, random.Random(self.lives))
        facade = SimpleNamespace(
            replicas=self.replicas,
            fetch_sessions=self.sessions,
            now_ms=lambda: NOW_MS + scheduler.now_ms,
            config=SimpleNamespace(fetch_max_bytes=55 * 1024 * 1024),
            metadata=SimpleNamespace(topic_name=self._topic_name, topics_version=0, brokers=list),
            on_storage_error=self.storage_errors.append,
            authorization=None,
            quotas=Late(object),
        )
        self._dispatcher = Dispatcher(facade)  # type: ignore[arg-type]  # as much of a broker as these handlers ask
        network.port_of(self.name, self.loop).listen(PORT, self._on_connection)

    def kill(self) -> None:
        """As SIGKILL."""
        self.disk.process_died(self.loop)
        self.loop.kill()
        self.world.network.process_died(self.loop)

    # -- what the controller says

    def apply(
        self,
        topic_partition: TopicPartition,
        state: LeaderAndIsr,
        topic_id: uuid.UUID = TOPIC_ID,
        *,
        is_fetched: bool = True,
    ) -> None:
        partition = self.replicas.partition(*topic_partition)
        if partition is None:
            log = self.logs.get_or_create(topic_partition, topic_id, NOW_MS)
            partition = Partition(
                topic_partition,
                topic_id,
                log,
                local_broker_id=self.broker_id,
                min_insync_replicas=1,
                rules=self.rules,
            )
            self.replicas.host(partition)
        if state.leader == self.broker_id:
            self.fetchers.unfollow([topic_partition])
            self.replicas.lead(partition, state, REPLICAS)
        else:
            self.replicas.follow(partition, state, REPLICAS)
            if is_fetched:
                self.fetchers.follow([Followed(partition, state.leader, state.leader_epoch)])

    def partition(self, topic_partition: TopicPartition = ORDERS) -> Partition:
        return self.replicas.require_partition(*topic_partition)

    def append(self, *values: bytes, partition: TopicPartition = ORDERS, count: int = 1) -> None:
        """As a producer with acks=1 does."""
        for _ in range(count):
            outcome = self.replicas.append(*partition, batch(*values), required_acks=1, wall_ms=NOW_MS)
            assert not outcome.error, outcome.error.name

    def end(self, partition: TopicPartition = ORDERS) -> int:
        return self.partition(partition).log.log_end_offset

    def high_watermark(self, partition: TopicPartition = ORDERS) -> int:
        return self.partition(partition).log.high_watermark

    def bytes_of(self, partition: TopicPartition = ORDERS) -> bytes:
        """The whole log, batches and all."""
        log = self.partition(partition).log
        data, offset = b"", log.log_start_offset
        while offset < log.log_end_offset:
            result = log.read(offset, 1 << 20, max_offset=log.log_end_offset, min_one_batch=True)
            data += b"".join(map(chunk_bytes, result.chunks))
            offset = result.next_offset
        return data

    def told(self, kind: DecisionKind) -> list[Decision]:
        return [decision for decision in self.decisions if decision.kind is kind]

    def asked(self, key: ApiKey) -> list[Seen]:
        return [one for one in self.seen if one.header.api_key == key]

    # -- serving

    def _topic_name(self, topic_id: uuid.UUID) -> str | None:
        return next((p.topic_partition.topic for p in self.replicas.partitions() if p.topic_id == topic_id), None)

    def _on_connection(self, endpoint: Endpoint) -> None:
        self.loop.create_task(self._serve(endpoint)).add_done_callback(self._on_served)

    def _on_served(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (bug := task.exception()) is not None:
            self.bugs.append(bug)

    async def _serve(self, endpoint: Endpoint) -> None:
        context = ConnectionContext("c", *endpoint.address, "PLAINTEXT")
        before: asyncio.Task[None] | None = None
        """Of the request before. Answers leave in the order of requests."""
        try:
            while True:
                frame = memoryview(bytearray(await endpoint.receive_frame()))
                header, body = decode_request_header(frame)
                self.seen.append(Seen(self.world.scheduler.now_ms, header, len(frame)))
                request = Request(header, frame[body:], context)
                before = self.loop.create_task(
                    self._answer(endpoint, request, self._dispatcher.handle(request), before)
                )
                before.add_done_callback(self._on_served)
                if self.mutes:
                    await before
        except ConnectionFailed:
            pass

    async def _answer(
        self, endpoint: Endpoint, request: Request, outcome: Outcome, before: asyncio.Task[None] | None
    ) -> None:
        if not isinstance(outcome, Response):
            outcome = await outcome
        if before is not None:
            await before
        header = request.header
        head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        endpoint.send_frame([head, *map(chunk_bytes, outcome.chunks)])


def spawn(node: Node, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return node.loop.create_task(work)
