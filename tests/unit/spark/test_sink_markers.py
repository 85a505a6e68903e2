"""Which marker of a task counts: commits, aborts, open transactions, order."""

import pytest

from kavka.errors import CorruptRecords
from kavka.records.batch import RecordBatch, assign_offset, iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from kavka_spark.markers import CommittedMarkers, Digest, Marker, Task, parse_marker

TASK, OTHER = Task("query", 0), Task("query", 1)


class Log:
    """A partition of the markers' topic, as it is written."""

    def __init__(self) -> None:
        self.batches: list[RecordBatch] = []
        self.end = 0

    def _append(self, data: bytes) -> None:
        (batch,) = iterate_batches(memoryview(bytearray(data)))
        assign_offset(batch, self.end, 0)
        (batch,) = iterate_batches(batch.view)
        self.batches.append(batch)
        self.end = batch.header.last_offset + 1

    def marker(self, task: Task, batch: int, *, producer: int | None) -> None:
        builder = BatchBuilder()
        builder.append(1, task.key, Marker(batch, Digest(batch, 2, 3)).value)
        stamp = ProducerStamp() if producer is None else ProducerStamp(producer, 0, 0, is_transactional=True)
        self._append(builder.build(stamp))

    def forget(self, task: Task) -> None:
        builder = BatchBuilder()
        builder.append(1, task.key, None)
        self._append(builder.build())

    def end_of(self, producer: int, kind: ControlType) -> None:
        self._append(build_marker(EndTransactionMarker(kind, 0), producer_id=producer, producer_epoch=0, timestamp=1))


def batch_of(markers: CommittedMarkers, task: Task = TASK) -> int | None:
    found = markers.of(task)
    return None if found is None else found.batch


def test_a_marker_counts_from_its_commit_on() -> None:
    log, markers = Log(), CommittedMarkers()
    log.marker(TASK, 4, producer=7)
    markers.take(log.batches)
    assert batch_of(markers) is None
    log.end_of(7, ControlType.COMMIT)
    markers.take(log.batches)  # The whole log again: what was read is passed over.
    assert markers.of(TASK) == Marker(4, Digest(4, 2, 3))
    assert markers.next_offset == log.end == 2
    assert batch_of(markers, OTHER) is None


def test_a_marker_of_an_aborted_transaction_never_counts() -> None:
    log, markers = Log(), CommittedMarkers()
    log.marker(TASK, 1, producer=7)
    log.end_of(7, ControlType.COMMIT)
    log.marker(TASK, 2, producer=7)
    log.end_of(7, ControlType.ABORT)
    markers.take(log.batches)
    assert batch_of(markers) == 1


def test_transactions_of_other_tasks_hold_up_nobody() -> None:
    log, markers = Log(), CommittedMarkers()
    log.marker(OTHER, 1, producer=8)  # stays open
    log.marker(TASK, 5, producer=7)
    log.end_of(7, ControlType.COMMIT)
    markers.take(log.batches)
    assert (batch_of(markers), batch_of(markers, OTHER)) == (5, None)
    log.end_of(8, ControlType.COMMIT)
    markers.take(log.batches)
    assert (batch_of(markers), batch_of(markers, OTHER)) == (5, 1)


def test_the_last_committed_marker_of_a_task_counts_whoever_wrote_it() -> None:
    """A transactional id is given another producer id when its epochs are used up."""
    log, markers = Log(), CommittedMarkers()
    for batch, producer in ((1, 7), (2, 9)):
        log.marker(TASK, batch, producer=producer)
        log.end_of(producer, ControlType.COMMIT)
    markers.take(log.batches)
    assert batch_of(markers) == 2


def test_a_tombstone_forgets_a_task_and_a_restart_all_of_them() -> None:
    log, markers = Log(), CommittedMarkers()
    log.marker(TASK, 1, producer=None)
    log.marker(OTHER, 1, producer=None)
    log.forget(TASK)
    markers.take(log.batches)
    assert (batch_of(markers), batch_of(markers, OTHER)) == (None, 1)
    markers.restart(10)
    assert (batch_of(markers, OTHER), markers.next_offset) == (None, 10)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka_spark.markers.MOST_TASKS", 3)
    log, markers = Log(), CommittedMarkers()
    for index in range(4):
        markers.take(log.batches)
        assert not markers.is_too_large
        log.marker(Task("query", index), 1, producer=None)
    markers.take(log.batches)
    assert markers.is_too_large


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b"\xff", b'{"batch": "x", "rows": 1, "bytes": 1, "sum": 1}'])
def test_what_is_no_marker_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptRecords, match="not a marker"):
        parse_marker(value)


def test_a_damaged_batch_is_refused() -> None:
    log = Log()
    log.marker(TASK, 1, producer=None)
    log.batches[0].view[-3] ^= 1
    with pytest.raises(CorruptRecords, match="wrong CRC at offset 0"):
        CommittedMarkers().take(log.batches)
