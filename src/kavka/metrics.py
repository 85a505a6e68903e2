"""Counters, gauges and histograms under Kafka's names, and the text that Prometheus reads.

What it decides: how a value is kept so cheaply that the hot path can afford it, and under which name it is seen.
It must not know: a clock, a socket, or which room a value belongs to. Rates are left to the reader, who has two
readings and the time between them: a meter with moving averages would need a tick for every metric.

I1  A metric is one object per name and tags: asking the registry twice gives the same one.
I2  The output is ordered by name and tags, never by a hash.

Names follow Kafka's MBeans, `group:type=...,name=...,tag=value`, for example
`kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce`. Source: Kafka's documentation on monitoring, and
the exposition format 0.0.4 of Prometheus.

A histogram has four buckets for each power of two, so a percentile is right to within an eighth of its value; a
recording costs one list operation. Exact reservoirs (Kafka's own) cost a lock and a random number for each value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

HISTOGRAM_BUCKETS = 4 * 62
"""Enough for every value below 2**62; greater ones are counted in the last bucket."""

MEMBERS_AT_ONCE = 200
"""Members of a family that are shown before other work has its turn: 0.3 ms."""

PERCENTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those that Kafka's histograms show."""


class Counter:
    """A number that only grows: who counts adds to `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Gauge:
    """A number that is asked for when somebody reads it, so that it costs nothing until then."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read


def bucket_of(value: int) -> int:
    """The bucket that `value` (>= 0) is counted in."""
    if value < 4:
        return value
    shift = value.bit_length() - 3
    return min((shift << 2) + (value >> shift), HISTOGRAM_BUCKETS - 1)


def bucket_bounds(bucket: int) -> tuple[int, int]:
    """Smallest value of the bucket, and the smallest value above it."""
    if bucket < 4:
        return bucket, bucket + 1
    shift = (bucket >> 2) - 1
    low = (4 + (bucket & 3)) << shift
    return low, low + (1 << shift)


class Histogram:
    """How often values (integers >= 0) fell into each of the buckets.

    `scale` is what one unit of a recorded value is worth in the unit that is shown: 1e-6 where nanoseconds are
    recorded and milliseconds shown.
    """

    __slots__ = ("buckets", "scale", "total")

    def __init__(self, *, scale: float = 1.0) -> None:
        self.buckets = [0] * HISTOGRAM_BUCKETS
        self.total = 0
        self.scale = scale

    def record(self, value: int) -> None:
        # bucket_of(), repeated here because a call costs as much as the rest.
        if value < 4:
            self.buckets[value if value > 0 else 0] += 1
        else:
            shift = value.bit_length() - 3
            bucket = (shift << 2) + (value >> shift)
            self.buckets[bucket if bucket < HISTOGRAM_BUCKETS else -1] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.buckets)

    @property
    def sum(self) -> float:
        """Sum of all recorded values, in the unit that is shown."""
        return self.total * self.scale

    @property
    def mean(self) -> float:
        count = self.count
        return self.sum / count if count else 0.0

    @property
    def maximum(self) -> float:
        """Upper bound of the greatest value recorded, in the unit that is shown."""
        for bucket in range(HISTOGRAM_BUCKETS - 1, -1, -1):
            if self.buckets[bucket]:
                return (bucket_bounds(bucket)[1] - 1) * self.scale
        return 0.0

    def percentile(self, fraction: float) -> float:
        """The value that `fraction` (0 to 1) of the recorded ones do not pass; 0 where nothing was recorded."""
        return self.percentiles((fraction,))[0]

    def percentiles(self, fractions: Sequence[float]) -> list[float]:
        """`percentile` for several fractions, given in rising order."""
        count = self.count
        if not count:
            return [0.0] * len(fractions)
        values: list[float] = []
        below = 0
        bucket = -1
        inside = 0
        for fraction in fractions:
            wanted = max(fraction * count, 1.0)
            while below + inside < wanted and bucket < HISTOGRAM_BUCKETS - 1:
                below += inside
                bucket += 1
                inside = self.buckets[bucket]
            low, high = bucket_bounds(bucket)
            # A bucket of one single value needs no guess; in a wider one the values are taken as evenly spread.
            value = low if high - low == 1 else low + (high - low) * (wanted - below) / inside
            values.append(value * self.scale)
        return values

    def add_all(self, others: Iterable[Histogram], *, zeros: int = 0) -> Histogram:
        """Counts what `others` (of the same scale) counted as well, and `zeros` times the value 0; returns itself."""
        for other in others:
            self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]
            self.total += other.total
        self.buckets[0] += zeros
        return self


