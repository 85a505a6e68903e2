"""The Network port over TLS: connections that this process opens to brokers that listen with SSL or SASL_SSL.

Decides how a certificate that does not fit is told from a broker that is not there. It must not know what a frame says.

I1  As `runtime.network` promises: every failure is a ConnectionFailed (a frame over the limit a FrameTooLarge), and
    ends the connection; frames that came before are still given out, in order.
I2  The host is checked against the certificate of whoever answers, unless the context says otherwise.
I3  Public-key work is not done in the loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.errors import ConnectionFailed, ConnectionRefused, HostUnknown, NotTrusted
from kavka.protocol.frames import BufferPool, FrameReader
from kavka.runtime.network.network import CONNECT_TIMEOUT_S, SHARED_BYTES, SocketFrames, never_linger, open_socket
from kavka.runtime.tls.tls_channel import RECEIVE_BYTES, SCRATCH_BYTES, TlsChannel, TlsSession
from kavka.security.tls_records import NotTls, whole_records

if TYPE_CHECKING:
    from concurrent.futures import Executor


class TlsNetwork:
    """Opens connections under TLS on the running loop. All of them share their receive buffers.

    `context` may be a function: it is asked for each connection, so that certificates may change. `resets` as in
    `SocketNetwork`. Handshakes are done on `executor`, else on the loop's own.
    """

    def __init__(
        self,
        context: ssl.SSLContext | Callable[[], ssl.SSLContext],
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        resets: bool = False,
        executor: Executor | None = None,
    ) -> None:
        self._context = context
        self._connect_timeout_s = connect_timeout_s
        self._resets = resets
        self._executor = executor
        self._pool = BufferPool()
        self._shared = bytearray(SHARED_BYTES)
        self._scratch = bytearray(SCRATCH_BYTES)

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> TlsFrames:
        """Connects and shakes hands; raises ConnectionFailed."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                connected = await open_socket(loop, host, port)
                try:
                    channel = await self._shake_hands(loop, connected, host)
                except BaseException:
                    connected.close()
                    raise
        except TimeoutError as error:
            raise ConnectionFailed(
                f"no TLS answer from {host}:{port} in {self._connect_timeout_s} s: does it listen with TLS there?"
            ) from error
        except ssl.SSLCertVerificationError as error:
            raise NotTrusted(f"the certificate of {host}:{port} cannot be verified: {error.verify_message}") from error
        except (ssl.SSLError, NotTls) as error:
            why = getattr(error, "reason", None) or error
            raise ConnectionFailed(f"no TLS with {host}:{port}: {why}: does it listen with TLS there?") from error
        except ConnectionRefusedError as error:
            raise ConnectionRefused(f"{host}:{port} refused the connection") from error
        except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError) as error:
            raise ConnectionFailed(
                f"{host}:{port} closed the connection in the TLS handshake: does it listen with TLS there?"
            ) from error
        except socket.gaierror as error:
            raise HostUnknown(f"the name {host} cannot be resolved ({error.strerror})") from error
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {host}:{port}: {error.strerror or error}") from error
        if self._resets:
            never_linger(connected)
        return TlsFrames(loop, channel, f"{host}:{port}", FrameReader(self._pool, max_frame_bytes), self._shared)

    async def _shake_hands(self, loop: asyncio.AbstractEventLoop, connected: socket.socket, host: str) -> TlsChannel:
        context = self._context() if callable(self._context) else self._context
        session = TlsSession(context, server_side=False, server_hostname=host)
        records = held = b""
        while True:
            try:
                is_over, output = await loop.run_in_executor(self._executor, session.step, records)
            except ssl.SSLError:
                if alert := session.outgoing.read():
                    await loop.sock_sendall(connected, alert)
                raise
            if output:
                await loop.sock_sendall(connected, output)
            if is_over:
                return TlsChannel(connected, session, self._scratch, held)
            records = b""
            while not records:
                data = await loop.sock_recv(connected, RECEIVE_BYTES)
                if not data:
                    raise ConnectionResetError("closed in the TLS handshake")
                held += data
                end, _ = whole_records(held, len(held))
                records, held = held[:end], held[end:]


class TlsFrames(SocketFrames):
    """One connection that carries frames (the port's `Connection`)."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, channel: TlsChannel, peer: str, reader: FrameReader, shared: bytearray
    ) -> None:
        self._channel = channel
        self._reading_on = False
        super().__init__(loop, channel, peer, reader, shared)

    def _read_more(self) -> None:
        super()._read_more()
        self._read_on()

    def _on_readable(self) -> None:
        super()._on_readable()
        self._read_on()

    def _read_on(self) -> None:
        """The socket is silent about what was received already."""
        if self._reading and not self._reading_on and self._failure is None and self._channel.has_more:
            self._reading_on = True
            self._loop.call_soon(self._read_hidden)

    def _read_hidden(self) -> None:
        self._reading_on = False
        if self._reading and self._failure is None:
            self._on_readable()

    def _send(self) -> None:
        try:
            is_free = self._channel.flush()
        except OSError as error:
            self._fail(ConnectionFailed(f"the connection to {self._peer} broke: {error.strerror or error}"))
            return
        if is_free:
            super()._send()
        waits = bool(self._queue or self._channel.unsent)
        if self._failure is None and waits != self._writing:
            self._writing = waits
            if waits:
                self._loop.add_writer(self._descriptor, self._send)
            else:
                self._loop.remove_writer(self._descriptor)
