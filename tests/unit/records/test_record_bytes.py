"""The bytes of records beside a plain reader of them, written from Kafka's protocol guide.

What the quick readers say of records of every width, of each byte replaced by each other one, and of each beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeVar

import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.records.record import (
    Header,
    Record,
    add_timestamps,
    encode_record,
    encode_varint,
    iterate_records,
    read_varint,
    varint,
    walk_records,
)
from kavka.records.survey import RecordsSurvey, survey

T = TypeVar("T")
BASE_OFFSET, BASE_TIMESTAMP = 1_000, 1_700_000_000_000
EDGES = (0, 1, 63, 64, 127, 128, 8_191, 8_192, 1 << 20, (1 << 20) - 1)
"""Where a zigzag varint gets a byte more, and beside that."""
LAST = (1 << 31) - 1
INTS = (*EDGES, 1 << 27, LAST, *(-edge for edge in EDGES[1:]), -(1 << 27), -LAST - 1)
LONGS = (*INTS, 1 << 34, 1 << 41, 1 << 48, 1 << 55, (1 << 63) - 1, -(1 << 41), -(1 << 63))


# -- the plain reader


class Malformed(Exception):
    """The record is none."""


class Plain:
    """Reads fields one after the other."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data, self.position = data, position

    def byte(self) -> int:
        if self.position >= len(self.data):
            raise Malformed
        self.position += 1
        return self.data[self.position - 1]

    def varint(self, bits: int) -> int:
        """Java reads into `bits` bits: what is above them is lost, and more bytes than they need are refused."""
        total = 0
        for number in range((bits + 6) // 7):
            byte = self.byte()
            total |= (byte & 0x7F) << 7 * number
            if byte < 0x80:
                total %= 1 << bits
                return -(total + 1) // 2 if total % 2 else total // 2
        raise Malformed

    def bytes_(self, size: int, end: int) -> bytes:
        if size > end - self.position:
            raise Malformed
        self.position += size
        return self.data[self.position - size : self.position]

    def nullable(self, end: int) -> bytes | None:
        size = self.varint(32)
        return None if size < 0 else self.bytes_(size, end)

    def headers(self, end: int) -> Iterator[Header]:
        count = self.varint(32)
        if count < 0 or count > (end - self.position) // 2:
            raise Malformed
        for _ in range(count):
            size = self.varint(32)
            if size < 0:
                raise Malformed
            yield self.bytes_(size, end).decode("utf-8", "replace"), self.nullable(end)

    def record(self) -> tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]:
        """(offset delta, timestamp delta, key, value, headers)."""
        length = self.varint(32)
        end = self.position + length
        if length < 0 or end > len(self.data):
            raise Malformed
        self.byte()
        timestamp, offset = self.varint(64), self.varint(32)
        key, value, headers = self.nullable(end), self.nullable(end), tuple(self.headers(end))
        if self.position != end:
            raise Malformed
        return offset, timestamp, key, value, headers


def read_plainly(data: bytes, count: int) -> list[Record] | None:
    """None: they are malformed."""
    plain, found = Plain(data), []
    try:
        for _ in range(count):
            offset, timestamp, key, value, headers = plain.record()
            at = (BASE_TIMESTAMP + timestamp + (1 << 63)) % (1 << 64) - (1 << 63)
            found.append(Record(BASE_OFFSET + offset, at, key, value, headers))
    except Malformed:
        return None
    return found if plain.position == len(data) else None


# -- the quick ones


def refused(records: Iterator[T]) -> tuple[ErrorCode | None, list[T]]:
    """With what they are refused, or all of them."""
    try:
        return None, list(records)
    except RecordsError as error:
        return error.code, []


def read(data: bytes, count: int) -> list[Record] | None:
    """As `iterate_records`, `walk_records` and `survey` say it, which must agree."""
    refusal, found = refused(iterate_records(data, count, base_offset=BASE_OFFSET, base_timestamp=BASE_TIMESTAMP))
    if refusal is not None:
        assert refusal is ErrorCode.INVALID_RECORD is refused(walk_records(data, count))[0]
        assert refusal is refused(survey(data, count) for _ in range(1))[0]
        return None
    for record, (offset, timestamp, has_key) in zip(found, walk_records(data, count), strict=True):
        assert record.offset == BASE_OFFSET + offset
        assert (record.timestamp - BASE_TIMESTAMP - timestamp) % (1 << 64) == 0
        assert has_key is (record.key is not None)
    if found:
        deltas = [timestamp for _, timestamp, _ in walk_records(data, count)]
        assert survey(data, count) == RecordsSurvey(
            min(deltas),
            max(deltas),
            all(record.key is not None for record in found),
            [record.offset - BASE_OFFSET for record in found] == list(range(count)),
        )
    return found