Metric = Counter | Gauge | Histogram


class MetricName(NamedTuple):
    """Kafka's name of a metric. `tags` come in the order in which Kafka writes them."""

    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """As Kafka's MBean is called."""
        parts = [f"type={self.type}", f"name={self.name}", *(f"{key}={value}" for key, value in self.tags)]
        return f"{self.group}:{','.join(parts)}"


Tags = tuple[tuple[str, str], ...]
Member = tuple[Tags, float]
"""One object's tags and its number."""


class Family(NamedTuple):
    """The same number of many objects. `read` gives all of them, in order of their tags."""

    read: Callable[[], list[Member]]
    is_counter: bool


class SummaryFamily(NamedTuple):
    """The histograms of many objects. `read` gives all of them, in order of their tags."""

    read: Callable[[], list[tuple[Tags, Histogram]]]


class Registry:
    """All metrics of one broker. `group`, `kind` and `name` are the three parts of `MetricName` before the tags."""

    def __init__(self) -> None:
        self._metrics: dict[MetricName, Metric | Callable[[], Metric]] = {}
        self._families: dict[MetricName, Family | SummaryFamily] = {}

    def counter(self, group: str, kind: str, name: str, /, **tags: str) -> Counter:
        """The counter of this name; made on first use. Raises ValueError where the name is another kind's."""
        key = MetricName(group, kind, name, tuple(tags.items()))
        found = self._metrics.setdefault(key, Counter())
        if not isinstance(found, Counter):
            raise ValueError(f"{key} is no counter but a {found.__class__.__name__}")
        return found

    def histogram(self, group: str, kind: str, name: str, /, *, scale: float = 1.0, **tags: str) -> Histogram:
        """The histogram of this name; made on first use. Raises ValueError where the name is another kind's."""
        key = MetricName(group, kind, name, tuple(tags.items()))
        found = self._metrics.get(key)
        if found is None:
            found = self._metrics[key] = Histogram(scale=scale)
        if not isinstance(found, Histogram):
            raise ValueError(f"{key} is no histogram but a {found.__class__.__name__}")
        return found

    def gauge(self, group: str, kind: str, name: str, read: Callable[[], float], /, **tags: str) -> Gauge:
        """Registers `read`; a gauge of the same name is replaced, since its owner was."""
        gauge = Gauge(read)
        self._metrics[MetricName(group, kind, name, tuple(tags.items()))] = gauge
        return gauge

    def derive(self, group: str, kind: str, name: str, make: Callable[[], Metric], /, **tags: str) -> None:
        """Registers a metric that `make` puts together from others whenever somebody reads it."""
        self._metrics[MetricName(group, kind, name, tuple(tags.items()))] = make

    def family(
        self, group: str, kind: str, name: str, read: Callable[[], list[Member]], /, *, is_counter: bool = False
    ) -> None:
        """Registers numbers of many objects (topics, partitions) under one name. Who they are is asked with them:
        nothing has to be registered when they come, or forgotten when they go."""
        self._families[MetricName(group, kind, name)] = Family(read, is_counter)

    def summaries(self, group: str, kind: str, name: str, read: Callable[[], list[tuple[Tags, Histogram]]], /) -> None:
        """The same for histograms."""
        self._families[MetricName(group, kind, name)] = SummaryFamily(read)

    def families(self) -> list[tuple[MetricName, Family | SummaryFamily]]:
        """Every family, ordered by name."""
        return sorted(self._families.items(), key=lambda item: item[0])

    def remove(self, group: str, kind: str, name: str, /, **tags: str) -> None:
        """Forgets a metric, as that of a deleted topic; nothing happens if there is none."""
        self._metrics.pop(MetricName(group, kind, name, tuple(tags.items())), None)

    def get(self, group: str, kind: str, name: str, /, **tags: str) -> Metric | None:
        """The metric of this name, put together where it is a derived one; None where there is none."""
        found = self._metrics.get(MetricName(group, kind, name, tuple(tags.items())))
        return found() if found is not None and not isinstance(found, Metric) else found

    def names(self) -> list[MetricName]:
        """The name of every metric that is no family. In one step: other threads may register some meanwhile."""
        return list(self._metrics)

    def all(self) -> list[tuple[MetricName, Metric]]:
        """Every metric, ordered by name and tags."""
        return [
            (name, metric if isinstance(metric, Metric) else metric())
            for name in sorted(self.names())
            if (metric := self._metrics.get(name)) is not None
        ]


