"""The console's own metrics at /metrics, in Prometheus' text: health, partitions, groups and lag of every cluster.

Decides names and tags. Must not know how anything was read; what is not known is not shown, rather than shown as 0.

    kavka_health_score, kavka_health_check (1 passed, 0 failed), kavka_health_check_failed (objects)
    kavka_cluster_*                          of a cluster
    kafka_topic_partition_*, kafka_consumergroup_*    under the names of the widespread kafka_exporter

Source: Prometheus' exposition format; the metrics of kafka_exporter.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse
from starlette.routing import Route

from kavka.console.access.route_rights import sees_all
from kavka.metrics import Member, Registry, prometheus_pieces
from kavka.observe.health.report import Outcome
from kavka.observe.snapshot import Part

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.clusters import Clusters, ClusterWatch
    from kavka.console.console import Console

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SLICE_S: Final = 0.005
KIB: Final = 1024

Read = Callable[["ClusterWatch"], Iterable[Member]]


def metrics_routes(console: Console) -> list[Route]:
    of_all = make_registry(console.clusters)

    async def metrics(request: Request) -> Response:
        seen = [watch for watch in console.clusters if sees_all(request, watch.name)]
        registry = of_all if len(seen) == len(console.clusters) else make_registry(console.clusters, seen)
        return StreamingResponse(_pieces(registry), media_type=CONTENT_TYPE)

    return [Route("/metrics", metrics)]


async def _pieces(registry: Registry) -> AsyncIterator[str]:
    """All metrics, a slice of time at once; pages have their turn between two."""
    began = time.perf_counter()
    slice_: list[str] = []
    for piece in prometheus_pieces(registry):
        slice_.append(piece)
        if time.perf_counter() - began >= SLICE_S:
            yield "".join(slice_)
            slice_.clear()
            await asyncio.sleep(0)
            began = time.perf_counter()
    yield "".join(slice_)


def make_registry(clusters: Clusters, seen: Sequence[ClusterWatch] | None = None) -> Registry:
    """The metrics of all clusters, or of some, as they are when somebody reads them."""
    shown = clusters if seen is None else seen
    registry = Registry()

    def of_all(read: Read) -> Callable[[], list[Member]]:
        return lambda: [((("cluster", watch.name), *tags), value) for watch in shown for tags, value in read(watch)]

    for (group, kind, name), read in _FAMILIES.items():
        registry.family(group, kind, name, of_all(read))
    registry.gauge(
        "process", "resident_memory", "max_bytes", lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
    )
    registry.gauge("process", "cpu", "seconds", time.process_time)
    registry.gauge("kavka", "console", "history_samples_dropped", lambda: clusters.store.dropped)
    return registry


def _one(value: float | None) -> list[Member]:
    """A cluster's own number, where it is known."""
    return [] if value is None else [((), value)]


def _score(watch: ClusterWatch) -> Iterable[Member]:
    return _one(watch.health.score)


def _checks(watch: ClusterWatch) -> Iterable[Member]:
    return [
        (
            (("check", each.check.name), ("severity", each.check.severity.value)),
            float(each.outcome is Outcome.PASSED),
        )
        for each in watch.health.results
        if each.outcome is not Outcome.UNKNOWN
    ]


def _failed(watch: ClusterWatch) -> Iterable[Member]:
    return [
        ((("check", each.check.name),), float(each.failed))
        for each in watch.health.results
        if each.outcome is not Outcome.UNKNOWN
    ]


def _partitions(value_of: Callable[..., float | None]) -> Read:
    def read(watch: ClusterWatch) -> Iterable[Member]:
        return [
            ((("topic", each.topic), ("partition", str(each.partition))), value)
            for each in watch.snapshot.partitions()
            if (value := value_of(each)) is not None
        ]

    return read


def _lag(watch: ClusterWatch) -> Iterable[Member]:
    return [
        (
            (
                ("consumergroup", group.group_id),
                ("topic", each.partition.topic),
                ("partition", str(each.partition.partition)),
            ),
            float(each.lag),
        )
        for group in watch.snapshot.groups.values()
        for each in group.offsets
        if each.lag is not None
    ]


