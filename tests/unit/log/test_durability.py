"""What a flush syncs, in which order, and what is durable when it has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kavka.errors import StorageError
from kavka.log.decide.leader_epochs import LeaderEpochs
from kavka.log.durability import Durability, FlushTask
from kavka.log.log_config import NEVER_MS, LogConfig
from tests.unit.log.log_support import NOW_MS

PATH = "/logs/orders-0"
UNBOUNDED = (1 << 63) - 1


class Disk:
    """Notes what is done in order, and fails where it is told to. It is the log's directory, too."""

    def __init__(self) -> None:
        self.path = PATH
        self.done: list[str] = []
        self.missing: set[str] = set()
        self.fails_at = ""
        self.failure: Exception = StorageError(PATH, "input/output error")
        self.renamed_at = ""

    @property
    def filesystem(self) -> Disk:
        return self

    def do(self, what: str) -> None:
        self.done.append(what)
        if what == self.renamed_at:
            self.path = f"{PATH}.0-delete"
        if what == self.fails_at:
            raise self.failure

    def exists(self, path: str) -> bool:
        return path not in self.missing

    def open(self, path: str) -> Any:
        return SimpleNamespace(path=path, sync=lambda: self.do(f"sync {path}"))

    def sync_directory(self, path: str) -> None:
        self.do(f"sync directory {path}")

    def write_atomically(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.do(f"write {path} {data!r} {durable}")

    def remove(self, path: str) -> None:
        self.do(f"remove {path}")

    def ensure_name(self) -> None:
        self.do("ensure name")

    def note(self) -> None:
        self.do("note")


ONE_EPOCH = b"0\n1\n3 12\n"
EPOCHS_WRITTEN = f"write {PATH}/leader-epoch-checkpoint b'epochs' True"


def task(disk: Disk, epochs: bytes | None = b"epochs", *, directory_changed: bool = True) -> FlushTask:
    files = [disk.open("a"), disk.open("b")]
    return FlushTask(cast(Any, disk), 7, files, epochs, directory_changed=directory_changed)


@pytest.mark.parametrize("directory_changed", [False, True])
def test_records_are_synced_before_the_epochs_that_are_found_in_them(directory_changed: bool) -> None:
    """To replace a file durably syncs its directory."""
    disk = Disk()
    task(disk, directory_changed=directory_changed).sync()
    assert disk.done == ["sync a", "sync b", EPOCHS_WRITTEN, "ensure name"]


def test_the_directory_is_synced_where_a_name_in_it_has_changed() -> None:
    disk = Disk()
    task(disk, None).sync()
    assert disk.done == ["sync a", "sync b", f"sync directory {PATH}", "ensure name"]
    disk.done.clear()
    task(disk, None, directory_changed=False).sync()
    assert disk.done == ["sync a", "sync b", "ensure name"]


@pytest.mark.parametrize("at", ["sync a", "sync b", EPOCHS_WRITTEN, "ensure name"])
@pytest.mark.parametrize("failure", [StorageError(PATH, "input/output error"), FileNotFoundError(PATH)])
def test_a_failure_is_told_and_nothing_is_done_after_it(at: str, failure: Exception) -> None:
    disk = Disk()
    disk.fails_at, disk.failure = at, failure
    with pytest.raises(type(failure)):
        task(disk).sync()
    assert disk.done[-1] == at


@pytest.mark.parametrize("epochs", [b"epochs", None])
@pytest.mark.parametrize("failure", [StorageError(PATH, "input/output error"), FileNotFoundError(PATH)])
def test_what_fails_because_the_partition_was_deleted_meanwhile_is_no_failure(
    epochs: bytes | None, failure: Exception
) -> None:
    what = f"sync directory {PATH}" if epochs is None else EPOCHS_WRITTEN
    disk = Disk()
    disk.fails_at, disk.failure, disk.missing = what, failure, {PATH}
    task(disk, epochs).sync()
    assert disk.done[-1] == what, "its directory is gone"
    disk = Disk()
    disk.fails_at, disk.failure, disk.renamed_at = what, failure, what
    task(disk, epochs).sync()
    assert disk.done[-1] == what, "another log may have the name already"


def test_epochs_are_not_written_to_another_log_of_the_name() -> None:
    disk = Disk()
    disk.renamed_at = "sync b"
    task(disk).sync()
    assert disk.done == ["sync a", "sync b", "ensure name"]
    disk = Disk()
    disk.renamed_at = EPOCHS_WRITTEN
    task(disk).sync()
    assert disk.done[2:] == [EPOCHS_WRITTEN, f"remove {PATH}/leader-epoch-checkpoint", "ensure name"]


# -- what is to be flushed


def durability(disk: Disk | None = None, **loaded: Any) -> Durability:
    values = {
        "recovery_point": 10,
        "files_to_sync": (),
        "epochs_on_disk": True,
        "directory_changed": False,
        "unsynced_cut": None,
    }
    return Durability(cast(Any, disk or Disk()), cast(Any, SimpleNamespace(**{**values, **loaded})), NOW_MS)


def metadata(*, is_unsynced: bool = False) -> Any:
    return SimpleNamespace(path=f"{PATH}/partition.metadata", is_unsynced=is_unsynced)


class Segments:
    """Of which the last is the active one."""

    def __init__(self, disk: Disk, *bases: int, not_made: tuple[int, ...] = (), with_transactions: int = -1) -> None:
        self.disk = disk
        self.asked_from: list[int] = []
        self.closing: dict[int, bool] = {}
        self.all = [self.segment(base, base not in not_made, base == with_transactions) for base in bases]
        self.active = self.all[-1]

    def segment(self, base: int, is_made: bool, has_transactions: bool) -> Any:
        def write_indexes(*, closing: bool) -> list[str]:
            self.closing[base] = closing
            return [f"{base}.index"]

        transactions = [self.disk.open(f"{base}.txnindex")] if has_transactions else []
        return SimpleNamespace(
            file=self.disk.open(f"{base}.log"),
            is_made=is_made,
            write_indexes=write_indexes,
            transaction_index_files=lambda: transactions,
        )

    def from_offset(self, offset: int) -> list[Any]:
        self.asked_from.append(offset)
        return self.all


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


def test_a_flush_syncs_the_segments_from_the_recovery_point_on_with_what_lies_beside_them() -> None:
    disk = Disk()
    log = durability(disk, files_to_sync=["a.snapshot", "gone.snapshot"])
    disk.missing = {"gone.snapshot"}
    segments = Segments(disk, 0, 10, 20, not_made=(10,), with_transactions=0)
    known = metadata(is_unsynced=True)
    flush = log.prepare(25, cast(Any, segments), epochs(), known)
    assert log.flush_in_progress
    assert (flush.offset, segments.asked_from) == (25, [10])
    assert segments.closing == {0: True, 20: False}
    assert not known.is_unsynced
    flush.sync()
    synced = ["0.log", "0.txnindex", "20.log", "a.snapshot", "0.index", "20.index", f"{PATH}/partition.metadata"]
    assert disk.done == [*(f"sync {name}" for name in synced), "ensure name"]
    log.complete(flush, NOW_MS + 5)
    assert (log.flush_in_progress, log.recovery_point, log.last_flush_ms, log.files) == (False, 25, NOW_MS + 5, [])


def test_a_flush_writes_the_epochs_and_syncs_the_directory_once() -> None:
    disk = Disk()
    log = durability(disk, epochs_on_disk=False, directory_changed=True)
    for done in (
        [f"write {PATH}/leader-epoch-checkpoint {ONE_EPOCH!r} True"],
        [],
    ):
        flush = log.prepare(20, cast(Any, Segments(disk, 20, not_made=(20,))), epochs((3, 12)), metadata())
        flush.sync()
        log.complete(flush, NOW_MS)
        assert disk.done == [*done, "ensure name"]
        disk.done.clear()
    log.directory_changed = True
    log.prepare(20, cast(Any, Segments(disk, 20, not_made=(20,))), epochs((3, 12)), metadata()).sync()
    assert disk.done == [f"sync directory {PATH}", "ensure name"]
    assert not log.directory_changed


def test_a_topic_id_is_made_durable_alone() -> None:
    disk = Disk()
    log = durability(disk, directory_changed=True, unsynced_cut=4, epochs_on_disk=False)
    known = metadata(is_unsynced=True)
    flush = log.prepare_for(known)
    assert (log.flush_in_progress, log.directory_changed, known.is_unsynced) == (True, False, False)
    flush.sync()
    assert disk.done == [f"sync {PATH}/partition.metadata", f"sync directory {PATH}", "ensure name"]
    log.complete(flush, NOW_MS + 5)
    assert (log.flush_in_progress, log.recovery_point, log.last_flush_ms) == (False, 10, NOW_MS)
    assert log.claimable(9) == 4, "what was cut off may be back all the same"
    assert log.epochs_changed


def test_a_flush_that_failed_makes_nothing_durable() -> None:
    log = durability()
    log.prepare(25, cast(Any, Segments(Disk(), 20)), epochs(), metadata())
    log.fail()
    assert (log.flush_in_progress, log.recovery_point, log.last_flush_ms) == (False, 10, NOW_MS)


def flushed(log: Durability, offset: int) -> None:
    flush = log.prepare(offset, cast(Any, Segments(Disk(), 20)), epochs(), metadata())
    log.complete(flush, NOW_MS)


def test_a_truncation_bounds_what_the_flush_under_way_makes_durable() -> None:
    """KAFKA-10101: a recovery point above the log's end, or above what was synced, hides what is to be recovered."""
    disk = Disk()
    log = durability(disk)
    flush = log.prepare(25, cast(Any, Segments(Disk(), 20)), epochs(), metadata())
    for offset in (18, 15, 16):
        log.note_cut(offset)
        log.end_at(offset)
    assert disk.done == ["note"] * 6, "flushes have to look at the log again"
    log.complete(flush, NOW_MS)
    assert log.recovery_point == 15
    assert log.claimable(20) == 15
    flushed(log, 25)
    assert (log.recovery_point, log.claimable(20)) == (25, 20)


def test_a_truncation_below_the_recovery_point_takes_it_back() -> None:
    log = durability()
    log.end_at(12)
    assert log.recovery_point == 10
    log.end_at(8)
    assert log.recovery_point == 8
    flushed(log, 9)
    assert log.recovery_point == 9


def test_a_recovery_point_does_not_go_back_with_a_flush() -> None:
    log = durability()
    flushed(log, 4)
    assert log.recovery_point == 10


@pytest.mark.parametrize(
    ("cuts", "claimable"), [((), 20), ((30,), 20), ((20,), 20), ((19,), 19), ((15, 18), 15), ((18, 15), 15), ((0,), 0)]
)
def test_no_more_is_claimed_than_was_there_before_the_first_cut_that_is_not_synced(
    cuts: tuple[int, ...], claimable: int
) -> None:
    log = durability()
    for cut in cuts:
        log.note_cut(cut)
    assert log.claimable(20) == claimable
    flushed(log, 25)
    assert log.claimable(20) == 20
    assert durability(unsynced_cut=7).claimable(20) == 7, "recovery has cut it"


def test_epochs_are_durable_up_to_the_recovery_point_until_a_flush_has_written_them() -> None:
    """What says otherwise lets compaction take the records that alone tell where an epoch began."""
    log = durability()
    assert log.epochs_durable_to == UNBOUNDED
    log.epochs_changed = True
    assert log.epochs_durable_to == 10
    flush = log.prepare(25, cast(Any, Segments(Disk(), 20)), epochs(), metadata())
    assert (log.epochs_changed, log.epochs_durable_to) == (False, 10)
    log.complete(flush, NOW_MS)
    assert log.epochs_durable_to == UNBOUNDED
    assert durability(epochs_on_disk=False).epochs_durable_to == 10


@pytest.mark.parametrize(
    ("end", "active_base", "settings", "after_ms", "is_due"),
    [
        (10, 0, {}, 0, False),
        (9, 99, {"flush_messages": 1, "flush_ms": 1}, 99, False),
        (10, 99, {"flush_messages": 1, "flush_ms": 1}, 99, False),
        (11, 0, {}, 1 << 50, False),
        (11, 10, {}, 0, False),
        (12, 11, {}, 0, True),
        (11, 0, {"flush_messages": 1}, 0, True),
        (12, 0, {"flush_messages": 3}, 0, False),
        (13, 0, {"flush_messages": 3}, 0, True),
        (11, 0, {"flush_ms": 50}, 49, False),
        (11, 0, {"flush_ms": 50}, 50, True),
        (11, 0, {"flush_ms": 50}, -1, True),
        (11, 0, {"flush_ms": 1}, 0, False),
        (11, 0, {"flush_ms": NEVER_MS}, -1, False),
    ],
)
def test_a_flush_is_due_for_a_rolled_segment_or_when_the_settings_ask_for_one(
    end: int, active_base: int, settings: dict[str, Any], after_ms: int, is_due: bool
) -> None:
    log = durability()
    config = LogConfig(**settings)
    assert log.is_flush_due(end, active_base, config, NOW_MS + after_ms) is is_due
    log.flush_in_progress = True
    assert not log.is_flush_due(end, active_base, config, NOW_MS + after_ms), "one worker at a time"
    log.note_cut(0)
    assert not log.is_flush_due(end, active_base, config, NOW_MS + after_ms)
    log.flush_in_progress = False
    assert log.is_flush_due(end, active_base, config, NOW_MS + after_ms), "a truncation is to be synced soon"


def test_nothing_is_to_be_synced_where_all_is_durable() -> None:
    assert durability().has_nothing_to_sync(10, metadata())
    assert durability().has_nothing_to_sync(9, metadata())
    assert not durability().has_nothing_to_sync(11, metadata())
    assert not durability(unsynced_cut=0).has_nothing_to_sync(10, metadata())
    assert not durability(files_to_sync=["a.snapshot"]).has_nothing_to_sync(10, metadata())
    assert not durability(directory_changed=True).has_nothing_to_sync(10, metadata())
    assert not durability().has_nothing_to_sync(10, metadata(is_unsynced=True))
    assert durability().has_nothing_to_sync(0, metadata(is_unsynced=True)), "without records nobody misses a topic id"


@pytest.mark.parametrize("durable", [False, True])
def test_epochs_are_written_where_no_record_is_new(durable: bool) -> None:
    disk = Disk()
    log = durability(disk, epochs_on_disk=False)
    log.write_epochs(epochs((3, 12)), durable=durable)
    assert disk.done == [f"write {PATH}/leader-epoch-checkpoint {ONE_EPOCH!r} {durable}"]
    assert not log.epochs_changed
