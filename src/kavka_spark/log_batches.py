"""LogBatches: a row per batch of a log file, for audits: every field of its header, and what is wrong with it.

Decides what each column says. It must not look at records, but for the marker in a control batch.

Invariant
  I1  Nothing raises for what is in a file: bytes that are no batch are a row as well, with `problem`, `position` and
      `size_bytes`, and null where a batch would tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from kavka_spark.batch_columns import batch_value
from kavka_spark.log_scan import ScanEnd, ScannedBatch, Window, marker_kind
from kavka_spark.log_segments import LogPiece


class _Column(NamedTuple):
    ddl: str
    kind: pa.DataType
    of_batch: Callable[[ScannedBatch], Any]


def _same(name: str) -> Callable[[ScannedBatch], Any]:
    return lambda scanned: batch_value(name, scanned.batch)


_COLUMNS: dict[str, _Column] = {
    "base_offset": _Column("long", pa.int64(), lambda scanned: scanned.batch.header.base_offset),
    "last_offset": _Column("long", pa.int64(), lambda scanned: _last_offset(scanned)),
    "record_count": _Column("int", pa.int32(), lambda scanned: scanned.batch.header.record_count),
    "leader_epoch": _Column("int", pa.int32(), _same("leader_epoch")),
    "producer_id": _Column("long", pa.int64(), _same("producer_id")),
    "producer_epoch": _Column("int", pa.int32(), _same("producer_epoch")),
    "base_sequence": _Column("int", pa.int32(), lambda scanned: scanned.batch.header.base_sequence),
    "attributes": _Column("int", pa.int32(), _same("attributes")),
    "compression": _Column("string", pa.string(), _same("compression")),
    "timestampType": _Column("int", pa.int32(), _same("timestampType")),
    "base_timestamp_ms": _Column("long", pa.int64(), lambda scanned: scanned.batch.header.base_timestamp),
    "max_timestamp_ms": _Column("long", pa.int64(), lambda scanned: scanned.batch.header.max_timestamp),
    "transactional": _Column("boolean", pa.bool_(), _same("transactional")),
    "control": _Column("boolean", pa.bool_(), _same("control")),
    "marker": _Column("string", pa.string(), lambda scanned: marker_kind(scanned.batch)),
    "aborted": _Column("boolean", pa.bool_(), _same("aborted")),
    "crc": _Column("long", pa.int64(), lambda scanned: scanned.batch.header.crc),
    "crc_ok": _Column("boolean", pa.bool_(), lambda scanned: scanned.crc_ok),
    "size_bytes": _Column("long", pa.int64(), lambda scanned: scanned.batch.header.size_bytes),
    "position": _Column("long", pa.int64(), _same("position")),
    "problem": _Column("string", pa.string(), lambda scanned: scanned.problem and str(scanned.problem)),
}
_OF_THE_END: dict[str, Callable[[ScanEnd], Any]] = {
    "position": lambda end: end.position,
    "size_bytes": lambda end: end.size_bytes,
    "problem": lambda end: str(end.problem),
}
"""The columns that have a value for bytes that are not a batch; the others are null."""

PLACE_COLUMNS = {"topic": "string", "partition": "int", "file": "string", "active": "boolean"}
DDL = {**PLACE_COLUMNS, **{name: column.ddl for name, column in _COLUMNS.items()}}
"""Name and type in Spark of every column, in order."""
_PLACE_TYPES = {"topic": pa.string(), "partition": pa.int32(), "file": pa.string(), "active": pa.bool_()}


def batches_table(window: Window, piece: LogPiece, columns: list[str]) -> pa.RecordBatch:
    """The rows of a window: its batches, then the bytes after them that are not a batch."""
    place = {"topic": piece.topic, "partition": piece.partition, "file": piece.path, "active": piece.is_active}
    count = len(window.batches) + (window.end is not None)
    arrays = []
    for name in columns:
        if name in place:
            arrays.append(pa.repeat(pa.scalar(place[name], _PLACE_TYPES[name]), count))
            continue
        read = _COLUMNS[name].of_batch
        values = [read(scanned) for scanned in window.batches]
        if window.end is not None:
            values.append(_OF_THE_END[name](window.end) if name in _OF_THE_END else None)
        arrays.append(pa.array(values, _COLUMNS[name].kind))
    return pa.RecordBatch.from_arrays(arrays, names=columns)


def _last_offset(scanned: ScannedBatch) -> int | None:
    last = scanned.batch.header.last_offset
    return last if last < 1 << 63 else None