def _groups(value_of: Callable[..., float | None]) -> Read:
    def read(watch: ClusterWatch) -> Iterable[Member]:
        return [
            ((("consumergroup", group.group_id),), value)
            for group in watch.snapshot.groups.values()
            if (value := value_of(group)) is not None
        ]

    return read


def _lag_seconds(watch: ClusterWatch) -> Iterable[Member]:
    found = []
    for group in watch.snapshot.groups.values():
        known = [each.lag_ms for each in group.offsets if each.lag_ms is not None]
        if known:
            found.append(((("consumergroup", group.group_id),), max(known) / 1000))
    return found


def _brokers(value_of: Callable[..., float | None]) -> Read:
    def read(watch: ClusterWatch) -> Iterable[Member]:
        return [
            ((("broker", str(broker.broker_id)),), value)
            for broker in watch.snapshot.brokers.values()
            if (value := value_of(broker)) is not None
        ]

    return read


_FAMILIES: Final[dict[tuple[str, str, str], Read]] = {
    ("kavka", "health", "score"): _score,
    ("kavka", "health", "check"): _checks,
    ("kavka", "health", "check_failed"): _failed,
    ("kavka", "cluster", "reachable"): lambda watch: _one(float(watch.snapshot.is_reachable)),
    ("kavka", "cluster", "snapshot_age_seconds"): lambda watch: (
        _one(time.time() - watch.snapshot.at_ms / 1000) if watch.snapshot.at_ms else ()
    ),
    ("kavka", "cluster", "brokers_alive"): lambda watch: _one(len(watch.snapshot.alive_brokers)),
    ("kavka", "cluster", "partitions"): lambda watch: _one(watch.snapshot.counts.partitions),
    ("kavka", "cluster", "partitions_offline"): lambda watch: _one(watch.snapshot.counts.offline),
    ("kavka", "cluster", "partitions_under_replicated"): lambda watch: _one(watch.snapshot.counts.under_replicated),
    ("kavka", "cluster", "partitions_under_min_isr"): lambda watch: _one(watch.snapshot.counts.under_min_isr),
    ("kavka", "cluster", "controller_elections_last_hour"): lambda watch: (
        _one(watch.snapshot.controllers.elections) if watch.snapshot.reading(Part.CONTROLLER).is_known else ()
    ),
    ("kavka", "cluster", "records_in_per_second"): lambda watch: _one(watch.snapshot.in_records_per_s),
    ("kavka", "cluster", "bytes_in_per_second"): lambda watch: _one(watch.snapshot.in_bytes_per_s),
    ("kavka", "broker", "alive"): _brokers(lambda broker: float(broker.is_alive)),
    ("kavka", "broker", "leaders"): _brokers(lambda broker: broker.leads),
    ("kavka", "broker", "replicas_out_of_sync"): _brokers(lambda broker: broker.out_of_sync),
    ("kavka", "broker", "size_bytes"): _brokers(lambda broker: broker.size_bytes),
    ("kafka", "topic_partition", "current_offset"): _partitions(lambda each: each.high_watermark),
    ("kafka", "topic_partition", "oldest_offset"): _partitions(lambda each: each.log_start_offset),
    ("kafka", "topic_partition", "leader"): _partitions(lambda each: each.leader),
    ("kafka", "topic_partition", "in_sync_replica"): _partitions(lambda each: len(each.in_sync_replicas)),
    ("kafka", "topic_partition", "replicas"): _partitions(lambda each: len(each.replicas)),
    ("kafka", "topic_partition", "under_replicated_partition"): _partitions(
        lambda each: float(each.is_under_replicated)
    ),
    ("kafka", "consumergroup", "lag"): _lag,
    ("kafka", "consumergroup", "lag_sum"): _groups(lambda group: group.lag),
    ("kafka", "consumergroup", "uncommitted_partitions"): _groups(lambda group: group.uncommitted),
    ("kafka", "consumergroup", "members"): _groups(lambda group: len(group.members)),
    ("kafka", "consumergroup", "lag_seconds"): _lag_seconds,
}
"""Name parts and what is read of one cluster."""
