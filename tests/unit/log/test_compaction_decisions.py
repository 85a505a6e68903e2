"""What compaction decides of each batch, as Kafka's Cleaner does (shouldRetainRecord, shouldDiscardBatch), and which
headers of emptied batches stay."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kavka.log.decide.compacted_batches import emptied, read_entries, with_delete_horizon
from kavka.log.decide.compaction import CleaningStats, Compaction, Retention
from kavka.log.decide.indexes import AbortedTransaction
from kavka.log.decide.offset_map import ENTRY_BYTES, OffsetMap
from kavka.log.decide.producer_state import LastRecord
from kavka.records.batch import RecordBatch, batch_at
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.control import ControlType
from kavka.records.validation import LONG_MAX
from tests.unit.log.log_support import NOW_MS, marker

RETENTION_MS = 1000
Pair = tuple[bytes | None, bytes | None]
X = b"x"


def as_batch(data: bytes | bytearray) -> RecordBatch:
    found = batch_at(memoryview(data))
    assert found is not None
    return found


def pairs(offset: int, *pairs: Pair, producer: int = -1, transactional: bool = False) -> RecordBatch:
    builder = BatchBuilder()
    for key, value in pairs:
        builder.append(NOW_MS, key, value)
    stamp = ProducerStamp(producer, 0, 0, is_transactional=transactional) if producer >= 0 else ProducerStamp()
    return as_batch(builder.build(stamp, base_offset=offset))


def end(offset: int, producer: int, kind: ControlType = ControlType.COMMIT, epoch: int = 0) -> RecordBatch:
    built = marker(kind, producer_id=producer, epoch=epoch)
    built[:8] = offset.to_bytes(8, "big")
    return as_batch(built)


def horizon_at(batch: RecordBatch, horizon_ms: int) -> RecordBatch:
    """The batch, met by a pass before."""
    entries = read_entries(batch.inflate(), batch.header.record_count)
    return as_batch(with_delete_horizon(batch, entries, horizon_ms))


def compaction(*batches: RecordBatch, first_dirty: int = 0, room: int = 100) -> Compaction:
    """That was told of these."""
    made = Compaction(first_dirty, OffsetMap(ENTRY_BYTES * room))
    for batch in batches:
        assert made.index(batch)
    return made


def retention(last_records: Mapping[int, LastRecord] | None = None) -> Retention:
    return Retention(NOW_MS, RETENTION_MS, last_records or {})


def left(
    made: Compaction, batch: RecordBatch, last_records: Mapping[int, LastRecord] | None = None
) -> list[int] | None:
    """The offsets that stay of the batch; None if not even its header does."""
    found = made.retain(batch, retention(last_records))
    return None if found is None else [record.offset for record in found.records()]


def stats(made: Compaction) -> tuple[int, int]:
    return made.stats.records_read, made.stats.records_kept


LAST = pairs(90, (b"last", X))
"""Behind all others, so that no other batch is the last one of the pass."""


# -- which records


def test_of_each_key_the_last_record_stays_and_none_without_a_key() -> None:
    first = pairs(10, (b"a", X), (b"b", X), (None, X), (b"a", X), (b"c", X))
    second = pairs(15, (b"b", X), (b"d", X))
    made = compaction(first, second, LAST)
    assert left(made, first) == [13, 14]
    assert left(made, second) == [15, 16]
    assert stats(made) == (7, 4)
    assert made.retain(second, retention()) is second, "of which nothing goes is the same"


def test_nothing_behind_the_last_offset_of_the_map_goes() -> None:
    known = pairs(10, (b"a", X), (None, X))
    made = compaction(known)
    behind = pairs(11, (None, X), (None, X), (b"a", None), (b"z", X))
    assert left(made, behind) == [12, 13, 14]
    gone = horizon_at(pairs(11, (b"q", None), (b"q", None)), NOW_MS)
    assert left(made, gone) == [12], "the first one is not behind it"


@pytest.mark.parametrize("horizon_ms", [NOW_MS - 1, NOW_MS, NOW_MS + 1])
def test_a_tombstone_goes_when_the_horizon_of_its_batch_is_reached(horizon_ms: int) -> None:
    batch = horizon_at(pairs(10, (b"a", None), (b"b", X)), horizon_ms)
    made = compaction(batch, LAST)
    found = made.retain(batch, retention())
    assert found is not None
    assert [record.offset for record in found.records()] == ([11] if horizon_ms <= NOW_MS else [10, 11])
    assert found.header.delete_horizon_ms == horizon_ms, "it is set once"
    assert (found is batch) is (horizon_ms > NOW_MS)


def test_a_horizon_stays_where_other_records_go() -> None:
    batch = horizon_at(pairs(10, (b"a", None), (b"b", X)), NOW_MS + 1)
    made = compaction(batch, pairs(12, (b"b", X)), LAST)
    found = made.retain(batch, retention())
    assert found is not None
    assert [(record.offset, record.timestamp) for record in found.records()] == [(10, NOW_MS)]
    assert found.header.delete_horizon_ms == NOW_MS + 1


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_tombstone_that_is_met_first_gets_a_horizon(is_behind: bool) -> None:
    batch = pairs(91, (b"a", X), (b"b", None), (b"c", X))
    made = compaction(LAST) if is_behind else compaction(batch, pairs(94, (b"c", X)))
    found = made.retain(batch, retention())
    assert found is not None
    assert found.header.delete_horizon_ms == NOW_MS + RETENTION_MS
    kept = [91, 92, 93] if is_behind else [91, 92]
    assert [(record.offset, record.timestamp) for record in found.records()] == [(offset, NOW_MS) for offset in kept]


def test_a_batch_whose_tombstones_are_superseded_gets_no_horizon() -> None:
    batch = pairs(10, (b"a", None), (b"b", X))
    made = compaction(batch, pairs(12, (b"a", X)), LAST)
    found = made.retain(batch, retention())
    assert found is not None
    assert found.header.delete_horizon_ms is None
    assert stats(made) == (2, 1)


@pytest.mark.parametrize(
    ("retention_ms", "horizon_ms"), [(0, NOW_MS), (1, NOW_MS + 1), (LONG_MAX - NOW_MS, LONG_MAX), (LONG_MAX, LONG_MAX)]
)
def test_the_horizon_is_after_the_retention_and_not_after_the_end_of_time(retention_ms: int, horizon_ms: int) -> None:
    assert Retention(NOW_MS, retention_ms, {}).horizon_ms == horizon_ms


# -- transactions


def test_records_of_an_aborted_transaction_go_and_take_no_other_of_their_key_along() -> None:
    before, aborted = pairs(10, (b"a", X)), pairs(11, (b"a", X), (b"b", X), producer=7, transactional=True)
    ended = end(13, 7, ControlType.ABORT)
    transaction = AbortedTransaction(7, 11, 13, 11)
    made = Compaction(0, OffsetMap(ENTRY_BYTES * 9))
    made.index_aborted([transaction])
    assert all(made.index(each) for each in (before, aborted, ended, LAST))
    made.retain_aborted([transaction])
    assert left(made, before) == [10]
    assert left(made, aborted) is None
    assert made.take_kept_aborted() == []
    assert made.retain(ended, retention()) is ended, "for a batch of its transaction was met"
    assert made.take_kept_aborted() == [transaction]
    assert stats(made) == (4, 2)


def test_an_aborted_transaction_hides_no_later_one_of_its_producer() -> None:
    """Or the map would not know what that wrote, and the records before it would stay."""
    before = pairs(9, (b"a", X))
    aborted = pairs(10, (b"a", X), producer=7, transactional=True)
    later = pairs(12, (b"a", X), producer=7, transactional=True)
    made = Compaction(0, OffsetMap(ENTRY_BYTES * 9))
    made.index_aborted([AbortedTransaction(7, 10, 11, 10)])
    assert all(made.index(each) for each in (before, aborted, end(11, 7, ControlType.ABORT), later, LAST))
    assert left(made, before) is None
    assert left(made, later) == [12]


def test_a_marker_of_which_nothing_is_left_gets_a_horizon_and_goes_when_that_is_reached() -> None:
    made = compaction(LAST)
    first = made.retain(end(10, 7), retention())
    assert first is not None
    assert first.header.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert [record.timestamp for record in first.records()] == [NOW_MS]
    assert stats(made) == (1, 1)
    waiting = horizon_at(end(10, 7), NOW_MS + 1)
    assert made.retain(waiting, retention()) is waiting
    assert stats(made) == (2, 2)
    for horizon_ms in (NOW_MS, NOW_MS - 1):
        assert made.retain(horizon_at(end(10, 7), horizon_ms), retention()) is None
    assert made.retain(as_batch(emptied(end(10, 7))), retention()) is None
    assert stats(made) == (4, 2)


def test_a_marker_that_ends_something_stays_whatever_its_horizon() -> None:
    batch = pairs(10, (b"a", X), producer=7, transactional=True)
    made = compaction(batch, LAST)
    assert left(made, batch) == [10]
    late = horizon_at(end(11, 7), NOW_MS - 1)
    assert made.retain(late, retention()) is late
    assert stats(made) == (2, 2)


# -- headers


OTHER = LastRecord(50, 0)


@pytest.mark.parametrize("producer", [0, 7])
@pytest.mark.parametrize(
    ("last", "stays"),
    [
        (None, False),
        (LastRecord(11, 0), True),
        (LastRecord(11, 5), True),
        (LastRecord(10, 0), False),
        (LastRecord(12, 0), False),
        (LastRecord(None, 0), False),
    ],
)
def test_the_header_of_a_producers_last_batch_stays(producer: int, last: LastRecord | None, stays: bool) -> None:
    batch = pairs(10, (b"a", X), (b"a", X), producer=producer)
    made = compaction(batch, pairs(12, (b"a", X)), LAST)
    known = {1: LastRecord(11, 0)} | ({} if last is None else {producer: last})
    assert left(made, batch, known) == ([] if stays else None)
    header = as_batch(emptied(batch))
    found = made.retain(header, retention(known))
    assert found is (header if stays else None), "also when that is all that is left of it"
    assert stats(made) == (2, 0)


def test_a_batch_without_a_producer_is_nobodys_last_one() -> None:
    batch = pairs(10, (b"a", X))
    made = compaction(batch, pairs(11, (b"a", X)), LAST)
    assert left(made, batch, {-1: LastRecord(10, -1)}) is None


@pytest.mark.parametrize(
    ("last", "stays"),
    [
        (None, False),
        (LastRecord(None, 4), True),
        (LastRecord(None, 3), False),
        (LastRecord(None, 5), False),
        (LastRecord(10, 3), True),
        (LastRecord(9, 4), False),
    ],
)
def test_the_header_of_a_marker_stays_where_it_alone_tells_the_epoch(last: LastRecord | None, stays: bool) -> None:
    gone = horizon_at(end(10, 7, epoch=4), NOW_MS)
    assert left(compaction(LAST), gone, {} if last is None else {7: last}) == ([] if stays else None)


def test_the_header_of_an_aborted_batch_stays_where_its_producer_is_there() -> None:
    batch = pairs(10, (b"a", X), producer=7, transactional=True)
    made = compaction(LAST)
    made.retain_aborted([AbortedTransaction(7, 10, 11, 10)])
    found = made.retain(batch, retention({7: LastRecord(10, 0)}))
    assert found is not None
    assert (found.header.record_count, found.header.last_offset, found.header.producer_id) == (0, 10, 7)


@pytest.mark.parametrize("is_behind", [False, True])
def test_the_header_of_the_last_batch_of_a_pass_stays(is_behind: bool) -> None:
    """The log ends there, where nothing follows; a follower that fetches from there would find it nowhere else."""
    batch = pairs(10, (None, X), (None, X))
    made = compaction(batch, pairs(12, (b"a", X))) if is_behind else compaction(batch)
    assert made.end_offset == (13 if is_behind else 12)
    assert left(made, batch) == (None if is_behind else [])


# -- how far the map goes


def test_a_pass_that_looked_at_nothing_ends_where_it_began() -> None:
    assert compaction(first_dirty=5).end_offset == 5
    assert compaction(first_dirty=0).end_offset == 0
    assert compaction(pairs(3, (b"a", X)), first_dirty=5).end_offset == 5, "clean already"
    assert compaction(pairs(3, (b"a", X), (b"b", X)), first_dirty=4).end_offset == 5
    assert compaction(pairs(3, (b"a", X), (b"b", X), (b"c", X)), first_dirty=4).end_offset == 6


def test_keys_before_the_first_dirty_offset_are_not_noted() -> None:
    """A key that was last written before is in the clean part once, and stays."""
    batch = pairs(10, (b"a", X), (b"b", X), (b"a", X), (b"c", X))
    offsets = OffsetMap(ENTRY_BYTES * 9)
    made = Compaction(12, offsets)
    assert made.index(batch)
    assert [offsets.get(key) for key in (b"a", b"b", b"c")] == [12, -1, 13]
    assert left(made, batch) == [11, 12, 13]


def test_a_full_map_ends_before_the_key_that_does_not_fit() -> None:
    batch = pairs(10, (b"a", X), (b"b", X), (b"a", X), (None, X), (b"c", X), (b"a", X))
    made = Compaction(0, OffsetMap(ENTRY_BYTES * 2))
    assert not made.index(batch)
    assert made.end_offset == 14
    assert left(made, batch) == [11, 12, 14, 15]


def test_a_map_that_is_full_at_the_first_record_of_a_batch_ends_with_the_batch_before() -> None:
    made = compaction(pairs(10, (b"a", X), (b"b", X)), room=2)
    assert not made.index(pairs(12, (b"c", X), (b"a", X)))
    assert made.end_offset == 12
    assert left(made, pairs(10, (b"b", X), (b"b", X))) == [11]


def test_control_batches_and_headers_without_a_record_are_looked_at_for_their_ends_only() -> None:
    made = compaction(end(10, 7), as_batch(emptied(pairs(11, (b"a", X), (b"b", X)))), room=1)
    assert made.end_offset == 13
    assert made.index(pairs(13, (b"k", X)))
    assert not made.index(pairs(14, (b"a", X)))


def test_a_segment_that_has_been_looked_at_is_clean_up_to_the_next_one() -> None:
    """KAFKA-8764: a segment's last batch may end before the next segment begins."""
    made = compaction(pairs(10, (b"a", X)))
    made.index_ended(11)
    assert made.end_offset == 11
    made.index_ended(20)
    assert made.end_offset == 20
    assert left(made, pairs(18, (None, X), (b"a", X), (None, X))) == [19, 20]


def test_a_pass_begins_with_nothing_done() -> None:
    made = CleaningStats()
    done = (made.bytes_read, made.bytes_written, made.records_read, made.records_kept, made.keys)
    assert done == (0, 0, 0, 0, 0)
