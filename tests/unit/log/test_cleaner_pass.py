"""One compaction of one log in steps: how much each moves, what is written, and what is durable at the end."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.log.cleaner_pass import CleaningPass, Source, remove_files
from kavka.log.decide.compaction import Retention
from kavka.log.decide.indexes import MAX_SEGMENT_BYTES, AbortedTransaction
from kavka.log.decide.offset_map import ENTRY_BYTES, OffsetMap
from kavka.records.batch import RecordBatch, iterate_batches
from kavka.records.control import ControlType
from tests.unit.log.log_support import NOW_MS, batch, marker

SLICE = 65536
RETENTION = Retention(NOW_MS, 1000, {})
INTERVAL = 4096


class Data:
    """A file in memory."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read_at(self, position: int, length: int) -> bytes:
        return self.content[position : position + length]


def source(*batches: bytes, position: int = 0, behind: bytes = b"", aborted: Sequence[Any] = ()) -> Source:
    content = b"".join(batches)
    return Source(cast(Any, Data(content + behind)), position, len(content), aborted)


def of_a_kib(offset: int, key: bytes = b"k", size: int = 1024) -> bytes:
    """A batch of so many bytes."""
    for value in range(size - 80, size):
        built = bytes(batch([b"v" * value], base_offset=offset, key=key))
        if len(built) == size:
            return built
    raise AssertionError(f"no batch has {size} bytes")


class Target:
    """A new segment, that notes in order what is done with it."""

    def __init__(self, base_offset: int = 0, size: int = 0) -> None:
        self.base_offset, self.size = base_offset, size
        self.done: list[str] = []
        self.written: list[list[int]] = []
        self.data = b""
        self.aborted: list[AbortedTransaction] = []
        self.file = self.opened("log")
        self.directory = SimpleNamespace(path="/logs/orders-0", filesystem=self)

    def opened(self, name: str) -> Any:
        return SimpleNamespace(sync=lambda: self.done.append(f"sync {name}"))

    def open(self, path: str) -> Any:
        return self.opened(path)

    def sync_directory(self, path: str) -> None:
        self.done.append(f"sync directory {path}")

    def append_many(
        self, data: bytes, batches: Sequence[RecordBatch], first: int, end: int, index_interval_bytes: int
    ) -> None:
        assert (first, end, index_interval_bytes) == (0, len(batches), INTERVAL)
        self.written.append([each.header.base_offset for each in batches])
        self.data += data
        self.size += len(data)

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        self.aborted.append(transaction)

    def write_indexes(self, *, closing: bool) -> list[str]:
        assert closing
        self.done.append("write indexes")
        return ["index", "timeindex"]

    def transaction_index_files(self) -> list[Any]:
        return [self.opened("txnindex")]


def new_pass(first_dirty: int = 0, *, room: int = 1000) -> CleaningPass:
    return CleaningPass(first_dirty, OffsetMap(ENTRY_BYTES * room))


def clean(made: CleaningPass, target: Target, *sources: Source) -> list[int]:
    return list(made.clean(list(sources), cast(Any, target), RETENTION, INTERVAL))


def test_a_step_of_the_first_part_reads_about_a_slice() -> None:
    made = new_pass()
    batches = [of_a_kib(offset) for offset in range(64 + 64 + 3)]
    assert list(made.index(source(*batches), 200)) == [SLICE, SLICE, 3 * 1024]
    assert (made.stats.bytes_read, made.stats.keys, made.is_full) == (131 * 1024, 1, False)
    assert made.end_offset == 200, "the next segment begins there"
    assert list(made.index(source(*(of_a_kib(200 + number, b"other") for number in range(64))), 264)) == [SLICE, 0]
    assert (made.stats.bytes_read, made.stats.keys) == (195 * 1024, 2)
    large = of_a_kib(264, size=3 * SLICE)
    assert list(made.index(source(large, of_a_kib(265)), 266)) == [3 * SLICE, 1024]
    nearly = of_a_kib(266, size=SLICE - 1)
    assert list(made.index(source(nearly, of_a_kib(267), of_a_kib(268)), 269)) == [SLICE + 1023, 1024]


def test_a_segment_is_read_from_the_first_dirty_batch_to_its_end() -> None:
    made = new_pass(1)
    found = source(of_a_kib(0, b"a"), of_a_kib(1, b"b"), of_a_kib(2, b"c"), position=1024, behind=of_a_kib(3, b"d"))
    assert list(made.index(found, 3)) == [2048]
    assert made.stats.keys == 2
    assert made.end_offset == 3


