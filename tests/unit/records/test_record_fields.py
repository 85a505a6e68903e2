"""The fields of a record at their edges, byte for byte: lengths, deltas, keys, values, headers, and what is counted.

Each case says what the bytes mean by Kafka's DefaultRecord and ByteUtils, and each quick reader must say it.
"""

from __future__ import annotations

import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.records.record import (
    MIN_RECORD_SIZE,
    VARINTS,
    Header,
    Record,
    add_timestamps,
    encode_record,
    encode_varint,
    iterate_records,
    possible_headers,
    read_varint,
    varint,
    walk_records,
)
from kavka.records.survey import survey

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
NULL, EMPTY = b"\1", b"\0"


def sized(body: bytes, width: int = 1) -> bytes:
    """`body` behind its length, which has at least `width` bytes."""
    return padded(2 * len(body), width) + body


def padded(bits: int, width: int) -> bytes:
    """A number without its zigzag, in at least `width` bytes: those that are not needed have no bits."""
    out: list[int] = []
    while bits or len(out) < width:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*out[:-1], out[-1] & 0x7F])


def body(
    *,
    timestamp: bytes = EMPTY,
    offset: bytes = EMPTY,
    key: bytes = NULL,
    value: bytes = NULL,
    headers: bytes = EMPTY,
) -> bytes:
    return b"\0" + timestamp + offset + key + value + headers


def read(data: bytes, count: int = 1) -> list[Record]:
    """As all three readers say it; offsets and timestamps are the deltas."""
    found = list(iterate_records(data, count, base_offset=0, base_timestamp=0))
    deltas = [(record.offset, record.timestamp, record.key is not None) for record in found]
    assert list(walk_records(data, count)) == deltas
    times = [record.timestamp for record in found]
    assert survey(data, count) == (
        min(times),
        max(times),
        all(record.key is not None for record in found),
        [record.offset for record in found] == list(range(count)),
    )
    return found


def read_one(data: bytes) -> Record:
    (record,) = read(data)
    return record


def refused(data: bytes, count: int = 1) -> str:
    """The words in which all three readers refuse it."""
    said = set()
    for ask in (
        lambda: list(iterate_records(data, count, base_offset=0, base_timestamp=0)),
        lambda: list(walk_records(data, count)),
        lambda: survey(data, count),
    ):
        with pytest.raises(RecordsError) as refusal:
            ask()
        assert refusal.value.code is ErrorCode.INVALID_RECORD
        said.add(refusal.value.message)
    (words,) = said
    return words


# -- numbers


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8_191, "fe7f"),
        (-8_192, "ff7f"),
        (8_192, "808001"),
        (1_048_575, "feff7f"),
        (1_048_576, "80808001"),
        (134_217_728, "8080808001"),
        (INT_MAX, "feffffff0f"),
        (INT_MIN, "ffffffff0f"),
    ],
)
def test_a_number_is_written_in_zigzag_the_low_seven_bits_first(value: int, written: str) -> None:
    data = bytes.fromhex(written)
    assert encode_varint(value) == varint(value) == data
    assert read_varint(data, 0) == read_varint(data, 0, bits=64) == (value, len(data))
    assert read_varint(b"??" + data + b"?", 2) == (value, 2 + len(data))


def test_the_table_of_small_numbers_has_0_to_8191() -> None:
    assert tuple(encode_varint(value) for value in range(8_192)) == VARINTS
    assert [varint(value) for value in (0, 8_191, 8_192)] == [b"\0", b"\xfe\x7f", b"\x80\x80\x01"]


@pytest.mark.parametrize(
    ("written", "bits", "value"),
    [
        ("8000", 32, 0),
        ("8100", 32, -1),
        ("8080808000", 32, 0),
        ("8080808010", 32, 0),
        ("8280808070", 32, 1),
        ("fffffffF7f", 32, INT_MIN),
        ("80808080808080808000", 64, 0),
        ("80808080808080808002", 64, 0),
        ("8280808080808080807e", 64, 1),
        ("feffffffffffffffff01", 64, LONG_MAX),
        ("ffffffffffffffffff01", 64, LONG_MIN),
        ("ffffffffffffffffff7f", 64, LONG_MIN),
    ],
)
def test_of_the_last_byte_that_fits_the_bits_above_are_lost(written: str, bits: int, value: int) -> None:
    """Java shifts them out of its int or long."""
    data = bytes.fromhex(written)
    assert read_varint(data, 0, bits=bits) == (value, len(data))
    offset, timestamp = (data, EMPTY) if bits == 32 else (EMPTY, data)
    record = read_one(sized(body(offset=offset, timestamp=timestamp)))
    assert (record.offset, record.timestamp) == ((value, 0) if bits == 32 else (0, value))


