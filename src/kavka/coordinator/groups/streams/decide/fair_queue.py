"""FairQueue: who has least to do, in the order of Java's PriorityQueue.

Python's heapq takes another of equals than Java's queue does, and so other members would get a task. Decides that order
alone.

    I1  no item has less to do than the first

Source: java.util.PriorityQueue (a binary heap; of equal children the left one rises, and an item sinks only below
smaller ones).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class FairQueue(Generic[_T]):
    """A heap of items by `load`, which may change only while an item is out of it."""

    def __init__(self, items: Iterable[_T], load: Callable[[_T], float]) -> None:
        self._load = load
        self._heap: list[_T] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: _T) -> None:
        heap, load = self._heap, self._load(item)
        place = len(heap)
        heap.append(item)
        while place > 0:
            parent = (place - 1) // 2
            if load >= self._load(heap[parent]):
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = item

    def take(self) -> _T:
        """The item with the least load. Raises IndexError if there is none."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last
        first, place, size, load = heap[0], 0, len(heap), self._load(last)
        while place < size // 2:
            child = 2 * place + 1
            if child + 1 < size and self._load(heap[child]) > self._load(heap[child + 1]):
                child += 1
            if load <= self._load(heap[child]):
                break
            heap[place] = heap[child]
            place = child
        heap[place] = last
        return first
