"""LogScan: the batches of a segment file, window by window, and what is wrong with them.

Decides what of a file is a batch, where reading ends and why. It must not know Spark or Arrow, nor judge what a problem
means: a query over records fails, one over batches has a row that says it.

Invariants
  I1  Files are read into a window, not mapped: a broker that truncates its log meanwhile costs a short read, not the
      process.
  I2  What is in memory at a time is one window, or one batch of up to `max_batch_bytes`, whatever a length says.
  I3  Nothing behind the first bytes that are no batch is read: there is no telling where the next one starts.

Source: Kafka's FileLogInputStream and DumpLogSegments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum
from io import FileIO
from typing import NamedTuple

from crc32c import crc32c

from kavka.errors import RecordsError
from kavka.records.batch import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    BatchHeader,
    RecordBatch,
    batch_at,
    read_header,
)
from kavka.records.control import ControlType, read_marker
from kavka_spark.batch_walk import PlacedBatch, odd_header
from kavka_spark.errors import LogFileError
from kavka_spark.log_segments import LogPiece
from kavka_spark.log_transactions import AbortedTransactions

WINDOW_BYTES = 8 << 20
"""Bytes to read at a time: as much as an Arrow batch holds."""
DEFAULT_MAX_BATCH_BYTES = 256 << 20


class ProblemKind(Enum):
    """What is wrong with some bytes of a segment."""

    CRC = "crc"
    HEADER = "header"
    """Impossible offsets or counts."""
    OFFSETS = "offsets"
    """A batch that does not start behind the one before it."""
    INCOMPLETE = "incomplete"
    """Fewer bytes than the batch's length says: torn, or being written."""
    ZEROS = "zeros"
    """A file that was preallocated, or whose length reached the disk before its bytes did."""
    NO_BATCH = "no batch"
    """An impossible length or magic, an old format, or more than `max_batch_bytes`."""


class Problem(NamedTuple):
    kind: ProblemKind
    reason: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.reason}"


class ScannedBatch(NamedTuple):
    """A complete batch. `problem` says what is wrong with it; None if nothing is."""

    batch: PlacedBatch
    problem: Problem | None
    crc_ok: bool | None
    """None where it was not looked at."""


class ScanEnd(NamedTuple):
    """Bytes up to the end of the file that are not a batch."""

    problem: Problem
    position: int
    size_bytes: int
    next_offset: int
    """The smallest offset that a batch could have there; the segment's base offset if no batch comes before it."""


class Window(NamedTuple):
    """Consecutive batches, whose bytes are valid until the next window is asked for; and perhaps an end behind them."""

    batches: list[ScannedBatch]
    end: ScanEnd | None


