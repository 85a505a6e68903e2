"""Where a log begins and ends after what is done to it: with edges that `test_unified_log` does not come to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import structlog

from kavka.errors import ErrorCode, RecordsError
from kavka.log.decide.indexes import MAX_RELATIVE_OFFSET
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.log_config import LogConfig
from kavka.log.log_loader import create_log
from kavka.log.segment import LOG_SUFFIX, SWAP_SUFFIX, TIME_INDEX_SUFFIX, LogDirectory, OpenSegments, Segment
from kavka.log.unified_log import UnifiedLog
from kavka.records.batch import batch_at, read_header
from kavka.records.builder import seal
from kavka.records.control import ControlType
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import (
    DAY_MS,
    NOW_MS,
    PARTITION,
    append,
    batch,
    has_open_transaction,
    log_directory,
    marker,
    new_log,
    offsets,
    reopen,
    request,
)
from tests.unit.log.noting_disk import NotingFileSystem

SIZE = len(batch())


def bases(log: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def sizes(log: UnifiedLog) -> list[int]:
    return [segment.size // SIZE for segment in log.segments]


def follow(log: UnifiedLog, *base_offsets: int, leader_epoch: int = 0) -> None:
    log.append_as_follower(
        b"".join(batch(base_offset=base, leader_epoch=leader_epoch) for base in base_offsets), NOW_MS
    )


def log_at(path: Path, start: int, **settings: object) -> UnifiedLog:
    """An empty log that begins at `start`."""
    config = LogConfig(**settings)  # type: ignore[arg-type]
    loaded = create_log(log_directory(path), request(config, log_start_offset=start))
    return UnifiedLog(PARTITION, loaded, config, now_ms=NOW_MS)


# -- segments


def test_a_follower_fills_each_segment_as_the_leader_does(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=2 * SIZE)
    follow(log, *range(7))
    assert (bases(log), sizes(log)) == ([0, 2, 4, 6], [2, 2, 2, 1])
    follow(log, 7, 8)
    assert (bases(log), sizes(log)) == ([0, 2, 4, 6, 8], [2, 2, 2, 2, 1])


@pytest.mark.parametrize("end", [10, (1 << 31) + 10])
def test_a_followers_segment_is_named_for_the_log_end_also_before_a_gap(tmp_path: Path, end: int) -> None:
    """Recovery takes a gap between segments for a loss."""
    log = log_at(tmp_path, end, segment_bytes=2 * SIZE)
    follow(log, end, end + 1, end + 7, end + 8)
    assert bases(log) == [end, end + 2]
    found = reopen(log, log_start_offset=end)
    assert offsets(found) == [end, end + 1, end + 7, end + 8]


@pytest.mark.parametrize(
    ("gap", "name"), [(MAX_RELATIVE_OFFSET, 3), (MAX_RELATIVE_OFFSET + 1, MAX_RELATIVE_OFFSET + 4)]
)
def test_but_for_the_batch_where_an_index_cannot_hold_so_wide_a_gap(tmp_path: Path, gap: int, name: int) -> None:
    log = new_log(tmp_path)
    follow(log, 0, 1, 2, 3 + gap)
    assert bases(log) == [0, name]
    assert offsets(reopen(log)) == [0, 1, 2, 3 + gap]


def test_an_empty_segment_before_so_wide_a_gap_goes(tmp_path: Path) -> None:
    """It would look like one that lost its bytes. What is left begins far behind the log start: a read finds it."""
    first = 1 << 40
    log = new_log(tmp_path)
    follow(log, first, first + 1)
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([first], 0, first + 2)
    log.advance_high_watermark(first + 2)
    assert offsets(log, 0) == [first, first + 1]
    log.roll(NOW_MS)
    follow(log, 1 << 41)
    assert bases(log) == [first, 1 << 41], "the empty one of the roll has gone too"
    assert offsets(reopen(log)) == [first, first + 1, 1 << 41]
    log.truncate_to(first + 1, NOW_MS)
    assert (bases(log), log.log_end_offset) == ([first], first + 1)


def test_a_batch_over_segment_bytes_that_the_leader_has_fills_a_segment_alone(tmp_path: Path) -> None:
    """Its leader took it before the setting was changed."""
    log = new_log(tmp_path, segment_bytes=SIZE)
    log.append_as_follower(batch([b"x" * 500]), NOW_MS)
    assert bases(log) == [0]
    log.append_as_follower(batch([b"x" * 500], base_offset=1), NOW_MS)
    follow(log, 2)
    assert bases(log) == [0, 1, 2]
    assert offsets(reopen(log)) == [0, 1, 2]


def test_an_index_has_room_for_one_entry_however_small_it_may_be(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_index_bytes=4, index_interval_bytes=0)
    append(log, *(batch() for _ in range(6)))
    assert sizes(log) == [2, 2, 2]


def test_a_log_without_jitter_of_its_own_rolls_at_segment_ms(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_jitter_ms=500)
    append(log, batch())
    assert log.roll(NOW_MS).roll_jitter_ms == 0


@pytest.mark.parametrize("closing", ["roll", "close"])
def test_a_segment_ends_its_time_index_with_its_largest_timestamp(tmp_path: Path, closing: str) -> None:
    """Who believes one that lost its end lets retention have the records too early."""
    log = new_log(tmp_path)
    append(log, batch(timestamp=NOW_MS), batch(timestamp=NOW_MS + 70), batch(timestamp=NOW_MS + 5))
    path = Path(log.segments[0].path(TIME_INDEX_SUFFIX))
    log.roll(NOW_MS) if closing == "roll" else log.close(NOW_MS)
    assert path.read_bytes() == (NOW_MS + 70).to_bytes(8, "big") + (1).to_bytes(4, "big")


# -- producers


def test_the_first_producer_id_is_one_like_others(tmp_path: Path) -> None:
    for role in ("leader", "follower"):
        log = new_log(tmp_path / role)
        sent = batch(2, producer_id=0, sequence=0)
        if role == "leader":
            append(log, sent)
        else:
            log.append_as_follower(sent, NOW_MS)
        again = log.append_as_leader(batch(2, producer_id=0, sequence=0), 0, NOW_MS)
        assert (again.is_duplicate, again.first_offset, log.log_end_offset) == (True, 0, 2)
        with pytest.raises(RecordsError) as refusal:
            log.append_as_leader(batch(2, producer_id=0, sequence=9), 0, NOW_MS)
        assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_without_a_producer_leave_none(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(), batch())
    follow(log, 2, 3)
    assert list(log.producers.producers) == []
    assert [entry.producer_id for entry in reopen(log).producers.entries()] == []


@pytest.mark.parametrize(
    ("late", "code"),
    [
        ({"epoch": 4, "coordinator_epoch": 9}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"epoch": 5, "coordinator_epoch": 7}, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_a_marker_of_a_past_life_is_refused(tmp_path: Path, late: dict[str, int], code: ErrorCode) -> None:
    log = new_log(tmp_path)
    append(log, batch(producer_id=1, epoch=5, transactional=True))
    first = marker(ControlType.COMMIT, producer_id=1, epoch=5, coordinator_epoch=8)
    log.append_as_leader(first, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(RecordsError) as refusal:
        log.append_as_leader(
            marker(ControlType.ABORT, producer_id=1, **late), 0, NOW_MS, origin=AppendOrigin.COORDINATOR
        )
    assert (refusal.value.code, log.log_end_offset) == (code, 2)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_control_batch_that_ends_no_transaction_changes_no_producer(tmp_path: Path, role: str) -> None:
    """Such as one that compaction has emptied, or of a kind that a later version has."""
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=1, transactional=True))
    if role == "follower":
        header = read_header(marker(ControlType.COMMIT, producer_id=1))
        log.append_as_follower(seal(header._replace(base_offset=2, record_count=0), b""), NOW_MS)
    else:
        other = marker(ControlType.COMMIT, producer_id=1)
        parsed = batch_at(memoryview(other))
        assert parsed is not None
        # The key of the record says of what kind it is: version i16, type i16.
        payload = bytes(other[61:]).replace(b"\x00\x00\x00\x01", b"\x00\x00\x00\x07", 1)
        log.append_as_leader(seal(parsed.header, payload), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert log.log_end_offset == 3
    assert has_open_transaction(log.producers, 1)
    assert log.aborted_transactions(0, 3) == []


def test_a_truncation_behind_a_finished_transaction_leaves_it_stable(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=1, transactional=True))
    log.append_as_leader(marker(ControlType.COMMIT, producer_id=1), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    append(log, batch(), batch())
    assert log.last_stable_offset == 5
    log.truncate_to(4, NOW_MS)
    assert (log.high_watermark, log.last_stable_offset) == (4, 4)


# -- the start


def test_a_log_start_above_the_high_watermark_takes_it_along(tmp_path: Path) -> None:
    """A follower hears of its leader's log start before its own high watermark has come so far."""
    log = new_log(tmp_path)
    append(log, *(batch(producer_id=1, transactional=True) for _ in range(1)))
    log.append_as_leader(marker(ControlType.COMMIT, producer_id=1), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.append_as_leader(batch(3), 0, NOW_MS)
    log.set_high_watermark(1)
    assert log.last_stable_offset == 0
    assert log.advance_log_start_offset(3)
    assert (log.log_start_offset, log.high_watermark, log.last_stable_offset) == (3, 3, 3)
    log.set_high_watermark(5)
    assert log.advance_log_start_offset(4)
    assert (log.log_start_offset, log.high_watermark) == (4, 5)
    assert log.advance_log_start_offset(99)
    assert (log.log_start_offset, log.high_watermark) == (5, 5)


@pytest.mark.parametrize(("retention_ms", "left"), [(-1, [0, 1, 2, 3]), (0, [1, 2, 3]), (1, [2, 3])])
def test_retention_takes_what_is_older_to_the_millisecond_or_nothing(
    tmp_path: Path, retention_ms: int, left: list[int]
) -> None:
    log = new_log(tmp_path, segment_bytes=SIZE, retention_ms=retention_ms)
    for age_ms in (1, 0, -1, -2):
        append(log, batch(timestamp=NOW_MS - age_ms))
    now_ms = NOW_MS if retention_ms < 1 else NOW_MS + 2
    log.delete_old_segments(now_ms)
    assert bases(log) == left


def test_retention_says_what_it_took_and_why(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=2 * SIZE, retention_bytes=3 * SIZE)
    append(log, *(batch(producer_id=1, sequence=number) for number in range(7)))
    with structlog.testing.capture_logs() as lines:
        (deleted,) = log.delete_old_segments(NOW_MS)
    assert deleted == ("retention.bytes", (0, 2), 4 * SIZE, 4)
    assert lines == [
        {
            "event": "segments deleted",
            "log_level": "info",
            "logger": "kavka.log.unified_log",
            "partition": "orders-0",
            "why": "retention.bytes",
            "base_offsets": (0, 2),
            "size_bytes": 4 * SIZE,
            "log_start_offset": 4,
        }
    ]
    assert sorted(int(path.stem) for path in tmp_path.glob("*.snapshot")) == [4, 6], "those of segments that are left"


# -- the end


def test_truncations_are_counted_and_told(tmp_path: Path) -> None:
    """Who reads on another thread looks whether its log still is what it was."""
    log = new_log(tmp_path)
    append(log, batch(3), batch(3))
    log.set_high_watermark(4)
    assert log.truncations == 0
    assert not log.truncate_to(6, NOW_MS)
    assert log.truncations == 0
    with structlog.testing.capture_logs() as lines:
        log.truncate_to(3, NOW_MS)
        assert log.truncations == 1
        log.truncate_fully_and_start_at(90, NOW_MS)
        assert log.truncations == 2
    common = {"log_level": "info", "logger": "kavka.log.unified_log", "partition": "orders-0"}
    assert lines == [
        {"event": "log truncated", **common, "log_end_offset": 6, "truncated_to": 3, "high_watermark": 4},
        {"event": "log truncated fully", **common, "log_end_offset": 3, "starts_at": 90},
    ]


def test_a_truncation_to_where_the_log_begins_keeps_its_first_segment(tmp_path: Path) -> None:
    """As Kafka does; below it all segments go."""
    log = log_at(tmp_path, 10)
    append(log, batch(3), leader_epoch=1)
    assert log.truncate_to(10, NOW_MS)
    assert (bases(log), sizes(log), log.log_end_offset, log.log_start_offset) == ([10], [0], 10, 10)
    assert not log.has_removals
    append(log, batch(3), leader_epoch=1)
    assert log.truncate_to(9, NOW_MS)
    assert (bases(log), log.log_end_offset, log.log_start_offset) == ([9], 9, 9)
    assert log.has_removals


def test_nothing_of_before_is_left_of_a_log_that_begins_anew(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=2 * SIZE)
    append(log, *(batch(producer_id=1, sequence=number) for number in range(7)))
    assert len(list(tmp_path.glob("*.snapshot"))) == 3
    log.truncate_fully_and_start_at(50, NOW_MS, log_start_offset=20)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (20, 50, 50)
    assert list(tmp_path.glob("*.snapshot")) == []
    assert [path.name for path in tmp_path.glob("*.log")] == [f"{50:020d}.log"]


@pytest.mark.parametrize(("cleaned_to", "later"), [(None, None), (3, 50)])
def test_a_log_that_begins_anew_is_as_clean_as_it_is_long(
    tmp_path: Path, cleaned_to: int | None, later: int | None
) -> None:
    log = new_log(tmp_path)
    append(log, batch(5))
    log.cleaned_to = cleaned_to
    log.truncate_fully_and_start_at(50, NOW_MS)
    assert log.cleaned_to == later


@pytest.mark.parametrize("is_full", [False, True])
def test_a_truncation_takes_back_the_segment_that_compaction_is_about_to_put_in_place(
    tmp_path: Path, is_full: bool
) -> None:
    log = new_log(tmp_path, segment_bytes=2 * SIZE)
    append(log, *(batch() for _ in range(5)))
    cleaned = Segment.create_cleaned(log.segments[0].directory, 0, now_ms=NOW_MS)
    log.swap.begin(cleaned)
    swapped = tmp_path / f"{0:020d}{LOG_SUFFIX}{SWAP_SUFFIX}"
    assert swapped.exists()
    if is_full:
        log.truncate_fully_and_start_at(3, NOW_MS)
    else:
        log.truncate_to(3, NOW_MS)
    assert not log.swap.is_under_way
    assert not swapped.exists()


# -- the directory


def test_new_settings_have_the_periodic_work_look_at_the_log(tmp_path: Path) -> None:
    noted: dict[LogDirectory, None] = {}
    directory = LogDirectory(LocalFileSystem(), str(tmp_path), OpenSegments(10), noted=noted)
    config = LogConfig()
    log = UnifiedLog(PARTITION, create_log(directory, request(config)), config, now_ms=NOW_MS)
    noted.clear()
    log.reconfigure(LogConfig(retention_ms=DAY_MS))
    assert list(noted) == [directory]


def test_a_log_that_was_moved_is_read_and_written_where_it_is(tmp_path: Path) -> None:
    log = new_log(tmp_path / "a", segment_bytes=2 * SIZE, file_delete_delay_ms=0)
    append(log, *(batch() for _ in range(7)))
    log.delete_records(2)
    log.delete_old_segments(NOW_MS)
    log.roll(NOW_MS)
    assert log.read(2, SIZE, max_offset=7, min_one_batch=True).next_offset == 3
    (tmp_path / "a").rename(tmp_path / "b")
    log.relocate(str(tmp_path / "b"))
    assert log.truncations == 1
    assert log.directory == str(tmp_path / "b")
    assert not log.has_removals, "these files were not moved"
    assert log.take_removals(NOW_MS) == []
    chunk = log.read(3, SIZE, max_offset=7, min_one_batch=True).chunks[0]
    assert chunk.file.path.startswith(str(tmp_path / "b"))
    append(log, batch())
    log.flush(NOW_MS)
    assert log.is_durable
    assert offsets(reopen(log, log_start_offset=2)) == [2, 3, 4, 5, 6, 7]


def test_of_a_log_that_was_moved_nothing_is_synced_in_the_former_directory(tmp_path: Path) -> None:
    """It is on another disk, which may fail any time."""
    disk = NotingFileSystem()
    log = new_log(tmp_path / "a", filesystem=disk)
    append(log, batch(producer_id=1), leader_epoch=-1)
    log.flush(NOW_MS)
    log.roll(NOW_MS)  # its small files wait for the next flush
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    log.relocate(str(tmp_path / "b"))
    disk.notes.clear()
    log.flush(NOW_MS)
    assert disk.take("sync") == [f"{1:020d}.log"]


def test_a_log_goes_on_in_a_directory_that_is_renamed(tmp_path: Path) -> None:
    log = new_log(tmp_path / "a")
    append(log, batch())
    log.rename_directory(str(tmp_path / "b"))
    assert (log.directory, (tmp_path / "b").is_dir(), (tmp_path / "a").exists()) == (str(tmp_path / "b"), True, False)
    append(log, batch())
    assert offsets(log) == [0, 1]
