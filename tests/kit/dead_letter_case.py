"""A writer of dead letters between a log of records and a log of dead letters, both in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

from kavka.broker.share.counts import ShareCounts
from kavka.broker.share.dead_letters import DeadLetterPorts, DeadLetterWriter, Grave
from kavka.decisions import Decision
from kavka.errors import ErrorCode, OffsetOutOfRange
from kavka.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from kavka.records.batch import iterate_batches
from kavka.records.record import Record
from kavka.share.decide.dead_letters import DeadLetters
from kavka.share.decide.reasons import Place, Telling
from kavka.share.decide.spans import RecordState, Span
from tests.kit.virtual_time import in_virtual_time

ORDERS = TopicPartition("orders", 0)
LIMIT = 5


class SourceLog:
    """Batches with their offsets in them. A read gives one batch, as one that is as large as a read may be."""

    def __init__(self) -> None:
        self.batches: list[tuple[Offset, Offset, bytes]] = []
        self.log_start_offset = 0
        self.reads = 0

    def add(self, first: Offset, last: Offset, data: bytes) -> None:
        """A batch of these offsets."""
        self.batches.append((first, last, data))

    def read(self, position: Offset, *_asked: Any, **_given: Any) -> Any:
        if position < self.log_start_offset:
            raise OffsetOutOfRange(f"{position} is below {self.log_start_offset}")
        self.reads += 1
        found = next((data for _first, last, data in self.batches if last >= position), None)
        return SimpleNamespace(chunks=[] if found is None else [memoryview(found)])


class LetterLog:
    """The dead-letter topic's leader, on the same broker. `answer` is its error for some records, NONE to take them."""

    def __init__(self) -> None:
        self.answer: Callable[[Sequence[Record]], ErrorCode] = lambda records: ErrorCode.NONE
        self.taken: list[Record] = []
        self.appends = 0

    def append(self, topic: str, index: int, records: memoryview, **_given: Any) -> Any:
        self.appends += 1
        written = [record for batch in iterate_batches(records) for record in batch.records()]
        error = self.answer(written)
        if error is not ErrorCode.NONE:
            return SimpleNamespace(error=error, base_offset=-1)
        self.taken.extend(written)
        return SimpleNamespace(error=error, base_offset=len(self.taken) - len(written))

    def is_committed(self, *_asked: Any) -> bool:
        return True

    def offsets(self) -> list[int]:
        """Of which records there are dead letters."""
        return [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in self.taken]


class DeadLetterCase:
    """What is there can be changed while the writer is at work."""

    def __init__(self, *, copies: bool = False) -> None:
        self.source, self.log = SourceLog(), LetterLog()
        self.letters = DeadLetters("dlq.orders", copies=copies, prefix="dlq.")
        self.is_there = self.is_allowed = True
        self.max_message_bytes = 1_000_000
        self.told: list[Decision] = []
        self.tries = 0
        metadata: Any = SimpleNamespace(
            topic=self._topic,
            partition=lambda topic, index: SimpleNamespace(state=SimpleNamespace(leader=1)),
        )
        replicas: Any = self.log
        peers: Any = SimpleNamespace(broker_id=1)
        self.writer = DeadLetterWriter(metadata, replicas, peers, ShareCounts(), self._ports())

    def _topic(self, _name: str) -> Any:
        return SimpleNamespace(partitions=[0]) if self.is_there else None

    def _ports(self) -> DeadLetterPorts:
        async def run_blocking(work: Callable[[], None]) -> None:
            work()

        async def create(_wish: Any) -> ErrorCode:
            raise AssertionError("no topic is made here")

        def letters(_group_id: str) -> DeadLetters:
            self.tries += 1
            return self.letters

        return DeadLetterPorts(
            letters=letters,
            topic_config=lambda topic: SimpleNamespace(  # type: ignore[arg-type,return-value]
                errors_deadletterqueue_group_enable=self.is_allowed, max_message_bytes=self.max_message_bytes
            ),
            create=create,
            run_blocking=run_blocking,
            on_storage_error=lambda failure: None,
            clock_ms=lambda: int(asyncio.get_running_loop().time() * 1000),
            wall_ms=lambda: 1_000,
            random=Random(1),
            record=self.told.append,
        )

    async def bury(self, *spans: Span) -> int:
        """How many offsets are done."""
        place = Place(BrokerId(1), "workers", ORDERS, LeaderEpoch(1), LIMIT)
        hosted: Any = SimpleNamespace(read=self.source.read, log=self.source)
        done = await self.writer.bury(Grave(place, hosted, Telling(), lambda: True), spans)
        return sum(span.size for span in done)

    def bury_now(self, *spans: Span) -> int:
        """The same, for a test that changes nothing meanwhile."""
        done = 0

        async def scenario() -> None:
            nonlocal done
            done = await self.bury(*spans)

        in_virtual_time(scenario)
        return done


def rejected(first: Offset, last: Offset) -> Span:
    """Records that a member rejected."""
    return Span(first, last, RecordState.ARCHIVING, 1)


def at_limit(first: Offset, last: Offset) -> Span:
    """Records that were delivered as often as they may be."""
    return Span(first, last, RecordState.ARCHIVING, LIMIT)
