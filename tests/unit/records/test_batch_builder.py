"""Building batches, the markers of transactions, and what compaction leaves of a batch."""

import pytest

from kavka.errors import CorruptRecords, ErrorCode, RecordsError
from kavka.records.batch import RecordBatch, batch_at
from kavka.records.builder import BatchBuilder, EncodedRecords, ProducerStamp, recompress, retain_records, seal
from kavka.records.compression import Compression, compress
from kavka.records.control import ControlType, EndTransactionMarker, build_marker, read_marker
from kavka.records.record import Record, encode_record

NOW_MS = 1_700_000_000_000


def parse(data: bytes) -> RecordBatch:
    batch = batch_at(memoryview(data))
    assert batch is not None
    assert batch.crc_is_right()
    assert len(batch.view) == len(data)
    return batch


def test_the_first_record_sets_the_base_timestamp_and_the_largest_the_maximum() -> None:
    builder = BatchBuilder()
    for delta in (0, -5, 9, 3):
        builder.append(NOW_MS + delta, None, b"v")
    header = parse(builder.build()).header
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 9)
    assert (header.record_count, header.last_offset_delta, header.producer_id, header.base_sequence) == (4, 3, -1, -1)


def test_values_in_bulk_give_the_same_bytes_as_one_by_one() -> None:
    values = [b"", b"x", b"y" * 63, b"z" * 64, b"w" * 9000] * 2000
    bulk, single = BatchBuilder(), BatchBuilder()
    assert bulk.append_values(NOW_MS, values, 0, 1 << 30) == len(values)
    for value in values:
        single.append(NOW_MS, None, value)
    assert bulk.size_bytes == single.size_bytes
    assert bulk.build() == single.build()


def test_values_in_bulk_give_the_same_bytes_at_every_width() -> None:
    values = [b"v" * size for size in (*range(50, 70), *range(8_170, 8_200))]
    bulk, single = BatchBuilder(), BatchBuilder()
    bulk.append_values(NOW_MS, values, 0, 1 << 30)
    for value in values:
        single.append(NOW_MS, None, value)
    assert bulk.build() == single.build()


def test_values_in_bulk_may_be_older_or_later_than_the_records_before_them() -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    for delta, largest in ((-5, 0), (7, 7), (3, 7)):
        builder.append_values(NOW_MS + delta, [b"w"], 0, 1 << 30)
        batch = parse(builder.build())
        assert (batch.header.base_timestamp, batch.header.max_timestamp) == (NOW_MS, NOW_MS + largest)
        assert [record.timestamp for record in batch.records()][-1] == NOW_MS + delta


def test_a_plain_batch_is_of_no_producer() -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v" * 100)
    header = parse(builder.build()).header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.base_offset, header.partition_leader_epoch, header.attributes) == (0, -1, 0)
    assert builder.size_bytes == len(builder.build()) == 61 + builder.payload_bytes


def test_values_in_bulk_fill_the_size_to_its_last_byte() -> None:
    values = [b"v" * 100] * 10
    size = len(encode_record(0, 0, None, values[0]))
    for max_bytes, count in ((3 * size - 1, 2), (3 * size, 3), (3 * size + 1, 3)):
        builder = BatchBuilder()
        assert builder.append_values(NOW_MS, values, 0, max_bytes) == count
        assert (builder.record_count, builder.payload_bytes) == (count, count * size)
        assert builder.append_values(NOW_MS, values, 5, max_bytes) == 6, "at least one, as said"


def test_values_in_bulk_stop_at_the_size_but_take_at_least_one() -> None:
    values = [b"v" * 100] * 10
    builder = BatchBuilder()
    taken = builder.append_values(NOW_MS, values, 0, 350)
    assert taken == 3
    assert builder.payload_bytes <= 350
    assert BatchBuilder().append_values(NOW_MS, values, 9, 1) == 10


def test_a_batch_may_be_built_again_with_another_stamp() -> None:
    builder = BatchBuilder(Compression.ZSTD)
    builder.append(NOW_MS, b"k", b"v", (("h", b"1"), ("h", None)))
    first = parse(builder.build(ProducerStamp(7, 0, 0)))
    second = parse(builder.build(ProducerStamp(7, 1, 5, is_transactional=True)))
    assert list(first.records()) == list(second.records())
    assert (second.header.producer_epoch, second.header.base_sequence) == (1, 5)
    assert second.header.is_transactional


