"""Controlled shutdown: a broker that is about to stop hands over what it leads and leaves the ISRs it is in.

A flow in the controller's term; what becomes of each partition is decided by `decide.controlled_shutdown`. From the
request on the broker counts as shutting down, until it is registered with another epoch: it wins no election and joins
no ISR. A follower is told to stop fetching when it has left the ISR. The answer names the partitions that no
other broker can take over: they remain with the broker.

Source: Kafka's KafkaController.doControlledShutdown; KIP-380, KIP-841.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.controller.decide.context import KnownState
from kavka.controller.decide.controlled_shutdown import Leaving
from kavka.controller.decide.election import PartitionChange
from kavka.controller.decide.reasons import broker_decision
from kavka.controller.orders.orders import ClusterChange, StopOrder
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.leaders import PARTITIONS_PER_WRITE, Leaders
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode, RequestError
from kavka.model import BrokerId, TopicPartition


class ControlledShutdown:
    """Takes brokers out of the cluster, in one term."""

    def __init__(self, term: ControllerTerm, leaders: Leaders) -> None:
        self._term = term
        self._context = term.context
        self._leaders = leaders

    async def begin(self, broker_id: BrokerId, broker_epoch: int) -> list[TopicPartition]:
        """Hands over what the broker leads; returns the partitions that it still leads and others have a replica of.

        `broker_epoch` -1 is any. Raises RequestError (STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE), NotController,
        ZooKeeperError. To be asked again until nothing remains.
        """
        async with self._term.turn:
            registered = self._context.broker_epoch(broker_id)
            if broker_id not in self._context.brokers:
                raise RequestError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not registered")
            if broker_epoch not in (-1, registered):
                raise RequestError(
                    ErrorCode.STALE_BROKER_EPOCH,
                    f"broker {broker_id} is registered with epoch {registered}, not {broker_epoch}",
                )
            is_first = broker_id not in self._context.shutting_down
            self._context.shutting_down[broker_id] = registered
            if is_first:
                # Leaders learn it before they lead more: they need not propose it for the ISR.
                await self._term.order(ClusterChange(brokers_changed=True))
            await self._hand_over(broker_id)
            remaining = self._led(broker_id)
            if is_first or not remaining:
                self._record(broker_id, remaining)
            return remaining

    async def _hand_over(self, broker_id: BrokerId) -> None:
        context = self._context
        partitions = [
            partition
            for partition in context.states
            if partition.topic not in context.topics_to_delete and self._is_shared(partition, broker_id)
        ]
        for start in range(0, len(partitions), PARTITIONS_PER_WRITE):
            # A part at a time: the brokers carry out the first thousand while the next are decided and written.
            await self._hand_over_some(broker_id, partitions[start : start + PARTITIONS_PER_WRITE])

    async def _hand_over_some(self, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        context = self._context
        followed = [partition for partition in partitions if context.states[partition].state.leader != broker_id]
        live, shutting_down = tuple(context.reachable_broker_ids()), tuple(context.shutting_down)

        def decide(partition: TopicPartition, known: KnownState) -> PartitionChange | None:
            replicas = context.topics[partition.topic].replicas(partition.partition)
            question = Leaving(broker_id, replicas, live, shutting_down, context.epoch)
            return self._leaders.ask(partition, known, question)

        orders = await self._leaders.change(partitions, decide)
        stops = [
            StopOrder(partition, broker_id, context.states[partition].state.leader_epoch, delete=False)
            for partition in followed
            if partition in context.states and context.states[partition].state.leader != broker_id
        ]
        stopped = {stop.topic_partition for stop in stops}
        # A replica that is ordered to stop is not ordered to follow at the same time.
        orders = [
            order._replace(recipients=tuple(replica for replica in order.replicas if replica != broker_id))
            if order.topic_partition in stopped
            else order
            for order in orders
        ]
        await self._term.order(ClusterChange(partitions=tuple(orders), stops=tuple(stops)))

    def _is_shared(self, partition: TopicPartition, broker_id: BrokerId) -> bool:
        replicas = self._context.topics[partition.topic].replicas(partition.partition)
        return len(replicas) > 1 and broker_id in replicas

    def _led(self, broker_id: BrokerId) -> list[TopicPartition]:
        return [
            partition
            for partition, known in self._context.states.items()
            if known.state.leader == broker_id and self._is_shared(partition, broker_id)
        ]

    def _record(self, broker_id: BrokerId, remaining: Sequence[TopicPartition]) -> None:
        self._term.record(
            broker_decision(
                self._term.stamp(),
                DecisionKind.BROKER_SHUTTING_DOWN,
                broker_id,
                f"broker {broker_id} asked for its controlled shutdown; partitions with replicas on other brokers that "
                f"it still leads: {len(remaining)}",
                {
                    "broker_epoch": self._context.shutting_down[broker_id],
                    "remaining": tuple(map(str, remaining[:MAX_NAMED])),
                },
            )
        )


MAX_NAMED = 20
"""Partitions that a record names at the most."""
