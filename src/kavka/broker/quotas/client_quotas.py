"""ClientQuotas: what clients use up of their quotas, and how long each has to wait.

Keeps the limits that are in force, and a meter for each share (`security.quota_limits.Share`) of each kind of quota.
Must not know how a limit is stored (`quota_store`) or how a connection is held (`Response.mute_ms`).

    what is counted                 with which quota       where
    bytes of a request              Produce                the dispatcher, when the answer is ready
    bytes of an answer              Fetch                  the fetch handler: over its quota a client gets no records,
                                                           and what it would have got is not counted. That of share
                                                           groups: records that were acquired leave, and the client
                                                           waits before it acquires more
    time in the handler             Request                the dispatcher; what brokers ask of each other is exempt,
                                                           but not where somebody asks who may not
    partitions made and deleted     ControllerMutation     the handlers of topics

    I1  an answer is sent at once, with the delay; the connection is then left alone for that long (KIP-219)
    I2  of several delays the longest counts, and is that of its kind only
    I3  a share has a meter while it is in use, also without a limit, so that its rate is seen; there are at most
        MAX_METERS of a kind. Beyond that the idle ones go, then those that were used longest ago
    I4  while no quota of any kind is set nothing is counted

Source: Kafka's ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager, RequestHandlerHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.broker.quotas.quota_store import entity_at
from kavka.decisions import Decision, DecisionKind, RecordDecision
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.protocol.api_keys import ApiKey
from kavka.security.quota_limits import (
    CONNECTION_CREATION_RATE,
    LONGEST_CLIENT_ID,
    Limits,
    QuotaKind,
    Share,
    connection_rate_of,
    limit_of,
    short_client_id,
)
from kavka.security.rates import Average, Rate
from kavka.security.throttle_time import TokenBucket, delay_ms

if TYPE_CHECKING:
    from kavka.config.broker import BrokerConfig
    from kavka.metrics import Member
    from kavka.protocol.connection import Request
    from kavka.security.quota_limits import Entity

logger = Logger(__name__)

MAX_METERS: Final = 10_000
"""Shares of one kind of quota that are measured. Client ids are the clients' choice."""
MAX_KNOWN_CLIENTS: Final = 20_000
"""Clients whose share is remembered; then all of them are looked up anew."""
TELLING_INTERVAL_MS: Final = 60_000
"""How long further delays of a share are counted only."""
MAX_TOLD: Final = 100
"""Records of delays in such a time: client ids are the clients' choice."""
PERCENT_PER_NS: Final = 100 / 1_000_000_000

_EXEMPT: Final = frozenset(
    (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.WRITE_TXN_MARKERS,
    )
)
"""What brokers and controllers ask of each other, beside the fetches of followers."""
UNITS: Final = {
    QuotaKind.PRODUCE: "bytes/s produced",
    QuotaKind.FETCH: "bytes/s fetched",
    QuotaKind.REQUEST: "% of the request time",
    QuotaKind.CONTROLLER_MUTATION: "partitions/s created or deleted",
}


class QuotaPorts(NamedTuple):
    """What the broker offers. `now_ms` and `clock_ns` never go back."""

    broker_id: BrokerId
    now_ms: Callable[[], int]
    clock_ns: Callable[[], int]
    wall_ms: Callable[[], int]
    record: RecordDecision


