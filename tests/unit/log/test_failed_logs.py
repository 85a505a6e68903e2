"""After its disk has failed once, whatever it was about, a log accepts nothing more until it is loaded again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.errors import StorageError
from kavka.log.unified_log import UnifiedLog
from tests.unit.log.log_support import NOW_MS, FailingFileSystem, append, batch, new_log, offsets, reopen
from tests.unit.log.noting_disk import NotingFileSystem


def full(disk: FailingFileSystem) -> None:
    disk.budget = 0


def no_renames(disk: FailingFileSystem) -> None:
    disk.fail_renames = True


def no_syncs(disk: FailingFileSystem) -> None:
    disk.fail_syncs = True


def follow(log: UnifiedLog) -> None:
    end = log.log_end_offset
    log.append_as_follower(batch(base_offset=end) + batch(base_offset=end + 1), NOW_MS)


def retain(log: UnifiedLog) -> None:
    log.delete_old_segments(NOW_MS)


def truncate(log: UnifiedLog) -> None:
    log.truncate_to(1, NOW_MS)


def truncate_fully(log: UnifiedLog) -> None:
    log.truncate_fully_and_start_at(50, NOW_MS)


def flush(log: UnifiedLog) -> None:
    log.flush(NOW_MS)


def write_all(log: UnifiedLog) -> None:
    log.write_all()


@pytest.mark.parametrize(
    ("fail", "change"),
    [
        (full, append),
        (full, follow),
        (no_renames, retain),
        (no_renames, truncate),
        (no_renames, truncate_fully),
        (full, flush),
        (no_syncs, flush),
        (full, write_all),
    ],
)
def test_nothing_is_accepted_after_a_failure_of_the_disk(
    tmp_path: Path, fail: Callable[[FailingFileSystem], None], change: Callable[[UnifiedLog], None]
) -> None:
    disk = FailingFileSystem()
    log = new_log(tmp_path, filesystem=disk, segment_bytes=2 * len(batch()), retention_bytes=0)
    append(log, *(batch(producer_id=1, sequence=number) for number in range(5)))
    fail(disk)
    with pytest.raises(StorageError) as failure:
        append(log, batch()) if change is append else change(log)
    assert log.failure is failure.value
    disk.budget, disk.fail_renames, disk.fail_syncs = 1 << 30, False, False
    for accept in (append_one, follow):
        with pytest.raises(StorageError) as refusal:
            accept(log)
        assert refusal.value is failure.value
    assert log.prepare_flush() is None
    assert not log.topic_id_due


def append_one(log: UnifiedLog) -> None:
    append(log, batch())


def test_a_log_of_which_a_follower_could_not_write_all_is_found_up_to_its_last_whole_batch(tmp_path: Path) -> None:
    disk = FailingFileSystem()
    log = new_log(tmp_path, filesystem=disk)
    follow(log)
    disk.budget = len(batch()) + 10
    with pytest.raises(StorageError, match="ENOSPC"):
        follow(log)
    assert (log.log_end_offset, offsets(reopen(log))) == (2, [0, 1, 2])


# -- the end of a log's use


def test_a_closed_log_holds_no_file_open(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    log = new_log(tmp_path, filesystem=disk, segment_bytes=2 * len(batch()))
    append(log, *(batch() for _ in range(5)))
    files = [weakref.ref(segment.file) for segment in log.segments]
    open_segments = log.segments[0].directory.open_segments
    assert (len(files), len(open_segments)) == (3, 3)
    log.close(NOW_MS)
    assert len(open_segments) == 0
    assert [file() for file in files] == [None, None, None]


def test_an_abandoned_log_writes_nothing_and_goes_by_itself(tmp_path: Path) -> None:
    """Its disk has failed; its indexes and producers may be large."""
    disk = NotingFileSystem()
    log = new_log(tmp_path, filesystem=disk, segment_bytes=2 * len(batch()), index_interval_bytes=0)
    append(log, *(batch(producer_id=1, sequence=number) for number in range(5)))
    log.flush(NOW_MS)
    segments = log.segments
    files = [weakref.ref(segment.file) for segment in segments]
    directory = segments[0].directory
    assert directory.log is log
    disk.notes.clear()
    log.abandon()
    assert disk.notes == []
    assert directory.log is None, "no ring holds the log"
    assert len(directory.open_segments) == 0
    assert [file() for file in files] == [None, None, None]
    assert [segment.view().indexes for segment in segments[:-1]] == [None, None], "what the files have is let go of"
