"""The gate of a listener that authenticates by SASL: nothing passes it before its client has proved who it is.

A flow between the connection and the dispatcher. What each request means in each state is `security.sasl_server`'s
decision; here it is read from bytes, answered, counted and, where it failed, delayed.

    I1  before a client has authenticated, nothing but ApiVersions, SaslHandshake and SaslAuthenticate is decoded, in
        frames of at most sasl.server.max.receive.size
    I2  a connection's principal is set once, and never changes
    I3  no request that was read after a message of an authentication is handled before that message's outcome is known:
        until the gate is open one frame is read at a time (`ServerConnection`), and afterwards requests are handled in
        the order in which they came
    I4  a failed authentication is answered after connection.failed.authentication.delay.ms, and then the connection is
        closed; until then nothing is read from it, and nothing is recorded: of each kind of failure the first of a
        minute is, so that the time would tell which kind it was, and with that whether a user exists
    I5  where an address has failed too often, no proof of its clients is looked at, and nothing more is read from them,
        until its wait is over; at most MAX_HELD of them wait, with MAX_HELD_BYTES of all addresses together, and
        further ones fail. Those who are in go on

Source: Kafka's SaslServerAuthenticator, Selector (delayed close), SocketServer.Processor (expired sessions). I5 is
kavka's own (`security.failed_login_delay`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import ref

from kavka.broker.api_table import SERVED
from kavka.broker.authentication.failed_authentications import Attempt, Failures
from kavka.errors import ErrorCode, ProtocolViolation
from kavka.metrics import Registry
from kavka.protocol.api import ApiKey, RequestHeader, api, decode_request_header, response_header_version
from kavka.protocol.codec import decode, encode_chunks
from kavka.protocol.connection import (
    CLOSE_CONNECTION,
    LAST,
    UNREAD,
    ConnectionContext,
    Handler,
    Outcome,
    Request,
    Response,
)
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kavka.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kavka.security.failed_login_delay import Guessing, group_of
from kavka.security.sasl import FailureReason, ServerExchange
from kavka.security.sasl_server import Phase, Reaction, SaslServer

if TYPE_CHECKING:
    from kavka.config.sasl import SaslListener

_correlation: Final = Struct(">i").pack
MAX_HELD: Final = 100
"""Clients of one address that wait on a listener because it failed too often."""
MAX_HELD_BYTES: Final = 16 * 1024 * 1024
"""What all clients that wait have sent. A password takes a hundred bytes, a token some thousands; an attacker with many
addresses would send as much as a frame may have, from each of them."""
RECORDED_AFTER_S: Final = 0.05
"""How long after its answer a failure is recorded."""
NO_GUESSES: Final = frozenset(
    {
        FailureReason.UNSUPPORTED_MECHANISM,
        FailureReason.OUT_OF_ORDER,
        FailureReason.TOO_LARGE,
        FailureReason.TOO_MANY,
        FailureReason.MECHANISM_CHANGED,
        FailureReason.NO_KEYS,
        FailureReason.EXPIRED_TOKEN,
        FailureReason.EARLY_TOKEN,
        FailureReason.EXPIRED_TICKET,
        FailureReason.EARLY_TICKET,
        FailureReason.REPEATED_TICKET,
        FailureReason.CLOCK_SKEW,
        FailureReason.NO_KEYTAB,
        FailureReason.NO_SHORT_NAME,
        FailureReason.OTHER_PROTECTION,
    }
)
"""Failures that try no password and no key: they keep nobody waiting."""
_SASL: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


async def at_once(work: Callable[[], None]) -> None:
    """For mechanisms without anything that takes long."""
    work()


class ListenerCounts:
    """What is counted for one listener, with Kafka's names."""

    def __init__(self) -> None:
        self.succeeded = 0
        self.succeeded_again = 0
        self.succeeded_without_again = 0
        self.failed = 0
        self.failed_before: Callable[[], int] = lambda: 0
        """What failed before there was a gate: TLS handshakes, which Kafka counts among the failures, too."""
        self.failed_again = 0
        self.expired = 0
        self.latency_max_ms = 0
        self.latency_sum_ms = 0

    def register(self, registry: Registry, listener: str) -> None:
        """Shows the counts under the names of Kafka's metrics."""
        shown: dict[str, Callable[[], float]] = {
            "successful-authentication-total": lambda: self.succeeded,
            "successful-reauthentication-total": lambda: self.succeeded_again,
            "successful-authentication-no-reauth-total": lambda: self.succeeded_without_again,
            "failed-authentication-total": lambda: self.failed + self.failed_before(),
            "failed-reauthentication-total": lambda: self.failed_again,
            "reauthentication-latency-max": lambda: self.latency_max_ms,
            "reauthentication-latency-avg": lambda: self.latency_sum_ms / max(self.succeeded_again, 1),
            "expired-connections-killed-count": lambda: self.expired,
        }
        for name, read in shown.items():
            registry.gauge("kafka.server", "socket-server-metrics", name, read, listener=listener, networkProcessor="0")


