"""The server's side of one connection: bytes become requests, answers become bytes, in the order of the requests.

What it decides: which bytes are a request, when an answer may leave, how it is framed. It must not know: sockets,
loops, what a request means. The theory, as in h11: two independent halves.

    reading   frames (frames.py) -> header -> Request;  a frame without a valid header is a violation, which ends it
    writing   answer at once          nothing older is waiting -> straight into `output`
              answer at once          something older waits    -> a filled slot behind it
              defer                   an empty slot, filled by `complete`
              complete                fills its slot; all filled slots at the front leave

I1  Answers leave in the order in which their requests came, whatever order they are completed in.
I2  An answer that must not be sent (acks=0) keeps its place in the order and puts nothing on the wire.
I3  After CLOSE_CONNECTION has its turn nothing more leaves.

    answer = length (4) correlation id (4) [tagged fields (1): only in flexible versions, never for ApiVersions] body

Kafka answers one request of a connection before it reads the next (it mutes the channel); clients may rely on the
order only, so that later requests can go on here while an earlier one waits for replicas or for data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from kavka.errors import ProtocolViolation
from kavka.model import Chunk, FileSlice, new_tuple
from kavka.protocol.api import ApiKey, RequestHeader, decode_request_header, response_header_version
from kavka.protocol.frames import BufferPool, FrameReader

if TYPE_CHECKING:
    import asyncio

_length = Struct(">i").pack
_head = Struct(">ii").pack
_flexible_head = Struct(">iib").pack
_CORRELATION_BYTES = 4
_FLEXIBLE_BYTES = 5
JOINED_BYTES = 16 * 1024
"""Up to this size an answer's body is copied behind its header, which is cheaper than one more piece to send."""


class SupportsCancel(Protocol):
    """A future, or what else may be told that nobody wants its outcome any more."""

    def cancel(self) -> object: ...


class Gate(Protocol):
    """What stands before the handler until a client has proved who it is, and afterwards for its re-authentication.

    As long as it is not open, requests are given out one at a time, with the header `UNREAD` and the whole frame as
    their body, and the next one is read when the answer is ready. What is answered to them has its own header."""

    is_open: bool

    @property
    def max_frame_bytes(self) -> int:
        """The longest frame until the gate is open."""

    @property
    def limit_name(self) -> str:
        """The setting that bounds it."""

    @property
    def failure_delay_ms(self) -> int:
        """How long a connection that failed stays, without being read."""

    def handle(self, request: Request, serve: Handler) -> Outcome:
        """What becomes of a request: its own answer, or what `serve` gives."""
        ...

    def on_violation(self, violation: ProtocolViolation) -> None:
        """Bytes came that are no request, before the gate was open."""
        ...


class ConnectionContext:
    """Who is at the other end. The broker updates the last three fields when it learns them (SASL, ApiVersions).

    A handler whose answer may be long in coming has it held here, so that nothing waits for a client that is gone.
    """

    __slots__ = (
        "__weakref__",
        "_ended",
        "_held",
        "client_host",
        "client_port",
        "client_software_name",
        "client_software_version",
        "connection_id",
        "gate",
        "is_by_token",
        "listener_name",
        "principal",
        "turn",
        "watch",
    )

    def __init__(
        self,
        connection_id: str,
        client_host: str,
        client_port: int,
        listener_name: str,
        *,
        principal: str = "User:ANONYMOUS",
    ) -> None:
        self.connection_id = connection_id
        self.client_host = client_host
        self.client_port = client_port
        self.listener_name = listener_name
        self.principal = principal
        self.is_by_token = False
        """Whether the client logged in with a delegation token; the principal is the token's owner then."""
        self.gate: Gate | None = None
        """What stands before the handler on listeners that authenticate by SASL; None on the others."""
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"
        self.turn: asyncio.Future[None] | None = None
        """Done when the last request of those that must be carried out one after another lets the next one begin."""
        self.watch: Watch | None = None
        """Where handlers say what a slow request waited for; None where nobody measures requests."""
        self._held: dict[SupportsCancel, None] = {}
        self._ended = False

    @property
    def has_ended(self) -> bool:
        """Whether the connection is closed."""
        return self._ended

    def hold(self, waiting: SupportsCancel) -> None:
        """Cancels `waiting` when the connection closes, unless it is released before."""
        if self._ended:
            waiting.cancel()
        else:
            self._held[waiting] = None

    def release(self, waiting: SupportsCancel) -> None:
        self._held.pop(waiting, None)

    def end(self) -> None:
        """The connection closed. Called once, on the broker's loop."""
        self._ended = True
        held, self._held = self._held, {}
        for waiting in held:
            waiting.cancel()

    def __repr__(self) -> str:
        return f"<ConnectionContext {self.connection_id} {self.listener_name} {self.principal}>"


