"""BatchWalk: which batches of a partition's bytes a reader gets to see.

Decides by headers and CRCs alone: what is no batch, what is a marker, what belongs to an aborted transaction, and where
the offsets asked for begin and end. It must not know Arrow, nor look at records.

Invariants
  I1  Offsets rise from batch to batch: a batch that starts at or before the end of the one before it is corrupt.
  I2  An incomplete batch at the end is left out, as Kafka's readers do; it is no error.
  I3  Every failure is a `CorruptBatchError` that names topic, partition and offset.

Source: Kafka's CompletedFetch for the order in which aborted transactions are taken up: a transaction is aborted from
its first offset to the producer's next abort marker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from kavka.errors import RecordsError
from kavka.records.batch import (
    CONTROL_FLAG,
    CRC_START,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    BatchHeader,
    RecordBatch,
    batch_at,
)
from kavka.records.control import ControlType, read_marker
from kavka_spark.errors import CorruptBatchError

MAX_OFFSET = (1 << 63) - 1
NO_OFFSET = -1


class PlacedBatch(NamedTuple):
    """A batch inside a larger piece of bytes, and what is known about it."""

    header: BatchHeader
    data: memoryview
    """The piece of bytes, shared with other batches."""
    start: int
    """Where in `data` the batch starts."""
    position: int
    """Where it starts in its file."""
    crc_ok: bool = True
    aborted: bool = False

    @property
    def end(self) -> int:
        return self.start + self.header.size_bytes

    @property
    def payload(self) -> memoryview:
        """The records' bytes, deflated where a codec is set."""
        return self.data[self.start + HEADER_SIZE : self.end]


def next_offset(data: bytes | memoryview, *, topic: str = "", partition: int = -1) -> int:
    """The last offset of the last complete batch in `data` + 1, or -1 where no batch is complete.

    A reader continues there, however many rows it got: compaction and markers leave gaps. Reads headers only.
    Raises `CorruptBatchError`.
    """
    last = NO_OFFSET
    for _, batch in _batches(memoryview(data), topic, partition, NO_OFFSET):
        last = batch.header.last_offset + 1
    return last


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be read of a partition: the offsets from `start` to before `end`, or to the end where that is None."""

    topic: str
    partition: int
    start: int = 0
    end: int | None = None


def committed_batches(
    data: memoryview, wanted: Wanted, *, aborted: Sequence[tuple[int, int]] = (), check_crcs: bool = True
) -> Iterator[PlacedBatch]:
    """The batches that hold records for a reader of `wanted`.

    Markers, empty batches and those of the `aborted` transactions (producer id, first offset) are left out. Every
    batch up to `end` has its CRC checked, also those that are left out.
    """
    topic, partition, start, end = wanted.topic, wanted.partition, wanted.start, wanted.end
    upcoming = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    for position, batch in _batches(data, topic, partition, start):
        header = batch.header
        if end is not None and header.base_offset >= end:
            return
        if check_crcs:
            check_crc(batch, topic, partition)
        is_control = header.attributes & CONTROL_FLAG
        last_offset = header.base_offset + header.last_offset_delta
        if (upcoming or aborting) and header.producer_id >= 0:
            while upcoming and upcoming[-1][1] <= last_offset:
                aborting.add(upcoming.pop()[0])
            if is_control:
                if is_abort(batch, topic, partition):
                    aborting.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in aborting:
                continue
        if is_control or header.record_count == 0 or last_offset < start:
            continue
        yield PlacedBatch(header, data, position, position)


def check_crc(batch: RecordBatch, topic: str, partition: int) -> None:
    """Raises `CorruptBatchError` if the CRC differs from the one in the header."""
    found = crc32c(batch.view[CRC_START:])
    if found != batch.header.crc:
        raise CorruptBatchError(
            topic,
            partition,
            batch.header.base_offset,
            f"its CRC-32C is {found:#010x}, its header says {batch.header.crc:#010x}",
        )


def is_abort(batch: RecordBatch, topic: str, partition: int) -> bool:
    """Whether a control batch ends a transaction as aborted."""
    if batch.header.record_count == 0:
        return False  # compaction may have taken the marker out and kept the batch
    try:
        marker = read_marker(batch)
    except RecordsError as failure:
        raise CorruptBatchError(topic, partition, batch.header.base_offset, failure.message) from failure
    return marker is not None and marker.control_type is ControlType.ABORT


def odd_header(header: BatchHeader) -> str | None:
    """What is impossible in a header whose length and magic are possible; None if nothing is."""
    base_offset, delta = header.base_offset, header.last_offset_delta
    if base_offset < 0 or delta < 0 or base_offset + delta >= MAX_OFFSET:
        return f"offsets from {header.base_offset} on with a last delta of {header.last_offset_delta}"
    if not 0 <= header.record_count <= delta + 1:
        return f"{header.record_count} records at {header.last_offset_delta + 1} offsets"
    return None


def _batches(view: memoryview, topic: str, partition: int, expected: int) -> Iterator[tuple[int, RecordBatch]]:
    """(position, batch) of every complete batch. `expected` is the offset to name if the first batch has none."""
    position, end = 0, len(view)
    last = NO_OFFSET
    while position < end:
        try:
            batch = batch_at(view, position)
        except RecordsError as failure:
            raise CorruptBatchError(topic, partition, max(expected, last + 1), failure.message) from failure
        if batch is None:
            return
        header = batch.header
        odd = odd_header(header)
        if odd is None and header.base_offset <= last:
            odd = f"it starts at offset {header.base_offset}, the batch before it ends at {last}"
        if odd is not None:
            raise CorruptBatchError(topic, partition, header.base_offset, odd)
        yield position, batch
        last = header.base_offset + header.last_offset_delta
        position += LENGTH_PREFIX_SIZE + header.batch_length
