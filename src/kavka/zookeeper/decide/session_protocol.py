"""ServerConnection: a server's side of one ZooKeeper connection, from bytes to requests and from answers to bytes.

Decides where a frame ends, what the first frame may be, which time-out a session gets, and that replies leave in the
order of the requests. It must not know sockets, clocks, or what a request does.

    state      input                            next       output
    GREETING   a four-letter word               CLOSED     FourLetterWord
    GREETING   a connect request                OPENING    ConnectRequest
    OPENING    bytes                            OPENING    nothing: they wait, the session must stand first
    OPENING    `accept`                         OPEN       the connect answer
    OPENING    `refuse`                         CLOSED     the answer that says: expired
    OPEN       a request                        OPEN       Request
    any        a frame too long, or garbage     CLOSED     raises ProtocolViolation
    any        `close`                          CLOSED

Invariants:
I1  Each request has one reply, and replies leave in the order in which the requests came.
I2  No more is kept of the input than one frame of max_frame_bytes and what came in the same call behind it.

Source: ZooKeeper's ZooKeeperServer.processConnectRequest and NIOServerCnxn (four-letter words, jute.maxbuffer).
"""

from __future__ import annotations

import struct
from collections import deque
from enum import Enum
from typing import Final, NamedTuple

from kavka.errors import FrameTooLarge, InvariantViolation
from kavka.zookeeper.decide.jute import (
    PASSWORD_BYTES,
    SYNC_CONNECTED,
    AnswerRecord,
    ConnectAnswer,
    ConnectRequest,
    ReplyHeader,
    Request,
    WatcherEvent,
    decode_connect_request,
    decode_request,
    encode_connect_answer,
    encode_event,
    encode_reply,
    frame,
)
from kavka.zookeeper.port import MAX_REQUEST_BYTES, WatchEvent

MIN_SESSION_TIMEOUT_TICKS: Final = 2
"""ZooKeeper's minSessionTimeout."""
MAX_SESSION_TIMEOUT_TICKS: Final = 20
"""ZooKeeper's maxSessionTimeout."""

_LENGTH = struct.Struct(">i")
_WORD_BYTES: Final = 4


class State(Enum):
    GREETING = "greeting"
    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"


class FourLetterWord(NamedTuple):
    """An administrator's question, sent instead of a connect request; the answer is text, then the connection ends."""

    word: str


Received = ConnectRequest | Request | FourLetterWord


def negotiate_timeout(wanted_ms: int, tick_ms: int) -> int:
    """The time-out that a session gets: what its client wants, within 2 and 20 ticks."""
    return min(max(wanted_ms, MIN_SESSION_TIMEOUT_TICKS * tick_ms), MAX_SESSION_TIMEOUT_TICKS * tick_ms)


class ServerConnection:
    """One connection. `words` are the four-letter words that are looked for in its first bytes."""

    def __init__(self, *, words: frozenset[str] = frozenset(), max_frame_bytes: int = MAX_REQUEST_BYTES) -> None:
        self.state = State.GREETING
        self._words = words
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._unanswered: deque[int] = deque()
        self._read_only_known = False

    @property
    def unanswered(self) -> int:
        """Requests whose reply has not left yet."""
        return len(self._unanswered)

    def receive(self, data: bytes) -> list[Received]:
        """What the bytes complete. Raises ProtocolViolation; the connection is closed then."""
        self._buffer += data
        out: list[Received] = []
        try:
            while (received := self._next()) is not None:
                out.append(received)
        except Exception:
            self.close()
            raise
        return out

    def accept(self, session_id: int, timeout_ms: int, password: bytes) -> bytes:
        """The session stands. What came behind the connect request is given out by the next `receive`."""
        self._require(State.OPENING)
        self.state = State.OPEN
        return self._connect_answer(timeout_ms, session_id, password)

    def refuse(self) -> bytes:
        """The session asked for is expired, or the password is not its own."""
        self._require(State.OPENING)
        self.close()
        return self._connect_answer(0, 0, bytes(PASSWORD_BYTES))

    def reply(self, header: ReplyHeader, answer: AnswerRecord | None = None) -> bytes:
        """The reply to the oldest request without one. Raises InvariantViolation for any other."""
        self._require(State.OPEN)
        expected = self._unanswered.popleft() if self._unanswered else None
        if expected != header.xid:
            raise InvariantViolation(f"a reply to request {header.xid}, but the next one is {expected}")
        return frame(encode_reply(header, answer))

    def notify(self, event: WatchEvent) -> bytes:
        """A watch event; it may stand between any two replies."""
        self._require(State.OPEN)
        return frame(encode_event(WatcherEvent(event.type, SYNC_CONNECTED, event.path), event.zxid))

    def close(self) -> None:
        self.state = State.CLOSED
        self._buffer.clear()
        self._unanswered.clear()

    def _next(self) -> Received | None:
        if self.state not in (State.GREETING, State.OPEN) or len(self._buffer) < _LENGTH.size:
            return None
        if self.state is State.GREETING and (word := self._word()) is not None:
            self.close()
            return FourLetterWord(word)
        payload = self._frame()
        if payload is None:
            return None
        if self.state is State.GREETING:
            greeting = decode_connect_request(payload)
            self._read_only_known = greeting.read_only is not None
            self.state = State.OPENING
            return greeting
        request = decode_request(payload)
        self._unanswered.append(request.xid)
        return request

    def _word(self) -> str | None:
        word = bytes(self._buffer[:_WORD_BYTES]).decode("latin-1")
        return word if word in self._words else None

    def _frame(self) -> bytes | None:
        (length,) = _LENGTH.unpack_from(self._buffer)
        if not 0 <= length <= self._max_frame_bytes:
            raise FrameTooLarge(f"a frame of {length} bytes: jute.maxbuffer is {self._max_frame_bytes}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return payload

    def _connect_answer(self, timeout_ms: int, session_id: int, password: bytes) -> bytes:
        # This server is never read-only; clients before 3.4 do not know the field.
        read_only = False if self._read_only_known else None
        return frame(encode_connect_answer(ConnectAnswer(0, timeout_ms, session_id, password, read_only)))

    def _require(self, state: State) -> None:
        if self.state is not state:
            raise InvariantViolation(f"the connection is {self.state.value}, expected {state.value}")
