"""Compaction: what it may touch, what it leaves, and what is on the disk when it is interrupted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kavka.config.broker import BrokerConfig
from kavka.errors import StorageError
from kavka.log.cleaner_choice import filthiest, look_at
from kavka.log.decide.indexes import MAX_SEGMENT_BYTES
from kavka.log.decide.offset_map import DIRECT_KEY_BYTES, OffsetMap
from kavka.log.log_config import LogConfig
from kavka.log.segment import LOG_SUFFIX, LogDirectory, Segment
from kavka.model import NO_TIMESTAMP
from kavka.records.batch import HEADER_SIZE, batch_at, iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp, seal
from kavka.records.control import ControlType
from kavka.records.validation import LONG_MAX
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.compaction_support import (
    COMPACTED,
    RETENTION_MS,
    Pair,
    Store,
    committed,
    headers,
    pairs_batch,
    table,
)
from tests.unit.log.killable_disk import KillableFileSystem, Killed
from tests.unit.log.log_support import NOW_MS, PARTITION, batch


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "logs")


def offsets(store: Store) -> list[int]:
    return [one.record.offset for one in committed(store.log)]


def test_the_active_segment_and_an_open_transaction_are_never_touched(store: Store) -> None:
    store.put((b"a", b"1"), (b"a", b"2"))
    store.clean()
    assert offsets(store) == [0, 1], "the only segment is the active one"
    store.roll()
    stamp = ProducerStamp(7, 0, 0, is_transactional=True)
    store.put((b"t", b"1"), stamp=stamp)
    store.roll()
    store.put((b"a", b"3"))
    store.roll()
    store.clean()
    assert offsets(store) == [1], "from offset 2 on nothing is stable"
    assert store.log.cleaned_to == 2
    store.end(ControlType.COMMIT, 7)
    store.roll()
    store.clean()
    assert offsets(store) == [2, 3]


def test_what_is_above_the_high_watermark_is_not_looked_at(store: Store) -> None:
    store.put((b"a", b"1"))
    store.roll()
    store.log.append_as_leader(pairs_batch(((b"a", b"2"),), NOW_MS), 0, NOW_MS)
    store.roll()
    store.clean()
    assert offsets(store) == [0]


def test_a_transaction_that_was_aborted_before_the_first_dirty_offset_hides_no_later_one(tmp_path: Path) -> None:
    """Otherwise the map of the dirty keys lacks what a committed transaction of the same producer wrote: a deleted
    value stays, and is back when the tombstone has gone."""
    store = Store(tmp_path / "logs", config=replace(COMPACTED, cleanup_delete=True, retention_ms=-1))
    store.put((b"t", b"1"), stamp=ProducerStamp(7, 0, 0, is_transactional=True))
    store.end(ControlType.ABORT, 7)
    store.put((b"a", b"deleted"))
    store.put((b"a", None), stamp=ProducerStamp(7, 0, 1, is_transactional=True))
    store.end(ControlType.COMMIT, 7)
    store.roll()
    store.log.delete_records(2)
    for step in range(3):
        store.clean()
        store.now_ms += RETENTION_MS
        assert b"deleted" not in [one.record.value for one in committed(store.log)]
        store.put((b"z", b"%d" % step))
        store.roll()


def test_a_segment_that_ends_before_the_next_one_begins_is_clean_up_to_there(store: Store) -> None:
    """Apache Kafka names a follower's segment for its first batch, so its logs have such gaps (KAFKA-8764)."""
    store.put((b"a", b"1"))
    store.put((b"a", b"2"))
    store.log.flush(store.now_ms)
    store.log.roll(store.now_ms, 100)
    for base_offset in (100, 101):
        after_gap = batch([b"3"], key=b"a", base_offset=base_offset, leader_epoch=0)
        store.log.append_as_follower(after_gap, store.now_ms)
        store.log.advance_high_watermark(store.log.log_end_offset)
        store.clean()
        assert store.log.cleaned_to == 100
        assert store.cleaner.uncleanable(str(store.path)) == []
    store.roll()
    store.clean()
    assert offsets(store) == [101]


