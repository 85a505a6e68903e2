"""Where commands read why-records: in the cluster's topic, or in the rings that brokers keep in their log directories.

Decides which of them: the topic; where a cluster has none (one broker alone makes none), the ring of a broker whose log
directory is on this machine. Must not know what is made of the records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kavka.cli.output import Failure, note

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.decisions import RecordedDecision

RING_DEPTH = 3
"""How far below a directory rings are looked for: data/broker-1/logs."""


async def from_cluster(cluster: Cluster, since_ms: int) -> list[RecordedDecision]:
    """Since a time. Raises Failure where neither is at hand, RequestError, ConnectionFailed."""
    from kavka.client.admin import Admin
    from kavka.client.decisions import read_decisions
    from kavka.errors import ErrorCode, RequestError

    try:
        return await read_decisions(cluster, since_ms)
    except RequestError as refused:
        if refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        cluster_id = (await Admin(cluster).describe_cluster()).cluster_id
        found = [each for places in (await Admin(cluster).describe_log_dirs()).values() for each in places]
        here = [each.path for each in found if _is_of(each.path, cluster_id)]
        if here:
            return from_rings(here, since_ms)
        raise Failure(
            "this cluster has no topic __kavka_decisions",
            "one broker alone keeps its decisions in its log directory: run `kavka why` on its machine; "
            "kavka.decisions.topic.enable=true makes the topic; Apache Kafka does not record its decisions",
        ) from refused


def _is_of(directory: str, cluster_id: str | None) -> bool:
    """Whether a log directory of this cluster, with a ring of decisions, is on this machine."""
    from kavka.cli.cluster.local_log_directories import is_of_cluster
    from kavka.decisions import RING_FILES

    has_ring = any(os.path.exists(os.path.join(directory, name)) for name in RING_FILES)
    return has_ring and is_of_cluster(directory, cluster_id)


def from_rings(directories: Sequence[str], since_ms: int) -> list[RecordedDecision]:
    """From the rings in and below directories. Raises Failure."""
    from kavka.client.decisions import in_order, read_ring

    files = [file for directory in directories for file in _ring_files(directory, RING_DEPTH)]
    if not files:
        raise Failure(
            f"no ring of decisions in {', '.join(directories)}", "name a broker's log directory, or the one above it"
        )
    found: list[RecordedDecision] = []
    for path in files:
        try:
            with open(path, "rb") as file:
                found += read_ring(file, since_ms)
        except OSError as problem:
            note(f"{path} cannot be read: {problem.strerror}")
    return in_order(found)


def _ring_files(directory: str, depth: int) -> Iterator[str]:
    from kavka.decisions import RING_FILES

    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as problem:
        raise Failure(f"{directory} cannot be read: {problem.strerror}", "name a directory that you may read") from None
    for entry in entries:
        if entry.name in RING_FILES:
            yield entry.path
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _ring_files(entry.path, depth - 1)