class GatePorts(NamedTuple):
    """What the broker gives its gates. `exchange` makes the server's side of a mechanism on a listener. `beside`
    computes something on another thread."""

    loop: asyncio.AbstractEventLoop
    failures: Failures
    exchange: Callable[[SaslListener, str], ServerExchange]
    failure_delay_ms: int
    max_frame_bytes: int
    guessing: Guessing
    unhurried: frozenset[str]
    """Listeners on which no address waits: that of the brokers, where clients have another."""
    beside: Callable[[Callable[[], None]], Awaitable[None]] = at_once


class Held:
    """The clients of one broker that wait (I5), by address and listener, and what they have sent."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._clients: Counter[tuple[str, str]] = Counter()

    def has_room(self, place: tuple[str, str], size_bytes: int) -> bool:
        return self._clients[place] < MAX_HELD and self.size_bytes + size_bytes <= MAX_HELD_BYTES

    def add(self, place: tuple[str, str], size_bytes: int) -> None:
        self._clients[place] += 1
        self.size_bytes += size_bytes

    def remove(self, place: tuple[str, str], size_bytes: int) -> None:
        self.size_bytes -= size_bytes
        self._clients[place] -= 1
        if not self._clients[place]:
            del self._clients[place]


class Gates:
    """The gates of one broker."""

    def __init__(self, listeners: Mapping[str, SaslListener], ports: GatePorts) -> None:
        self.counts = {name: ListenerCounts() for name in listeners}
        self._listeners = listeners
        self._ports = ports
        self._held = Held()

    def register(self, registry: Registry) -> None:
        """Has `registry` show what is counted."""
        for name, counts in self.counts.items():
            counts.register(registry, name)
        registry.gauge(
            "kafka.network",
            "SocketServer",
            "ExpiredConnectionsKilledCount",
            lambda: sum(counts.expired for counts in self.counts.values()),
        )

    def new(self, context: ConnectionContext) -> SaslGate:
        """The gate of a connection that was just accepted, on a listener with SASL."""
        listener = self._listeners[context.listener_name]
        return SaslGate(context, listener, self.counts[listener.listener], self._ports, self._held)


class SaslGate:
    """The gate of one connection (`protocol.connection.Gate`)."""

    __slots__ = (
        "__weakref__",
        "_context",
        "_counts",
        "_held",
        "_host",
        "_listener",
        "_ports",
        "_saw_newer",
        "_server",
        "_turn",
        "is_open",
    )

    limit_name = "sasl.server.max.receive.size"

    def __init__(
        self,
        context: ConnectionContext,
        listener: SaslListener,
        counts: ListenerCounts,
        ports: GatePorts,
        held: Held,
    ) -> None:
        self.is_open = False
        self._held = held
        self._context = ref(context)
        """Its connection has this gate: where each kept the other, closed connections would stay in memory until all
        garbage is looked for, which a broker seldom does."""
        self._host, self._listener = context.client_host, context.listener_name
        self._counts = counts
        self._ports = ports
        self._saw_newer = False
        self._turn: asyncio.Future[None] | None = None
        """Done when the last request that had to wait for a token's outcome is being handled."""
        self._server = SaslServer(
            {name: lambda name=name: ports.exchange(listener, name) for name in listener.mechanisms},  # type: ignore[misc]
            lambda mechanism: listener.max_session_ms[mechanism],
        )

    @property
    def max_frame_bytes(self) -> int:
        """The longest frame until the gate is open."""
        return self._ports.max_frame_bytes

    @property
    def failure_delay_ms(self) -> int:
        """How long a connection that failed stays, without being read."""
        return self._ports.failure_delay_ms

    def handle(self, request: Request, serve: Handler) -> Outcome:
        """What happens to a request: it has an answer already, or `serve` makes one."""
        if self._turn is not None:
            return self._in_turn(lambda: self._handle(request, serve), self._turn)
        return self._handle(request, serve)

    def _handle(self, request: Request, serve: Handler) -> Outcome:
        header, server = request.header, self._server
        if server.phase is Phase.ENDED:
            return CLOSE_CONNECTION  # Read before the failure was told, which closes the connection (I4).
        if header is UNREAD:
            if server.phase is Phase.EXCHANGE and self._wait_ms():
                return self._hold(request, serve)
            return self._before(request, serve)
        if header.api_key in _SASL:
            was_open = server.phase is Phase.OPEN
            outcome = self._sasl(header, request.body, self._framed_by_connection)
            begins = not was_open or server.phase is not Phase.OPEN
            return outcome if begins or not server.is_expired(self._now_ms()) else self._expired()
        if server.phase is not Phase.OPEN:
            return self._answered(server.on_other(), header, None, self._framed_by_connection)
        return self._expired() if server.is_expired(self._now_ms()) else serve(request)

    def _expired(self) -> Response:
        """The session is over, and the request begins no new one."""
        self._counts.expired += 1
        return CLOSE_CONNECTION

    def on_violation(self, violation: ProtocolViolation) -> None:
        """The bytes that came are no frame, or too long a one. May be called on another thread."""
        self._ports.loop.call_soon_threadsafe(self._count, self._server.on_broken(FailureReason.TOO_LARGE))

    # -- guessing (I5)

    def _wait_ms(self) -> int:
        ports = self._ports
        if self._listener in ports.unhurried:
            return 0
        return ports.guessing.wait_ms(self._host, self._listener, self._now_ms())

    def _hold(self, request: Request, serve: Handler) -> Outcome:
        place = (group_of(self._host), self._listener)
        if not self._held.has_room(place, len(request.body)):
            return self._failed(self._server.on_broken(FailureReason.TOO_MANY), None)
        # Its own bytes: a view would keep the buffer that all connections share.
        own = request._replace(body=memoryview(bytearray(request.body)))
        return self._held_until(place, own, serve)

    async def _held_until(self, place: tuple[str, str], request: Request, serve: Handler) -> Response:
        """What becomes of the request when its turn has come: another's failure may have made the wait longer."""
        me = asyncio.current_task()
        assert me is not None, "the processor makes a task of it"
        self._held.add(place, len(request.body))
        request.context.hold(me)  # Nobody waits for a client that is gone.
        try:
            while wait_ms := self._wait_ms():  # noqa: ASYNC110  # it is known for how long
                await asyncio.sleep(wait_ms / 1000)
        finally:
            request.context.release(me)
            self._held.remove(place, len(request.body))
        outcome = self._before(request, serve)
        return outcome if isinstance(outcome, Response) else await outcome

    # -- before the gate is open: whole frames, without a header that anybody looked at

    def _before(self, request: Request, serve: Handler) -> Outcome:
        server, frame = self._server, request.body
        if server.phase is Phase.EXCHANGE and not server.has_headers:
            bare = bytes(frame)
            return self._computed(bare, lambda: self._bare(server.on_token(bare, self._now_ms())))
        try:
            header, position = decode_request_header(frame)
            if header.api_key in _SASL:
                return self._sasl(header, frame[position:], _framed_here)
        except ProtocolViolation:
            return self._failed(server.on_broken(FailureReason.MALFORMED), None)
        if header.api_key == ApiKey.API_VERSIONS:
            return self._api_versions(request, header, frame[position:], serve)
        return self._answered(server.on_other(), header, None, _framed_here)

    def _api_versions(self, request: Request, header: RequestHeader, body: memoryview, serve: Handler) -> Outcome:
        server = self._server
        if server.phase is not Phase.START:
            return self._answered(server.on_api_versions(is_good=False), header, None, _framed_here)
        try:
            answer = serve(Request(header, body, request.context))
        except ProtocolViolation:
            return self._failed(server.on_broken(FailureReason.MALFORMED), None)
        assert isinstance(answer, Response), "ApiVersions is answered at once"
        content = b"".join(bytes(chunk) for chunk in answer.chunks)  # type: ignore[arg-type]
        server.on_api_versions(is_good=content[:2] == b"\0\0")
        return answer._replace(chunks=(_correlation(header.correlation_id) + content,))

    def _bare(self, reaction: Reaction) -> Outcome:
        """The answer to a token without a header: nothing but the token."""
        if reaction.failure is not None:
            return self._failed(reaction, None)
        self._on_step(reaction)
        return Response((reaction.token,))

    # -- the two requests of SASL, before and after

    def _sasl(
        self, header: RequestHeader, body: memoryview, frame: Callable[[RequestHeader, Any], Response]
    ) -> Outcome:
        server, version = self._server, header.api_version
        served = SERVED[header.api_key]
        if not served.min_version <= version <= served.max_version:
            return self._failed(server.on_broken(FailureReason.MALFORMED), None)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            asked = decode(SaslHandshakeRequest, body, version)
            if self.is_open and version == 0:
                reaction = Reaction(ErrorCode.ILLEGAL_SASL_STATE)  # Bare tokens could not be told from requests.
            else:
                reaction = server.on_handshake(asked.mechanism, version, self._now_ms())
            tells = reaction.error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
            handshake = SaslHandshakeResponse(error_code=reaction.error, mechanisms=server.mechanisms if tells else [])
            return self._answered(reaction, header, handshake, frame)
        is_exchange = server.phase is Phase.EXCHANGE
        token = bytes(decode(SaslAuthenticateRequest, body, version).auth_bytes) if is_exchange else b""
        self._saw_newer = self._saw_newer or version > 0
        return self._computed(token, lambda: self._authenticate(token, header, frame))

    def _computed(self, token: bytes, take: Callable[[], Outcome]) -> Outcome:
        """What `take` makes of a token; where it takes long to compute, that is done first, on another thread."""
        labour = self._server.labour(token)
        if labour is None:
            return take()
        return self._in_turn(take, self._ports.beside(labour))

    def _in_turn(self, handle: Callable[[], Outcome], before: Awaitable[None]) -> Awaitable[Response]:
        """Handles a request after `before`, and whatever comes meanwhile after that (I3)."""
        turn = self._turn = self._ports.loop.create_future()

        async def later() -> Response:
            try:
                await before
                outcome = handle()
            finally:
                if self._turn is turn:
                    self._turn = None
                if not turn.done():  # It is cancelled with who waited for it, when the connection ends.
                    turn.set_result(None)
            return outcome if isinstance(outcome, Response) else await outcome

        return later()

    def _authenticate(
        self, token: bytes, header: RequestHeader, frame: Callable[[RequestHeader, Any], Response]
    ) -> Outcome:
        server = self._server
        is_exchange = server.phase is Phase.EXCHANGE
        reaction = server.on_token(token, self._now_ms())
        if is_exchange and reaction.failure is None:
            self._on_step(reaction)
        authenticated = SaslAuthenticateResponse(
            error_code=reaction.error,
            error_message=reaction.message,
            auth_bytes=reaction.token,
            session_lifetime_ms=reaction.lifetime_ms,
        )
        return self._answered(reaction, header, authenticated, frame)

    def _on_step(self, reaction: Reaction) -> None:
        """A token was good; it may have been the last one."""
        server, counts = self._server, self._counts
        context = self._context()
        if server.phase is not Phase.OPEN or context is None:
            return  # Of a connection that is gone nobody has a request left.
        context.is_by_token = server.is_by_token
        if not self.is_open:
            context.principal = f"User:{server.user}"
            self.is_open = True
            counts.succeeded += 1
            counts.succeeded_without_again += not self._saw_newer
            return
        latency_ms = self._now_ms() - server.began_ms
        counts.succeeded_again += 1
        counts.latency_sum_ms += latency_ms
        counts.latency_max_ms = max(counts.latency_max_ms, latency_ms)

    # -- answers

    def _answered(
        self,
        reaction: Reaction,
        header: RequestHeader,
        message: Any,
        frame: Callable[[RequestHeader, Any], Response],
    ) -> Outcome:
        """The answer of a reaction; `message` None: the API's own form with the error, where it has a place for one."""
        if message is None and reaction.answers:
            message = _own_form(header, reaction.error)
        answer = frame(header, message) if reaction.answers and message is not None else None
        if reaction.failure is not None:
            return self._failed(reaction, answer)
        assert answer is not None
        return answer

    def _failed(self, reaction: Reaction, answer: Response | None) -> Awaitable[Response]:
        self._count(reaction)
        last = CLOSE_CONNECTION if answer is None else answer._replace(mute_ms=LAST)
        return _later(last, self._ports.failure_delay_ms)

    def _count(self, reaction: Reaction) -> None:
        assert reaction.failure is not None
        server = self._server
        if self.is_open:
            self._counts.failed_again += 1
        else:
            self._counts.failed += 1
        attempt = Attempt(self._host, self._listener, server.mechanism, self.is_open)
        now_ms, ports = self._now_ms(), self._ports
        slowed_ms = 0
        if attempt.listener not in ports.unhurried and reaction.failure.reason not in NO_GUESSES:
            slowed_ms = ports.guessing.on_failure(attempt.host, attempt.listener, now_ms)
        record = partial(ports.failures.on_failed, attempt, reaction.failure, now_ms, slowed_ms=slowed_ms)
        ports.loop.call_later(ports.failure_delay_ms / 1000 + RECORDED_AFTER_S, record)

    def _framed_by_connection(self, header: RequestHeader, message: Any) -> Response:
        return Response(encode_chunks(message, header.api_version))

    def _now_ms(self) -> int:
        return int(self._ports.loop.time() * 1000)


def _framed_here(header: RequestHeader, message: Any) -> Response:
    """With its header: the connection does not know that of the request. An error in a version that the API does not
    have, too, is told in one that it has."""
    tags = b"\0" if response_header_version(header.api_key, header.api_version) >= 1 else b""
    body = b"".join(bytes(chunk) for chunk in encode_chunks(message, header.api_version))  # type: ignore[arg-type]
    return Response((_correlation(header.correlation_id) + tags + body,))


def _own_form(header: RequestHeader, error: ErrorCode) -> Any | None:
    """The answer of an API whose answers have a place for an error above all; None for the others."""
    served = SERVED.get(header.api_key)
    if served is None or not served.min_version <= header.api_version <= served.max_version:
        return None
    answer = api(ApiKey(header.api_key)).response_type()
    if not hasattr(answer, "error_code"):
        return None
    answer.error_code = error
    return answer


async def _later(last: Response, delay_ms: int) -> Response:
    await asyncio.sleep(delay_ms / 1000)
    return last
