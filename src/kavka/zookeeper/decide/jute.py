"""ZooKeeper's wire protocol as bytes: records of requests and answers, and their encoding, jute.

Decides what a frame's bytes mean and which bytes a record becomes; both directions, so that a client can use it too.
It must not know sessions, the tree, or the order of requests on a connection.

    frame      0  length u32, not counting itself      4  payload
    request    0  xid i32    4  op i32                 8  the op's record
    reply      0  xid i32    4  zxid i64   12 err i32  16 the op's answer, nothing if err is not 0
    connect    the first frame of each side has no header: `ConnectRequest`, `ConnectAnswer`

    int, long  i32, i64, big-endian        buffer  length i32 (-1: null), bytes        vector  count i32, elements
    bool       one byte                    string  length i32 (-1: null), UTF-8

Invariants:
I1  Any bytes are either a record or a ProtocolViolation; what is allocated is bounded by the frame's length.
I2  decode(encode(record)) is the record. A null string reads as "", a null vector as an empty one.
I3  Bytes behind a record are ignored, as ZooKeeper does: later clients append fields.

Source: ZooKeeper's zookeeper.jute and org.apache.zookeeper.ZooDefs.OpCode of 3.5 to 3.9.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from kavka.errors import ProtocolViolation
from kavka.zookeeper.port import Acl, AclList, Stat

WATCH_XID: Final = -1
"""The xid of watch events."""
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

OK: Final = 0
RUNTIME_INCONSISTENCY: Final = -2
"""In a failed multi: the error of the operations behind the one that failed."""
UNIMPLEMENTED: Final = -6
AUTH_FAILED: Final = -115
LOGIN_REQUIRED: Final = -124
"""The session is closed: it must log in first (ZooKeeper's SESSIONCLOSEDREQUIRESASLAUTH)."""

SYNC_CONNECTED: Final = 3
"""The session's state in every watch event."""
PASSWORD_BYTES: Final = 16

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_STAT = struct.Struct(">qqqqiiiqiiq")
_REQUEST_HEADER = struct.Struct(">ii")
_REPLY_HEADER = struct.Struct(">iqi")
_MULTI_HEADER = struct.Struct(">i?i")
_MULTI_END = _MULTI_HEADER.pack(-1, True, -1)
_ERROR_RESULT: Final = -1


class OpCode(IntEnum):
    """Kinds of requests, with ZooKeeper's numbers."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11


# -------------------------------------------------------------------------------------------------------- requests


class ConnectRequest(NamedTuple):
    """A client's first frame. `session_id` is 0 for a new session; `read_only` is None where an old client (before
    3.4) does not send it."""

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes | None
    read_only: bool | None = None


class EmptyRequest(NamedTuple):
    """ping, closeSession, whoAmI."""


class CreateRequest(NamedTuple):
    """create, create2, createContainer; `flags` is a `CreateMode`."""

    path: str
    data: bytes | None
    acl: AclList
    flags: int


class CreateTtlRequest(NamedTuple):
    """createTTL."""

    path: str
    data: bytes | None
    acl: AclList
    flags: int
    ttl_ms: int


class PathRequest(NamedTuple):
    """getACL, sync, getAllChildrenNumber; getEphemerals with the prefix of the paths."""

    path: str


class WatchedPathRequest(NamedTuple):
    """exists, getData, getChildren, getChildren2."""

    path: str
    watch: bool


class VersionedPathRequest(NamedTuple):
    """delete, check."""

    path: str
    version: int


class SetDataRequest(NamedTuple):
    path: str
    data: bytes | None
    version: int


class SetAclRequest(NamedTuple):
    path: str
    acl: AclList
    version: int


class WatchRequest(NamedTuple):
    """addWatch (`kind` is a `WatchMode`); checkWatches and removeWatches (`kind` is a `watches.WatchKind`)."""

    path: str
    kind: int


class SetWatchesRequest(NamedTuple):
    """Watches of a client that lost its connection, having seen everything up to `seen_zxid`."""

    seen_zxid: int
    data: tuple[str, ...]
    exist: tuple[str, ...]
    child: tuple[str, ...]


class SetWatches2Request(NamedTuple):
    """The same with the watches that stay."""

    seen_zxid: int
    data: tuple[str, ...]
    exist: tuple[str, ...]
    child: tuple[str, ...]
    persistent: tuple[str, ...]
    recursive: tuple[str, ...]


class AuthRequest(NamedTuple):
    """`kind` is 0 and means nothing."""

    kind: int
    scheme: str
    credentials: bytes | None


class TokenRequest(NamedTuple):
    """A message of SASL; empty: begin."""

    token: bytes | None


class MultiRequest(NamedTuple):
    """multi, multiRead: op and record of each part."""

    parts: tuple[tuple[OpCode, RequestRecord], ...]


RequestRecord: TypeAlias = (
    EmptyRequest
    | CreateRequest
    | CreateTtlRequest
    | PathRequest
    | WatchedPathRequest
    | VersionedPathRequest
    | SetDataRequest
    | SetAclRequest
    | WatchRequest
    | SetWatchesRequest
    | SetWatches2Request
    | AuthRequest
    | TokenRequest
    | MultiRequest
)


class Request(NamedTuple):
    """One request. `record` is None where `op` is none of `OpCode`."""

    xid: int
    op: int
    record: RequestRecord | None


# --------------------------------------------------------------------------------------------------------- answers


class ConnectAnswer(NamedTuple):
    """A server's first frame. A time-out of 0 says that the session asked for is expired; `read_only` is None towards
    a client that did not send it."""

    protocol_version: int
    timeout_ms: int
    session_id: int
    password: bytes | None
    read_only: bool | None = None


class PathAnswer(NamedTuple):
    """create, sync."""

    path: str


class CreatedAnswer(NamedTuple):
    """create2, createContainer, createTTL."""

    path: str
    stat: Stat


class StatAnswer(NamedTuple):
    """exists, setData, setACL."""

    stat: Stat


class DataAnswer(NamedTuple):
    data: bytes | None
    stat: Stat


class AclAnswer(NamedTuple):
    acl: AclList
    stat: Stat


class PathsAnswer(NamedTuple):
    """getChildren (names), getEphemerals (paths)."""

    paths: tuple[str, ...]


class ChildrenAnswer(NamedTuple):
    names: tuple[str, ...]
    stat: Stat


class NumberAnswer(NamedTuple):
    """getAllChildrenNumber; addWatch, whose number is an error code again."""

    number: int


class IdentitiesAnswer(NamedTuple):
    """whoAmI: scheme and user of each."""

    identities: tuple[tuple[str, str], ...]


class TokenAnswer(NamedTuple):
    """A message of SASL."""

    token: bytes | None


class ErrorAnswer(NamedTuple):
    """Part of a multi that was not carried out."""

    error: int


class MultiAnswer(NamedTuple):
    """multi, multiRead: op and answer of each part, None where the op has none; (None, ErrorAnswer) for a failure."""

    parts: tuple[tuple[OpCode | None, AnswerRecord | None], ...]


AnswerRecord: TypeAlias = (
    PathAnswer
    | CreatedAnswer
    | StatAnswer
    | DataAnswer
    | AclAnswer
    | PathsAnswer
    | ChildrenAnswer
    | NumberAnswer
    | IdentitiesAnswer
    | TokenAnswer
    | ErrorAnswer
    | MultiAnswer
)


class ReplyHeader(NamedTuple):
    """`zxid` is that of the state that the answer shows, `error` one of `port.Rejected`'s codes or 0."""

    xid: int
    zxid: int
    error: int = OK


