"""jute: every record comes back from its bytes, and any bytes are a record or a ProtocolViolation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.errors import ProtocolViolation
from kavka.zookeeper.decide import jute
from kavka.zookeeper.decide.jute import OpCode
from kavka.zookeeper.port import Acl, Stat

INT = st.integers(-(1 << 31), (1 << 31) - 1)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(max_size=20)
TEXTS = st.lists(TEXT, max_size=4).map(tuple)
FIELDS = {
    "i": INT,
    "l": LONG,
    "?": st.booleans(),
    "b": st.none() | st.binary(max_size=40),
    "s": TEXT,
    "S": TEXTS,
    "a": st.lists(st.builds(Acl, INT, TEXT, TEXT), max_size=3).map(tuple),
    "t": st.builds(Stat, LONG, LONG, LONG, LONG, INT, INT, INT, LONG, INT, INT, LONG),
    "p": st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
}
LAYOUTS = {
    jute.EmptyRequest: "",
    jute.CreateRequest: "sbai",
    jute.CreateTtlRequest: "sbail",
    jute.PathRequest: "s",
    jute.WatchedPathRequest: "s?",
    jute.VersionedPathRequest: "si",
    jute.SetDataRequest: "sbi",
    jute.SetAclRequest: "sai",
    jute.WatchRequest: "si",
    jute.SetWatchesRequest: "lSSS",
    jute.SetWatches2Request: "lSSSSS",
    jute.AuthRequest: "isb",
    jute.TokenRequest: "b",
    jute.TokenAnswer: "b",
    jute.PathAnswer: "s",
    jute.CreatedAnswer: "st",
    jute.StatAnswer: "t",
    jute.DataAnswer: "bt",
    jute.AclAnswer: "at",
    jute.PathsAnswer: "S",
    jute.ChildrenAnswer: "St",
    jute.NumberAnswer: "i",
    jute.IdentitiesAnswer: "p",
}


def records(kind: type) -> st.SearchStrategy[Any]:
    return st.tuples(*(FIELDS[code] for code in LAYOUTS[kind])).map(lambda values: kind(*values))


def requests_of(op: OpCode) -> st.SearchStrategy[Any]:
    if not jute.parts_of(op):
        return records(jute.record_type(op))
    part = st.sampled_from(sorted(jute.parts_of(op))).flatmap(lambda op: st.tuples(st.just(op), requests_of(op)))
    return st.lists(part, max_size=4).map(lambda parts: jute.MultiRequest(tuple(parts)))


def answers_of(op: OpCode) -> st.SearchStrategy[Any]:
    kind = jute.answer_type(op)
    if kind is None:
        return st.none()
    if kind is not jute.MultiAnswer:
        return records(kind)
    part = st.sampled_from(sorted(jute.parts_of(op))).flatmap(lambda op: st.tuples(st.just(op), answers_of(op)))
    failure = st.tuples(st.none(), st.builds(jute.ErrorAnswer, INT))
    return st.lists(part | failure, max_size=4).map(lambda parts: jute.MultiAnswer(tuple(parts)))


OPS = st.sampled_from(list(OpCode))
REQUESTS = OPS.flatmap(lambda op: st.builds(jute.Request, INT, st.just(op), requests_of(op)))
REPLIES = OPS.flatmap(lambda op: st.tuples(st.just(op), answers_of(op)))
PASSWORDS = st.none() | st.binary(max_size=16)
READ_ONLY = st.none() | st.booleans()


@given(REQUESTS)
def test_every_request_comes_back_from_its_bytes(request: jute.Request) -> None:
    assert jute.decode_request(jute.encode_request(request)) == request


@given(REPLIES, INT, LONG)
def test_every_answer_comes_back_from_its_bytes(reply: tuple[OpCode, Any], xid: int, zxid: int) -> None:
    op, answer = reply
    header = jute.ReplyHeader(xid, zxid)
    payload = jute.encode_reply(header, answer)
    assert jute.decode_reply(payload, op) == (header, answer)
    assert jute.decode_reply_header(payload) == header


@given(st.builds(jute.ConnectRequest, INT, LONG, INT, LONG, PASSWORDS, READ_ONLY))
def test_a_connect_request_comes_back_with_and_without_the_field_of_3_4(request: jute.ConnectRequest) -> None:
    assert jute.decode_connect_request(jute.encode_connect_request(request)) == request


@given(st.builds(jute.ConnectAnswer, INT, INT, LONG, PASSWORDS, READ_ONLY))
def test_a_connect_answer_comes_back(answer: jute.ConnectAnswer) -> None:
    assert jute.decode_connect_answer(jute.encode_connect_answer(answer)) == answer


@given(st.builds(jute.WatcherEvent, INT, INT, TEXT), LONG)
def test_a_watch_event_comes_back(event: jute.WatcherEvent, zxid: int) -> None:
    payload = jute.encode_event(event, zxid)
    assert jute.decode_reply_header(payload) == jute.ReplyHeader(jute.WATCH_XID, zxid)
    assert jute.decode_event(payload) == event


@given(REQUESTS, st.data())
def test_a_request_that_was_cut_is_refused(request: jute.Request, data: st.DataObject) -> None:
    payload = jute.encode_request(request)
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(ProtocolViolation):
        jute.decode_request(payload[:cut])


@given(OPS, st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_violation(op: OpCode, garbage: bytes) -> None:
    payload = jute.encode_request(jute.Request(1, op, None)) + garbage
    try:
        request = jute.decode_request(payload)
    except ProtocolViolation:
        return
    assert jute.decode_request(jute.encode_request(request)) == request


@given(OPS, st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_a_violation(op: OpCode, garbage: bytes) -> None:
    try:
        header, answer = jute.decode_reply(jute.encode_reply(jute.ReplyHeader(1, 1)) + garbage, op)
    except ProtocolViolation:
        return
    assert jute.decode_reply(jute.encode_reply(header, answer), op) == (header, answer)


def test_a_length_beyond_the_frame_is_refused_before_anything_is_allocated() -> None:
    header = jute.encode_request(jute.Request(1, OpCode.SET_WATCHES, None))
    with pytest.raises(ProtocolViolation, match="vector of 2147483647"):
        jute.decode_request(header + bytes(8) + b"\x7f\xff\xff\xff")
    header = jute.encode_request(jute.Request(1, OpCode.SYNC, None))
    with pytest.raises(ProtocolViolation, match="length of -2"):
        jute.decode_request(header + b"\xff\xff\xff\xfe")


def test_an_unknown_op_is_left_to_the_caller() -> None:
    assert jute.decode_request(jute.encode_request(jute.Request(7, 999, None))) == jute.Request(7, 999, None)


def test_a_multi_takes_only_what_may_stand_in_it() -> None:
    nested = jute.MultiRequest(((OpCode.SYNC, jute.PathRequest("/a")),))
    with pytest.raises(ProtocolViolation, match="op 9 in a multi"):
        jute.decode_request(jute.encode_request(jute.Request(1, OpCode.MULTI, nested)))


def test_bytes_behind_a_record_are_ignored() -> None:
    request = jute.Request(1, OpCode.SYNC, jute.PathRequest("/a"))
    assert jute.decode_request(jute.encode_request(request) + b"more") == request
