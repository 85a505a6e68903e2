"""Bytes that are no requests, against a whole broker: each harms its own connection, with one line in the log."""

from __future__ import annotations

import time
from struct import pack
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.api import ApiKey, RequestHeader, decode_response_header, encode_request_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

OVER_SOCKET_REQUEST_MAX_BYTES = 100 * 1024 * 1024 + 1


def request(key: int, version: int, body: bytes) -> bytes:
    content = pack(">hhih", key, version, 7, 3) + b"bad" + body
    return pack(">i", len(content)) + content


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pack(">i", OVER_SOCKET_REQUEST_MAX_BYTES), "socket.request.max.bytes"),
        (pack(">i", -5), "negative length"),
        (b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(50), "TLS"),
        (request(9999, 0, b""), "9999"),
        (request(ApiKey.METADATA, 99, b"\0\0"), "99"),
        (request(ApiKey.METADATA, 12, b"\0\xff\xff\xff\xff\xff\xff\xff"), "Metadata"),
        (request(ApiKey.METADATA, 4, pack(">i", 2**31 - 1)), "Metadata"),
        (request(ApiKey.PRODUCE, 2, bytes(30)), "2"),
        (pack(">i", 3) + b"abc", "header"),
        (pack(">i", 0), "header"),
    ],
    ids=[
        "frame too long",
        "negative length",
        "HTTP",
        "TLS",
        "unknown API",
        "unknown version",
        "varint without end",
        "count that lies",
        "version that was dropped",
        "frame without header",
        "empty frame",
    ],
)
def test_it_closes_its_own_connection_with_one_line(
    start_kavka: Any, connect_raw: Any, data: bytes, words: str
) -> None:
    broker = start_kavka()  # A new one for each: of one kind only ten lines are written in a minute.
    good, bad = connect_raw(broker.port), connect_raw(broker.port)
    topic = good.create_topic()
    bad.send(data)
    assert bad.is_closed_by_broker()
    assert good.is_served(topic)
    lines = [line for line in broker.log_file.read_text().splitlines() if "connection closed" in line]
    assert len(lines) == 1
    assert words in lines[0]


def test_an_unknown_version_of_api_versions_is_told_which_there_are(connect_raw: Any) -> None:
    client = connect_raw()
    client.send(request(ApiKey.API_VERSIONS, 99, b"\0garbage"))
    frame = client.talk.frame()
    correlation_id, body = decode_response_header(ApiKey.API_VERSIONS, 0, frame)
    assert correlation_id == 7
    response = decode(ApiVersionsResponse, memoryview(frame)[body:], 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [row for row in response.api_keys if row.api_key == ApiKey.API_VERSIONS]


def test_a_request_that_stops_half_way_hurts_nobody(connect_raw: Any) -> None:
    good = connect_raw()
    topic = good.create_topic()
    for client in [connect_raw() for _ in range(20)]:
        client.send(pack(">i", 50_000_000) + b"\0\0\0\x09" + bytes(1000))
        assert good.is_served(topic)


@pytest.mark.setting("socket.request.max.bytes")
def test_lengths_that_lie_take_no_memory(connect_raw: Any, kavka_broker: Any) -> None:
    good = connect_raw()
    topic = good.create_topic()
    before = kavka_broker.resident_bytes()
    for client in [connect_raw() for _ in range(100)]:
        client.send(pack(">i", 99_000_000) + bytes(100))
    assert good.is_served(topic)
    assert kavka_broker.resident_bytes() - before < 16 * 1024 * 1024


def test_a_good_request_in_single_bytes_is_answered(connect_raw: Any) -> None:
    client = connect_raw()
    header = encode_request_header(RequestHeader(ApiKey.METADATA, 12, 5, "slow"))
    content = header + encode(MetadataRequest(topics=None), 12)
    for byte in pack(">i", len(content)) + content:
        client.send(bytes([byte]))
        time.sleep(0.0002)
    frame = client.talk.frame()
    correlation_id, body = decode_response_header(ApiKey.METADATA, 12, frame)
    assert correlation_id == 5
    assert decode(MetadataResponse, memoryview(frame)[body:], 12).brokers


def test_a_thousand_connections_are_served(connect_raw: Any, kavka_broker: Any) -> None:
    before = kavka_broker.resident_bytes()
    clients = [connect_raw() for _ in range(1000)]
    for client in clients:
        response = client.talk.ask(ApiKey.API_VERSIONS, ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert response.error_code == 0
    assert (kavka_broker.resident_bytes() - before) / 1000 < 16 * 1024
