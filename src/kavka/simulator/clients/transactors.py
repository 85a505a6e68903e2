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
from kavka.simulator.clients.places import Places
from kavka.simulator.clients.workload import FETCH_WAIT_MS
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.simulator.rules.transaction_rules import LEDGER, Entry, source_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
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
OPEN_S: Final = 1.0
"""How long what is aborted was there before: somebody may read it."""
MOST_RECORDS: Final = 4
ABORTED: Final = 0.2
ABORTED_SHARED: Final = 0.5
"""Where a share group reads the ledger: what it is given depends on it."""
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


class Transactors(Places[Producer]):
    """The places of transactional producers. They never leave: they end when `is_writing` is False."""

    node = "transactor"

    def __init__(self, world: World, source: str, *, aborted: float = ABORTED) -> None:
        """`aborted`: the share of transactions that are."""
        super().__init__(world)
        self._source = source
        self._aborted = aborted
        self._writes_before_abort = aborted >= ABORTED_SHARED
        """Whether what is aborted is in the log before. A producer drops what it has not sent yet."""
        self._lives = 0
        self.is_writing = True

    def add_reader(self) -> None:
        """A reader of what is committed, for good."""
        loop = self.world.clients.node("reader")
        self.world.clients.watch(loop.create_task(self._read_on(loop)))

    def join_as_twin(self, place: int) -> None:
        """Another process takes the place, and the one that has it goes on."""
        self.empty(place)
        self.join(place)

    @property
    def waiting(self) -> int:
        """How many have not ended: after `is_writing` is False, those that wait for an outcome."""
        return sum(loop is not None for loop in self.loops)

    # -- a process

    def _live(self, place: int, loop: NodeLoop, random: Random) -> Coroutine[object, object, None]:
        self._lives += 1
        return self._live_as(f"{place}.{self._lives}", place, loop, random)

    async def _live_as(self, life: str, place: int, loop: NodeLoop, random: Random) -> None:
        clients = self.world.clients
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
            if self.loops[place] is not loop:
                return  # Another has the place: this is a zombie, and was told so.
        if self.loops[place] is loop:
            self.empty(place)

    def _goes_on(self, loop: NodeLoop, place: int) -> bool:
        return self.is_writing and self.loops[place] is loop

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
        rules = self.world.observer.transactions
        name = entries[0].transaction
        producer.begin_transaction()
        try:
            for entry in entries:
                await producer.send(LEDGER, entry.encode(), partition=int(random.random() * PARTITIONS))
            if offsets:
                await producer.send_offsets_to_transaction(offsets, group)
            if random.random() >= self._aborted:
                await _decided(producer.commit_transaction)
                rules.on_told(name, is_committed=True)
                return True
            if self._writes_before_abort:
                await producer.flush()
                await asyncio.sleep(OPEN_S)
        except TransactionBroken:
            pass
        await _decided(producer.abort_transaction)
        rules.on_told(name, is_committed=False)
        return False

    async def _read_on(self, loop: NodeLoop) -> None:
        rules = self.world.observer.transactions
        while True:
            try:
                async with self.world.clients.cluster(loop) as cluster, Consumer(cluster, OUTPUT) as consumer:
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
