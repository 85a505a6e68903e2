"""Batches and names that must not get in: Kafka's error, nothing appended, and the topic goes on."""

from __future__ import annotations

import gzip
from struct import pack_into
from typing import Any

import pytest
from crc32c import crc32c

from kavka.errors import ErrorCode
from kavka.records.builder import BatchBuilder
from kavka.records.compression import Compression

MAGIC, CRC, ATTRIBUTES, LAST_OFFSET_DELTA, RECORD_COUNT = 16, 17, 21, 23, 57


def batch(*values: bytes) -> bytearray:
    builder = BatchBuilder()
    for value in values or (b"one", b"two"):
        builder.append(0, b"key", value)
    return bytearray(builder.build())


def resealed(data: bytearray) -> bytearray:
    """With the right CRC again, so that only the change itself is wrong."""
    pack_into(">I", data, CRC, crc32c(bytes(data[ATTRIBUTES:])))
    return data


def wrong_crc() -> bytearray:
    data = batch()
    data[-1] ^= 1
    return data


def with_field(position: int, form: str, value: int) -> bytearray:
    data = batch()
    pack_into(form, data, position, value)
    return resealed(data)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (wrong_crc(), ErrorCode.CORRUPT_MESSAGE),
        (with_field(RECORD_COUNT, ">i", 3), ErrorCode.INVALID_RECORD),
        (with_field(RECORD_COUNT, ">i", -1), ErrorCode.INVALID_RECORD),
        (with_field(RECORD_COUNT, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD),
        (with_field(LAST_OFFSET_DELTA, ">i", 7), ErrorCode.INVALID_RECORD),
        (with_field(MAGIC, ">b", 1), ErrorCode.INVALID_RECORD),
        (with_field(MAGIC, ">b", 9), ErrorCode.CORRUPT_MESSAGE),
        (with_field(0, ">q", 5), ErrorCode.INVALID_RECORD),
        (with_field(8, ">i", -7), ErrorCode.CORRUPT_MESSAGE),
        (with_field(ATTRIBUTES, ">h", 7), ErrorCode.UNKNOWN_SERVER_ERROR),
        (with_field(ATTRIBUTES, ">h", int(Compression.ZSTD)), ErrorCode.UNKNOWN_SERVER_ERROR),
        (with_field(ATTRIBUTES, ">h", 0x20), ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (bytearray(), ErrorCode.INVALID_RECORD),
        (bytearray(b"no batch at all, only text that goes on for more than a header's sixty-one bytes"), None),
    ],
    ids=[
        "wrong CRC",
        "more records than there are",
        "negative count",
        "absurd count",
        "wrong offsets",
        "old format",
        "unknown format",
        "base offset",
        "negative length",
        "unknown codec",
        "not what the codec says",
        "control batch of a client",
        "two batches",
        "no batch",
        "garbage",
    ],
)
def test_a_bad_batch_gets_kafkas_error_and_is_not_appended(
    connect_raw: Any, records: bytearray, code: ErrorCode | None
) -> None:
    client = connect_raw()
    topic = client.create_topic()
    assert client.is_served(topic)
    answer = client.produce(topic, bytes(records))
    if code is None:
        assert answer.error_code != 0
    else:
        assert ErrorCode(answer.error_code) is code
    assert client.produce(topic, bytes(batch(b"next"))).base_offset == 1


def test_a_batch_over_max_message_bytes_is_too_large(connect_raw: Any) -> None:
    client = connect_raw()
    topic = client.create_topic(max_message_bytes="1000")
    answer = client.produce(topic, bytes(batch(bytes(2000))))
    assert ErrorCode(answer.error_code) is ErrorCode.MESSAGE_TOO_LARGE
    assert client.is_served(topic)


def test_a_compression_bomb_is_never_inflated(connect_raw: Any, kavka_broker: Any) -> None:
    client = connect_raw()
    topic = client.create_topic(cleanup_policy="compact")
    bomb = batch(b"x")[:61] + gzip.compress(bytes(300_000_000), compresslevel=9)
    pack_into(">i", bomb, 8, len(bomb) - 12)
    pack_into(">h", bomb, ATTRIBUTES, int(Compression.GZIP))
    before = kavka_broker.resident_bytes()
    answer = client.produce(topic, bytes(resealed(bomb)))
    assert answer.error_code != 0
    assert kavka_broker.resident_bytes() - before < 64 * 1024 * 1024
    assert client.is_served(topic)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250, "snow\N{SNOWMAN}", "a\0b"])
def test_an_illegal_topic_name_is_refused(connect_raw: Any, name: str) -> None:
    client = connect_raw()
    assert ErrorCode(client.try_to_create_topic(name)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.is_served(client.create_topic())
