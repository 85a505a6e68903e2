"""Reassignments: carries partitions from the replicas that they have to the ones that they are to have.

A flow in the controller's term: it asks `reassignment` what is next, writes it, and has the brokers carry it out. It
must not decide what is allowed or complete.

Every change goes through the same writes, in this order, so that a controller that dies between any two of them leaves
what the next one can go on from with the topic's znode alone:

    1. partition state     leader and ISR without the replicas that are dropped, in a new leader epoch
       orders              the others learn it; the dropped replicas are stopped and deleted
    2. topic znode         the new assignment
    3. partition state     a new leader epoch, where replicas are added
       orders              the new replicas begin to follow

Beginning is 2 and 3, completing and cancelling are 1 and 2, an override may be all three. Where a controller ended
after 1 or 2 and the znode says that replicas come or go, the next one begins with 3.

What moves it on is a change of the ISR, which the leader writes: the state znodes of partitions under reassignment are
watched, whichever broker writes them (`note_changed`, `advance`). What old tools ask for is read by
`submitted_reassignments`.

Source: Kafka's KafkaController, KIP-455.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kavka.controller.decide.context import KnownState, KnownTopic
from kavka.controller.decide.dropped_replicas import DroppedReplicas
from kavka.controller.decide.election import PartitionChange
from kavka.controller.decide.reasons import PartitionView, id_list, reassignment_decision, reassignment_refused_decision
from kavka.controller.decide.reassignment import (
    Beginning,
    ReassignmentRefused,
    ReplicaAssignment,
    Settling,
    Step,
    assigned,
    dropped,
    next_step,
    plan_reassignment,
    with_assigned,
)
from kavka.controller.decide.state_machines import Replica, ReplicaStatus
from kavka.controller.orders.orders import ClusterChange, PartitionOrder, StopOrder, partition_order
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.leaders import Leaders
from kavka.controller.work.submitted_reassignments import SubmittedReassignments
from kavka.errors import ErrorCode, ZooKeeperError
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.port import BadVersion, NoNode, OutcomeUnknown, SetData, Stat
from kavka.zookeeper.znode_paths import REASSIGN_PARTITIONS_PATH, TOPICS_PATH, partition_state_path, topic_path
from kavka.zookeeper.znodes import MalformedZNode, TopicAssignment

MAX_WRITE_ATTEMPTS: Final = 5
"""How often an assignment is written anew because somebody else changed the topic's znode meanwhile."""
WATCHES_AT_ONCE: Final = 100
"""State znodes that are read, with a watch, in one go."""

_GONE: Final = ReassignmentRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")

_UNSETTLED: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR)


Outcomes = dict[TopicPartition, ReassignmentRefused | None]
"""By partition: None where the wish is granted."""


