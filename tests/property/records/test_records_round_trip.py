"""Batches of any records with any codec, and bytes of any kind."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PeerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PeerBuilder

from kavka.errors import RecordsError
from kavka.records.batch import batch_at, iterate_batches
from kavka.records.builder import BatchBuilder, ProducerStamp, seal
from kavka.records.compression import Compression, check_frame, decompress
from kavka.records.record import encode_varint, read_varint
from kavka.records.validation import ProduceRules, validate_produced

optional_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=3).map(tuple)
timestamps = st.integers(min_value=0, max_value=2**45)
records = st.lists(st.tuples(timestamps, optional_bytes, optional_bytes, headers), min_size=1, max_size=30)
codecs = st.sampled_from(Compression)
RULES = ProduceRules(max_message_bytes=1 << 20)


@given(records, codecs, st.integers(0, 2**62))
def test_records_come_back_as_they_went_in(items: list, codec: Compression, base_offset: int) -> None:
    builder = BatchBuilder(codec)
    for item in items:
        builder.append(*item)
    (batch,) = iterate_batches(memoryview(builder.build(ProducerStamp(1, 2, 3), base_offset=base_offset)))
    assert batch.crc_is_right()
    read = list(batch.records())
    assert [tuple(record[1:]) for record in read] == items
    assert [record.offset for record in read] == list(range(base_offset, base_offset + len(items)))


@given(records, codecs)
def test_what_the_builder_builds_is_taken_as_it_is(items: list, codec: Compression) -> None:
    builder = BatchBuilder(codec)
    for item in items:
        builder.append(*item)
    built = builder.build()
    batch = validate_produced(memoryview(bytearray(built)), RULES, 0)
    assert batch.header.max_timestamp == max(item[0] for item in items)
    assert batch.view == built


@given(records, st.booleans())
def test_plain_batches_have_the_bytes_of_another_client(items: list, transactional: bool) -> None:
    peer = PeerBuilder(2, 0, transactional, 5, 1, 7, 1 << 30)
    builder = BatchBuilder()
    for index, (timestamp, key, value, fields) in enumerate(items):
        peer.append(index, timestamp, key, value, list(fields))
        builder.append(timestamp, key, value, fields)
    expected = bytearray(peer.build())
    # That client leaves 0 for the leader epoch, which is outside the CRC; Kafka's own writes -1, as here.
    expected[12:16] = b"\xff\xff\xff\xff"
    assert builder.build(ProducerStamp(5, 1, 7, is_transactional=transactional)) == bytes(expected)


@given(records, codecs)
def test_another_client_reads_every_codec(items: list, codec: Compression) -> None:
    if codec not in (Compression.NONE, Compression.GZIP):
        return  # the peer needs further packages for the others; integration tests cover them
    builder = BatchBuilder(codec)
    for item in items:
        builder.append(*item)
    peer = PeerBatch(builder.build())
    assert peer.validate_crc()
    assert [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in peer] == items


@given(st.binary(max_size=200), codecs)
def test_garbage_raises_nothing_but_records_errors(data: bytes, codec: Compression) -> None:
    for attempt in (
        lambda: list(iterate_batches(memoryview(data))),
        lambda: validate_produced(memoryview(bytearray(data)), RULES, 0),
        lambda: decompress(codec, data, max_size=10_000),
        lambda: check_frame(codec, memoryview(data), max_blocks=10),
    ):
        try:
            attempt()
        except RecordsError:
            pass


@given(records, codecs, st.binary(max_size=40), st.integers(0, 5000), st.integers(0, 40), st.integers(-3, 50))
def test_damaged_records_with_a_right_crc_raise_nothing_but_records_errors(
    items: list, codec: Compression, noise: bytes, position: int, removed: int, count: int
) -> None:
    builder = BatchBuilder(codec)
    for item in items:
        builder.append(*item)
    whole = batch_at(memoryview(builder.build()))
    assert whole is not None
    payload = bytes(whole.payload)
    position %= len(payload)
    damaged = payload[:position] + noise + payload[position + removed :]
    header = whole.header._replace(record_count=count, last_offset_delta=count - 1)
    batch = batch_at(memoryview(seal(header, damaged)))
    assert batch is not None
    for attempt in (
        lambda: list(batch.records(max_size=100_000)),
        lambda: validate_produced(batch.view, RULES, 0),
        lambda: validate_produced(batch.view, RULES._replace(compacted=True), 0),
    ):
        try:
            attempt()
        except RecordsError:
            pass


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back(value: int) -> None:
    data = encode_varint(value)
    assert read_varint(data, 0, bits=64) == (value, len(data))
