"""The partition of each of many keys, computed together.

Decides as `kavka.client.partitioner` does (murmur2, as Kafka's Java producer), so that Spark puts a key where every
other client puts it. It must not know topics or leaders: the caller tells how many partitions there are.

Works on the columns of Arrow: one step per four bytes of the longest key, for all keys that are that long. Source:
Kafka's Utils.murmur2.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kavka.client.partitioner import partition_for_key

LONGEST_KEY: Final = 512
"""In bytes. Longer keys are hashed one by one, so that one of them does not cost a thousand steps for all."""
_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)

Array = npt.NDArray[Any]
Words = npt.NDArray[np.uint32]


def partitions_for_keys(data: Array, starts: Array, lengths: Array, partition_count: int) -> Array:
    """The partition, from 0, of each key: `lengths[i]` bytes of `data` (uint8) from `starts[i]` on. An int32 array."""
    hashes = _murmur2(data, starts, np.minimum(lengths, LONGEST_KEY))
    partitions = ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partition_count)).astype(np.int32)
    for row in np.flatnonzero(lengths > LONGEST_KEY):
        start = int(starts[row])
        key = data[start : start + int(lengths[row])].tobytes()
        partitions[row] = partition_for_key(key, partition_count)
    return partitions


def _murmur2(data: Array, starts: Array, lengths: Array) -> Words:
    hashes: Words = _SEED ^ lengths.astype(np.uint32)
    words = lengths >> 2
    rows: Array | slice = slice(None)
    for word in range(int(words.max(initial=0))):
        if word >= int(words.min(initial=0)):
            rows = np.flatnonzero(words > word)
        at = starts[rows] + 4 * word
        k: Words = _byte(data, at, 0) | _byte(data, at, 1) | _byte(data, at, 2) | _byte(data, at, 3)
        k *= _MULTIPLIER
        k ^= k >> np.uint32(24)
        k *= _MULTIPLIER
        hashes[rows] = hashes[rows] * _MULTIPLIER ^ k
    rest = lengths & 3
    tails = starts + 4 * words
    for index in (2, 1, 0):
        rows = np.flatnonzero(rest > index)
        hashes[rows] ^= _byte(data, tails[rows], index)
    rows = np.flatnonzero(rest > 0)
    hashes[rows] *= _MULTIPLIER
    hashes ^= hashes >> np.uint32(13)
    hashes *= _MULTIPLIER
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _byte(data: Array, at: Array, index: int) -> Words:
    """Byte `index` of the little-endian words that begin `at`, in its place."""
    found: Words = data[at + index].astype(np.uint32)
    return found << np.uint32(8 * index)