def scan(
    piece: LogPiece,
    *,
    check_crcs: bool = True,
    transactions: AbortedTransactions | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[Window]:
    """The batches of `piece` in order. Raises `LogFileError` where the file is gone or cannot be read."""
    try:
        with FileIO(piece.path) as file:
            yield from _Scan(piece, file, check_crcs, transactions, max_batch_bytes).windows(window_bytes)
    except OSError as error:
        raise LogFileError(piece.path, error.strerror or str(error)) from error


class _Scan:
    def __init__(
        self,
        piece: LogPiece,
        file: FileIO,
        check_crcs: bool,
        transactions: AbortedTransactions | None,
        max_batch_bytes: int,
    ) -> None:
        self._file = file
        self._check_crcs = check_crcs
        self._transactions = transactions
        self._max_batch_bytes = max_batch_bytes
        size = os.fstat(file.fileno()).st_size
        self._end = size if piece.end is None else min(piece.end, size)
        self._position = piece.start
        self._last_offset = piece.base_offset - 1

    def windows(self, window_bytes: int) -> Iterator[Window]:
        buffer = bytearray(min(window_bytes, max(self._end - self._position, 1)))
        while self._position < self._end:
            view = self._read(memoryview(buffer))
            batches, needed = self._batches(view)
            if batches:
                yield Window(batches, None)
                continue
            remaining = self._end - self._position
            if needed <= len(buffer) or needed > min(remaining, self._max_batch_bytes):
                yield Window([], self._no_batch(view, needed, remaining))
                return
            buffer = bytearray(needed)

    def _read(self, buffer: memoryview) -> memoryview:
        """As much of the file as fits, from the position on; less if the file has become shorter."""
        want = min(len(buffer), self._end - self._position)
        self._file.seek(self._position)
        read = 0
        while read < want:
            count = self._file.readinto(buffer[read:want])
            if not count:
                break
            read += count
        return buffer[:read]

    def _batches(self, view: memoryview) -> tuple[list[ScannedBatch], int]:
        """The complete batches at the start of `view`; and the bytes that the one behind them takes, 0 if unknown."""
        found: list[ScannedBatch] = []
        start, base = 0, self._position
        needed = 0
        while start < len(view):
            try:
                batch = batch_at(view, start)
            except RecordsError:
                break
            if batch is None:
                if len(view) - start >= HEADER_SIZE:
                    needed = read_header(view, start).size_bytes
                break
            if len(batch.view) > self._max_batch_bytes:
                needed = len(batch.view)
                break
            found.append(self._judged(batch, view, start, base + start))
            start += LENGTH_PREFIX_SIZE + batch.header.batch_length
        self._position = base + start
        return found, needed

    def _judged(self, batch: RecordBatch, view: memoryview, start: int, position: int) -> ScannedBatch:
        header = batch.header
        crc_ok = crc32c(batch.view[CRC_START:]) == header.crc if self._check_crcs else None
        problem = self._problem(header, crc_ok)
        if problem is None:
            self._last_offset = header.base_offset + header.last_offset_delta
        elif crc_ok:
            self._last_offset = max(self._last_offset, header.last_offset)
        transactions = self._transactions
        aborted = (
            transactions is not None
            and header.is_transactional
            and transactions.contain(header.producer_id, header.base_offset)
        )
        return ScannedBatch(PlacedBatch(header, view, start, position, crc_ok is not False, aborted), problem, crc_ok)

    def _problem(self, header: BatchHeader, crc_ok: bool | None) -> Problem | None:
        if crc_ok is False:
            return Problem(ProblemKind.CRC, f"its CRC-32C is not the {header.crc:#010x} that its header says")
        odd = odd_header(header)
        if odd is not None:
            return Problem(ProblemKind.HEADER, odd)
        if header.base_offset <= self._last_offset:
            return Problem(
                ProblemKind.OFFSETS,
                f"it starts at offset {header.base_offset}, what is before it ends at {self._last_offset}",
            )
        return None

    def _no_batch(self, view: memoryview, needed: int, remaining: int) -> ScanEnd:
        if view and not any(view[: HEADER_SIZE + LENGTH_PREFIX_SIZE]):
            problem = Problem(ProblemKind.ZEROS, f"{remaining} bytes that begin with zeros")
        elif remaining < HEADER_SIZE:
            problem = Problem(ProblemKind.INCOMPLETE, f"{remaining} bytes, less than a batch's header")
        elif self._max_batch_bytes < needed <= remaining:
            problem = Problem(
                ProblemKind.NO_BATCH, f"a batch of {needed} bytes, over maxBatchBytes of {self._max_batch_bytes}"
            )
        elif needed == 0:
            problem = self._refused(view)
        else:
            problem = Problem(ProblemKind.INCOMPLETE, f"{remaining} bytes of a batch of {needed}")
        return ScanEnd(problem, self._position, remaining, self._last_offset + 1)

    def _refused(self, view: memoryview) -> Problem:
        try:
            batch_at(view)
        except RecordsError as failure:
            return Problem(ProblemKind.NO_BATCH, failure.message.replace("at byte 0", f"at byte {self._position}"))
        return Problem(ProblemKind.INCOMPLETE, f"{len(view)} bytes of a batch")


def marker_kind(batch: PlacedBatch) -> str | None:
    """ "commit" or "abort" for a transaction's marker; None for another control record, or one that is malformed."""
    if not batch.header.is_control or batch.header.record_count == 0:
        return None
    try:
        marker = read_marker(RecordBatch(batch.data[batch.start : batch.end], batch.header))
    except RecordsError:
        return None
    return None if marker is None else ControlType(marker.control_type).name.lower()
