"""What a leader refuses, with the codes that Apache Kafka 3.9.2 answered to the very same bytes."""

import struct
import zlib
from collections.abc import Callable

import cramjam
import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.records.batch import BatchHeader, TimestampType, batch_at, read_header
from kavka.records.builder import BatchBuilder, ProducerStamp, seal
from kavka.records.compression import Compression, compress
from kavka.records.record import encode_record
from kavka.records.validation import (
    INFLATED_BATCH_BYTES,
    INFLATED_RECORDS_BYTES,
    WALKED_RECORDS,
    ProduceRules,
    check_produce_version,
    needs_record_check,
    validate_produced,
    validate_records,
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


def answer(records: bytes, rules: ProduceRules = RULES, *, deep: bool = False) -> ErrorCode:
    try:
        batch = validate_produced(memoryview(bytearray(records)), rules, NOW_MS)
        if deep:
            validate_records(batch, rules, NOW_MS)
    except RecordsError as refusal:
        return refusal.code
    return ErrorCode.NONE


@pytest.mark.parametrize("compression", list(Compression))
def test_a_good_batch_is_taken_with_every_codec(compression: Compression) -> None:
    assert answer(make(compression=compression), deep=True) is ErrorCode.NONE
    assert answer(make(2000, compression=compression), deep=True) is ErrorCode.NONE


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
    assert answer(records, rules, deep=needs_record_check(rules)) is code


def test_max_message_bytes_is_a_bound_that_may_be_reached() -> None:
    records = make(50)
    assert answer(records, RULES._replace(max_message_bytes=len(records))) is ErrorCode.NONE
    assert answer(records, RULES._replace(max_message_bytes=len(records) - 1)) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_wrong_counts_in_small_deflated_batches_are_found_at_once(compression: Compression) -> None:
    for count in (2, 4):
        lie = make(compression=compression, record_count=count, last_offset_delta=count - 1)
        assert answer(lie) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_wrong_counts_in_larger_deflated_batches_are_for_the_deep_check(compression: Compression) -> None:
    for count in (99, 101):
        lie = make(100, compression=compression, record_count=count, last_offset_delta=count - 1)
        assert answer(lie) is ErrorCode.NONE
        assert answer(lie, deep=True) is ErrorCode.INVALID_RECORD


def test_a_small_batch_that_inflates_to_much_is_believed_and_not_inflated() -> None:
    payload = compress(Compression.ZSTD, encode_record(0, 0, b"k", bytes(INFLATED_RECORDS_BYTES)))
    header = header_of(1)._replace(attributes=4, record_count=2, last_offset_delta=1)
    assert len(payload) < INFLATED_BATCH_BYTES
    assert answer(seal(header, payload)) is ErrorCode.NONE
    assert answer(seal(header, payload), deep=True) is ErrorCode.INVALID_RECORD


def test_the_deep_check_names_the_record() -> None:
    payload = b"".join(encode_record(delta, 0, b"k", b"v") for delta in (0, 1, 5))
    batch = validate_produced(memoryview(seal(header_of(), payload)), RULES, NOW_MS)
    with pytest.raises(RecordsError, match="offset delta 5") as refusal:
        validate_records(batch, RULES, NOW_MS)
    assert refusal.value.batch_index == 2


def test_the_deep_check_refuses_what_inflates_to_more_than_its_bound() -> None:
    payload = compress(Compression.ZSTD, encode_record(0, 0, b"k", bytes(1 << 22)))
    batch = validate_produced(
        memoryview(seal(header_of(1)._replace(attributes=4), payload)), RULES._replace(compacted=True), NOW_MS
    )
    with pytest.raises(RecordsError) as refusal:
        validate_records(batch, RULES, NOW_MS, max_inflated_bytes=1 << 20)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert validate_records(batch, RULES, NOW_MS, max_inflated_bytes=1 << 23).inflated_bytes > 1 << 22


def test_the_deep_check_tells_the_largest_timestamp_and_where_it_is() -> None:
    builder = BatchBuilder(Compression.LZ4)
    for timestamp in (NOW_MS, NOW_MS + 7, NOW_MS - 3):
        builder.append(timestamp, b"k", b"v")
    batch = validate_produced(memoryview(builder.build()), RULES, NOW_MS)
    summary = validate_records(batch, RULES, NOW_MS)
    assert (summary.max_timestamp, summary.offset_delta_of_max_timestamp) == (NOW_MS + 7, 1)


def test_plain_batches_are_walked_up_to_the_bound_and_believed_above() -> None:
    payload = b"".join(encode_record(delta, 0, b"k", b"v") for delta in range(WALKED_RECORDS + 1))
    walked = header_of()._replace(record_count=WALKED_RECORDS, last_offset_delta=WALKED_RECORDS - 1)
    assert answer(seal(walked, payload)) is ErrorCode.INVALID_RECORD
    believed = walked._replace(record_count=WALKED_RECORDS + 2, last_offset_delta=WALKED_RECORDS + 1)
    assert answer(seal(believed, payload)) is ErrorCode.NONE
    assert answer(seal(believed, payload), deep=True) is ErrorCode.INVALID_RECORD


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
    with pytest.raises(RecordsError) as refusal:
        validate_replicated(memoryview(good + flipped(good, 65, 0xEE)))
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    assert refusal.value.batch_index == 1