class ShareMeter:
    """What those who share a limit used up. `limit` None: as much as they like."""

    __slots__ = ("bucket", "delays", "limit", "rate", "share", "told_ms", "untold", "used_ms")

    def __init__(self, share: Share, limit: float | None, rate: Rate, bucket: TokenBucket | None) -> None:
        self.share = share
        self.limit = limit
        self.rate = rate
        self.bucket = bucket
        """For changes of topics: it decides, and the rate is shown."""
        self.used_ms = 0
        self.delays: Average | None = None
        self.told_ms: int | None = None
        self.untold = 0
        """Delays since `told_ms` that left no record."""

    def record(self, value: float, now_ms: int) -> int:
        """Counts `value`; the delay that follows."""
        self.used_ms = now_ms
        self.rate.record(value, now_ms)
        return 0 if self.limit is None else delay_ms(self.rate, self.limit, now_ms)

    def take(self, count: float, now_ms: int, *, strict: bool) -> int:
        """Counts changes, the delay that follows. `strict`: while there is a delay already, nothing is counted."""
        self.used_ms = now_ms
        limit, bucket = self.limit, self.bucket
        if limit is not None and bucket is not None:
            if strict and (delay := bucket.delay_ms(limit, now_ms)):
                return delay
            bucket.take(count, limit, now_ms)
        self.rate.record(count, now_ms)
        return 0 if strict or limit is None or bucket is None else bucket.delay_ms(limit, now_ms)

    def tokens(self, now_ms: int) -> float:
        """Partitions that may be made or deleted before there is a delay; 0 without a limit."""
        return 0.0 if self.bucket is None or self.limit is None else self.bucket.tokens(self.limit, now_ms)

    def note_delay(self, delay: int, now_ms: int) -> None:
        """A client was delayed because of this limit."""
        self.delays = self.delays or Average()
        self.delays.record(delay, now_ms)

    def average_delay_ms(self, now_ms: int) -> float:
        return 0.0 if self.delays is None else self.delays.measure(now_ms)


