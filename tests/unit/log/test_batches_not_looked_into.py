"""Batches too large to be looked into at the door, broken in each way that it lets in: they harm only who reads them.

Searches by time, compaction, retention, a start after a crash, kavka's client and Spark meet each kind. They may refuse
these records; nothing else of the log may suffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kavka.errors import RecordsError
from kavka.log.log_config import LogConfig
from kavka.records.batch import iterate_batches
from kavka_spark.decoder import Wanted, decode_batches
from kavka_spark.errors import CorruptBatchError
from tests.kit.believed_batches import KINDS, believed
from tests.unit.log.compaction_support import COMPACTED, Store
from tests.unit.log.log_support import NOW_MS, find_time, reopen

DELETED = LogConfig(segment_bytes=1 << 20, index_interval_bytes=150, file_delete_delay_ms=0, retention_ms=1000)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A log with good records around one bad batch, which begins at offset 2 and is the last of its segment."""
    found = Store(tmp_path, config=DELETED)
    found.put((b"a", b"1"), (b"b", b"2"))
    found.log.append_as_leader(bytearray(believed(request.param)), 0, NOW_MS)
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