@pytest.mark.setting("delete.retention.ms")
def test_a_tombstone_stays_for_delete_retention_ms_and_then_goes(store: Store) -> None:
    store.put((b"a", b"1"))
    store.put((b"a", None))
    store.put((b"b", b"1"))
    store.roll()
    store.clean()
    assert offsets(store) == [1, 2]
    horizons = [header.delete_horizon_ms for header in headers(store.log) if header.record_count]
    assert horizons == [NOW_MS + RETENTION_MS, None]
    store.now_ms += RETENTION_MS - 1
    store.put((b"c", b"1"))
    store.roll()
    store.clean()
    assert offsets(store) == [1, 2, 3]
    store.now_ms += 1
    store.put((b"d", b"1"))
    store.roll()
    store.clean()
    assert offsets(store) == [2, 3, 4]


def test_markers_go_after_their_records_and_the_horizon(store: Store) -> None:
    for producer, kind in ((7, ControlType.ABORT), (8, ControlType.COMMIT)):
        store.put((b"t", b"%d" % producer), stamp=ProducerStamp(producer, 0, 0, is_transactional=True))
        store.end(kind, producer)
    store.put((b"t", b"last"))
    for step in range(4):
        store.put((b"z", b"%d" % step))
        store.roll()
        store.clean()
        # The producers are forgotten after a while; their last batches may go then.
        store.logs.expire_producers(store.now_ms + 10 * 86_400_000)
        store.now_ms += RETENTION_MS
        assert table(committed(store.log)) == {b"t": b"last", b"z": b"%d" % step}
    assert [header.base_offset for header in headers(store.log) if header.is_control] == []


def test_the_last_batch_of_a_producer_stays_as_a_header(store: Store) -> None:
    stamp = ProducerStamp(9, 3, 40)
    store.put((b"a", b"1"), (b"b", b"1"), stamp=stamp)
    store.put((b"a", b"2"), (b"b", b"2"))
    store.roll()
    store.clean()
    (left,) = [header for header in headers(store.log) if header.producer_id == 9]
    assert (left.record_count, left.producer_epoch, left.last_sequence, left.last_offset) == (0, 3, 41, 1)


def test_a_segment_that_loses_its_last_batch_ends_earlier_and_one_that_loses_all_is_empty(store: Store) -> None:
    """As Apache Kafka leaves them: a batch without records, producer or purpose stops some clients' consumers."""
    store.put((b"kept", b"1"))
    store.put(*[(b"again", b"x" * 150)] * 4)
    store.roll()
    store.put(*[(b"again", b"x" * 150)] * 4)
    store.roll()
    store.put((b"again", b"x" * 300), (b"other", b"1"))
    store.roll()
    store.clean()
    bases = [segment.base_offset for segment in store.log.segments]
    assert bases == [0, 5, 9, 11]
    assert [header.record_count for header in headers(store.log)] == [1, 2]
    assert store.log.segments[1].size == 0
    for restart_is_clean in (True, False):
        assert offsets(store) == [0, 9, 10]
        for start in range(11):
            result = store.log.read(start, 1 << 20, max_offset=11, min_one_batch=True)
            assert result.next_offset > start
        assert store.log.log_end_offset == 11
        if restart_is_clean:
            store.logs.close(store.now_ms)
        else:
            store.logs.release()
        store.open()


def test_an_empty_cleaned_segment_is_no_damage_after_the_policy_changed(store: Store) -> None:
    """1. Compaction empties a segment. 2. cleanup.policy becomes delete. 3. The broker is killed."""
    store.put(*[(b"again", b"x" * 150)] * 4)
    store.roll()
    store.put((b"again", b"x" * 300))
    store.roll()
    store.clean()
    assert [segment.size > 0 for segment in store.log.segments] == [False, True, False]
    store.config = replace(COMPACTED, cleanup_compact=False, cleanup_delete=True)
    store.logs.release()
    store.open()
    assert offsets(store) == [4]


