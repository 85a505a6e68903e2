"""ClientTelemetry: which metrics clients are asked for, and whether what they push is taken (KIP-714).

Decides, for one broker, what a client must push and how often, and which pushes are refused. It must not know the
protocol's messages, how subscriptions are stored, or what becomes of pushed metrics: `on_push` is given them.

While nobody wants metrics (`is_wanted`), ApiVersions leaves these APIs out: with them, librdkafka logs at its default
level that it got an instance id, even if no metric is asked for.

A client asks (`subscribe`), gets an interval and a subscription id, and pushes (`push`) until the id is unknown.

    asks before the interval is over    THROTTLING_QUOTA_EXCEEDED, unless its last push was answered with "ask again"
    pushes before the interval is over  THROTTLING_QUOTA_EXCEEDED, unless it has just asked, or is about to end
    pushes after it said that it ends   INVALID_REQUEST
    another subscription id             UNKNOWN_SUBSCRIPTION_ID: what is asked for has changed meanwhile
    a codec that is not offered         UNSUPPORTED_COMPRESSION_TYPE
    more than telemetry.max.bytes       TELEMETRY_TOO_LARGE, as it came or inflated
    bytes that do not inflate           INVALID_RECORD

Invariants
  I1  At most MAX_CLIENTS clients are remembered; the one that was silent for longest is forgotten first.
  I2  No push costs more than telemetry.max.bytes of memory, whatever it would inflate to.
  I3  A subscription id is the same on every broker that knows the same subscriptions.

Source: Kafka's ClientMetricsManager and ClientMetricsInstance.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from kavka.config.group import parse_match
from kavka.errors import ConfigError, CorruptRecords, ErrorCode, RecordsError, RequestError
from kavka.records.compression import Compression, decompress

MAX_CLIENTS: Final = 16_384
"""As Kafka's cache of client instances."""
DEFAULT_INTERVAL_MS: Final = 300_000
ACCEPTED_COMPRESSION: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""The best first; a client may also not compress at all."""
ALL_METRICS: Final = "*"
NO_INSTANCE: Final = uuid.UUID(int=0)
_ASK_AGAIN: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class ClientIdentity(NamedTuple):
    """What subscriptions may match of a client, by the names in `config.group.MATCHED_BY`."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Subscription(NamedTuple):
    """One subscription: metrics' names by their first letters ("" or "*": all), of clients that all patterns match."""

    interval_ms: int
    metrics: tuple[str, ...]
    match: Mapping[str, re.Pattern[str]]

    @staticmethod
    def of(config: Mapping[str, str]) -> Subscription:
        """Raises ConfigError, ValueError."""
        metrics = tuple(name.strip() for name in config.get("metrics", "").split(",") if name.strip())
        return Subscription(
            int(config.get("interval.ms", DEFAULT_INTERVAL_MS)), metrics, parse_match(config.get("match", ""))
        )

    def includes(self, client: ClientIdentity) -> bool:
        return all(pattern.fullmatch(getattr(client, name)) is not None for name, pattern in self.match.items())


class Assignment(NamedTuple):
    """The answer to a client that asked."""

    client_instance_id: uuid.UUID
    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]


class CompressedPush(NamedTuple):
    """Metrics of one client as they came, compressed by `codec`. `is_last`: the client ends."""

    subscription_id: int
    is_last: bool
    codec: int
    metrics: bytes


class Push(NamedTuple):
    """Metrics of one client, in OpenTelemetry's protobuf form, inflated."""

    client: ClientIdentity
    is_last: bool
    metrics: bytes


class _Client:
    __slots__ = ("asked_ms", "assignment", "has_ended", "last_error", "made_of", "pushed_ms")

    def __init__(self, assignment: Assignment, made_of: int) -> None:
        self.assignment = assignment
        self.made_of = made_of
        self.asked_ms: int | None = None
        self.pushed_ms: int | None = None
        self.has_ended = False
        self.last_error = ErrorCode.NONE


