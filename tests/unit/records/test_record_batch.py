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
    for position in (0, 40):
        with pytest.raises(CorruptRecords, match="a batch's header needs 61 bytes, 60 remain"):
            read_header(bytes(60 + position), position)
        assert read_header(bytes(61 + position), position).record_count == 0


@pytest.mark.parametrize("position", [0, 7])
@pytest.mark.parametrize(
    ("length", "magic", "size", "message"),
    [
        (14, 2, 11, None),
        (-1, 2, 11, None),
        (13, 2, 12, "batch length 13 at byte {} is less than the minimum 14"),
        (-1, 2, 12, "batch length -1 at byte {} is less than the minimum 14"),
        (14, 2, 12, None),
        (14, 9, 16, None),
        (48, 2, 16, None),
        (48, 2, 17, "batch of 60 bytes is smaller than its header, 61"),
        (14, 2, 17, "batch of 26 bytes is smaller than its header, 61"),
        (49, 2, 17, None),
        (49, 2, 60, None),
        (48, 2, 61, "batch of 60 bytes is smaller than its header, 61"),
        (50, 2, 61, None),
        (49, -1, 17, "invalid magic -1 at byte {}"),
        (49, 3, 17, "invalid magic 3 at byte {}"),
        (14, 127, 61, "invalid magic 127 at byte {}"),
        (14, 0, 17, "message format 0 at byte {}, expected 2"),
        (49, 1, 61, "message format 1 at byte {}, expected 2"),
    ],
)
def test_what_is_seen_of_a_batch_may_be_enough_to_refuse_it(
    length: int, magic: int, size: int, message: str | None, position: int
) -> None:
    """Kafka's ByteBufferLogInputStream: a length from 12 bytes on, a magic from 17 bytes on."""
    head = struct.pack("!qiib", 0, length, 0, magic) + bytes(44)
    view = memoryview(bytes(position) + head[:size])
    if message is None:
        assert batch_at(view, position) is None
        return
    with pytest.raises(RecordsError, match=message.format(position)):
        batch_at(view, position)


def test_a_batch_of_a_header_alone_is_whole() -> None:
    batch = batch_at(memoryview(struct.pack("!qiib", 5, 49, 0, 2) + bytes(44)))
    assert batch is not None
    assert (len(batch.view), batch.header.size_bytes, list(batch.records())) == (61, 61, [])


def test_a_batch_of_no_records_has_none_whatever_follows_its_header() -> None:
    for codec in Compression:
        data = bytearray(build(b"a"))
        struct.pack_into("!h", data, 21, codec)
        struct.pack_into("!i", data, 57, 0)
        assert list(writable(bytes(data)).records()) == []


def test_no_batch_has_less_than_no_records() -> None:
    data = bytearray(build(b"a"))
    struct.pack_into("!i", data, 57, -1)
    with pytest.raises(RecordsError, match="-1 records cannot fit into"):
        list(writable(bytes(data)).records())


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


def test_timestamps_that_are_right_already_leave_even_a_wrong_crc_alone() -> None:
    data = bytearray(build(b"a", b"b"))
    data[-1] ^= 1
    batch = writable(bytes(data))
    set_timestamp_type(batch, TimestampType.CREATE_TIME, NOW_MS + 1)
    assert batch.view == data
    for kind, largest in ((TimestampType.CREATE_TIME, NOW_MS), (TimestampType.LOG_APPEND_TIME, NOW_MS + 1)):
        batch = writable(bytes(data))
        set_timestamp_type(batch, kind, largest)
        patched = batch_at(batch.view)
        assert patched is not None
        assert (patched.header.timestamp_type, patched.header.max_timestamp) == (kind, largest)
        assert patched.crc_is_right()
        assert patched.header._replace(crc=0, attributes=0, max_timestamp=0) == batch.header._replace(
            crc=0, attributes=0, max_timestamp=0
        )


def test_one_flipped_bit_makes_the_crc_wrong() -> None:
    data = build(b"value")
    for position in (21, 30, len(data) - 1):
        damaged = bytearray(data)
        damaged[position] ^= 1
        assert not RecordBatch(memoryview(damaged), read_header(damaged)).crc_is_right()
