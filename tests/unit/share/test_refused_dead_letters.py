"""A batch of dead letters that its leader refuses for what is in it takes no others with it."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.share.counts import ShareCounts
from kavka.broker.share.dead_letters import MOST_IN_BATCH, DeadLetterPorts, DeadLetterWriter, Grave
from kavka.errors import ErrorCode
from kavka.model import BrokerId, LeaderEpoch, TopicPartition
from kavka.records.batch import iterate_batches
from kavka.records.builder import BatchBuilder
from kavka.share.decide.dead_letters import DeadLetters
from kavka.share.decide.reasons import Place, Telling
from kavka.share.decide.spans import RecordState, Span

ORDERS = TopicPartition("orders", 0)


class _Log:
    """The dead-letter topic's leader, here; it refuses batches with a value, or all."""

    def __init__(self, *, refuses_all: bool) -> None:
        self._refuses_all = refuses_all
        self.taken = 0

    def append(self, topic: str, index: int, records: memoryview, **_given: Any) -> Any:
        written = [record for batch in iterate_batches(records) for record in batch.records()]
        if self._refuses_all or any(record.value for record in written):
            return SimpleNamespace(error=ErrorCode.MESSAGE_TOO_LARGE, base_offset=-1)
        self.taken += len(written)
        return SimpleNamespace(error=ErrorCode.NONE, base_offset=0)

    def is_committed(self, *_asked: Any) -> bool:
        return True


def bury(log: _Log, spans: list[Span], copied: bytes = b"") -> int:
    """How many are done."""

    async def run_blocking(work: Any) -> None:
        work()

    metadata: Any = SimpleNamespace(
        topic=lambda topic: SimpleNamespace(partitions=[0]),
        partition=lambda topic, index: SimpleNamespace(state=SimpleNamespace(leader=1)),
    )
    config: Any = SimpleNamespace(errors_deadletterqueue_group_enable=True, max_message_bytes=1_000_000)
    letters = DeadLetters("dlq.orders", copies=bool(copied), prefix="dlq.")
    ports = DeadLetterPorts(
        letters=lambda group_id: letters,
        topic_config=lambda topic: config,
        create=lambda wish: run_blocking(None),  # type: ignore[arg-type,return-value]  # never asked
        run_blocking=run_blocking,
        on_storage_error=lambda failure: None,
        clock_ms=lambda: 0,
        wall_ms=lambda: 1_000,
        random=Random(1),
        record=lambda decision: None,
    )
    hosted: Any = SimpleNamespace(
        read=lambda *asked, **given: SimpleNamespace(chunks=[memoryview(copied)] if copied else [])
    )
    place = Place(BrokerId(1), "workers", ORDERS, LeaderEpoch(1), 5)
    replicas: Any = log
    peers: Any = SimpleNamespace(broker_id=1)
    writer = DeadLetterWriter(metadata, replicas, peers, ShareCounts(), ports)
    done = asyncio.run(writer.bury(Grave(place, hosted, Telling(), lambda: True), spans))
    return sum(span.size for span in done)


@pytest.mark.parametrize("count", [3, 5_000])
def test_only_the_records_of_the_refused_batch_are_given_up(count: int) -> None:
    done = bury(_Log(refuses_all=True), [Span(0, count - 1, RecordState.ARCHIVING, 1)])
    assert done == min(count, MOST_IN_BATCH)


def test_copies_that_are_refused_are_written_as_headers() -> None:
    builder = BatchBuilder()
    builder.append(1_000, b"k", b"v")
    log = _Log(refuses_all=False)
    assert bury(log, [Span(0, 0, RecordState.ARCHIVING, 1)], builder.build()) == 1
    assert log.taken == 1
