"""SocketConnection: one socket of a processor, from its requests' bytes to its answers' bytes.

What it decides: when a socket is read and when it is left alone, how bytes and file slices go out. It must not know:
what a request means, what other connections do (`processor`), how a socket came here.

A socket is read as long as there is no reason to pause it:

    IN_FLIGHT   so many requests wait for their answers (max_in_flight_requests)
    OUTPUT      the client does not take its answers (max_output_bytes); read again when half of that is left
    MEMORY      half-received requests of all connections hold too much (max_receiving_bytes; `memory_shortage`)
    QUEUE       queued.max.requests wait for the handler (only with a thread of its own)
    MUTED       the client is over its quota (KIP-219)
    STOPPING    the broker goes down, or the connection is to be closed after its last answers

I1  What a client does harms its own connection only: no exception of one leaves `SocketConnection`.
I2  At most one of these runs for a connection at a time: reading, going on with a backlog. A backlog is served first.
I3  Between two requests a connection holds no buffer (measured: 1.4 KiB in all for each of 10,000 idle ones).
I4  A receive buffer that a handler still looks at is replaced, never written to (frames.is_viewed).

Sockets are raw and non-blocking, watched with the loop's add_reader and add_writer. asyncio's transports copy every
byte once more and cannot send files from where the answer's other bytes are.

Source: Kafka's Selector and KafkaChannel.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from itertools import islice
from time import perf_counter_ns
from typing import TYPE_CHECKING, ClassVar

from kavka.errors import ProtocolViolation, StorageError, TlsInClear
from kavka.model import Chunk, FileSlice
from kavka.protocol.connection import Answered, ConnectionContext, Response, ServerConnection, Slot
from kavka.protocol.frames import is_viewed
from kavka.runtime.network.request_channel import RequestTimes

if TYPE_CHECKING:
    from kavka.runtime.network.network import Wire
    from kavka.runtime.network.processor import Processor

SHARED_BYTES = 64 * 1024
"""The receive buffer that all connections of a processor share: it stays in the second-level cache."""
JOINED_OUTPUT_BYTES = 64 * 1024
"""Up to this size the answers of a turn are joined and sent as one piece; sendmsg costs more than the copy."""
PIECES = 512
"""Pieces in one sendmsg; the kernel takes 1,024."""
COPIED_SLICE_BYTES = 32 * 1024
"""File slices up to this size are read and sent with what is around them; longer ones go by sendfile.
Measured with a file in the page cache: 11 us against 18 for 32 KiB, 14 against 18 for 64 KiB."""
SENDFILE_BYTES = 1024 * 1024
"""How much of a slice is given to the kernel with one call."""
TURN_BYTES = 4 * 1024 * 1024
"""How much is sent to one client before the loop looks at the others."""

FILE_ERRORS = (errno.EIO, errno.ESTALE)
"""What sendfile says of the file and never of the socket."""

NO_REQUEST = "connection closed: no request of Kafka's protocol"

IN_FLIGHT = 1
OUTPUT = 2
MEMORY = 4
QUEUE = 8
MUTED = 16
STOPPING = 32


class SocketConnection:
    """One socket and the state of its protocol."""

    __slots__ = (
        "_going_on",
        "_muted_until",
        "_muting",
        "_notes",
        "_processor",
        "_send_began_ns",
        "_send_times",
        "_sending",
        "_sending_bytes",
        "_writing",
        "accepted_at",
        "active_at",
        "closed",
        "descriptor",
        "paused",
        "protocol",
        "socket",
    )

    turn_bytes: ClassVar[int] = TURN_BYTES
    """How much is sent before the loop looks at others."""

    def __init__(self, processor: Processor, connected: socket.socket, context: ConnectionContext) -> None:
        self._processor = processor
        self.socket: Wire = connected
        self.descriptor = connected.fileno()
        self.protocol = ServerConnection(context, processor.pool, processor.limits.max_request_bytes)
        self.paused = 0
        self.closed = False
        self.accepted_at = self.active_at = processor.loop.time()
        """When it began, and when bytes last came or went, on the loop's clock."""
        self._going_on = False
        self._muted_until = 0.0
        """When the last delay of its client's quotas is over, on the loop's clock."""
        self._muting: asyncio.TimerHandle | None = None
        self._notes: list[Answered] | None = None
        """Answers whose way is taken down, until they have left."""
        self._writing = False
        self._sending: deque[Chunk] | None = None
        self._sending_bytes = 0
        self._send_times: RequestTimes | None = None
        self._send_began_ns = 0

    def start(self) -> None:
        self._processor.loop.add_reader(self.descriptor, self._on_readable)

    @property
    def busy(self) -> bool:
        """Whether answers are still owed or under way."""
        return self._sending is not None or self.protocol.in_flight > 0 or self.protocol.reader.backlog is not None

    @property
    def security_protocol(self) -> str:
        """Of its listener: what a client must set."""
        return "PLAINTEXT" if self.protocol.gate is None else "SASL_PLAINTEXT"

    @property
    def is_unknown(self) -> bool:
        """Whether its client must say who it is, and has not."""
        gate = self.protocol.gate
        return gate is not None and not gate.is_open

    @property
    def listener(self) -> str:
        return self.protocol.context.listener_name

    @property
    def anonymous_bytes(self) -> int:
        """What is held of a client that must say who it is, and has not yet."""
        return self.protocol.reader.held_bytes if self.is_unknown else 0

    def is_broken(self) -> bool:
        """Whether the kernel knows of an error that nobody was told of yet."""
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    # Reading

    def _on_readable(self) -> None:
        processor = self._processor
        protocol = self.protocol
        reader = protocol.reader
        if reader.backlog is not None:
            return  # Its turn comes with _go_on, which is scheduled already (I2).
        limit = processor.room(self)
        if not limit:
            return
        shared = memoryview(processor.shared)
        target = reader.target(shared)
        try:
            count = self.socket.recv_into(target)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()  # The client is gone without a goodbye: its matter.
            return
        if not count:
            self.close()
            return
        self.active_at = processor.loop.time()
        requests = protocol.received(shared, count, limit)
        del target, shared
        if requests:
            processor.serve(self, requests)
            del requests
            reader.release()
            if is_viewed(processor.shared):
                processor.shared = bytearray(SHARED_BYTES)
        self._after_reading()

    def _go_on(self) -> None:
        """One more batch of what was received before."""
        self._going_on = False
        if self.closed or self.paused:
            return
        limit = self._processor.room(self)
        if not limit:
            return
        requests = self.protocol.more(limit)
        if requests:
            self._processor.serve(self, requests)
        self._after_reading()

    def _after_reading(self) -> None:
        protocol = self.protocol
        if self.closed:
            return
        if protocol.violation is not None:
            self._end_by_violation(protocol.violation)
            return
        if protocol.reader.held_bytes and self._processor.pool.tight:
            self._processor.on_shortage(self)
        elif self._processor.shortage is not None:
            self._processor.shortage.on_given(self)
        if protocol.reader.backlog is not None:
            self._schedule_going_on()

    def _schedule_going_on(self) -> None:
        if not self._going_on and not self.paused:
            self._going_on = True
            self._processor.loop.call_soon(self._go_on)

    def _end_by_violation(self, violation: ProtocolViolation) -> None:
        """Nothing that follows on this connection can be trusted; the answers before it are still sent."""
        self._processor.log.warning(
            NO_REQUEST,
            client=f"{self.protocol.context.client_host}:{self.protocol.context.client_port}",
            listener=self.protocol.context.listener_name,
            why=self._in_words(violation),
        )
        gate = self.protocol.gate
        if gate is not None and not gate.is_open:
            gate.on_violation(violation)
            self.pause(STOPPING)
            self._processor.loop.call_later(gate.failure_delay_ms / 1000, self.close_after_answers)
            return
        self.close_after_answers()

    def _in_words(self, violation: ProtocolViolation) -> str:
        if isinstance(violation, TlsInClear):
            return f"{violation}: set security.protocol={self.security_protocol} in the client, or use a TLS port"
        return str(violation)

    def pause(self, reason: int) -> None:
        """Stops reading for `reason`."""
        if not self.paused:
            self._processor.loop.remove_reader(self.descriptor)
        self.paused |= reason

    def resume(self, reason: int) -> None:
        """`reason` is gone; reading goes on if there is no other."""
        if not self.paused & reason or self.closed:
            return
        self.paused &= ~reason
        if not self.paused:
            self._processor.loop.add_reader(self.descriptor, self._on_readable)
            if self.protocol.reader.backlog is not None:
                self._schedule_going_on()

    # Writing

    def complete(self, slot: Slot, response: Response) -> None:
        """Gives an open slot its answer. Answers that are ready in the same turn leave together."""
        if self.closed:
            return
        protocol = self.protocol
        protocol.complete(slot, response)
        if self.paused & IN_FLIGHT and protocol.in_flight < self._processor.limits.max_in_flight_requests:
            self.resume(IN_FLIGHT)
        if protocol.in_flight and protocol.output_bytes < JOINED_OUTPUT_BYTES:
            self._processor.flush_soon(self)
        else:
            self.flush()

    def flush(self) -> None:
        """Sends what is ready, as far as the kernel takes it."""
        if self.closed:
            return
        protocol = self.protocol
        size = protocol.output_bytes
        if size:
            output = protocol.take_output()
            if self._sending is None and (data := _joined(output, size)) is not None:
                self._send_piece(data)
            else:
                self._sending = self._sending or deque()
                self._sending.extend(output)
                self._sending_bytes += size
                if self._writing:
                    self._wait_writable()
                else:
                    self._send_queue()
        if protocol.mute_ms and not self.closed:
            self._mute()
        if protocol.closing and self._sending is None and not self.closed:
            self.close()

    def _send_piece(self, data: bytes) -> None:
        """The usual case: all answers of the turn are one small piece."""
        try:
            sent = self.socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            rest = memoryview(data)[sent:]
            self._sending = deque([rest])
            self._sending_bytes = len(rest)
            self._wait_writable()

    def _on_writable(self) -> None:
        self.active_at = self._processor.loop.time()
        self._send_queue()

    def _send_queue(self) -> None:
        queue = self._sending
        assert queue is not None
        turn = self.turn_bytes
        try:
            while queue and turn > 0:
                first = queue[0]
                if first.__class__ is FileSlice and first.length > COPIED_SLICE_BYTES:
                    sent, wanted = self._send_slice(queue, first)
                else:
                    sent, wanted = self._send_pieces(queue)
                self._sending_bytes -= sent
                turn -= sent
                if sent < wanted:
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except SliceTooShort as error:
            self._processor.log.error(
                "connection closed: a segment is shorter than its answer says",
                why=str(error),
                next="see the log directory",
            )
            self.close()
            return
        except StorageError as error:
            self._processor.log.error(
                "connection closed: a segment cannot be read", why=str(error), next="see the log directory"
            )
            self.close()
            return
        except OSError:
            self.close()
            return
        if queue:
            self._wait_writable()
        else:
            self._on_sent()

    def _send_slice(self, queue: deque[Chunk], piece: FileSlice) -> tuple[int, int]:
        wanted = min(piece.length, SENDFILE_BYTES)
        try:
            sent = os.sendfile(self.descriptor, piece.file.fileno(), piece.position, wanted)
        except OSError as error:
            if error.errno not in FILE_ERRORS:
                raise
            raise StorageError(piece.file.path, os.strerror(error.errno)) from error
        if not sent:
            raise SliceTooShort(f"nothing at position {piece.position}, where {piece.length} bytes were expected")
        if sent == piece.length:
            queue.popleft()
        else:
            queue[0] = FileSlice(piece.file, piece.position + sent, piece.length - sent)
        return sent, wanted

    def _send_pieces(self, queue: deque[Chunk]) -> tuple[int, int]:
        """Sends what stands before the next long slice, and tells the kernel to wait for it if there is one."""
        pieces: list[bytes | bytearray | memoryview] = []
        flags = 0
        wanted = 0
        for piece in islice(queue, PIECES):
            if isinstance(piece, FileSlice):
                if piece.length > COPIED_SLICE_BYTES:
                    flags = socket.MSG_MORE
                    break
                data: bytes | bytearray | memoryview = piece.tobytes()
                if len(data) < piece.length:
                    raise SliceTooShort(f"{len(data)} bytes at {piece.position}, expected {piece.length}")
            else:
                data = piece
            pieces.append(data)
            wanted += len(data)
            if wanted >= TURN_BYTES:
                break
        sent = self.socket.sendmsg(pieces, (), flags)
        rest = sent
        for data in pieces:
            if rest < len(data):
                queue[0] = memoryview(data)[rest:]
                break
            rest -= len(data)
            queue.popleft()
        return sent, wanted

    def _wait_writable(self) -> None:
        if not self._writing:
            self._writing = True
            self._send_began_ns = perf_counter_ns()
            self._processor.loop.add_writer(self.descriptor, self._on_writable)
        limit = self._processor.limits.max_output_bytes
        if self._sending_bytes > limit:
            self.pause(OUTPUT)
        elif self.paused & OUTPUT and self._sending_bytes <= limit // 2:
            self.resume(OUTPUT)

    def _on_sent(self) -> None:
        self._sending = None
        if self._writing:
            self._writing = False
            self._processor.loop.remove_writer(self.descriptor)
            if self._send_times is not None:
                self._send_times.api.response_send.record(perf_counter_ns() - self._send_began_ns)
            if self._notes:
                self._finish_notes(perf_counter_ns() - self._send_began_ns)
            self.resume(OUTPUT)
            if self.protocol.closing:
                self.close()

    def sent_by(self, times: RequestTimes, began_ns: int) -> None:
        """Counts the sending of a turn's answers, of which the last one was of `times`' API."""
        if self._writing:
            self._send_times = times
            self._send_began_ns = began_ns
        else:
            sent_ns = perf_counter_ns() - began_ns
            times.api.response_send.record(sent_ns)
            if self._notes:
                self._finish_notes(sent_ns)

    def note(self, times: RequestTimes, answered: Answered) -> None:
        """An answer is about to leave that is slow, or of the sample, or after which its client has to wait."""
        if answered.response.mute_ms > 0:
            times.api.throttle.record(answered.response.mute_ms * 1_000_000)
        self._notes = self._notes or []
        self._notes.append(answered)

    def _finish_notes(self, sent_ns: int) -> None:
        notes, self._notes = self._notes, None
        for answered in notes or ():
            self._processor.watch.finish(answered, sent_ns)

    def _mute(self) -> None:
        """Until the longest of its delays is over: an answer that waited may come while the connection is muted."""
        mute_ms, self.protocol.mute_ms = self.protocol.mute_ms, 0
        self._muted_until = max(self._muted_until, self._processor.loop.time() + mute_ms / 1000)
        if not self.paused & MUTED:
            self.pause(MUTED)
            self._muting = self._processor.loop.call_at(self._muted_until, self._unmute)

    def _unmute(self) -> None:
        if self._muted_until > self._processor.loop.time():
            self._muting = self._processor.loop.call_at(self._muted_until, self._unmute)
        else:
            self._muting = None
            self.resume(MUTED)

    # Ending

    def close_after_answers(self) -> None:
        """Reads no more; closes as soon as the answers that are owed have left."""
        self.pause(STOPPING)
        self.protocol.end()
        self.flush()

    def close(self) -> None:
        """Closes at once. Awaitables of its requests run to their end; their answers are dropped."""
        if self.closed:
            return
        self.closed = True
        loop = self._processor.loop
        if not self.paused:
            loop.remove_reader(self.descriptor)
        if self._writing:
            loop.remove_writer(self.descriptor)
        if self._muting is not None:
            self._muting.cancel()  # It may be weeks away, and would keep all this in memory until then.
            self._muting = None
        self.socket.close()
        self.protocol.close()
        self._sending = None
        if self._notes:
            self._finish_notes(perf_counter_ns() - self._send_began_ns if self._writing else 0)
        self._processor.on_closed(self)


class SliceTooShort(Exception):
    """A file ends before the slice that was announced to the client."""


def _joined(output: list[Chunk], size: int) -> bytes | None:
    """The output as one piece; None where it is long or has slices of files."""
    if len(output) == 1 and output[0].__class__ is bytes:
        return output[0]
    if size > JOINED_OUTPUT_BYTES:
        return None
    pieces = [chunk for chunk in output if not isinstance(chunk, FileSlice)]
    return b"".join(pieces) if len(pieces) == len(output) else None
