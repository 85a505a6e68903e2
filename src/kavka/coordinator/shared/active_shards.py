"""ActiveShards: the partitions of a coordinator's topic that this broker leads, each loaded as a shard.

Each coordinator is one of these: orders to load and unload come to it from outside, and so do requests for a key.
Decides nothing; whether an order counts is decided by `Leaderships`, where a key belongs by `Placement`. Must not know
what a shard keeps, nor which broker leads what (`load` and `unload` say so).

    I1  a request for a partition that is not loaded here changes nothing: NOT_COORDINATOR, or
        COORDINATOR_LOAD_IN_PROGRESS while its log is being read
    I2  a partition is loaded and unloaded in the order of its leader epochs, in whatever sequence the orders come
        (KAFKA-10614)
    I3  a partition is served when everything that was read from it is committed. Apache Kafka reads to the end and does
        not wait; the openings of the coordinators of groups and transactions show what that can cost

Source: Kafka's CoordinatorRuntime and TransactionStateManager.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence
from typing import Generic, Protocol, TypeVar

from kavka.coordinator.shared.decide.partitions import Leaderships, Placement
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.errors import ErrorCode, RequestError
from kavka.model import LeaderEpoch


class ShardLog(Protocol):
    """The port to a coordinator's topic, as far as loading needs it."""

    def read(self, partition: int) -> AsyncIterator[Sequence[CoordinatorRecord] | OpenTransaction]:
        """All that is committed, from the start, in pieces; last, what open transactions have written."""
        ...

    def settle(self, partition: int) -> Awaitable[bool]:
        """Waits until all that is in the log now is committed; False if this broker leads it no more."""
        ...


class ActiveShard:
    """`partition` of a coordinator's topic, led here since `leader_epoch`."""

    __slots__ = ("is_gone", "leader_epoch", "loading", "partition")

    def __init__(self, partition: int, leader_epoch: LeaderEpoch) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.loading = True
        self.is_gone = False
        """Another broker leads it now: nothing here is served any more."""


_S = TypeVar("_S", bound=ActiveShard)


class ActiveShards(ABC, Generic[_S]):
    """A coordinator's partitions. `missing_topic` answers requests while there is no topic."""

    def __init__(self, log: ShardLog, *, missing_topic: ErrorCode) -> None:
        self._shard_log = log
        self._missing_topic = missing_topic
        self._placement = Placement()
        self._active: dict[int, _S] = {}
        self._leaderships = Leaderships()

    # -- what a coordinator makes of it

    @abstractmethod
    def _new_shard(self, partition: int, leader_epoch: LeaderEpoch) -> _S:
        """An empty shard."""

    @abstractmethod
    def _on_read(self, active: _S, found: Sequence[CoordinatorRecord] | OpenTransaction) -> None:
        """This piece of the log was read while the shard is loading."""

    @abstractmethod
    def _on_loaded(self, active: _S) -> None:
        """The log was read to its end and all of it is committed; sets `loading` to False."""

    @abstractmethod
    def _on_unloaded(self, active: _S) -> None:
        """The shard is served here no longer."""

    @abstractmethod
    def _on_other_count(self, count: int) -> None:
        """The topic's number of partitions has changed. No key moves (Placement)."""

    # -- where a key belongs

    @property
    def partition_count(self) -> int:
        """The number of partitions by which keys are placed; 0 while there is no topic."""
        return self._placement.count

    def set_partition_count(self, count: int) -> None:
        """Sets the topic's number of partitions; 0 if there is no topic. A change moves no key."""
        if not self._placement.learn(count):
            self._on_other_count(count)

    def partition_for(self, key: str) -> int:
        """The partition that keeps a group or a transactional id. Raises `RequestError` while there is no topic."""
        if not self._placement.count:
            raise RequestError(self._missing_topic)
        return self._placement.of(key)

    def _find(self, key: str) -> _S:
        placement = self._placement
        if not placement.count:
            raise RequestError(self._missing_topic)
        active = self._active.get(placement.of(key))
        if active is None:
            raise RequestError(ErrorCode.NOT_COORDINATOR)
        if active.loading:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return active

    # -- which partitions are here

    def load(self, partition: int, leader_epoch: LeaderEpoch) -> Coroutine[None, None, None]:
        """Takes a partition over, from this call on; to await what it returns is to read its log and then serve.

        An older epoch than one already heard of changes nothing (I2), nor does the epoch that is served.
        """
        known = self._active.get(partition)
        served = None if known is None else known.leader_epoch
        if not self._leaderships.begins(partition, leader_epoch, served=served):
            return _nothing_to_load()
        self.unload(partition)
        # Here and not in the coroutine: an `unload` between this call and its first step must find it (S51).
        active = self._active[partition] = self._new_shard(partition, leader_epoch)
        return self._read(active)

    async def _read(self, active: _S) -> None:
        partition = active.partition
        async for found in self._shard_log.read(partition):
            if active.is_gone:
                return
            self._on_read(active, found)
        # What was read may not be committed (I3). Where this broker leads no more, another order follows.
        if active.is_gone or not await self._shard_log.settle(partition) or active.is_gone:
            return
        self._on_loaded(active)

    def unload(self, partition: int, leader_epoch: LeaderEpoch | None = None) -> None:
        """Serves a partition no longer; requests that it holds are answered with NOT_COORDINATOR.

        `leader_epoch` is the one in which another broker leads it, None if it is gone for another reason. An older
        one than that of the last `load` changes nothing (I2).
        """
        if not self._leaderships.ends(partition, leader_epoch):
            return
        active = self._active.pop(partition, None)
        if active is not None:
            active.is_gone = True
            self._on_unloaded(active)

    def forget(self, partition: int) -> None:
        """The partition was deleted: one that is made in its place begins with epochs of its own."""
        self.unload(partition)
        self._leaderships.forget(partition)

    def shut_down(self) -> None:
        """Stops serving."""
        for partition in list(self._active):
            self.unload(partition)


async def _nothing_to_load() -> None:
    """What there is to be awaited where an order changes nothing."""
