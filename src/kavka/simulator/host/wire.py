"""Wire: what brokers are asked and what they answer, decoded, for those who watch a simulation.

Decides which exchanges are worth decoding; what they mean is the watchers' matter. It changes nothing: a request is
decoded from its bytes before the broker's own handler gets them, an answer after its handler gave it.

    I1  a watcher gets a request before anything of it is done, and its answer before it is sent
    I2  a watcher never gets an answer that does not come (the connection or the broker is gone)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from kavka.model import chunk_bytes
from kavka.protocol.api import api
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.codec import decode

if TYPE_CHECKING:
    from kavka.model import Offset, TopicPartition
    from kavka.protocol.connection import ConnectionContext, Request, Response
    from kavka.simulator.host.broker import SimulatedBroker

NOT_WATCHED: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.METADATA})
"""What tells nothing of records, leaders or groups."""

EMPTY_FETCH: Final = (12, b"\0\0")
"""A Fetch answer that tells nothing, in a flexible version: so many bytes, of which the fifth and sixth, its error, are
zero."""


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


class Wire:
    """Decodes, and passes it to the watchers."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = tuple(watchers)

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
            if (len(only), only[4:6]) == EMPTY_FETCH and not exchange.expected:
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