def test_an_empty_segment_does_not_hold_up_retention(store: Store) -> None:
    store.log.reconfigure(replace(COMPACTED, cleanup_delete=True, retention_ms=1_000))
    store.put(*[(b"again", b"x" * 150)] * 4)
    store.roll()
    store.put((b"again", b"x" * 300))
    store.roll()
    store.clean()
    store.now_ms += 1_000
    store.filesystem.set_modified_ms(store.log.segments[0].path(LOG_SUFFIX), store.now_ms)
    assert store.log.delete_old_segments(store.now_ms) == []
    store.now_ms += 1
    (deleted,) = store.log.delete_old_segments(store.now_ms)
    assert deleted.base_offsets == (0, 4)


def put_without_timestamps(store: Store, *pairs: Pair) -> None:
    """In a segment that was last written 2 s before now."""
    store.log.append_as_leader(pairs_batch(pairs, NO_TIMESTAMP), 0, store.now_ms)
    store.log.advance_high_watermark(store.log.log_end_offset)
    store.roll()
    written_ms = store.now_ms - 2_000
    store.filesystem.set_modified_ms(store.log.segments[-2].path(LOG_SUFFIX), written_ms)


def test_compaction_makes_segments_without_timestamps_no_younger(store: Store) -> None:
    store.log.reconfigure(replace(COMPACTED, cleanup_delete=True, retention_ms=1_999))
    put_without_timestamps(store, (b"k", b"1"))
    put_without_timestamps(store, (b"k", b"2"))
    store.clean()
    assert offsets(store) == [1]
    store.logs.close(store.now_ms)
    store.config = store.log.config
    store.open()
    (deleted,) = store.log.delete_old_segments(store.now_ms)
    assert deleted.base_offsets == (0,)


def test_the_last_write_decides_where_min_compaction_lag_ms_finds_no_timestamps(store: Store) -> None:
    put_without_timestamps(store, (b"k", b"1"))
    for lag_ms, is_cleanable in ((2_000, True), (2_001, False)):
        store.log.reconfigure(replace(COMPACTED, min_compaction_lag_ms=lag_ms))
        assert bool(look_at(store.log, store.now_ms).cleanable_bytes) is is_cleanable


def test_headers_that_stood_in_for_lost_batches_go_with_the_next_pass(store: Store) -> None:
    """Earlier versions ended a segment that lost its last batch with a batch of 0 records and no producer."""
    for number in range(4):
        store.put((b"k%d" % number, b"x" * 300), (b"k%d" % number, b"x" * 300))
        store.log.append_as_follower(stand_in(store.log.log_end_offset, 3), store.now_ms)
        store.log.advance_high_watermark(store.log.log_end_offset)
        store.roll()
    store.put((b"k3", b"y"))
    store.roll()
    assert [header.record_count for header in headers(store.log)] == [2, 0, 2, 0, 2, 0, 2, 0, 1]
    store.clean()
    assert [header.record_count for header in headers(store.log)] == [1, 1, 1, 1]