@pytest.mark.parametrize(("width", "bits"), [(5, 32), (10, 64)])
def test_a_number_of_more_bytes_than_its_bits_need_is_refused(width: int, bits: int) -> None:
    data = b"\x80" * width + b"\0"
    words = f"varint of more than {bits} bits at byte"
    with pytest.raises(RecordsError, match=f"^{words} {width}$") as refusal:
        read_varint(data, 0, bits=bits)
    assert refusal.value.code is ErrorCode.INVALID_RECORD
    with pytest.raises(IndexError):
        read_varint(data[: width - 1], 0, bits=bits)
    offset, timestamp = (data, EMPTY) if bits == 32 else (EMPTY, data)
    at = 3 if bits == 32 else 2
    assert refused(sized(body(offset=offset, timestamp=timestamp))) == f"{words} {width + at}"


@pytest.mark.parametrize(
    ("base", "delta", "total"),
    [
        (LONG_MAX, 0, LONG_MAX),
        (LONG_MAX, 1, LONG_MIN),
        (LONG_MAX - 1, 1, LONG_MAX),
        (LONG_MIN, 0, LONG_MIN),
        (LONG_MIN, -1, LONG_MAX),
        (LONG_MIN + 1, -1, LONG_MIN),
        (LONG_MAX, LONG_MAX, -2),
        (LONG_MIN, LONG_MIN, 0),
        (LONG_MAX, LONG_MIN, -1),
        (1 << 62, 63, (1 << 62) + 63),
        ((1 << 62) - 1, 1, 1 << 62),
        (-(1 << 62), -64, -(1 << 62) - 64),
        (1 << 62, 1 << 62, LONG_MIN),
    ],
)
def test_a_timestamp_is_the_sum_in_64_bits(base: int, delta: int, total: int) -> None:
    assert add_timestamps(base, delta) == total
    (record,) = iterate_records(encode_record(0, delta, None, None), 1, base_offset=0, base_timestamp=base)
    assert record.timestamp == total


# -- lengths


@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 65, 127, 128, 8_191, 8_192, 8_193, 16_384])
def test_keys_and_values_of_every_length_end_where_they_say(size: int) -> None:
    content = b"a" * size
    for key, value in ((content, None), (None, content), (content, content), (content, b"")):
        data = encode_record(0, 0, key, value) + encode_record(1, 3, None, b"")
        assert read(data, 2) == [Record(0, 0, key, value), Record(1, 3, None, b"")]


@pytest.mark.parametrize("length", [6, 63, 64, 65, 127, 128, 8_191, 8_192, 8_193, 8_256])
def test_a_record_may_have_every_length(length: int) -> None:
    """Where the length's varint gets a byte more, and where its second byte has no bits."""
    bodies = (
        (size, body(value=padded(2 * size, width) + b"v" * size))
        for width in (1, 2, 3)
        for size in range(max(length - 8, 0), length - 5)
    )
    size, inside = next((size, inside) for size, inside in bodies if len(inside) == length)
    for width in range(1, 6):
        assert read_one(sized(inside, width)) == Record(0, 0, None, b"v" * size)


@pytest.mark.parametrize("width", range(1, 6))
def test_what_is_written_longer_than_it_need_be_is_read(width: int) -> None:
    null, nothing, one, zero = padded(1, width), padded(0, width), padded(2, width), padded(0, width)
    plain = body(timestamp=zero, offset=zero)
    assert read_one(sized(plain, width)) == Record(0, 0, None, None)
    for key, value, found in (
        (null, null, (None, None)),
        (nothing, null, (b"", None)),
        (null, nothing, (None, b"")),
        (one + b"k", one + b"v", (b"k", b"v")),
    ):
        data = sized(body(key=key, value=value, headers=zero), width)
        assert read_one(data) == Record(0, 0, *found)
    headers = one + one + b"h" + one + b"x"
    assert read_one(sized(body(headers=headers))).headers == (("h", b"x"),)
    headers = one + nothing + null
    assert read_one(sized(body(headers=headers))).headers == (("", None),)
    for offset in (1, 2):
        data = encode_record(0, 0, None, None) + sized(body(offset=padded(2 * offset, width)))
        assert [record.offset for record in read(data, 2)] == [0, offset]