@pytest.mark.parametrize("compression", list(Compression))
def test_records_laid_out_elsewhere_give_the_batch_that_the_builder_gives(compression: Compression) -> None:
    builder = BatchBuilder(compression)
    builder.append(NOW_MS, b"k", b"v")
    builder.append(NOW_MS + 3, None, b"w")
    stamp = ProducerStamp(7, 1, 5, is_transactional=True)
    expected = builder.build(stamp)
    payload = bytes(parse(expected).inflate())
    encoded = EncodedRecords(
        compress(compression, payload),
        2,
        timestamps=(NOW_MS, NOW_MS + 3),
        compression=compression,
        payload_bytes=len(payload),
    )
    assert encoded.build(stamp) == expected
    assert encoded.payload_bytes == builder.payload_bytes


@pytest.mark.parametrize("compression", list(Compression))
def test_another_codec_keeps_records_and_header(compression: Compression) -> None:
    builder = BatchBuilder(Compression.SNAPPY)
    for index in range(100):
        builder.append(NOW_MS, b"%d" % index, b"v")
    original = parse(builder.build(ProducerStamp(5, 1, 3), base_offset=9))
    changed = parse(recompress(original, compression))
    assert changed.header.compression is compression
    assert list(changed.records()) == list(original.records())
    assert changed.header.base_sequence == 3


@pytest.mark.parametrize("compression", list(Compression))
def test_offsets_that_do_not_count_up_do_so_with_another_codec(compression: Compression) -> None:
    rows = [(0, 0, b"k", b"v", ()), (5, -3, None, b"", (("h", b"x"), ("h", None))), (2, 7, b"", None, ())]
    builder = BatchBuilder()
    for _, delta, key, value, headers in rows:
        builder.append(NOW_MS + delta, key, value, headers)
    header = parse(builder.build(ProducerStamp(5, 1, 3), base_offset=9)).header
    original = parse(seal(header, b"".join(encode_record(*row) for row in rows)))
    changed = parse(recompress(original, compression))
    assert [tuple(record) for record in changed.records()] == [
        (9 + index, NOW_MS + delta, key, value, headers) for index, (_, delta, key, value, headers) in enumerate(rows)
    ]
    assert changed.header == header._replace(
        attributes=compression, batch_length=changed.header.batch_length, crc=changed.header.crc
    )


def test_records_that_count_up_keep_their_bytes_with_another_codec() -> None:
    """Also bytes that no encoder would write: a length of two bytes that needs one."""
    one = encode_record(0, 0, b"k", b"v")
    payload = bytes((one[0] | 0x80, 0)) + one[1:]
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    original = parse(seal(parse(builder.build()).header, payload))
    assert bytes(parse(recompress(original, Compression.ZSTD)).inflate()) == payload


def test_of_a_batch_that_is_laid_out_anew_only_so_many_records_are_looked_at() -> None:
    builder = BatchBuilder()
    for _ in range(20):
        builder.append(NOW_MS, b"k", b"")
    counting = parse(builder.build())
    assert parse(recompress(counting, Compression.LZ4, most_parts=0)).header.record_count == 20
    others = parse(seal(counting.header, encode_record(7, 0, b"k", b"") * 20))
    assert parse(recompress(others, Compression.LZ4, most_parts=20)).header.record_count == 20
    with pytest.raises(RecordsError, match="ended after record 19") as refusal:
        recompress(others, Compression.LZ4, most_parts=19)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_what_inflates_to_too_much_is_not_laid_out_anew() -> None:
    builder = BatchBuilder(Compression.ZSTD)
    builder.append(NOW_MS, None, bytes(1000))
    original = parse(builder.build())
    size = len(original.inflate())
    assert parse(recompress(original, Compression.NONE, max_inflated_bytes=size)).header.record_count == 1
    with pytest.raises(RecordsError) as refusal:
        recompress(original, Compression.NONE, max_inflated_bytes=size - 1)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_compaction_keeps_the_offsets_of_what_it_keeps() -> None:
    builder = BatchBuilder(Compression.LZ4)
    for index in range(10):
        builder.append(NOW_MS + index, b"%d" % index, b"v", (("h", b"x"),))
    original = parse(builder.build(ProducerStamp(5, 1, 3), base_offset=100))
    kept = [record for record in original.records() if record.offset % 3 == 0]
    batch = parse(retain_records(original, kept))
    assert batch.header.base_timestamp == kept[0].timestamp == NOW_MS + 2
    assert list(batch.records()) == kept
    assert (batch.header.base_offset, batch.header.last_offset, batch.header.last_sequence) == (100, 109, 12)
    assert batch.header.record_count == 3
    assert batch.header.max_timestamp == NOW_MS + 8