def test_a_consumer_is_not_answered_with_emptied_batches_alone_while_others_follow(store: Store) -> None:
    """Those of kafka-go and of sarama up to 1.45.1 would ask for the same offset again, for ever."""
    store.put((b"first", b"x" * 400))
    for number in range(2):
        store.log.append_as_follower(stand_in(store.log.log_end_offset, 4), store.now_ms)
        if number:
            store.roll()
    store.log.append_as_follower(stand_in(store.log.log_end_offset, 4), store.now_ms)
    store.roll()
    store.log.set_high_watermark(store.log.log_end_offset)
    log = store.log

    def answer(offset: int, max_bytes: int = 1 << 20) -> list[tuple[int, int]]:
        found = log.read_records(offset, max_bytes, max_offset=log.high_watermark, min_one_batch=True)
        data = b"".join(chunk.tobytes() for chunk in found.chunks)
        return [(batch.header.base_offset, batch.header.record_count) for batch in iterate_batches(memoryview(data))]

    assert answer(1) == [(9, 0)], "nothing follows yet: who can, goes on behind the last one"
    store.put((b"last", b"1"))
    for offset in range(1, 14):
        for max_bytes in (1, 70, 1 << 20):
            assert answer(offset, max_bytes) == [(13, 1)], offset
    assert answer(0) == [(0, 1), (1, 0), (5, 0)]
    as_follower = log.read(1, 1 << 20, max_offset=log.high_watermark, min_one_batch=True)
    assert as_follower.size_bytes == 2 * HEADER_SIZE, "a replica has what its leader has"


def stand_in(base_offset: int, offset_count: int) -> bytes:
    builder = BatchBuilder()
    for _ in range(offset_count):
        builder.append(NOW_MS, None, None)
    whole = batch_at(memoryview(builder.build(base_offset=base_offset, partition_leader_epoch=0)))
    assert whole is not None
    return seal(whole.header._replace(record_count=0, base_timestamp=NO_TIMESTAMP), b"")


def test_segments_are_joined_as_long_as_together_they_fit_into_one(store: Store) -> None:
    for number in range(40):
        store.put((b"a", b"%d" % number))
        if number % 4 == 3:
            store.roll()
    counts = [len(store.log.segments)]
    for _ in range(2):
        store.clean()
        counts.append(len(store.log.segments))
        store.log.cleaned_to = None
    assert counts == [11, 5, 2]
    assert offsets(store) == [39]
    store.logs.close(store.now_ms)
    store.open()
    assert offsets(store) == [39]


def test_a_restart_goes_on_where_the_last_pass_ended(store: Store) -> None:
    store.fill()
    store.clean()
    end = store.log.cleaned_to
    assert end == store.log.log_end_offset
    assert (store.path / "cleaner-offset-checkpoint").read_text() == f"0\n1\norders 0 {end}\n"
    store.logs.release()
    store.open()
    assert store.log.cleaned_to == end


@pytest.mark.setting("min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms")
def test_ages_and_ratios_decide_when_a_log_is_due(tmp_path: Path) -> None:
    def due(now_ms: int, **settings: object) -> bool:
        store.log.reconfigure(LogConfig(**{**base, **settings}))  # type: ignore[arg-type]
        return store.log.config.cleanup_compact and filthiest([look_at(store.log, now_ms)]) is not None

    base = {"segment_bytes": 900, "cleanup_compact": True, "cleanup_delete": False}
    store = Store(tmp_path / "logs")
    store.fill()
    assert due(NOW_MS)
    assert not due(NOW_MS + 100, min_compaction_lag_ms=1_000)
    assert due(NOW_MS + 1_100, min_compaction_lag_ms=1_000)
    assert not due(NOW_MS, cleanup_compact=False)
    assert due(NOW_MS)
    store.clean()
    assert not due(NOW_MS), "nothing is dirty"
    store.put((b"a", b"new"))
    store.roll()
    assert not due(NOW_MS), "too little is dirty"
    assert due(NOW_MS, min_cleanable_dirty_ratio=0.01)
    assert not due(NOW_MS + 999, max_compaction_lag_ms=1_000)
    assert due(NOW_MS + 2_001, max_compaction_lag_ms=1_000)
    assert look_at(store.log, NOW_MS).dirty_ratio < 0.5


def test_a_checkpoint_that_cannot_be_right_has_all_of_it_cleaned_again(store: Store) -> None:
    store.fill()
    store.clean()
    for wrong in (store.log.log_end_offset + 1, -1):
        store.log.cleaned_to = wrong
        assert look_at(store.log, NOW_MS).first_dirty == store.log.log_start_offset


