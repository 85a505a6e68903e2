"""Small late parts: traces of requests, searches of logs by time, telemetry of clients. `broker.late` says when each is
made.

Decides nothing, and imports nothing that a start does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.assembly.ends import Stage
from kavka.broker.decisions.decision_log import Ring
from kavka.broker.late import Late
from kavka.zookeeper.znode_paths import CLIENT_METRICS_ENTITY
from kavka.zookeeper.znodes import random_uuid

if TYPE_CHECKING:
    from kavka.broker.assembly.parts import Base
    from kavka.broker.decisions.request_traces import RequestTraces
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.reads.timestamp_lookups import TimestampLookups
    from kavka.broker.telemetry.client_telemetry import ClientTelemetry
    from kavka.log.log_manager import LogManager


def late_request_traces(base: Base, metadata: MetadataCache) -> Late[RequestTraces]:
    config, ports = base.config, base.ports

    def make() -> RequestTraces:
        from kavka.broker.decisions.request_traces import RequestTraces, TracePorts

        return RequestTraces(
            TracePorts(
                base.broker_id,
                ports.wall_ms,
                ports.clock_ns,
                slow_ms=lambda: base.configs.broker.kavka_slow_request_ms,
                topic_name=metadata.topic_name,
                record=base.record,
                stalled=ports.stalled,
                export=ports.on_request_trace,
            ),
            Ring(ports.filesystem, config.log_directories[0], config.kavka_request_traces_ring_bytes),
            id_prefix=f"{base.broker_id}-{base.began_ms:x}",
        )

    late = Late(make)
    base.ends.add(
        Stage.STORES,
        stop=lambda: _stop_traces(late),
        abort=lambda: None if late.made is None else late.made.abort(),
    )
    return late


async def _stop_traces(late: Late[RequestTraces]) -> None:
    if late.made is not None:
        await late.made.stop()


def late_lookups(base: Base, logs: LogManager) -> Late[TimestampLookups]:
    def make() -> TimestampLookups:
        from kavka.broker.reads.timestamp_lookups import TimestampLookups

        return TimestampLookups(base.ports.run_blocking, lambda log: logs.get(log.topic_partition) is log)

    return Late(make)


def late_telemetry(base: Base) -> Late[ClientTelemetry]:
    def make() -> ClientTelemetry:
        from kavka.broker.telemetry.client_telemetry import ClientTelemetry

        configs, ports = base.configs, base.ports
        return ClientTelemetry(
            lambda: [configs.client_metrics(name) for name in configs.named(CLIENT_METRICS_ENTITY)],
            lambda: configs.changes_of_client_metrics,
            max_bytes=lambda: configs.broker.telemetry_max_bytes,
            new_id=lambda: random_uuid(ports.random.randbytes(16)),
            on_push=ports.on_client_metrics,
        )

    return Late(make)