class KindQuotas:
    """The limits of one kind, and their meters."""

    def __init__(self, kind: QuotaKind, samples: int, window_ms: int) -> None:
        self.kind = kind
        self.limits = Limits()
        self.samples = samples
        self.window_ms = window_ms
        self.meters: dict[Share, ShareMeter] = {}
        self._known: dict[tuple[str, str], ShareMeter] = {}

    def set(self, entity: Entity, limit: float | None) -> None:
        if self.limits.set(entity, limit):
            self._known.clear()
            for meter in self.meters.values():
                meter.limit = self.limits.limit(meter.share)
                if meter.limit is None and meter.bucket is not None:
                    meter.bucket.forget()

    def meter(self, request: Request, now_ms: int) -> ShareMeter:
        """The meter of a request's client."""
        client_id = request.header.client_id or ""
        if len(client_id) > LONGEST_CLIENT_ID:
            client_id = short_client_id(client_id)
        client = (request.context.principal, client_id)
        return self._known.get(client) or self._find(*client, now_ms)

    def _find(self, principal: str, client_id: str, now_ms: int) -> ShareMeter:
        share = self.limits.share(principal.partition(":")[2], client_id)
        meter = self.meters.get(share)
        if meter is None:
            if len(self.meters) >= MAX_METERS:
                self._make_room(now_ms)
            bucket = TokenBucket(self.samples, self.window_ms) if self.kind is QuotaKind.CONTROLLER_MUTATION else None
            meter = ShareMeter(share, self.limits.limit(share), Rate(self.samples, self.window_ms), bucket)
            self.meters[share] = meter
        if len(self._known) >= MAX_KNOWN_CLIENTS:
            self._known.clear()
        self._known[principal, client_id] = meter
        return meter

    def _make_room(self, now_ms: int) -> None:
        """For a tenth at least: it takes a look at all of them, which a client that makes up names must not have at
        each of its requests."""
        going = [meter for meter in self.meters.values() if meter.rate.is_idle(now_ms)]
        if len(going) < MAX_METERS // 10:
            going = nsmallest(MAX_METERS // 10, self.meters.values(), key=lambda each: each.used_ms)
        for meter in going:
            del self.meters[meter.share]
        self._known.clear()


def rate_of_address(path: str, config: Mapping[str, str]) -> tuple[str | None, int | None]:
    """What stands at "ips/A": the address, None for all others, and its connections a second, None for no limit."""
    entity = entity_at(path)
    address = None if entity is None or not isinstance(entity.ip, str) else entity.ip
    try:
        return address, connection_rate_of(config)
    except ValueError as malformed:
        logger.error(
            "quota ignored",
            entity=str(entity),
            quota=CONNECTION_CREATION_RATE,
            why=str(malformed),
            next_step="set it again with `kavka quotas set`",
        )
        return address, None


class ClientQuotas:
    """All quotas of clients on one broker."""

    def __init__(self, config: BrokerConfig, ports: QuotaPorts) -> None:
        self.ports = ports
        samples, window_ms = config.quota_window_num, config.quota_window_size_seconds * 1000
        self.longest_request_delay_ms = window_ms
        """Time is no burst that would have to be waited for: one window at most."""
        self.produce = KindQuotas(QuotaKind.PRODUCE, samples, window_ms)
        self.fetch = KindQuotas(QuotaKind.FETCH, samples, window_ms)
        self.request = KindQuotas(QuotaKind.REQUEST, samples, window_ms)
        self.mutation = KindQuotas(
            QuotaKind.CONTROLLER_MUTATION,
            config.controller_quota_window_num,
            config.controller_quota_window_size_seconds * 1000,
        )
        self.kinds = {each.kind: each for each in (self.produce, self.fetch, self.request, self.mutation)}
        self.exempt = Rate(samples, window_ms)
        self.is_active = False
        """Whether any quota is set."""
        self._telling_since_ms = 0
        self._told = 0
        """Records of delays since then."""

    def on_entity(self, path: str, config: Mapping[str, str]) -> None:
        """What is set for a user, a client id or both: all of it."""
        entity = entity_at(path)
        if entity is None or entity.ip is not None:
            return
        if isinstance(entity.client_id, str):
            entity = entity._replace(client_id=short_client_id(entity.client_id))
        for kind, quotas in self.kinds.items():
            try:
                limit = limit_of(kind, config)
            except ValueError as malformed:
                logger.error(
                    "quota ignored",
                    entity=str(entity),
                    quota=kind.key,
                    why=str(malformed),
                    next_step="set it again with `kavka quotas set`",
                )
                continue
            quotas.set(entity, limit)
        self.is_active = any(quotas.limits for quotas in self.kinds.values())
        if not self.is_active:
            for quotas in self.kinds.values():
                quotas.meters.clear()

    def meter(self, request: Request) -> RequestMeter:
        """The meter of a request that is about to be handled."""
        return RequestMeter(self, request)

    def note_delay(self, kind: QuotaKind, meter: ShareMeter, delay: int, request: Request, now_ms: int) -> None:
        """A client is delayed: the first of a minute leaves a record."""
        meter.note_delay(delay, now_ms)
        if meter.told_ms is not None and now_ms - meter.told_ms < TELLING_INTERVAL_MS:
            meter.untold += 1
            return
        if now_ms - self._telling_since_ms >= TELLING_INTERVAL_MS:
            self._telling_since_ms, self._told = now_ms, 0
        if self._told >= MAX_TOLD:
            meter.untold += 1
            return
        self._told += 1
        meter.told_ms = now_ms
        untold, meter.untold = meter.untold, 0
        rate, limit = meter.rate.measure(now_ms), meter.limit or 0.0
        rule = self.kinds[kind].limits.rule(meter.share)
        context = request.context
        self.ports.record(
            Decision(
                DecisionKind.THROTTLED,
                self.ports.wall_ms(),
                self.ports.broker_id,
                f"{meter.share} had {rate:.6g} {UNITS[kind]}, and {limit:.6g} is the quota of {rule}: the client "
                f"waits {delay} ms",
                about_broker=self.ports.broker_id,
                evidence={
                    "quota": kind.key,
                    "user": meter.share.user,
                    "client_id": meter.share.client_id,
                    "rate": round(rate, 3),
                    "limit": limit,
                    "rule": str(rule),
                    "throttle_ms": delay,
                    "principal": context.principal,
                    "host": context.client_host,
                    "api": ApiKey(request.header.api_key).name,
                    "unrecorded_before": untold,
                },
            )
        )

    def exempt_time(self) -> float:
        """The time of requests that are exempt, in percent."""
        return self.exempt.measure(self.ports.now_ms())

    def measured(self, kind: str, name: str) -> list[Member]:
        """Of each meter of a kind (its value) the metric of this name: "tokens", "throttle-time", else the rate."""
        now_ms = self.ports.now_ms()
        number = _NUMBERS.get(name, _rate)
        return [
            ((("user", share.user), ("client-id", share.client_id)), number(meter, now_ms))
            for share, meter in sorted(self.kinds[QuotaKind(kind)].meters.items())
        ]


def _rate(meter: ShareMeter, now_ms: int) -> float:
    return meter.rate.measure(now_ms)


_NUMBERS: Final = {"tokens": ShareMeter.tokens, "throttle-time": ShareMeter.average_delay_ms}


class RequestMeter:
    """What one request uses up. `charge` is called once, when its answer is there."""

    __slots__ = (
        "_began_ns", "_is_refused", "_mutation_delay_ms", "_mutations", "_paid_ms", "_quotas", "_request", "_spent_ns",
    )  # fmt: skip

    def __init__(self, quotas: ClientQuotas, request: Request) -> None:
        self._quotas = quotas
        self._request = request
        self._began_ns = quotas.ports.clock_ns()
        self._spent_ns = -1
        self._is_refused = False
        self._paid_ms = -1
        """The delay, where the handler had the request charged."""
        self._mutations: ShareMeter | None = None
        self._mutation_delay_ms = (0, 0)

    def handled(self) -> None:
        """The handler is done, or waits for something else: the time of the request ends here."""
        if self._spent_ns < 0:
            self._spent_ns = self._quotas.ports.clock_ns() - self._began_ns

    def refuse(self) -> None:
        """Its client may not ask what brokers ask of each other: it pays for the time as for any other request."""
        self._is_refused = True

    # -- for handlers

    def most_bytes(self) -> int:
        """What one fetch may bring at most: more than the windows hold would be delayed whatever was fetched before."""
        quotas = self._quotas.fetch
        if not quotas.limits:
            return _MOST
        limit = self._quotas.fetch.meter(self._request, self._quotas.ports.now_ms()).limit
        if limit is None:
            return _MOST
        return min(int(limit * (quotas.samples - 1) * quotas.window_ms / 1000), _MOST)

    def fetched(self, size_bytes: int) -> int:
        """An answer with `size_bytes` of records is ready: 0 where it may leave, else for how long the client waits,
        and gets an answer without records."""
        now_ms = self._quotas.ports.now_ms()
        request_meter, request_delay = self._charge_time(now_ms)
        meter = self._quotas.fetch.meter(self._request, now_ms)
        bytes_delay = meter.record(size_bytes, now_ms)
        delay = self._delayed(QuotaKind.FETCH, meter, bytes_delay, request_meter, request_delay, now_ms)
        if delay:
            meter.rate.record(-size_bytes, now_ms)
        self._paid_ms = delay
        return delay

    def owed_ms(self) -> int:
        """For how long its client has to wait before it may be given records that cannot be taken back."""
        quotas, now_ms = self._quotas.fetch, self._quotas.ports.now_ms()
        if not quotas.limits:
            return 0
        meter = quotas.meter(self._request, now_ms)
        if meter.limit is None:
            return 0
        # A quota of 0 holds also who had nothing yet.
        return delay_ms(meter.rate, meter.limit, now_ms) if meter.limit else quotas.samples * quotas.window_ms

    def gave(self, size_bytes: int, owed_ms: int) -> None:
        """An answer of `size_bytes` leaves, whatever the quota is; `owed_ms` as it was when records were looked for."""
        now_ms = self._quotas.ports.now_ms()
        request_meter, request_delay = self._charge_time(now_ms)
        meter = self._quotas.fetch.meter(self._request, now_ms)
        bytes_delay = max(meter.record(size_bytes, now_ms), owed_ms)
        self._paid_ms = self._delayed(QuotaKind.FETCH, meter, bytes_delay, request_meter, request_delay, now_ms)

    def fetched_by_follower(self) -> None:
        """A follower's fetch is exempt."""
        self._charge_exempt(self._quotas.ports.now_ms())
        self._paid_ms = 0

    def mutate(self, partitions: int, *, strict: bool) -> bool:
        """Partitions are to be made or deleted: whether they may be. Only a strict quota refuses."""
        now_ms = self._quotas.ports.now_ms()
        meter = self._mutations = self._quotas.mutation.meter(self._request, now_ms)
        delay = meter.take(partitions, now_ms, strict=strict)
        if delay:
            self._mutation_delay_ms = (delay, now_ms)
        return not (strict and delay)

    @property
    def mutation_delay_ms(self) -> int:
        """How long to wait before partitions may be changed again, as from now."""
        delay, since_ms = self._mutation_delay_ms
        return max(delay - (self._quotas.ports.now_ms() - since_ms), 0)

    # -- for the dispatcher

    def charge(self, message: Any) -> int:
        """For how long the client has to wait after the answer to `message`."""
        self.handled()
        key = self._request.header.api_key
        if self._paid_ms >= 0:
            return self._paid_ms
        now_ms = self._quotas.ports.now_ms()
        if key == ApiKey.PRODUCE:
            return self._charge_produce(message.acks, now_ms)
        if key in _EXEMPT and not self._is_refused:
            self._charge_exempt(now_ms)
            return 0
        request_meter, request_delay = self._charge_time(now_ms)
        if self._mutations is None:
            return self._delayed(QuotaKind.REQUEST, request_meter, 0, request_meter, request_delay, now_ms)
        return self._delayed(
            QuotaKind.CONTROLLER_MUTATION,
            self._mutations,
            self.mutation_delay_ms,
            request_meter,
            request_delay,
            now_ms,
        )

    def _charge_produce(self, acks: int, now_ms: int) -> int:
        meter = self._quotas.produce.meter(self._request, now_ms)
        bytes_delay = meter.record(_size_of(self._request), now_ms)
        if acks == 0:
            self._charge_exempt(now_ms)
            return self._delayed(QuotaKind.PRODUCE, meter, bytes_delay, meter, 0, now_ms)
        request_meter, request_delay = self._charge_time(now_ms)
        return self._delayed(QuotaKind.PRODUCE, meter, bytes_delay, request_meter, request_delay, now_ms)

    def _charge_time(self, now_ms: int) -> tuple[ShareMeter, int]:
        self.handled()
        meter = self._quotas.request.meter(self._request, now_ms)
        delay = meter.record(self._spent_ns * PERCENT_PER_NS, now_ms)
        return meter, min(delay, self._quotas.longest_request_delay_ms)

    def _charge_exempt(self, now_ms: int) -> None:
        self.handled()
        self._quotas.exempt.record(self._spent_ns * PERCENT_PER_NS, now_ms)

    def _delayed(
        self, kind: QuotaKind, meter: ShareMeter, delay: int, request_meter: ShareMeter, request_delay: int, now_ms: int
    ) -> int:
        """The longer of two delays, noted as that of its kind (I2)."""
        if not delay and not request_delay:
            return 0
        if delay > request_delay:
            self._quotas.note_delay(kind, meter, delay, self._request, now_ms)
            return delay
        if request_delay:
            self._quotas.note_delay(QuotaKind.REQUEST, request_meter, request_delay, self._request, now_ms)
        return request_delay


_MOST: Final = 2**31 - 1
_HEADER_BYTES: Final = 10
"""Of a request's header without its client id and tagged fields."""


def _size_of(request: Request) -> int:
    """The bytes of a request as they came, without their length."""
    return _HEADER_BYTES + len(request.header.client_id or "") + len(request.body)
