"""The table of Kafka's APIs and the headers of their requests and responses.

It says which versions can be encoded and decoded. Which of them a broker serves, and on which listener, is decided in
the broker room. No message module is imported before its type is asked for.

Which header goes with which version:

    request  v0   ControlledShutdown 0: no client id
    request  v1   versions that are not flexible
    request  v2   flexible versions; the client id keeps its old encoding, so that a header can be read before its
                  version is known to be served
    response v0   versions that are not flexible, and ApiVersions in every version (KIP-511): a client that asked with a
                  version too new for this broker must still be able to read the answer
    response v1   flexible versions

Source: KIP-482, KIP-511; Kafka's RequestHeader and ResponseHeader tables.
"""

from __future__ import annotations

from importlib import import_module
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple, cast

from kavka.errors import ProtocolViolation
from kavka.protocol.api_keys import ROWS, ApiKey
from kavka.protocol.codec import UnsupportedVersion
from kavka.protocol.primitives import Buffer, skip_tags
from kavka.protocol.schema import Message

__all__ = [
    "APIS",
    "Api",
    "ApiKey",
    "RequestHeader",
    "UnknownApiKey",
    "UnsupportedVersion",
    "api",
    "decode_request_header",
    "decode_response_header",
    "encode_request_header",
    "encode_response_header",
    "response_header_version",
]

NEVER = 2**15
"""Higher than every version: where an API has no flexible one."""


class UnknownApiKey(ProtocolViolation):
    """A request of an API that does not exist: its header cannot be read, so nothing can be answered."""


class RequestHeader(NamedTuple):
    """What stands before every request. `client_id` may be null."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None


class Api:
    """One API: its number, name, and all versions that can be encoded and decoded.

    `first_flexible_version` is None where there is none.
    """

    __slots__ = (
        "_request_type",
        "_response_type",
        "first_flexible_version",
        "key",
        "max_version",
        "min_version",
        "name",
    )

    def __init__(
        self, key: ApiKey, name: str, min_version: int, max_version: int, first_flexible_version: int | None
    ) -> None:
        self.key = key
        self.name = name
        self.min_version = min_version
        self.max_version = max_version
        self.first_flexible_version = first_flexible_version
        self._request_type: type[Message] | None = None
        self._response_type: type[Message] | None = None

    def __repr__(self) -> str:
        return f"Api({self.name}, key {int(self.key)}, versions {self.min_version}-{self.max_version})"

    @property
    def request_type(self) -> type[Message]:
        if self._request_type is None:
            self._request_type = _message_type(f"{self.name}Request")
        return self._request_type

    @property
    def response_type(self) -> type[Message]:
        if self._response_type is None:
            self._response_type = _message_type(f"{self.name}Response")
        return self._response_type

    def is_flexible(self, version: int) -> bool:
        return self.first_flexible_version is not None and version >= self.first_flexible_version

    def request_header_version(self, version: int) -> int:
        if self.is_flexible(version):
            return 2
        return 0 if self.key is ApiKey.CONTROLLED_SHUTDOWN and version == 0 else 1

    def response_header_version(self, version: int) -> int:
        return 1 if self.is_flexible(version) and self.key is not ApiKey.API_VERSIONS else 0


def _message_type(name: str) -> type[Message]:
    return cast("type[Message]", getattr(import_module("kavka.protocol.messages"), name))


APIS: dict[ApiKey, Api] = {ApiKey(row[0]): Api(ApiKey(row[0]), *row[1:]) for row in ROWS}
"""Every API by its number."""

_BY_NUMBER: dict[int, tuple[ApiKey, int]] = {
    int(each.key): (each.key, NEVER if each.first_flexible_version is None else each.first_flexible_version)
    for each in APIS.values()
}

_FIXED = Struct(">hhih")
"""API key, version, correlation id, length of the client id."""
_FIXED_V0 = Struct(">hhi")
_read_fixed = _FIXED.unpack_from
_new_tuple = tuple.__new__


def api(key: int) -> Api:
    """The API of this number. Raises UnknownApiKey."""
    found = _BY_NUMBER.get(key)
    if found is None:
        raise UnknownApiKey(f"no API has the key {key}")
    return APIS[found[0]]


def response_header_version(key: int, version: int) -> int:
    """0, or 1 with tagged fields. Raises UnknownApiKey."""
    return api(key).response_header_version(version)


def decode_request_header(data: Buffer) -> tuple[RequestHeader, int]:
    """The header of the request in `data` (without the frame's length), and the position of its body.

    The version may be one that nobody serves: such a header is still read, because ApiVersions must be answered then.
    Raises UnknownApiKey, and ProtocolViolation for bytes that are no header.
    """
    try:
        key, version, correlation_id, length = _read_fixed(data, 0)
    except struct_error as error:
        return _decode_short_header(data, error)
    known = _BY_NUMBER.get(key)
    if known is None:
        raise UnknownApiKey(f"no API has the key {key}")
    api_key, flexible_from = known
    if key == 7 and version == 0:
        return RequestHeader(api_key, version, correlation_id, None), 8
    end = len(data)
    position = 10
    client_id: str | None = None
    if length >= 0:
        position += length
        if position > end:
            raise ProtocolViolation(f"request header: client id of {length} bytes, {end - 10} remain")
        try:
            client_id = str(data[10:position], "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolViolation(f"request header: the client id is not UTF-8: {error}") from error
    if version >= flexible_from:
        if position >= end:
            raise ProtocolViolation("request header ends before its tagged fields")
        count = data[position]
        position += 1
        if count:
            try:
                position = skip_tags(data, position, end, count)
            except IndexError as error:
                raise ProtocolViolation("request header ends within its tagged fields") from error
    return _new_tuple(RequestHeader, (api_key, version, correlation_id, client_id)), position


def _decode_short_header(data: Buffer, cause: Exception) -> tuple[RequestHeader, int]:
    """A header without a length of the client id, which only ControlledShutdown 0 has."""
    if len(data) >= 8:
        key, version, correlation_id = _FIXED_V0.unpack_from(data, 0)
        if key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
            return RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, version, correlation_id, None), 8
    raise ProtocolViolation(f"request header: {len(data)} bytes are too few") from cause


def encode_request_header(header: RequestHeader) -> bytes:
    """The bytes before the body of a request."""
    header_version = APIS[header.api_key].request_header_version(header.api_version)
    fixed = _FIXED_V0.pack(header.api_key, header.api_version, header.correlation_id)
    if header_version == 0:
        return fixed
    if header.client_id is None:
        client_id = b"\xff\xff"
    else:
        raw = header.client_id.encode()
        client_id = len(raw).to_bytes(2, "big", signed=True) + raw
    return fixed + client_id + (b"\0" if header_version == 2 else b"")


def encode_response_header(api_key: ApiKey, version: int, correlation_id: int) -> bytes:
    """The bytes before the body of a response."""
    tags = b"\0" if APIS[api_key].response_header_version(version) else b""
    return correlation_id.to_bytes(4, "big", signed=True) + tags


def decode_response_header(api_key: ApiKey, version: int, data: Buffer) -> tuple[int, int]:
    """The correlation id of a response and the position of its body. Raises ProtocolViolation."""
    if len(data) < 4:
        raise ProtocolViolation(f"response header: {len(data)} bytes are too few")
    correlation_id = int.from_bytes(data[:4], "big", signed=True)
    if not APIS[api_key].response_header_version(version):
        return correlation_id, 4
    try:
        count = data[4]
        return correlation_id, skip_tags(data, 5, len(data), count) if count else 5
    except IndexError as error:
        raise ProtocolViolation("response header ends within its tagged fields") from error