def test_a_truncation_in_the_middle_has_the_pass_given_up(store: Store) -> None:
    store.fill()
    steps = iter(range(1_000_000))

    def truncate_at(step: int) -> None:
        if next(steps) == step:
            store.logs.truncate_to(PARTITION, 5, store.now_ms)

    for step in range(40):
        steps = iter(range(1_000_000))
        cleaner = store.new_cleaner(lambda step=step: truncate_at(step))  # type: ignore[misc]
        asyncio.run(asyncio.wait_for(cleaner.clean_due(), 60))
        store.log.set_high_watermark(store.log.log_end_offset)
        if store.log.log_end_offset <= 5:
            assert (store.log.cleaned_to or 0) <= 5
        store.logs.release()
        store.open()
        assert all(offset < 5 for offset in offsets(store)) or step > 30
        store.logs.truncate_fully_and_start_at(PARTITION, 0, store.now_ms)
        store.fill()


def test_a_partition_deleted_at_any_step_has_the_pass_given_up(tmp_path: Path) -> None:
    for step in range(100):
        store = Store(tmp_path / str(step))
        store.fill()
        steps: list[int] = []

        def delete(store: Store = store, steps: list[int] = steps, step: int = step) -> None:
            if len(steps) == step:
                store.logs.delete(PARTITION, store.now_ms)
            steps.append(step)

        store.cleaner = store.new_cleaner(delete)
        store.clean()
        store.logs.release()
        if len(steps) <= step:
            return
        assert store.logs.offline_directories == {}
    raise AssertionError("a pass has fewer steps")


def test_a_reader_goes_on_over_a_swap(store: Store) -> None:
    store.fill()
    log = store.log
    before = {one.record.offset: one for one in committed(log)}
    read = log.read(0, 400, max_offset=log.high_watermark, min_one_batch=True)
    store.clean()
    assert b"".join(chunk.tobytes() for chunk in read.chunks), "slices of the old files can still be sent"
    rest = log.read(read.next_offset, 1 << 20, max_offset=log.high_watermark, min_one_batch=True)
    assert rest.size_bytes
    for start in range(log.log_end_offset):
        result = log.read(start, 1 << 20, max_offset=log.high_watermark, min_one_batch=True)
        assert result.next_offset > start
    assert {one.record.offset for one in committed(log)} <= before.keys()


def test_damage_leaves_the_log_alone_and_is_told_once(store: Store) -> None:
    store.fill()
    path = store.path / str(PARTITION) / f"{0:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[70:90] = b"\xff" * 20
    path.write_bytes(damaged)
    store.clean()
    assert store.cleaner.uncleanable(str(store.path)) == [store.log]
    assert store.cleaner.uncleanable_bytes(str(store.path)) > 0
    assert path.read_bytes() == damaged
    assert not list(path.parent.glob("*.cleaned"))
    store.clean()
    assert store.cleaner.passes == 0


def test_damage_of_the_records_is_told_and_harms_nothing_else(store: Store) -> None:
    store.fill()
    names = sorted((store.path / str(PARTITION)).glob("*.log"))
    damaged = bytearray(names[1].read_bytes())
    damaged[16] ^= 0xFF
    store.logs.close(store.now_ms)
    names[1].write_bytes(damaged)
    store.open()
    store.log.reconfigure(replace(COMPACTED, max_compaction_lag_ms=1))
    store.clean()
    assert store.cleaner.uncleanable(str(store.path)) == [store.log]
    assert store.cleaner.uncleanable_bytes(str(store.path)) > 0
    assert store.cleaner.max_dirty_percent() == 0


def test_a_disk_that_fails_takes_no_other_metric_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StorageError("disk", "Input/output error")

    store.put((b"a", b"1"))
    store.roll()
    assert store.cleaner.max_dirty_percent() == 100
    monkeypatch.setattr("kavka.broker.upkeep.log_cleaner.look_at", fails)
    assert store.cleaner.max_dirty_percent() == 100
    with pytest.raises(StorageError):
        store.clean()


