"""RequestPipeline: many requests at once on one connection, each with its answer.

Decides which answer belongs to which request (by correlation id), and what becomes of those that wait when the
connection fails. Must not know versions, time-outs or how many requests may be in flight: `PeerConnection` and the
client's `BrokerConnection` add those.

    I1  a connection that failed in any way (broken, late answer, bytes that are no answer) is closed and stays closed,
        and all that waited on it fails with it
    I2  an answer that belongs to no request is a failure of the connection

Source: Kafka's protocol guide; NetworkClient.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Final

from kavka.errors import ConnectionFailed, KavkaError, ProtocolViolation
from kavka.model import FileSlice
from kavka.network import Connection
from kavka.protocol.api import ApiKey, RequestHeader, encode_request_header
from kavka.protocol.codec import encode_chunks
from kavka.protocol.schema import Message

_CORRELATION_ID: Final = Struct("!i")


class RequestPipeline:
    """Requests and answers of one connection to the broker at `address`."""

    def __init__(self, connection: Connection, address: str, client_id: str) -> None:
        self.address = address
        self._connection = connection
        self._client_id = client_id
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._next_correlation_id = 0
        self._failure: ConnectionFailed | None = None
        self._reader = asyncio.create_task(self._read_answers(), name=f"answers of {address}")

    @property
    def is_open(self) -> bool:
        return self._failure is None

    @property
    def pending_requests(self) -> int:
        """Number of requests still waiting for an answer."""
        return len(self._pending)

    def close(self) -> None:
        """Closes the connection; requests that wait fail with `ConnectionFailed`."""
        self._fail(ConnectionFailed(f"the connection to {self.address} was closed here"))

    def _send(self, key: ApiKey, version: int, message: Message, answer: asyncio.Future[bytes] | None) -> None:
        """Queues one request; `answer` gets the frame of its answer, None where the broker gives none.

        Raises `ConnectionFailed`.
        """
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))
        correlation_id = self._next_correlation_id
        self._next_correlation_id = correlation_id + 1 & 0x7FFFFFFF
        parts: list[bytes | bytearray | memoryview] = [
            encode_request_header(RequestHeader(key, version, correlation_id, self._client_id))
        ]
        for chunk in encode_chunks(message, version):
            assert not isinstance(chunk, FileSlice), "requests are sent from memory"
            parts.append(chunk)
        if answer is not None:
            self._pending[correlation_id] = answer
        try:
            self._connection.send_frame(parts)
        except ConnectionFailed as failure:
            self._fail(failure)
            raise

    async def _read_answers(self) -> None:
        try:
            while True:
                frame = await self._connection.receive_frame()
                if len(frame) < _CORRELATION_ID.size:
                    raise ProtocolViolation(f"{self.address} sent a frame of {len(frame)} bytes")
                (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
                answer = self._pending.pop(correlation_id, None)
                if answer is None:
                    raise ProtocolViolation(f"{self.address} answered request {correlation_id}, which nobody asked")
                self._on_settled()
                if not answer.done():
                    answer.set_result(frame)
        except KavkaError as failure:
            self._fail(self._as_connection_failure(failure))

    def _fail(self, failure: ConnectionFailed) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        self._connection.close()
        self._reader.cancel()
        pending, self._pending = self._pending, {}
        for answer in pending.values():
            self._on_settled()
            if not answer.done():
                answer.set_exception(type(failure)(str(failure)))
                answer.exception()  # who asked may learn of the failure while sending, and never wait for this

    def _on_settled(self) -> None:
        """A request is not in flight any more: it was answered, or the connection failed."""

    def _as_connection_failure(self, failure: KavkaError) -> ConnectionFailed:
        """Why the connection is of no use after this."""
        return failure if isinstance(failure, ConnectionFailed) else ConnectionFailed(str(failure))
