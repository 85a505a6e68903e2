"""Produce waits: what an acks=all request waited for, as its leader saw it.

Decides which followers' fetches are told of. Must not know the wire format, nor who is told.

A request of the sample is told of each follower's fetch when it comes (`observed`). Any other costs nothing while it
waits: if it was slow, what followers had fetched by then is looked up afterwards (`what_was_waited_for`), so that the
fetch of the last one is exact, and an earlier one may be one that came after the fetch which had shown the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.replication.decide.replica import NEVER_MS
from kavka.traces import MAX_PARTITIONS

if TYPE_CHECKING:
    from kavka.protocol.connection import ConnectionContext, Trace
    from kavka.replication.replica_manager import ReplicaManager

NS_PER_S: Final = 1_000_000_000


class Asked(NamedTuple):
    """What is kept of a request while it waits: its bytes may go."""

    context: ConnectionContext
    correlation_id: int
    trace: Trace | None


class Wait(NamedTuple):
    """Records of one partition that are not committed yet: they are when the high watermark is `end_offset`."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int


class SeenFollower(NamedTuple):
    """How a follower stood when the request was answered. `ago_ms`: its last fetch, -1 for none in the leader's
    epoch."""

    broker_id: int
    topic: str
    partition: int
    ago_ms: int
    reached: bool
    in_sync: bool


class ProduceWait(NamedTuple):
    """What a slow request waited for."""

    waits: Sequence[Wait]
    followers: Sequence[SeenFollower]
    flush_us: int


@contextmanager
def observed(replicas: ReplicaManager, trace: Trace, waits: Sequence[Wait]) -> Iterator[None]:
    """Calls `trace` for each fetch that shows that a follower has the records."""
    watched = []
    for wait in waits[:MAX_PARTITIONS]:
        partition = replicas.partition(wait.topic, wait.partition)
        if partition is not None:
            replicas.followers.observe(partition, wait.end_offset, trace)
            watched.append(partition)
    try:
        yield
    finally:
        for partition in watched:
            replicas.followers.forget(partition, trace)


def what_was_waited_for(replicas: ReplicaManager, waits: Sequence[Wait], flush_s: float) -> ProduceWait:
    """How the followers of the partitions stand now. Those that are behind come first."""
    now_ms = replicas.now_ms()
    followers = []
    for wait in waits:
        partition = replicas.partition(wait.topic, wait.partition)
        if partition is None or not partition.is_leader:
            continue
        for replica in partition.remote_replicas():
            ago_ms = -1 if replica.last_fetch_ms == NEVER_MS else max(now_ms - replica.last_fetch_ms, 0)
            reached = replica.log_end_offset >= wait.end_offset
            in_sync = replica.broker_id in partition.state.isr
            followers.append(SeenFollower(replica.broker_id, wait.topic, wait.partition, ago_ms, reached, in_sync))
    followers.sort(key=lambda each: (each.reached, each.ago_ms))
    return ProduceWait(waits[:MAX_PARTITIONS], followers[:MAX_PARTITIONS], int(flush_s * 1e6))
