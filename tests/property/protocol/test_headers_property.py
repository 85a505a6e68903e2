"""Headers: what is written is read again; bytes that are no header are a violation and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.errors import ProtocolViolation
from kavka.protocol.api import (
    APIS,
    ApiKey,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

KEYS = st.sampled_from(list(ApiKey))
CORRELATION_IDS = st.integers(-(2**31), 2**31 - 1)
CLIENT_IDS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(key=KEYS, correlation_id=CORRELATION_IDS, client_id=CLIENT_IDS, body=st.binary(max_size=9), data=st.data())
def test_a_request_header_survives_the_wire(
    key: ApiKey, correlation_id: int, client_id: str | None, body: bytes, data: st.DataObject
) -> None:
    version = data.draw(st.integers(APIS[key].min_version, APIS[key].max_version))
    if APIS[key].request_header_version(version) == 0:
        client_id = None
    header = RequestHeader(key, version, correlation_id, client_id)
    encoded = encode_request_header(header)
    assert decode_request_header(encoded + body) == (header, len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(ProtocolViolation):
            decode_request_header(encoded[:length])


@given(data=st.binary(max_size=60), key=st.none() | KEYS, version=st.integers(-1, 20))
def test_garbage_is_no_header_or_one_with_a_body_inside(data: bytes, key: ApiKey | None, version: int) -> None:
    if key is not None:
        data = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + data
    for buffer in (data, memoryview(data)):
        try:
            header, position = decode_request_header(buffer)
        except ProtocolViolation:
            continue
        assert 8 <= position <= len(data)
        assert header.api_key in APIS


@given(key=KEYS, correlation_id=CORRELATION_IDS, garbage=st.binary(max_size=20), data=st.data())
def test_a_response_header_survives_the_wire(
    key: ApiKey, correlation_id: int, garbage: bytes, data: st.DataObject
) -> None:
    version = data.draw(st.integers(APIS[key].min_version, APIS[key].max_version))
    encoded = encode_response_header(key, version, correlation_id)
    assert decode_response_header(key, version, encoded) == (correlation_id, len(encoded))
    try:
        _, position = decode_response_header(key, version, garbage)
    except ProtocolViolation:
        return
    assert 4 <= position <= len(garbage)