def test_an_offset_map_is_full_at_its_bound_and_tells_long_keys_apart() -> None:
    offsets = OffsetMap(220 * 3)
    long = b"k" * (DIRECT_KEY_BYTES + 1)
    assert offsets.put(b"a", 1)
    assert offsets.put(long, 2)
    assert offsets.put(long + b"x", 3)
    assert not offsets.put(b"b", 4)
    assert offsets.put(b"a", 5), "a key that is there needs no room"
    assert [offsets.get(key) for key in (b"a", long, long + b"x", b"b")] == [5, 2, 3, -1]


def fill_to_be_emptied(store: Store) -> None:
    """Of the second, the third and the fourth segment nothing stays, and of the first its first batch."""
    store.put((b"kept", b"1"))
    for number in range(4):
        store.put(*[(b"again", b"x" * 70)] * 4)
        store.put(*[(b"again", b"x" * 30)] * 4, stamp=ProducerStamp(7, 0, 4 * number))
        store.roll()
    store.put((b"again", b"x" * 300))
    store.put((b"other", b"1"), stamp=ProducerStamp(7, 0, 16))
    store.roll()


@pytest.mark.parametrize("fill", [partial(Store.fill, rounds=9), fill_to_be_emptied], ids=["all kinds", "emptied"])
def test_a_kill_at_any_step_leaves_the_old_log_or_the_new_one(tmp_path: Path, fill: Callable[[Store], None]) -> None:
    step, ended = 0, False
    while not ended:
        filesystem = KillableFileSystem()
        store = Store(tmp_path / f"at-{step}", filesystem=filesystem)
        fill(store)
        expected = table(committed(store.log))
        everything = {one.record.offset: one for one in committed(store.log)}
        end = store.log.log_end_offset
        filesystem.changes, filesystem.fatal = 0, step
        try:
            store.clean()
            ended = True
        except Killed:
            pass
        filesystem.fatal = -1
        store.logs.release()
        store.open()
        seen = {one.record.offset: one for one in committed(store.log)}
        assert table(list(seen.values())) == expected, f"killed at step {step}"
        assert seen.items() <= everything.items()
        assert store.log.log_end_offset == end
        names = [path.name for path in (store.path / str(PARTITION)).iterdir()]
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        store.clean()
        assert table(committed(store.log)) == expected
        store.logs.release()
        step += 1
    assert step > 30


def test_a_disk_that_fails_in_a_pass_is_told_to_who_asked(tmp_path: Path) -> None:
    class FullFileSystem(LocalFileSystem):
        is_full = False

        def rename(self, source: str, target: str) -> None:
            if self.is_full:
                raise StorageError(source, "input/output error")
            super().rename(source, target)

    filesystem = FullFileSystem()
    store = Store(tmp_path / "logs", filesystem=filesystem)
    store.fill()
    filesystem.is_full = True
    with pytest.raises(StorageError):
        store.clean()


def test_a_disk_that_fails_while_segments_are_swapped_leaves_no_hole_for_readers(tmp_path: Path) -> None:
    class FailingFileSystem(LocalFileSystem):
        renames_left = -1

        def rename(self, source: str, target: str) -> None:
            if self.renames_left == 0:
                raise StorageError(source, "input/output error")
            self.renames_left -= 1
            super().rename(source, target)

    for renames in range(100):
        filesystem = FailingFileSystem()
        store = Store(tmp_path / str(renames), filesystem=filesystem)
        store.fill()
        expected = table(committed(store.log))
        filesystem.renames_left = renames
        try:
            store.clean()
        except StorageError:
            assert table(committed(store.log)) == expected, renames
            continue
        finally:
            store.logs.release()
        return
    raise AssertionError("a pass has fewer renames")


