"""The copy of a log in another directory: what is copied and synced in which step, and what when it takes its place."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kavka.errors import StorageError
from kavka.log.decide.leader_epochs import EpochEntry
from kavka.log.log_move import LogMove, Progress

OLD, COPY, NEW = "/a/orders-0", "/b/orders-0.7-future", "/b/orders-0"
KIB = 1024
MIB = 1024 * KIB


class Disk:
    """Files in memory, and in order what was done with them."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.done: list[str] = []
        self.fails_at = ""

    def do(self, what: str) -> None:
        if what == self.fails_at:
            raise StorageError("/b", "input/output error")
        self.done.append(what)

    def open(self, path: str, *, create: bool = False) -> File:
        assert create
        self.files.setdefault(path, bytearray())
        return File(self, path)

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return bytes(self.files[path])

    def exists(self, path: str) -> bool:
        return path in self.files

    def list_files(self, path: str) -> list[str]:
        return sorted(name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/"))

    def remove(self, path: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(path)
        del self.files[path]
        self.do(f"remove {path}")

    def write_atomically(self, path: str, data: bytes, *, durable: bool = True) -> None:
        assert durable
        self.do(f"write {path}")
        self.files[path] = bytearray(data)

    def rename(self, source: str, target: str) -> None:
        self.do(f"rename {source} {target}")
        for path in [name for name in self.files if name.startswith(f"{source}/")]:
            self.files[target + path.removeprefix(source)] = self.files.pop(path)

    def sync_directory(self, path: str) -> None:
        self.do(f"sync directory {path}")


class File:
    def __init__(self, disk: Disk, path: str) -> None:
        self.disk, self.path = disk, path

    def size(self) -> int:
        return len(self.disk.files[self.path])

    def read_at(self, position: int, length: int) -> bytes:
        return bytes(self.disk.files[self.path][position : position + length])

    def append(self, data: bytes) -> None:
        self.disk.files[self.path] += data

    def truncate(self, size: int) -> None:
        del self.disk.files[self.path][size:]

    def sync(self) -> None:
        self.disk.do(f"sync {self.path}")


class Segment:
    def __init__(self, disk: Disk, base_offset: int, size: int, *, has_file: bool = True) -> None:
        self.base_offset, self.size = base_offset, size
        self.disk = disk
        self.file = File(disk, self.path(".log"))
        if has_file:
            # Each byte tells its place, so that a slice that is copied twice, or not at all, is seen.
            content = b"".join(number.to_bytes(4, "big") for number in range(base_offset, base_offset + size // 4 + 1))
            disk.files[self.file.path] = bytearray(content[:size] + b"behind the end")

    def path(self, suffix: str) -> str:
        return f"{OLD}/{self.base_offset:020d}{suffix}"

    def write_indexes(self, *, closing: bool) -> list[str]:
        self.disk.do(f"write indexes of {self.base_offset} {'closed' if closing else 'open'}")
        for suffix in (".index", ".timeindex"):
            self.disk.files[self.path(suffix)] = bytearray(b"%d %d" % (self.base_offset, closing))
        return []


class Log:
    def __init__(self, disk: Disk, *segments: Segment, durable_to: int = 0, end: int = 1000) -> None:
        self.directory = OLD
        self.segments = list(segments)
        self.recovery_point, self.truncations = durable_to, 0
        self.log_start_offset, self.log_end_offset = segments[0].base_offset, end
        self.epoch_entries = [EpochEntry(3, 12)]
        self.flush_in_progress = False
        self.swap = SimpleNamespace(is_under_way=False)
        self.disk = disk

    def relocate(self, path: str) -> None:
        self.disk.do(f"relocate {path}")
        self.directory = path


def moving(*sizes: int, durable_to: int = 0) -> tuple[Disk, Log, LogMove]:
    """A log with segments of these sizes at 0, 100, 200 ..., of which the last is the active one."""
    disk = Disk()
    log = Log(disk, *(Segment(disk, 100 * number, size) for number, size in enumerate(sizes)), durable_to=durable_to)
    return disk, log, LogMove(cast(Any, disk), cast(Any, log), COPY)


def steps(move: LogMove, between: Callable[[], None] = lambda: None) -> list[int]:
    """The bytes of each step until only a rest is left; `between` is called after each."""
    found = []
    while (step := move.next_slice()) is not None:
        found.append(step())
        assert len(found) < 100
        between()
    return found


def copied(disk: Disk, base_offset: int, suffix: str = ".log", *, of: str = COPY) -> bytes | None:
    path = f"{of}/{base_offset:020d}{suffix}"
    return bytes(disk.files[path]) if path in disk.files else None


def original(disk: Disk, segment: Segment) -> bytes:
    return bytes(disk.files[segment.file.path][: segment.size])


def test_a_log_is_copied_slice_by_slice_and_a_quarter_of_a_mib_left_for_the_end() -> None:
    disk, log, move = moving(2 * MIB + 5, 7, MIB + 300 * KIB)
    assert steps(move) == [MIB, MIB, 5, 7, MIB, 300 * KIB, 0]
    assert disk.done == [f"sync {COPY}/{200:020d}.log"], "what is not rolled, so that little is left to be synced"
    for segment in log.segments:
        assert copied(disk, segment.base_offset) == original(disk, segment)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (256 * KIB, []),
        (256 * KIB + 1, [256 * KIB + 1, 0]),
        (MIB + 256 * KIB, [MIB, 0]),
        (MIB + 256 * KIB + 1, [MIB, 256 * KIB + 1, 0]),
        (0, []),
    ],
)
def test_of_the_active_segment_a_rest_is_left(size: int, expected: list[int]) -> None:
    _, _, move = moving(size)
    assert steps(move) == expected


def test_little_is_copied_without_a_sync_of_its_own() -> None:
    disk, log, move = moving(300 * KIB)
    assert steps(move) == [300 * KIB, 0]
    log.segments[0].size += 100 * KIB
    disk.files[log.segments[0].file.path] += bytes(100 * KIB)
    assert steps(move) == [], "it is less than may be left"
    log.segments[0].size += 157 * KIB
    disk.files[log.segments[0].file.path] += bytes(157 * KIB)
    assert steps(move) == [257 * KIB, 0]
    assert disk.done == [f"sync {COPY}/{0:020d}.log"] * 2


@pytest.mark.parametrize(("durable_to", "with_indexes"), [(99, 0), (100, 1), (199, 1), (200, 2), (999, 2)])
def test_indexes_are_copied_when_a_flush_has_written_them_whole(durable_to: int, with_indexes: int) -> None:
    """The active segment's are not: it goes on."""
    disk, log, move = moving(8, 9, 10, durable_to=durable_to)
    for segment in log.segments:
        segment.write_indexes(closing=True)
    disk.files[log.segments[0].path(".txnindex")] = bytearray(b"aborted")
    disk.done.clear()
    assert steps(move) == [*([8, 0] if with_indexes else [8]), *([9, 0] if with_indexes == 2 else [9])]
    expected = []
    for base in (0, 100)[:with_indexes]:
        suffixes = (".index", ".timeindex", ".txnindex")[: 2 if base else 3]
        expected += [f"sync {COPY}/{base:020d}.log", *(f"write {COPY}/{base:020d}{suffix}" for suffix in suffixes)]
    assert disk.done == expected, "each after the records that it is of, and once"
    assert copied(disk, 0, ".index") == (b"0 1" if with_indexes else None)


def test_an_index_that_is_missing_keeps_no_other_from_being_copied_or_removed() -> None:
    disk, log, move = moving(8, 9, durable_to=100)
    disk.files[log.segments[0].path(".timeindex")] = bytearray(b"times")
    disk.files[log.segments[0].path(".txnindex")] = bytearray(b"aborted")
    steps(move)
    assert [copied(disk, 0, suffix) for suffix in (".index", ".timeindex", ".txnindex")] == [None, b"times", b"aborted"]
    del log.segments[0]
    steps(move)
    assert disk.list_files(COPY) == [f"{100:020d}.log"]


def test_progress_is_the_bytes_copied_and_the_offset_up_to_which_the_copy_is_whole() -> None:
    _, log, move = moving(8, MIB + 8, 300 * KIB)
    log.log_start_offset = 4
    found = [move.progress]
    steps(move, lambda: found.append(move.progress))
    assert found == [
        Progress(0, 4),
        Progress(8, 0),
        Progress(MIB + 8, 0),
        Progress(MIB + 16, 100),
        Progress(MIB + 16 + 300 * KIB, 1000),
        Progress(MIB + 16 + 300 * KIB, 1000),
    ]


def test_a_truncation_has_all_copied_anew() -> None:
    disk, log, move = moving(8, 9, 300 * KIB, durable_to=200)
    assert steps(move) == [8, 0, 9, 0, 300 * KIB, 0]
    log.truncations += 1
    del log.segments[2:]
    log.segments[1].size = 5
    disk.done.clear()
    assert steps(move) == [8, 0]
    assert [what for what in disk.done if what.startswith("remove")] == [
        f"remove {COPY}/{base:020d}.log" for base in (0, 100, 200)
    ]
    assert move.progress == Progress(8, 0)
    assert steps(move) == [], "once"


def test_segments_that_retention_took_are_removed_from_the_copy() -> None:
    disk, log, move = moving(8, 9, 300 * KIB, durable_to=200)
    for segment in log.segments:
        segment.write_indexes(closing=True)
    steps(move)
    del log.segments[0]
    disk.done.clear()
    assert steps(move) == []
    assert disk.done == [f"remove {COPY}/{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")]
    assert copied(disk, 100) is not None


def test_a_segment_that_compaction_has_put_in_the_place_of_another_is_copied_anew() -> None:
    disk, log, move = moving(800, 9, 0, durable_to=100)
    steps(move)
    log.segments[0] = Segment(disk, 0, 80)
    assert steps(move) == [80, 0]
    assert copied(disk, 0) == original(disk, log.segments[0])


def test_what_an_earlier_move_left_under_a_name_is_no_part_of_the_copy() -> None:
    disk, log, move = moving(8, 0)
    disk.files[f"{COPY}/{0:020d}.log"] = bytearray(b"something else")
    steps(move)
    assert copied(disk, 0) == original(disk, log.segments[0])


def test_a_move_can_end_when_nothing_works_on_the_log_and_a_rest_is_left() -> None:
    _, log, move = moving(8, 9)
    assert not move.can_finish
    steps(move)
    assert move.can_finish
    log.flush_in_progress = True
    assert not move.can_finish
    log.flush_in_progress, log.swap.is_under_way = False, True
    assert not move.can_finish
    log.swap.is_under_way = False
    assert move.can_finish


def test_the_copy_is_whole_and_durable_before_it_takes_the_name() -> None:
    disk, log, move = moving(8, 9, 10, durable_to=100)
    disk.files |= {
        f"{OLD}/{200:020d}.snapshot": bytearray(b"producers"),
        f"{OLD}/partition.metadata": bytearray(b"topic id"),
        f"{OLD}/leader-epoch-checkpoint": bytearray(b"older"),
        f"{OLD}/{300:020d}.index.deleted": bytearray(b"gone"),
    }
    steps(move)
    disk.done.clear()
    assert move.finish(NEW) == OLD

    def log_of(base: int, *suffixes: str) -> list[str]:
        return [f"write {COPY}/{base:020d}{suffix}" for suffix in suffixes]

    assert disk.done == [
        f"sync {COPY}/{100:020d}.log",
        "write indexes of 100 closed",
        f"sync {COPY}/{100:020d}.log",
        *log_of(100, ".index", ".timeindex"),
        f"sync {COPY}/{200:020d}.log",
        "write indexes of 200 open",
        f"sync {COPY}/{200:020d}.log",
        *log_of(200, ".index", ".timeindex", ".snapshot"),
        f"write {COPY}/partition.metadata",
        f"write {COPY}/leader-epoch-checkpoint",
        f"write {COPY}/.kavka-moved",
        f"write {OLD}/.kavka-moved",
        f"rename {COPY} {NEW}",
        f"relocate {NEW}",
        "sync directory /b",
        f"write {NEW}/.kavka-moved",
    ]
    assert disk.files[f"{OLD}/.kavka-moved"] == b"0 undecided", "alone, it may be older than the copy"
    for segment in log.segments:
        assert copied(disk, segment.base_offset, of=NEW) == original(disk, segment)
    assert copied(disk, 200, ".snapshot", of=NEW) == b"producers"
    small = {name: bytes(disk.files[f"{NEW}/{name}"]) for name in disk.list_files(NEW) if not name.startswith("0")}
    assert small == {
        ".kavka-moved": b"1",
        "leader-epoch-checkpoint": b"0\n1\n3 12\n",
        "partition.metadata": b"topic id",
    }


def test_the_rest_of_a_segment_is_copied_up_to_its_end() -> None:
    """What lies behind in the file is room that was reserved, or of an append that failed."""
    disk, log, move = moving(300 * KIB)
    content = disk.files[log.segments[0].file.path]
    del content[300 * KIB :]
    steps(move)
    content += b"rest" * 25 + b"behind the end"
    log.segments[0].size += 100
    move.finish(NEW)
    assert copied(disk, 0, of=NEW) == original(disk, log.segments[0])


def test_what_is_synced_and_has_its_indexes_is_not_copied_again() -> None:
    disk, _, move = moving(8, 300 * KIB, durable_to=100)
    steps(move)
    disk.done.clear()
    move.finish(NEW)
    assert disk.done[0] == "write indexes of 100 open"
    assert not [what for what in disk.done if f"{0:020d}" in what]


def test_a_segment_without_a_batch_has_a_file_there_if_it_has_one_here() -> None:
    for has_file in (False, True):
        disk = Disk()
        log = Log(disk, Segment(disk, 0, 8), Segment(disk, 100, 0, has_file=has_file))
        move = LogMove(cast(Any, disk), cast(Any, log), COPY)
        steps(move)
        move.finish(NEW)
        assert (copied(disk, 100, of=NEW) == b"") is has_file
        assert ("write indexes of 100 open" in disk.done) is has_file
        assert disk.done.count(f"sync {COPY}/{100:020d}.log") == has_file


def test_a_segment_without_a_file_keeps_no_later_one_from_being_copied() -> None:
    disk = Disk()
    log = Log(disk, Segment(disk, 0, 0, has_file=False), Segment(disk, 100, 8))
    move = LogMove(cast(Any, disk), cast(Any, log), COPY)
    steps(move)
    move.finish(NEW)
    assert copied(disk, 0, of=NEW) is None
    assert copied(disk, 100, of=NEW) == original(disk, log.segments[1])


@pytest.mark.parametrize(
    ("at", "directory"),
    [
        (f"write {COPY}/.kavka-moved", OLD),
        (f"write {OLD}/.kavka-moved", OLD),
        (f"rename {COPY} {NEW}", OLD),
        ("sync directory /b", NEW),
        (f"write {NEW}/.kavka-moved", NEW),
    ],
)
def test_a_log_is_where_it_was_if_that_fails_before_the_copy_has_the_name(at: str, directory: str) -> None:
    """A restart takes the copy that has the name and the mark: nothing may be written to the former one after that."""
    disk, log, move = moving(8, 9)
    steps(move)
    disk.fails_at = at
    with pytest.raises(StorageError):
        move.finish(NEW)
    assert log.directory == directory
