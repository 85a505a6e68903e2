"""The Network port on real sockets: connections that this process opens.

What it decides: how long a connection attempt may take, how much may be queued either way. It must not know what a
frame says.

I1  Every failure is a ConnectionFailed (a frame over the limit a FrameTooLarge), and ends the connection: every later
    call raises the same.
I2  Frames that came before the failure are still given out, in order.
I3  With `resets`, what has not reached the other side when a connection is closed here never does: the kernel would go
    on sending it for minutes, over a cut that heals, and a request of unknown outcome would be carried out after it
    was sent again and answered. A marker of a transaction that comes so late ends the next one.
I4  Bounds: QUEUED_BYTES of frames not sent yet hold `drain` back; RECEIVED_BYTES of frames that nobody took stop the
    reading.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from struct import Struct
from typing import Protocol

from kavka.errors import ConnectionFailed, ConnectionRefused, HostUnknown, KavkaError
from kavka.protocol.frames import BufferPool, FrameReader

QUEUED_BYTES = 1024 * 1024
"""`drain` waits while more than this is queued."""
RECEIVED_BYTES = 16 * 1024 * 1024
"""Reading stops while frames of this size wait for `receive_frame`."""
SHARED_BYTES = 64 * 1024
FRAMES_PER_READ = 256
PIECES = 512
CONNECT_TIMEOUT_S = 10.0
"""socket.connection.setup.timeout.ms"""

_length = Struct(">i").pack
_NO_LINGER = Struct("ii").pack(1, 0)


class SocketNetwork:
    """Opens connections on the running loop. All of them share one receive buffer.

    `resets`: they are closed with a reset (I3), as among brokers. Who sends and waits for no answer must not do that.
    """

    def __init__(self, *, connect_timeout_s: float = CONNECT_TIMEOUT_S, resets: bool = False) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._resets = resets
        self._pool = BufferPool()
        self._shared = bytearray(SHARED_BYTES)

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> SocketFrames:
        """Connects to the first of the host's addresses that answers; raises ConnectionFailed."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                connected = await open_socket(loop, host, port)
        except TimeoutError as error:
            raise ConnectionFailed(f"no answer from {host}:{port} in {self._connect_timeout_s} s") from error
        except ConnectionRefusedError as error:
            raise ConnectionRefused(f"{host}:{port} refused the connection") from error
        except socket.gaierror as error:
            raise HostUnknown(f"the name {host} cannot be resolved ({error.strerror})") from error
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {host}:{port}: {error.strerror or error}") from error
        if self._resets:
            never_linger(connected)
        return SocketFrames(loop, connected, f"{host}:{port}", FrameReader(self._pool, max_frame_bytes), self._shared)


class Wire(Protocol):
    """What connections need of a socket; `runtime.tls_channel` is another one."""

    def recv_into(self, target: memoryview, /) -> int: ...

    def send(self, data: bytes | bytearray | memoryview, flags: int = ..., /) -> int: ...

    def sendmsg(
        self,
        pieces: Iterable[bytes | bytearray | memoryview],
        ancillary: Iterable[tuple[int, int, bytes]] = ...,
        flags: int = ...,
        /,
    ) -> int: ...

    def getsockopt(self, level: int, option: int, /) -> int: ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...


def never_linger(connected: socket.socket) -> None:
    """What is not sent when the socket closes is never sent (I3)."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


async def open_socket(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """Connects to the first of the host's addresses that answers; raises OSError."""
    try:
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as malformed:  # Python's own code for names refuses one with an empty or too long part.
        raise socket.gaierror(socket.EAI_NONAME, "no name of a host") from malformed
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in addresses:
        connected = socket.socket(family, kind, protocol)
        try:
            connected.setblocking(False)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await loop.sock_connect(connected, address)
        except OSError as error:
            connected.close()
            failure = error
        except BaseException:
            connected.close()
            raise
        else:
            return connected
    raise failure


