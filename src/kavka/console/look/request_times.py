"""Where the time of requests went: by API over all brokers, and the single ones that were slow or throttled.

Pure: brokers' metrics and decisions in, rows out. What a decision says is somebody's word, from a topic: a field that
is missing or of another kind is None.

    I1  a mean over brokers counts each broker by its number of requests
    I2  what no broker measured is None, never 0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kavka.decisions import DecisionKind

if TYPE_CHECKING:
    from kavka.decisions import RecordedDecision
    from kavka.observe.snapshot import BrokerView, RequestTimes

STAGES: Final = ("queue", "local", "remote", "throttle", "response queue", "send")
"""Of `ApiTimes.stages_ms`, in the order in which a request goes through them."""
MOST: Final = 2**63
"""A number that is not below it is no measurement: JSON may write 1e999, NaN and whole numbers of any length."""
Kind = TypeVar("Kind", int, float, str)


class ApiTimes(NamedTuple):
    """One API on all brokers that show their metrics. Times are means in ms since the brokers started; `worst_p99_ms`
    is that of `worst_broker`. `per_second` is None until each broker was read twice."""

    api: str
    requests: int
    per_second: float | None
    stages_ms: tuple[float, ...]
    total_ms: float
    worst_p99_ms: float | None
    worst_broker: int

    @property
    def time_share(self) -> float:
        """What its requests took in all, in ms: the order of the table."""
        return self.requests * self.total_ms

    @property
    def longest(self) -> str:
        """The stage that takes most."""
        return STAGES[self.stages_ms.index(max(self.stages_ms))]


class SlowRequest(NamedTuple):
    """A request that took longer than kavka.slow.request.ms; `broker` decided, `waited_for` is who was waited for."""

    decision_id: str
    at_ms: int
    broker: int
    api: str | None
    stage: str | None
    waited_for: int
    total_ms: int | None
    client_id: str | None
    host: str | None
    principal: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    unrecorded_before: int | None
    why: str


class Throttling(NamedTuple):
    """A delay of a client over its quota."""

    decision_id: str
    at_ms: int
    broker: int
    quota: str | None
    rule: str | None
    principal: str | None
    client_id: str | None
    host: str | None
    api: str | None
    rate: float | None
    limit: float | None
    throttle_ms: int | None
    unrecorded_before: int | None


def by_api(brokers: Iterable[BrokerView]) -> list[ApiTimes]:
    """The APIs of all brokers, that first which took most time."""
    found: dict[str, list[tuple[int, RequestTimes]]] = {}
    for broker in brokers:
        for times in broker.metrics.request_times if broker.metrics is not None else ():
            found.setdefault(times.api, []).append((broker.broker_id, times))
    return sorted((_sum(api, times) for api, times in found.items()), key=lambda each: (-each.time_share, each.api))


def _sum(api: str, found: Sequence[tuple[int, RequestTimes]]) -> ApiTimes:
    count = sum(times.count for _, times in found)
    rates = [times.per_second for _, times in found]
    columns = zip(
        *(tuple(each * times.count for each in (*_stages(times), times.total_ms)) for _, times in found),
        strict=True,
    )
    *stages, total = (sum(column) / max(count, 1) for column in columns)
    p99, broker = max(((-1.0 if times.total_p99_ms is None else times.total_p99_ms), each) for each, times in found)
    return ApiTimes(
        api,
        count,
        None if None in rates else sum(rate for rate in rates if rate is not None),
        tuple(stages),
        total,
        None if p99 < 0 else p99,
        broker,
    )


def _stages(times: RequestTimes) -> tuple[float, ...]:
    return (
        times.queue_ms,
        times.local_ms,
        times.remote_ms,
        times.throttle_ms,
        times.response_queue_ms,
        times.send_ms,
    )


def is_slow(recorded: RecordedDecision) -> bool:
    return recorded.decision.kind is DecisionKind.REQUEST_SLOW


def is_throttled(recorded: RecordedDecision) -> bool:
    return recorded.decision.kind is DecisionKind.THROTTLED


def slow_request(recorded: RecordedDecision) -> SlowRequest:
    decision = recorded.decision
    facts = decision.evidence
    return SlowRequest(
        recorded.decision_id,
        decision.at_ms,
        decision.broker_id,
        _fact(facts, "api", str),
        _fact(facts, "stage", str),
        decision.about_broker,
        _fact(facts, "total_ms", int),
        _fact(facts, "client_id", str),
        _fact(facts, "host", str),
        _fact(facts, "principal", str),
        _fact(facts, "topic", str),
        _fact(facts, "partition", int),
        _fact(facts, "offset", int),
        _fact(facts, "unrecorded_before", int),
        decision.why,
    )


def throttling(recorded: RecordedDecision) -> Throttling:
    decision = recorded.decision
    facts = decision.evidence
    return Throttling(
        recorded.decision_id,
        decision.at_ms,
        decision.broker_id,
        _fact(facts, "quota", str),
        _fact(facts, "rule", str),
        _fact(facts, "principal", str),
        _fact(facts, "client_id", str),
        _fact(facts, "host", str),
        _fact(facts, "api", str),
        _number(facts, "rate"),
        _number(facts, "limit"),
        _fact(facts, "throttle_ms", int),
        _fact(facts, "unrecorded_before", int),
    )


def causes(slow: Iterable[SlowRequest]) -> list[tuple[str, str, int, int]]:
    """API, stage, broker that was waited for, and how many: each record, and those that it says went before it. The
    most first."""
    counted: Counter[tuple[str, str, int]] = Counter()
    for each in slow:
        counted[each.api or "", each.stage or "", each.waited_for] += 1 + max(each.unrecorded_before or 0, 0)
    return [(*key, number) for key, number in sorted(counted.items(), key=lambda item: (-item[1], item[0]))]


def _fact(facts: Mapping[str, object], name: str, kind: type[Kind]) -> Kind | None:
    value = facts.get(name)
    if isinstance(value, bool) or (isinstance(value, int | float) and not abs(value) < MOST):
        return None
    return value if isinstance(value, kind) else None


def _number(facts: Mapping[str, object], name: str) -> float | None:
    value = _fact(facts, name, int)
    return _fact(facts, name, float) if value is None else float(value)
