"""Traffic: a producer that sends numbered records, a reader, and what both were told; kavka's own clients.

Decides what is sent and when. What a client is told is written into the run's trace, in the order of events, so that a
claim about it can be read from there.

    I1  nothing here changes what a broker does: a client is one more node of the simulation
    I2  the simulator's rules judge what clients were told until an unclean election is allowed: what one loses it may
        also give another order
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.client.consumer import Consumer
from kavka.client.producer import Producer
from kavka.client.settings import ConsumerSettings, OffsetReset, ProducerSettings
from kavka.errors import ErrorCode, KavkaError
from kavka.model import Offset, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.simulator.world import TOPIC
from kavka_playground.choices import ACKS

if TYPE_CHECKING:
    from kavka.simulator.host.wire import Exchange
    from kavka.simulator.world import World

PARTITION: Final = TopicPartition(TOPIC, 0)
DELIVERY_MS: Final = 4_000
"""A producer gives a record up after so long, soon enough to be seen."""
REQUEST_MS: Final = 2_000
READER: Final = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=500)
PRODUCER: Final = "producer"
CONSUMER: Final = "consumer"


@dataclass(slots=True)
class Sent:
    """A record that a producer sent, and what it was told of it."""

    number: int
    acks: str
    sent_ms: int
    told_ms: int = -1
    offset: Offset = -1
    error: str = ""
    is_promised: bool = False
    """Whether it was told that the record is written."""

    @property
    def value(self) -> bytes:
        return f"record {self.number}".encode()


class Traffic:
    """The clients of one run."""

    def __init__(self, world: World, acks: str, rate: int) -> None:
        self._world = world
        self.acks = acks
        self.rate = rate
        """Records a second."""
        self.sent: list[Sent] = []
        self.read: dict[Offset, bytes] = {}
        """What the reader got last at each offset."""
        self._producers: dict[str, Producer] = {}
        self._loop = world.clients.node(PRODUCER)
        self._reader = world.clients.node(CONSUMER)

    @property
    def nodes(self) -> tuple[str, str]:
        """Their names in the network."""
        return self._loop.name, self._reader.name

    def start(self) -> None:
        """Begins to send and to read."""
        watch = self._world.clients.watch
        watch(self._loop.create_task(self._keep_sending()))
        watch(self._reader.create_task(self._keep_reading()))

    def write(self, count: int) -> None:
        """Sends so many records now, one after another, without waiting for answers."""
        for _ in range(count):
            record = Sent(len(self.sent) + 1, self.acks, self._world.scheduler.now_ms)
            self.sent.append(record)
            self._world.clients.watch(self._loop.create_task(self._send(record)))

    async def _keep_sending(self) -> None:
        pause_s = 0.1
        while True:
            await asyncio.sleep(1 / self.rate if self.rate else pause_s)
            if self.rate:
                self.write(1)

    def _producer(self, acks: str) -> Producer:
        found = self._producers.get(acks)
        if found is None:
            settings = ProducerSettings(
                acks=ACKS[acks], linger_ms=0, delivery_timeout_ms=DELIVERY_MS, timeout_ms=REQUEST_MS
            )
            now_ms = lambda: WALL_CLOCK_START_MS + self._world.scheduler.now_ms  # noqa: E731 - a port of one expression
            found = self._producers[acks] = Producer(self._world.clients.cluster(self._loop), settings, now_ms=now_ms)
        return found

    async def _send(self, record: Sent) -> None:
        world = self._world
        sent_after = world.observer.last_acked(PARTITION)
        try:
            delivery = await (await self._producer(record.acks).send(TOPIC, record.value, partition=0))
        except KavkaError as failure:
            record.error = str(failure)
            record.told_ms = world.scheduler.now_ms
            world.tell(PRODUCER, "told: failed", f"record {record.number}: {failure}")
            return
        record.told_ms, record.offset = world.scheduler.now_ms, delivery.offset
        record.is_promised = record.acks != "0"
        if record.acks == "all" and not world.observer.allow_loss:
            world.observer.on_acked(PARTITION, delivery.offset, record.value, sent_after)
        if record.is_promised:
            world.tell(
                PRODUCER, "told: written", f"record {record.number} at offset {record.offset}, acks={record.acks}"
            )

    async def _keep_reading(self) -> None:
        world = self._world
        while True:
            try:
                async with world.clients.cluster(self._reader) as cluster, Consumer(cluster, READER) as consumer:
                    consumer.assign([PARTITION])
                    while True:
                        for record in await consumer.poll(timeout_ms=500):
                            value = bytes(record.value or b"")
                            self.read[record.offset] = value
                            if not world.observer.allow_loss:
                                world.observer.on_consumed(PARTITION, record.offset, value)
                            world.tell(CONSUMER, "read", f"offset {record.offset}: {value.decode()}")
            except KavkaError:
                await asyncio.sleep(0.5)


class ProduceWatcher:
    """Writes into the trace what producers ask brokers, what brokers answer, and who fetched what."""

    def __init__(self, world: World) -> None:
        self._world = world

    def on_request(self, exchange: Exchange) -> None:
        if exchange.key is ApiKey.PRODUCE:
            acks = {-1: "all"}.get(exchange.request.acks, exchange.request.acks)
            self._tell(exchange, "produce came", f"acks={acks}, from {exchange.host}")
        elif exchange.key is ApiKey.FETCH and exchange.host.startswith("broker-"):
            for topic in exchange.request.topics:
                if topic.topic == TOPIC or topic.topic_id == self._world.observer.topic_id(TOPIC):
                    (part,) = topic.partitions
                    self._tell(exchange, "follower asks", f"{exchange.host} asks for offset {part.fetch_offset} on")

    def on_answer(self, exchange: Exchange) -> None:
        if exchange.key is not ApiKey.PRODUCE:
            return
        for topic in exchange.answer.responses:
            for part in topic.partition_responses:
                error = ErrorCode(part.error_code)
                said = f"offset {part.base_offset}" if error is ErrorCode.NONE else error.name
                self._tell(exchange, "produce answered", f"{said}, to {exchange.host}")

    def _tell(self, exchange: Exchange, kind: str, text: str) -> None:
        self._world.tell(exchange.broker.node, kind, text)


__all__ = ["CONSUMER", "PARTITION", "PRODUCER", "ProduceWatcher", "Sent", "Traffic"]
