"""Asker: one connection, over which one request is answered after the other."""

from __future__ import annotations

from typing import Any

from kavka.network import Connection, Network
from kavka.protocol.api import ApiKey, RequestHeader, api, decode_response_header, encode_request_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.schema import Message

CLIENT_ID = "fuzz"


class Asker:
    """A client of one broker. Connects with its first request."""

    def __init__(self, network: Network, address: tuple[str, int]) -> None:
        self._network, self._address = network, address
        self._connection: Connection | None = None

    async def ask(self, request: Message, version: int) -> Any:
        """The answer. Raises ConnectionFailed."""
        key = ApiKey(type(request)._schema.api_key or 0)
        if self._connection is None:
            self._connection = await self._network.connect(*self._address)
        header = encode_request_header(RequestHeader(key, version, 1, CLIENT_ID))
        self._connection.send_frame([header, encode(request, version)])
        frame = await self._connection.receive_frame()
        _, body = decode_response_header(key, version, frame)
        return decode(api(key).response_type, memoryview(frame)[body:], version)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
