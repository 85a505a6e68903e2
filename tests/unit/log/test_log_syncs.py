"""What the next flush of a log makes durable after each kind of change: a power cut must not undo it, nor bring back
what it took away. `test_durable_stops` cuts the power; here the disk notes what was asked of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from kavka.errors import StorageError
from kavka.log.decide.checkpoint import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, parse_epochs
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.log_loader import create_log
from kavka.log.unified_log import UnifiedLog
from kavka.records.control import ControlType
from tests.unit.log.log_support import (
    NOW_MS,
    PARTITION,
    append,
    batch,
    load,
    log_directory,
    marker,
    new_log,
    reopen,
    request,
)
from tests.unit.log.noting_disk import NotingFileSystem

NO_EPOCH = -1
NAMES = "orders-0"


def noted_log(path: Path, **settings: object) -> tuple[UnifiedLog, NotingFileSystem]:
    disk = NotingFileSystem()
    return new_log(path / NAMES, filesystem=disk, **settings), disk


def flushed(log: UnifiedLog, disk: NotingFileSystem) -> list[str]:
    """What a flush makes durable now; with the directory's name for the names in it."""
    disk.notes.clear()
    log.flush(NOW_MS)
    assert log.is_durable
    return disk.take("sync", "sync names", "replace durably")


def segment_file(offset: int, suffix: str = ".log") -> str:
    return f"{offset:020d}{suffix}"


def roll(log: UnifiedLog) -> None:
    log.roll(NOW_MS)


def retain(log: UnifiedLog) -> None:
    assert log.delete_old_segments(NOW_MS)


def truncate(log: UnifiedLog) -> None:
    assert log.truncate_to(log.log_end_offset - 1, NOW_MS)


def truncate_fully(log: UnifiedLog) -> None:
    log.truncate_fully_and_start_at(log.log_end_offset, NOW_MS)


def abort(log: UnifiedLog) -> None:
    log.append_as_leader(marker(ControlType.ABORT, producer_id=8), NO_EPOCH, NOW_MS, origin=AppendOrigin.COORDINATOR)


def write(log: UnifiedLog) -> None:
    append(log, batch(), leader_epoch=NO_EPOCH)


@pytest.mark.parametrize(
    ("change", "has_new_names"),
    [(write, False), (abort, True), (roll, True), (retain, True), (truncate, True), (truncate_fully, True)],
)
def test_new_names_and_those_that_are_gone_are_synced_with_the_next_flush(
    tmp_path: Path, change: Callable[[UnifiedLog], None], has_new_names: bool
) -> None:
    log, disk = noted_log(tmp_path, segment_bytes=400, retention_bytes=300)
    append(log, *(batch(2) for _ in range(8)), leader_epoch=NO_EPOCH)
    append(log, batch(producer_id=8, transactional=True), leader_epoch=NO_EPOCH)
    flushed(log, disk)
    assert log.prepare_flush() is None
    change(log)
    assert (NAMES in flushed(log, disk)) is has_new_names


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_the_name_of_the_first_file_is_synced_with_its_records(tmp_path: Path, role: str) -> None:
    log, disk = noted_log(tmp_path)
    if role == "leader":
        append(log, batch(), leader_epoch=NO_EPOCH)
    else:
        log.append_as_follower(batch(), NOW_MS)
    assert flushed(log, disk) == [segment_file(0), NAMES]
    assert log.prepare_flush() is None


def test_a_rolled_segment_is_synced_with_its_times_and_the_snapshot_of_the_next_one(tmp_path: Path) -> None:
    log, disk = noted_log(tmp_path)
    append(log, batch(3, producer_id=5), leader_epoch=NO_EPOCH)
    flushed(log, disk)
    log.roll(NOW_MS)
    synced = flushed(log, disk)
    assert set(synced) == {
        segment_file(0, ".timeindex"),
        segment_file(3),
        segment_file(3, ".snapshot"),
        NAMES,
    }


def test_the_new_name_is_durable_before_retention_takes_the_last_segment(tmp_path: Path) -> None:
    """Only that name says where the log goes on."""
    log, disk = noted_log(tmp_path, retention_bytes=0)
    append(log, batch(3))
    log.flush(NOW_MS)
    disk.notes.clear()
    assert log.delete_old_segments(NOW_MS)
    synced = disk.notes.index(("sync names", NAMES))
    assert synced < disk.notes.index(("rename", segment_file(0) + ".deleted"))
    assert (Path(log.directory) / segment_file(3)).exists()


