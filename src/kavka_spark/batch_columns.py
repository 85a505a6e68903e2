"""BatchColumns: the columns that are the same for all records of a batch, or of a partition.

Decides what each of them says of a batch. It must not look at records.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kavka.records.batch import LOG_APPEND_TIME_FLAG
from kavka.records.compression import Compression
from kavka_spark.batch_walk import PlacedBatch
from kavka_spark.chunk import Chunk
from kavka_spark.columns import TYPES
from kavka_spark.record_fields import Longs

Value: TypeAlias = bool | int | str

CONSTANTS = ("topic", "partition", "file")
_HEADER_FIELDS = {
    "base_offset": "base_offset",
    "leader_epoch": "partition_leader_epoch",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "attributes": "attributes",
}
_CODEC_NAMES = {codec.value: codec.name.lower() for codec in Compression}


def batch_value(name: str, batch: PlacedBatch) -> Value:
    """The value of column `name` for every record of `batch`."""
    header = batch.header
    match name:
        case "timestampType":
            return int(bool(header.attributes & LOG_APPEND_TIME_FLAG))
        case "base_offset":
            return header.base_offset
        case "leader_epoch":
            return header.partition_leader_epoch
        case "producer_id":
            return header.producer_id
        case "producer_epoch":
            return header.producer_epoch
        case "attributes":
            return header.attributes
        case "compression":
            return _CODEC_NAMES.get(header.codec_id, f"unknown ({header.codec_id})")
        case "transactional":
            return header.is_transactional
        case "control":
            return header.is_control
        case "aborted":
            return batch.aborted
        case "crc_ok":
            return batch.crc_ok
        case "position":
            return batch.position
    raise ValueError(f"{name} is not a column of batches")


def batch_column(name: str, chunk: Chunk, run_of_row: Longs) -> pa.Array:
    """The column `name` for the rows of a chunk. Row i belongs to run `run_of_row[i]`."""
    kind = TYPES[name]
    values = _by_run(name, chunk)
    if (values == values[0]).all():
        return pa.repeat(pa.scalar(values[0].item(), kind), len(run_of_row))
    if pa.types.is_string(kind):
        return pa.array(values, kind).take(pa.array(run_of_row))
    return pa.array(values[run_of_row], kind)


def _by_run(name: str, chunk: Chunk) -> NDArray[Any]:
    """As `batch_value`, for each run; values from headers are read in one step."""
    field = _HEADER_FIELDS.get(name)
    if field is not None:
        return chunk.of_headers(field)
    if name == "timestampType":
        return (chunk.of_headers("attributes") & LOG_APPEND_TIME_FLAG) // LOG_APPEND_TIME_FLAG
    return np.array([batch_value(name, run.batch) for run in chunk.runs])


class ConstantColumns:
    """The columns whose value is the same for the whole partition; made once, then sliced."""

    def __init__(self, *, topic: str, partition: int, file: str) -> None:
        self._values: dict[str, Value] = {"topic": topic, "partition": partition, "file": file}
        self._longest: dict[str, pa.Array] = {}

    def column(self, name: str, count: int) -> pa.Array:
        longest = self._longest.get(name)
        if longest is None or len(longest) < count:
            longest = self._longest[name] = pa.repeat(pa.scalar(self._values[name], TYPES[name]), count)
        return longest.slice(0, count)