def test_a_pass_ends_where_the_map_is_full() -> None:
    made = new_pass(room=2)
    assert not made.is_full
    found = source(of_a_kib(0, b"a"), of_a_kib(1, b"b"), of_a_kib(2, b"a"), of_a_kib(3, b"c"), of_a_kib(4, b"a"))
    assert list(made.index(found, 99)) == [3 * 1024]
    assert made.is_full
    assert (made.end_offset, made.stats.keys, made.stats.bytes_read) == (3, 2, 3 * 1024)


def test_what_stays_is_written_slice_by_slice() -> None:
    first = [of_a_kib(offset, b"%03d" % (offset % 100)) for offset in range(64 + 64 + 2)]
    second = [of_a_kib(130, b"last")]
    made = new_pass()
    list(made.index(source(*first), 130))
    list(made.index(source(*second), 131))
    target = Target()
    steps = clean(made, target, source(*first), source(*second))
    # Of the keys 000 to 029 the record of the second round stays.
    assert target.written == [list(range(30, 64)), list(range(64, 128)), [128, 129], [130]]
    assert steps == [SLICE + 34 * 1024, SLICE + 64 * 1024, 2 * 1024 + 2 * 1024, 2 * 1024, 0]
    assert target.data == b"".join((*first[30:], *second))
    assert made.stats.bytes_written == 101 * 1024
    assert made.stats.bytes_read == 2 * 131 * 1024
    assert (made.stats.records_read, made.stats.records_kept) == (131, 101)


def test_a_slice_of_which_nothing_stays_writes_nothing() -> None:
    batches = [of_a_kib(offset) for offset in range(66)]
    made = new_pass()
    list(made.index(source(*batches), 66))
    target = Target()
    assert clean(made, target, source(*batches)) == [SLICE, 2 * 1024 + 1024, 0]
    assert target.written == [[65]]


def test_a_new_segment_is_durable_with_its_indexes_when_a_pass_over_it_ends() -> None:
    target = Target()
    list(new_pass().clean([source(of_a_kib(0))], cast(Any, target), RETENTION, INTERVAL))
    synced = [f"sync {name}" for name in ("log", "index", "timeindex", "txnindex")]
    assert target.done == ["write indexes", *synced, "sync directory /logs/orders-0"]


def test_an_aborted_transaction_is_noted_where_its_marker_stays() -> None:
    def transaction(offset: int, producer: int) -> list[bytes]:
        data = bytes(batch(1, producer_id=producer, base_offset=offset, transactional=True, key=b"t"))
        ended = marker(ControlType.ABORT, producer_id=producer)
        ended[:8] = (offset + 1).to_bytes(8, "big")
        return [data, bytes(ended)]

    first, second = AbortedTransaction(7, 0, 1, 0), AbortedTransaction(8, 2, 3, 2)
    sources = [
        source(*transaction(0, 7), aborted=[first]),
        source(*transaction(2, 8), bytes(batch(1, base_offset=4, key=b"u")), aborted=[second]),
    ]
    made = new_pass()
    for found, next_base in zip(sources, (2, 5), strict=True):
        list(made.index(found, next_base))
    assert made.stats.keys == 1, "what was aborted has no keys"
    target = Target()
    clean(made, target, *sources)
    assert target.aborted == [first, second]
    assert target.written == [[1], [3, 4]]
    assert [each.header.base_offset for each in iterate_batches(memoryview(target.data))] == [1, 3, 4]


@pytest.mark.parametrize("room", [2048, 2047])
def test_no_segment_is_written_beyond_what_one_can_have(room: int) -> None:
    batches = [of_a_kib(0, b"a"), of_a_kib(1, b"b")]
    target = Target(77, MAX_SEGMENT_BYTES - room)
    if room == 2048:
        clean(new_pass(), target, source(*batches))
        assert target.size == MAX_SEGMENT_BYTES
        return
    with pytest.raises(RecordsError, match="more than 2147483647 bytes would stay for the segment at 77") as refused:
        clean(new_pass(), target, source(*batches))
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert target.written == []


def test_all_files_of_a_segment_are_removed_that_are_there() -> None:
    removed: list[str] = []

    def remove(path: str) -> None:
        if path == "index":
            raise FileNotFoundError(path)
        removed.append(path)

    segment = SimpleNamespace(all_paths=lambda: ["log", "index", "timeindex", "txnindex"])
    remove_files(cast(Any, SimpleNamespace(remove=remove)), cast(Any, segment))
    assert removed == ["log", "timeindex", "txnindex"]