class Reassignments:
    """The partitions under reassignment, in one term. Methods that wait take the term's turn; they raise
    NotController and ZooKeeperError."""

    def __init__(
        self,
        term: ControllerTerm,
        leaders: Leaders,
        *,
        on_work: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_work` is called after a failed write: call `advance` then, after a pause."""
        self._term = term
        self._leaders = leaders
        self._context = term.context
        self._zookeeper = term.zookeeper
        self._on_work = on_work
        self._under_way: dict[TopicPartition, None] = {}
        self._watched: dict[TopicPartition, None] = {}
        self._cut_off: dict[TopicPartition, None] = {}
        """Written, but not every replica was told, as far as this controller knows."""
        self._uncertain: dict[str, None] = {}
        """Topics whose znode may hold another assignment than the context: a write failed, or its answer was lost."""
        self._submitted = SubmittedReassignments(term)
        self._take_again = False
        self._dropped = DroppedReplicas(term.context)
        self._decided_with: list[BrokerId] = []
        """Brokers that could lead when all partitions were looked at last."""

    # ---------------------------------------------------------------------------------------------------- what is there

    def listing(self) -> dict[TopicPartition, ReplicaAssignment]:
        """The partitions under reassignment."""
        self._forget_deleted()
        return {partition: self._assigned(partition) for partition in self._under_way}

    @property
    def any_under_way(self) -> bool:
        self._forget_deleted()
        return bool(self._under_way)

    # ---------------------------------------------------------------------------------------------------------- inputs

    async def alter(
        self, wishes: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool = True
    ) -> Outcomes:
        """Begins, overrides or (None) cancels the reassignment of each partition, each for itself.

        A granted wish is written, and survives this controller. Raises NotController only.
        """
        async with self._term.turn:
            try:
                # A later wish takes the place of one that lies in the znode.
                await self._submitted.remove(wishes)
            except ZooKeeperError:
                pass  # What stays there is taken for done when the partition gets where it is to be.
            return await self._alter(wishes, may_change_factor=may_change_factor)

    async def resume(self) -> None:
        """Goes on with what earlier controllers began. To be called once, after the term's first orders."""
        async with self._term.turn:
            self._find(self._context.topics)
            await self._take_submitted()
            await self._advance()

    async def take_submitted(self) -> None:
        """Takes in what /admin/reassign_partitions holds, and watches it."""
        async with self._term.turn:
            await self._take_submitted()

    def note_changed(self, path: str) -> bool:
        """A watch on the znode at `path` fired; whether `advance` is to be called for it."""
        if not path.startswith(f"{TOPICS_PATH}/"):
            return False
        topic, _, rest = path[len(TOPICS_PATH) + 1 :].partition("/partitions/")
        number, _, leaf = rest.partition("/")
        if leaf != "state" or not number.isdecimal():
            return False
        partition = TopicPartition(topic, int(number))
        if partition not in self._watched:
            return False
        del self._watched[partition]
        return True

    def note_stopped(self, broker_id: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """The broker deleted its replicas of these."""
        self._dropped.on_deleted(broker_id, partitions)

    async def advance(self) -> None:
        """Brings every partition under reassignment as far as it gets: after changes of ISRs, and of brokers."""
        async with self._term.turn:
            if self._take_again:
                await self._take_submitted()
            await self._advance()

    # ---------------------------------------------------------------------------------------------------------- wishes

    async def _alter(
        self, wishes: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool = True
    ) -> Outcomes:
        outcomes: Outcomes = {}
        planned: dict[TopicPartition, ReplicaAssignment] = {}
        live = self._context.electable_broker_ids()
        for partition, target in wishes.items():
            plan = self._plan(partition, target, live, may_change_factor=may_change_factor)
            if isinstance(plan, ReassignmentRefused):
                outcomes[partition] = plan
            else:
                planned[partition] = plan
        try:
            outcomes.update(await self._move(planned))
        except OutcomeUnknown as unknown:
            self._cut_short(planned)
            outcomes.update(dict.fromkeys(planned, ReassignmentRefused(ErrorCode.REQUEST_TIMED_OUT, str(unknown))))
        except ZooKeeperError as failure:
            self._cut_short(planned)
            outcomes.update(dict.fromkeys(planned, ReassignmentRefused(ErrorCode.UNKNOWN_SERVER_ERROR, str(failure))))
        try:
            await self._advance()
        except ZooKeeperError:
            self._on_work()  # What was granted is written; it goes on later.
        return {partition: outcomes[partition] for partition in wishes}

    def _plan(
        self,
        partition: TopicPartition,
        target: Sequence[int] | None,
        live: Sequence[BrokerId],
        *,
        may_change_factor: bool,
    ) -> ReplicaAssignment | ReassignmentRefused:
        known = self._context.topics.get(partition.topic)
        if (
            known is None
            or partition.partition not in known.assignment.partitions
            or partition.topic in self._context.topics_to_delete
        ):
            return _GONE
        if partition not in self._context.states:
            message = "The partition has never had a leader: none of its replicas was alive yet."
            return ReassignmentRefused(ErrorCode.LEADER_NOT_AVAILABLE, message)
        return plan_reassignment(
            assigned(known.assignment, partition.partition), target, live, may_change_factor=may_change_factor
        )

    def _cut_short(self, partitions: Iterable[TopicPartition]) -> None:
        """A write failed, and it is unknown how far it came: the znodes will show."""
        self._uncertain.update({partition.topic: None for partition in partitions})
        self._on_work()

    # ------------------------------------------------------------------------------------------------- the three writes

    async def _move(self, planned: Mapping[TopicPartition, ReplicaAssignment]) -> Outcomes:
        """Brings each partition from its assignment to the one that is planned."""
        before = {partition: self._assigned(partition) for partition in planned}
        # Who wants what is there, or on its way already, has it.
        changed = {partition: plan for partition, plan in planned.items() if plan != before[partition]}
        outcomes: Outcomes = {partition: None for partition in planned if partition not in changed}
        outcomes.update(await self._drop(changed))
        granted = {partition: plan for partition, plan in changed.items() if partition not in outcomes}
        outcomes.update(await self._write_assignments(granted))
        granted = {partition: plan for partition, plan in granted.items() if partition not in outcomes}
        for partition, plan in granted.items():
            outcomes[partition] = None
            self._note_moved(partition, before[partition], plan)
            self._end(partition)
            if plan.is_being_reassigned:
                self._under_way[partition] = None
            if plan.is_being_reassigned or not dropped(before[partition], plan):
                self._cut_off[partition] = None
        return outcomes

    async def _drop(
        self, planned: Mapping[TopicPartition, ReplicaAssignment]
    ) -> dict[TopicPartition, ReassignmentRefused]:
        """1: the partitions go on with the planned replicas; the others are stopped and deleted."""
        before = {
            partition: current
            for partition, plan in planned.items()
            if dropped(current := self._assigned(partition), plan)
        }
        refused = dict.fromkeys(before, _GONE)

        def decide(partition: TopicPartition, known: KnownState) -> PartitionChange | None:
            live = tuple(self._live(partition))
            question = Settling(planned[partition].replicas, live, self._context.epoch)
            result = question.result(known.state)
            if isinstance(result, ReassignmentRefused):
                refused[partition] = result
                return None
            return self._leaders.ask(partition, known, question)

        orders = await self._leaders.change(before, decide)
        await self._order_moved(orders, before, planned)
        for order in orders:
            del refused[order.topic_partition]
        return refused

    async def _order_moved(
        self,
        orders: Sequence[PartitionOrder],
        before: Mapping[TopicPartition, ReplicaAssignment],
        after: Mapping[TopicPartition, ReplicaAssignment],
    ) -> None:
        """Those that stay learn what holds once the assignment is written; those that leave are stopped and deleted."""
        staying, stops = [], []
        for order in orders:
            old, new = before[order.topic_partition], after[order.topic_partition]
            staying.append(
                order._replace(
                    replicas=new.replicas,
                    adding=new.adding,
                    removing=new.removing,
                    recipients=tuple(broker_id for broker_id in new.replicas if broker_id in old.replicas),
                )
            )
            for broker_id in dropped(old, new):
                stops.append(StopOrder(order.topic_partition, broker_id, order.state.leader_epoch, delete=True))
                self._dropped.on_dropped(Replica(order.topic_partition, broker_id), order.state.leader_epoch)
        await self._term.order(ClusterChange(partitions=tuple(staying), stops=tuple(stops)))

    async def _write_assignments(
        self, planned: Mapping[TopicPartition, ReplicaAssignment]
    ) -> dict[TopicPartition, ReassignmentRefused]:
        """2: one write for each topic; what it refuses are partitions of topics that are gone."""
        by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
        for partition, plan in planned.items():
            by_topic.setdefault(partition.topic, {})[partition.partition] = plan
        for attempt in range(MAX_WRITE_ATTEMPTS):
            known = {name: self._context.topics[name] for name in by_topic if name in self._context.topics}
            wanted = {name: with_assigned(topic.assignment, by_topic[name]) for name, topic in known.items()}
            todo = [name for name, topic in known.items() if topic.assignment != wanted[name]]
            try:
                results = await self._term.write(
                    SetData(topic_path(name), wanted[name].encode(), known[name].version) for name in todo
                )
            except (BadVersion, NoNode, OutcomeUnknown):
                if attempt == MAX_WRITE_ATTEMPTS - 1:
                    raise
                await self._read_again(todo)
                continue
            for name, stat in zip(todo, results, strict=True):
                assert isinstance(stat, Stat)
                self._context.set_topic(KnownTopic(wanted[name], stat.version))
            break
        return {partition: _GONE for partition in planned if partition.topic not in self._context.topics}

    async def _read_again(self, names: Sequence[str]) -> None:
        """Topics that somebody else may have written: the znodes as they are; partitions that were added begin."""
        orders: list[PartitionOrder] = []
        nodes = await self._zookeeper.get_many([topic_path(name) for name in names])
        for name, node in zip(names, nodes, strict=True):
            if node is None:
                self._context.remove_topic(name)
                continue
            data, stat = node
            try:
                topic = KnownTopic(TopicAssignment.decode(name, data), stat.version)
            except MalformedZNode as malformed:
                self._context.found_malformed(malformed)
                continue
            orders += await self._leaders.initialise(self._context.set_topic(topic))
        await self._term.order(ClusterChange(partitions=tuple(orders)))

    async def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        """3: the new replicas follow, and nothing counts that was fetched before."""
        for partition in partitions:
            adding = [Replica(partition, broker_id) for broker_id in self._assigned(partition).adding]
            unknown = [key for key in adding if self._context.replicas.state(key) is ReplicaStatus.NON_EXISTENT]
            self._context.replicas.move(unknown, ReplicaStatus.NEW)
        orders: list[PartitionOrder] = []
        question = Beginning(self._context.epoch)
        begun = await self._leaders.change(
            partitions, lambda partition, known: self._leaders.ask(partition, known, question)
        )
        for order in begun:
            staying = tuple(broker_id for broker_id in order.replicas if broker_id not in order.adding)
            orders.append(order._replace(recipients=staying))
            if order.adding:
                # Only on them may a log be made where there is none.
                orders.append(order._replace(recipients=order.adding, is_new=True))
        await self._term.order(ClusterChange(partitions=tuple(orders)))
        for partition in partitions:
            self._cut_off.pop(partition, None)

    # ---------------------------------------------------------------------------------------------------------- onwards

    async def _advance(self) -> None:
        self._forget_deleted()
        try:
            await self._look_up()
            await self._stop_again()
            await self._begin([key for key in self._cut_off if self._step(key) is not Step.SETTLE])
            candidates = self._candidates()
            await self._watch([key for key in candidates if key not in self._watched])
            await self._complete([key for key in candidates if self._step(key) is Step.SETTLE])
            self._decided_with = self._context.electable_broker_ids()
        except ZooKeeperError:
            self._uncertain.update({partition.topic: None for partition in self._under_way})
            raise

    async def _stop_again(self) -> None:
        """Orders brokers again to delete replicas that they were away for, or did not confirm in their former lives."""
        stops = tuple(StopOrder(*due.replica, due.leader_epoch, delete=True) for due in self._dropped.take_due())
        await self._term.order(ClusterChange(stops=stops))

    def _candidates(self) -> list[TopicPartition]:
        """Partitions for which something is new. Ten thousand that wait are not looked at for each that moves on."""
        if self._context.electable_broker_ids() != self._decided_with:
            return list(self._under_way)
        return [key for key in self._under_way if key not in self._watched or key in self._cut_off]

    async def _look_up(self) -> None:
        """Reads the znodes of topics that may differ from the context: what they say begins anew, or is done."""
        uncertain = [name for name in self._uncertain if name in self._context.topics]
        if not uncertain:
            return
        before = {key: self._assigned(key) for key in self._under_way if key.topic in uncertain}
        await self._read_again(uncertain)
        for partition in before:
            self._end(partition)
        self._find(uncertain)
        done = [key for key in before if key not in self._under_way and key.topic in self._context.topics]
        for partition in done:
            self._note_moved(partition, before[partition], self._assigned(partition))
        self._uncertain = {}
        await self._submitted.remove(done)

    def _find(self, names: Iterable[str]) -> None:
        """Finds the partitions under reassignment in these topics; it is unknown whether their new replicas follow."""
        for name in names:
            topic = self._context.topics.get(name)
            if topic is None or name in self._context.topics_to_delete:
                continue
            moving = {**topic.assignment.adding_replicas, **topic.assignment.removing_replicas}
            for number in sorted(moving):
                partition = TopicPartition(name, number)
                if number in topic.assignment.partitions and self._assigned(partition).is_being_reassigned:
                    self._under_way[partition] = None
                    self._cut_off[partition] = None

    async def _watch(self, partitions: Sequence[TopicPartition]) -> None:
        """Watches the partitions' states, and takes over what the leaders have made of them meanwhile."""
        for start in range(0, len(partitions), WATCHES_AT_ONCE):
            some = partitions[start : start + WATCHES_AT_ONCE]
            # Noted before it is left: it may fire before all of them have been read.
            self._watched.update(dict.fromkeys(some))
            try:
                stats = await asyncio.gather(
                    *(self._zookeeper.exists(partition_state_path(partition), watch=True) for partition in some)
                )
            except ZooKeeperError:
                for partition in some:
                    self._watched.pop(partition, None)
                raise
            changed = [
                partition
                for partition, stat in zip(some, stats, strict=True)
                if (known := self._context.states.get(partition)) is None
                or stat is None
                or stat.version != known.version
            ]
            await self._leaders.load(changed)
            # The others learn it, also where a leader wrote it that does not ask the controller.
            news = [partition for partition in changed if partition in self._context.states]
            orders = [partition_order(self._context, partition, recipients=()) for partition in news]
            await self._term.order(ClusterChange(partitions=tuple(orders)))

    async def _complete(self, partitions: Sequence[TopicPartition]) -> None:
        """Settles the partitions on their targets."""
        before = {partition: self._assigned(partition) for partition in partitions}
        after = {partition: ReplicaAssignment(assignment.target) for partition, assignment in before.items()}

        def decide(partition: TopicPartition, known: KnownState) -> PartitionChange | None:
            # Asked again where the leader changed the ISR meanwhile: a target may have fallen out of it.
            live = tuple(self._live(partition))
            if next_step(before[partition], known.state.isr, live) is not Step.SETTLE:
                return None
            question = Settling(after[partition].replicas, live, self._context.epoch)
            return self._leaders.ask(partition, known, question)

        orders = await self._leaders.change(partitions, decide)
        await self._order_moved(orders, before, after)
        done = {order.topic_partition: after[order.topic_partition] for order in orders}
        self._cut_off.update(dict.fromkeys(done))  # Until the znode is written.
        gone = await self._write_assignments(done)
        for partition in done:
            self._end(partition)
            if partition not in gone:
                self._note_moved(partition, before[partition], after[partition])
        await self._submitted.remove(done)

    def _step(self, partition: TopicPartition) -> Step | None:
        """None: it has no state, or nothing is to be done for it."""
        known, assignment = self._context.states.get(partition), self._assigned(partition)
        if known is None or not assignment.is_being_reassigned:
            return None
        return next_step(assignment, known.state.isr, self._live(partition))

    def _live(self, partition: TopicPartition) -> list[BrokerId]:
        """Brokers on which the partition has, or may get, a replica that leads."""
        electable = self._context.electable_broker_ids()
        return [broker_id for broker_id in electable if not self._context.is_offline(partition, broker_id)]

    def _end(self, partition: TopicPartition) -> None:
        for partitions in (self._under_way, self._cut_off, self._watched):
            partitions.pop(partition, None)

    def _forget_deleted(self) -> None:
        for partition in [*self._under_way, *self._cut_off]:
            topic = partition.topic
            if topic not in self._context.topics or topic in self._context.topics_to_delete:
                self._end(partition)

    def _assigned(self, partition: TopicPartition) -> ReplicaAssignment:
        return assigned(self._context.topics[partition.topic].assignment, partition.partition)

    # ------------------------------------------------------------------------------------------ the old tools' znode

    async def _take_submitted(self) -> None:
        submitted = await self._submitted.read()
        if submitted is None:
            return
        wanted = submitted.replicas
        new = {key: replicas for key, replicas in wanted.items() if not self._is_on_its_way(key, replicas)}
        outcomes = await self._alter(new)
        for partition, refused in outcomes.items():
            if refused is not None and partition not in submitted.seen_before:
                self._note_refused(partition, new[partition], refused)
        unsettled = [key for key, refused in outcomes.items() if refused is not None and refused.code in _UNSETTLED]
        self._take_again = bool(unsettled)
        await self._submitted.remove(
            [partition for partition in wanted if partition not in self._under_way and partition not in unsettled]
        )

    def _is_on_its_way(self, partition: TopicPartition, replicas: Sequence[int]) -> bool:
        return partition in self._under_way and self._assigned(partition).target == tuple(replicas)

    # ------------------------------------------------------------------------------------------------------------ notes

    def _note_moved(self, partition: TopicPartition, before: ReplicaAssignment, after: ReplicaAssignment) -> None:
        """The change is written: replicas that are gone are known no more, and the decision is recorded."""
        gone = [Replica(partition, broker_id) for broker_id in dropped(before, after)]
        for status in (
            ReplicaStatus.OFFLINE,
            ReplicaStatus.DELETION_STARTED,
            ReplicaStatus.DELETION_SUCCESSFUL,
            ReplicaStatus.NON_EXISTENT,
        ):
            self._context.replicas.move(gone, status)
        if before != after:
            self._term.record(reassignment_decision(self._term.stamp(), self._view(partition), before, after))

    def _note_refused(self, partition: TopicPartition, target: Sequence[int], refused: ReassignmentRefused) -> None:
        known = self._context.topics.get(partition.topic)
        there = known is not None and partition.partition in known.assignment.partitions
        current = self._assigned(partition) if there else ReplicaAssignment(())
        why = f"{REASSIGN_PARTITIONS_PATH} asks for replicas on {id_list(target)}: {refused.message}"
        self._term.record(reassignment_refused_decision(self._term.stamp(), self._view(partition), current, why))

    def _view(self, partition: TopicPartition) -> PartitionView:
        known = self._context.states.get(partition)
        live = tuple(self._context.electable_broker_ids())
        return PartitionView(partition, None if known is None else known.state, live)
