"""Watches: which session watches what, and which sessions hear of a change.

A one-shot watch on a node's data or children is gone with the first event; a lasting one, on one path or on all below
it, stays until it is removed. It knows no nodes: whoever leaves a watch has looked whether it may.

Source: Apache ZooKeeper's documentation and its observable behaviour (WatchManager).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kavka.zookeeper.decide.path import parent_path
from kavka.zookeeper.port import EventType, WatchEvent, WatchMode

_Table: TypeAlias = Mapping[str, Mapping[int, object]]


class WatchKind(IntEnum):
    """Which watches on a path are meant, with ZooKeeper's numbers (WatcherType)."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class WatchSummary(NamedTuple):
    """Counts of what is watched."""

    sessions: int
    paths: int
    watches: int


class Notification(NamedTuple):
    """A watch event on its way to the session that watches."""

    session_id: int
    event: WatchEvent


class Watches:
    """The watches of all sessions, by path and session id, in the order in which they were left."""

    def __init__(self) -> None:
        self._data: dict[str, dict[int, None]] = {}
        self._children: dict[str, dict[int, None]] = {}
        self._lasting: dict[str, dict[int, WatchMode]] = {}
        self._recursive = 0

    def __bool__(self) -> bool:
        """Whether anything is watched."""
        return bool(self._data or self._children or self._lasting)

    def _tables(self) -> tuple[_Table, ...]:
        return self._data, self._children, self._lasting

    # -- left and removed

    def add_data(self, path: str, session_id: int) -> None:
        """Leaves a one-shot watch on a node's data, and on whether it is there."""
        self._data.setdefault(path, {})[session_id] = None

    def add_children(self, path: str, session_id: int) -> None:
        """Leaves a one-shot watch on which children a node has."""
        self._children.setdefault(path, {})[session_id] = None

    def add_lasting(self, path: str, mode: WatchMode, session_id: int) -> None:
        """Leaves a watch that stays until removed; on the same path it replaces the session's former one."""
        watchers = self._lasting.setdefault(path, {})
        self._recursive += (mode is WatchMode.PERSISTENT_RECURSIVE) - (
            watchers.get(session_id) is WatchMode.PERSISTENT_RECURSIVE
        )
        watchers[session_id] = mode

    def has(self, path: str, session_id: int, kind: WatchKind) -> bool:
        """Whether the session has a watch of this kind on `path`."""
        if any(session_id in table.get(path, ()) for table in self._one_shot(kind)):
            return True
        mode = self._lasting.get(path, {}).get(session_id)
        return mode is not None and _concerns(kind, mode)

    def count(self) -> int:
        """Watches of all sessions."""
        return sum(len(watchers) for table in self._tables() for watchers in table.values())

    def summary(self) -> WatchSummary:
        """How many sessions watch how many paths."""
        paths = {path for table in self._tables() for path in table}
        watching = {session_id for table in self._tables() for watchers in table.values() for session_id in watchers}
        return WatchSummary(len(watching), len(paths), self.count())

    def on_came_or_went(self, kind: EventType, path: str, zxid: int, out: list[Notification]) -> None:
        """A node came or went. Nearly none of a topic's thousands of nodes is watched, so that is looked up first."""
        lasting = self._lasting
        if (
            path in self._data
            or path in lasting
            or self._recursive
            or (kind is EventType.NODE_DELETED and path in self._children)
        ):
            self.trigger(kind, path, zxid, out)
        parent = path[: path.rfind("/")] or "/"
        if parent in self._children or parent in lasting:
            self.trigger(EventType.NODE_CHILDREN_CHANGED, parent, zxid, out)

    def trigger(self, kind: EventType, path: str, zxid: int, out: list[Notification]) -> None:
        """Each session that watches hears of it once, in the order: one-shot watches, lasting ones, recursive ones."""
        told: dict[int, None] = {}
        if kind is not EventType.NODE_CHILDREN_CHANGED:
            told.update(self._data.pop(path, {}))
        if kind in (EventType.NODE_CHILDREN_CHANGED, EventType.NODE_DELETED):
            told.update(self._children.pop(path, {}))
        for session_id, mode in self._lasting.get(path, {}).items():
            if mode is WatchMode.PERSISTENT or kind is not EventType.NODE_CHILDREN_CHANGED:
                told[session_id] = None
        if self._recursive and kind is not EventType.NODE_CHILDREN_CHANGED:
            above = path
            while above != "/":
                above = parent_path(above)
                for session_id, mode in self._lasting.get(above, {}).items():
                    if mode is WatchMode.PERSISTENT_RECURSIVE:
                        told[session_id] = None
        if told:
            event = WatchEvent(kind, path, zxid)
            out.extend(Notification(session_id, event) for session_id in told)

    def _one_shot(self, kind: WatchKind) -> list[dict[str, dict[int, None]]]:
        """The tables of one-shot watches of this kind."""
        tables = []
        if kind in (WatchKind.DATA, WatchKind.ANY):
            tables.append(self._data)
        if kind in (WatchKind.CHILDREN, WatchKind.ANY):
            tables.append(self._children)
        return tables

    def remove(self, path: str, session_id: int, kind: WatchKind = WatchKind.ANY) -> bool:
        """Removes the session's watches of this kind on `path`; whether there was one."""
        removed = False
        for table in self._one_shot(kind):
            watchers = table.get(path)
            if watchers is not None and session_id in watchers:
                del watchers[session_id]
                removed = True
                if not watchers:
                    del table[path]
        lasting = self._lasting.get(path)
        if lasting is not None and session_id in lasting and _concerns(kind, lasting[session_id]):
            self._recursive -= lasting.pop(session_id) is WatchMode.PERSISTENT_RECURSIVE
            removed = True
            if not lasting:
                del self._lasting[path]
        return removed

    def forget(self, session_id: int) -> None:
        """The session watches nothing any more."""
        for table in self._tables():
            for path in [path for path, watchers in table.items() if session_id in watchers]:
                self.remove(path, session_id)


def _concerns(kind: WatchKind, mode: WatchMode) -> bool:
    """Whether a watch that stays is one of this kind."""
    if kind is WatchKind.ANY:
        return True
    return kind is (WatchKind.PERSISTENT if mode is WatchMode.PERSISTENT else WatchKind.PERSISTENT_RECURSIVE)
