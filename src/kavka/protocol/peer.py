"""PeerConnection: requests to another broker, pipelined on one connection.

Decides how many requests may be in flight, and how long one may take. The caller names the version of each request:
brokers of one cluster agree on theirs by inter.broker.protocol.version, so no ApiVersions goes ahead. It must not know
what a request is for, when to connect again, or where the other broker is to be found.

    I1  every request ends: with its answer, or with `ConnectionFailed`, after which nobody knows whether the other
        broker carried it out
    I2  at most MAX_PENDING_REQUESTS are in flight; a request whose caller went away still counts until it is answered

Source: Kafka's InterBrokerSendThread and NetworkClient; KIP-482 (flexible headers).
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from kavka.errors import ConnectionFailed, ProtocolViolation
from kavka.network import Connection, Network
from kavka.protocol.api import ApiKey, api, decode_response_header
from kavka.protocol.codec import decode
from kavka.protocol.request_pipeline import RequestPipeline
from kavka.protocol.schema import Message

__all__ = ["MAX_FRAME_BYTES", "MAX_PENDING_REQUESTS", "PeerConnection"]

Answer = TypeVar("Answer", bound=Message)

MAX_PENDING_REQUESTS = 64
"""More than any flow between brokers has in flight on one connection."""
MAX_FRAME_BYTES = 256 * 1024 * 1024
"""An answer's limit. The largest are fetches: replica.fetch.response.max.bytes and one batch of any size."""


class PeerConnection(RequestPipeline):
    """One connection to one broker. Made by `PeerConnection.open`."""

    def __init__(self, connection: Connection, address: str, client_id: str) -> None:
        self._slots = asyncio.Semaphore(MAX_PENDING_REQUESTS)
        self._closed = asyncio.Event()
        super().__init__(connection, address, client_id)

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
            raise ConnectionFailed(
                f"{address} did not accept the connection within {connect_timeout_ms} ms"
            ) from failure
        return cls(connection, address, client_id)

    async def wait_closed(self) -> ConnectionFailed:
        """Waits until the connection is closed, by whichever side, and returns why."""
        await self._closed.wait()
        assert self._failure is not None, "closed for a reason"
        return self._failure

    async def request(
        self, key: ApiKey, version: int, message: Message, answer_type: type[Answer], *, timeout_ms: int
    ) -> Answer:
        """Sends `message` and waits for its answer. Raises `ConnectionFailed`; the connection is closed then (I1).

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

    async def _exchange(self, key: ApiKey, version: int, message: Message, timeout_ms: int) -> bytes:
        """Sends one request and waits for the frame of its answer."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._slots.acquire()
                if not self.is_open:
                    self._slots.release()  # whoever waits for a slot is woken in turn, and finds the connection closed
                answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                self._send(key, version, message, answer)
                await self._connection.drain()
                return await answer
        except TimeoutError as late:
            failure = ConnectionFailed(f"{self.address} did not answer {api(key).name} within {timeout_ms} ms")
            self._fail(failure)
            raise failure from late

    def _fail(self, failure: ConnectionFailed) -> None:
        super()._fail(failure)
        self._closed.set()

    def _on_settled(self) -> None:
        self._slots.release()
