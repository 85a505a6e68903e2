"""ClientWatches: the watches that a client's session has, so that they can be left again on another connection.

A server forgets the watches of a connection that ends. When the session goes on elsewhere the client names them, with
the zxid up to which it has seen everything; the server arms those whose nodes did not change since, and tells the
events of the others at once. Paths are the server's: chroots are not known here.

    left by                  table    told again, and gone, by
    get that found a node    DATA     the node's change, its deletion
    exists that found one    DATA
    exists that found none   EXIST    the node's creation (then also change and deletion)
    children                 CHILD    a child that came or went, the node's deletion
    add_watch                lasting  nothing: it stays. What changed while there was no connection is not told.

Invariants:
I1  A one-shot watch is in its table from the answer that left it until its event came.
I2  Requests of `restoring` are at most RESTORED_BYTES long, or hold one path.

Source: ZooKeeper's ZKWatchManager and ClientCnxn.primeConnection.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, TypeAlias

from kavka.zookeeper.decide.jute import OpCode, SetWatches2Request, SetWatchesRequest
from kavka.zookeeper.port import EventType, WatchMode

RESTORED_BYTES: Final = 128 * 1024
"""ZooKeeper's own client makes its setWatches no longer, so that they stay below jute.maxbuffer."""


class WatchTable(IntEnum):
    """Kinds of one-shot watches, in the order of setWatches' fields."""

    DATA = 0
    EXIST = 1
    CHILD = 2


_FIRED: Final = {
    EventType.NODE_CREATED: (WatchTable.DATA, WatchTable.EXIST),
    EventType.NODE_DATA_CHANGED: (WatchTable.DATA, WatchTable.EXIST),
    EventType.NODE_DELETED: (WatchTable.DATA, WatchTable.EXIST, WatchTable.CHILD),
    EventType.NODE_CHILDREN_CHANGED: (WatchTable.CHILD,),
}
RestoringRequest: TypeAlias = tuple[OpCode, SetWatchesRequest | SetWatches2Request]


class ClientWatches:
    """Dictionaries stand for sets that keep their order."""

    def __init__(self) -> None:
        self._one_shot: tuple[dict[str, None], ...] = ({}, {}, {})
        self._lasting: dict[str, WatchMode] = {}

    def __len__(self) -> int:
        return sum(map(len, self._one_shot)) + len(self._lasting)

    def left(self, table: WatchTable, path: str) -> None:
        """A read left a watch."""
        self._one_shot[table][path] = None

    def added(self, path: str, mode: WatchMode) -> None:
        """A watch that stays; it takes the place of another on this path."""
        self._lasting[path] = mode

    def told(self, kind: EventType, path: str) -> None:
        """An event came: the one-shot watches that it answers are gone."""
        for table in _FIRED[kind]:
            self._one_shot[table].pop(path, None)

    def remove(self, path: str) -> None:
        """All watches on this path."""
        for table in self._one_shot:
            table.pop(path, None)
        self._lasting.pop(path, None)

    def clear(self) -> None:
        """The session is gone, and its watches with it."""
        for table in self._one_shot:
            table.clear()
        self._lasting.clear()

    def restoring(self, seen_zxid: int) -> list[RestoringRequest]:
        """What to send first on a new connection; SetWatches2, which came with 3.6, only where something stays."""
        requests: list[RestoringRequest] = []
        for batch in self._batches():
            data, exist, child, persistent, recursive = map(tuple, batch)
            if persistent or recursive:
                lasting = SetWatches2Request(seen_zxid, data, exist, child, persistent, recursive)
                requests.append((OpCode.SET_WATCHES2, lasting))
            else:
                requests.append((OpCode.SET_WATCHES, SetWatchesRequest(seen_zxid, data, exist, child)))
        return requests

    def _batches(self) -> Iterator[list[list[str]]]:
        """Five lists each: data, exist, child, persistent, recursive."""
        batch: list[list[str]] = [[], [], [], [], []]
        size = 0
        for field, path in self._all():
            path_bytes = 4 + len(path.encode())
            if size and size + path_bytes > RESTORED_BYTES:
                yield batch
                batch, size = [[], [], [], [], []], 0
            batch[field].append(path)
            size += path_bytes
        if size:
            yield batch

    def _all(self) -> Iterator[tuple[int, str]]:
        for table in WatchTable:
            for path in self._one_shot[table]:
                yield table, path
        for path, mode in self._lasting.items():
            yield 3 + (mode is WatchMode.PERSISTENT_RECURSIVE), path