# -- leader epochs


def epochs_on_disk(log: UnifiedLog) -> list[tuple[int, int]]:
    return [tuple(entry) for entry in parse_epochs((Path(log.directory) / LEADER_EPOCH_CHECKPOINT).read_bytes())]


def test_the_epochs_that_a_truncation_takes_are_taken_from_the_disk_too(tmp_path: Path) -> None:
    """Also those whose first batch it cuts in two, so that all of it goes."""
    log, disk = noted_log(tmp_path)
    append(log, batch(4), leader_epoch=1)
    append(log, batch(4), leader_epoch=2)
    flushed(log, disk)
    assert epochs_on_disk(log) == [(1, 0), (2, 4)]
    log.truncate_to(6, NOW_MS)
    assert (log.log_end_offset, log.epoch_entries) == (4, [(1, 0)])
    flushed(log, disk)
    assert epochs_on_disk(log) == [(1, 0)]


def test_an_epoch_without_records_that_is_dropped_does_not_come_back(tmp_path: Path) -> None:
    log, disk = noted_log(tmp_path)
    append(log, batch(4), leader_epoch=1)
    log.assign_epoch_start_offset(2, 4)
    flushed(log, disk)
    assert epochs_on_disk(log) == [(1, 0), (2, 4)]
    assert not log.truncate_to(4, NOW_MS)
    assert not log.is_durable
    disk.notes.clear()
    log.close(NOW_MS)
    assert disk.take("replace durably") == [LEADER_EPOCH_CHECKPOINT]
    assert epochs_on_disk(log) == [(1, 0)]


def test_a_truncation_that_takes_nothing_leaves_nothing_to_sync(tmp_path: Path) -> None:
    log, disk = noted_log(tmp_path)
    append(log, batch(4), leader_epoch=1)
    flushed(log, disk)
    assert not log.truncate_to(4, NOW_MS)
    assert log.is_durable


def test_a_log_that_begins_anew_has_no_epochs_on_the_disk_either(tmp_path: Path) -> None:
    log, disk = noted_log(tmp_path)
    append(log, batch(4), leader_epoch=1)
    flushed(log, disk)
    log.truncate_fully_and_start_at(9, NOW_MS)
    flushed(log, disk)
    assert epochs_on_disk(log) == []


def test_an_epoch_below_zero_is_none(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2), leader_epoch=3)
    log.assign_epoch_start_offset(NO_EPOCH, 2)
    append(log, batch(2), leader_epoch=NO_EPOCH)
    assert log.epoch_entries == [(3, 0)]
    log.assign_epoch_start_offset(0, 4)
    assert log.epoch_entries == [(0, 4)]


# -- closing


@pytest.mark.parametrize(
    ("settings", "was_cleaned", "has_records", "is_durable"),
    [
        ({}, False, True, False),
        ({"cleanup_compact": True}, False, True, True),
        ({}, True, True, True),
        ({"cleanup_compact": True}, True, True, True),
        ({"cleanup_compact": True}, False, False, False),
    ],
)
def test_epochs_without_records_are_synced_where_the_records_do_not_tell_of_those_before(
    tmp_path: Path, settings: dict[str, object], was_cleaned: bool, has_records: bool, is_durable: bool
) -> None:
    """The checkpoint is replaced: a power cut may take its former content too. Compaction has taken from the records
    where their epochs began."""
    log, disk = noted_log(tmp_path, **settings)
    if has_records:
        append(log, batch(2, key=b"k"), leader_epoch=1)
    if was_cleaned:
        log.cleaned_to = 0
    log.write_all()
    log.flush(NOW_MS)
    log.assign_epoch_start_offset(2, log.log_end_offset)
    disk.notes.clear()
    log.close(NOW_MS)
    written = [note for note in disk.notes if note[0].startswith("replace")]
    assert written == [("replace durably" if is_durable else "replace", LEADER_EPOCH_CHECKPOINT)]
    assert epochs_on_disk(log)[-1] == (2, log.log_end_offset)


def test_a_snapshot_of_the_log_end_is_durable_with_its_name_when_the_log_is_closed(tmp_path: Path) -> None:
    log, disk = noted_log(tmp_path)
    append(log, batch(3, producer_id=5), leader_epoch=NO_EPOCH)
    flushed(log, disk)
    disk.notes.clear()
    log.close(NOW_MS)
    synced = disk.take("sync", "sync names")
    assert segment_file(3, ".snapshot") in synced
    assert NAMES in synced


# -- the topic id