class Meter(Protocol):
    """What a request uses up of its client's quotas, told by its handler."""

    def refuse(self) -> None:
        """Its client asks what brokers ask of each other, and may not: it is not exempt."""

    def most_bytes(self) -> int:
        """How many bytes of records an answer may bring at most."""

    def fetched(self, size_bytes: int) -> int:
        """An answer of so many bytes is ready: for how long its client has to wait instead, in milliseconds. 0: it may
        leave."""

    def owed_ms(self) -> int:
        """For how long its client has to wait before it may be given records that cannot be taken back."""

    def gave(self, size_bytes: int, owed_ms: int) -> None:
        """An answer of so many bytes leaves, after `owed_ms` was asked for: the wait that follows comes after it."""

    def fetched_by_follower(self) -> None:
        """Another broker's fetch is answered, which no quota bounds."""

    def mutate(self, partitions: int, *, strict: bool) -> bool:
        """So many partitions are to be made or deleted: whether they may be. Only a strict quota refuses."""


class Trace(Protocol):
    """What becomes of one request of the sample, told by its handler as it happens."""

    def appended(self, topic: str, partition: int, first_offset: int, end_offset: int) -> None:
        """Records from `first_offset` to before `end_offset` are in the leader's log."""

    def carried(self, records: memoryview) -> None:
        """These batches were appended; their bytes are as they came but for what an append patches."""

    def followed(self, topic: str, partition: int, broker_id: int) -> None:
        """A follower's fetch shows that it has these records."""

    def committed(self, wait: object) -> None:
        """The answer waits no more. `wait` is what it waited for, as in `Watch.waited`."""

    def sent(self, topic: str, partition: int, offset: int) -> None:
        """The answer has records from `offset` on."""


class Watch(Protocol):
    """Which requests are slow, and what they waited for."""

    slow_ns: int
    """A request that takes longer is slow."""

    def waited(self, context: ConnectionContext, correlation_id: int, wait: object) -> None:
        """A request that is not of the sample has waited that long: for what, as the room that measures it reads it."""


class Request(NamedTuple):
    """One request. `meter`: its client's quotas count what it uses up; None where there are none. `trace`: the request
    is one of the sample.

    `body` (what follows the header) and every `records` field decoded from it are views of a receive buffer. They may
    be changed in place. They are meant to live until the handler returns: one that is kept longer stays valid, but
    costs its buffer (I1 of frames.py).
    """

    header: RequestHeader
    body: memoryview
    context: ConnectionContext
    meter: Meter | None = None
    trace: Trace | None = None


class Response(NamedTuple):
    """The body of an answer, in pieces. For `mute_ms` after it nothing is read from the connection (KIP-219); where
    that is `LAST`, the connection is closed after it."""

    chunks: Sequence[Chunk]
    mute_ms: int = 0


class Answered(NamedTuple):
    """A request whose answer is ready, and the nanoseconds of its stages until then. `began_ns` is when it was read."""

    header: RequestHeader
    context: ConnectionContext
    response: Response
    trace: Trace | None
    began_ns: int
    request_queue_ns: int
    local_ns: int
    remote_ns: int
    response_queue_ns: int = 0


LAST = -1
"""For `mute_ms`: nothing follows this answer."""
UNREAD = RequestHeader(ApiKey.SASL_AUTHENTICATE, 0, 0, None)
"""The header of a frame that nobody has looked into: its connection's gate is not open. Known by identity."""
_NOTHING: tuple[Chunk, ...] = (b"",)
"""The pieces of an answer that is not sent. Known by identity."""
NO_RESPONSE = Response(_NOTHING)
"""The request has no answer, as a Produce with acks=0. Known by identity, as what `silence` gives is by its pieces."""
CLOSE_CONNECTION = Response(())
"""Close the connection when the answers before this one have left. Known by identity."""


def silence(mute_ms: int) -> Response:
    """NO_RESPONSE, after which nothing is read from the connection for so long."""
    return NO_RESPONSE if not mute_ms else Response(_NOTHING, mute_ms)


Outcome: TypeAlias = Response | Awaitable[Response]
"""What a handler gives: the answer, or something that will be the answer."""
Handler: TypeAlias = Callable[[Request], Outcome]
"""Who decides about requests. It is called once for each, in their order, and never waits inside."""


class Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("header", "response")

    def __init__(self, header: RequestHeader, response: Response | None) -> None:
        self.header = header
        self.response = response


