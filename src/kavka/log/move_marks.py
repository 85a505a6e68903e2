"""MoveMark: what a partition's directory says of moves, where two log directories have its name.

Decides which of several directories with one partition's name is the log, and whether that can be told while a log
directory is missing. It must not know how a log is moved.

    no mark           the log; or, from before there were marks in both directories, the former one of a move
    "3"               the log. Others with a mark are older
    "2 undecided"     a move from here, or to here, is at its last step, or ended there: the log, or an older copy

`log_move` writes the marks in such an order that of all directories at most one has no mark or a decided one, which is
the log; where there is none, nothing was acknowledged since the one with the highest number was copied.

Invariants
  I1  An undecided one is the log only where every log directory is there to be asked.
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
    if len(marked) == len(marks) or any(mark.is_decided for mark in marked.values()):
        return max(marked, key=lambda path: marked[path].number, default=None)
    return next(iter(marks)) if len(marks) == 1 else None