@pytest.mark.parametrize("null", [1, 3, 127, 129, 255, 16_383, 16_385, (1 << 32) - 1])
def test_each_negative_length_is_that_of_null(null: int) -> None:
    absent = padded(null, 1)
    record = read_one(sized(body(key=absent, value=absent, headers=b"\2\2h" + absent)))
    assert record == Record(0, 0, None, None, (("h", None),))


@pytest.mark.parametrize(
    ("data", "count", "words"),
    [
        (bytes(6), 1, "1 records cannot fit into 6 bytes"),
        (bytes(13), 2, "2 records cannot fit into 13 bytes"),
        (b"\x0a" + bytes(6), 1, "record 0 of the batch: record of 5 bytes where 6 remain"),
        (b"\x08" + bytes(6), 1, "record 0 of the batch: record of 4 bytes where 6 remain"),
        (b"\x0e" + bytes(6), 1, "record 0 of the batch: record of 7 bytes where 6 remain"),
        (b"\x01" + bytes(6), 1, "record 0 of the batch: record of -1 bytes where 6 remain"),
        (b"\x7f" + bytes(6), 1, "record 0 of the batch: record of -64 bytes where 6 remain"),
        (b"\x81\x01" + bytes(6), 1, "record 0 of the batch: record of -65 bytes where 6 remain"),
        (b"\xff\x01" + bytes(6), 1, "record 0 of the batch: record of -128 bytes where 6 remain"),
        (b"\xff\x7f" + bytes(6), 1, "record 0 of the batch: record of -8192 bytes where 6 remain"),
        (b"\xff\xff\xff\xff\x0f" + bytes(6), 1, f"record 0 of the batch: record of {INT_MIN} bytes where 6 remain"),
        (b"\x80\x01" + bytes(6), 1, "record 0 of the batch: record of 64 bytes where 6 remain"),
        (b"\x80" * 7, 1, "varint of more than 32 bits at byte 5"),
        (sized(body()) + b"\x0a" + bytes(6), 2, "record 1 of the batch: record of 5 bytes where 6 remain"),
        (sized(body()) + b"\x0e" + bytes(6), 2, "record 1 of the batch: record of 7 bytes where 6 remain"),
        (sized(body()) + bytes(3), 1, "3 bytes follow the last of the 1 records"),
        (sized(body() + b"?"), 1, "record 0 of the batch: record should end at byte 8 and ends at 7"),
        (sized(body(key=b"\2k"))[:-1] + b"\1", 1, "record 0 of the batch: -1 headers where 0 bytes remain"),
        (sized(body(key=b"\4k")), 1, "record 0 of the batch: a field reaches behind the end of the records"),
        (sized(body(value=b"\4")), 1, "record 0 of the batch: a field reaches behind the end of the records"),
    ],
)
def test_what_a_length_may_not_say_is_refused_in_words(data: bytes, count: int, words: str) -> None:
    assert refused(data, count) == words


@pytest.mark.parametrize("count", [-1, 1 << 31])
def test_a_count_that_cannot_be_is_refused(count: int) -> None:
    assert refused(sized(body()), count) == f"{count} records cannot fit into 7 bytes"


def test_the_smallest_record_has_seven_bytes() -> None:
    assert MIN_RECORD_SIZE == len(encode_record(0, 0, None, None)) == 7
    assert len(read(sized(body()) * 3, 3)) == 3
    assert list(iterate_records(b"", 0, base_offset=0, base_timestamp=0)) == []
    assert list(walk_records(b"", 0)) == []


# -- headers


HEADERS: list[tuple[Header, ...]] = [
    (("h", None),),
    (("", b""),),
    (("", None), ("", None)),
    (("h" * 64, b"x" * 64), ("h" * 63, b"x" * 63)),
    (("é" * 40, b"x" * 8_192),),
    tuple((str(number), b"") for number in range(64)),
]