class WatcherEvent(NamedTuple):
    """A watch event: `kind` is an `EventType`, `state` the session's."""

    kind: int
    state: int
    path: str


# --------------------------------------------------------------------------------------------------------- layouts
# i int, l long, ? bool, b buffer, s string, S strings, a access control list, t stat, p pairs of strings

_LAYOUTS: Final[Mapping[type, str]] = {
    EmptyRequest: "",
    CreateRequest: "sbai",
    CreateTtlRequest: "sbail",
    PathRequest: "s",
    WatchedPathRequest: "s?",
    VersionedPathRequest: "si",
    SetDataRequest: "sbi",
    SetAclRequest: "sai",
    WatchRequest: "si",
    SetWatchesRequest: "lSSS",
    SetWatches2Request: "lSSSSS",
    AuthRequest: "isb",
    TokenRequest: "b",
    TokenAnswer: "b",
    PathAnswer: "s",
    CreatedAnswer: "st",
    StatAnswer: "t",
    DataAnswer: "bt",
    AclAnswer: "at",
    PathsAnswer: "S",
    ChildrenAnswer: "St",
    NumberAnswer: "i",
    IdentitiesAnswer: "p",
    ErrorAnswer: "i",
    WatcherEvent: "iis",
}

# Of each op the record of the request and the record of the answer. MultiRequest and MultiAnswer have no layout.
_RECORDS: Final[Mapping[OpCode, tuple[type, type | None]]] = {
    OpCode.CREATE: (CreateRequest, PathAnswer),
    OpCode.DELETE: (VersionedPathRequest, None),
    OpCode.EXISTS: (WatchedPathRequest, StatAnswer),
    OpCode.GET_DATA: (WatchedPathRequest, DataAnswer),
    OpCode.SET_DATA: (SetDataRequest, StatAnswer),
    OpCode.GET_ACL: (PathRequest, AclAnswer),
    OpCode.SET_ACL: (SetAclRequest, StatAnswer),
    OpCode.GET_CHILDREN: (WatchedPathRequest, PathsAnswer),
    OpCode.SYNC: (PathRequest, PathAnswer),
    OpCode.PING: (EmptyRequest, None),
    OpCode.GET_CHILDREN2: (WatchedPathRequest, ChildrenAnswer),
    OpCode.CHECK: (VersionedPathRequest, None),
    OpCode.MULTI: (MultiRequest, MultiAnswer),
    OpCode.CREATE2: (CreateRequest, CreatedAnswer),
    OpCode.CHECK_WATCHES: (WatchRequest, None),
    OpCode.REMOVE_WATCHES: (WatchRequest, None),
    OpCode.CREATE_CONTAINER: (CreateRequest, CreatedAnswer),
    OpCode.CREATE_TTL: (CreateTtlRequest, CreatedAnswer),
    OpCode.MULTI_READ: (MultiRequest, MultiAnswer),
    OpCode.AUTH: (AuthRequest, None),
    OpCode.SET_WATCHES: (SetWatchesRequest, None),
    OpCode.SASL: (TokenRequest, TokenAnswer),
    OpCode.GET_EPHEMERALS: (PathRequest, PathsAnswer),
    OpCode.GET_ALL_CHILDREN_NUMBER: (PathRequest, NumberAnswer),
    OpCode.SET_WATCHES2: (SetWatches2Request, None),
    OpCode.ADD_WATCH: (WatchRequest, NumberAnswer),
    OpCode.WHO_AM_I: (EmptyRequest, IdentitiesAnswer),
    OpCode.CLOSE_SESSION: (EmptyRequest, None),
}

