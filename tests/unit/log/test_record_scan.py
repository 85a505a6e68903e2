"""Batches read out of a file window by window: what is found, what is read for it, and where a scan ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kavka.errors import CorruptRecords, ErrorCode, RecordsError
from kavka.log.record_scan import (
    BATCH_WINDOW_BYTES,
    HEADER_WINDOW_BYTES,
    has_no_record,
    header_at,
    scan_batches,
    scan_headers,
)
from kavka.model import FileSlice
from kavka.records.batch import HEADER_SIZE, batch_at
from kavka.records.builder import seal
from tests.unit.log.log_support import batch


class Data:
    """A file, and what was read of it: (position, length)."""

    path = "00000000000000000000.log"

    def __init__(self, *parts: bytes | bytearray) -> None:
        self.content = b"".join(parts)
        self.reads: list[tuple[int, int]] = []

    def fileno(self) -> int:
        raise AssertionError("nothing is sent")

    def size(self) -> int:
        return len(self.content)

    def read_at(self, position: int, length: int) -> bytes:
        assert length > 0
        self.reads.append((position, length))
        return self.content[position : position + length]


def sized(base_offset: int, size: int) -> bytes:
    """A batch of so many bytes."""
    for value in range(max(size - 80, 0), size):
        built = bytes(batch([b"v" * value], base_offset=base_offset))
        if len(built) == size:
            return built
    raise AssertionError(f"no batch has {size} bytes")


def headers(file: Data, position: int = 0, end: int | None = None, **window: int) -> list[tuple[int, int]]:
    """Positions and base offsets."""
    end = len(file.content) if end is None else end
    return [(found, header.base_offset) for found, header in scan_headers(file, position, end, **window)]


def batches(file: Data, position: int = 0, end: int | None = None) -> list[tuple[int, bytes]]:
    end = len(file.content) if end is None else end
    return [(found, bytes(one.view)) for found, one in scan_batches(file, position, end)]


THREE = (sized(0, 100), sized(1, 200), sized(2, 100))


def test_headers_are_found_from_where_a_batch_starts_to_the_end() -> None:
    assert headers(Data(*THREE)) == [(0, 0), (100, 1), (300, 2)]
    assert headers(Data(*THREE), 100) == [(100, 1), (300, 2)]
    assert headers(Data(*THREE), 100, 300) == [(100, 1)]
    assert headers(Data(*THREE), 400) == []
    assert headers(Data(*THREE), 500, 400) == []
    assert headers(Data()) == []


def test_headers_are_read_by_windows_and_of_a_large_batch_nothing_else() -> None:
    file = Data(*THREE)
    headers(file)
    assert file.reads == [(0, 400)], "no more than there is"
    file.reads.clear()
    assert headers(file, window_bytes=HEADER_SIZE) == [(0, 0), (100, 1), (300, 2)]
    assert file.reads == [(0, 61), (100, 61), (300, 61)]
    file.reads.clear()
    assert headers(file, window_bytes=160) == [(0, 0), (100, 1), (300, 2)]
    assert file.reads == [(0, 160), (100, 160), (300, 100)], "of the second header one byte is missing"
    file.reads.clear()
    assert headers(file, window_bytes=161) == [(0, 0), (100, 1), (300, 2)]
    assert file.reads == [(0, 161), (300, 100)]
    large = Data(sized(0, 100_000), sized(1, 100), sized(2, 100))
    assert headers(large) == [(0, 0), (100_000, 1), (100_100, 2)]
    assert large.reads == [(0, HEADER_WINDOW_BYTES), (100_000, 200)]


def test_a_window_that_begins_in_the_middle_is_looked_into_from_there() -> None:
    file = Data(*THREE, sized(3, 100))
    assert headers(file, 100, window_bytes=300) == [(100, 1), (300, 2), (400, 3)]
    assert file.reads == [(100, 300), (400, 100)]


def complaint(file: Data, position: int = 0, end: int | None = None) -> tuple[list[int], str]:
    """The batches before the damage, and what is said of it."""
    return until_damage(scan_headers(file, position, len(file.content) if end is None else end))


def until_damage(scan: Iterator[tuple[int, object]]) -> tuple[list[int], str]:
    found: list[int] = []
    with pytest.raises(CorruptRecords) as raised:
        found.extend(position for position, _ in scan)
    return found, raised.value.message


def test_a_scan_of_headers_ends_at_damage() -> None:
    assert complaint(Data(*THREE, bytes(60))) == ([0, 100, 300], "60 bytes at position 400 are not a batch header")
    assert complaint(Data(*THREE), 0, 399) == ([0, 100], "the batch at position 300 ends at 400, behind 399")
    assert complaint(Data(*THREE), 0, 360) == ([0, 100], "60 bytes at position 300 are not a batch header")
    assert complaint(Data(*THREE), 0, 361) == ([0, 100], "the batch at position 300 ends at 400, behind 361")
    other_magic = bytearray(THREE[0])
    other_magic[16] = 3
    assert complaint(Data(THREE[1], other_magic)) == ([0], "no batch at position 200: magic 3, batch length 88")
    for length, message in (
        (48, "no batch at position 200: magic 2, batch length 48"),
        (0, "no batch at position 200: magic 2, batch length 0"),
        (-5, "no batch at position 200: magic 2, batch length -5"),
    ):
        wrong = bytearray(THREE[0])
        wrong[8:12] = length.to_bytes(4, "big", signed=True)
        assert complaint(Data(THREE[1], wrong)) == ([0], message)


def empty(base_offset: int) -> bytes:
    whole = batch_at(memoryview(batch(1, base_offset=base_offset)))
    assert whole is not None
    return seal(whole.header._replace(record_count=0), b"")


def test_a_batch_without_records_is_one() -> None:
    assert len(empty(0)) == HEADER_SIZE
    assert headers(Data(empty(0), empty(1), THREE[2])) == [(0, 0), (61, 1), (122, 2)]
    assert batches(Data(empty(0), empty(1))) == [(0, empty(0)), (61, empty(1))]


def test_one_header_is_read_alone() -> None:
    file = Data(*THREE)
    assert header_at(file, 100, 400).base_offset == 1
    assert file.reads == [(100, 61)]
    with pytest.raises(CorruptRecords, match="no batch at position 400: the segment ends at 400"):
        header_at(file, 400, 400)


# -- whole batches


def test_batches_are_found_whole_and_read_by_windows() -> None:
    file = Data(*THREE)
    assert batches(file) == [(0, THREE[0]), (100, THREE[1]), (300, THREE[2])]
    assert [length for _, length in file.reads if length > 12] == [400]
    assert batches(file, 100) == [(100, THREE[1]), (300, THREE[2])]
    assert batches(file, 100, 300) == [(100, THREE[1])]
    assert batches(file, 400) == batches(file, 500, 400) == batches(Data()) == []


def test_a_batch_over_the_end_of_a_window_is_read_with_the_next_one() -> None:
    first, second = sized(0, BATCH_WINDOW_BYTES - 100), sized(1, 101)
    file = Data(first, second, THREE[2])
    assert batches(file) == [(0, first), (len(first), second), (len(first) + 101, THREE[2])]
    assert file.reads == [(0, 12), (0, BATCH_WINDOW_BYTES), (len(first), 12), (len(first), 201)]


@pytest.mark.parametrize("beyond", [0, 1, 5000])
def test_a_batch_that_is_larger_than_a_window_is_read_at_once(beyond: int) -> None:
    large = sized(0, BATCH_WINDOW_BYTES + beyond)
    file = Data(large, THREE[1])
    assert batches(file) == [(0, large), (len(large), THREE[1])]
    assert file.reads[1] == (0, len(large))


def test_a_scan_of_batches_ends_at_damage() -> None:
    def complaint(file: Data, end: int | None = None) -> tuple[list[int], str]:
        return until_damage(scan_batches(file, 0, len(file.content) if end is None else end))

    assert complaint(Data(*THREE), 399) == ([0, 100], "the batch at position 300 is longer than the file, 88 bytes")
    assert complaint(Data(*THREE), 361) == ([0, 100], "the batch at position 300 is longer than the file, 88 bytes")
    assert complaint(Data(*THREE), 360) == ([0, 100], "60 bytes at position 300 are not a complete batch")
    cut_off = Data(*THREE)
    cut_off.content = cut_off.content[:350]
    assert complaint(cut_off, 400) == ([0, 100], "50 bytes at position 300 are not a complete batch")
    of_16_mib = bytearray(THREE[0])
    of_16_mib[8] = 1
    message = "the batch at position 200 is longer than the file, 16777304 bytes"
    assert complaint(Data(THREE[1], of_16_mib)) == ([0], message)
    negative = bytearray(THREE[0])
    negative[8:12] = b"\xff" * 4
    assert complaint(Data(negative)) == ([], "batch length -1 at byte 0 is less than the minimum 14")
    legacy = bytearray(THREE[0])
    legacy[16] = 1
    with pytest.raises(RecordsError) as refused:
        batches(Data(legacy))
    assert refused.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_what_is_sent_may_have_no_record_at_all() -> None:
    file = Data(empty(0), empty(1), THREE[2], empty(3), b"\x00" * 70)
    slices = {
        (0, 122): True,
        (61, 61): True,
        (0, 222): False,
        (122, 100): False,
        (222, 61): True,
        (222, 62): False,
        (222, 131): False,
        (0, 60): False,
    }
    for (position, length), expected in slices.items():
        assert has_no_record([FileSlice(file, position, length)]) is expected, (position, length)
    assert has_no_record([FileSlice(file, 0, 122), FileSlice(file, 222, 61)])
    assert not has_no_record([FileSlice(file, 0, 122), FileSlice(file, 122, 161)])
    assert has_no_record([])
