"""Clients of a simulated cluster: producers that number their records, a reader that never stops, a monitor that asks
how far readers are behind, and the producers' and the reader's memories.

Decides what is written and read, and tells the observer what was acknowledged and seen. The clients are kavka's own
(client/), with their retries, idempotence and metadata. A record's value names its producer and number, so that a lost,
doubled or moved one is known by itself.

Topics come and go meanwhile. What clients are told of a topic that has the name of a deleted one is not judged: they
know topics by names, and a broker that has not heard of the deletion may answer for the former one, as in Kafka.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer
from kavka.client.group import GroupMember
from kavka.client.offsets import LATEST, list_offsets
from kavka.client.producer import Producer
from kavka.client.security import SaslSettings
from kavka.client.settings import ClientSettings, ConsumerSettings, OffsetReset, ProducerSettings
from kavka.errors import KavkaError
from kavka.model import Offset, TopicPartition
from kavka.simulator.host.network import NodeNetwork, SimulatedNetwork
from kavka.simulator.host.scheduler import NodeLoop, Scheduler
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.simulator.rules.invariants import Observer
from kavka.simulator.rules.share_log import DEAD_LETTERS
from kavka.simulator.rules.transaction_rules import LEDGER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random
    from uuid import UUID

    from kavka.network import Network
    from kavka.simulator.clients.logins import Logins

CLIENT_SETTINGS = ClientSettings(
    client_id="simulated", connect_timeout_ms=2_000, request_timeout_ms=5_000, api_timeout_ms=10_000
)

FETCH_WAIT_MS: Final = 3_000
"""How long a consumer's fetch waits for records: Kafka's half second makes long polls most of what happens, and nothing
of it depends on how long they are."""
MONITOR_PAUSE_S: Final = 10.0
LONGEST_PAUSE_S: Final = 30.0
"""Between two writes of a producer. It looks only then whether it is to go on: one that sleeps for longer than a record
may wait for its answer would be taken for one that gets none."""
READER: Final = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=FETCH_WAIT_MS)


class Clients:
    """What all clients of a world share. A failure that is not a KavkaError is a bug and ends the simulation."""

    def __init__(
        self,
        scheduler: Scheduler,
        network: SimulatedNetwork,
        bootstrap: list[tuple[str, int]],
        observer: Observer,
        bugs: list[BaseException],
        logins: Logins | None = None,
    ) -> None:
        """`logins`: how clients get into a secured cluster."""
        self.logins = logins
        self._scheduler = scheduler
        self._network = network
        self._bootstrap = bootstrap
        self._observer = observer
        self._bugs = bugs
        self._count = 0
        self.is_writing = True
        self.writers = 0
        """Producers that have not ended: after `is_writing` is False, those that wait for answers."""
        self.sent = 0
        self.acked = 0
        self.failed = 0
        self.consumed = 0

    @property
    def now_ms(self) -> int:
        return self._scheduler.now_ms

    def node(self, kind: str) -> NodeLoop:
        self._count += 1
        return self._scheduler.node(f"{kind}-{self._count}")

    def plain_network(self, loop: NodeLoop) -> NodeNetwork:
        """Of who says for itself what is said on a connection."""
        return self._network.port_of(loop.name, loop)

    def cluster(self, loop: NodeLoop, sasl: SaslSettings | None = None) -> Cluster:
        """A client of its own. `sasl`: it logs in otherwise than usual."""
        network: Network = self._network.port_of(loop.name, loop)
        settings = CLIENT_SETTINGS
        if self.logins is not None:
            network = self.logins.network(network, loop)
            settings = replace(settings, sasl=sasl or self.logins.settings(loop.name))
        return Cluster(network, self._bootstrap, settings, random=self._scheduler.new_random())

    def logged_in(self, loop: NodeLoop, sasl: SaslSettings | None = None) -> Network:
        """The network of who sends requests itself. `sasl`: it logs in otherwise than usual."""
        network = self._network.port_of(loop.name, loop)
        return network if self.logins is None else self.logins.logged_in(network, loop, sasl)

    def add_producer(self, *, mean_pause_s: float, acks: int = -1) -> None:
        """A producer that writes a few records at a time, to all partitions, until `is_writing` is False.

        Records that not all in-sync replicas acknowledged (`acks`) may be lost, and the observer expects nothing of
        them.
        """
        loop = self.node("producer")
        self.writers += 1
        work = self._produce(loop, self._scheduler.new_random(), mean_pause_s, acks)
        self.watch(loop.create_task(work))

    def add_consumer(self) -> None:
        """A reader of all partitions, from their beginnings on, for good."""
        loop = self.node("consumer")
        self.watch(loop.create_task(self._consume(loop)))

    def add_monitor(self, topic: str, groups: Sequence[str]) -> None:
        """Asks for the ends of the topic's partitions, and for what the groups have committed, every now and then."""
        loop = self.node("monitor")
        self.watch(loop.create_task(self._monitor(loop, self._scheduler.new_random(), topic, groups)))

    def watch(self, task: asyncio.Task[None]) -> None:
        """If the task fails with an exception that is not one of kavka's errors, that is a bug."""
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._bugs.append(failure)

    async def _produce(self, loop: NodeLoop, random: Random, mean_pause_s: float, acks: int) -> None:
        name = loop.name
        number = 0
        cluster = self.cluster(loop)
        settings = ProducerSettings(acks=acks, linger_ms=0, delivery_timeout_ms=20_000, timeout_ms=3_000)
        producer = Producer(cluster, settings, now_ms=lambda: WALL_CLOCK_START_MS + self._scheduler.now_ms)
        waiting: dict[asyncio.Task[None], None] = {}
        while self.is_writing:
            await asyncio.sleep(min(random.expovariate(1 / mean_pause_s), LONGEST_PAUSE_S))
            partitions = self.partitions()
            partition = partitions[int(random.random() * len(partitions))]
            for _ in range(1 + int(random.random() * 4)):
                number += 1
                self.sent += 1
                value = f"{name}:{number}".encode()
                task = loop.create_task(self._send(producer, partition, value, is_promised=acks == -1))
                self.watch(task)  # A rule that its answer breaks ends the simulation.
                waiting[task] = None
                task.add_done_callback(lambda task: waiting.pop(task, None))
        while waiting:
            await asyncio.wait(list(waiting))
        self.writers -= 1
        await producer.close()
        await cluster.close()

    async def _send(self, producer: Producer, partition: TopicPartition, value: bytes, *, is_promised: bool) -> None:
        observer = self._observer
        sent_after, topic_id = observer.last_acked(partition), observer.judged_topic_id(partition.topic)
        try:
            pending = await producer.send(partition.topic, value, partition=partition.partition)
            delivery = await pending
        except KavkaError:
            self.failed += 1  # Its outcome is open: it may be in the log.
            return
        if not is_promised:
            return
        self.acked += 1
        if topic_id is not None and topic_id == observer.topic_id(partition.topic):
            observer.on_acked(partition, delivery.offset, value, sent_after)

    async def _consume(self, loop: NodeLoop) -> None:
        while True:
            try:
                async with self.cluster(loop) as cluster:
                    await self._read(cluster)
            except KavkaError:
                await asyncio.sleep(0.5)

    async def _read(self, cluster: Cluster) -> None:
        observer = self._observer
        async with Consumer(cluster, READER) as consumer:
            topic_ids: dict[str, UUID | None] = {}
            while True:
                partitions = [each for each in self.partitions() if observer.judged_topic_id(each.topic) is not None]
                if partitions != consumer.assignment:
                    consumer.assign(partitions)
                    topic_ids = {topic: observer.topic_id(topic) for topic, _ in partitions}
                for record in await consumer.poll(timeout_ms=1_000):
                    partition = TopicPartition(record.topic, record.partition)
                    assert record.value is not None
                    self.consumed += 1
                    if topic_ids[record.topic] == observer.topic_id(record.topic):
                        observer.on_consumed(partition, record.offset, bytes(record.value))

    async def _monitor(self, loop: NodeLoop, random: Random, topic: str, groups: Sequence[str]) -> None:
        while True:
            try:
                async with self.cluster(loop) as cluster:
                    members = [
                        GroupMember(cluster, ConsumerSettings(group_id=group, read_committed=True)) for group in groups
                    ]
                    while True:
                        await asyncio.sleep(random.expovariate(1 / MONITOR_PAUSE_S))
                        partitions = [each for each in self.partitions() if each.topic == topic]
                        await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
                        for member in members:
                            await member.committed(partitions)
            except KavkaError:
                continue  # What it cannot be told it asks for again, over other connections.

    def partitions(self) -> list[TopicPartition]:
        """Of all topics that producers write without transactions."""
        return [
            partition
            for partition in self._observer.stored
            if not partition.topic.startswith("__") and partition.topic not in (LEDGER, DEAD_LETTERS)
        ]

    async def read_all(
        self, loop: NodeLoop, partitions: list[TopicPartition] | None = None, *, read_committed: bool = False
    ) -> dict[TopicPartition, dict[Offset, bytes]]:
        """Everything that is there, by partition and offset: for the end, when all is healed. `partitions`: else those
        that are written without transactions."""
        partitions = self.partitions() if partitions is None else partitions
        settings = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, read_committed=read_committed)
        found: dict[TopicPartition, dict[Offset, bytes]] = {partition: {} for partition in partitions}
        async with (
            self.cluster(loop) as cluster,
            Consumer(cluster, settings) as consumer,
        ):
            consumer.assign(partitions)
            ends = await consumer.end_offsets()
            while not consumer.reached(ends):
                for record in await consumer.poll(timeout_ms=1_000):
                    assert record.value is not None
                    found[TopicPartition(record.topic, record.partition)][record.offset] = bytes(record.value)
        return found
