"""Columns: which there are, and their types in Arrow.

The eight of the source are those of Spark's own Kafka source, headers last. The rest tell what a batch's header and its
place in a file say; only the log files' format hands them out.

Invariant
  I1  `schema` equals what Spark makes of the same columns (names, order, types, nullable): Spark compares them.

Source: Spark's Kafka integration guide; pyspark.sql.pandas.types.to_arrow_schema for the names inside lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = "headers"
KEPT_SCHEMAS: Final = 64

SOURCE_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(pa.field("element", HEADER_TYPE)),
}
"""The columns of Spark's Kafka source, in its order."""

BATCH_TYPES: dict[str, pa.DataType] = {
    "base_offset": pa.int64(),
    "leader_epoch": pa.int32(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int32(),
    "sequence": pa.int32(),
    "attributes": pa.int32(),
    "compression": pa.string(),
    "transactional": pa.bool_(),
    "control": pa.bool_(),
    "aborted": pa.bool_(),
    "crc_ok": pa.bool_(),
    "file": pa.string(),
    "position": pa.int64(),
}
"""What a record's batch and its place in a file add; `sequence` is the record's own."""

TYPES: dict[str, pa.DataType] = {**SOURCE_TYPES, **BATCH_TYPES}


def schema(columns: Sequence[str], include_headers: bool = False) -> pa.Schema:
    """The schema of `columns`, in their order; `include_headers` adds `headers` where it is not among them.

    Raises ValueError for a column that does not exist or is named twice.
    """
    names = list(columns)
    if include_headers and HEADERS not in names:
        names.append(HEADERS)
    return _schema(tuple(names))


@lru_cache(maxsize=KEPT_SCHEMAS)
def _schema(names: tuple[str, ...]) -> pa.Schema:
    """A decoder asks for one for each range that it reads, and queries read few sets of columns."""
    unknown = [name for name in names if name not in TYPES]
    if unknown or len(set(names)) != len(names):
        raise ValueError(f"expected different columns out of {', '.join(TYPES)}, found {', '.join(names)}")
    return pa.schema([pa.field(name, TYPES[name]) for name in names])
