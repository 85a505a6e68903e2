"""Rows of a task in, batches for topics and partitions out.

Decides which topic and partition each row goes to, and which of its columns become what. It must not know producers,
connections or Spark's API: who uses it tells how many partitions a topic has.

Invariants
  I1  Rows of one partition keep the order in which they came. Rows with the same key go to the same partition, the one
      that Kafka's own clients choose; a column 'partition' that is not null decides before the key.
  I2  Rows with neither go to one partition until a batch is full, then to the next that has a leader (KIP-480).
  I3  At most `CHUNK_BYTES` of rows are laid out at once, unless one row is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kavka_spark.encoder import (
    RECORD_OVERHEAD,
    EncodedBatch,
    RecordColumns,
    as_binary,
    encode,
    lengths_of,
    nulls_of,
    starts_of,
)
from kavka_spark.errors import SinkError
from kavka_spark.key_partitions import partitions_for_keys
from kavka_spark.markers import Digest
from kavka_spark.sink_options import SinkOptions
from kavka_spark.sink_schema import SinkColumns

CHUNK_BYTES: Final = 8 << 20
"""Bytes of rows to gather before they are encoded. Small Arrow batches would make small record batches."""

Array = npt.NDArray[Any]


class TopicPartitions(NamedTuple):
    """A topic's partitions: 0 to `total` - 1. Those in `available` (never empty) have a leader."""

    total: int
    available: tuple[int, ...]


class RowEncoder:
    """Encodes the rows of one task. `partitions_of` is asked for a topic's partitions, and told the highest that rows
    name, or -1: it may be newer than what is known of the topic."""

    def __init__(
        self,
        columns: SinkColumns,
        options: SinkOptions,
        partitions_of: Callable[[str, int], TopicPartitions],
        *,
        now_ms: Callable[[], int],
        random: Random,
    ) -> None:
        self._columns = columns
        self._options = options
        self._partitions_of = partitions_of
        self._now_ms = now_ms
        self._random = random
        self._sticky: dict[str, tuple[int, int]] = {}
        """For rows without a key, by topic: which of the available partitions, and bytes that it got already."""
        self.digest = Digest()
        """Of all rows so far; counted where exactly once asks for it."""
        self.rows = 0

    def encode(self, chunk: pa.RecordBatch) -> Iterator[tuple[str, EncodedBatch]]:
        """The chunk's rows as batches. Raises `SinkError` for a row that cannot become a record."""
        columns = self._record_columns(chunk)
        self.rows += chunk.num_rows
        if self._options.exactly_once is not None:
            self.count(columns)
        given = chunk.column(self._columns.partition) if self._columns.partition >= 0 else None
        for topic, rows in self._by_topic(chunk):
            of_topic = columns if rows is None else columns.take(rows)
            told = given if given is None or rows is None else given.take(pa.array(rows))
            settings = self._options.producer
            for batch in encode(
                of_topic,
                self._choose(topic, of_topic, told),
                batch_bytes=settings.batch_size,
                compression=settings.compression,
                level=settings.compression_level,
            ):
                yield topic, batch

    def count_only(self, chunk: pa.RecordBatch) -> None:
        """Counts rows that are not to be written, for `digest`."""
        self.rows += chunk.num_rows
        self.count(self._record_columns(chunk))

    def count(self, columns: RecordColumns) -> None:
        rows, size, total = self.digest
        for column in (columns.key, columns.value):
            if column is not None:
                data, starts = starts_of(column)
                lengths = lengths_of(column)
                size += int(lengths.sum())
                if len(starts):
                    used = data[int(starts[0]) : int(starts[-1] + lengths[-1])]
                    total += int(used.sum(dtype=np.uint64))
        self.digest = Digest(rows + columns.row_count, size, total)

    def _record_columns(self, chunk: pa.RecordBatch) -> RecordColumns:
        at = self._columns
        return RecordColumns(
            None if at.key < 0 else as_binary(chunk.column(at.key)),
            as_binary(chunk.column(at.value)),
            None if at.headers < 0 else chunk.column(at.headers),
            self._timestamps(chunk),
        )

    def _timestamps(self, chunk: pa.RecordBatch) -> Array:
        now = self._now_ms()
        if self._columns.timestamp < 0:
            return np.full(chunk.num_rows, now, np.int64)
        micros = pc.fill_null(chunk.column(self._columns.timestamp).cast(pa.int64()), now * 1000)
        return np.asarray(micros) // 1000

    def _by_topic(self, chunk: pa.RecordBatch) -> Iterator[tuple[str, Array | None]]:
        """Topics and their rows; None for all rows."""
        if self._options.topic is not None:
            yield self._options.topic, None
            return
        named = chunk.column(self._columns.topic)
        if named.null_count:
            raise SinkError(
                "a row has null as its topic: fill column 'topic', filter such rows out, or set option 'topic' for all"
            )
        encoded = named.dictionary_encode()
        topics = encoded.dictionary.to_pylist()
        if len(topics) == 1:
            yield topics[0], None
            return
        indices = np.asarray(encoded.indices)
        for index, topic in enumerate(topics):
            yield topic, np.flatnonzero(indices == index)

    def _choose(self, topic: str, columns: RecordColumns, given: pa.Array | None) -> Array:
        """The partition of each row."""
        named = -1 if given is None else pc.max(given).as_py()
        total, available = self._partitions_of(topic, -1 if named is None else named)
        chosen = np.full(columns.row_count, -1, np.int32)
        if columns.key is not None and columns.key.null_count < columns.row_count:
            data, starts = starts_of(columns.key)
            keyed = ~nulls_of(columns.key)
            lengths = lengths_of(columns.key)
            chosen[keyed] = partitions_for_keys(data, starts[keyed], lengths[keyed], total)
        if given is not None:
            told = np.asarray(pc.fill_null(given, -1))
            is_told = np.asarray(pc.is_valid(given))
            wrong = told[is_told & ((told < 0) | (told >= total))]
            if len(wrong):
                raise SinkError(
                    f"a row names partition {wrong[0]} of topic {topic!r}, which has partitions 0 to {total - 1}"
                )
            chosen[is_told] = told[is_told]
        free = np.flatnonzero(chosen < 0)
        if len(free):
            chosen[free] = self._spread(topic, columns.value, free, available)
        return chosen

    def _spread(self, topic: str, values: pa.Array, rows: Array, available: tuple[int, ...]) -> Array:
        """Partitions for rows without a key or a partition (I2)."""
        index, filled = self._sticky.get(topic) or (self._random.randrange(len(available)), 0)
        ends = filled + np.cumsum(lengths_of(values)[rows] + RECORD_OVERHEAD)
        turns = (ends - 1) // self._options.producer.batch_size
        self._sticky[topic] = (
            (index + int(turns[-1])) % len(available),
            int(ends[-1]) - int(turns[-1]) * self._options.producer.batch_size,
        )
        chosen: Array = np.asarray(available, np.int32)[(index + turns) % len(available)]
        return chosen


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about `CHUNK_BYTES` (I3); empty ones are left out."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for piece in _pieces(batch):
            if gathered and size + piece.nbytes > CHUNK_BYTES:
                yield _merged(gathered)
                gathered, size = [], 0
            gathered.append(piece)
            size += piece.nbytes
    if gathered:
        yield _merged(gathered)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= 1 or batch.nbytes <= CHUNK_BYTES:
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


def _merged(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