class ServerConnection:
    """State of one connection. `output` is what must be sent, in order; `output_bytes` its size.

    Reading: receive into `reader.target`, take the requests with `received`, handle them, `reader.release` them; while
    there is a `reader.backlog`, take `more` first. It ends at `violation`.
    Writing: `answer`, or `defer` and `complete`; then send what `take_output` gives, and close the socket after that
    when `closing` is set.
    """

    __slots__ = (
        "_maximum_bytes",
        "_slots",
        "closing",
        "context",
        "gate",
        "mute_ms",
        "output",
        "output_bytes",
        "reader",
        "violation",
    )

    def __init__(self, context: ConnectionContext, pool: BufferPool, maximum_request_bytes: int) -> None:
        self.context = context
        gate = self.gate = context.gate
        """None on listeners that authenticate nobody by SASL."""
        self._maximum_bytes = maximum_request_bytes
        self.reader = FrameReader(pool, maximum_request_bytes)
        if gate is not None:
            self.reader.limit(min(gate.max_frame_bytes, maximum_request_bytes), gate.limit_name)
        """The framing: where to receive, and what is left over; requests are taken through this connection."""
        self.violation: ProtocolViolation | None = None
        """Why nothing more may be read; the requests given out before it are good."""
        self.output: list[Chunk] = []
        self.output_bytes = 0
        self.closing = False
        self.mute_ms = 0
        """How long the connection must be muted, by the answers since the user set it to 0."""
        self._slots: deque[Slot] | None = None

    # Reading

    def received(self, shared: memoryview, count: int, limit: int) -> list[Request]:
        """The requests, at most `limit` (>= 1), that are complete now that `count` bytes came into the target."""
        return self._requests(self.reader.received(shared, count, limit))

    def more(self, limit: int) -> list[Request]:
        """Up to `limit` (>= 1) requests of the reader's backlog."""
        return self._requests(self.reader.more(limit))

    def close(self) -> None:
        """Gives back what the connection holds; answers that still come are dropped."""
        self.reader.close()
        self._slots = None
        self.output = []
        self.output_bytes = 0
        self.closing = True

    def _requests(self, frames: list[memoryview]) -> list[Request]:
        requests: list[Request] = []
        context = self.context
        self.violation = self.reader.violation
        if self.gate is not None and not self.gate.is_open:
            return [Request(UNREAD, frame, context) for frame in frames]
        try:
            for frame in frames:
                header, body_offset = decode_request_header(frame)
                requests.append(new_tuple(Request, (header, frame[body_offset:], context, None, None)))
        except ProtocolViolation as violation:
            # Not the one that was raised: its traceback has this call, and so this connection, which would have itself.
            self.violation = ProtocolViolation(str(violation))
        return requests

    def unbar(self) -> None:
        """The gate is open: frames are as long as they may be elsewhere."""
        self.reader.limit(self._maximum_bytes)

    # Writing

    @property
    def in_flight(self) -> int:
        """Requests without an answer on its way, and answers that wait for older ones."""
        return len(self._slots) if self._slots else 0

    def answer(self, header: RequestHeader, response: Response) -> None:
        """Answers a request at once."""
        if self._slots:
            self._slots.append(Slot(header, response))
        else:
            self._put(header, response)

    def defer(self, header: RequestHeader) -> Slot:
        """Keeps the place of an answer that comes later, through `complete`."""
        if self._slots is None:
            self._slots = deque()
        slot = Slot(header, None)
        self._slots.append(slot)
        return slot

    def complete(self, slot: Slot, response: Response) -> None:
        """Gives a slot its answer, which leaves when all older ones have. Once for each slot."""
        slot.response = response
        slots = self._slots
        while slots and (answer := slots[0].response) is not None:
            self._put(slots.popleft().header, answer)

    def end(self) -> None:
        """Closes the connection when the answers to all requests so far have left."""
        if self._slots:
            self._slots.append(Slot(self._slots[-1].header, CLOSE_CONNECTION))
        else:
            self.closing = True

    def take_output(self) -> list[Chunk]:
        """All that is ready to be sent; the caller sends it."""
        output = self.output
        self.output = []
        self.output_bytes = 0
        return output

    def _put(self, header: RequestHeader, response: Response) -> None:
        if self.closing:
            return
        if response is CLOSE_CONNECTION:
            self.closing = True
            return
        if response.mute_ms == LAST:
            self.closing = True
        elif response.mute_ms > self.mute_ms:
            self.mute_ms = response.mute_ms
        chunks = response.chunks
        if chunks is _NOTHING:
            return
        size = 0
        for chunk in chunks:
            size += chunk.length if chunk.__class__ is FileSlice else len(chunk)
        if header is UNREAD:
            head = _length(size)
        elif _is_flexible(header):
            head = _flexible_head(size + _FLEXIBLE_BYTES, header.correlation_id, 0)
        else:
            head = _head(size + _CORRELATION_BYTES, header.correlation_id)
        output = self.output
        if size <= JOINED_BYTES and len(chunks) == 1 and chunks[0].__class__ is bytes:
            output.append(head + chunks[0])
        else:
            output.append(head)
            output.extend(chunks)
        self.output_bytes += size + len(head)


_flexible: dict[int, bool] = {}


def _is_flexible(header: RequestHeader) -> bool:
    """Whether the header of the answer has tagged fields; remembered, for it is asked with every answer."""
    key = header.api_key << 16 | header.api_version
    known = _flexible.get(key)
    if known is None:
        known = _flexible[key] = response_header_version(header.api_key, header.api_version) >= 1
    return known
