"""The Network port over TLS: connections that this process opens to brokers that listen with SSL or SASL_SSL.

Decides how a certificate that does not fit is told from a broker that is not there. It must not know what a frame says.

I1  As `runtime.network` promises: every failure is a ConnectionFailed (a frame over the limit a FrameTooLarge), and
    ends the connection; frames that came before are still given out, in order.
I2  Bounds: asyncio's streams hold QUEUED_BYTES of frames not sent yet before `drain` waits, and twice BUFFERED_BYTES
    of what nobody took.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from struct import Struct

from kavka.errors import ConnectionFailed, ConnectionRefused, FrameTooLarge, HostUnknown, KavkaError, ProtocolViolation
from kavka.runtime.network import CONNECT_TIMEOUT_S, QUEUED_BYTES

BUFFERED_BYTES = 4 * 1024 * 1024
_length = Struct(">i")


class TlsNetwork:
    """Opens connections under TLS on the running loop."""

    def __init__(self, context: ssl.SSLContext, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._context = context
        self._connect_timeout_s = connect_timeout_s

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> TlsFrames:
        """Connects and shakes hands; raises ConnectionFailed."""
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=self._context, server_hostname=host, limit=BUFFERED_BYTES
                )
        except TimeoutError as error:
            raise ConnectionFailed(
                f"no TLS answer from {host}:{port} in {self._connect_timeout_s} s: does it listen with TLS there?"
            ) from error
        except ssl.SSLCertVerificationError as error:
            raise ConnectionFailed(
                f"the certificate of {host}:{port} cannot be verified: {error.verify_message}"
            ) from error
        except ssl.SSLError as error:
            raise ConnectionFailed(
                f"no TLS with {host}:{port}: {error.reason or error}: does it listen with TLS there?"
            ) from error
        except ConnectionRefusedError as error:
            raise ConnectionRefused(f"{host}:{port} refused the connection") from error
        except (ConnectionResetError, ConnectionAbortedError) as error:
            raise ConnectionFailed(
                f"{host}:{port} closed the connection in the TLS handshake: does it listen with TLS there?"
            ) from error
        except socket.gaierror as error:
            raise HostUnknown(f"the name {host} cannot be resolved ({error.strerror})") from error
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {host}:{port}: {error.strerror or error}") from error
        writer.transport.set_write_buffer_limits(high=QUEUED_BYTES)
        return TlsFrames(reader, writer, f"{host}:{port}", max_frame_bytes)


class TlsFrames:
    """One connection that carries frames (the port's `Connection`)."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str, max_frame_bytes: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._peer = peer
        self._max_frame_bytes = max_frame_bytes
        self._failure: KavkaError | None = None

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Queues one frame. Raises the connection's failure."""
        if self._failure is not None:
            raise self._failure
        self._writer.write(_length.pack(sum(map(len, parts))) + b"".join(parts))

    async def drain(self) -> None:
        """Waits while more than QUEUED_BYTES are queued. Raises the connection's failure."""
        if self._failure is not None:
            raise self._failure
        try:
            await self._writer.drain()
        except OSError as error:
            raise self._fail(ConnectionFailed(f"the connection to {self._peer} broke: {error}")) from error

    async def receive_frame(self) -> bytes:
        """The next frame, without its length. Only one task may wait for it at a time."""
        if self._failure is not None:
            raise self._failure
        try:
            (size,) = _length.unpack(await self._reader.readexactly(_length.size))
            if size < 0:
                raise self._fail(ProtocolViolation(f"{self._peer} sent a frame of {size} bytes"))
            if size > self._max_frame_bytes:
                raise self._fail(
                    FrameTooLarge(
                        f"{self._peer} sent a frame of {size} bytes, at most {self._max_frame_bytes} expected", size
                    )
                )
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise self._fail(ConnectionFailed(f"{self._peer} closed the connection")) from error
        except OSError as error:
            raise self._fail(ConnectionFailed(f"the connection to {self._peer} broke: {error}")) from error

    def close(self) -> None:
        self._fail(ConnectionFailed(f"the connection to {self._peer} was closed here"))

    def _fail(self, failure: KavkaError) -> KavkaError:
        if self._failure is None:
            self._failure = failure
            self._writer.close()
        return self._failure
