"""CommittedRecords: what of the offsets log counts, when there are transactions in it.

Decides which records of a log that is read from its start are committed, and in which order they hold. Must not know
what the records say.

    I1  a record of a transaction counts when its commit marker is reached, and never if it was aborted or left open
    I2  of one key the record with the highest offset holds: a commit marker brings nothing back that was written over
        after the record and before the marker

The offsets of a transactional consumer are written so.

Source: KIP-98; Kafka's GroupMetadataManager.doLoadGroupsAndOffsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.model import Offset
from kavka.records.batch import RecordBatch
from kavka.records.control import ControlType, read_marker


class _Pending(NamedTuple):
    offset: Offset
    record: CoordinatorRecord
    producer_epoch: int


class CommittedRecords:
    """To be given every batch of a log in order, from the first one on."""

    def __init__(self) -> None:
        self._pending: dict[int, dict[bytes, _Pending]] = {}
        """The records of open transactions, by producer id and key; of one key the last."""

    def read(self, batch: RecordBatch, offset: Offset) -> Iterator[CoordinatorRecord]:
        """The records that count once `batch` is read, those before `offset` left out.

        Raises `RecordsError` for a batch that cannot be read.
        """
        header = batch.header
        if header.is_control:
            # An emptied control batch, as compaction may leave it, tells nothing any more.
            marker = read_marker(batch) if header.record_count else None
            if marker is not None:
                yield from self._end(header.producer_id, marker.control_type)
            return
        for record in batch.records():
            if record.offset < offset or record.key is None:
                continue
            found = CoordinatorRecord(bytes(record.key), None if record.value is None else bytes(record.value))
            if header.is_transactional:
                self._pending.setdefault(header.producer_id, {})[found.key] = _Pending(
                    record.offset, found, header.producer_epoch
                )
            else:
                if self._pending:
                    self._write_over(found.key, record.offset)
                yield found

    def open_transactions(self) -> Iterator[OpenTransaction]:
        """What transactions have written that no marker ended yet, in the order in which they began."""
        for producer_id, records in self._pending.items():
            if records:
                last = max(records.values())
                written = [pending.record for pending in sorted(records.values())]
                yield OpenTransaction(producer_id, last.producer_epoch, written)

    def _end(self, producer_id: int, ending: ControlType) -> Iterator[CoordinatorRecord]:
        ended = self._pending.pop(producer_id, {})
        if ending is ControlType.COMMIT:
            for pending in ended.values():
                self._write_over(pending.record.key, pending.offset)
                yield pending.record

    def _write_over(self, key: bytes, offset: Offset) -> None:
        """The record at `offset` counts: what open transactions wrote before it to the same key does not any more."""
        for records in self._pending.values():
            if key in records and records[key].offset < offset:
                del records[key]
