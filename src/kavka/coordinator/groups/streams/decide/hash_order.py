"""hash_order: the order in which a HashMap of Java's has its keys.

Kafka goes over the parts of an application in this order. How many partitions a repartition topic gets may depend on
it, and topics that Apache Kafka made for an application must be those that kavka expects. Decides that order alone.

    I1  the order depends on the keys, and only for keys of one bucket on the order in which they came

Source: java.util.HashMap and String.hashCode (Java 8 and later). A bucket of more than eight keys becomes a tree there,
which is not imitated: of few subtopologies, whose ids are short numbers, no bucket has so many.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

FIRST_SIZE: Final = 16
"""A new map's buckets; there are twice as many once more than three quarters are as many as the keys."""


def in_hash_order(keys: Iterable[str]) -> list[str]:
    """The keys, of which each came once, as a map has them to which they came one by one."""
    listed = list(keys)
    size = FIRST_SIZE
    while 4 * len(listed) > 3 * size:
        size *= 2
    return sorted(listed, key=lambda key: _spread(key) & (size - 1))


def _spread(key: str) -> int:
    """The hash by which a map chooses the bucket."""
    units = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value ^ value >> 16