_PARTS: Final[Mapping[OpCode, frozenset[OpCode]]] = {
    OpCode.MULTI: frozenset(
        {
            OpCode.CREATE,
            OpCode.CREATE2,
            OpCode.CREATE_CONTAINER,
            OpCode.CREATE_TTL,
            OpCode.DELETE,
            OpCode.SET_DATA,
            OpCode.CHECK,
        }
    ),
    OpCode.MULTI_READ: frozenset({OpCode.GET_DATA, OpCode.GET_CHILDREN}),
}


def record_type(op: OpCode) -> type:
    """The class of an op's request."""
    return _RECORDS[op][0]


def answer_type(op: OpCode) -> type | None:
    """The class of an op's answer, None where success has no body."""
    return _RECORDS[op][1]


def parts_of(op: OpCode) -> frozenset[OpCode]:
    """Which ops a multi or multiRead may hold; none for all other ops."""
    return _PARTS.get(op, frozenset())


# -------------------------------------------------------------------------------------------------- encoding, frames


def frame(payload: bytes) -> bytes:
    """The payload with its length before it."""
    return _INT.pack(len(payload)) + payload


def encode_connect_request(request: ConnectRequest) -> bytes:
    """The payload of a client's first frame."""
    return _encode_fields("ililb", request[:5]) + (b"" if request.read_only is None else bytes([request.read_only]))


def encode_connect_answer(answer: ConnectAnswer) -> bytes:
    """The payload of a server's first frame."""
    return _encode_fields("iilb", answer[:4]) + (b"" if answer.read_only is None else bytes([answer.read_only]))


