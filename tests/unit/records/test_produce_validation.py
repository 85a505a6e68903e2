"""What a leader refuses, with the codes that Apache Kafka 3.9.2 answered to the very same bytes."""

import struct
import zlib
from collections.abc import Callable
from functools import cache

import cramjam
import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.records.batch import BatchHeader, TimestampType, batch_at, read_header
from kavka.records.builder import BatchBuilder, ProducerStamp, recompress, seal
from kavka.records.compression import MAX_INFLATED_BYTES, Compression, compress
from kavka.records.record import encode_record
from kavka.records.validation import (
    INFLATED_RECORDS_BYTES,
    LISTED_RECORDS,
    LOOKED_AT_PARTS,
    ProduceRules,
    check_produce_version,
    most_parts,
    validate_produced,
    validate_replicated,
)

NOW_MS = 1_700_000_000_000
RULES = ProduceRules(max_message_bytes=1_048_588)
STAMPING = RULES._replace(timestamp_type=TimestampType.LOG_APPEND_TIME)
NARROW = RULES._replace(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000)
LOG_APPEND_TIME = 8


def make(
    count: int = 3,
    *,
    compression: Compression = Compression.NONE,
    key: bytes | None = b"k",
    timestamp: int = NOW_MS,
    **fields: int,
) -> bytes:
    builder = BatchBuilder(compression)
    for index in range(count):
        builder.append(timestamp, key, b"v%d" % index)
    data = builder.build()
    return seal(read_header(data)._replace(**fields), data[61:]) if fields else data


def legacy(magic: int) -> bytes:
    body = (
        struct.pack("!bb", magic, 0) + (struct.pack("!q", NOW_MS) if magic else b"") + struct.pack("!ii", -1, 1) + b"v"
    )
    message = struct.pack("!I", zlib.crc32(body)) + body
    return struct.pack("!qi", 0, len(message)) + message


def flipped(data: bytes, position: int, value: int) -> bytes:
    return data[:position] + bytes([value]) + data[position + 1 :]


def header_of(count: int = 3) -> BatchHeader:
    return read_header(make(count))


def accepted(records: bytes, rules: ProduceRules = RULES) -> BatchHeader:
    """The header of the batch as it would be appended."""
    batch = validate_produced(memoryview(bytearray(records)), rules, NOW_MS)
    assert batch.header == read_header(batch.view)
    assert batch.crc_is_right()
    return batch.header


def refusal_of(records: bytes, rules: ProduceRules = RULES) -> RecordsError:
    with pytest.raises(RecordsError) as refusal:
        validate_produced(memoryview(bytearray(records)), rules, NOW_MS)
    return refusal.value


def answer(records: bytes, rules: ProduceRules = RULES) -> ErrorCode:
    try:
        accepted(records, rules)
    except RecordsError as refusal:
        return refusal.code
    return ErrorCode.NONE


def named(refusal: RecordsError) -> list[int]:
    return [record.record_index for record in refusal.bad_records]


def payload_of(keys: list[bytes | None], deltas: list[int] | None = None) -> bytes:
    times = deltas or [0] * len(keys)
    return b"".join(encode_record(i, time, key, b"v") for i, (key, time) in enumerate(zip(keys, times, strict=True)))


