"""MoveMark: what a partition's directory says of moves, where two log directories have its name.

Decides which of several directories with one partition's name is the log, and whether that can be told while a log
directory is missing. It must not know how a log is moved.

    no mark           the log
    "3"               the log. Others with a mark are older
    "2 undecided"     a move from here, or to here, is at its last step, or ended there: the log, or an older copy

`log_move` writes the marks in such an order that of all directories at most one has no mark or a decided one, which is
the log, with the highest number; where there is none, nothing was acknowledged since the one with the highest number
was copied. It is otherwise where two logs were written to without knowing of each other: 1. The disk with the log is
taken for lost. 2. An older copy is served, or the partition made anew. 3. The disk is back.

Invariants
  I1  An undecided one is the log only where every log directory is there to be asked.
  I2  Of two that may both have been acknowledged in, neither is taken for the older one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kavka.filesystem import FileSystem
from kavka.log.decide.directory_names import MOVED_MARK

_TEXT = re.compile(rb"([0-9]{1,19})( undecided)?")


class MoveMark(NamedTuple):
    """`number` is higher in later copies."""

    number: int
    is_decided: bool


def read_mark(filesystem: FileSystem, directory: str) -> MoveMark | None:
    """The mark of a log's directory. One that says nothing is as from before there were numbers. Raises
    `StorageError`."""
    try:
        found = _TEXT.fullmatch(filesystem.read(f"{directory}/{MOVED_MARK}"))
    except FileNotFoundError:
        return None
    return MoveMark(int(found[1]), found[2] is None) if found else MoveMark(0, is_decided=True)


def write_mark(filesystem: FileSystem, directory: str, mark: MoveMark) -> None:
    """Durably. Raises `StorageError`."""
    text = b"%d" % mark.number if mark.is_decided else b"%d undecided" % mark.number
    filesystem.write_atomically(f"{directory}/{MOVED_MARK}", text)


def choose(marks: Mapping[str, MoveMark | None]) -> str | None:
    """Which of the directories with a partition's name is the log. None where nobody can say."""
    marked = {path: mark for path, mark in marks.items() if mark is not None}
    if len(marks) > 1 and len(marked) < len(marks):
        return None
    newest = max(marked, key=lambda path: marked[path].number, default=None)
    if any(mark.is_decided and path != newest for path, mark in marked.items()):
        return None
    return next(iter(marks), None) if newest is None else newest
