"""IdlePartitions: those partitions of a follower's fetch session that its fetches need not look at.

Decides what a fetch of the session says of them: that the follower has all there is, still. Must not know when a
partition is idle, or what changed when it is woken: `FollowerFetches` lays it aside, and whoever changes it wakes it.

    I1  an idle partition is as its follower was told, and the follower is as it said: the same log end, high
        watermark, log start, leader epoch and replicas, the same broker epoch. To look at it would find nothing to
        send, and move nothing but the two times of `RemoteReplica.on_same_fetch`
    I2  these times are one clock for all idle partitions of a session: `fetched_ms`, the time of its last fetch. A
        replica that is idle reads it, and keeps it when it is woken
    I3  a replica is idle in one session at most
    I4  what is woken is looked at by the fetch that waits now, and by the next one

A session of a follower holds thousands of partitions, and nearly all of them have nothing new: looking at each of them
with each fetch took half of the processor time of a cluster with 50,000 replicas. Apache Kafka looks at all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kavka.replication.decide.fetching import FetchSpec, PartitionKey
from kavka.replication.decide.replica import NEVER_MS

if TYPE_CHECKING:
    from kavka.replication.decide.partition import Partition
    from kavka.replication.decide.replica import RemoteReplica


class IdlePartition(NamedTuple):
    """`spec` is what the session's next fetch wants of the partition, unless it says something else."""

    partitions: IdlePartitions
    key: PartitionKey
    spec: FetchSpec
    partition: Partition
    replica: RemoteReplica


class Waiting(Protocol):
    """A fetch of the session that waits for news."""

    def on_woken(self, partition: Partition, spec: FetchSpec) -> None:
        """The partition is idle no more: the fetch waits for it too, and its answer looks at it."""
        ...


class IdlePartitions:
    """The idle partitions of one session; `awake` are the others, in the order in which they are served."""

    __slots__ = ("_awake", "_idle", "fetched_ms", "follower", "waiting")

    def __init__(self, awake: dict[PartitionKey, FetchSpec]) -> None:
        """`awake` is the session's own, and changes with what is woken."""
        self._awake = awake
        self._idle: dict[PartitionKey, IdlePartition] = {}
        self.follower: tuple[int, int] | None = None
        """Broker id and broker epoch of who fetches."""
        self.fetched_ms = NEVER_MS
        self.waiting: Waiting | None = None

    def __len__(self) -> int:
        return len(self._idle)

    def specs(self) -> Iterable[FetchSpec]:
        return (idle.spec for idle in self._idle.values())

    def ask_as(self, follower: tuple[int, int] | None) -> None:
        """Who fetches with this session now. What another said, or it itself in another registration, says nothing."""
        if follower != self.follower:
            self.wake_all()
            self.follower = follower

    def rest(self, key: PartitionKey, spec: FetchSpec, partition: Partition, replica: RemoteReplica) -> None:
        """Lays a partition of the session aside, which the last fetch has looked at. The caller has seen that I1
        holds."""
        if replica.idle is not None:
            replica.idle.partitions.wake(replica.idle)  # of a former session (I3)
        self._awake.pop(key, None)
        self._idle[key] = replica.idle = IdlePartition(self, key, spec, partition, replica)

    def wake(self, idle: IdlePartition) -> None:
        """Looks at the partition from now on. It goes to the end of the line."""
        if self._idle.pop(idle.key, None) is None:
            return
        idle.replica.on_woken(self.fetched_ms)
        self._awake[idle.key] = idle.spec
        if self.waiting is not None:
            self.waiting.on_woken(idle.partition, idle.spec)

    def wake_key(self, key: PartitionKey) -> None:
        """The client names the partition."""
        idle = self._idle.get(key)
        if idle is not None:
            self.wake(idle)

    def wake_all(self) -> None:
        for idle in list(self._idle.values()):
            self.wake(idle)
