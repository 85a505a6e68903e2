"""The offsets log with transactions in it: what counts, and in which order."""

from __future__ import annotations

from kavka.broker.coordinators.committed_records import CommittedRecords
from kavka.records.batch import RecordBatch, iterate_batches
from kavka.records.builder import NO_STAMP, BatchBuilder, ProducerStamp
from kavka.records.control import ControlType, EndTransactionMarker, build_marker

A, B = 1, 2


class Log:
    """A log as it is written: each call appends a batch and notes what counts from then on."""

    def __init__(self) -> None:
        self._committed = CommittedRecords()
        self._end = 0
        self.counted: list[tuple[bytes, bytes | None]] = []

    def write(self, *records: tuple[bytes, bytes | None], producer_id: int | None = None, start: int = 0) -> None:
        builder = BatchBuilder()
        for key, value in records:
            builder.append(0, key, value)
        stamp = NO_STAMP if producer_id is None else ProducerStamp(producer_id, 0, 0, is_transactional=True)
        self.append(builder.build(stamp, base_offset=self._end), len(records), start)

    def end(self, producer_id: int, ending: ControlType) -> None:
        marker = EndTransactionMarker(ending, 0)
        data = build_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=self._end)
        self.append(data, 1, 0)

    def open(self) -> list[tuple[int, int, list[bytes]]]:
        """Producer, epoch and keys of what is open."""
        return [
            (producer_id, epoch, [record.key for record in records])
            for producer_id, epoch, records in self._committed.open_transactions()
        ]

    def append(self, data: bytes, count: int, start: int) -> None:
        batch: RecordBatch = next(iter(iterate_batches(memoryview(data))))
        self._end += count
        self.counted += [(record.key, record.value) for record in self._committed.read(batch, start)]


def test_records_outside_of_transactions_count_at_once() -> None:
    log = Log()
    log.write((b"k", b"1"), (b"k", None))
    assert log.counted == [(b"k", b"1"), (b"k", None)]


def test_records_before_the_start_do_not_count() -> None:
    log = Log()
    log.write((b"k", b"1"), (b"l", b"2"), start=1)
    assert log.counted == [(b"l", b"2")]


def test_a_transaction_counts_when_it_is_committed() -> None:
    log = Log()
    log.write((b"k", b"1"), producer_id=A)
    assert log.counted == []
    log.end(A, ControlType.COMMIT)
    assert log.counted == [(b"k", b"1")]


def test_what_was_aborted_or_left_open_never_counts() -> None:
    log = Log()
    log.write((b"k", b"1"), producer_id=A)
    log.end(A, ControlType.ABORT)
    log.write((b"k", b"2"), producer_id=A)
    log.end(B, ControlType.COMMIT)
    assert log.counted == []


def test_a_commit_brings_nothing_back_that_was_written_over() -> None:
    log = Log()
    log.write((b"k", b"old"), (b"l", b"1"), producer_id=A)
    log.write((b"k", b"new"))
    log.end(A, ControlType.COMMIT)
    assert log.counted == [(b"k", b"new"), (b"l", b"1")]


def test_of_two_transactions_the_later_record_holds_whichever_is_committed_first() -> None:
    for first, second in ((A, B), (B, A)):
        log = Log()
        log.write((b"k", b"a"), producer_id=A)
        log.write((b"k", b"b"), producer_id=B)
        log.end(first, ControlType.COMMIT)
        log.end(second, ControlType.COMMIT)
        assert log.counted[-1] == (b"k", b"b")


def test_an_emptied_control_batch_tells_nothing() -> None:
    log = Log()
    log.write((b"k", b"1"), producer_id=A)
    log.append(
        BatchBuilder().build(ProducerStamp(A, 0, -1, is_transactional=True, is_control=True), base_offset=1), 1, 0
    )
    log.end(A, ControlType.COMMIT)
    assert log.counted == [(b"k", b"1")]


def test_what_open_transactions_wrote_is_known_at_the_end_each_by_itself() -> None:
    log = Log()
    log.write((b"k", b"1"), (b"l", b"2"), producer_id=A)
    log.write((b"m", b"3"), producer_id=B)
    log.write((b"k", b"4"), producer_id=A)
    assert log.open() == [(A, 0, [b"l", b"k"]), (B, 0, [b"m"])]
    log.end(A, ControlType.ABORT)
    assert log.open() == [(B, 0, [b"m"])]
    log.write((b"m", b"5"))
    assert log.open() == []
