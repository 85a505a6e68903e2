"""PeerConnection: requests to another broker, pipelined on one connection.

Decides which answer belongs to which request, and how many may be in flight. The caller names the version of each
request: brokers of one cluster agree on theirs by inter.broker.protocol.version, so no ApiVersions goes ahead. It must
not know what a request is for, when to connect again, or where the other broker is to be found.

    I1  every request ends: with its answer, or with `ConnectionFailed`, after which nobody knows whether the other
        broker carried it out
    I2  a connection that failed in any way (broken, late answer, bytes that are no answer) is closed and stays closed,
        and all that waited on it fails with it
    I3  at most MAX_PENDING_REQUESTS are in flight; a request whose caller went away still counts until it is answered

Source: Kafka's InterBrokerSendThread and NetworkClient; KIP-482 (flexible headers).
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import TypeVar

from kavka.errors import ConnectionFailed, KavkaError, ProtocolViolation
from kavka.model import FileSlice
from kavka.network import Connection, Network
from kavka.protocol.api import ApiKey, RequestHeader, api, decode_response_header, encode_request_header
from kavka.protocol.codec import decode, encode_chunks
from kavka.protocol.schema import Message

__all__ = ["MAX_FRAME_BYTES", "MAX_PENDING_REQUESTS", "PeerConnection"]

Answer = TypeVar("Answer", bound=Message)

MAX_PENDING_REQUESTS = 64
"""More than any flow between brokers has in flight on one connection."""
MAX_FRAME_BYTES = 256 * 1024 * 1024
"""An answer's limit. The largest are fetches: replica.fetch.response.max.bytes and one batch of any size."""
_CORRELATION_ID = Struct("!i")


class PeerConnection:
    """One connection to one broker. Made by `PeerConnection.open`."""

    def __init__(self, connection: Connection, address: str, client_id: str) -> None:
        self.address = address
        self._connection = connection
        self._client_id = client_id
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._next_correlation_id = 0
        self._slots = asyncio.Semaphore(MAX_PENDING_REQUESTS)
        self._failure: ConnectionFailed | None = None
        self._closed = asyncio.Event()
        self._reader = asyncio.create_task(self._read_answers(), name=f"answers of {address}")

    @classmethod
    async def open(
        cls,
        network: Network,
        host: str,
        port: int,
        *,
        client_id: str,
        connect_timeout_ms: int,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> PeerConnection:
        """Connects. Raises `ConnectionFailed`: `ConnectionRefused` if nobody listens there."""
        address = f"{host}:{port}"
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                connection = await network.connect(host, port, max_frame_bytes=max_frame_bytes)
        except TimeoutError as failure:
            raise ConnectionFailed(f"{address} did not accept within {connect_timeout_ms} ms") from failure
        return cls(connection, address, client_id)

    @property
    def is_open(self) -> bool:
        return self._failure is None

    @property
    def pending_requests(self) -> int:
        """Requests in flight."""
        return len(self._pending)

    async def wait_closed(self) -> ConnectionFailed:
        """Waits until the connection is closed, by whichever side, and returns why."""
        await self._closed.wait()
        assert self._failure is not None, "closed for a reason"
        return self._failure

    async def request(
        self, key: ApiKey, version: int, message: Message, answer_type: type[Answer], *, timeout_ms: int
    ) -> Answer:
        """Sends `message` and waits for its answer. Raises `ConnectionFailed`; the connection is closed then (I1, I2).

        Record batches in the answer are views of its own frame, and stay valid as long as they are held.
        """
        frame = await self._exchange(key, version, message, timeout_ms)
        try:
            _, position = decode_response_header(key, version, frame)
            return decode(answer_type, memoryview(frame)[position:], version)
        except ProtocolViolation as violation:
            failure = ConnectionFailed(f"{self.address} gave a malformed {api(key).name} {version} answer: {violation}")
            self._fail(failure)
            raise failure from violation

    def close(self) -> None:
        self._fail(ConnectionFailed(f"the connection to {self.address} was closed here"))

    async def _exchange(self, key: ApiKey, version: int, message: Message, timeout_ms: int) -> bytes:
        """Sends one request and waits for the frame of its answer."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._slots.acquire()
                answer = self._send(key, version, message)
                await self._connection.drain()
                return await answer
        except TimeoutError as late:
            failure = ConnectionFailed(f"{self.address} did not answer {api(key).name} within {timeout_ms} ms")
            self._fail(failure)
            raise failure from late

    def _send(self, key: ApiKey, version: int, message: Message) -> asyncio.Future[bytes]:
        """Queues one request, in a slot that was taken for it."""
        if self._failure is not None:
            self._slots.release()
            raise ConnectionFailed(str(self._failure))
        correlation_id = self._next_correlation_id
        self._next_correlation_id = correlation_id + 1 & 0x7FFFFFFF
        parts: list[bytes | bytearray | memoryview] = [
            encode_request_header(RequestHeader(key, version, correlation_id, self._client_id))
        ]
        for chunk in encode_chunks(message, version):
            assert not isinstance(chunk, FileSlice), "requests between brokers are sent from memory"
            parts.append(chunk)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[correlation_id] = answer
        try:
            self._connection.send_frame(parts)
        except ConnectionFailed as failure:
            self._fail(failure)
        return answer

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
                self._slots.release()
                if not answer.done():
                    answer.set_result(frame)
        except KavkaError as failure:
            self._fail(failure if isinstance(failure, ConnectionFailed) else ConnectionFailed(str(failure)))

    def _fail(self, failure: ConnectionFailed) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        self._connection.close()
        self._reader.cancel()
        pending, self._pending = self._pending, {}
        for answer in pending.values():
            # Who waits for a slot is woken by it, finds the connection closed, and passes the slot on.
            self._slots.release()
            if not answer.done():
                answer.set_exception(ConnectionFailed(str(failure)))
                answer.exception()  # who asked may learn of the failure while sending, and never wait for this
        self._closed.set()