@pytest.mark.parametrize(
    ("topic_id", "known", "recovery_point", "is_unwritten", "is_unsynced"),
    [
        (None, {}, 0, False, False),
        (UUID(int=7), {}, 0, False, True),
        (UUID(int=7), {"topic_id_is_on_disk": True}, 0, False, True),
        (UUID(int=7), {"topic_id_is_on_disk": True}, 5, False, False),
        (UUID(int=7), {"topic_id_is_on_disk": False}, 0, True, False),
        (UUID(int=7), {"topic_id_is_on_disk": False}, 5, True, False),
        (None, {"topic_id_is_on_disk": True}, 0, False, False),
    ],
)
def test_a_topic_id_that_a_kill_may_have_left_unsynced_is_synced_with_the_first_records(
    tmp_path: Path,
    topic_id: UUID | None,
    known: dict[str, bool],
    recovery_point: int,
    is_unwritten: bool,
    is_unsynced: bool,
) -> None:
    directory = log_directory(tmp_path)
    loaded = create_log(directory, request(new_log(tmp_path).config, log_start_offset=recovery_point))
    log = UnifiedLog(PARTITION, loaded, new_log(tmp_path).config, now_ms=NOW_MS, topic_id=topic_id, **known)
    assert (log.metadata.is_unwritten, log.metadata.is_unsynced) == (is_unwritten, is_unsynced)


def test_a_topic_id_is_written_and_synced_as_soon_as_there_are_records(tmp_path: Path) -> None:
    log, disk = noted_log(tmp_path)
    assert not log.topic_id_due
    assert log.prepare_topic_id_sync() is None
    log.assign_topic_id(UUID(int=7))
    assert not log.topic_id_due, "no records"
    append(log, batch(), leader_epoch=NO_EPOCH)
    assert log.topic_id_due
    task = log.prepare_topic_id_sync()
    assert task is not None
    assert not log.topic_id_due, "it is under way"
    disk.notes.clear()
    task.sync()
    log.complete_flush(task, NOW_MS)
    assert disk.take("sync", "sync names") == [PARTITION_METADATA, NAMES]
    assert (log.topic_id_due, log.recovery_point) == (False, 0)


def test_the_topic_id_of_an_empty_log_is_written_when_it_is_closed_and_waits_for_no_sync(tmp_path: Path) -> None:
    log, disk = noted_log(tmp_path)
    log.assign_topic_id(UUID(int=7))
    disk.notes.clear()
    log.close(NOW_MS)
    assert (Path(log.directory) / PARTITION_METADATA).exists()
    assert disk.take("sync", "sync names") == []
    with_records, disk = noted_log(tmp_path / "other")
    append(with_records, batch(), leader_epoch=NO_EPOCH)
    flushed(with_records, disk)
    with_records.assign_topic_id(UUID(int=7))
    disk.notes.clear()
    with_records.close(NOW_MS)
    assert disk.take("sync", "sync names")[-2:] == [PARTITION_METADATA, NAMES]


# -- when


def test_a_flush_is_asked_for_at_so_many_messages_that_are_not_durable(tmp_path: Path) -> None:
    log = new_log(tmp_path, flush_messages=3)
    asked = []
    for _ in range(4):
        append(log, batch())
        asked.append(log.is_flush_asked_for)
    log.flush(NOW_MS)
    append(log, batch(2))
    asked.append(log.is_flush_asked_for)
    append(log, batch())
    asked.append(log.is_flush_asked_for)
    assert asked == [False, False, True, True, False, True]


def test_a_flush_begins_while_none_is_under_way_and_none_has_failed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch())
    task = log.prepare_flush()
    assert task is not None
    append(log, batch())
    assert log.prepare_flush() is None
    log.fail_flush(StorageError("orders-0", "EIO"))
    assert not log.flush_in_progress
    assert log.prepare_flush() is None, "the log has failed"
    again = reopen(log)
    assert again.prepare_flush() is not None


def test_the_log_start_is_durable_without_the_records_below_it(tmp_path: Path) -> None:
    """As in Kafka's UnifiedLog.updateLogStartOffset."""
    log = new_log(tmp_path)
    append(log, *(batch() for _ in range(6)))
    assert log.recovery_point == 0
    log.delete_records(4)
    assert log.recovery_point == 4
    log.flush(NOW_MS)
    log.delete_records(5)
    assert log.recovery_point == 6
    assert load(log, log_start_offset=5, recovery_point=6)[0].log_start_offset == 5
