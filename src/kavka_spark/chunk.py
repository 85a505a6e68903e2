"""Chunk: records of several batches laid into one buffer, to be decoded together.

Decides where they lie and what of their batches' headers goes to which row. It must not know columns or Arrow.

Invariants
  I1  Records of batches that lie in the same bytes stay where they are; only inflated ones of several are copied.
  I2  Row i of the chunk belongs to run `run_of_row[i]`, whose values are element `run_of_row[i]` of the arrays of runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kavka.records.batch import LOG_APPEND_TIME_FLAG, BatchHeader
from kavka_spark.batch_walk import PlacedBatch
from kavka_spark.record_fields import Bytes, Longs

_FIELD_INDEX = {name: index for index, name in enumerate(BatchHeader._fields)}


class Run(NamedTuple):
    """Some records of one batch, one after another in `source`."""

    batch: PlacedBatch
    source: memoryview
    begin: int
    """Where the first of them starts."""
    end: int
    row_count: int
    first_index: int
    """Index of the first of them in its batch."""


class Chunk:
    """The runs' records: `source` with their bytes, where each starts and ends in it, and of which run it is."""

    __slots__ = ("_fields", "bytes", "ends", "run_of_row", "runs", "source", "starts")

    def __init__(self, runs: Sequence[Run], positions: array[int]) -> None:
        """`positions`: for each run where its records start, then where the last one ends."""
        self.runs = runs
        self._fields: list[tuple[int, ...]] | None = None
        counts = np.array([run.row_count for run in runs], np.int64)
        bounds: Longs = np.frombuffer(positions, np.int64)
        first, last = runs[0].source, runs[-1].source
        if first is last and {id(run.source) for run in runs} == {id(first)}:
            self.source = first
        else:
            begins = np.array([run.begin for run in runs], np.int64)
            sizes = np.array([run.end for run in runs], np.int64) - begins
            bounds = bounds + np.repeat(np.cumsum(sizes) - sizes - begins, counts + 1)
            self.source = memoryview(b"".join(run.source[run.begin : run.end] for run in runs))
        self.bytes: Bytes = np.frombuffer(self.source, np.uint8)
        is_start = np.ones(len(bounds), np.bool_)
        is_start[np.cumsum(counts + 1) - 1] = False
        self.starts: Longs = bounds[is_start]
        self.ends: Longs = bounds[1:][is_start[:-1]]
        self.run_of_row: Longs = np.repeat(np.arange(len(runs)), counts)

    def of_headers(self, field: str) -> Longs:
        """A field of the header of each run's batch."""
        if self._fields is None:
            self._fields = list(zip(*(run.batch.header for run in self.runs), strict=True))
        return np.array(self._fields[_FIELD_INDEX[field]], np.int64)

    def timestamps(self) -> tuple[Longs, Longs]:
        """(what a record's timestamp counts from, whether its delta counts) by run: under log append time all records
        of a batch have its largest timestamp."""
        is_stamped = self.of_headers("attributes") & LOG_APPEND_TIME_FLAG != 0
        bases = np.where(is_stamped, self.of_headers("max_timestamp"), self.of_headers("base_timestamp"))
        return bases, (~is_stamped).astype(np.int64)
