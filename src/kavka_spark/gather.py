"""Gather: Arrow arrays out of positions in a buffer.

Decides how the bytes at many positions become one binary array without an object per value: a binary array is laid over
the buffer whose offsets are start, end, start, end, ..., and its even slots are taken. It must not know records.

Invariants
  I1  Offsets within an array are 32 bits: a caller gives values that lie within MAX_SPAN_BYTES, or one value.
  I2  A string array is UTF-8 whatever the bytes are: what is malformed is replaced, as Java's decoder does.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kavka_spark.columns import HEADER_TYPE, HEADERS, TYPES
from kavka_spark.record_fields import HeaderFields, Longs

MAX_SPAN_BYTES = 1 << 30
"""Most bytes between the first and the last value of an array: half of what its offsets reach."""


def gather(source: pa.Buffer, starts: Longs, sizes: Longs, kind: pa.DataType) -> pa.Array:
    """The bytes at `starts` (rising), of `sizes` bytes or null where that is -1, as an array of binary or string."""
    count = len(starts)
    nulls = sizes < 0
    has_nulls = bool(nulls.any())
    lengths = np.maximum(sizes, 0) if has_nulls else sizes
    first = int(starts[0])
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts - first
    offsets[1::2] = starts + lengths - first
    slots = pa.Array.from_buffers(
        kind, 2 * count - 1, [None, pa.py_buffer(offsets), source.slice(first, int(offsets[-1]))]
    )
    even = np.arange(0, 2 * count, 2, dtype=np.int32)
    return slots.take(pa.array(even, mask=nulls if has_nulls else None))


def gather_headers(source: pa.Buffer, counts: Longs, headers: HeaderFields | None) -> pa.Array:
    """A list of headers a record, null for a record without any."""
    if headers is None:
        return pa.nulls(len(counts), TYPES[HEADERS])
    names = gather(source, headers.key_starts, headers.key_sizes, pa.binary())
    entries = pa.StructArray.from_arrays(
        [_text(names), gather(source, headers.value_starts, headers.value_sizes, pa.binary())],
        fields=[HEADER_TYPE.field(0), HEADER_TYPE.field(1)],
    )
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), entries, type=TYPES[HEADERS], mask=pa.array(counts == 0))


def _text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())  # checks that it is UTF-8
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