@pytest.mark.parametrize("beyond", [0, 1, NOW_MS])
def test_a_tombstone_and_a_marker_stay_for_ever_where_delete_retention_ms_says_so(tmp_path: Path, beyond: int) -> None:
    retention_ms = LONG_MAX - NOW_MS + beyond
    store = Store(tmp_path / "logs", config=replace(COMPACTED, delete_retention_ms=retention_ms))
    store.put((b"a", None), (b"b", b"1"))
    store.put((b"t", b"1"), stamp=ProducerStamp(7, 0, 0, is_transactional=True))
    store.end(ControlType.ABORT, 7)
    store.roll()
    for _ in range(3):
        store.clean()
        store.now_ms += 100 * 365 * 24 * 3_600_000
        store.put((b"b", b"2"))
        store.roll()
    assert committed(store.log)[0].record.key == b"a"
    assert committed(store.log)[0].record.timestamp == NOW_MS
    assert [header.delete_horizon_ms for header in headers(store.log)][:1] == [LONG_MAX]
    assert any(header.is_control for header in headers(store.log))


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e400", "-1", "7"])
@pytest.mark.parametrize("name", ["log.cleaner.io.buffer.load.factor", "log.cleaner.io.max.bytes.per.second"])
def test_no_number_of_a_setting_ends_compaction(store: Store, name: str, number: str) -> None:
    """Kafka takes these for numbers, and everybody who may alter the brokers' settings can set them."""
    properties = {"log.dirs": str(store.path), "zookeeper.connect": "localhost", name: number}
    store.put((b"a", b"1"), (b"a", b"2"))
    store.roll()
    cleaning = store.new_cleaner()
    store.broker = BrokerConfig.from_properties(properties)
    rates: list[float] = []

    async def look() -> None:
        rates.extend(cleaning._ahead_s(moved) for moved in (0, 100, 0))

    if name.endswith("second"):
        asyncio.run(look())
        assert all(0.0 <= ahead_s <= 100.0 for ahead_s in rates)
    else:
        store.clean()
        assert offsets(store) == [1]


def test_a_log_of_which_too_much_would_stay_for_one_segment_is_left_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch grows where its tombstones get a delete horizon, or a codec deflates it less than its producer did. In a
    full segment of 2 GiB that leads to positions that no index can hold."""
    create = Segment.create_cleaned

    def nearly_full(directory: LogDirectory, base_offset: int, *, now_ms: int) -> Segment:
        segment = create(directory, base_offset, now_ms=now_ms)
        segment.size = MAX_SEGMENT_BYTES - 300
        segment.file.truncate(segment.size)
        return segment

    for number in range(8):
        store.put((b"%d" % number, None))
    store.roll()
    before = headers(store.log)
    monkeypatch.setattr(Segment, "create_cleaned", nearly_full)
    store.clean()
    assert store.cleaner.uncleanable(str(store.path)) == [store.log]
    assert headers(store.log) == before
    assert not list(store.path.glob("*/*.cleaned"))


def test_many_random_logs_keep_their_tables_with_both_policies(tmp_path: Path) -> None:
    for seed in range(5):
        rng = random.Random(seed)
        config = LogConfig(
            **{
                **{name: getattr(COMPACTED, name) for name in ("segment_bytes", "file_delete_delay_ms")},
                "cleanup_compact": True,
                "cleanup_delete": True,
                "retention_ms": 1 << 40,
                "min_cleanable_dirty_ratio": 0.2,
            }
        )
        store = Store(tmp_path / f"{seed}", config=config)
        for _ in range(60):
            pairs = [(b"%d" % rng.randrange(9), rng.choice([b"v" * rng.randrange(50), None])) for _ in range(4)]
            store.put(*pairs)
            if rng.random() < 0.2:
                expected = table(committed(store.log))
                store.clean()
                store.logs.delete_old_segments(store.now_ms)
                assert table(committed(store.log)) == expected