def encode_request(request: Request) -> bytes:
    """The payload of a request's frame."""
    header = _REQUEST_HEADER.pack(request.xid, request.op)
    return header if request.record is None else header + _encode_request(request.record)


def encode_reply(header: ReplyHeader, answer: AnswerRecord | None = None) -> bytes:
    """The payload of a reply's frame."""
    return _REPLY_HEADER.pack(*header) + (_encode_answer(answer) if answer is not None else b"")


def encode_event(event: WatcherEvent, zxid: int) -> bytes:
    """The payload of a watch event's frame."""
    return _REPLY_HEADER.pack(WATCH_XID, zxid, OK) + _encode_fields("iis", event)


def _encode_request(record: RequestRecord) -> bytes:
    if not isinstance(record, MultiRequest):
        return _encode_fields(_LAYOUTS[type(record)], record)
    out = []
    for op, part in record.parts:
        out += [_MULTI_HEADER.pack(op, False, -1), _encode_request(part)]
    return b"".join([*out, _MULTI_END])


def _encode_answer(record: AnswerRecord) -> bytes:
    if not isinstance(record, MultiAnswer):
        return _encode_fields(_LAYOUTS[type(record)], record)
    out = []
    for op, part in record.parts:
        error = part.error if isinstance(part, ErrorAnswer) else OK
        out.append(_MULTI_HEADER.pack(_ERROR_RESULT if op is None else op, False, error))
        if part is not None:
            out.append(_encode_answer(part))
    return b"".join([*out, _MULTI_END])


def _encode_fields(layout: str, values: tuple[Any, ...]) -> bytes:
    return b"".join([_ENCODERS[code](value) for code, value in zip(layout, values, strict=True)])


def _encode_buffer(data: bytes | None) -> bytes:
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


def _encode_text(text: str) -> bytes:
    return _encode_buffer(text.encode())


def _encode_texts(texts: tuple[str, ...]) -> bytes:
    return _INT.pack(len(texts)) + b"".join(map(_encode_text, texts))


def _encode_acls(acls: AclList) -> bytes:
    entries = [_INT.pack(acl.permissions) + _encode_text(acl.scheme) + _encode_text(acl.id) for acl in acls]
    return _INT.pack(len(acls)) + b"".join(entries)


def _encode_pairs(pairs: tuple[tuple[str, str], ...]) -> bytes:
    return _INT.pack(len(pairs)) + b"".join([_encode_text(text) for pair in pairs for text in pair])


_ENCODERS: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "i": _INT.pack,
    "l": _LONG.pack,
    "?": lambda value: b"\x01" if value else b"\x00",
    "b": _encode_buffer,
    "s": _encode_text,
    "S": _encode_texts,
    "a": _encode_acls,
    "t": lambda stat: _STAT.pack(*stat),
    "p": _encode_pairs,
}


# -------------------------------------------------------------------------------------------------------- decoding


def decode_connect_request(payload: bytes) -> ConnectRequest:
    """A client's first frame. Raises ProtocolViolation."""
    reader = _Reader(payload)
    fields = reader.fields("ililb")
    return ConnectRequest._make([*fields, reader.boolean() if reader.left else None])


def decode_connect_answer(payload: bytes) -> ConnectAnswer:
    """A server's first frame. Raises ProtocolViolation."""
    reader = _Reader(payload)
    fields = reader.fields("iilb")
    return ConnectAnswer._make([*fields, reader.boolean() if reader.left else None])


def decode_request(payload: bytes) -> Request:
    """One request; an op that is unknown is left to the caller. Raises ProtocolViolation."""
    reader = _Reader(payload)
    xid, number = reader.unpack(_REQUEST_HEADER)
    if number not in OpCode._value2member_map_:
        return Request(xid, number, None)
    op = OpCode(number)
    return Request(xid, op, reader.request(op))


def decode_reply_header(payload: bytes) -> ReplyHeader:
    """Tells which request a reply belongs to; its xid is `WATCH_XID` for a watch event. Raises ProtocolViolation."""
    return ReplyHeader(*_Reader(payload).unpack(_REPLY_HEADER))


