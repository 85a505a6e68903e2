"""Compaction: which records, tombstones and markers of a log stay when it is compacted, and until when.

Decides batch by batch in the order of offsets: first which record of each key is the last one, then what stays. It must
not know files, segments, or the log.

    record without a key, or below the latest one of its key      goes
    tombstone at or behind its batch's delete horizon             goes; the horizon is set when it is first met here
    record of an aborted transaction                              goes
    marker that may go, says `CleanedTransactions`                goes at its delete horizon, set when first said so
    any other record, and all behind the last offset of the map   stays

    batch without a record left   goes, but for the last one of a producer that is still known (its sequence and epoch),
                                  and the last one of the pass (the log's end, where nothing follows): of those the
                                  header stays, until the next pass finds it needed no more

So a new segment may be empty, or end before the next one begins. More empty headers than these would do harm: consumers
of kafka-go and sarama (up to 1.45.1) ask for ever for an offset whose answer has no record.

    I1  What stays is read as before: offsets, timestamps, keys, values, headers, epochs, sequences.
    I2  A delete horizon is now_ms + delete.retention.ms of the pass that sets it, in 64 bits, and stays until then.

Source: Kafka's Cleaner (shouldRetainRecord, shouldDiscardBatch, buildOffsetMapForSegment); KIP-58, KIP-534.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kavka.log.decide.cleaned_transactions import CleanedTransactions
from kavka.log.decide.compacted_batches import Entry, emptied, read_entries, retain_entries, with_delete_horizon
from kavka.log.decide.indexes import AbortedTransaction
from kavka.log.decide.offset_map import OffsetMap
from kavka.log.decide.producer_state import LastRecord
from kavka.model import Offset
from kavka.records.batch import RecordBatch, batch_at
from kavka.records.validation import LONG_MAX


class Retention(NamedTuple):
    """What decides about tombstones and producers, as it was when the pass began. Times in ms."""

    now_ms: int
    delete_retention_ms: int
    last_records: Mapping[int, LastRecord]
    """Of each producer that is still known."""

    @property
    def horizon_ms(self) -> int:
        """The delete horizon that this pass sets. A delete.retention.ms beyond the end of time means for ever; in
        Apache Kafka's code the sum wraps, to a time that is long past."""
        return min(self.now_ms + self.delete_retention_ms, LONG_MAX)


class CleaningStats:
    """What a pass did so far."""

    __slots__ = ("bytes_read", "bytes_written", "keys", "records_kept", "records_read")

    def __init__(self) -> None:
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_read = 0
        self.records_kept = 0
        self.keys = 0


class Compaction:
    """What one pass knows of a log: call `index` with each batch that may be dirty, then `retain` with each from the
    log's start on."""

    def __init__(self, first_dirty: Offset, offsets: OffsetMap) -> None:
        self._first_dirty = first_dirty
        self._offsets = offsets
        self._indexed = CleanedTransactions()
        self._cleaned = CleanedTransactions()
        self.stats = CleaningStats()

    @property
    def end_offset(self) -> Offset:
        """Up to here the log is clean when the pass is over."""
        return max(self._offsets.latest_offset + 1, self._first_dirty)

    # -- where each key is last

    def index_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Aborted transactions with records in what `index` is given next."""
        self._indexed.add_aborted(transactions)

    def index(self, batch: RecordBatch) -> bool:
        """Notes the keys of a batch. False if the map is full: the log is then clean up to the key that did not fit."""
        header = batch.header
        if header.is_control:
            self._indexed.on_control_batch(batch)
        elif not self._indexed.on_data_batch(batch) and header.record_count:
            put, first, base = self._offsets.put, self._first_dirty, header.base_offset
            for entry in read_entries(batch.inflate(), header.record_count):
                offset = base + entry.offset_delta
                if entry.key is not None and offset >= first and not put(entry.key, offset):
                    self._offsets.latest_offset = max(self._offsets.latest_offset, offset - 1)
                    return False
        if header.last_offset >= self._first_dirty:
            self._offsets.latest_offset = header.last_offset
        return True

    def index_ended(self, next_base: Offset) -> None:
        """All batches of a segment were given to `index`; the next segment begins at `next_base`.

        Its last batch may end before: a segment of Apache Kafka's followers does where the leader's log has a gap. Who
        takes the gap for dirty finds nothing to clean there, again and again (KAFKA-8764).
        """
        self._offsets.latest_offset = max(self._offsets.latest_offset, next_base - 1)

    # -- what stays

    def retain_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Aborted transactions with records in what `retain` is given next."""
        self._cleaned.add_aborted(transactions)

    def take_kept_aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions whose markers stayed since the last call."""
        return self._cleaned.take_kept_aborted()

    def retain(self, batch: RecordBatch, retention: Retention) -> RecordBatch | None:
        """What stays of the batch; None for nothing."""
        header = batch.header
        horizon = header.delete_horizon_ms
        is_past_horizon = horizon is not None and horizon <= retention.now_ms
        self.stats.records_read += header.record_count
        if header.is_control:
            may_go = self._cleaned.on_control_batch(batch)
            if may_go and (is_past_horizon or not header.record_count):
                return self._keep_header(batch, retention)
            if may_go and horizon is None:
                self.stats.records_kept += header.record_count
                entries = read_entries(batch.inflate(), header.record_count)
                return _batch(with_delete_horizon(batch, entries, retention.horizon_ms))
            self.stats.records_kept += header.record_count
            return batch
        if self._cleaned.on_data_batch(batch):
            return self._keep_header(batch, retention)
        if not header.record_count:
            return self._keep_header(batch, retention)
        payload = batch.inflate()
        entries = read_entries(payload, header.record_count)
        kept, has_tombstones = self._kept(header.base_offset, entries, keeps_tombstones=not is_past_horizon)
        self.stats.records_kept += len(kept)
        if not kept:
            return self._keep_header(batch, retention)
        if has_tombstones and horizon is None:
            return _batch(with_delete_horizon(batch, kept, retention.horizon_ms))
        if len(kept) == len(entries):
            return batch
        return _batch(retain_entries(batch, payload, kept))

    def _kept(
        self, base_offset: Offset, entries: Sequence[Entry], *, keeps_tombstones: bool
    ) -> tuple[list[Entry], bool]:
        """The entries that stay, and whether a tombstone is among them."""
        latest, get = self._offsets.latest_offset, self._offsets.get
        kept: list[Entry] = []
        has_tombstones = False
        for entry in entries:
            offset = base_offset + entry.offset_delta
            if offset <= latest:
                if entry.key is None or offset < get(entry.key):
                    continue
                if not entry.has_value and not keeps_tombstones:
                    continue
            if not entry.has_value:
                has_tombstones = True
            kept.append(entry)
        return kept, has_tombstones

    def _keep_header(self, batch: RecordBatch, retention: Retention) -> RecordBatch | None:
        """A batch without its records, kept because its header is still needed."""
        header = batch.header
        is_needed = header.last_offset + 1 == self.end_offset
        if not is_needed and header.producer_id >= 0:
            last = retention.last_records.get(header.producer_id)
            if last is not None and last.data_offset is not None:
                is_needed = header.last_offset == last.data_offset
            elif last is not None:
                is_needed = header.is_control and header.producer_epoch == last.producer_epoch
        if not is_needed:
            return None
        return batch if not header.record_count else _batch(emptied(batch))


def _batch(data: bytes) -> RecordBatch:
    batch = batch_at(memoryview(data))
    assert batch is not None
    return batch
