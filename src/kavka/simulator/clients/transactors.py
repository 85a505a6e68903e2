"""Transactional producers of a simulated cluster, and readers of committed data.

The first of them writes records of its own to several partitions of "ledger" and commits or aborts. The others share
"orders" as a group (KIP-447), and write one record for each that they read, with the offsets in the same transaction:
consume, transform, produce. They are kavka's own clients. If they do not learn an outcome, they ask again, or leave it
to the next one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kavka.client.consumer import Consumer
from kavka.client.producer import Producer
from kavka.client.settings import ConsumerSettings, OffsetReset, ProducerSettings
from kavka.client.transactions import GroupMetadata, TransactionBroken
from kavka.errors import ConnectionFailed, KavkaError, RequestError
from kavka.model import TopicPartition
from kavka.simulator.clients.workload import FETCH_WAIT_MS
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.simulator.rules.transaction_rules import LEDGER, Entry, source_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from kavka.client.cluster import Cluster
    from kavka.simulator.host.scheduler import NodeLoop
    from kavka.simulator.world import World

GROUP: Final = "transformers"
PARTITIONS: Final = 3
TRANSACTION_TIMEOUT_MS: Final = 8_000
MEAN_PAUSE_S: Final = 5.0
"""Before a transaction. One takes some hundred steps: more of them would be most of what is simulated."""
RETRY_S: Final = 0.5
MOST_RECORDS: Final = 4
ABORTED: Final = 0.2
INPUT: Final = ConsumerSettings(
    group_id=GROUP,
    auto_offset_reset=OffsetReset.EARLIEST,
    enable_auto_commit=False,
    read_committed=True,
    session_timeout_ms=8_000,
    rebalance_timeout_ms=12_000,
    heartbeat_interval_ms=2_000,
    fetch_max_wait_ms=FETCH_WAIT_MS,
)
OUTPUT: Final = ConsumerSettings(
    auto_offset_reset=OffsetReset.EARLIEST, read_committed=True, fetch_max_wait_ms=FETCH_WAIT_MS
)


class Transactors:
    """The places of transactional producers, and which process has each."""

    def __init__(self, world: World, source: str) -> None:
        self._world = world
        self._source = source
        self._loops: list[NodeLoop | None] = []
        self._lives = 0
        self.is_writing = True

    def __len__(self) -> int:
        return len(self._loops)

    def add(self) -> None:
        """Another place, taken at once."""
        self._loops.append(None)
        self.join(len(self._loops) - 1)

    def add_reader(self) -> None:
        """A reader of what is committed, for good."""
        loop = self._world.clients.node("reader")
        self._world.clients.watch(loop.create_task(self._read_on(loop)))

    def loop(self, place: int) -> NodeLoop | None:
        """The process that has the place. None while it is empty."""
        return self._loops[place] if place < len(self._loops) else None

    def join(self, place: int, *, as_twin: bool = False) -> None:
        """Takes the place if it is empty, or, as a twin, in addition to the process that has it."""
        if self._loops[place] is None or as_twin:
            self._lives += 1
            loop = self._loops[place] = self._world.clients.node("transactor")
            work = self._live(place, loop, f"{place}.{self._lives}", self._world.scheduler.new_random())
            self._world.clients.watch(loop.create_task(work))

    def crash(self, place: int) -> None:
        loop = self._loops[place]
        if loop is not None:
            loop.kill()
            self._world.network.process_died(loop)
            self._loops[place] = None

    def heal(self) -> None:
        for place, loop in enumerate(self._loops):
            if loop is not None and loop.is_paused:
                loop.resume()
            self.join(place)

    @property
    def waiting(self) -> int:
        """How many have not ended: after `is_writing` is False, those that wait for an outcome."""
        return sum(loop is not None for loop in self._loops)

    # -- a process

    async def _live(self, place: int, loop: NodeLoop, life: str, random: Random) -> None:
        clients = self._world.clients
        settings = ProducerSettings(
            acks=-1,
            linger_ms=0,
            delivery_timeout_ms=20_000,
            timeout_ms=3_000,
            transactional_id=f"transactor-{place}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        number = 0
        while True:
            number += 1
            try:
                async with (
                    clients.cluster(loop) as cluster,
                    Producer(cluster, settings, now_ms=lambda: WALL_CLOCK_START_MS + clients.now_ms) as producer,
                ):
                    await producer.init_transactions()
                    if place == 0:
                        await self._write(loop, place, producer, f"{life}.{number}", random)
                    else:
                        await self._transform(loop, place, cluster, producer, f"{life}.{number}", random)
                    if not self.is_writing:
                        break
            except KavkaError:
                await asyncio.sleep(RETRY_S)
            if self._loops[place] is not loop:
                return  # Another has the place: this is a zombie, and was told so.
        if self._loops[place] is loop:
            self._loops[place] = None

    def _goes_on(self, loop: NodeLoop, place: int) -> bool:
        return self.is_writing and self._loops[place] is loop

    async def _write(self, loop: NodeLoop, place: int, producer: Producer, life: str, random: Random) -> None:
        number = 0
        while self._goes_on(loop, place):
            await asyncio.sleep(random.expovariate(1 / MEAN_PAUSE_S))
            number += 1
            count = 1 + int(random.random() * MOST_RECORDS)
            entries = [Entry(f"{life}.{number}", index, count) for index in range(count)]
            await self._in_one(producer, entries, {}, GroupMetadata(GROUP), random)

    async def _transform(
        self, loop: NodeLoop, place: int, cluster: Cluster, producer: Producer, life: str, random: Random
    ) -> None:
        """After an aborted transaction it reads again what it had read."""
        number = 0
        async with Consumer(cluster, INPUT) as consumer:
            await consumer.subscribe([self._source])
            while self._goes_on(loop, place):
                records = await consumer.poll(max_records=20, timeout_ms=1_000)
                if not records:
                    continue
                await asyncio.sleep(random.expovariate(1 / MEAN_PAUSE_S))
                number += 1
                begins: dict[TopicPartition, int] = {}
                offsets: dict[TopicPartition, int] = {}
                entries = []
                for index, record in enumerate(records):
                    partition = TopicPartition(record.topic, record.partition)
                    begins.setdefault(partition, record.offset)
                    offsets[partition] = record.offset + 1
                    source = source_of(partition, record.offset)
                    entries.append(Entry(f"{life}.{number}", index, len(records), source))
                if not await self._in_one(producer, entries, offsets, consumer.group_metadata, random):
                    for partition, offset in begins.items():
                        consumer.seek(partition, offset)

    async def _in_one(
        self,
        producer: Producer,
        entries: list[Entry],
        offsets: dict[TopicPartition, int],
        group: GroupMetadata,
        random: Random,
    ) -> bool:
        """One transaction, to its end; whether it is committed. Raises KavkaError if that is left to others."""
        rules = self._world.observer.transactions
        name = entries[0].transaction
        producer.begin_transaction()
        try:
            for entry in entries:
                await producer.send(LEDGER, entry.encode(), partition=int(random.random() * PARTITIONS))
            if offsets:
                await producer.send_offsets_to_transaction(offsets, group)
            if random.random() >= ABORTED:
                await _decided(producer.commit_transaction)
                rules.on_told(name, is_committed=True)
                return True
        except TransactionBroken:
            pass
        await _decided(producer.abort_transaction)
        rules.on_told(name, is_committed=False)
        return False

    async def _read_on(self, loop: NodeLoop) -> None:
        rules = self._world.observer.transactions
        while True:
            try:
                async with self._world.clients.cluster(loop) as cluster, Consumer(cluster, OUTPUT) as consumer:
                    await consumer.assign_topic(LEDGER)
                    while True:
                        for record in await consumer.poll(timeout_ms=1_000):
                            partition = TopicPartition(record.topic, record.partition)
                            rules.on_read(partition, record.offset, bytes(record.value or b""))
            except KavkaError:
                await asyncio.sleep(RETRY_S)


async def _decided(end: Callable[[], Awaitable[None]]) -> None:
    """Asks for an end until it is known."""
    while True:
        try:
            await end()
        except (RequestError, ConnectionFailed):
            await asyncio.sleep(RETRY_S)
        else:
            return