class SocketFrames:
    """One connection that carries frames (the port's `Connection`)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connected: Wire,
        peer: str,
        reader: FrameReader,
        shared: bytearray,
    ) -> None:
        self._loop = loop
        self._socket = connected
        self._descriptor = connected.fileno()
        self._peer = peer
        self._reader = reader
        self._shared = memoryview(shared)
        self._frames: deque[bytes] = deque()
        self.received_bytes = 0
        """Size of the frames that wait for `receive_frame`."""
        self._frame_waiter: asyncio.Future[None] | None = None
        self._queue: deque[bytes | bytearray | memoryview] = deque()
        self.queued_bytes = 0
        """Bytes that the kernel did not take yet."""
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._reading = False
        self._writing = False
        self._failure: KavkaError | None = None
        self._read_more()

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Queues one frame, and sends at once what the kernel takes. Raises the connection's failure."""
        if self._failure is not None:
            raise self._failure
        size = sum(map(len, parts))
        self._queue.append(_length(size))
        self._queue.extend(part for part in parts if len(part))
        self.queued_bytes += size + 4
        if not self._writing:
            self._send()

    async def drain(self) -> None:
        """Waits while more than QUEUED_BYTES are queued. Raises the connection's failure."""
        while self.queued_bytes > QUEUED_BYTES and self._failure is None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._drain_waiters.append(waiter)
            await waiter
        if self._failure is not None:
            raise self._failure

    async def receive_frame(self) -> bytes:
        """The next frame, without its length. Only one task may wait for it at a time."""
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            if self._frame_waiter is not None:
                raise RuntimeError("two tasks wait for frames of one connection")
            self._frame_waiter = self._loop.create_future()
            try:
                await self._frame_waiter
            finally:
                self._frame_waiter = None
        frame = self._frames.popleft()
        self.received_bytes -= len(frame)
        if not self._reading and self.received_bytes <= RECEIVED_BYTES // 2:
            self._read_more()
        return frame

    def close(self) -> None:
        self._fail(ConnectionFailed(f"the connection to {self._peer} was closed here"))

    def _read_more(self) -> None:
        if self._failure is None:
            self._reading = True
            self._loop.add_reader(self._descriptor, self._on_readable)

    def _on_readable(self) -> None:
        target = self._reader.target(self._shared)
        try:
            count = self._socket.recv_into(target)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(ConnectionFailed(f"the connection to {self._peer} broke: {error.strerror or error}"))
            return
        if not count:
            self._fail(ConnectionFailed(f"{self._peer} closed the connection"))
            return
        frames = self._reader.received(self._shared, count, FRAMES_PER_READ)
        while frames:
            for frame in frames:
                self._frames.append(frame.tobytes())
                self.received_bytes += len(frame)
            frames.clear()
            del frame
            self._reader.release()
            frames = self._reader.more(FRAMES_PER_READ)
        if self._frame_waiter is not None and self._frames and not self._frame_waiter.done():
            self._frame_waiter.set_result(None)
        if self._reader.violation is not None:
            self._fail(self._reader.violation)
        elif error_number := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            # The peer reset the connection behind these bytes: uvloop watches it no more, and would not call again.
            self._fail(ConnectionFailed(f"the connection to {self._peer} broke: {os.strerror(error_number)}"))
        elif self.received_bytes > RECEIVED_BYTES:
            self._reading = False
            self._loop.remove_reader(self._descriptor)

    def _send(self) -> None:
        queue = self._queue
        try:
            while queue:
                pieces = list(islice(queue, PIECES))
                sent = self._socket.sendmsg(pieces)
                self.queued_bytes -= sent
                for piece in pieces:
                    if sent < len(piece):
                        queue[0] = memoryview(piece)[sent:]
                        break
                    sent -= len(piece)
                    queue.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._fail(ConnectionFailed(f"the connection to {self._peer} broke: {error.strerror or error}"))
            return
        if bool(queue) != self._writing:
            self._writing = bool(queue)
            if self._writing:
                self._loop.add_writer(self._descriptor, self._send)
            else:
                self._loop.remove_writer(self._descriptor)
        if self._drain_waiters and self.queued_bytes <= QUEUED_BYTES // 2:
            self._wake_drain()

    def _wake_drain(self) -> None:
        waiters, self._drain_waiters = self._drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _fail(self, failure: KavkaError) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        if self._reading:
            self._loop.remove_reader(self._descriptor)
        if self._writing:
            self._loop.remove_writer(self._descriptor)
        with suppress(OSError):
            self._socket.close()
        self._reader.close()
        self._queue.clear()
        self.queued_bytes = 0
        if self._frame_waiter is not None and not self._frame_waiter.done():
            self._frame_waiter.set_result(None)
        self._wake_drain()