class ClientTelemetry:
    """`subscriptions` gives the configurations of all subscriptions; `version` rises when they change.

    `on_push` is given what clients push, None if nobody takes it: then it is counted. `max_bytes` is
    telemetry.max.bytes, as it is now; `new_id` makes ids of clients.
    """

    def __init__(
        self,
        subscriptions: Callable[[], Sequence[Mapping[str, str]]],
        version: Callable[[], int],
        *,
        max_bytes: Callable[[], int],
        new_id: Callable[[], uuid.UUID],
        on_push: Callable[[Push], None] | None = None,
    ) -> None:
        self._configs = subscriptions
        self._version = version
        self._max_bytes = max_bytes
        self._new_id = new_id
        self._on_push = on_push
        self._clients: dict[uuid.UUID, _Client] = {}
        self._subscriptions: list[Subscription] = []
        self._made_of = -1
        self.pushes = 0
        self.pushed_bytes = 0
        """Inflated."""
        self.throttled = 0
        self.unknown_subscriptions = 0
        self.refused = 0
        """Pushes refused for another reason."""

    @property
    def is_wanted(self) -> bool:
        """Whether anybody takes metrics, or any subscription asks for some."""
        if self._on_push is not None:
            return True
        return any(subscription.metrics for subscription in self._known_subscriptions(self._version()))

    @property
    def client_count(self) -> int:
        """How many clients are remembered."""
        return len(self._clients)

    def subscribe(self, client_instance_id: uuid.UUID, identity: ClientIdentity, now_ms: int) -> Assignment:
        """What the client is to push. Raises RequestError (THROTTLING_QUOTA_EXCEEDED)."""
        if client_instance_id == NO_INSTANCE:
            client_instance_id = self._new_id()
        client = self._client(client_instance_id, identity)
        last_ms = max(client.asked_ms or 0, client.pushed_ms or 0)
        is_early = client.asked_ms is not None and now_ms - last_ms < client.assignment.interval_ms
        if is_early and client.last_error not in _ASK_AGAIN:
            self.throttled += 1
            raise RequestError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"client {client_instance_id} asked before its interval was over"
            )
        client.asked_ms = now_ms
        client.last_error = ErrorCode.NONE
        return client.assignment

    def push(self, client_instance_id: uuid.UUID, identity: ClientIdentity, now_ms: int, push: CompressedPush) -> None:
        """Takes what a client pushed. Raises RequestError as in the module's table."""
        if client_instance_id == NO_INSTANCE:
            self.refused += 1
            raise RequestError(ErrorCode.INVALID_REQUEST, "a push of metrics needs a client instance id")
        client = self._client(client_instance_id, identity)
        try:
            self._check(client, now_ms, push)
            inflated = self._inflate(push.codec, push.metrics)
        except RequestError as refusal:
            client.last_error = refusal.code
            if refusal.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                self.throttled += 1
            elif refusal.code is ErrorCode.UNKNOWN_SUBSCRIPTION_ID:
                self.unknown_subscriptions += 1
            else:
                self.refused += 1
            raise
        client.last_error = ErrorCode.NONE
        client.has_ended = push.is_last
        if inflated:
            self.pushes += 1
            self.pushed_bytes += len(inflated)
            if self._on_push is not None:
                self._on_push(Push(identity, push.is_last, inflated))

    def _check(self, client: _Client, now_ms: int, push: CompressedPush) -> None:
        if client.has_ended:
            raise RequestError(ErrorCode.INVALID_REQUEST, "the client has already announced its end")
        asked_ms, pushed_ms = client.asked_ms, client.pushed_ms
        has_just_asked = asked_ms is not None and (pushed_ms is None or asked_ms > pushed_ms)
        is_early = pushed_ms is not None and now_ms - pushed_ms < client.assignment.interval_ms
        if is_early and not has_just_asked and not push.is_last:
            raise RequestError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the client pushed before its interval was over")
        client.pushed_ms = now_ms
        if push.subscription_id != client.assignment.subscription_id:
            raise RequestError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"subscription {push.subscription_id} is not known")
        if push.codec != Compression.NONE and push.codec not in ACCEPTED_COMPRESSION:
            raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression type {push.codec} is not offered")
        if len(push.metrics) > self._max_bytes():
            raise RequestError(
                ErrorCode.TELEMETRY_TOO_LARGE, f"the push has {len(push.metrics)} bytes, more than telemetry.max.bytes"
            )

    def _inflate(self, codec: int, metrics: bytes) -> bytes:
        try:
            return bytes(decompress(Compression(codec), metrics, max_size=self._max_bytes()))
        except CorruptRecords as garbage:
            raise RequestError(ErrorCode.INVALID_RECORD, str(garbage)) from garbage
        except RecordsError as bomb:
            raise RequestError(ErrorCode.TELEMETRY_TOO_LARGE, f"inflated, {bomb.message}") from bomb

    def _client(self, client_instance_id: uuid.UUID, identity: ClientIdentity) -> _Client:
        """What is remembered of the client, with an assignment of the present subscriptions; it is the latest now."""
        version = self._version()
        client = self._clients.pop(client_instance_id, None)
        if client is None or client.made_of != version:
            # Subscriptions have changed: it may ask at once what is wanted now, whenever it asked last.
            client = _Client(self._assign(client_instance_id, identity, version), version)
        self._clients[client_instance_id] = client
        while len(self._clients) > MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return client

    def _assign(self, client_instance_id: uuid.UUID, identity: ClientIdentity, version: int) -> Assignment:
        identity = identity._replace(client_instance_id=str(client_instance_id))
        known = self._known_subscriptions(version)
        mine = [subscription for subscription in known if subscription.includes(identity)]
        names = sorted({name for subscription in mine for name in subscription.metrics})
        if ALL_METRICS in names:
            names = [ALL_METRICS]
        interval_ms = min((subscription.interval_ms for subscription in mine), default=DEFAULT_INTERVAL_MS)
        text = f"{','.join(names)}|{interval_ms}|{client_instance_id}"
        # As a signed number, which is what the protocol has.
        subscription_id = int.from_bytes(crc32c(text.encode()).to_bytes(4, "big"), "big", signed=True)
        return Assignment(client_instance_id, subscription_id, interval_ms, tuple(names))

    def _known_subscriptions(self, version: int) -> Sequence[Subscription]:
        if self._made_of != version:
            self._subscriptions = [made for config in self._configs() if (made := _subscription(config)) is not None]
            self._made_of = version
        return self._subscriptions


def _subscription(config: Mapping[str, str]) -> Subscription | None:
    """None for one that was written past the brokers' checks, and cannot be obeyed."""
    try:
        return Subscription.of(config)
    except (ConfigError, ValueError):
        return None
