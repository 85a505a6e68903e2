"""ControllerTerm: the time during which this broker is the controller, and the only way in which it writes then.

Every write is a multi behind a check of /controller_epoch. A controller that was replaced without noticing (a long
pause, an expired session) fails that check with its first write: it writes nothing, the write raises `NotController`,
and so does every later one of this term. Orders to brokers leave through `order`, after the write was committed.

Invariants:
I1  One event or request at a time: a flow that decides on the context holds `turn` from the decision to the orders.
I2  The context changes only after the write that it mirrors was committed.
I3  No flow waits for brokers while it holds `turn`: it waits for a `Delivery` afterwards.

Source: KAFKA-6082 for the check in every write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias

from kavka.controller.decide.context import ControllerContext
from kavka.controller.decide.election import ElectionResult
from kavka.controller.decide.reasons import Stamp
from kavka.controller.decide.topic_plans import guarded_multis
from kavka.controller.orders.delivery import Delivery
from kavka.controller.orders.orders import ClusterChange, PartitionOrder, partition_order
from kavka.controller.term.input_recorder import InputRecorder
from kavka.decisions import RecordDecision, forget
from kavka.errors import KavkaError
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.zookeeper.port import BadVersion, NoNode, Operation, OperationResult, SessionExpired, ZooKeeper

__all__ = ["ControllerTerm", "NotController", "SendOrders"]


class NotController(KavkaError):
    """This broker is not the controller any more, or not yet; nothing was written."""


SendOrders: TypeAlias = Callable[[ClusterChange], Awaitable[Delivery]]
"""Gives orders to the channels of the brokers; returns at once what can be waited for."""


class TermRecords(NamedTuple):
    """Who decides in a term, by which wall clock, and who is shown it: `record` takes the decisions, `input_recorder`
    what they are decided from."""

    broker_id: BrokerId = NO_LEADER
    now_ms: Callable[[], int] = lambda: 0
    record: RecordDecision = forget
    input_recorder: InputRecorder | None = None


class ControllerTerm:
    """This broker's time as the controller, until it `is_over`."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        context: ControllerContext,
        send_orders: SendOrders,
        records: TermRecords = TermRecords(),  # noqa: B008 - a value
        *,
        on_ended: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`on_ended` is called with the reason when the term ends."""
        self.zookeeper = zookeeper
        self.context = context
        self.turn = asyncio.Lock()
        self.is_over = False
        self.broker_id = records.broker_id
        self.now_ms = records.now_ms
        self.record = records.record
        self.input_recorder = records.input_recorder or InputRecorder()
        self._send_orders = send_orders
        self._on_ended = on_ended

    def end(self, why: str) -> None:
        """Ends the term: nothing is written any more."""
        if not self.is_over:
            self.is_over = True
            self._on_ended(why)

    async def write(self, operations: Iterable[Operation]) -> list[OperationResult]:
        """Carries out the operations, in as few multis as they fit; the results of all.

        Raises NotController, or what ZooKeeper says of the first multi that failed: the ones before it are committed.
        """
        results: list[OperationResult] = []
        for batch in guarded_multis(operations, self.context.epoch_version):
            if self.is_over:
                raise NotController(f"the term of controller epoch {self.context.epoch} is over")
            try:
                results += (await self.zookeeper.multi(batch))[1:]
            except SessionExpired as expired:
                self.end("its session expired")
                raise NotController(f"the session of controller epoch {self.context.epoch} expired") from expired
            except (BadVersion, NoNode) as rejected:
                if rejected.operation_index != 0:
                    raise
                self.end(f"controller epoch {self.context.epoch} is over")
                raise NotController(f"controller epoch {self.context.epoch} is over: {rejected}") from rejected
        return results

    def stamp(self) -> Stamp:
        """Who decides, and when, for a why-record."""
        return Stamp(self.now_ms(), self.broker_id, self.context.epoch)

    async def order(self, change: ClusterChange) -> Delivery:
        """Has the brokers carry out what was written; returns when it is on its way to them."""
        if change == ClusterChange():
            return Delivery()
        return await self._send_orders(change)

    def partition_order(
        self,
        partition: TopicPartition,
        *,
        is_new: bool,
        why: ElectionResult | None = None,
        recipients: tuple[BrokerId, ...] | None = None,
    ) -> PartitionOrder:
        """The order that follows from the context's state of a partition, which has one."""
        return partition_order(self.context, partition, is_new=is_new, why=why, recipients=recipients)
