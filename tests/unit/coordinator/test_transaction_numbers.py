"""Numbers of transactions that Kafka gives: they are in its records, or decide what a client is given."""

from __future__ import annotations

import pytest

from kavka.coordinator.shared.decide.records import decode_value
from kavka.coordinator.transactions.decide.records import transaction_record
from kavka.coordinator.transactions.decide.state import MAX_EPOCH, Transaction, TransactionState
from kavka.protocol.messages.transaction_log_value import TransactionLogValue


@pytest.mark.parametrize(
    ("epoch", "is_exhausted", "is_nobodys"),
    [(32_765, False, False), (32_766, True, False), (32_767, True, True)],
)
def test_the_last_epoch_of_a_client_is_the_one_before_the_last_of_16_bits(
    epoch: int, *, is_exhausted: bool, is_nobodys: bool
) -> None:
    """TransactionMetadata.isEpochExhausted: one more is left to fence it with."""
    known = Transaction("tx", 7, epoch, 60_000)
    assert (known.is_epoch_exhausted, known.is_given_to_nobody) == (is_exhausted, is_nobodys)
    assert MAX_EPOCH == 2**15 - 2


def test_what_has_not_begun_has_the_times_and_ids_of_nothing() -> None:
    known = Transaction("tx", 7, 0, 60_000)
    assert (known.started_ms, known.updated_ms) == (-1, -1)
    assert (known.last_epoch, known.previous_producer_id, known.next_producer_id, known.version) == (-1, -1, -1, 0)
    record = transaction_record(known.with_next_epoch(60_000, None, 1_000, 0), transaction_version=0)
    assert record.value is not None
    stored, _ = decode_value(TransactionLogValue, record.value)
    assert (stored.transaction_start_timestamp_ms, stored.transaction_last_update_timestamp_ms) == (-1, 1_000)
    assert stored.transaction_status == TransactionState.EMPTY == 0


def test_a_transaction_is_timed_out_when_more_than_its_time_has_gone() -> None:
    known = Transaction("tx", 7, 0, 60_000, TransactionState.ONGOING, started_ms=0)
    assert not known.is_timed_out(60_000)
    assert known.is_timed_out(60_001)
