"""Traces of requests, as a late part: made with the first request that is slow or of the sample.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.assembly.ends import Stage
from kavka.broker.decisions.decision_log import Ring
from kavka.broker.late import Late

if TYPE_CHECKING:
    from kavka.broker.assembly.parts import Base
    from kavka.broker.decisions.request_traces import RequestTraces
    from kavka.broker.metadata.metadata_cache import MetadataCache


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
