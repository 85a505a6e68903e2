"""The table of APIs and the headers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kavka.errors import ProtocolViolation
from kavka.protocol.api import (
    APIS,
    ApiKey,
    RequestHeader,
    UnknownApiKey,
    api,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    response_header_version,
)
from kavka.protocol.codec import encode
from kavka.protocol.messages.produce_request import ProduceRequest
from kavka.protocol.messages.request_header import RequestHeader as GeneratedRequestHeader
from kavka.protocol.messages.response_header import ResponseHeader as GeneratedResponseHeader

SERVED_BY_KAFKA = {
    # key: (3.9, 4.2), what those releases answer to ApiVersions, and the first flexible version
    0: ("0-11", "0-13", 9), 1: ("0-17", "4-18", 12), 2: ("0-9", "1-11", 6), 3: ("0-12", "0-13", 9),
    4: ("0-7", "", 4), 5: ("0-4", "", 2), 6: ("0-8", "", 6), 7: ("0-3", "", 3),
    8: ("0-9", "2-10", 8), 9: ("0-9", "1-10", 6), 10: ("0-6", "0-6", 3), 11: ("0-9", "0-9", 6),
    12: ("0-4", "0-4", 4), 13: ("0-5", "0-5", 4), 14: ("0-5", "0-5", 4), 15: ("0-5", "0-6", 5),
    16: ("0-5", "0-5", 3), 17: ("0-1", "0-1", None), 18: ("0-4", "0-4", 3), 19: ("0-7", "2-7", 5),
    20: ("0-6", "1-6", 4), 21: ("0-2", "0-2", 2), 22: ("0-5", "0-5", 2), 23: ("0-4", "2-4", 4),
    24: ("0-5", "0-5", 3), 25: ("0-4", "0-4", 3), 26: ("0-4", "0-5", 3), 27: ("0-1", "1-2", 1),
    28: ("0-4", "0-5", 3), 29: ("0-3", "1-3", 2), 30: ("0-3", "1-3", 2), 31: ("0-3", "1-3", 2),
    32: ("0-4", "1-4", 4), 33: ("0-2", "0-2", 2), 34: ("0-2", "1-2", 2), 35: ("0-4", "1-4", 2),
    36: ("0-2", "0-2", 2), 37: ("0-3", "0-3", 2), 38: ("0-3", "1-3", 2), 39: ("0-2", "1-2", 2),
    40: ("0-2", "1-2", 2), 41: ("0-3", "1-3", 2), 42: ("0-2", "0-2", 2), 43: ("0-2", "0-2", 2),
    44: ("0-1", "0-1", 1), 45: ("0-0", "0-1", 0), 46: ("0-0", "0-0", 0), 47: ("0-0", "0-0", None),
    48: ("0-1", "0-1", 1), 49: ("0-1", "0-1", 1), 50: ("0-0", "0-0", 0), 51: ("0-0", "0-0", 0),
    55: ("0-2", "0-2", 0), 56: ("0-3", "", 0), 57: ("0-1", "0-2", 0), 60: ("0-1", "0-2", 0),
    61: ("0-0", "0-0", 0), 64: ("0-0", "0-0", 0), 65: ("0-0", "0-0", 0), 66: ("0-1", "0-2", 0),
    68: ("0-0", "0-1", 0), 69: ("0-0", "0-1", 0), 71: ("0-0", "0-0", 0), 72: ("0-0", "0-0", 0),
    74: ("0-0", "0-1", 0), 75: ("0-0", "0-0", 0), 76: ("", "1-1", 0), 77: ("", "1-1", 0),
    78: ("", "1-2", 0), 79: ("", "1-2", 0), 80: ("0-0", "0-1", 0), 81: ("0-0", "0-0", 0),
    83: ("", "0-0", 0), 84: ("", "0-0", 0), 85: ("", "0-1", 0), 86: ("", "0-0", 0), 87: ("", "0-1", 0),
    88: ("", "0-0", 0), 89: ("", "0-0", 0), 90: ("", "0-1", 0), 91: ("", "0-0", 0), 92: ("", "0-0", 0),
}  # fmt: skip


@pytest.mark.parametrize("key", SERVED_BY_KAFKA)
def test_every_version_that_kafka_serves_can_be_encoded_and_decoded(key: int) -> None:
    *releases, flexible = SERVED_BY_KAFKA[key]
    found = api(key)
    assert found.first_flexible_version == flexible
    for versions in releases:
        if versions:
            low, high = str(versions).split("-")
            assert found.min_version <= int(low) <= int(high) <= found.max_version


@pytest.mark.parametrize("key", list(ApiKey))
def test_the_table_says_what_the_message_modules_say(key: ApiKey) -> None:
    found = APIS[key]
    for message_type in (found.request_type, found.response_type):
        schema = message_type._schema
        assert (schema.api_key, schema.min_version, schema.max_version) == (key, found.min_version, found.max_version)
        assert schema.flexible_from == found.first_flexible_version
    assert found.request_type._schema.kind == "request"
    assert found.response_type._schema.kind == "response"


def test_importing_the_table_imports_no_message() -> None:
    program = (
        "import sys, kavka.protocol.api, kavka.protocol.codec; "
        "print([name for name in sys.modules if name.startswith('kavka.protocol.messages')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_importing_one_message_imports_no_other() -> None:
    program = (
        "import sys; from kavka.protocol.messages import ProduceRequest; "
        "print([name for name in sys.modules if name.startswith('kavka.protocol.messages.')])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "['kavka.protocol.messages.produce_request']\n"


def test_a_message_that_does_not_exist_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="NoSuchRequest"):
        from kavka.protocol.messages import NoSuchRequest  # noqa: F401


def test_message_types_are_found_by_key() -> None:
    assert api(0).request_type is ProduceRequest
    assert repr(api(0)) == "Api(Produce, key 0, versions 0-13)"


def test_an_unknown_key_is_a_violation() -> None:
    for key in (-1, 999):
        with pytest.raises(UnknownApiKey, match=f"no API has the key {key}"):
            api(key)
        with pytest.raises(UnknownApiKey, match=f"no API has the key {key}"):
            decode_request_header(key.to_bytes(2, "big", signed=True) + bytes(10))
    assert issubclass(UnknownApiKey, ProtocolViolation)


@pytest.mark.parametrize(
    ("header", "header_version"),
    [
        (RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 7, None), 0),
        (RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 1, 7, "c"), 1),
        (RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 3, 7, "c"), 2),
        (RequestHeader(ApiKey.PRODUCE, 8, -1, "rdkafka"), 1),
        (RequestHeader(ApiKey.PRODUCE, 8, 2**31 - 1, None), 1),
        (RequestHeader(ApiKey.PRODUCE, 9, 7, "kliént"), 2),
        (RequestHeader(ApiKey.PRODUCE, 9, 7, None), 2),
        (RequestHeader(ApiKey.API_VERSIONS, 3, 7, ""), 2),
        (RequestHeader(ApiKey.SASL_HANDSHAKE, 1, 7, "c"), 1),
    ],
)
def test_request_headers(header: RequestHeader, header_version: int) -> None:
    generated = GeneratedRequestHeader(
        request_api_key=header.api_key,
        request_api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id if header_version else "",
    )
    encoded = encode_request_header(header)
    assert encoded == encode(generated, header_version)
    for buffer in (encoded + b"body", memoryview(encoded + b"body")):
        assert decode_request_header(buffer) == (header, len(encoded))
    decoded, _ = decode_request_header(encoded)
    assert decoded.api_key is header.api_key
    for length in range(len(encoded)):
        with pytest.raises(ProtocolViolation):
            decode_request_header(encoded[:length])


def test_the_header_of_a_version_that_nobody_serves_is_read() -> None:
    encoded = (18).to_bytes(2, "big") + (99).to_bytes(2, "big") + bytes(4) + b"\x00\x01c" + b"\x00"
    assert decode_request_header(encoded) == (RequestHeader(ApiKey.API_VERSIONS, 99, 0, "c"), len(encoded))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    plain = encode_request_header(RequestHeader(ApiKey.PRODUCE, 9, 7, "c"))
    tagged = plain[:-1] + b"\x01\x05\x02zz"
    assert decode_request_header(tagged + b"body") == (RequestHeader(ApiKey.PRODUCE, 9, 7, "c"), len(tagged))
    with pytest.raises(ProtocolViolation):
        decode_request_header(plain[:-1] + b"\x01\x05\x7fzz")


def test_a_client_id_that_is_not_utf8_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation, match="not UTF-8"):
        decode_request_header(bytes(8) + b"\x00\x01\xff")


def test_response_headers() -> None:
    for key, version, header_version in (
        (ApiKey.PRODUCE, 8, 0),
        (ApiKey.PRODUCE, 9, 1),
        (ApiKey.API_VERSIONS, 0, 0),
        (ApiKey.API_VERSIONS, 4, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0),
    ):
        assert response_header_version(key, version) == header_version
        encoded = encode_response_header(key, version, -5)
        assert encoded == encode(GeneratedResponseHeader(correlation_id=-5), header_version)
        assert decode_response_header(key, version, encoded + b"body") == (-5, len(encoded))
        for length in range(len(encoded)):
            with pytest.raises(ProtocolViolation):
                decode_response_header(key, version, encoded[:length])
