"""The batch view: header, iteration, patches in place."""

import struct

import pytest
from crc32c import crc32c

from kavka.errors import CorruptRecords, ErrorCode, RecordsError
from kavka.records.batch import (
    HEADER_SIZE,
    RecordBatch,
    TimestampType,
    assign_offset,
    batch_at,
    iterate_batches,
    read_header,
    set_timestamp_type,
)
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression

NOW_MS = 1_700_000_000_000
NO_STAMP = ProducerStamp()


def build(*values: bytes, base_offset: int = 0, stamp: ProducerStamp = NO_STAMP) -> bytes:
    builder = BatchBuilder()
    for index, value in enumerate(values):
        builder.append(NOW_MS + index, b"key", value)
    return builder.build(stamp, base_offset=base_offset)


def writable(data: bytes) -> RecordBatch:
    batch = batch_at(memoryview(bytearray(data)))
    assert batch is not None
    return batch


def test_a_header_says_what_its_bytes_say() -> None:
    record = b"\x0e" + b"\x00\x00\x00" + b"\x01" + b"\x02v" + b"\x00"
    tail = struct.pack("!hiqqqhii", 0x10, 0, NOW_MS, NOW_MS, 77, 3, 9, 1) + record
    data = struct.pack("!qiibI", 42, 9 + len(tail), 5, 2, crc32c(tail)) + tail
    batch = batch_at(memoryview(data))
    assert batch is not None
    header = batch.header
    assert (header.base_offset, header.last_offset, header.size_bytes) == (42, 42, len(data))
    assert (header.partition_leader_epoch, header.magic, header.record_count) == (5, 2, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (77, 3, 9, 9)
    assert header.is_transactional
    assert not header.is_control
    assert header.producer_id > -1
    assert header.compression is Compression.NONE
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.delete_horizon_ms is None
    assert batch.crc_is_right()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in batch.records()] == [(42, NOW_MS, None, b"v")]


def test_sequences_go_on_at_zero_behind_the_largest() -> None:
    data = build(b"a", b"b", b"c", stamp=ProducerStamp(1, 0, 2**31 - 2))
    assert read_header(data).last_sequence == 0


def test_batches_are_found_one_behind_another_and_a_torn_one_is_left_out() -> None:
    first, second = build(b"a", base_offset=10), build(b"b", b"c", base_offset=11)
    view = memoryview(first + second + second[:-1])
    batches = list(iterate_batches(view))
    assert [batch.header.base_offset for batch in batches] == [10, 11]
    assert [len(batch.view) for batch in batches] == [len(first), len(second)]


@pytest.mark.parametrize("length", range(HEADER_SIZE + 10))
def test_every_prefix_of_a_batch_is_incomplete_and_no_error(length: int) -> None:
    assert list(iterate_batches(memoryview(build(b"value" * 3)[:length]))) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_formats_are_refused_by_name(magic: int) -> None:
    data = bytearray(build(b"a"))
    data[16] = magic
    with pytest.raises(RecordsError) as refusal:
        list(iterate_batches(memoryview(data)))
    assert refusal.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize(("magic", "length"), [(3, 60), (-1, 60), (2, 48), (2, 13), (2, 0), (2, -1), (0, 13)])
def test_an_impossible_magic_or_length_is_corrupt(magic: int, length: int) -> None:
    data = struct.pack("!qiib", 0, length, 0, magic) + bytes(60)
    with pytest.raises(CorruptRecords):
        batch_at(memoryview(data))


def test_a_lying_length_reads_nothing_behind_the_buffer() -> None:
    data = bytearray(build(b"a"))
    struct.pack_into("!i", data, 8, 2**31 - 1)
    assert batch_at(memoryview(data)) is None


def test_a_header_of_too_few_bytes_is_corrupt() -> None:
    with pytest.raises(CorruptRecords):
        read_header(bytes(60))


def test_assigned_offsets_leave_the_crc_right() -> None:
    batch = writable(build(b"a", b"b"))
    assign_offset(batch, 1000, 7)
    patched = batch_at(batch.view)
    assert patched is not None
    assert (patched.header.base_offset, patched.header.last_offset) == (1000, 1001)
    assert patched.header.partition_leader_epoch == 7
    assert patched.crc_is_right()
    assert [record.offset for record in patched.records()] == [1000, 1001]


def test_a_stamped_batch_reads_with_the_log_append_time_and_a_new_crc() -> None:
    batch = writable(build(b"a", b"b"))
    set_timestamp_type(batch, TimestampType.LOG_APPEND_TIME, NOW_MS + 99)
    patched = batch_at(batch.view)
    assert patched is not None
    assert patched.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert patched.crc_is_right()
    assert {record.timestamp for record in patched.records()} == {NOW_MS + 99}
    set_timestamp_type(patched, TimestampType.CREATE_TIME, NOW_MS + 1)
    assert bytes(batch.view) == build(b"a", b"b")


def test_one_flipped_bit_makes_the_crc_wrong() -> None:
    data = build(b"value")
    for position in (21, 30, len(data) - 1):
        damaged = bytearray(data)
        damaged[position] ^= 1
        assert not RecordBatch(memoryview(damaged), read_header(damaged)).crc_is_right()
