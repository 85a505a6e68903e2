"""BrokerChanges: what follows when brokers come, go, bounce, fall silent, or lose a log directory.

A flow in the controller's term; who leads afterwards is decided by `election`, through `leaders`. It must not know how
it was found out, nor how orders travel.

    came          its replicas are ONLINE, it is sent everything; partitions without a leader may get one
    went          its partitions get other leaders, it leaves every ISR; deletions wait for it
    bounced       the same id with another epoch: it went and came (S26)
    unreachable   registered, but it refuses connections: as if it went, and it stays registered. It leads nothing, and
                  holds up no acknowledgement, until it takes connections again or its epoch changes
    reachable     that is over: it may lead again
    behind        requests to it were dropped, and it answers again: it is sent everything
    unclean       it came, and its last stop was not clean (only where eligible leader replicas are kept): with the same
                  write that would have it lead, it is out of ISR and ELR of its partitions. Then that is noted in a
                  znode, so that the next controller does not do it again; it is sent nothing before
    failed        replicas of it are in a failed log directory: they are out, the others of the broker go on

Why it is safe to act on an unreachable broker before its session is over: nothing is given to anybody that the broker
could contradict. A new leader comes from the ISR and so has every committed record; every state is written with a
higher leader epoch, by compare-and-set. If the broker lives after all, what it still acknowledges as a leader of the
old epoch must be in the whole old ISR, whose members refuse its epoch as soon as they know the new one; and a member
that does not know it yet keeps what it fetched, since the new leader was in that ISR too.

Invariants:
I1  All that is dead or unreachable by the time of one event is dealt with together: members of an ISR that died in one
    instant leave it as it was, and whichever returns first may lead (case C).
I2  A broker's marks go with its epoch.
I3  What an unclean stop may have cost counts before the broker is sent anything, also if controllers change meanwhile.

Source: Kafka's KafkaController.onBrokerStartup and onBrokerFailure, processLeaderAndIsrResponseReceived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from kavka.controller.decide.context import LiveBroker
from kavka.controller.decide.reasons import broker_decision
from kavka.controller.decide.state_machines import Replica
from kavka.controller.orders.orders import ClusterChange, PartitionOrder, partition_order
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.leaders import PARTITIONS_PER_WRITE, Leaders
from kavka.controller.work.topic_deletion import TopicDeletions
from kavka.decisions import DecisionKind, Facts
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.port import Create, NoNode, SetData
from kavka.zookeeper.znodes import MalformedZNode, UncleanShutdowns


class BrokerChanges:
    """Takes in who is alive, in one term. All methods are called with `turn` held; they raise NotController and
    ZooKeeperError."""

    def __init__(self, term: ControllerTerm, leaders: Leaders, deletions: TopicDeletions) -> None:
        self._term = term
        self._context = term.context
        self._leaders = leaders
        self._deletions = deletions

    def serving(self) -> list[TopicPartition]:
        """Partitions of topics that are not being deleted."""
        return [
            partition
            for name, topic in self._context.topics.items()
            if name not in self._context.topics_to_delete
            for partition in topic.topic_partitions()
        ]

    async def take_in(self, brokers: dict[BrokerId, LiveBroker]) -> list[BrokerId]:
        """These brokers are registered now; returns those whose life changed."""
        context, before = self._context, self._context.brokers
        went = [key for key in before if key not in brokers]
        bounced = [key for key, live in brokers.items() if key in before and before[key].epoch != live.epoch]
        came = [key for key in brokers if key not in before]
        if not went and not bounced and not came:
            is_other = brokers != before
            context.set_brokers(brokers)
            if is_other:
                await self._term.order(ClusterChange(brokers_changed=True))
            return []
        for broker_id in went:
            self._note(DecisionKind.BROKER_WENT, broker_id, "its session ended", before[broker_id].epoch)
        for broker_id in bounced:
            why = f"it registered again; its epoch was {before[broker_id].epoch}"
            self._note(DecisionKind.BROKER_CAME, broker_id, why, brokers[broker_id].epoch)
        for broker_id in came:
            self._note(DecisionKind.BROKER_CAME, broker_id, "it registered", brokers[broker_id].epoch)
        partitions = self.serving()
        changes: dict[TopicPartition, PartitionOrder] = {}
        gone = set(went) | set(bounced)
        unclean = [key for key in came if self._leaders.keeps_elr and brokers[key].registration.is_unclean]
        later = {*bounced, *unclean}
        try:
            context.set_brokers(brokers)
            self._forget_failures(gone)
            self._deletions.suspend(gone)
            # A broker that bounced lost its leaderships with its former epoch: once without it.
            _merge(changes, await self._leaders.react(partitions, may_lose=not later, absent=later))
            if later:
                _merge(changes, await self._leaders.react(partitions))
                await self.note_acted_on()
            if came or bounced:
                new = [key for key in partitions if key not in context.states]
                _merge(changes, await self._leaders.initialise(new))
        except BaseException:
            # To be found changed again by the next attempt: the brokers are as they were, what was written is ordered.
            context.set_brokers(before)
            await self._term.order(ClusterChange(partitions=tuple(changes.values())))
            raise
        self._leaders.place_replicas(partitions)
        await self._term.order(
            ClusterChange(
                partitions=tuple(changes.values()), brokers_changed=True, new_brokers=tuple(sorted(came + bounced))
            )
        )
        await self._deletions.resume(came + bounced)
        return sorted({*went, *bounced, *came})

    async def on_unreachable(self, lost: Mapping[BrokerId, int]) -> list[BrokerId]:
        """These brokers, by id with their epoch, refuse connections. Returns those for which that is news."""
        news = self.mark_unreachable(lost)
        # Also where it is none: an attempt that failed has marked them without electing leaders.
        await self._react_on([broker_id for broker_id in lost if broker_id in self._context.unreachable])
        return news

    def mark_unreachable(self, lost: Mapping[BrokerId, int]) -> list[BrokerId]:
        """As `on_unreachable`, but without elections: these are left to the caller."""
        context = self._context
        news = [
            broker_id
            for broker_id, epoch in lost.items()
            if context.broker_epoch(broker_id) == epoch and broker_id not in context.unreachable
        ]
        for broker_id in news:
            context.unreachable[broker_id] = lost[broker_id]
            why = "its connection was reset and it refuses new ones; its session has not ended yet"
            self._note(DecisionKind.BROKER_UNREACHABLE, broker_id, why, lost[broker_id])
        self._deletions.suspend(news)
        return news

    async def on_reachable(self, broker_id: BrokerId, epoch: int) -> None:
        """A broker that was unreachable takes connections again."""
        if self._context.unreachable.get(broker_id) != epoch:
            return
        del self._context.unreachable[broker_id]
        try:
            await self._react_on([broker_id])
            await self.note_acted_on()
        except BaseException:
            # The next attempt must find the broker unreachable: otherwise it would elect no leaders.
            if self._context.broker_epoch(broker_id) == epoch:
                self._context.unreachable[broker_id] = epoch
            raise
        self._note(DecisionKind.BROKER_CAME, broker_id, "it accepts connections again", epoch)
        await self._deletions.resume([broker_id])

    async def on_behind(self, broker_id: BrokerId, epoch: int) -> None:
        """Requests to the broker were dropped: it is sent everything."""
        if self._context.broker_epoch(broker_id) == epoch:
            await self._term.order(ClusterChange(brokers_changed=True, new_brokers=(broker_id,)))
            await self._deletions.resume([broker_id])

    async def on_failed_replicas(self, broker_id: BrokerId, epoch: int, partitions: Sequence[TopicPartition]) -> None:
        """The broker has these replicas in a failed log directory."""
        context = self._context
        if context.broker_epoch(broker_id) != epoch:
            return
        news = [
            partition
            for partition in partitions
            if partition in context.states and Replica(partition, broker_id) not in context.failed_replicas
        ]
        if not news:
            return
        replicas = [Replica(partition, broker_id) for partition in news]
        context.failed_replicas.update(dict.fromkeys(replicas))
        named = ", ".join(map(str, news[:MAX_NAMED]))
        why = f"a log directory of broker {broker_id} failed; replicas in it: {len(news)} ({named})"
        self._note(DecisionKind.LOG_DIRECTORY_OFFLINE, broker_id, why, epoch)
        try:
            await self._react(news)
        except BaseException:
            # They must be news for the next attempt: otherwise it would elect no leaders.
            for replica in replicas:
                context.failed_replicas.pop(replica, None)
            raise

    async def ask_for_failures(self, broker_id: BrokerId) -> None:
        """A log directory of the broker failed: it is sent the orders for all its replicas, to learn which it lost."""
        orders = tuple(
            partition_order(self._context, partition, recipients=(broker_id,))
            for partition in self._context.states
            if partition.topic not in self._context.topics_to_delete
            and broker_id in self._context.topics[partition.topic].replicas(partition.partition)
        )
        await self._term.order(ClusterChange(partitions=orders))

    async def load_acted_on(self) -> None:
        """Reads which unclean stops other controllers acted upon."""
        if self._leaders.keeps_elr:
            found = (await self._term.zookeeper.get_many([UncleanShutdowns.PATH]))[0]
            # Of garbage nothing was acted upon: to act once more costs a catching-up, never a record.
            with suppress(MalformedZNode):
                self._context.acted_on = {} if found is None else dict(UncleanShutdowns.decode(found[0]).acted_on)

    async def note_acted_on(self) -> None:
        """All partitions were brought to what follows from unclean stops; not so for brokers that take no connections:
        they were not there to be elected as a last resort."""
        context = self._context
        if not self._leaders.keeps_elr:
            return
        news = {
            key: context.brokers[key].epoch for key in context.unclean_broker_ids() if key not in context.unreachable
        }
        if not news:
            return
        # Of a dead broker, too: when it is back it asks whether its last loss was acted on
        # (broker/membership/incarnation.py).
        assigned = (replicas for topic in context.topics.values() for replicas in topic.assignment.partitions.values())
        known = {*context.brokers, *chain.from_iterable(assigned)}
        acted_on = {key: epoch for key, epoch in {**context.acted_on, **news}.items() if key in known}
        data = UncleanShutdowns(acted_on).encode()
        try:
            # Only the controller writes it, which every write of a term checks.
            await self._term.write([SetData(UncleanShutdowns.PATH, data)])
        except NoNode:
            await self._term.write([Create(UncleanShutdowns.PATH, data)])
        context.acted_on = acted_on

    async def elect_offline(self, topics: Iterable[str] | None) -> None:
        """Partitions of these topics (None: of all) that have no leader get one if now they may. Eligible leader
        replicas that are void by now are dropped."""
        context = self._context
        if topics is None:
            looked_at: Iterable[TopicPartition] = context.states
        else:
            # A cluster has many thousand partitions, and a topic whose setting changed a few.
            found = (context.topics[name] for name in dict.fromkeys(topics) if name in context.topics)
            looked_at = [each for topic in found for each in topic.topic_partitions() if each in context.states]
        await self._react(
            [
                partition
                for partition in looked_at
                if partition.topic not in context.topics_to_delete
                and (
                    context.states[partition].state.leader not in context.brokers
                    or context.states[partition].state.eligible_leader_replicas
                )
            ]
        )

    # ------------------------------------------------------------------------------------------------------ steps

    async def _react_on(self, broker_ids: Sequence[BrokerId]) -> None:
        """Elects what these brokers have replicas of."""
        concerned = set(broker_ids)
        await self._react(
            [
                partition
                for partition in self.serving()
                if not concerned.isdisjoint(self._context.topics[partition.topic].replicas(partition.partition))
            ]
        )

    async def _react(self, partitions: Sequence[TopicPartition]) -> None:
        """Elects and orders a part at a time: of ten thousand partitions the first are led again a second before the
        last."""
        for start in range(0, len(partitions), PARTITIONS_PER_WRITE):
            some = partitions[start : start + PARTITIONS_PER_WRITE]
            orders = await self._leaders.react(some)
            new = [partition for partition in some if partition not in self._context.states]
            orders += await self._leaders.initialise(new)
            self._leaders.place_replicas(some)
            await self._term.order(ClusterChange(partitions=tuple(orders)))

    def _forget_failures(self, broker_ids: Iterable[BrokerId]) -> None:
        gone = set(broker_ids)
        for replica in [each for each in self._context.failed_replicas if each.broker_id in gone]:
            del self._context.failed_replicas[replica]

    def _note(self, kind: DecisionKind, about: BrokerId, why: str, epoch: int) -> None:
        evidence: Facts = {"broker_epoch": epoch, "registered": tuple(sorted(self._context.brokers))}
        self._term.record(broker_decision(self._term.stamp(), kind, about, f"broker {about}: {why}", evidence))


MAX_NAMED = 20
"""Partitions that a record names at the most."""


def _merge(changes: dict[TopicPartition, PartitionOrder], orders: Iterable[PartitionOrder]) -> None:
    for order in orders:
        changes[order.topic_partition] = order