@pytest.mark.parametrize("compression", list(Compression))
def test_a_good_batch_is_taken_with_every_codec(compression: Compression) -> None:
    assert answer(make(compression=compression)) is ErrorCode.NONE
    assert answer(make(2000, compression=compression)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(legacy(0), ErrorCode.INVALID_RECORD, id="message format 0"),
        pytest.param(legacy(1), ErrorCode.INVALID_RECORD, id="message format 1"),
        pytest.param(flipped(make(), 16, 3), ErrorCode.CORRUPT_MESSAGE, id="magic 3"),
        pytest.param(flipped(make(), 16, 255), ErrorCode.CORRUPT_MESSAGE, id="magic -1"),
        pytest.param(flipped(make(), 70, 0xEE), ErrorCode.CORRUPT_MESSAGE, id="wrong CRC"),
        pytest.param(make() + make(), ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="no bytes"),
        pytest.param(make()[:20], ErrorCode.INVALID_RECORD, id="a torn header"),
        pytest.param(make()[:70], ErrorCode.INVALID_RECORD, id="a torn batch"),
        pytest.param(make() + bytes(5), ErrorCode.NONE, id="five bytes behind the batch"),
        pytest.param(make() + make()[:40], ErrorCode.NONE, id="a torn second batch"),
        pytest.param(make() + b"\xff" * 40, ErrorCode.CORRUPT_MESSAGE, id="garbage behind the batch"),
        pytest.param(make() + legacy(1), ErrorCode.INVALID_RECORD, id="a legacy message behind the batch"),
        pytest.param(flipped(make(), 8, 0xFF), ErrorCode.CORRUPT_MESSAGE, id="a negative length"),
        pytest.param(make(base_offset=7), ErrorCode.INVALID_RECORD, id="base offset 7"),
        pytest.param(make(record_count=0), ErrorCode.INVALID_RECORD, id="count 0"),
        pytest.param(make(record_count=-1), ErrorCode.INVALID_RECORD, id="count -1"),
        pytest.param(make(record_count=4), ErrorCode.INVALID_RECORD, id="count 4 of 3"),
        pytest.param(make(last_offset_delta=5), ErrorCode.INVALID_RECORD, id="offsets of 6 for 3"),
        pytest.param(make(last_offset_delta=-1), ErrorCode.INVALID_RECORD, id="offsets of 0 for 3"),
        pytest.param(make(record_count=4, last_offset_delta=3), ErrorCode.INVALID_RECORD, id="one record missing"),
        pytest.param(make(record_count=2, last_offset_delta=1), ErrorCode.INVALID_RECORD, id="one record too many"),
        pytest.param(make(0), ErrorCode.INVALID_RECORD, id="an empty batch"),
        pytest.param(make(attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR, id="codec 5"),
        pytest.param(make(attributes=7), ErrorCode.UNKNOWN_SERVER_ERROR, id="codec 7"),
        pytest.param(make(attributes=1), ErrorCode.UNKNOWN_SERVER_ERROR, id="gzip garbage"),
        pytest.param(make(attributes=2), ErrorCode.UNKNOWN_SERVER_ERROR, id="snappy garbage"),
        pytest.param(make(attributes=3), ErrorCode.UNKNOWN_SERVER_ERROR, id="lz4 garbage"),
        pytest.param(make(attributes=4), ErrorCode.UNKNOWN_SERVER_ERROR, id="zstd garbage"),
        pytest.param(make(attributes=0x20), ErrorCode.INVALID_RECORD, id="a control batch"),
        pytest.param(make(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD, id="a producer without sequence"),
        pytest.param(make(producer_id=-5), ErrorCode.NONE, id="a negative producer id"),
        pytest.param(make(attributes=0x40), ErrorCode.NONE, id="a delete horizon"),
        pytest.param(make(attributes=0x100), ErrorCode.NONE, id="an attribute of the future"),
        pytest.param(make(attributes=8), ErrorCode.NONE, id="stamped by the client, topic with create time"),
        pytest.param(make(attributes=8, timestamp=-1), ErrorCode.INVALID_TIMESTAMP, id="stamped with no time"),
        pytest.param(make(timestamp=-1), ErrorCode.NONE, id="no timestamps"),
    ],
)
def test_produced_records_get_kafkas_answer(records: bytes, code: ErrorCode) -> None:
    assert answer(records) is code


@pytest.mark.parametrize(
    ("records", "rules", "code"),
    [
        pytest.param(make(attributes=8), STAMPING, ErrorCode.INVALID_TIMESTAMP, id="stamped by the client"),
        pytest.param(make(), STAMPING, ErrorCode.NONE, id="to be stamped"),
        pytest.param(make(50), RULES._replace(max_message_bytes=500), ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
        pytest.param(make(timestamp=NOW_MS - 5000), NARROW, ErrorCode.INVALID_TIMESTAMP, id="too old"),
        pytest.param(make(timestamp=NOW_MS + 5000), NARROW, ErrorCode.INVALID_TIMESTAMP, id="too far ahead"),
        pytest.param(make(timestamp=NOW_MS - 5000), NARROW._replace(timestamp_type=TimestampType.LOG_APPEND_TIME),
                     ErrorCode.NONE, id="old, but stamped by the broker"),
        pytest.param(make(key=None), RULES._replace(compacted=True), ErrorCode.INVALID_RECORD, id="no key"),
        pytest.param(make(key=None, compression=Compression.GZIP), RULES._replace(compacted=True),
                     ErrorCode.INVALID_RECORD, id="no key, deflated"),
        pytest.param(make(key=b""), RULES._replace(compacted=True), ErrorCode.NONE, id="an empty key"),
    ],
)  # fmt: skip
def test_a_topics_settings_are_enforced(records: bytes, rules: ProduceRules, code: ErrorCode) -> None:
    assert answer(records, rules) is code


def test_max_message_bytes_is_a_bound_that_may_be_reached() -> None:
    records = make(50)
    assert answer(records, RULES._replace(max_message_bytes=len(records))) is ErrorCode.NONE
    assert answer(records, RULES._replace(max_message_bytes=len(records) - 1)) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("count", [3, 100, 3000])
def test_wrong_counts_are_found(compression: Compression, count: int) -> None:
    for wrong in (count - 1, count + 1):
        lie = make(count, compression=compression, record_count=wrong, last_offset_delta=wrong - 1)
        refusal = refusal_of(lie)
        assert refusal.code is ErrorCode.INVALID_RECORD
        assert named(refusal) == []


@pytest.mark.parametrize("compression", list(Compression))
def test_garbage_behind_good_records_is_found(compression: Compression) -> None:
    payload = payload_of([b"k"] * 100) + b"\xff" * 50
    header = header_of()._replace(attributes=compression, record_count=101, last_offset_delta=100)
    refusal = refusal_of(seal(header, compress(compression, payload)))
    assert refusal.code is ErrorCode.INVALID_RECORD
    assert named(refusal) == []


def test_a_plain_batch_may_say_what_it_will_of_its_offsets_and_a_deflated_one_may_not() -> None:
    payload = b"".join(encode_record(delta, 0, b"k", b"v") for delta in (0, 1, 5))
    assert answer(seal(header_of(), payload)) is ErrorCode.NONE
    deflated = seal(header_of()._replace(attributes=Compression.LZ4), compress(Compression.LZ4, payload))
    assert answer(deflated) is ErrorCode.INVALID_RECORD
    assert answer(deflated, RULES._replace(codec=Compression.LZ4)) is ErrorCode.INVALID_RECORD
    # Such a batch is laid out anew.
    assert answer(deflated, RULES._replace(codec=Compression.GZIP)) is ErrorCode.NONE


@pytest.mark.parametrize("count", [3, 24, 1000])
@pytest.mark.parametrize("offset", [1, 64, 200, 1 << 20, -1])
def test_offsets_that_are_all_the_same_are_offsets_that_do_not_count_up(offset: int, count: int) -> None:
    payload = encode_record(offset, 0, b"k", b"v") * count
    header = header_of()._replace(record_count=count, last_offset_delta=count - 1)
    assert answer(seal(header, payload)) is ErrorCode.NONE
    deflated = seal(header._replace(attributes=Compression.LZ4), compress(Compression.LZ4, payload))
    assert answer(deflated) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", list(Compression))
def test_every_record_without_a_key_is_named(compression: Compression) -> None:
    payload = payload_of([b"k", None, b"", None, None])
    header = header_of()._replace(attributes=compression, record_count=5, last_offset_delta=4)
    refusal = refusal_of(seal(header, compress(compression, payload)), RULES._replace(compacted=True))
    assert (refusal.code, named(refusal)) == (ErrorCode.INVALID_RECORD, [1, 3, 4])
    assert "3 of the batch's 5 records" in refusal.message
    assert answer(seal(header, compress(compression, payload))) is ErrorCode.NONE


def test_every_record_out_of_time_is_named_and_a_missing_key_comes_first() -> None:
    payload = payload_of([b"k", None, b"k", b"k"], [0, -5000, 5000, 1000])
    header = header_of()._replace(
        record_count=4, last_offset_delta=3, base_timestamp=NOW_MS, max_timestamp=NOW_MS + 5000
    )
    refusal = refusal_of(seal(header, payload), NARROW)
    assert (refusal.code, named(refusal)) == (ErrorCode.INVALID_TIMESTAMP, [1, 2])
    refusal = refusal_of(seal(header, payload), NARROW._replace(compacted=True))
    assert (refusal.code, named(refusal)) == (ErrorCode.INVALID_TIMESTAMP, [1, 2])
    assert [record.code for record in refusal.bad_records] == [ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP]


def test_a_header_that_hides_a_timestamp_does_not_help() -> None:
    payload = payload_of([b"k"] * 40, [0] * 39 + [5000])
    header = header_of()._replace(record_count=40, last_offset_delta=39, base_timestamp=NOW_MS, max_timestamp=NOW_MS)
    refusal = refusal_of(seal(header, payload), RULES._replace(timestamp_after_max_ms=1000))
    assert (refusal.code, named(refusal)) == (ErrorCode.INVALID_TIMESTAMP, [39])


def test_records_without_timestamps_are_of_no_age() -> None:
    assert answer(make(timestamp=-1), NARROW) is ErrorCode.NONE
    payload = payload_of([b"k"] * 3, [0, NOW_MS + 1, 5001])
    header = header_of()._replace(base_timestamp=-1, max_timestamp=NOW_MS)
    refusal = refusal_of(seal(header, payload), NARROW)
    assert (refusal.code, named(refusal)) == (ErrorCode.INVALID_TIMESTAMP, [2])


def test_malformed_records_come_before_those_that_are_not_wanted() -> None:
    payload = payload_of([None, b"k", b"k"]) + b"\0"
    refusal = refusal_of(seal(header_of(), payload), RULES._replace(compacted=True))
    assert (refusal.code, named(refusal)) == (ErrorCode.INVALID_RECORD, [])


def test_so_many_bad_records_are_named_and_no_more() -> None:
    count = LISTED_RECORDS + 10
    refusal = refusal_of(make(count, key=None), RULES._replace(compacted=True))
    assert named(refusal) == list(range(LISTED_RECORDS)) == list(range(10_000))


@pytest.mark.parametrize("claimed", [0, NOW_MS - 1, NOW_MS + 6, NOW_MS + 50, (1 << 63) - 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_the_largest_timestamp_is_that_of_the_records(claimed: int, compression: Compression) -> None:
    payload = payload_of([b"k"] * 3, [0, 7, -3])
    header = header_of()._replace(attributes=compression, base_timestamp=NOW_MS, max_timestamp=claimed)
    assert accepted(seal(header, compress(compression, payload))).max_timestamp == NOW_MS + 7


@pytest.mark.parametrize(
    ("base", "deltas", "largest"),
    [
        ((1 << 63) - 1, [0, 0], (1 << 63) - 1),
        ((1 << 63) - 1, [0, 1], (1 << 63) - 1),
        ((1 << 63) - 1, [1, 2], -1),
        ((1 << 63) - 1, [2, 1], -1),
        (-(1 << 63), [0, -1], (1 << 63) - 1),
        (-1000, [0, 0], -1),
    ],
)
def test_timestamps_go_on_behind_the_largest_as_javas_do(base: int, deltas: list[int], largest: int) -> None:
    header = header_of()._replace(record_count=2, last_offset_delta=1, base_timestamp=base, max_timestamp=base)
    records = seal(header, payload_of([b"k"] * 2, deltas))
    assert accepted(records).max_timestamp == largest
    assert named(refusal_of(records, NARROW)) == [0, 1]


def test_a_batch_that_inflates_to_much_is_believed_where_no_record_needs_to_be_known() -> None:
    payload = compress(Compression.ZSTD, encode_record(0, 0, b"k", bytes(INFLATED_RECORDS_BYTES)))
    header = header_of(1)._replace(attributes=Compression.ZSTD, record_count=2, last_offset_delta=1)
    assert answer(seal(header, payload)) is ErrorCode.NONE
    assert answer(seal(header, payload), RULES._replace(compacted=True)) is ErrorCode.INVALID_RECORD
    assert answer(seal(header, payload), NARROW) is ErrorCode.INVALID_RECORD
    ahead = seal(header._replace(max_timestamp=NOW_MS + 5000), payload)
    assert answer(ahead, RULES._replace(timestamp_after_max_ms=1000)) is ErrorCode.INVALID_TIMESTAMP


def test_what_inflates_beyond_every_bound_is_refused_where_records_must_be_known() -> None:
    payload = compress(Compression.ZSTD, encode_record(0, 0, b"k", bytes(MAX_INFLATED_BYTES)))
    records = seal(header_of(1)._replace(attributes=Compression.ZSTD), payload)
    assert answer(records, RULES._replace(compacted=True)) is ErrorCode.MESSAGE_TOO_LARGE


def deflated(
    payload: bytes, count: int, *, codec: Compression = Compression.ZSTD, base_timestamp: int = NOW_MS
) -> bytes:
    header = header_of(1)._replace(
        attributes=codec, record_count=count, last_offset_delta=count - 1, base_timestamp=base_timestamp
    )
    return seal(header, compress(codec, payload))


def unlike(count: int, *, key: bytes | None = b"") -> bytes:
    """The smallest records of two lengths, in turn, which a survey has to walk; the last one with `key`."""
    return b"".join(
        encode_record(index, 0, key if index == count - 1 else b"", b"v" * (index % 2)) for index in range(count)
    )


COMPACTED = RULES._replace(compacted=True)


@cache
def alike(count: int, *, key: bytes | None = b"k", time: int = 0) -> bytes:
    return b"".join(encode_record(index, time, key, b"") for index in range(count))


def test_a_deflated_batch_of_16_mib_is_looked_at_and_one_of_a_byte_more_is_believed() -> None:
    limit = 16 * 1024 * 1024
    around = len(encode_record(0, 0, None, bytes(limit - 100))) - (limit - 100)
    for size, code in ((limit, ErrorCode.INVALID_RECORD), (limit + 1, ErrorCode.NONE)):
        payload = encode_record(0, 0, None, bytes(size - around - 1)) + b"?"
        assert len(payload) == size
        assert answer(deflated(payload, 1)) is code
        assert answer(deflated(payload, 1), COMPACTED) is ErrorCode.INVALID_RECORD


def test_262144_headers_of_a_deflated_batch_are_looked_at() -> None:
    for count, code in ((1 << 18, ErrorCode.NONE), ((1 << 18) + 1, ErrorCode.MESSAGE_TOO_LARGE)):
        payload = encode_record(0, 0, b"k", b"", [("", None)] * count)
        assert answer(deflated(payload, 1), COMPACTED) is code


@pytest.mark.parametrize(("blocks", "code"), [(64, ErrorCode.INVALID_RECORD), (65, ErrorCode.NONE)])
def test_of_a_batch_that_is_believed_64_blocks_are_looked_at(blocks: int, code: ErrorCode) -> None:
    """Five of 4 MiB, which is more than is inflated, and behind them some of one byte."""
    full = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
    one = (1 << 31 | 1).to_bytes(4, "little") + b"?"
    frame = (
        b"\x04\x22\x4d\x18\x60\x70\x73"
        + (len(full).to_bytes(4, "little") + full) * 5
        + one * (blocks - 6)
        + (1 << 31 | 2).to_bytes(4, "little")
        + b"??"
        + bytes(4)
    )
    most = 5 * (4 << 20) + blocks - 4
    # Seven bytes for each record: with 64 blocks there is room for so many to the last byte.
    for count, expected in ((most // 7, ErrorCode.NONE), (most // 7 + 1, code)):
        header = header_of(1)._replace(attributes=3, record_count=count, last_offset_delta=count - 1)
        assert answer(seal(header, frame)) is expected


@pytest.mark.parametrize("base", [-(1 << 62) - 1, (1 << 63) - 1])
def test_timestamps_that_stay_within_64_bits_need_no_walk(base: int) -> None:
    """Of so many records a walk would end with MESSAGE_TOO_LARGE."""
    assert answer(deflated(alike(TOO_MANY), TOO_MANY, base_timestamp=base)) is ErrorCode.NONE


@pytest.mark.parametrize("offset_ms", [-1000, 1000])
def test_timestamps_at_the_edge_of_what_a_topic_takes_need_no_walk(offset_ms: int) -> None:
    at_the_edge = deflated(alike(TOO_MANY), TOO_MANY, base_timestamp=NOW_MS + offset_ms)
    assert answer(at_the_edge, NARROW) is ErrorCode.NONE


TOO_MANY = LOOKED_AT_PARTS + 1000


@pytest.mark.parametrize("part", ["records", "headers"])
def test_deflated_records_are_looked_at_one_by_one_up_to_a_bound(part: str) -> None:
    """A second and more would pass for 16 MiB of them, which deflate to a few KiB."""
    if part == "records":
        payload, count = unlike(TOO_MANY, key=None) + b"?", TOO_MANY
    else:
        payload, count = encode_record(0, 0, None, b"", [("", None)] * TOO_MANY) + b"?", 1
    assert answer(deflated(payload, count)) is ErrorCode.NONE
    assert answer(deflated(payload, count), RULES._replace(compacted=True)) is ErrorCode.MESSAGE_TOO_LARGE
    assert answer(deflated(payload, count), NARROW) is ErrorCode.MESSAGE_TOO_LARGE
    open_to_all = RULES._replace(max_message_bytes=1 << 30)
    assert answer(deflated(payload, count, codec=Compression.NONE), open_to_all) is ErrorCode.INVALID_RECORD


def test_what_is_malformed_before_the_bound_is_refused() -> None:
    payload = unlike(1000) + b"\x01" + unlike(TOO_MANY)
    assert answer(deflated(payload, TOO_MANY)) is ErrorCode.INVALID_RECORD


def test_records_that_are_alike_are_all_looked_at_whatever_their_number() -> None:
    assert answer(deflated(alike(TOO_MANY), TOO_MANY), COMPACTED) is ErrorCode.NONE
    assert answer(deflated(alike(TOO_MANY) + b"?", TOO_MANY)) is ErrorCode.INVALID_RECORD


def test_bad_records_behind_the_bound_are_not_looked_for() -> None:
    """The batch comes again in smaller ones, and those are answered with their bad records."""
    assert answer(deflated(alike(TOO_MANY, key=None), TOO_MANY), COMPACTED) is ErrorCode.INVALID_RECORD
    late = alike(TOO_MANY) + encode_record(TOO_MANY, 0, None, b"")
    assert answer(deflated(late, TOO_MANY + 1), COMPACTED) is ErrorCode.MESSAGE_TOO_LARGE
    around = deflated(alike(TOO_MANY, time=-1), TOO_MANY, base_timestamp=-(1 << 63))
    assert answer(around) is ErrorCode.MESSAGE_TOO_LARGE


def test_offsets_are_counted_up_anew_to_the_same_bound() -> None:
    payload = encode_record(0, 0, b"k", b"") * TOO_MANY
    batch = batch_at(memoryview(deflated(payload, TOO_MANY)))
    assert batch is not None
    with pytest.raises(RecordsError) as refusal:
        recompress(batch, Compression.LZ4, most_parts=most_parts(batch.header))
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("compression", list(Compression))
def test_more_records_than_can_fit_are_refused_without_a_walk(compression: Compression) -> None:
    records = make(compression=compression, record_count=10_000_000, last_offset_delta=9_999_999)
    assert answer(records) is ErrorCode.INVALID_RECORD


def test_blocks_that_depend_on_one_another_are_refused_in_lz4() -> None:
    frame = cramjam.lz4.Compressor(block_linked=True)
    frame.compress(encode_record(0, 0, b"k", b"v"))
    records = seal(header_of(1)._replace(attributes=3), bytes(frame.finish()))
    assert answer(records) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(("version", "code"), [(3, 76), (6, 76), (7, 0), (13, 0)])
def test_zstd_needs_produce_7(version: int, code: int) -> None:
    def ask(check: Callable[[], None]) -> int:
        try:
            check()
        except RecordsError as refusal:
            return refusal.code
        return 0

    assert ask(lambda: check_produce_version(memoryview(make(compression=Compression.ZSTD)), version)) == code
    for others in (make(compression=Compression.LZ4), legacy(1), b"", make(compression=Compression.ZSTD)[:60]):
        assert ask(lambda others=others: check_produce_version(memoryview(others), version)) == 0


def test_a_refused_batch_is_left_as_it_was() -> None:
    for records, rules in ((make(attributes=8), STAMPING), (make(record_count=5), STAMPING)):
        buffer = bytearray(records)
        with pytest.raises(RecordsError):
            validate_produced(memoryview(buffer), rules, NOW_MS)
        assert buffer == records


def test_a_topic_that_stamps_gets_a_stamped_batch() -> None:
    batch = validate_produced(memoryview(bytearray(make())), STAMPING, NOW_MS + 5)
    stamped = batch_at(batch.view)
    assert stamped is not None
    assert stamped.crc_is_right()
    assert {record.timestamp for record in stamped.records()} == {NOW_MS + 5}


def test_what_a_leader_sends_is_checked_batch_by_batch() -> None:
    stamp = ProducerStamp(1, 0, 0, is_transactional=True)
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"x")
    good = builder.build(stamp, base_offset=99)
    assert [b.header.base_offset for b in validate_replicated(memoryview(good + good + good[:30]))] == [99, 99]
    with pytest.raises(RecordsError, match="batch 1 at offset 99") as refusal:
        validate_replicated(memoryview(good + flipped(good, 65, 0xEE)))
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
