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

from collections.abc import Iterable
from typing import Final, NamedTuple

from kavka.decisions import RING_MARK

_BEGIN: Final = b'{"version":1,"id":"'
"""How `encode_decision` begins: a line need not be decoded to be counted."""


class _Line(NamedTuple):
    life: bytes
    number: int
    line: bytes


def left_behind(lines: Iterable[bytes], own_life: str) -> list[bytes]:
    """Lines of decisions that are to be written to the topic, in order. `own_life` is the life that asks: what it
    decided itself it knows."""
    waiting: list[_Line] = []
    has_marks = False
    for line in lines:
        if line.startswith(RING_MARK):
            has_marks = True
            _forget_sent(waiting, _id_after(line, RING_MARK))
        elif has_marks and line.startswith(_BEGIN) and (found := _id_after(line, _BEGIN)) is not None:
            waiting.append(_Line(*found, line))
    return [each.line for each in waiting if each.life != own_life.encode()]


def _forget_sent(waiting: list[_Line], sent: tuple[bytes, int] | None) -> None:
    if sent is None:
        return
    life, number = sent
    for index in range(len(waiting) - 1, -1, -1):
        if waiting[index].life == life and waiting[index].number <= number:
            del waiting[: index + 1]
            return


def _id_after(line: bytes, begin: bytes) -> tuple[bytes, int] | None:
    """Life and number of the id that stands there; None if it is none."""
    end = line.find(b'"', len(begin))
    life, _, number = line[len(begin) : max(end, 0)].rpartition(b"-")
    return (life, int(number)) if life and number.isdigit() else None