def render_prometheus(registry: Registry) -> str:
    """The registry as text in Prometheus' exposition format 0.0.4.

    `kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce` is shown as
    `kafka_network_requestmetrics_totaltimems{request="Produce"}`: the form in which the JMX exporter shows Kafka's,
    so that dashboards made for Kafka fit. A counter ends in `_total`, a histogram is a summary with quantiles.
    """
    return "".join(prometheus_pieces(registry))


def prometheus_pieces(registry: Registry) -> Iterator[str]:
    """`render_prometheus`, a metric or some members of a family at a time, so that other work may go on between them.

    What is registered meanwhile is not shown; a member's number is as old as its family's reading.
    """
    found: list[tuple[str, Tags, bool, MetricName | Family | SummaryFamily]] = [
        *((_prometheus_name(name), name.tags, False, name) for name in registry.names()),
        *((_prometheus_name(name), (), True, family) for name, family in registry.families()),
    ]
    previous = ""
    for base, tags, _, source in sorted(found, key=lambda each: each[:3]):
        if isinstance(source, SummaryFamily):
            shown = base
            yield f"# TYPE {shown} summary\n"
            for each, histogram in source.read():
                yield "".join(f"{line}\n" for line in _samples(shown, each, histogram))
        elif isinstance(source, Family):
            shown = f"{base}_total" if source.is_counter else base
            if shown != previous:
                yield f"# TYPE {shown} {'counter' if source.is_counter else 'gauge'}\n"
            members = source.read()
            for first in range(0, len(members), MEMBERS_AT_ONCE):
                some = members[first : first + MEMBERS_AT_ONCE]
                yield "".join(f"{shown}{_labels(each)} {value:.10g}\n" for each, value in some)
        else:
            metric = registry.get(source.group, source.type, source.name, **dict(tags))
            if metric is None:
                continue  # It was forgotten while others were shown.
            kind = _PROMETHEUS_KINDS[metric.__class__]
            shown = f"{base}_total" if kind == "counter" else base
            head = "" if shown == previous else f"# TYPE {shown} {kind}\n"
            yield head + "".join(f"{line}\n" for line in _samples(shown, tags, metric))
        previous = shown


_PROMETHEUS_KINDS: dict[type, str] = {Counter: "counter", Gauge: "gauge", Histogram: "summary"}
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_]")


def _prometheus_name(name: MetricName) -> str:
    return _NOT_IN_A_NAME.sub("_", f"{name.group}_{name.type}_{name.name}".lower())


def _samples(shown: str, tags: tuple[tuple[str, str], ...], metric: Metric) -> Iterable[str]:
    if isinstance(metric, Counter):
        yield f"{shown}{_labels(tags)} {metric.value}"
    elif isinstance(metric, Gauge):
        yield f"{shown}{_labels(tags)} {metric.read():.10g}"
    else:
        for fraction, value in zip(PERCENTILES, metric.percentiles(PERCENTILES), strict=True):
            yield f"{shown}{_labels((*tags, ('quantile', str(fraction))))} {value:.10g}"
        yield f"{shown}_count{_labels(tags)} {metric.count}"
        yield f"{shown}_sum{_labels(tags)} {metric.sum:.10g}"


def _labels(tags: tuple[tuple[str, str], ...]) -> str:
    if not tags:
        return ""
    return "{" + ",".join([f'{_label_name(key)}="{_escape(value)}"' for key, value in tags]) + "}"


@lru_cache(maxsize=1_000)
def _label_name(key: str) -> str:
    """There are a few dozen of them, on each of a hundred thousand lines."""
    return _NOT_IN_A_NAME.sub("_", key.lower())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
