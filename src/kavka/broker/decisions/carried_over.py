"""What earlier lives of this broker left in its ring, and `__kavka_decisions` does not have.

Decides which lines these are. Pure: lines in, lines out. Must not know how they were written, nor where they go.

A mark in the ring (`kavka.decisions.ring_mark`) names a decision that the topic has, with all that stand before it:
they were sent in this order. Ids are `<life>-<number>`, and numbers rise within a life.

    I1  a line before the first mark of the whole ring is left alone: an earlier build wrote it, and nobody knows
        whether it is in the topic
    I2  a mark whose decision is not to be found (damaged, or in a file that was replaced) still covers the lines of its
        life with smaller numbers, and all before them
    I3  where a mark is lost, a line is named that the topic has; its id is the same, so readers show it once

Source: none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from kavka.decisions import RING_MARK

_BEGIN: Final = b'{"version":1,"id":"'
"""How `encode_decision` begins: a line need not be decoded to be counted."""


_MAX_DIGITS: Final = 18
"""Of a number in an id. What has more is damaged, and Python would refuse to read it."""


class _Id(NamedTuple):
    life: bytes
    number: int


class _Waiting:
    """Lines in order, of which marks take those at the beginning."""

    def __init__(self) -> None:
        self._lines: list[tuple[bytes, bytes]] = []
        self._begin = 0
        self._of_lives: dict[bytes, tuple[list[int], list[int]]] = {}
        """By life: the numbers of its lines, which rise, and where they are."""

    def add(self, found: _Id, line: bytes) -> None:
        numbers, indexes = self._of_lives.setdefault(found.life, ([], []))
        numbers.append(found.number)
        indexes.append(len(self._lines))
        self._lines.append((found.life, line))

    def forget_sent(self, sent: _Id) -> None:
        numbers, indexes = self._of_lives.get(sent.life, ((), ()))
        covered = bisect_right(numbers, sent.number)
        if covered:
            self._begin = max(self._begin, indexes[covered - 1] + 1)

    def left(self, own_life: bytes) -> list[bytes]:
        return [line for life, line in self._lines[self._begin :] if life != own_life]


def left_behind(lines: Iterable[bytes], own_life: str) -> list[bytes]:
    """Lines of decisions that are to be written to the topic, in order. `own_life` is the life that asks: what it
    decided itself it knows."""
    waiting = _Waiting()
    has_marks = False
    for line in lines:
        if line.startswith(RING_MARK):
            has_marks = True
            sent = _id_after(line, RING_MARK)
            if sent is not None:
                waiting.forget_sent(sent)
        elif has_marks and line.startswith(_BEGIN) and (found := _id_after(line, _BEGIN)) is not None:
            waiting.add(found, line)
    return waiting.left(own_life.encode())


def _id_after(line: bytes, begin: bytes) -> _Id | None:
    """Life and number of the id that stands there; None if it is none."""
    end = line.find(b'"', len(begin))
    life, _, number = line[len(begin) : max(end, 0)].rpartition(b"-")
    return _Id(life, int(number)) if life and number.isdigit() and len(number) <= _MAX_DIGITS else None