@pytest.mark.parametrize("headers", HEADERS, ids=range(len(HEADERS)))
def test_headers_are_read_as_they_were_written(headers: tuple[Header, ...]) -> None:
    data = encode_record(0, 0, b"k", b"v", headers) + encode_record(1, 0, b"k", None)
    assert read(data, 2) == [Record(0, 0, b"k", b"v", headers), Record(1, 0, b"k", None)]


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ("01", "-1 headers where 0 bytes remain"),
        ("0100", "-1 headers where 1 bytes remain"),
        ("7f00", "-64 headers where 1 bytes remain"),
        ("02", "1 headers where 0 bytes remain"),
        ("0201", "1 headers where 1 bytes remain"),
        ("04000000", "2 headers where 3 bytes remain"),
        ("060000000000", "3 headers where 5 bytes remain"),
        ("800100", "64 headers where 1 bytes remain"),
        ("020101", "header key of -1 bytes where 1 remain"),
        ("027f01", "header key of -64 bytes where 1 remain"),
        ("020401", "header key of 2 bytes where 1 remain"),
        ("020002", "header of 1 bytes where 0 remain"),
        ("020268046c", "header of 2 bytes where 1 remain"),
        ("0200feffffff0f", f"header of {INT_MAX} bytes where 0 remain"),
        ("02feffffff0f", f"header key of {INT_MAX} bytes where 0 remain"),
        ("020268", "a field reaches behind the end of the records"),
        ("0200", "1 headers where 1 bytes remain"),
    ],
)
def test_what_headers_may_not_say_is_refused_in_words(headers: str, words: str) -> None:
    assert refused(sized(body(headers=bytes.fromhex(headers)))) == f"record 0 of the batch: {words}"


def test_a_header_does_not_reach_into_the_next_record() -> None:
    for headers in ("020268", "020204"):
        data = sized(body(headers=bytes.fromhex(headers))) + sized(body())
        assert refused(data, 2) == "record 0 of the batch: header of 6 bytes where -1 remain"
    data = sized(body(headers=b"\2\0\4")) + sized(body())
    assert refused(data, 2) == "record 0 of the batch: header of 2 bytes where 0 remain"


@pytest.mark.parametrize(
    ("headers", "remaining", "number"),
    [
        ("00", 0, 0),
        ("00", 9, 0),
        ("01", 9, 0),
        ("02", 1, 0),
        ("02", 2, 1),
        ("02", 9, 1),
        ("06", 5, 2),
        ("06", 6, 3),
        ("06", 7, 3),
        ("feffffff0f", 101, 50),
        ("02", -1, 0),
        ("02", -8, 0),
    ],
)
def test_so_many_headers_there_can_be(headers: str, remaining: int, number: int) -> None:
    """`remaining`: the bytes behind where the count begins."""
    assert possible_headers(b"???" + bytes.fromhex(headers), 3, 3 + remaining) == number


# -- the bound on what is looked at


def parts(*headers: int) -> bytes:
    return b"".join(encode_record(index, 0, b"k", b"v", [("h", b"x")] * count) for index, count in enumerate(headers))


@pytest.mark.parametrize(
    ("headers", "most", "stops_at"),
    [
        ((0,), 1, None),
        ((0,), 0, 0),
        ((0, 0, 0), 3, None),
        ((0, 0, 0), 2, 2),
        ((0, 0, 0), 1, 1),
        ((3,), 4, None),
        ((3,), 3, 0),
        ((1, 2, 0), 6, None),
        ((1, 2, 0), 5, 2),
        ((1, 2, 0), 4, 1),
        ((1, 2, 0), 2, 1),
        ((1, 2, 0), 1, 0),
    ],
)
def test_a_walk_ends_behind_so_many_records_and_headers(
    headers: tuple[int, ...], most: int, stops_at: int | None
) -> None:
    walk = walk_records(parts(*headers), len(headers), most_parts=most)
    if stops_at is None:
        assert list(walk) == [(index, 0, True) for index in range(len(headers))]
        return
    for index in range(stops_at):
        assert next(walk) == (index, 0, True)
    words = f"^the batch has too many records and headers: the check ended after record {stops_at}$"
    with pytest.raises(RecordsError, match=words) as refusal:
        next(walk)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("headers", "enough"), [((0,), 0), ((3,), 3), ((1, 2, 0), 3), ((0, 0, 5), 5)])
def test_a_survey_of_few_records_counts_their_headers(headers: tuple[int, ...], enough: int) -> None:
    assert survey(parts(*headers), len(headers), most_parts=enough).counts_up
    if not enough:
        return
    last = max(index for index, count in enumerate(headers) if count)
    with pytest.raises(RecordsError, match=f"after record {last}$") as refusal:
        survey(parts(*headers), len(headers), most_parts=enough - 1)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
