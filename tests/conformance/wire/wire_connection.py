"""WireConnection: requests over a plain socket, one answer after the other, with nothing else in between.

No client library decides here what is sent: every version of every request can be asked, sensible or not.
"""

from __future__ import annotations

import socket
from typing import Any

from kavka.protocol.api import APIS, ApiKey, RequestHeader, api, encode_request_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.schema import Message, Struct

ANSWER_TIMEOUT_S = 15.0
CLIENT_ID = "wire"


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class WireConnection:
    """One connection. Answers must be received in the order of the requests."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        self._correlation_id = 0

    def ask(self, request: Message, version: int) -> Any:
        """The answer to the request. Raises Closed."""
        self.send(request, version)
        return self.receive(request, version)

    def send(self, request: Message, version: int) -> None:
        """Sends what of the request this version can carry."""
        self._correlation_id += 1
        header = RequestHeader(key_of(request), version, self._correlation_id, CLIENT_ID)
        self.send_bytes(framed(encode_request_header(header) + encode(carried(request, version), version)))

    def send_bytes(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Closed from error

    def receive(self, request: Message, version: int) -> Any:
        """The next answer, which must be that to the request. Raises Closed."""
        data = self.receive_frame()
        key = key_of(request)
        head = 5 if APIS[key].response_header_version(version) else 4
        return decode(api(key).response_type, data[head:], version)

    def receive_frame(self) -> bytes:
        """The next answer without its length. Raises Closed."""
        try:
            size = self._answers.read(4)
            data = self._answers.read(int.from_bytes(size, "big")) if len(size) == 4 else b""
        except ConnectionResetError as error:
            raise Closed from error
        if len(size) < 4:
            raise Closed
        return data

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def key_of(request: Message) -> ApiKey:
    key = type(request)._schema.api_key
    assert key is not None
    return ApiKey(key)


def carried(value: Any, version: int) -> Any:
    """A copy of a message with the default in every field that this version does not carry."""
    if isinstance(value, list):
        return [carried(item, version) for item in value]
    if not isinstance(value, Struct):
        return value
    fields = {
        field.name: carried(getattr(value, field.name), version)
        for field in type(value)._fields
        if version in field.versions
    }
    return type(value)(**fields)
