"""Frames: bytes of a connection in, whole length-prefixed frames out, without copying what need not be copied.

What it decides: where the next bytes of a connection should be received, when a frame is complete, how much memory a
frame under way may hold. It must not know: sockets, requests, who reads the frames.

    frame = length (4 bytes, big-endian, signed), then so many bytes

Bytes are received into a buffer that many connections share, and the frames that are complete there are given out as
views of it. Only a frame that is cut off at the end of the shared buffer gets a buffer of its own, into which the rest
is received directly.

I1  A frame's views are the caller's until it calls `release` (for the shared buffer: until it receives again). A
    buffer that is still looked at then is given away, never written to again: see `is_viewed`.
I2  A length is only a claim. The buffer of a frame holds at most GROWTH times what really arrived of it, or a size
    that this connection has filled before (either rounded up to a power of two).
I3  A connection between two frames holds no buffer.
I4  However the stream is cut into pieces, the frames are the same.

Source: Kafka's protocol guide ("RequestOrResponse => Size (RequestMessage | ResponseMessage)"); the shape of the
interface is that of asyncio's BufferedProtocol, without the input and output.
"""

from __future__ import annotations

from struct import Struct

from kavka.errors import FrameTooLarge, ProtocolViolation, TlsInClear

LENGTH_BYTES = 4
SMALLEST_STEP_BYTES = 4096
"""What a frame under way may hold whatever arrived of it: a page."""
GROWTH = 4
"""A full buffer is replaced by one of so many times its size; copying costs a third of the frame at most."""
POOLED_BYTES = 64 * 1024
"""Buffers from this size on are kept for the next frame: the allocator would give back their memory to the kernel,
and touching new pages costs more than receiving into them (measured: 180 us for each MiB against 60)."""
LIMIT_BYTES = 256 * 1024 * 1024
LIMIT_NAME = "socket.request.max.bytes"
RETAINED_BYTES = 8 * 1024 * 1024
"""Memory that a pool keeps for later frames."""
BULK_PEEK_BYTES = 4096
"""How much is received at first after a frame that did not fit the shared buffer: the next one is probably as long,
and what comes into the shared buffer of it must be copied."""

_read_length = Struct(">i").unpack_from


def is_viewed(buffer: bytearray) -> bool:
    """Whether a memoryview of `buffer` is still alive anywhere.

    Python refuses to resize a bytearray that is looked at; taking its last byte away and putting it back asks exactly
    that, in 25 ns. So no promise of the views' users is needed to receive into a buffer again.
    """
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return True
    return False


