"""What compaction reads of a batch's bytes, and the bytes that it leaves."""

from __future__ import annotations

import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.log.decide.compacted_batches import Entry, emptied, read_entries, retain_entries, with_delete_horizon
from kavka.model import NO_TIMESTAMP
from kavka.records.batch import LOG_APPEND_TIME_FLAG, BatchHeader, RecordBatch, batch_at
from kavka.records.builder import BatchBuilder, ProducerStamp, seal
from kavka.records.compression import Compression
from kavka.records.record import encode_record
from kavka.records.validation import LONG_MAX
from tests.unit.log.log_support import NOW_MS

CHANGED_BY_FEWER_RECORDS = ("batch_length", "crc", "record_count", "max_timestamp")


def as_batch(data: bytes) -> RecordBatch:
    found = batch_at(memoryview(data))
    assert found is not None
    assert len(found.view) == len(data)
    assert found.crc_is_right()
    return found


def unchanged(header: BatchHeader, *but: str) -> dict[str, int]:
    return {name: value for name, value in header._asdict().items() if name not in but}


# -- records


@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 63, b"k" * 64, b"k" * 8192])
@pytest.mark.parametrize("value", [None, b"", b"v", b"v" * 64])
def test_an_entry_says_where_a_record_lies_and_its_key(key: bytes | None, value: bytes | None) -> None:
    record = encode_record(0, 0, key, value, [("h", b"1"), ("", None)])
    following = encode_record(1, 0, b"f", None, ())
    assert read_entries(record + following, 2) == [
        Entry(0, len(record), 0, 0, key, value is not None),
        Entry(len(record), len(record + following), 1, 0, b"f", False),
    ]


@pytest.mark.parametrize("offset_delta", [0, 1, -1, 2, 63, 64, -64, -65, 8191, 8192, 2**31 - 1])
@pytest.mark.parametrize("timestamp_delta", [0, 1, -1, 2, 63, 64, -64, -65, 8192, NOW_MS, -NOW_MS, LONG_MAX])
def test_an_entry_says_a_records_deltas(offset_delta: int, timestamp_delta: int) -> None:
    record = encode_record(offset_delta, timestamp_delta, b"k", b"v", ())
    assert read_entries(memoryview(record), 1) == [Entry(0, len(record), offset_delta, timestamp_delta, b"k", True)]


def test_no_records_are_no_entries() -> None:
    assert read_entries(b"", 0) == []


def test_a_key_may_be_the_longer_part_of_a_record_of_which_only_the_length_of_the_value_follows() -> None:
    """The value's length is the last byte that is looked at, and belongs to the record."""
    record = bytes([12, 0, 0, 0, 2]) + b"k" + b"\x01"
    assert read_entries(record, 1) == [Entry(0, 7, 0, 0, b"k", False)]


def refusal(payload: bytes, count: int) -> str:
    with pytest.raises(RecordsError) as refused:
        read_entries(payload, count)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    return refused.value.message


def test_records_that_do_not_fill_their_bytes_are_refused() -> None:
    record = encode_record(0, 0, b"k", b"v", ())
    size = len(record)
    assert size == 9
    assert refusal(record * 2 + b"xyz", 2) == "record 2 of the batch: 3 bytes follow the last record"
    assert refusal(record, 0) == "record 0 of the batch: 9 bytes follow the last record"
    for there in (7, 8):
        why = f"it ends at byte 18 of {9 + there}, its value begins at 15"
        assert refusal(record + record[:there], 2) == f"record 1 of the batch: {why}"
    for there in range(7):
        why = "a field reaches behind the end of the records"
        assert refusal(record + record[:there], 2) == f"record 1 of the batch: {why}"


def test_a_record_that_ends_before_its_value_is_refused() -> None:
    # Length 6, with a key of one byte: the value's length would be the seventh byte of the record.
    record = bytes([10, 0, 0, 0, 2]) + b"k" + b"\x01"
    assert refusal(record, 1) == "record 0 of the batch: it ends at byte 6 of 7, its value begins at 6"
    negative = bytes([1, 0, 0, 0, 2]) + b"k" + b"\x01"
    assert refusal(negative, 1) == "record 0 of the batch: it ends at byte 0 of 7, its value begins at 6"


@pytest.mark.parametrize("field", range(4))
def test_a_number_of_too_many_bits_is_refused(field: int) -> None:
    """The length, the offset and the key's size have 32 bits, the time has 64."""
    most = 10 if field == 1 else 5
    before = [bytes([60]), b"\x00", b"\x00", b"\x00"][: field + (field > 0)]
    too_long = b"".join(before) + b"\x80" * most + b"\x00" * 40
    assert refusal(too_long, 1).startswith(f"varint of more than {64 if field == 1 else 32} bits")


