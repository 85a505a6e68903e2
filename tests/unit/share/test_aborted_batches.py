"""Which batches of one read are of aborted transactions, for a group that reads committed records."""

from __future__ import annotations

from typing import Any, Final

from kavka.broker.share import fetches
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.control import ControlType, EndTransactionMarker, build_marker

PRODUCER: Final = 7


def record(offset: int, producer_id: int = PRODUCER) -> bytes:
    builder = BatchBuilder()
    builder.append(0, None, b"record")
    stamp = ProducerStamp(producer_id=producer_id, producer_epoch=0, base_sequence=offset, is_transactional=True)
    return builder.build(stamp, base_offset=offset)


def marker(offset: int, outcome: ControlType) -> bytes:
    marked = EndTransactionMarker(outcome, 0)
    return build_marker(marked, producer_id=PRODUCER, producer_epoch=0, timestamp=0, base_offset=offset)


def test_what_follows_an_aborted_transaction_of_the_same_producer_is_given() -> None:
    log = [
        record(0),
        record(1, producer_id=8),
        marker(2, ControlType.ABORT),
        record(3),
        marker(4, ControlType.COMMIT),
    ]
    nothing: Any = None

    read = fetches._read_batches(nothing, nothing, b"".join(log), [(0, PRODUCER)])

    assert read is not None
    assert [batch.is_aborted for batch in read.batches] == [True, False, True, False, False]
