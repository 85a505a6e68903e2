"""AbortedTransactions: which batches of a log file belong to transactions that were aborted.

Decides by the transaction indexes that brokers keep beside the segments. It must not know Spark. Where an index is
damaged, the markers in the segments say the same, for the price of reading them.

Invariant
  I1  A batch is aborted where the first marker of its producer behind it says so. A transaction whose marker is not
      written yet is not.

Source: Kafka's TransactionIndex: an entry stands in the index of the segment with the marker, which may be a later one
than the batch's.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable

from kavka.log.decide.indexes import CorruptIndex, parse_aborted
from kavka_spark.errors import LogFileError

MAX_INDEX_BYTES = 32 << 20
"""Bound on one transaction index that is read, with a million aborted transactions; a larger one counts as damaged."""


class AbortedTransactions:
    """Aborted transactions of a partition: from which offset to which, by producer. Those of one do not overlap."""

    def __init__(self, transactions: Iterable[tuple[int, int, int]] = ()) -> None:
        """`transactions`: (producer id, first offset, offset of the marker)."""
        spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for producer_id, first_offset, last_offset in transactions:
            spans[producer_id].append((last_offset, first_offset))
        self._spans = {producer_id: sorted(ended) for producer_id, ended in spans.items()}

    def contain(self, producer_id: int, offset: int) -> bool:
        spans = self._spans.get(producer_id)
        if spans is None:
            return False
        slot = bisect_left(spans, (offset, -1))
        return slot < len(spans) and spans[slot][1] <= offset


def read_aborted(
    segments: Iterable[tuple[int, str]], markers: Callable[[], Iterable[tuple[int, int, bool]]], *, base_offset: int
) -> AbortedTransactions:
    """The aborted transactions of the segment at `base_offset`. `segments`: the partition's (base offset, path).

    `markers` reads (producer id, offset, is an abort) of that segment and all behind it, in order; it is called where
    an index is damaged. Raises `LogFileError` where a file cannot be read.
    """
    found: list[tuple[int, int, int]] = []
    try:
        for segment_offset, path in segments:
            if segment_offset >= base_offset:
                found += _indexed(path.removesuffix(".log") + ".txnindex", segment_offset)
    except CorruptIndex:
        found = []
        last_marker: dict[int, int] = {}
        for producer_id, offset, is_abort in markers():
            if is_abort:
                found.append((producer_id, last_marker.get(producer_id, base_offset - 1) + 1, offset))
            last_marker[producer_id] = offset
    return AbortedTransactions(found)


def _indexed(path: str, base_offset: int) -> list[tuple[int, int, int]]:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_INDEX_BYTES:
                raise CorruptIndex(f"{path} is larger than {MAX_INDEX_BYTES} bytes")
            entries = parse_aborted(file.read(), base_offset)
    except FileNotFoundError:
        return []  # written with the first aborted transaction
    except OSError as error:
        raise LogFileError(path, error.strerror or str(error)) from error
    return [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in entries]
