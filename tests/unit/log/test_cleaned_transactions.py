"""Which batches of transactions may go, as Kafka's CleanedTransactionMetadata decides it."""

from __future__ import annotations

import pytest

from kavka.log.decide.cleaned_transactions import CleanedTransactions
from kavka.log.decide.compacted_batches import emptied
from kavka.log.decide.indexes import AbortedTransaction
from kavka.records.batch import RecordBatch, batch_at
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.control import ControlType
from tests.unit.log.log_support import NOW_MS, batch, marker


def as_batch(data: bytes | bytearray) -> RecordBatch:
    found = batch_at(memoryview(data))
    assert found is not None
    return found


def data(offset: int, producer: int = -1, *, count: int = 1, transactional: bool = True) -> RecordBatch:
    is_transactional = transactional and producer >= 0
    return as_batch(batch(count, producer_id=producer, base_offset=offset, transactional=is_transactional))


def end(offset: int, producer: int, kind: ControlType) -> RecordBatch:
    built = marker(kind, producer_id=producer)
    built[:8] = offset.to_bytes(8, "big")
    return as_batch(built)


ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def test_batches_of_no_transaction_stay() -> None:
    cleaned = CleanedTransactions()
    cleaned.add_aborted([AbortedTransaction(7, 0, 9, 9)])
    assert not cleaned.on_data_batch(data(1))
    assert not cleaned.on_data_batch(data(2, 7, transactional=False))
    assert cleaned.on_data_batch(data(3, 7))
    assert cleaned.take_kept_aborted() == []


def test_a_commit_marker_may_go_when_nothing_of_its_transaction_is_left() -> None:
    cleaned = CleanedTransactions()
    assert cleaned.on_control_batch(end(0, 7, COMMIT))
    assert not cleaned.on_data_batch(data(1, 7))
    assert not cleaned.on_data_batch(data(2, 7))
    assert cleaned.on_control_batch(end(3, 8, COMMIT)), "it is of another producer"
    assert not cleaned.on_control_batch(end(4, 7, COMMIT))
    assert cleaned.on_control_batch(end(5, 7, COMMIT)), "nothing was met since the last marker"
    assert cleaned.take_kept_aborted() == []


def test_an_abort_marker_may_go_when_nothing_of_its_transaction_is_left() -> None:
    cleaned = CleanedTransactions()
    first, second = AbortedTransaction(7, 1, 3, 1), AbortedTransaction(7, 4, 5, 4)
    cleaned.add_aborted([first, second])
    assert cleaned.on_control_batch(end(0, 7, ABORT)), "of which no index tells"
    assert cleaned.on_data_batch(data(1, 7))
    assert cleaned.on_data_batch(data(2, 7))
    assert not cleaned.on_control_batch(end(3, 7, ABORT))
    assert cleaned.on_control_batch(end(5, 7, ABORT)), "it begins at 4, and there was no batch of it"
    assert cleaned.take_kept_aborted() == [first]
    assert cleaned.take_kept_aborted() == []
    assert not cleaned.on_data_batch(data(6, 7)), "the next transaction of the producer is another one"
    assert not cleaned.on_control_batch(end(7, 7, COMMIT))


def test_an_aborted_transaction_begins_with_the_batch_that_has_its_first_record() -> None:
    cleaned = CleanedTransactions()
    cleaned.add_aborted([AbortedTransaction(8, 12, 20, 12), AbortedTransaction(7, 3, 9, 3)])
    assert not cleaned.on_data_batch(data(1, 7, count=2)), "it ends at 2"
    assert not cleaned.on_control_batch(end(2, 7, COMMIT))
    assert cleaned.on_data_batch(data(3, 7))
    assert not cleaned.on_data_batch(data(10, 8, count=2)), "it ends at 11"
    assert not cleaned.on_control_batch(end(11, 8, COMMIT))
    assert cleaned.on_data_batch(data(11, 8, count=2)), "it ends at 12"
    assert not cleaned.on_control_batch(end(13, 7, ABORT))
    assert not cleaned.on_control_batch(end(20, 8, ABORT))
    assert [each.producer_id for each in cleaned.take_kept_aborted()] == [7, 8]


@pytest.mark.parametrize("first", [4, 5])
def test_a_marker_of_another_producer_begins_a_transaction_too(first: int) -> None:
    """What begins up to the marker's offset has begun, whoever's marker that is."""
    cleaned = CleanedTransactions()
    cleaned.add_aborted([AbortedTransaction(7, first, 9, first)])
    assert cleaned.on_control_batch(end(4, 8, COMMIT))
    assert cleaned.on_data_batch(data(3, 7)) is (first == 4)


def test_a_transaction_that_is_named_again_for_the_next_segment_is_one() -> None:
    cleaned = CleanedTransactions()
    transaction = AbortedTransaction(7, 0, 9, 0)
    cleaned.add_aborted([transaction])
    assert cleaned.on_data_batch(data(0, 7))
    cleaned.add_aborted([transaction])
    assert not cleaned.on_data_batch(data(5))
    assert not cleaned.on_control_batch(end(9, 7, ABORT)), "that a batch of it was met is not forgotten"
    assert cleaned.take_kept_aborted() == [transaction]


def test_a_marker_that_is_gone_from_its_batch_may_go_and_ends_nothing() -> None:
    cleaned = CleanedTransactions()
    assert not cleaned.on_data_batch(data(0, 7))
    assert cleaned.on_control_batch(as_batch(emptied(end(1, 7, COMMIT))))
    assert not cleaned.on_control_batch(end(2, 7, COMMIT))


def test_a_control_record_of_another_kind_stays_and_ends_nothing() -> None:
    """Such as the leader changes of a KRaft controller's log."""
    builder = BatchBuilder()
    builder.append(NOW_MS, b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x00")
    other = as_batch(builder.build(ProducerStamp(7, 0, -1, is_transactional=True, is_control=True), base_offset=1))
    cleaned = CleanedTransactions()
    assert not cleaned.on_data_batch(data(0, 7))
    assert not cleaned.on_control_batch(other)
    assert not cleaned.on_control_batch(end(2, 7, COMMIT))
