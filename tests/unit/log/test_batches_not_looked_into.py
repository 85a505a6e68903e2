"""Batches too large to be looked into at the door, broken in each way that it lets in: they harm only who reads them.

Searches by time, compaction, retention, a start after a crash, kavka's client and Spark meet each kind. They may refuse
these records; nothing else of the log may suffer.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kavka.errors import RecordsError
from kavka.log.log_config import LogConfig
from kavka.records.batch import iterate_batches, read_header
from kavka.records.builder import BatchBuilder, seal
from kavka.records.compression import Compression
from kavka.records.record import encode_varint
from kavka.records.validation import INFLATED_RECORDS_BYTES
from kavka_spark.decoder import Wanted, decode_batches
from kavka_spark.errors import CorruptBatchError
from tests.unit.log.compaction_support import COMPACTED, Store
from tests.unit.log.log_support import NOW_MS, find_time, reopen

DELETED = LogConfig(segment_bytes=1 << 20, index_interval_bytes=150, file_delete_delay_ms=0, retention_ms=1000)
NOTHING_MORE = encode_varint(0)


def record(offset_delta: int, value: bytes = b"v", *, timestamp_delta: int = 0, headers: bytes = NOTHING_MORE) -> bytes:
    fields = encode_varint(timestamp_delta) + encode_varint(offset_delta) + encode_varint(1) + b"k"
    body = b"\0" + fields + encode_varint(len(value)) + value + headers
    return encode_varint(len(body)) + body


def sealed(records: bytes, count: int, **fields: int) -> bytes:
    """A batch that says that it has `count` records, and has these bytes."""
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    header = read_header(builder.build())
    said = {"attributes": int(Compression.GZIP), "record_count": count, "last_offset_delta": count - 1, **fields}
    return seal(header._replace(**said), gzip.compress(records, 1))


def noise() -> bytes:
    piece = random.Random(7).randbytes(30_000)
    return piece * (INFLATED_RECORDS_BYTES // len(piece) + 1)


def first() -> bytes:
    return record(0, bytes(INFLATED_RECORDS_BYTES + 1))


KINDS: dict[str, Callable[[], bytes]] = {
    "noise": lambda: sealed(noise(), 5_000),
    "fewer than it says": lambda: sealed(first() + record(1), 10),
    "more than it says": lambda: sealed(first() + record(1) + record(2), 2),
    "a length over the end": lambda: sealed(first() + encode_varint(1_000) + b"\0\0", 2),
    "a key of negative length": lambda: sealed(
        first() + encode_varint(6) + b"\0\0\x02" + encode_varint(-7) + b"\0\0", 2
    ),
    "headers without end": lambda: sealed(first() + record(1, headers=encode_varint(1_000)), 2),
    "a header's name that is no text": lambda: sealed(first() + record(1, headers=b"\x02\x04\xff\xfe\x02x"), 2),
    "offsets that jump": lambda: sealed(first() + record(5_000), 2),
    "offsets that go back": lambda: sealed(first() + record(0) + record(0), 3),
    "timestamps over the end": lambda: sealed(
        first() + record(1, timestamp_delta=1 << 62), 2, base_timestamp=(1 << 63) - 5
    ),
    "a negative largest timestamp": lambda: sealed(first() + record(1), 2, max_timestamp=-5),
}


@cache
def bad_batch(kind: str) -> bytes:
    return KINDS[kind]()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A log with good records around one bad batch, which begins at offset 2 and is the last of its segment."""
    found = Store(tmp_path, config=DELETED)
    found.put((b"a", b"1"), (b"b", b"2"))
    found.log.append_as_leader(bytearray(bad_batch(request.param)), 0, NOW_MS)
    found.log.advance_high_watermark(found.log.log_end_offset)
    found.roll()
    found.put((b"a", b"3"), (b"k", b"4"))
    return found


def stored(store: Store) -> bytes:
    log = store.log
    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 24, max_offset=log.log_end_offset, min_one_batch=True)
        data += b"".join(chunk.tobytes() for chunk in read.chunks)
        offset = list(iterate_batches(memoryview(data)))[-1].header.last_offset + 1
    return data


def good_values(store: Store) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of what is not in the bad batch."""
    batches = [batch for batch in iterate_batches(memoryview(stored(store))) if batch.header.base_offset != 2]
    return [(found.offset, found.key, found.value) for batch in batches for found in batch.records()]


def test_a_search_by_time_finds_the_good_records_or_says_that_some_cannot_be_read(store: Store) -> None:
    end = store.log.log_end_offset
    found = find_time(store.log, NOW_MS)
    assert found is not None
    assert found.offset == 0
    for timestamp in (0, NOW_MS + 1, NOW_MS + 2, 1 << 62, None):
        try:
            found = find_time(store.log, timestamp)
        except RecordsError:
            continue
        assert found is None or 0 <= found.offset < end


def test_clients_and_spark_refuse_the_batch_or_read_it(store: Store) -> None:
    data = stored(store)
    refused = []
    for batch in iterate_batches(memoryview(data)):
        try:
            assert len(list(batch.records())) == batch.header.record_count
        except RecordsError:
            refused.append(batch.header.base_offset)
    assert refused in ([], [2])
    for columns in (("offset",), ("offset", "timestamp", "key", "value", "headers")):
        rows, refusal = 0, ""
        try:
            for found in decode_batches(data, columns, Wanted("orders", 0)):
                rows += found.num_rows
        except CorruptBatchError as error:
            refusal = str(error)
        assert "at offset 2" in refusal if refusal else rows == store.log.log_end_offset


def test_compaction_keeps_the_newest_of_each_key_or_leaves_this_log_alone(store: Store) -> None:
    before, end = good_values(store), store.log.log_end_offset
    store.roll()
    store.put((b"z", b"5"))
    store.log.reconfigure(replace(COMPACTED, max_compaction_lag_ms=1))
    store.clean()
    after = good_values(store)[:-1]
    if store.cleaner.uncleanable(str(store.path)):
        assert after == before
    else:
        assert after == [(1, b"b", b"2"), (end - 2, b"a", b"3"), (end - 1, b"k", b"4")]
    store.logs.close(store.now_ms)
    store.open()
    assert good_values(store)[:-1] == after
    assert store.log.log_end_offset == end + 1


def test_retention_takes_it_with_its_segment(store: Store) -> None:
    end = store.log.log_end_offset
    assert store.log.delete_old_segments(store.now_ms + 1_000_000)
    assert store.log.log_start_offset == store.log.log_end_offset == end


def test_a_start_after_a_crash_finds_all_of_it(store: Store) -> None:
    """No checkpoint says what is on the disk: every batch is read again."""
    before, end = good_values(store), store.log.log_end_offset
    store.log = reopen(store.log, recovery_point=0)
    assert store.log.log_end_offset == end
    assert good_values(store) == before
