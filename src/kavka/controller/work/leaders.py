"""Leaders: gives partitions their first leader, and a new one when brokers come or go.

A flow: it reads state znodes, asks `election`, writes compare-and-set in the controller's term, and returns the
orders that follow. It must not decide who leads, nor send anything.

Between its reading and its writing the leader of a partition may have changed the ISR, so that the version is another
one. The whole multi is rejected then; the states are read again and decided again:

    1. the controller read isr (1, 2, 3), version 7
    2. leader 1 wrote isr (1, 2), version 8, and committed records by it
    3. the controller's write of leader 3 for version 7 is rejected: 3 lacks those records

Source: Kafka's ZkPartitionStateMachine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from kavka.controller.decide.context import KnownState
from kavka.controller.decide.election import ElectionResult, PartitionChange
from kavka.controller.decide.eligible_leaders import LiveBrokers, present_elr, with_elr
from kavka.controller.decide.questions import Question
from kavka.controller.decide.reasons import partition_change_decision, refused_move_decision
from kavka.controller.decide.state_machines import K, PartitionStatus, RefusedMove, Replica, ReplicaStatus, S
from kavka.controller.decide.topic_plans import initial_states
from kavka.controller.orders.orders import ClusterChange, PartitionOrder
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.term.input_recorder import EligibleReplicasKept
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.zookeeper.port import BadVersion, Create, NodeExists, NoNode, Operation, OutcomeUnknown, SetData, Stat
from kavka.zookeeper.znode_paths import partition_path, partition_state_path, topic_partitions_path
from kavka.zookeeper.znodes import MalformedZNode, PartitionState

MAX_WRITE_ATTEMPTS: Final = 5
"""How often a decision is made anew because somebody else wrote meanwhile; the next event tries again after that."""


PARTITIONS_PER_WRITE: Final = 1_000
"""In one compare-and-set of a multi: one partition that somebody else wrote to has so many decided anew."""

_NO_REASONS: Final[Mapping[TopicPartition, ElectionResult | None]] = MappingProxyType({})


Decide: TypeAlias = Callable[[TopicPartition, KnownState], PartitionChange | None]
"""What becomes of a partition in the state that it is in, or None if nothing does."""


class _Decided(NamedTuple):
    """What is to become of a partition whose state was `before`."""

    partition: TopicPartition
    change: PartitionChange
    before: KnownState


class Leaders:
    """Writes who leads. `unclean_allowed` says for a topic whether a replica that is not in sync may;
    `min_insync_replicas` its setting of that name where eligible leader replicas are kept, else it is None."""

    def __init__(
        self,
        term: ControllerTerm,
        unclean_allowed: Callable[[str], bool],
        min_insync_replicas: Callable[[str], int] | None = None,
    ) -> None:
        self._term = term
        self._context = term.context
        self._zookeeper = term.zookeeper
        self._unclean_allowed = unclean_allowed
        self._min_insync_replicas = min_insync_replicas
        self._stored_at: dict[TopicPartition, int] = {}
        """The zxid of each state that was read."""

    @property
    def keeps_elr(self) -> bool:
        """Whether eligible leader replicas are kept."""
        return self._min_insync_replicas is not None

    def elr(self, partition: TopicPartition, state: PartitionState) -> tuple[BrokerId, ...]:
        """The eligible leader replicas, as far as they hold; none where they are not kept."""
        return present_elr(state, self._needed(partition, self._staying(partition))) if self.keeps_elr else ()

    def keep_elr(
        self,
        partition: TopicPartition,
        before: PartitionState,
        after: PartitionState,
        *,
        staying: Collection[BrokerId] | None = None,
        absent: Collection[BrokerId] = (),
    ) -> PartitionState:
        """`after`, about to be written in place of `before`, with its eligible leader replicas if they are kept.

        `absent` is as for `react`.
        """
        if not self.keeps_elr:
            return after
        staying = self._staying(partition) if staying is None else staying
        needed, unclean = self._needed(partition, staying), _without(self._context.unclean_broker_ids(), absent)
        kept = with_elr(before, after, staying=staying, needed=needed, unclean=unclean)
        self._term.input_recorder.on_kept(
            partition, EligibleReplicasKept(before, after, kept, staying, needed, unclean)
        )
        return kept

    def _staying(self, partition: TopicPartition) -> list[BrokerId]:
        """The replicas without those that a reassignment removes, which may have lost all when they are added again."""
        topic = self._context.topics[partition.topic]
        removing = topic.removing(partition.partition)
        return [replica for replica in topic.replicas(partition.partition) if replica not in removing]

    def _needed(self, partition: TopicPartition, staying: Collection[BrokerId]) -> int:
        assert self._min_insync_replicas is not None
        return min(self._min_insync_replicas(partition.topic), len(staying))

    async def load(self, partitions: Sequence[TopicPartition]) -> None:
        """Reads the states of the partitions into the context; one without a state node, or with one that cannot be
        read, has none there."""
        states, malformed = self._context.states, self._context.malformed
        paths = list(map(partition_state_path, partitions))
        found = await self._zookeeper.get_many(paths)
        for partition, path, node in zip(partitions, paths, found, strict=True):
            states.pop(partition, None)
            if node is None:
                malformed.pop(path, None)
                continue
            data, stat = node
            try:
                states[partition] = KnownState(PartitionState.decode(partition, data), stat.version)
                self._stored_at[partition] = stat.mzxid
                malformed.pop(path, None)
            except MalformedZNode as problem:
                self._context.found_malformed(problem)

    async def initialise(self, partitions: Sequence[TopicPartition]) -> list[PartitionOrder]:
        """Gives each of the partitions its first leader, as far as a replica of it is alive.

        They may already have a state (a controller died while it wrote them, or an answer was lost): that is taken.
        Raises NotController, ZooKeeperError.
        """
        for attempt in range(MAX_WRITE_ATTEMPTS):
            await self.load(partitions)
            missing = [
                partition
                for partition in partitions
                if partition not in self._context.states
                and partition_state_path(partition) not in self._context.malformed
            ]
            try:
                await self._create_states(missing)
            except (NodeExists, NoNode, OutcomeUnknown):
                if attempt == MAX_WRITE_ATTEMPTS - 1:
                    raise
                continue
            break
        return self.adopt([partition for partition in partitions if partition in self._context.states], is_new=True)

    async def _create_states(self, partitions: Sequence[TopicPartition]) -> None:
        live = set(self._context.electable_broker_ids())
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        operations: list[Operation] = []
        written: dict[TopicPartition, PartitionState] = {}
        for topic, numbers in by_topic.items():
            replicas = {number: self._context.topics[topic].replicas(number) for number in numbers}
            states = {
                TopicPartition(topic, number): state
                for number, state in initial_states(replicas, live, self._context.epoch).items()
            }
            parents = [topic_partitions_path(topic), *map(partition_path, states)]
            found = await self._zookeeper.get_many(parents)
            operations += [Create(path) for path, node in zip(parents, found, strict=True) if node is None]
            operations += [Create(partition_state_path(key), state.encode()) for key, state in states.items()]
            written.update(states)
        await self._term.write(operations)
        for key, state in written.items():
            self._context.states[key] = KnownState(state, version=0)

    async def react(
        self, partitions: Iterable[TopicPartition], *, may_lose: bool = True, absent: Collection[BrokerId] = ()
    ) -> list[PartitionOrder]:
        """Brings the partitions to what `election.after_broker_change` says for the brokers that are alive.

        Brokers in `absent` count as not registered: they are, but in another life than the one that is decided about,
        and learn nothing of what is written here until `react` is called without them.

        An unclean election is held only with `may_lose`, and only when no member of the ISR is registered: one that is
        merely unreachable may be starting, or cut off from here alone, and has the records that would be lost.

        Returns orders for those that changed. Raises NotController, ZooKeeperError.
        """
        reachable = tuple(_without(self._context.reachable_broker_ids(), absent))
        failed = self._context.failed_replicas
        leaving = tuple(self._context.shutting_down)
        unclean = tuple(_without(self._context.unclean_broker_ids(), absent)) if self.keeps_elr else ()

        def decide(partition: TopicPartition, known: KnownState) -> PartitionChange | None:
            replicas = self._context.topics[partition.topic].replicas(partition.partition)
            unclean_allowed = (
                may_lose
                and self._unclean_allowed(partition.topic)
                and not any(
                    member in self._context.unreachable
                    for member in (*known.state.isr, *known.state.eligible_leader_replicas)
                )
            )
            live = reachable
            if failed:
                live = tuple(
                    replica
                    for replica in replicas
                    if replica in reachable and Replica(partition, replica) not in failed
                )
            needed = self._needed(partition, self._staying(partition)) if self.keeps_elr else -1
            question = LiveBrokers(
                replicas, live, unclean_allowed, self._context.epoch, leaving, needed=needed, unclean=unclean
            )
            return self.ask(partition, known, question)

        return await self.change(partitions, decide, absent=absent)

    def ask(self, partition: TopicPartition, known: KnownState, question: Question) -> PartitionChange | None:
        """What becomes of the partition; the term's recorder is shown the question."""
        answer = question.answer(known.state)
        self._term.input_recorder.on_asked(partition, known, question, answer)
        return answer

    async def react_on_former_lives(self, partitions: Sequence[TopicPartition]) -> list[PartitionOrder]:
        """As `react`, for a term that begins: members of an ISR that registered after it was stored were away since.

        1. A broker that leads loses power, and with it the controller, or that dies at the same time.
        2. It is back, and registered, before the next controller reads who is alive: no controller saw it gone.
        3. Left alone it leads on in the same epoch with what its disk kept, and the others cut off what they lack.

        So they count as dead first, as those do that a controller sees bounce. A partition with one replica has nobody
        who could differ from it.
        """
        context = self._context
        away: dict[BrokerId, None] = {}
        concerned = []
        for partition in partitions:
            known = context.states.get(partition)
            if known is None or len(context.topics[partition.topic].replicas(partition.partition)) == 1:
                continue
            stored_at = self._stored_at.get(partition, 0)
            members = [
                member
                for member in known.state.isr
                if context.broker_epoch(member) > stored_at and member not in context.unreachable
            ]
            if members:
                away.update(dict.fromkeys(members))
                concerned.append(partition)
        if not concerned:
            return []
        return await self.react(concerned, may_lose=False, absent=away)

    async def change(
        self, partitions: Iterable[TopicPartition], decide: Decide, *, absent: Collection[BrokerId] = ()
    ) -> list[PartitionOrder]:
        """Writes for each partition that has a state what `decide` makes of it, compare-and-set.

        `decide` is asked again, with the state as it is then, where somebody else wrote meanwhile. Returns orders for
        the partitions that changed. Raises NotController, ZooKeeperError; then the orders for what was
        written before are already given.
        """
        todo = list(partitions)
        orders: list[PartitionOrder] = []
        try:
            for start in range(0, len(todo), PARTITIONS_PER_WRITE):
                await self._change(todo[start : start + PARTITIONS_PER_WRITE], decide, orders, absent)
        except BaseException:
            await self._term.order(
                ClusterChange(partitions=tuple(orders), withheld_from=tuple(absent) if orders else ())
            )
            raise
        return orders

    async def _change(
        self,
        partitions: Sequence[TopicPartition],
        decide: Decide,
        orders: list[PartitionOrder],
        absent: Collection[BrokerId],
    ) -> None:
        """`change` for a few; orders are appended as soon as they are due."""
        todo = partitions
        for attempt in range(MAX_WRITE_ATTEMPTS):
            decided = self._decide(todo, decide, absent)
            try:
                results = await self._term.write(
                    SetData(partition_state_path(each.partition), each.change.state.encode(), each.before.version)
                    for each in decided
                )
            except (BadVersion, NoNode, OutcomeUnknown):
                # What was written before the failure is found to be done already, in the next round.
                await self.load([each.partition for each in decided])
                committed = self._committed_before(decided)
                orders += committed
                if attempt == MAX_WRITE_ATTEMPTS - 1:
                    raise
                done = {order.topic_partition for order in committed}
                todo = [partition for partition in todo if partition in self._context.states and partition not in done]
                continue
            for each, stat in zip(decided, results, strict=True):
                assert isinstance(stat, Stat)
                self._context.states[each.partition] = KnownState(each.change.state, stat.version)
            orders += self._adopt_decided(decided)
            return

    def _decide(
        self, partitions: Sequence[TopicPartition], decide: Decide, absent: Collection[BrokerId]
    ) -> list[_Decided]:
        decided = []
        for partition in partitions:
            known = self._context.states.get(partition)
            if known is None:
                continue
            change = decide(partition, known)
            if change is not None and self.keeps_elr:
                state = self.keep_elr(partition, known.state, change.state, staying=change.staying, absent=absent)
                change = change._replace(state=state)
            if change is not None:
                decided.append(_Decided(partition, change, known))
        return decided

    def _committed_before(self, decided: Sequence[_Decided]) -> list[PartitionOrder]:
        """Orders for the partitions that an earlier multi of the failed write brought to the decided state."""
        committed = []
        for each in decided:
            known = self._context.states.get(each.partition)
            if known == KnownState(each.change.state, each.before.version + 1):
                committed.append(each)
        return self._adopt_decided(committed)

    def _adopt_decided(self, decided: Sequence[_Decided]) -> list[PartitionOrder]:
        term = self._term
        for partition, change, before in decided:
            if change.election is None and not change.why and change.state.isr == before.state.isr:
                continue  # A new epoch and nothing else: the flow that wanted it records why.
            term.record(
                partition_change_decision(
                    partition,
                    before.state,
                    change,
                    at_ms=term.now_ms(),
                    broker_id=term.broker_id,
                    unreachable=tuple(self._context.unreachable),
                )
            )
        why = {partition: change.election for partition, change, _ in decided}
        return self.adopt([partition for partition, _, _ in decided], is_new=False, why=why)

    def adopt(
        self,
        partitions: Sequence[TopicPartition],
        *,
        is_new: bool,
        why: Mapping[TopicPartition, ElectionResult | None] = _NO_REASONS,
    ) -> list[PartitionOrder]:
        """The context's states of the partitions hold from now on; returns the orders that follow."""
        states = self._context.states
        offline = [partition for partition in partitions if states[partition].state.leader == NO_LEADER]
        online = [partition for partition in partitions if states[partition].state.leader != NO_LEADER]
        self.note(self._context.partitions.move(online, PartitionStatus.ONLINE).refused)
        self.note(self._context.partitions.move(offline, PartitionStatus.OFFLINE).refused)
        self.place_replicas(partitions)
        return [
            self._term.partition_order(partition, is_new=is_new, why=why.get(partition)) for partition in partitions
        ]

    def place_replicas(self, partitions: Iterable[TopicPartition]) -> None:
        """Replicas that serve are ONLINE, those on dead brokers or in failed log directories OFFLINE."""
        live: list[Replica] = []
        dead: list[Replica] = []
        for replica in self._context.replicas_of(partitions):
            (dead if self._context.is_offline(*replica) else live).append(replica)
        self.note(self._context.replicas.move(live, ReplicaStatus.ONLINE).refused)
        self.note(self._context.replicas.move(dead, ReplicaStatus.OFFLINE).refused)

    def note(self, refused: Sequence[RefusedMove[K, S]]) -> None:
        """Illegal moves change nothing and are recorded."""
        term = self._term
        for move in refused:
            term.record(refused_move_decision(move, at_ms=term.now_ms(), broker_id=term.broker_id))


def _without(broker_ids: Iterable[BrokerId], absent: Collection[BrokerId]) -> list[BrokerId]:
    return [broker_id for broker_id in broker_ids if broker_id not in absent]
