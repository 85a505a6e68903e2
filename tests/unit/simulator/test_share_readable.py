"""What the simulator's rules know of transactions: which offsets are markers, and which records are aborted."""

from __future__ import annotations

import pytest

from kavka.model import TopicPartition
from kavka.records.batch import iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from kavka.simulator.rules.share_readable import Readable

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize("outcome", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_is_known_as_none_of_the_records(outcome: ControlType) -> None:
    """It has no dead letter, and who asked for one found an error in a right run."""
    builder = BatchBuilder()
    builder.append(0, None, b"record")
    stamp = ProducerStamp(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    record = builder.build(stamp=stamp)
    marker = build_marker(EndTransactionMarker(outcome, 0), producer_id=7, producer_epoch=0, timestamp=0, base_offset=1)
    readable = Readable()

    readable.on_committed(ORDERS, iterate_batches(memoryview(record + marker)))

    assert [readable.is_marker(ORDERS, offset) for offset in range(3)] == [False, True, False]
    assert readable.is_aborted(ORDERS, 0) is (outcome is ControlType.ABORT)


def test_the_marker_of_a_transaction_that_wrote_nothing_here_is_no_part_of_an_aborted_one() -> None:
    """A partition was added to a transaction that was aborted before its first record. The log has no such transaction,
    and its leader gives the marker out, as one of a committed transaction; members take it for a gap."""
    marker = build_marker(EndTransactionMarker(ControlType.ABORT, 0), producer_id=7, producer_epoch=0, timestamp=0)
    readable = Readable()

    readable.on_committed(ORDERS, iterate_batches(memoryview(marker)))

    assert readable.is_marker(ORDERS, 0)
    assert not readable.is_aborted(ORDERS, 0)
