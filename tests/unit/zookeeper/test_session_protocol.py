"""One connection's decisions: greeting, frames, order of replies."""

from __future__ import annotations

import struct

import pytest

from kavka.errors import FrameTooLarge, InvariantViolation, ProtocolViolation
from kavka.zookeeper.decide import jute
from kavka.zookeeper.decide.jute import ConnectRequest, OpCode, PathRequest, ReplyHeader, Request
from kavka.zookeeper.decide.session_protocol import FourLetterWord, ServerConnection, State, negotiate_timeout
from kavka.zookeeper.port import EventType, WatchEvent

GREETING = ConnectRequest(0, 0, 6000, 0, bytes(16), read_only=True)
PASSWORD = b"p" * 16


def greeting(request: ConnectRequest = GREETING) -> bytes:
    return jute.frame(jute.encode_connect_request(request))


def sync(xid: int) -> Request:
    return Request(xid, OpCode.SYNC, PathRequest("/a"))


def bytes_of(*requests: Request) -> bytes:
    return b"".join(jute.frame(jute.encode_request(request)) for request in requests)


def open_connection() -> ServerConnection:
    connection = ServerConnection()
    connection.receive(greeting())
    connection.accept(7, 6000, PASSWORD)
    return connection


def test_requests_behind_the_greeting_wait_until_the_session_stands() -> None:
    connection = ServerConnection()
    assert connection.receive(greeting() + bytes_of(sync(1), sync(2))) == [GREETING]
    assert connection.receive(b"") == []
    answer = connection.accept(7, 6000, PASSWORD)
    assert jute.decode_connect_answer(answer[4:]) == jute.ConnectAnswer(0, 6000, 7, PASSWORD, read_only=False)
    assert connection.receive(b"") == [sync(1), sync(2)]


def test_bytes_may_come_one_by_one() -> None:
    connection = ServerConnection()
    received = []
    for byte in greeting():
        received += connection.receive(bytes([byte]))
    connection.accept(7, 6000, PASSWORD)
    for byte in bytes_of(sync(1), sync(2)):
        received += connection.receive(bytes([byte]))
    assert received == [GREETING, sync(1), sync(2)]


def test_a_client_before_3_4_is_not_told_of_read_only() -> None:
    connection = ServerConnection()
    connection.receive(greeting(GREETING._replace(read_only=None)))
    assert jute.decode_connect_answer(connection.accept(7, 6000, PASSWORD)[4:]).read_only is None


def test_a_session_that_is_expired_is_refused_with_a_time_out_of_0() -> None:
    connection = ServerConnection()
    connection.receive(greeting(GREETING._replace(session_id=9)))
    answer = jute.decode_connect_answer(connection.refuse()[4:])
    assert (answer.timeout_ms, answer.session_id, answer.password) == (0, 0, bytes(16))
    assert connection.state is State.CLOSED
    assert connection.receive(bytes_of(sync(1))) == []


def test_replies_leave_in_the_order_of_the_requests() -> None:
    connection = open_connection()
    connection.receive(bytes_of(sync(5), sync(3)))
    assert connection.unanswered == 2
    with pytest.raises(InvariantViolation, match="reply to request 3, but the next one is 5"):
        connection.reply(ReplyHeader(3, 1))
    connection = open_connection()
    connection.receive(bytes_of(sync(5), sync(3)))
    connection.reply(ReplyHeader(5, 1))
    reply = connection.reply(ReplyHeader(3, 1), jute.PathAnswer("/a"))
    assert jute.decode_reply(reply[4:], OpCode.SYNC) == (ReplyHeader(3, 1), jute.PathAnswer("/a"))
    with pytest.raises(InvariantViolation):
        connection.reply(ReplyHeader(3, 1))


def test_a_watch_event_needs_no_request() -> None:
    event = open_connection().notify(WatchEvent(EventType.NODE_DELETED, "/a", 12))
    assert jute.decode_reply_header(event[4:]) == ReplyHeader(jute.WATCH_XID, 12)
    assert jute.decode_event(event[4:]) == jute.WatcherEvent(2, jute.SYNC_CONNECTED, "/a")


def test_a_frame_of_jute_maxbuffer_passes_and_one_byte_more_does_not() -> None:
    for extra in (0, 1):
        request = Request(1, OpCode.SET_DATA, jute.SetDataRequest("/a", b"", -1))
        room = 500 - len(jute.encode_request(request))
        request = Request(1, OpCode.SET_DATA, jute.SetDataRequest("/a", bytes(room + extra), -1))
        connection = ServerConnection(max_frame_bytes=500)
        connection.receive(greeting())
        connection.accept(7, 6000, PASSWORD)
        if extra:
            with pytest.raises(FrameTooLarge, match=r"501 bytes: jute\.maxbuffer is 500"):
                connection.receive(bytes_of(request))
            assert connection.state is State.CLOSED
        else:
            assert connection.receive(bytes_of(request)) == [request]


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", -1), jute.frame(b"\0" * 5)])
def test_what_is_no_greeting_closes_the_connection(first: bytes) -> None:
    connection = ServerConnection(words=frozenset({"ruok"}))
    with pytest.raises(ProtocolViolation):
        connection.receive(first)
    assert connection.state is State.CLOSED


def test_a_four_letter_word_is_one_only_as_the_first_bytes() -> None:
    connection = ServerConnection(words=frozenset({"ruok"}))
    assert connection.receive(b"ru") == []
    assert connection.receive(b"ok\n") == [FourLetterWord("ruok")]
    assert connection.state is State.CLOSED
    connection = open_connection()
    with pytest.raises(FrameTooLarge):
        connection.receive(b"ruok")


@pytest.mark.parametrize(("wanted_ms", "granted_ms"), [(0, 4000), (4001, 4001), (10**9, 40_000), (-5, 4000)])
def test_a_time_out_lies_between_2_and_20_ticks(wanted_ms: int, granted_ms: int) -> None:
    assert negotiate_timeout(wanted_ms, 2000) == granted_ms