# -- batches


def batch_of(codec: Compression = Compression.NONE, *, flags: int = 0, times: tuple[int, ...] = ()) -> RecordBatch:
    """Six records at 40 to 45."""
    builder = BatchBuilder(codec)
    for number, time in enumerate(times or (5, 3, 9, 1, 7, 2)):
        builder.append(NOW_MS + time, b"k%d" % number, b"v" * number if number != 4 else None, [("h", b"%d" % number)])
    stamp = ProducerStamp(7, 3, 100, is_transactional=True)
    built = as_batch(builder.build(stamp, base_offset=40, partition_leader_epoch=8))
    return as_batch(seal(built.header._replace(attributes=built.header.attributes | flags), built.payload))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.LZ4])
@pytest.mark.parametrize(
    ("kept", "latest"),
    [
        ((0,), 5),
        ((5,), 2),
        ((1, 2), 9),
        ((0, 1, 3, 4), 7),
        ((0, 2, 4), 9),
        ((1, 3, 5), 3),
        ((3,), 1),
        ((0, 1, 2, 3, 4, 5), 9),
    ],
)
def test_of_a_batch_the_records_that_stay_keep_their_bytes(
    codec: Compression, kept: tuple[int, ...], latest: int
) -> None:
    whole = batch_of(codec)
    payload = bytes(whole.inflate())
    entries = read_entries(payload, 6)
    left = as_batch(retain_entries(whole, payload, [entries[number] for number in kept]))
    assert left.header.record_count == len(kept)
    assert left.header.max_timestamp == NOW_MS + latest
    assert unchanged(left.header, *CHANGED_BY_FEWER_RECORDS) == unchanged(whole.header, *CHANGED_BY_FEWER_RECORDS)
    assert left.inflate() == b"".join(payload[entries[number].start : entries[number].end] for number in kept)
    records = list(whole.records())
    assert list(left.records()) == [records[number] for number in kept]


def test_the_time_of_an_append_stays_that_of_the_batch() -> None:
    whole = batch_of(flags=LOG_APPEND_TIME_FLAG)
    payload = whole.inflate()
    left = as_batch(retain_entries(whole, payload, read_entries(payload, 6)[3:4]))
    assert left.header.max_timestamp == NOW_MS + 9
    assert [record.timestamp for record in left.records()] == [NOW_MS + 9]


def test_records_without_times_leave_a_batch_without_one() -> None:
    builder = BatchBuilder()
    for _ in range(3):
        builder.append(NO_TIMESTAMP, b"k", b"v")
    whole = as_batch(builder.build())
    left = as_batch(retain_entries(whole, whole.inflate(), read_entries(whole.inflate(), 3)[1:]))
    assert (left.header.base_timestamp, left.header.max_timestamp) == (NO_TIMESTAMP, NO_TIMESTAMP)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_delete_horizon_takes_the_place_of_the_first_time_and_no_record_changes(codec: Compression) -> None:
    whole = batch_of(codec)
    entries = read_entries(whole.inflate(), 6)
    left = as_batch(with_delete_horizon(whole, [entries[1], entries[4]], NOW_MS + 1000))
    assert left.header.delete_horizon_ms == left.header.base_timestamp == NOW_MS + 1000
    assert left.header.attributes == whole.header.attributes | 0x40
    assert (left.header.record_count, left.header.max_timestamp) == (2, NOW_MS + 7)
    changed = (*CHANGED_BY_FEWER_RECORDS, "attributes", "base_timestamp")
    assert unchanged(left.header, *changed) == unchanged(whole.header, *changed)
    records = list(whole.records())
    assert list(left.records()) == [records[1], records[4]]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("flags", [0, LOG_APPEND_TIME_FLAG, 0x40, 0x20])
def test_an_emptied_batch_is_a_header_of_the_producer_and_the_offsets(codec: Compression, flags: int) -> None:
    """As Kafka's DefaultRecordBatch.writeEmptyHeader has it: no codec, no horizon, no first time, and the last one."""
    whole = batch_of(codec, flags=flags)
    left = as_batch(emptied(whole))
    assert len(left.view) == 61
    assert left.header.attributes == 0x10 | flags & ~0x40
    assert (left.header.record_count, left.header.base_timestamp) == (0, -1)
    assert left.header.max_timestamp == NOW_MS + 9
    changed = ("batch_length", "crc", "attributes", "record_count", "base_timestamp")
    assert unchanged(left.header, *changed) == unchanged(whole.header, *changed)
    assert list(left.records()) == []