class BufferPool:
    """Buffers for frames under way, recycled.

    `lent_bytes` is what is out at the moment: what half-received frames of all connections hold together. Over
    `limit_bytes` the pool is tight: frames get little more than what arrived of them, and whoever receives should let
    some wait.
    """

    __slots__ = ("_free", "_retained_bytes", "_used", "free_bytes", "lent_bytes", "limit_bytes")

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES, retained_bytes: int = RETAINED_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._free: dict[int, list[bytearray]] = {}
        self._retained_bytes = retained_bytes
        self._used = False
        self.free_bytes = 0
        self.lent_bytes = 0

    @property
    def tight(self) -> bool:
        return self.lent_bytes > self.limit_bytes

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes with unknown content."""
        if size < POOLED_BYTES or self.tight:
            buffer = bytearray(size)
        else:
            self._used = True
            capacity = 1 << (size - 1).bit_length()
            free = self._free.get(capacity)
            if free:
                buffer = free.pop()
                self.free_bytes -= capacity
            else:
                buffer = bytearray(capacity)
        self.lent_bytes += len(buffer)
        return buffer

    def give(self, buffer: bytearray) -> None:
        """Takes a buffer back; one that is still looked at, or that would be too much to keep, is dropped."""
        size = len(buffer)
        self.lent_bytes -= size
        if size < POOLED_BYTES or size & (size - 1):
            return
        if self.free_bytes + size <= self._retained_bytes and not is_viewed(buffer):
            self._free.setdefault(size, []).append(buffer)
            self.free_bytes += size

    def trim(self) -> None:
        """Drops the free buffers if none was asked for since the last call."""
        if not self._used:
            self._free.clear()
            self.free_bytes = 0
        self._used = False


class FrameReader:
    """The reading half of one connection.

    Use: receive into `target(shared)`, then `received(shared, count)` gives the frames; when they are dealt with, call
    `release`. While there is a `backlog`, ask `more` before receiving again. A `violation` ends it: frames before it
    are good, after it nothing is read.
    """

    __slots__ = (
        "_backlog_position",
        "_done",
        "_filled",
        "_frame_bytes",
        "_largest_bytes",
        "_limit_name",
        "_maximum_bytes",
        "_partial",
        "_pool",
        "_shared_bytes",
        "backlog",
        "violation",
    )

    def __init__(self, pool: BufferPool, maximum_bytes: int) -> None:
        self._pool = pool
        self._maximum_bytes = maximum_bytes
        self._limit_name = LIMIT_NAME
        self._partial: bytearray | None = None
        self._filled = 0
        self._frame_bytes = -1
        """Length of the frame under way; -1 while the length itself is not complete."""
        self._largest_bytes = 0
        self._shared_bytes = 0
        """How much of the shared buffer may be used; 0 for all."""
        self._done: bytearray | None = None
        self.backlog: bytearray | None = None
        """Bytes that are here already and that `more` can make frames of; a plain attribute, being asked for often."""
        self._backlog_position = 0
        self.violation: ProtocolViolation | None = None

    @property
    def held_bytes(self) -> int:
        """Memory that the frame under way holds."""
        return len(self._partial) if self._partial is not None else 0

    @property
    def arrived_bytes(self) -> int:
        """Of the frame under way."""
        return self._filled if self._partial is not None else 0

    def target(self, shared: memoryview) -> memoryview:
        """Where to receive the next bytes: in `shared`, or in the buffer of the frame under way."""
        partial = self._partial
        if partial is not None:
            return memoryview(partial)[self._filled : self._end()]
        return shared[: self._shared_bytes] if self._shared_bytes else shared

    def received(self, shared: memoryview, count: int, limit: int) -> list[memoryview]:
        """The frames, at most `limit` (>= 1), that are complete now that `count` bytes came into the target."""
        if self._partial is None:
            return self._parse(shared, 0, count, limit)
        return self._fill(count)

    def more(self, limit: int) -> list[memoryview]:
        """Up to `limit` (>= 1) frames of the backlog."""
        backlog = self.backlog
        if backlog is None:
            return []
        position = self._backlog_position
        self.backlog = None
        return self._parse(memoryview(backlog), position, len(backlog), limit, owned=backlog)

    def limit(self, maximum_bytes: int, name: str = LIMIT_NAME) -> None:
        """Bounds the frames that begin from now on; `name` is the setting that says so."""
        self._maximum_bytes = maximum_bytes
        self._limit_name = name

    def release(self) -> None:
        """The frames that were given out are dealt with: their buffer may be used again, unless it is looked at."""
        done = self._done
        if done is not None:
            self._done = None
            self._pool.give(done)

    def close(self) -> None:
        """Gives back what is held; nothing is read after."""
        self.release()
        if self._partial is not None:
            self._pool.give(self._partial)
            self._partial = None
        self.backlog = None

    def _parse(
        self, view: memoryview, position: int, end: int, limit: int, *, owned: bytearray | None = None
    ) -> list[memoryview]:
        """Frames in view[position:end]. `owned` is the buffer of `view` where it is the backlog's own."""
        frames: list[memoryview] = []
        maximum = self._maximum_bytes
        while position < end:
            if len(frames) == limit:
                self._keep(view, position, end, owned)
                return frames
            start = position + LENGTH_BYTES
            if start > end:
                self._begin(view[position:end], -1)
                break
            length = _read_length(view, position)[0]
            if length < 0 or length > maximum:
                start_bytes = bytes(view[position : min(end, position + 16)])
                self.violation = _violation(start_bytes, length, maximum, self._limit_name)
                return frames
            position = start + length
            if position > end:
                self._begin(view[start:end], length)
                break
            frames.append(view[start:position])
        if frames:
            self._shared_bytes = 0
        return frames

    def _keep(self, view: memoryview, position: int, end: int, owned: bytearray | None) -> None:
        if owned is None:
            self.backlog, self._backlog_position = bytearray(view[position:end]), 0
        else:
            self.backlog, self._backlog_position = owned, position

    def _begin(self, head: memoryview, length: int) -> None:
        """Starts a frame of `length` bytes, of which `head` is there; with length -1 `head` is a part of the length."""
        filled = len(head)
        buffer = self._pool.take(LENGTH_BYTES if length < 0 else self._allowed(length, filled))
        buffer[:filled] = head
        self._partial = buffer
        self._filled = filled
        self._frame_bytes = length

    def _fill(self, count: int) -> list[memoryview]:
        """`count` bytes more came for the frame under way."""
        partial = self._partial
        assert partial is not None
        filled = self._filled = self._filled + count
        if filled < self._end():
            return []
        length = self._frame_bytes
        if length < 0:
            return self._start_of_known_length(partial)
        if filled < length:
            larger = self._pool.take(self._allowed(length, filled))
            larger[:filled] = memoryview(partial)[:filled]
            self._pool.give(partial)
            self._partial = larger
            return []
        self._partial = None
        self._done = partial
        if length > self._largest_bytes:
            self._largest_bytes = length
        self._shared_bytes = BULK_PEEK_BYTES if length >= POOLED_BYTES else 0
        return [memoryview(partial)[:length]]

    def _start_of_known_length(self, prefix: bytearray) -> list[memoryview]:
        """The four bytes of a length that came in pieces are complete."""
        self._partial = None
        self._pool.give(prefix)
        length = _read_length(prefix, 0)[0]
        if length < 0 or length > self._maximum_bytes:
            self.violation = _violation(bytes(prefix), length, self._maximum_bytes, self._limit_name)
            return []
        if length == 0:
            return [memoryview(b"")]
        self._begin(memoryview(b""), length)
        return []

    def _end(self) -> int:
        """The position in the frame's buffer up to which may be received."""
        assert self._partial is not None
        capacity = len(self._partial)
        length = self._frame_bytes
        return length if 0 <= length < capacity else capacity

    def _allowed(self, length: int, arrived: int) -> int:
        """Size of the buffer for a frame that claims `length` bytes, of which `arrived` are there (I2)."""
        if self._pool.tight:
            return min(length, SMALLEST_STEP_BYTES + arrived + arrived // 4)
        return min(length, max(SMALLEST_STEP_BYTES, arrived * GROWTH, self._largest_bytes))


_HTTP_STARTS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")


def _violation(start: bytes, length: int, maximum: int, limit_name: str) -> ProtocolViolation:
    """What to say of a frame that starts with the bytes `start` and so has an impossible length."""
    if start[:4] in _HTTP_STARTS:
        return ProtocolViolation(f"HTTP instead of Kafka's protocol (the bytes {start!r}): this port is no web server")
    if start[:2] == b"\x16\x03":
        return TlsInClear("a TLS handshake on a listener without TLS")
    if length < 0:
        return ProtocolViolation(f"a frame of negative length {length} (the bytes {start!r})")
    return FrameTooLarge(f"a frame of {length} bytes, over the {maximum} of {limit_name}", length)