def decode_reply(payload: bytes, op: OpCode) -> tuple[ReplyHeader, AnswerRecord | None]:
    """The reply to a request of `op`. Raises ProtocolViolation."""
    reader = _Reader(payload)
    header = ReplyHeader(*reader.unpack(_REPLY_HEADER))
    return header, reader.answer(op) if header.error == OK else None


def decode_event(payload: bytes) -> WatcherEvent:
    """A frame whose xid is `WATCH_XID`. Raises ProtocolViolation."""
    reader = _Reader(payload)
    reader.unpack(_REPLY_HEADER)
    return WatcherEvent(*reader.fields("iis"))


class _Reader:
    """A position in a payload; what lies beyond its end is a ProtocolViolation."""

    __slots__ = ("_payload", "_position")

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._position = 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self._payload) - self._position

    def request(self, op: OpCode) -> Any:
        kind = record_type(op)
        if kind is not MultiRequest:
            return kind(*self.fields(_LAYOUTS[kind]))
        parts: list[tuple[OpCode, RequestRecord]] = []
        while True:
            number, done, _ = self.unpack(_MULTI_HEADER)
            if done:
                return MultiRequest(tuple(parts))
            part = self._part(op, number)
            parts.append((part, self.request(part)))

    def answer(self, op: OpCode) -> Any:
        kind = answer_type(op)
        if kind is None:
            return None
        if kind is not MultiAnswer:
            return kind(*self.fields(_LAYOUTS[kind]))
        parts: list[tuple[OpCode | None, AnswerRecord | None]] = []
        while True:
            number, done, _ = self.unpack(_MULTI_HEADER)
            if done:
                return MultiAnswer(tuple(parts))
            if number == _ERROR_RESULT:
                parts.append((None, ErrorAnswer(self.integer())))
            else:
                part = self._part(op, number)
                parts.append((part, self.answer(part)))

    def _part(self, op: OpCode, number: int) -> OpCode:
        allowed = parts_of(op)
        if number not in allowed:
            raise ProtocolViolation(f"op {number} in a {op.name.lower()}: expected one of {sorted(allowed)}")
        return OpCode(number)

    def fields(self, layout: str) -> list[Any]:
        return [_DECODERS[code](self) for code in layout]

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        start = self._position
        if self.left < layout.size:
            raise ProtocolViolation(f"{layout.size} bytes expected at {start}, found {self.left}")
        self._position = start + layout.size
        return layout.unpack_from(self._payload, start)

    def integer(self) -> int:
        value: int = self.unpack(_INT)[0]
        return value

    def long(self) -> int:
        value: int = self.unpack(_LONG)[0]
        return value

    def boolean(self) -> bool:
        if not self.left:
            raise ProtocolViolation(f"a bool expected at {self._position}, found the end")
        self._position += 1
        return self._payload[self._position - 1] != 0

    def buffer(self) -> bytes | None:
        length = self.integer()
        if length == -1:
            return None
        if not 0 <= length <= self.left:
            raise ProtocolViolation(f"a length of {length} at {self._position}, {self.left} bytes are left")
        start, self._position = self._position, self._position + length
        return self._payload[start : self._position]

    def text(self) -> str:
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError as error:
            raise ProtocolViolation(f"a string before {self._position} is not UTF-8") from error

    def count(self, element_bytes: int) -> int:
        """Length of a vector whose elements take at least `element_bytes`."""
        count = self.integer()
        if count == -1:
            return 0
        if not 0 <= count <= self.left // element_bytes:
            raise ProtocolViolation(f"a vector of {count} at {self._position}, {self.left} bytes are left")
        return count

    def texts(self) -> tuple[str, ...]:
        return tuple([self.text() for _ in range(self.count(4))])

    def acls(self) -> AclList:
        return tuple([Acl(self.integer(), self.text(), self.text()) for _ in range(self.count(12))])

    def stat(self) -> Stat:
        return Stat(*self.unpack(_STAT))

    def pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple([(self.text(), self.text()) for _ in range(self.count(8))])


_DECODERS: Final[Mapping[str, Callable[[_Reader], Any]]] = {
    "i": _Reader.integer,
    "l": _Reader.long,
    "?": _Reader.boolean,
    "b": _Reader.buffer,
    "s": _Reader.text,
    "S": _Reader.texts,
    "a": _Reader.acls,
    "t": _Reader.stat,
    "p": _Reader.pairs,
}
