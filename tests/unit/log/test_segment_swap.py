"""How the segment that compaction made takes the place of others, step by step: what readers and a restart find."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.errors import StorageError
from kavka.log.log_segments import PendingRemoval
from kavka.log.segment import LogDirectory, Segment
from kavka.log.unified_log import UnifiedLog
from kavka.records.batch import batch_at
from tests.unit.log.log_support import NOW_MS, FailingFileSystem, append, batch, log_directory, new_log, offsets

NEVER = 1 << 30
SIZE = len(batch())


def log_of_four(path: Path, disk: FailingFileSystem | None = None) -> UnifiedLog:
    """Segments at 0, 2, 4 and 6, of two batches each but the last; all is durable."""
    log = new_log(path, filesystem=disk, segment_bytes=2 * SIZE)
    append(log, *(batch(producer_id=1, sequence=number) for number in range(7)))
    log.flush(NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    return log


def cleaned(log: UnifiedLog, base_offset: int, *kept: int) -> Segment:
    # A compaction has a directory object of its own: what it opens does not count among the log's.
    made = Segment.create_cleaned(log_directory(Path(log.directory)), base_offset, now_ms=NOW_MS)
    for offset in kept:
        data = batch(base_offset=offset)
        found = batch_at(memoryview(data))
        assert found is not None
        made.append(data, offset, found.header.max_timestamp, NEVER)
    made.write_indexes(closing=True)
    return made


def names(path: Path, *, ending: str) -> list[str]:
    return sorted(file.name for file in path.iterdir() if file.name.endswith(ending))


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def test_a_swap_step_by_step(tmp_path: Path) -> None:
    log = log_of_four(tmp_path)
    swap, old = log.swap, log.segments[1:3]
    assert not swap.is_under_way
    new = cleaned(log, 2, 3, 5)
    swap.begin(new)
    assert swap.is_under_way
    assert names(tmp_path, ending=".swap") == [
        file_name(2, f"{suffix}.swap") for suffix in (".index", ".log", ".timeindex")
    ]
    assert offsets(log) == [*range(7)], "readers find the old ones"
    assert swap.holds(old)
    assert log.is_durable

    removals = swap.install(old, NOW_MS + 60)
    assert swap.is_under_way
    assert [segment.base_offset for segment in log.segments] == [0, 2, 6]
    assert log.segments[1] is new
    assert offsets(log) == [0, 1, 3, 5, 6]
    assert not swap.holds(old)
    assert not log.has_removals, "not before the new one has its name for good"
    assert {Path(removal.path).name for removal in removals} == set(names(tmp_path, ending=".deleted"))
    assert {removal.due_ms for removal in removals} == {NOW_MS + 60}
    assert names(tmp_path, ending=".snapshot") == [file_name(offset, ".snapshot") for offset in (2, 6)]
    assert not log.is_durable

    log.flush(NOW_MS)
    swap.finish()
    assert not swap.is_under_way
    assert names(tmp_path, ending=".swap") == []
    assert file_name(2, ".log") in names(tmp_path, ending=".log")
    assert not log.is_durable, "the new names are to be synced"

    swap.remove_later(removals)
    assert log.take_removals(NOW_MS + 59) == []
    assert sorted(Path(path).name for path in log.take_removals(NOW_MS + 60)) == names(tmp_path, ending=".deleted")


def test_files_that_wait_for_their_removal_already_go_on_waiting(tmp_path: Path) -> None:
    log = log_of_four(tmp_path)
    log.delete_records(2)
    log.delete_old_segments(NOW_MS)
    waiting = log._segments.removals
    assert waiting
    log.swap.begin(cleaned(log, 2, 3))
    removals = log.swap.install(log.segments[:2], NOW_MS + 60)
    assert log._segments.removals == waiting
    assert not set(waiting) & set(removals)


def test_a_swap_in_place_of_one_segment_keeps_its_snapshot(tmp_path: Path) -> None:
    log = log_of_four(tmp_path)
    log.swap.begin(cleaned(log, 2, 3))
    log.swap.install(log.segments[1:2], NOW_MS)
    assert names(tmp_path, ending=".snapshot") == [file_name(offset, ".snapshot") for offset in (2, 4, 6)]
    assert len(log.segments[0].directory.open_segments) == 4


def test_removed_files_are_worth_a_look_of_the_periodic_work(tmp_path: Path) -> None:
    log = log_of_four(tmp_path)
    noted: dict[LogDirectory, None] = log.segments[0].directory._noted
    noted.clear()
    log.swap.remove_later([PendingRemoval(NOW_MS, str(tmp_path / "gone"))])
    assert len(noted) == 1
    assert log.take_removals(NOW_MS) == [str(tmp_path / "gone")]


def test_a_swap_that_is_taken_back_leaves_nothing_and_one_that_is_installed_stays(tmp_path: Path) -> None:
    log = log_of_four(tmp_path)
    log.swap.cancel()
    log.swap.begin(cleaned(log, 2, 3))
    log.swap.cancel()
    assert not log.swap.is_under_way
    assert names(tmp_path, ending=".swap") == []
    assert offsets(log) == [*range(7)]
    log.swap.begin(cleaned(log, 2, 3))
    log.swap.install(log.segments[1:3], NOW_MS)
    log.swap.cancel()
    assert log.swap.is_under_way
    assert offsets(log) == [0, 1, 3, 6]
    log.swap.finish()
    assert offsets(log) == [0, 1, 3, 6]
    log.swap.finish()
    assert not log.swap.is_under_way


def test_a_disk_that_fails_at_the_renames_leaves_no_hole(tmp_path: Path) -> None:
    disk = FailingFileSystem()
    log = log_of_four(tmp_path, disk)
    log.swap.begin(cleaned(log, 2, 3, 5))
    disk.fail_renames = True
    with pytest.raises(StorageError):
        log.swap.install(log.segments[1:3], NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 6]
    assert offsets(log) == [0, 1, 3, 5, 6]
    assert not log.has_removals


def test_up_to_where_the_disk_has_the_leader_epochs_first_records_may_go(tmp_path: Path) -> None:
    log = log_of_four(tmp_path)
    assert log.swap.bound == (1 << 63) - 1
    append(log, batch(), leader_epoch=5)
    assert log.swap.bound == log.recovery_point == 7
