"""A small blocking client of ZooKeeper's wire protocol, for looking at a real server; nothing of kavka is behind it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

from kavka.zookeeper.port import Check, Create, CreateMode, Delete, Operation, SetData, Stat

CREATE2, DELETE, EXISTS, GET_DATA, SET_DATA, GET_CHILDREN2, CHECK, MULTI = 15, 2, 3, 4, 5, 12, 13, 14
CREATE_CONTAINER, CLOSE = 19, -11
NO_NODE = -101
_STAT = struct.Struct(">qqqqiiiqiiq")
_REPLY = struct.Struct(">iqi")
_OPEN_ACL = struct.pack(">ii", 1, 31) + struct.pack(">i5s", 5, b"world") + struct.pack(">i6s", 6, b"anyone")


class Event(NamedTuple):
    """A watch event as it came."""

    type: int
    path: str


class ServerError(Exception):
    """An answer with an error code."""

    def __init__(self, code: int, *, operation_index: int = -1) -> None:
        super().__init__(f"ZooKeeper error {code}")
        self.code = code
        self.operation_index = operation_index


def _buffer(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _text(text: str) -> bytes:
    return _buffer(text.encode())


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def unpack(self, layout: str) -> tuple[int, ...]:
        values: tuple[int, ...] = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return values

    def buffer(self) -> bytes | None:
        (length,) = self.unpack(">i")
        if length < 0:
            return None
        start, self.position = self.position, self.position + length
        return self.data[start : self.position]

    def text(self) -> str:
        return (self.buffer() or b"").decode()

    def stat(self) -> Stat:
        return Stat(*self.unpack(_STAT.format))


class JuteClient:
    """One session. Watch events are collected in `events`."""

    def __init__(self, address: str, *, timeout_ms: int = 30_000) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._xid = 0
        self.events: list[Event] = []
        self._send(struct.pack(">iqiq", 0, 0, timeout_ms, 0) + _buffer(bytes(16)))
        _, _, self.session_id = struct.unpack_from(">iiq", self._receive())

    def create(
        self, path: str, data: bytes | None = None, mode: CreateMode = CreateMode.PERSISTENT
    ) -> tuple[str, Stat]:
        container = mode is CreateMode.CONTAINER
        answer = self._call(CREATE_CONTAINER if container else CREATE2, _create_body(path, data, mode))
        return answer.text(), answer.stat()

    def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
        return self._call(SET_DATA, _text(path) + _buffer(data) + struct.pack(">i", version)).stat()

    def delete(self, path: str, version: int = -1) -> None:
        self._call(DELETE, _text(path) + struct.pack(">i", version))

    def get(self, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        answer = self._call(GET_DATA, _text(path) + bytes([watch]))
        return answer.buffer(), answer.stat()

    def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        try:
            return self._call(EXISTS, _text(path) + bytes([watch])).stat()
        except ServerError as error:
            if error.code == NO_NODE:
                return None
            raise

    def children(self, path: str, *, watch: bool = False) -> tuple[list[str], Stat]:
        answer = self._call(GET_CHILDREN2, _text(path) + bytes([watch]))
        (count,) = answer.unpack(">i")
        return sorted(answer.text() for _ in range(count)), answer.stat()

    def multi(self, operations: Sequence[Operation]) -> list[object]:
        parts = []
        for operation in operations:
            if isinstance(operation, Create):
                container = operation.mode is CreateMode.CONTAINER
                kind = CREATE_CONTAINER if container else CREATE2
                body = _create_body(operation.path, operation.data, operation.mode)
            elif isinstance(operation, SetData):
                kind = SET_DATA
                body = _text(operation.path) + _buffer(operation.data) + struct.pack(">i", operation.version)
            else:
                assert isinstance(operation, (Delete, Check))
                kind = DELETE if isinstance(operation, Delete) else CHECK
                body = _text(operation.path) + struct.pack(">i", operation.version)
            parts += [struct.pack(">i?i", kind, False, -1), body]
        answer = self._call(MULTI, b"".join(parts) + struct.pack(">i?i", -1, True, -1))
        return self._multi_results(answer)

    def _multi_results(self, answer: _Reader) -> list[object]:
        results: list[object] = []
        errors: list[int] = []
        while True:
            kind, done, _ = answer.unpack(">i?i")
            if done:
                break
            if kind == -1:
                errors.append(answer.unpack(">i")[0])
            elif kind in (CREATE2, CREATE_CONTAINER):
                results.append((answer.text(), answer.stat()))
            else:
                results.append(answer.stat() if kind == SET_DATA else None)
        if errors:
            index = next(index for index, code in enumerate(errors) if code not in (0, -2))
            raise ServerError(errors[index], operation_index=index)
        return results

    def close(self) -> None:
        """Ends the session."""
        self._call(CLOSE, b"")
        self._socket.close()

    def _call(self, kind: int, body: bytes) -> _Reader:
        self._xid += 1
        self._send(struct.pack(">ii", self._xid, kind) + body)
        while True:
            answer = _Reader(self._receive())
            xid, _, error = answer.unpack(_REPLY.format)
            if xid == -1:
                event_type, _ = answer.unpack(">ii")
                self.events.append(Event(event_type, answer.text()))
                continue
            assert xid == self._xid
            if error and kind != MULTI:
                raise ServerError(error)
            return answer

    def _send(self, data: bytes) -> None:
        self._socket.sendall(_buffer(data))

    def _receive(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise ConnectionError("ZooKeeper closed the connection")
            data += part
        return data


def _create_body(path: str, data: bytes | None, mode: CreateMode) -> bytes:
    return _text(path) + _buffer(data) + _OPEN_ACL + struct.pack(">i", mode)


def whole_tree(client: JuteClient, path: str = "/") -> dict[str, tuple[bytes | None, Stat]]:
    """All nodes from `path` on but ZooKeeper's own, by path; without those that vanish while it is read."""
    try:
        nodes = {path: client.get(path)}
        names = client.children(path)[0]
    except ServerError as error:
        if error.code != NO_NODE:
            raise
        return {}
    for name in names:
        child = f"{'' if path == '/' else path}/{name}"
        if child != "/zookeeper":
            nodes |= whole_tree(client, child)
    return nodes


def delete_tree(client: JuteClient, path: str) -> None:
    """Deletes a node with all below it, whatever vanishes meanwhile."""
    for node in sorted(whole_tree(client, path), reverse=True):
        try:
            client.delete(node)
        except ServerError as error:
            if error.code != NO_NODE:
                raise