def zigzag(value: int, *, width: int = 1, bits: int = 32) -> bytes:
    """Of at least so many bytes."""
    left = (value << 1 ^ value >> bits - 1) % (1 << bits)
    out: list[int] = []
    while left or len(out) < width:
        out.append(left % 128)
        left //= 128
    return bytes([*(byte + 128 for byte in out[:-1]), out[-1]])


def field(content: bytes | None, *, width: int = 1) -> bytes:
    return zigzag(-1, width=width) if content is None else zigzag(len(content), width=width) + content


def raw(
    offset: int = 0,
    timestamp: int = 0,
    key: bytes | None = None,
    value: bytes | None = None,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    *,
    width: int = 1,
) -> bytes:
    """A record's bytes, each varint of at least `width` bytes."""
    parts = [
        b"\0",
        zigzag(timestamp, width=width, bits=64),
        zigzag(offset, width=width),
        field(key, width=width),
        field(value, width=width),
        zigzag(len(headers), width=width),
        *(field(name, width=width) + field(content, width=width) for name, content in headers),
    ]
    body = b"".join(parts)
    return zigzag(len(body), width=width) + body


SMALL = (
    raw(),
    raw(1, -1, b"k", b"v"),
    raw(2, 70, b"", b"", [(b"h", b"x"), (b"", None)]),
    raw(3, 1 << 40, None, b"v" * 70, [(b"name", b"")]),
    raw(200, 0, b"k" * 65, None),
    raw(1, 1, b"k", b"v", [(b"h", b"x")], width=2),
    raw(1, 1, b"k", b"v", [(b"h", b"x")], width=3),
    raw(1, 1, b"k", b"v", width=5),
    raw(1, -(1 << 63), None, b""),
)


@pytest.mark.parametrize("size", EDGES)
def test_keys_values_and_headers_of_every_width_are_read(size: int) -> None:
    content = b"a" * size
    for key, value in product((None, b"", content), repeat=2):
        data = raw(1, 2, key, value, [(b"h", content), (content, None)]) + raw()
        expected = [
            Record(BASE_OFFSET + 1, BASE_TIMESTAMP + 2, key, value, (("h", content), (content.decode(), None))),
            Record(BASE_OFFSET, BASE_TIMESTAMP, None, None),
        ]
        assert read(data, 2) == expected == read_plainly(data, 2)


@pytest.mark.parametrize("width", range(1, 6))
def test_deltas_of_every_width_are_read_also_where_they_are_longer_than_they_need_be(width: int) -> None:
    for offset in INTS:
        data = raw(offset, 0, b"k", width=width)
        assert read(data, 1) == [Record(BASE_OFFSET + offset, BASE_TIMESTAMP, b"k", None)]
    for timestamp in LONGS:
        data = raw(0, timestamp, b"k", width=width)
        assert read(data, 1) == read_plainly(data, 1)
        (record,) = read(data, 1) or [Record(0, 0, None, None)]
        assert (record.timestamp - BASE_TIMESTAMP - timestamp) % (1 << 64) == 0


@pytest.mark.parametrize("value", LONGS)
def test_a_number_has_the_fewest_bytes_that_hold_it(value: int) -> None:
    written = zigzag(value, bits=64)
    assert encode_varint(value) == written
    assert varint(value) == written
    assert read_varint(written, 0, bits=64) == (value, len(written))


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(
    ("base", "delta", "timestamp"),
    [
        ((1 << 63) - 1, 1, -(1 << 63)),
        ((1 << 63) - 2, 1, (1 << 63) - 1),
        (-(1 << 63), -1, (1 << 63) - 1),
        (-(1 << 63) + 1, -1, -(1 << 63)),
        ((1 << 62), 63, (1 << 62) + 63),
        (-(1 << 62), -64, -(1 << 62) - 64),
        (-1, 1, 0),
    ],
)
def test_behind_the_last_timestamp_comes_the_first_one(base: int, delta: int, timestamp: int, width: int) -> None:
    """As Java's longs."""
    data = raw(0, delta, width=width)
    (record,) = iterate_records(data, 1, base_offset=0, base_timestamp=base)
    assert record.timestamp == timestamp == add_timestamps(base, delta)
    (record,) = iterate_records(data, 1, base_offset=0, base_timestamp=base, log_append_time=-5)
    assert record.timestamp == -5


