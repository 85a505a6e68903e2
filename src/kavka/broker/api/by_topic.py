"""Partitions gathered by topic, as most answers list them. Not an API: answers share it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

AboutPartition = TypeVar("AboutPartition")


def by_topic(
    partitions: Iterable[tuple[tuple[str, int], AboutPartition]],
) -> dict[str, list[tuple[int, AboutPartition]]]:
    """What is known of partitions, for each topic with the partition's index. Topics and partitions keep their order.

    >>> by_topic([(("a", 1), "x"), (("b", 0), "y"), (("a", 0), "z")])
    {'a': [(1, 'x'), (0, 'z')], 'b': [(0, 'y')]}
    """
    topics: dict[str, list[tuple[int, AboutPartition]]] = {}
    for (topic, index), about in partitions:
        topics.setdefault(topic, []).append((index, about))
    return topics
