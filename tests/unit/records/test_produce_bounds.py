"""What a leader looks at of a batch, to the last header; and what it stamps where the time is right already."""

from __future__ import annotations

import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.records.batch import TimestampType, read_header
from kavka.records.builder import BatchBuilder, seal
from kavka.records.compression import Compression, compress
from kavka.records.record import encode_varint
from kavka.records.validation import ProduceRules, check_produce_version, validate_produced

NOW_MS = 1_700_000_000_000
RULES = ProduceRules(max_message_bytes=1_048_588)
EMPTY_BATCH = BatchBuilder(Compression.ZSTD).build()[:61]


def batch() -> bytearray:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    return bytearray(builder.build())


def of_headers(count: int) -> memoryview:
    """A deflated batch of one record with so many empty headers, and an offset that no first record has."""
    body = b"\0\0\2\1\1" + encode_varint(count) + b"\0\1" * count
    header = read_header(batch())._replace(attributes=Compression.ZSTD)
    return memoryview(bytearray(seal(header, compress(Compression.ZSTD, encode_varint(len(body)) + body))))


def test_262144_headers_of_a_deflated_batch_are_looked_at_and_with_one_more_it_is_believed() -> None:
    with pytest.raises(RecordsError, match="do not count up from 0") as refusal:
        validate_produced(of_headers(262_144), RULES, NOW_MS)
    assert refusal.value.code is ErrorCode.INVALID_RECORD
    assert validate_produced(of_headers(262_145), RULES, NOW_MS).header.record_count == 1
    with pytest.raises(RecordsError) as refusal:
        validate_produced(of_headers(262_145), RULES._replace(compacted=True), NOW_MS)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("version", "is_refused"), [(6, True), (7, False)])
def test_a_header_alone_says_that_it_is_zstd(version: int, *, is_refused: bool) -> None:
    assert len(EMPTY_BATCH) == 61
    check_produce_version(memoryview(EMPTY_BATCH[:60]), version)
    if not is_refused:
        check_produce_version(memoryview(EMPTY_BATCH), version)
        return
    with pytest.raises(RecordsError, match="version 6 may not use zstd") as refusal:
        check_produce_version(memoryview(EMPTY_BATCH), version)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_batch_of_just_now_is_stamped_as_its_topic_says() -> None:
    data = batch()
    stamped = validate_produced(memoryview(data), RULES._replace(timestamp_type=TimestampType.LOG_APPEND_TIME), NOW_MS)
    assert data[22] == 8
    assert (stamped.header.attributes, stamped.header.max_timestamp) == (8, NOW_MS)
    assert stamped.crc_is_right()
    data = batch()
    validate_produced(memoryview(data), RULES, NOW_MS)
    assert data == batch()
