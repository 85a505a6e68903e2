"""Bounds and magic numbers of the codecs, to the byte."""

from __future__ import annotations

import pytest

from kavka.errors import CorruptRecords, ErrorCode, RecordsError
from kavka.records.batch import RecordBatch, TimestampType, read_header
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression, check_frame, compress, decompress
from kavka.records.control import ControlType, EndTransactionMarker, read_marker

ZSTD_HEAD = b"\x28\xb5\x2f\xfd\x00\x68"
ZSTD_BLOCK_BYTES = 128 * 1024


def zeros(blocks: int, more: int) -> bytes:
    """A zstd frame of so many blocks of zeros, and so many bytes."""
    block = (ZSTD_BLOCK_BYTES << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return ZSTD_HEAD + block * blocks + (more << 3 | 1).to_bytes(3, "little") + bytes(more)


def test_records_inflate_to_64_mib_where_nothing_else_is_said() -> None:
    assert len(decompress(Compression.ZSTD, zeros(512, 0))) == 64 << 20
    with pytest.raises(RecordsError, match="zstd records inflate to more than 67108864 bytes") as refusal:
        decompress(Compression.ZSTD, zeros(512, 1))
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_snappy_stream_begins_as_those_of_snappy_java() -> None:
    """The magic, and version 1, which readers of version 1 understand."""
    head = bytes.fromhex("82534e4150505900 00000001 00000001")
    assert compress(Compression.SNAPPY, b"") == head
    assert compress(Compression.SNAPPY, b"abc").startswith(head + b"\0\0\0")


@pytest.mark.parametrize(("first", "is_stepped_over"), [(0x4F, False), (0x50, True), (0x5F, True), (0x60, False)])
def test_zstd_frames_of_16_magic_numbers_are_stepped_over(first: int, *, is_stepped_over: bool) -> None:
    stream = bytes((first,)) + b"\x2a\x4d\x18" + b"\3\0\0\0abc" + compress(Compression.ZSTD, b"records")
    if is_stepped_over:
        assert check_frame(Compression.ZSTD, memoryview(stream), max_blocks=9) == 7
        assert bytes(decompress(Compression.ZSTD, stream)) == b"records"
        return
    for ask in (
        lambda: check_frame(Compression.ZSTD, memoryview(stream), max_blocks=9),
        lambda: decompress(Compression.ZSTD, stream),
    ):
        with pytest.raises(CorruptRecords, match="no zstd frame at byte 0 of"):
            ask()


@pytest.mark.parametrize(
    ("name", "codec"), [("none", 0), ("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
)
def test_codecs_have_kafkas_names_and_numbers(name: str, codec: int) -> None:
    assert Compression.named(name) == codec
    assert len(Compression) == 5


def control_batch(size: int) -> RecordBatch:
    """A deflated one whose only record has a key with more fields, and `size` bytes."""
    builder = BatchBuilder(Compression.GZIP)
    builder.append(0, b"\0\0\0\1" + bytes(size - 19), b"\0\0\0\0\0\7")
    assert builder.payload_bytes == size
    data = memoryview(bytearray(builder.build(ProducerStamp(1, 0, is_transactional=True, is_control=True))))
    return RecordBatch(data, read_header(data))


def test_a_marker_inflates_to_4_kib_at_most() -> None:
    assert read_marker(control_batch(4096)) == EndTransactionMarker(ControlType.COMMIT, 7)
    with pytest.raises(RecordsError, match="gzip records inflate to more than 4096 bytes") as refusal:
        read_marker(control_batch(4097))
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_timestamp_types_have_kafkas_numbers() -> None:
    assert {kind.name: int(kind) for kind in TimestampType} == {"CREATE_TIME": 0, "LOG_APPEND_TIME": 1}


@pytest.mark.parametrize(
    ("base", "count", "last"),
    [(0, 1, 0), (0, 3, 2), (2**31 - 1, 1, 2**31 - 1), (2**31 - 1, 2, 0), (2**31 - 2, 4, 1), (2**30, 2, 2**30 + 1)],
)
def test_sequences_end_at_31_bits(base: int, count: int, last: int) -> None:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(0, None, b"v")
    assert read_header(builder.build(ProducerStamp(1, 0, base))).last_sequence == last
