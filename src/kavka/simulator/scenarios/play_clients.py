"""Clients of a scenario that stay: a consumer with its position, a producer with its transactions; both kavka's own.

They decide nothing: each method calls the client, on a node of its own, and waits while the simulation runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kavka.client.consumer import Consumer
from kavka.client.producer import Producer
from kavka.client.security import SaslSettings
from kavka.client.settings import ConsumerSettings, OffsetReset, ProducerSettings
from kavka.client.transactions import GroupMetadata
from kavka.errors import KavkaError
from kavka.model import Offset, TopicPartition
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.simulator.world import TOPIC

if TYPE_CHECKING:
    from kavka.simulator.scenarios.play import Play

PARTITION = TopicPartition(TOPIC, 0)


class Reader:
    """A consumer of kavka's that keeps its position from one `read` to the next. With a `group` it is a member, which
    commits nothing by itself."""

    def __init__(self, play: Play, *, committed: bool = False, group: str | None = None) -> None:
        self._play = play
        self._loop = play.world.clients.node("reader")
        self._settings = ConsumerSettings(
            auto_offset_reset=OffsetReset.EARLIEST,
            read_committed=committed,
            group_id=group,
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=8_000,
            heartbeat_interval_ms=1_000,
        )
        self._consumer: Consumer | None = None

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who it is in its group."""
        assert self._consumer is not None, "it has not read yet"
        return self._consumer.group_metadata

    @property
    def is_member(self) -> bool:
        """True if the consumer believes that it is a member."""
        return self._consumer is not None and self._consumer.membership[1] >= 0

    def pause(self) -> None:
        """As SIGSTOP."""
        self._loop.pause()

    def resume(self) -> None:
        self._loop.resume()

    def read(self) -> list[tuple[Offset, bytes]]:
        """Reads new records until none comes for a second."""
        return self.wait(self.begin_read())

    def begin_read(self) -> asyncio.Task[list[tuple[Offset, bytes]]]:
        """Begins as `read` does, and does not wait."""
        return self._loop.create_task(self._read())

    def wait(self, task: asyncio.Task[list[tuple[Offset, bytes]]]) -> list[tuple[Offset, bytes]]:
        self._play.until(task.done, "a reader reaches the end", within_s=60)
        return task.result()

    async def _read(self) -> list[tuple[Offset, bytes]]:
        consumer = self._consumer
        if consumer is None:
            consumer = self._consumer = Consumer(self._play.world.clients.cluster(self._loop), self._settings)
            if self._settings.group_id is None:
                consumer.assign([PARTITION])
            else:
                await consumer.subscribe([TOPIC])
        found: list[tuple[Offset, bytes]] = []
        while records := await consumer.poll(timeout_ms=1_000):
            found += [(record.offset, record.value or b"") for record in records]
        return found


class Writer:
    """A transactional producer of kavka's. Each method waits for its end, and returns the error, if there was one."""

    def __init__(
        self, play: Play, transactional_id: str, *, timeout_ms: int = 60_000, sasl: SaslSettings | None = None
    ) -> None:
        """`timeout_ms`: of its transactions. `sasl`: it logs in with that, as User:transactor."""
        self._play = play
        self._loop = play.world.clients.node("writer")
        self._sasl = sasl
        if sasl is not None:
            assert play.world.logins is not None, "the world is secured"
            play.world.logins.owners[self._loop.name] = "transactor"
        self._settings = ProducerSettings(
            acks=-1, linger_ms=0, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer: Producer | None = None

    def init(self) -> KavkaError | None:
        return self.wait(self.begin_to(lambda producer: producer.init_transactions()))

    def write(self, value: bytes) -> KavkaError | None:
        """A record, and with it a transaction if none is open."""

        async def send(producer: Producer) -> None:
            await (await producer.send(TOPIC, value, partition=PARTITION.partition))

        return self.wait(self.begin_to(send))

    def send_offsets(self, offset: Offset, group: GroupMetadata) -> KavkaError | None:
        """Commits the partition's offset for a group with the transaction."""

        async def send(producer: Producer) -> None:
            await producer.send_offsets_to_transaction({PARTITION: offset}, group)

        return self.wait(self.begin_to(send))

    def begin(self) -> KavkaError | None:
        async def begin(producer: Producer) -> None:
            producer.begin_transaction()

        return self.wait(self.begin_to(begin))

    def commit(self) -> KavkaError | None:
        return self.wait(self.begin_to_end(commit=True))

    def abort(self) -> KavkaError | None:
        return self.wait(self.begin_to_end(commit=False))

    def begin_to_end(self, *, commit: bool) -> asyncio.Task[KavkaError | None]:
        """Asks for the end of the transaction; `wait` for it."""

        async def end(producer: Producer) -> None:
            await (producer.commit_transaction() if commit else producer.abort_transaction())

        return self.begin_to(end)

    def begin_to(self, work: Callable[[Producer], Awaitable[None]]) -> asyncio.Task[KavkaError | None]:
        """Begins with something, and does not wait."""
        return self._loop.create_task(self._run(work))

    def wait(self, task: asyncio.Task[KavkaError | None]) -> KavkaError | None:
        self._play.until(task.done, "the producer is answered", within_s=60)
        return task.result()

    async def _run(self, work: Callable[[Producer], Awaitable[None]]) -> KavkaError | None:
        world = self._play.world
        if self._producer is None:
            cluster = world.clients.cluster(self._loop, self._sasl)
            now_ms = lambda: WALL_CLOCK_START_MS + world.scheduler.now_ms  # noqa: E731 - a port of one expression
            self._producer = Producer(cluster, self._settings, now_ms=now_ms)
        try:
            await work(self._producer)
        except KavkaError as failure:
            return failure
        return None
