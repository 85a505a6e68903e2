"""Reign: the time during which this broker is the controller, and the only way in which it writes then.

Every write is a multi behind a check of /controller_epoch. A controller that was deposed without noticing (a long
pause, an expired session) fails that check with its first write: nothing is written, `Deposed` is raised, and no later
call of this reign does anything. Orders to brokers leave through `carry_out`, after the write was committed.

Invariants:
I1  One event or request at a time: whoever decides on the context holds `turn` from the decision to the orders.
I2  The context changes only after the write that it mirrors was committed.

Source: KAFKA-6082 for the check in every write.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias

from kavka.controller.context import ControllerContext, KnownState
from kavka.controller.election import ElectionResult
from kavka.controller.topics import guarded_multis
from kavka.errors import KavkaError
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.zookeeper.port import BadVersion, NoNode, Operation, OperationResult, SessionExpired, ZooKeeper


class Deposed(KavkaError):
    """This broker is not the controller any more, or not yet; nothing was written."""


class PartitionOrder(NamedTuple):
    """A partition's state, written and to be obeyed by the brokers of `replicas`.

    `is_new`: it has just been created. `why` is the election behind it, if there was one.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None
    replicas: tuple[BrokerId, ...]
    state: LeaderAndIsr
    controller_epoch: int
    is_new: bool
    why: ElectionResult | None = None


class DeletedTopic(NamedTuple):
    """A topic whose replicas are to be deleted, everywhere."""

    name: str
    topic_id: uuid.UUID | None


class ClusterChange(NamedTuple):
    """What was decided and written, for the brokers to carry out. `brokers_changed`: others are alive than before."""

    partitions: tuple[PartitionOrder, ...] = ()
    deleted_topics: tuple[DeletedTopic, ...] = ()
    brokers_changed: bool = False


CarryOut: TypeAlias = Callable[[ClusterChange], Awaitable[None]]
"""Sends orders to the brokers, or carries them out here; returns when the answer to a client may rest on them."""


class Reign:
    """This broker's time as the controller; over when `deposed`."""

    def __init__(self, zookeeper: ZooKeeper, context: ControllerContext, carry_out: CarryOut) -> None:
        self.zookeeper = zookeeper
        self.context = context
        self.turn = asyncio.Lock()
        self.deposed = False
        self._carry_out = carry_out

    async def write(self, operations: Iterable[Operation]) -> list[OperationResult]:
        """Carries out the operations, in as few multis as they fit; the results of all.

        Raises Deposed, or what ZooKeeper says of the first multi that failed: the ones before it are committed.
        """
        results: list[OperationResult] = []
        for batch in guarded_multis(operations, self.context.epoch_version):
            if self.deposed:
                raise Deposed(f"the reign of controller epoch {self.context.epoch} is over")
            try:
                results += (await self.zookeeper.multi(batch))[1:]
            except SessionExpired as expired:
                self.deposed = True
                raise Deposed(f"the session of controller epoch {self.context.epoch} expired") from expired
            except (BadVersion, NoNode) as rejected:
                if rejected.operation_index != 0:
                    raise
                self.deposed = True
                raise Deposed(f"controller epoch {self.context.epoch} is over: {rejected}") from rejected
        return results

    async def order(self, change: ClusterChange) -> None:
        """Has the brokers carry out what was written."""
        if change != ClusterChange():
            await self._carry_out(change)

    def partition_order(
        self, partition: TopicPartition, *, is_new: bool, why: ElectionResult | None = None
    ) -> PartitionOrder:
        """The order that follows from the context's state of a partition, which has one."""
        topic = self.context.topics[partition.topic]
        known: KnownState = self.context.states[partition]
        return PartitionOrder(
            partition,
            topic.topic_id,
            topic.replicas(partition.partition),
            known.leader_and_isr,
            known.state.controller_epoch,
            is_new,
            why,
        )
