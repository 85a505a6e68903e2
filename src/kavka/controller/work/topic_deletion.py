"""Topic deletion: replicas first, on every broker, then the znodes.

A flow, driven by the states of the topic's replicas. The wish is the topic's znode in /admin/delete_topics, so a
controller that dies in between is followed by one that begins again: brokers delete twice without harm.

    replica           on a broker that serves        its broker is gone, refuses connections, or failed to delete
    begin             DELETION_STARTED, StopReplica  DELETION_INELIGIBLE: waits for the broker
    answered NONE     DELETION_SUCCESSFUL
    answered an error DELETION_INELIGIBLE
    broker came back  DELETION_STARTED again

When all replicas of a topic are DELETION_SUCCESSFUL its znodes are deleted, the mark last, and it is forgotten.

Invariants:
I1  Znodes of a topic go only after every replica of it is deleted: no broker is left with a log of an unknown topic.
I2  A topic that is being deleted takes part in no election, and no other topic takes its name.

Source: Kafka's TopicDeletionManager; there a replica is stopped first and deleted by a second request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from kavka.controller.decide.state_machines import PartitionStatus, Replica, ReplicaStatus
from kavka.controller.decide.topic_plans import TopicZNodes, deletion_operations
from kavka.controller.orders.control_requests import EPOCH_DURING_DELETE
from kavka.controller.orders.orders import ClusterChange, DeletedTopic, StopOrder
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.leaders import Leaders
from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.port import Delete, NoNode, NotEmpty, Operation, OutcomeUnknown
from kavka.zookeeper.znode_paths import (
    delete_topic_path,
    partition_path,
    partition_state_path,
    topic_config_path,
    topic_partitions_path,
    topic_path,
)

MAX_WRITE_ATTEMPTS = 5
"""How often the znodes of one topic are read and deleted anew, because some of them were gone meanwhile."""

_DELETING = (ReplicaStatus.DELETION_STARTED, ReplicaStatus.DELETION_SUCCESSFUL)


class TopicDeletions:
    """The deletions of one term. Methods say whether they are called with `turn` held."""

    def __init__(self, term: ControllerTerm, leaders: Leaders, *, are_enabled: bool = True) -> None:
        """`are_enabled`: delete.topic.enable."""
        self.are_enabled = are_enabled
        self._term = term
        self._context = term.context
        self._leaders = leaders
        self._waiters: dict[str, asyncio.Event] = {}

    async def begin(self, names: Iterable[str]) -> None:
        """With `turn` held: topics whose mark is written are to be deleted. Marks of unknown topics are removed.

        Raises NotController, ZooKeeperError.
        """
        known: list[str] = []
        for name in names:
            if name in self._context.topics:
                self._context.topics_to_delete[name] = None
                known.append(name)
            else:
                await self._remove_mark(name)
        partitions = [partition for name in known for partition in self._context.topics[name].topic_partitions()]
        self._leaders.note(self._context.partitions.move(partitions, PartitionStatus.OFFLINE).refused)
        replicas = self._context.replicas_of(partitions)
        await self._start(known, [each for each in replicas if self._context.replicas.state(each) not in _DELETING])
        for name in known:
            await self._complete(name)

    async def resume(self, broker_ids: Iterable[BrokerId]) -> None:
        """With `turn` held: these brokers are back; what they still have of deleted topics is deleted."""
        back = set(broker_ids)
        waiting = [
            replica
            for status in (ReplicaStatus.DELETION_INELIGIBLE, ReplicaStatus.DELETION_STARTED)
            for replica in self._context.replicas.keys(status)
            if replica.broker_id in back
        ]
        # What was asked of the broker's former life was not answered, and never will be.
        started = [each for each in waiting if self._context.replicas.state(each) is ReplicaStatus.DELETION_STARTED]
        self._context.replicas.move(started, ReplicaStatus.DELETION_INELIGIBLE)
        await self._start([], waiting)

    def suspend(self, broker_ids: Iterable[BrokerId]) -> None:
        """With `turn` held: these brokers are gone; deletion waits for them."""
        gone = set(broker_ids)
        started = self._context.replicas.keys(ReplicaStatus.DELETION_STARTED)
        self._context.replicas.move(
            [each for each in started if each.broker_id in gone], ReplicaStatus.DELETION_INELIGIBLE
        )

    async def on_stopped(
        self, broker_id: BrokerId, deleted: Sequence[TopicPartition], failed: Sequence[TopicPartition]
    ) -> None:
        """A broker answered. Takes `turn` itself. Raises NotController, ZooKeeperError."""
        async with self._term.turn:
            doomed = self._context.topics_to_delete
            replicas = self._context.replicas
            gone = [Replica(each, broker_id) for each in deleted if each.topic in doomed]
            left = [Replica(each, broker_id) for each in failed if each.topic in doomed]
            replicas.move(
                [each for each in gone if replicas.state(each) is ReplicaStatus.DELETION_STARTED],
                ReplicaStatus.DELETION_SUCCESSFUL,
            )
            replicas.move(
                [each for each in left if replicas.state(each) is ReplicaStatus.DELETION_STARTED],
                ReplicaStatus.DELETION_INELIGIBLE,
            )
            for name in dict.fromkeys(each.topic_partition.topic for each in gone):
                await self._complete(name)

    async def wait_deleted(self, name: str, timeout_ms: int) -> bool:
        """Returns when the topic is gone (True), or after `timeout_ms` (False). Not with `turn` held."""
        if name not in self._context.topics:
            return True
        waiter = self._waiters.setdefault(name, asyncio.Event())
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter.wait()
        except TimeoutError:
            return False
        return True

    # ------------------------------------------------------------------------------------------------------ steps

    async def _start(self, names: Sequence[str], replicas: Sequence[Replica]) -> None:
        """Has the replicas deleted where their brokers serve, and the topics `names` taken out of the metadata."""
        table = self._context.replicas
        waiting = [each for each in replicas if table.state(each) is ReplicaStatus.DELETION_INELIGIBLE]
        others = [each for each in replicas if table.state(each) is not ReplicaStatus.DELETION_INELIGIBLE]
        self._leaders.note(table.move(others, ReplicaStatus.OFFLINE).refused)
        table.move([each for each in waiting if not self._context.is_offline(*each)], ReplicaStatus.OFFLINE)
        eligible = [each for each in replicas if not self._context.is_offline(*each)]
        away = [each for each in others if self._context.is_offline(*each)]
        self._leaders.note(table.move(eligible, ReplicaStatus.DELETION_STARTED).refused)
        self._leaders.note(table.move(away, ReplicaStatus.DELETION_INELIGIBLE).refused)
        await self._term.order(
            ClusterChange(
                deleted_topics=tuple(DeletedTopic(name, self._context.topics[name].topic_id) for name in names),
                stops=tuple(
                    StopOrder(each.topic_partition, each.broker_id, EPOCH_DURING_DELETE, delete=True)
                    for each in eligible
                ),
            )
        )

    async def _complete(self, name: str) -> None:
        """Deletes the znodes of a topic if all its replicas are deleted."""
        topic = self._context.topics.get(name)
        if topic is None:
            return
        replicas = self._context.replicas_of(topic.topic_partitions())
        if any(self._context.replicas.state(each) is not ReplicaStatus.DELETION_SUCCESSFUL for each in replicas):
            return
        for attempt in range(MAX_WRITE_ATTEMPTS):
            try:
                await self._term.write(await self._deletion(name))
            except (NoNode, NotEmpty, OutcomeUnknown):
                if attempt == MAX_WRITE_ATTEMPTS - 1:
                    raise
                continue
            break
        self._context.remove_topic(name)
        waiter = self._waiters.pop(name, None)
        if waiter is not None:
            waiter.set()
        brokers = sorted({each.broker_id for each in replicas})
        self._term.record(
            Decision(
                DecisionKind.TOPIC_DELETED,
                self._term.now_ms(),
                self._term.broker_id,
                f"topic {name} is deleted: replicas on brokers {brokers}, {len(replicas)} in all, then its znodes",
                controller_epoch=self._context.epoch,
                evidence={"topic": name, "replicas": len(replicas), "brokers": tuple(brokers)},
            )
        )

    async def _deletion(self, name: str) -> list[Operation]:
        """The operations for what is there of the topic: an earlier attempt may have deleted a part."""
        partitions = sorted(self._context.topics[name].assignment.partitions)
        states = [partition_state_path(TopicPartition(name, partition)) for partition in partitions]
        nodes = [partition_path(TopicPartition(name, partition)) for partition in partitions]
        others = [topic_partitions_path(name), topic_config_path(name), topic_path(name), delete_topic_path(name)]
        found = await self._term.zookeeper.get_many([*states, *nodes, *others])
        there = [node is not None for node in found]
        count = len(partitions)
        with_state = [partition for partition, is_there in zip(partitions, there[:count], strict=True) if is_there]
        with_node = [
            partition for partition, is_there in zip(partitions, there[count : 2 * count], strict=True) if is_there
        ]
        partitions_node, config, topic, mark = there[2 * count :]
        return list(deletion_operations(name, TopicZNodes(with_state, with_node, partitions_node, config, topic, mark)))

    async def _remove_mark(self, name: str) -> None:
        try:
            await self._term.write([Delete(delete_topic_path(name))])
        except NoNode:
            pass  # An answer was lost, or somebody else removed it.
        self._context.topics_to_delete.pop(name, None)