def test_what_is_written_is_what_is_read() -> None:
    for offset, timestamp in product(INTS, (0, 1, -1, 1 << 40)):
        assert encode_record(offset, timestamp, b"k", None) == raw(offset, timestamp, b"k")
    for size in EDGES:
        content = b"a" * size
        written = encode_record(1, 2, content, content, [("h", content), ("a" * size, None)])
        assert written == raw(1, 2, content, content, [(b"h", content), (content, None)])


@pytest.mark.parametrize("number", range(len(SMALL)))
def test_each_byte_replaced_by_each_other_is_refused_or_read_as_it_says(number: int) -> None:
    data = SMALL[number] + SMALL[(number + 1) % 3]
    # Within a long key or value one place is like another.
    for place in (place for place in range(len(data)) if data[place - 2 : place + 3] not in (b"kkkkk", b"vvvvv")):
        for byte in range(256):
            changed = data[:place] + bytes((byte,)) + data[place + 1 :]
            assert read(changed, 2) == read_plainly(changed, 2), f"byte {place} is {byte:#x}"


def said_of(data: bytes, count: int) -> list[str]:
    """The words of each reader's refusal."""
    said = []
    for ask in (
        lambda: list(iterate_records(data, count, base_offset=0, base_timestamp=0)),
        lambda: list(walk_records(data, count)),
        lambda: survey(data, count),
    ):
        with pytest.raises(RecordsError) as refusal:
            ask()
        said.append(refusal.value.message)
    return said


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (SMALL[0], 2, "2 records cannot fit into 7 bytes"),
        (SMALL[0] + b"12345", 1, "5 bytes follow the last of the 1 records"),
        (SMALL[0] + b"\x0e" + bytes(6), 2, "record 1 of the batch: record of 7 bytes where 6 remain"),
        (SMALL[0] + b"\x0a" + bytes(6), 2, "record 1 of the batch: record of 5 bytes where 6 remain"),
        (SMALL[0] + b"\x0b" + bytes(6), 2, "record 1 of the batch: record of -6 bytes where 6 remain"),
        (b"\x0e" + bytes(6) + b"\0", 1, "record 0 of the batch: record should end at byte 8 and ends at 7"),
        (SMALL[0][:-1] + b"\x7f" * 2, 1, "record 0 of the batch: -64 headers where 0 bytes remain"),
        (b"\x0e\0\0\0\1\1\2\0", 1, "record 0 of the batch: 1 headers where 1 bytes remain"),
        (b"\x10\0\0\0\1\1\2\4\1", 1, "record 0 of the batch: header key of 2 bytes where 1 remain"),
        (b"\x10\0\0\0\1\1\2\1\1", 1, "record 0 of the batch: header key of -1 bytes where 1 remain"),
        (b"\x10\0\0\0\1\1\2\0\2", 1, "record 0 of the batch: header of 1 bytes where 0 remain"),
        (b"\x0c\0\0\0\1\2\0", 1, "record 0 of the batch: a field reaches behind the end of the records"),
        (b"\x14\0\0" + b"\xff" * 5 + b"\1\1\0", 1, "varint of more than 32 bits at byte 8"),
        (b"\x24\0" + b"\xff" * 13 + b"\1\1\1\0", 1, "varint of more than 64 bits at byte 12"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(data: bytes, count: int, message: str) -> None:
    assert said_of(data, count) == [message] * 3


@pytest.mark.parametrize("number", range(len(SMALL)))
def test_each_beginning_and_each_other_count_is_refused(number: int) -> None:
    data = SMALL[number] + SMALL[(number + 1) % 3]
    assert read(data, 2) is not None
    for end in range(len(data)):
        assert read(data[:end], 2) is None
    assert read(data + b"\0", 2) is None
    for count in (-1, 0, 1, 3):
        assert read(data, count) is None
    assert read(b"", 0) == []