def test_a_delete_horizon_is_kept_and_does_not_move_timestamps() -> None:
    builder = BatchBuilder()
    for index in range(3):
        builder.append(NOW_MS + index, b"k%d" % index, None)
    original = parse(builder.build(base_offset=5))
    marked = parse(retain_records(original, list(original.records()), delete_horizon_ms=NOW_MS + 86_400_000))
    assert marked.header.delete_horizon_ms == NOW_MS + 86_400_000
    assert list(marked.records()) == list(original.records())
    again = parse(retain_records(marked, list(marked.records())[1:]))
    assert again.header.delete_horizon_ms == NOW_MS + 86_400_000


def test_a_batch_of_which_nothing_is_left_still_tells_offsets_and_sequences() -> None:
    builder = BatchBuilder(Compression.GZIP)
    builder.append(NOW_MS, b"k", b"v")
    original = parse(builder.build(ProducerStamp(5, 1, 3), base_offset=100))
    empty = parse(retain_records(original, []))
    assert list(empty.records()) == []
    assert (empty.header.last_offset, empty.header.producer_id, empty.header.record_count) == (100, 5, 0)
    assert len(empty.view) == 61


@pytest.mark.parametrize(("control_type", "type_id"), [(ControlType.ABORT, 0), (ControlType.COMMIT, 1)])
def test_a_marker_has_the_bytes_of_kafkas(control_type: ControlType, type_id: int) -> None:
    data = build_marker(EndTransactionMarker(control_type, 12), producer_id=9, producer_epoch=2, timestamp=NOW_MS)
    (record,) = parse(data).records()
    assert record == Record(0, NOW_MS, bytes((0, 0, 0, type_id)), bytes(2) + (12).to_bytes(4, "big"))


@pytest.mark.parametrize("control_type", list(ControlType))
def test_a_marker_reads_as_it_was_written(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, 12)
    batch = parse(build_marker(marker, producer_id=9, producer_epoch=2, timestamp=NOW_MS, base_offset=77))
    assert read_marker(batch) == marker
    header = batch.header
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, -1)


def control_batch(*records: tuple[bytes | None, bytes | None]) -> RecordBatch:
    builder = BatchBuilder()
    for key, value in records:
        builder.append(NOW_MS, key, value)
    return parse(builder.build(ProducerStamp(is_control=True), base_offset=77))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "control batch at offset 77 without a control record"),
        ([(None, b"")], "control batch at offset 77 without a control record"),
        ([(b"\0\0\0", bytes(6))], "control batch at offset 77 without a control record"),
        ([(b"\xff\xff\0\0", bytes(6))], "control record at offset 77 of version -1"),
        ([(bytes(4), None)], "marker at offset 77 without a coordinator epoch"),
        ([(bytes(4), bytes(5))], "marker at offset 77 without a coordinator epoch"),
        ([(bytes(4), b"\xff\xff" + bytes(4))], "marker at offset 77 of version -1"),
    ],
)
def test_what_is_no_control_record_is_corrupt(records: list[tuple[bytes | None, bytes | None]], message: str) -> None:
    with pytest.raises(CorruptRecords, match=message):
        read_marker(control_batch(*records))


def test_control_records_of_other_kinds_are_skipped_and_those_of_later_versions_read() -> None:
    for kind in (-1, 2, 5, 6):
        assert read_marker(control_batch((bytes(2) + kind.to_bytes(2, "big", signed=True), None))) is None
    later = control_batch((b"\0\1\0\1more", b"\0\1\0\0\0\7more"))
    assert read_marker(later) == EndTransactionMarker(ControlType.COMMIT, 7)
