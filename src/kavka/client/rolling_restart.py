"""A rolling restart: brokers one after the other, each when the cluster can do without it.

Decides the order, when the next one may go, and when one is back. Must not know how a broker is restarted: it is given
that. `never_safe`, `why_not`, `behind` and `answering` are pure; `RollingRestart` asks the cluster again and again,
kavka's or Apache Kafka's.

    order       by id, the controller last: else its successor would be restarted as well
    before      no partition becomes unavailable or refuses acks=all without the broker (client/durability.py)
    after       it is in the ISR of all its partitions

A replica counts as in sync where its broker has just told the replica's log end, too: one that was killed stays in the
ISR until its session with ZooKeeper is over, and what a broker knows of the ISR may be old.

I1  One broker at a time. Whoever gives up in between leaves all brokers running.
I2  A record that was acknowledged with acks=all stays: the broker hands over in order, and another in-sync replica, as
    many as min.insync.replicas asks for, has the record. What another broker's death takes in that moment, no order can
    prevent.

A partition with one replica, or as many as min.insync.replicas asks for, is never safe: it is refused before anything
is restarted, unless whoever asks accepts that it is away meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Final

from kavka.client.cluster import Cluster
from kavka.client.durability import PartitionReplicas, read_replicas, risks
from kavka.errors import KavkaError
from kavka.model import TopicPartition

LOOK_S: Final = 0.5
PATIENCE_S: Final = 600.0
"""How long a broker may take to be safe to restart, and to be in sync again."""
SHOWN: Final = 3
"""Partitions that a sentence names."""

Tell = Callable[[str], None]


class RestartStopped(KavkaError):
    """The rolling restart does not go on; all brokers were left running. `restarted` are those that it got to."""

    def __init__(self, why: str, restarted: Sequence[int]) -> None:
        super().__init__(why)
        self.restarted = tuple(restarted)


class TooFewReplicas(RestartStopped):
    """Some partitions have no replica to spare, whatever is waited for."""


def never_safe(partitions: Sequence[PartitionReplicas], brokers: Collection[int]) -> list[TopicPartition]:
    """Partitions that a restart of one of `brokers` takes away, or closes to acks=all, even where all are in sync."""
    return [
        each.partition
        for each in partitions
        if any(replica in brokers for replica in each.replicas) and len(each.replicas) - 1 < max(each.needed_in_sync, 1)
    ]


def why_not(partitions: Sequence[PartitionReplicas], broker: int, accepted: Collection[TopicPartition]) -> str:
    """Why the broker may not be restarted now, in words; empty: it may. `accepted` may be away meanwhile."""
    (risk,) = risks([each for each in partitions if each.partition not in accepted], [broker])
    if risk.unavailable:
        return f"it is the only in-sync replica of {_some(risk.unavailable)}"
    if risk.blocked:
        return f"acks=all would be refused on {_some(risk.blocked)}"
    return ""


def behind(partitions: Sequence[PartitionReplicas], broker: int) -> list[TopicPartition]:
    """Partitions that have a replica on the broker which is not in sync."""
    return [each.partition for each in partitions if broker in each.replicas and broker not in each.in_sync_replicas]


def answering(partitions: Sequence[PartitionReplicas]) -> list[PartitionReplicas]:
    """The partitions, with those replicas in sync alone whose broker answers for them."""
    return [
        each._replace(in_sync_replicas=tuple(one for one in each.in_sync_replicas if one in each.log_ends))
        for each in partitions
    ]


class RollingRestart:
    """One rolling restart. `restart` restarts a broker and returns when it serves again."""

    def __init__(self, cluster: Cluster, restart: Callable[[int], Awaitable[None]], tell: Tell) -> None:
        self._cluster = cluster
        self._restart = restart
        self._tell = tell
        self._has_partitions = False
        """Whether the cluster had any when this began."""

    async def run(self, brokers: Collection[int], *, accepts_unavailable: bool = False) -> list[int]:
        """Restarts them; returns their order. Raises RestartStopped (TooFewReplicas: nothing was restarted)."""
        from kavka.client.admin import Admin

        partitions = await read_replicas(self._cluster)
        self._has_partitions = bool(partitions)
        never = never_safe(partitions, brokers)
        if never and not accepts_unavailable:
            raise TooFewReplicas(
                f"{_some(never)} would be away or refuse acks=all while a broker restarts: there are too few replicas",
                [],
            )
        controller = (await Admin(self._cluster).describe_cluster()).controller_id
        order = sorted(brokers, key=lambda broker: (broker == controller, broker))
        restarted: list[int] = []
        for broker in order:
            await self._until(broker, partial(why_not, broker=broker, accepted=never), restarted)
            self._tell(f"Broker {broker}: restarting.")
            began = time.monotonic()
            try:
                await self._restart(broker)
            except KavkaError as problem:
                raise RestartStopped(f"broker {broker}: {problem}", restarted) from problem
            restarted.append(broker)
            self._tell(f"Broker {broker}: serves again, after {time.monotonic() - began:.1f} s.")
            await self._until(broker, partial(_missing, broker=broker), restarted)
        return restarted

    async def _until(
        self, broker: int, what: Callable[[Sequence[PartitionReplicas]], str], restarted: Sequence[int]
    ) -> None:
        """Returns when `what` has nothing to wait for any more. Raises RestartStopped after PATIENCE_S."""
        until = time.monotonic() + PATIENCE_S
        said = ""
        while True:
            try:
                await self._cluster.refresh([])  # Who was away at the first look may be back.
                found = answering(await read_replicas(self._cluster))
                # A broker that has just begun may know of none, and would find everybody in sync.
                missing = what(found) if found or not self._has_partitions else "it was told of no partition"
            except KavkaError as problem:  # A topic went between two requests, or a broker: the next look tells.
                missing = str(problem)
            if not missing:
                return
            if missing != said:
                self._tell(f"Broker {broker}: waiting, {missing}.")
                said = missing
            if time.monotonic() > until:
                raise RestartStopped(f"broker {broker}: {missing}, for {PATIENCE_S:.0f} s now", restarted)
            await asyncio.sleep(LOOK_S)


def _missing(partitions: Sequence[PartitionReplicas], broker: int) -> str:
    found = behind(partitions, broker)
    return f"its replica of {_some(found)} is not in sync yet" if found else ""


def _some(partitions: Sequence[TopicPartition]) -> str:
    names = ", ".join(map(str, partitions[:SHOWN]))
    more = len(partitions) - SHOWN
    return f"{names} and {more:,} more" if more > 0 else names
