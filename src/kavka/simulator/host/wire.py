"""Wire: what brokers are asked and what they answer, decoded, for those who watch a simulation.

Decides which exchanges are worth decoding; what they mean is the watchers' matter. It changes nothing: a request is
decoded from its bytes before the broker's own handler gets them, an answer after its handler gave it.

    I1  a watcher gets a request before anything of it is done, and its answer before it is sent
    I2  a watcher never gets an answer that does not come (the connection or the broker is gone)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kavka.errors import ProtocolViolation
from kavka.model import chunk_bytes
from kavka.protocol.api import api, decode_request_header, response_header_version
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.codec import decode
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest

if TYPE_CHECKING:
    from kavka.model import Offset, TopicPartition
    from kavka.protocol.connection import ConnectionContext, Request, Response
    from kavka.simulator.host.broker import SimulatedBroker

NOT_WATCHED: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.METADATA})
"""What tells nothing of records, leaders or groups."""

EMPTY_FETCH: Final = (12, bytes(6))
"""A Fetch answer that tells nothing, in a flexible version: so many bytes, of which the first six, for how long to wait
and its error, are zero."""
ERROR_BYTES: Final = 2


class Exchange:
    """A request, and later its answer. Watchers keep what they noted of it at the time of the request."""

    __slots__ = (
        "answer",
        "broker",
        "context",
        "denied",
        "expected",
        "follower",
        "host",
        "key",
        "leader_ends",
        "request",
        "version",
    )

    def __init__(
        self, broker: SimulatedBroker, key: ApiKey, version: int, request: Any, context: ConnectionContext
    ) -> None:
        self.broker = broker
        self.key = key
        self.version = version
        self.request = request
        self.answer: Any = None
        self.leader_ends: dict[TopicPartition, Offset] = {}
        """Of a Produce: where the logs ended when it came."""
        self.context = context
        """Of the connection."""
        self.host = context.client_host
        """Who asks: the name of a node."""
        self.follower: dict[TopicPartition, tuple[Offset, Offset]] = {}
        """Of a Fetch as a replica that may not be: where its leader took the replica to be, and its high watermark."""
        self.denied: frozenset[str] = frozenset()
        """Of a Produce: topics that may not be written (`access_rules`)."""
        self.expected: list[Any] = []
        """What fencing demands of the answer (`fencing_rules`)."""

    def errors(self) -> Iterator[int]:
        """All error codes of the answer, on any level."""
        return _errors(self.answer)


class Watcher(Protocol):
    """Learns of requests and answers on the wire."""

    def on_request(self, exchange: Exchange) -> None: ...

    def on_answer(self, exchange: Exchange) -> None: ...


class SaslMessage(NamedTuple):
    """A SaslAuthenticate. `was_open`: the connection had logged in before."""

    token: bytes
    version: int
    was_open: bool

    def is_accepted(self, response: Response) -> bool:
        """Whether the answer has no error."""
        body = b"".join(map(chunk_bytes, response.chunks))
        if not self.was_open:  # The gate's own frame: a correlation id, and in newer versions tagged fields.
            body = body[4 + response_header_version(ApiKey.SASL_AUTHENTICATE, self.version) :]
        return body[:ERROR_BYTES] == bytes(ERROR_BYTES)


def sasl_message(frame: memoryview, *, was_open: bool) -> SaslMessage | None:
    """None for any other request."""
    try:
        header, position = decode_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return None
        request = decode(SaslAuthenticateRequest, frame[position:], header.api_version)
    except ProtocolViolation:
        return None
    return SaslMessage(bytes(request.auth_bytes), header.api_version, was_open)


class WatchesLogins(Protocol):
    """Learns of logins."""

    def on_sasl(self, broker: SimulatedBroker, context: ConnectionContext, message: SaslMessage) -> None:
        """A message of a login was accepted, and its answer is about to be sent."""
        ...

    def on_refused(self, broker: SimulatedBroker, context: ConnectionContext, message: SaslMessage) -> None:
        """A message of a login was answered with an error, which is about to be sent."""
        ...


class Wire:
    """Decodes, and passes it to the watchers."""

    def __init__(self, watchers: Sequence[Watcher], logins: WatchesLogins | None = None) -> None:
        self._watchers = tuple(watchers)
        self._logins = logins

    def on_sasl(
        self, broker: SimulatedBroker, context: ConnectionContext, message: SaslMessage, response: Response
    ) -> None:
        """The broker has an answer to a message of a login."""
        if self._logins is None:
            return
        if message.is_accepted(response):
            self._logins.on_sasl(broker, context, message)
        elif response.chunks:
            self._logins.on_refused(broker, context, message)

    def on_request(self, broker: SimulatedBroker, request: Request) -> Exchange | None:
        """What to give `on_answer` with the answer. None if no watcher wants it."""
        key = request.header.api_key
        if key in NOT_WATCHED:
            return None
        version = request.header.api_version
        exchange = Exchange(
            broker,
            ApiKey(key),
            version,
            decode(api(key).request_type, request.body, version),
            request.context,
        )
        for watcher in self._watchers:
            watcher.on_request(exchange)
        return exchange

    def on_answer(self, exchange: Exchange, response: Response) -> None:
        """The broker has an answer."""
        chunks = response.chunks
        if not chunks:
            return  # None is sent, or the connection closes.
        if exchange.key is ApiKey.FETCH and len(chunks) == 1:
            only = chunk_bytes(chunks[0])
            if (len(only), only[:6]) == EMPTY_FETCH and not exchange.expected:
                return  # The most frequent one, at the end of a long poll.
        with exchange.broker.disk.without_faults():  # Records are read once more than a broker does.
            body = memoryview(b"".join(map(chunk_bytes, response.chunks)))
        exchange.answer = decode(api(exchange.key).response_type, body, exchange.version)
        for watcher in self._watchers:
            watcher.on_answer(exchange)


def _errors(message: Any) -> Iterator[int]:
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_code":
            yield value
        elif isinstance(value, list) and value and hasattr(value[0], "__slots__") and not isinstance(value[0], bytes):
            for each in value:
                yield from _errors(each)
