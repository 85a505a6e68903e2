"""Spans: the offsets of a share-partition in runs of equal state, in order and without a hole.

Decides where a run is split, and which neighbours are one run. Must not know which moves are allowed.

    I1  each span begins one past the end of the one before it
    I2  two neighbours differ in something else than their offsets
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple

from kavka.model import Offset


class RecordState(IntEnum):
    """The states of a record, with the numbers that Kafka's records have. ARCHIVING: the group has given it up, and its
    dead letter is to be written (KIP-1191)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


TERMINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
"""States in which a record stays."""


class Span(NamedTuple):
    """Offsets from `first` to `last`, both included; `deliveries`: how often they were delivered.

    Who acquired them, and until when (ms of the loop's clock), is in `member` and `deadline_ms`. `becomes` is the state
    that change number `change` gives them once it is written; until then nobody else gets them. `is_rejected`: a member
    said so, and that is what why-records and dead letters tell; it is not stored.
    """

    first: Offset
    last: Offset
    state: RecordState
    deliveries: int = 0
    member: str = ""
    deadline_ms: int = 0
    becomes: RecordState | None = None
    change: int = 0
    is_rejected: bool = False

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_free(self) -> bool:
        """Somebody may acquire it now."""
        return self.state is RecordState.AVAILABLE and self.becomes is None

    @property
    def is_held(self) -> bool:
        """A member has it, and has not acknowledged it yet."""
        return self.state is RecordState.ACQUIRED and self.becomes is None

    @property
    def will_be(self) -> RecordState:
        """Its state once what is being written is written."""
        return self.state if self.becomes is None else self.becomes


class Spans:
    """The spans from `start` on, up to `end` (excluded)."""

    def __init__(self, start: Offset) -> None:
        self.start = start
        self._spans: list[Span] = []

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def end(self) -> Offset:
        """The offset after the last one that has a state."""
        return self._spans[-1].last + 1 if self._spans else self.start

    def within(self, first: Offset, last: Offset) -> list[Span]:
        """What is known of these offsets, cut to them."""
        found = []
        for index in range(max(self._index(first), 0), len(self._spans)):
            span = self._spans[index]
            if span.first > last:
                break
            if span.last >= first:
                found.append(span._replace(first=max(span.first, first), last=min(span.last, last)))
        return found

    def run_of(self, offset: Offset) -> Span:
        """The whole run in which a known offset is."""
        return self._spans[self._index(offset)]

    def append(self, span: Span) -> None:
        """Adds a span that begins at `end`."""
        assert span.first == self.end, f"{span} after {self.end}"
        if self._spans and _is_alike(self._spans[-1], span):
            self._spans[-1] = self._spans[-1]._replace(last=span.last)
        else:
            self._spans.append(span)

    def change(self, first: Offset, last: Offset, new: Callable[[Span], Span]) -> None:
        """Gives these offsets, which are all known, another state; `new` is called with each run of them."""
        low, high = self._index(first), self._index(last)
        changed: list[Span] = []
        for span in self._spans[low : high + 1]:
            begin, end = max(span.first, first), min(span.last, last)
            if span.first < begin:
                changed.append(span._replace(last=begin - 1))
            changed.append(new(span._replace(first=begin, last=end)))
            if end < span.last:
                changed.append(span._replace(first=end + 1))
        left, right = max(low - 1, 0), min(high + 2, len(self._spans))
        self._spans[left:right] = _merged([*self._spans[left:low], *changed, *self._spans[high + 1 : right]])

    def change_all(self, new: Callable[[Span], Span]) -> None:
        """The same for every span."""
        self._spans = _merged([new(span) for span in self._spans])

    def drop_below(self, offset: Offset) -> None:
        """Forgets all offsets below. A state that was below begins at `start` then."""
        if offset <= self.start:
            return
        self._spans = [span._replace(first=max(span.first, offset)) for span in self._spans if span.last >= offset]
        self.start = offset

    def _index(self, offset: Offset) -> int:
        return bisect_right(self._spans, offset, key=lambda span: span.first) - 1


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in spans:
        if merged and _is_alike(merged[-1], span):
            merged[-1] = merged[-1]._replace(last=span.last)
        else:
            merged.append(span)
    return merged


def _is_alike(before: Span, after: Span) -> bool:
    return before[2:] == after[2:]
