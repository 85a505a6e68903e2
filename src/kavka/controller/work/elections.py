"""Elections: leaders that an operator asks for, preferred or unclean.

A flow in the controller's term: it asks `requested_election` about each partition, writes what was decided, and has the
brokers carry it out. It must not know how the wish came in: by the ElectLeaders API, by the znode of the old tools, or
from the balance of leaderships (`leader_rebalance`).

Invariant:
I1  The old tools' znode is deleted when its partitions were tried, whatever came of it: an operator can ask again.

Source: KIP-183, KIP-460; Kafka's KafkaController.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kavka.controller.decide.context import KnownState
from kavka.controller.decide.election import Elected, ElectionResult, PartitionChange
from kavka.controller.decide.requested_election import ElectionType, Wished, is_needed
from kavka.controller.orders.delivery import Delivery
from kavka.controller.orders.orders import ClusterChange
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.leaders import Leaders
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode, ZooKeeperError
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.zookeeper.port import BadVersion, Delete, NoNode, OutcomeUnknown
from kavka.zookeeper.znode_paths import PREFERRED_REPLICA_ELECTION_PATH
from kavka.zookeeper.znodes import MalformedZNode, PreferredReplicaElection

MAX_WRITE_ATTEMPTS: Final = 5
"""How often the znode of the old tools is deleted anew because it changed meanwhile."""


class ElectionOutcome(NamedTuple):
    """What became of one partition; `leader` is who leads it now where `code` is NONE."""

    code: ErrorCode
    message: str | None = None
    leader: BrokerId = NO_LEADER


class ElectionsDone(NamedTuple):
    """Outcomes by partition; `delivery` is done when the brokers know the new leaders."""

    outcomes: dict[TopicPartition, ElectionOutcome]
    delivery: Delivery


class Elections:
    """Elections at an operator's wish, in one term. Methods that wait take the term's turn and raise NotController."""

    def __init__(self, term: ControllerTerm, leaders: Leaders) -> None:
        self._term = term
        self._leaders = leaders
        self._context = term.context
        self._zookeeper = term.zookeeper

    async def elect(self, wish: ElectionType, partitions: Iterable[TopicPartition] | None = None) -> ElectionsDone:
        """Elects leaders for the partitions, or for all; an election that fails changes nothing for its partition."""
        async with self._term.turn:
            if partitions is None:
                partitions = [key for topic in self._context.topics.values() for key in topic.topic_partitions()]
            return await self._elect(wish, list(dict.fromkeys(partitions)))

    async def take_submitted(self) -> None:
        """Holds the elections that /admin/preferred_replica_election asks for, deletes it, and watches for the next.

        Raises NotController, ZooKeeperError.
        """
        async with self._term.turn:
            for _ in range(MAX_WRITE_ATTEMPTS):
                if await self._zookeeper.exists(PREFERRED_REPLICA_ELECTION_PATH, watch=True) is None:
                    return
                try:
                    data, stat = await self._zookeeper.get(PREFERRED_REPLICA_ELECTION_PATH)
                    wanted = PreferredReplicaElection.decode(data).partitions
                except NoNode:
                    continue
                except MalformedZNode as malformed:
                    self._context.found_malformed(malformed)
                    return
                self._context.malformed.pop(PREFERRED_REPLICA_ELECTION_PATH, None)
                await self._elect(ElectionType.PREFERRED, list(dict.fromkeys(wanted)))
                try:
                    await self._term.write([Delete(PREFERRED_REPLICA_ELECTION_PATH, stat.version)])
                except (NoNode, BadVersion, OutcomeUnknown):
                    continue  # Somebody wrote another wish, or it is gone: look again.

    async def _elect(self, wish: ElectionType, partitions: Sequence[TopicPartition]) -> ElectionsDone:
        outcomes: dict[TopicPartition, ElectionOutcome] = {}
        electable: list[TopicPartition] = []
        for partition in partitions:
            refused = self._refusal(wish, partition)
            if refused is None:
                electable.append(partition)
            else:
                outcomes[partition] = refused
        results: dict[TopicPartition, ElectionResult] = {}

        def decide(partition: TopicPartition, known: KnownState) -> PartitionChange | None:
            replicas = self._replicas(partition)
            if not is_needed(wish, replicas, known.state.leader, self._context.reachable_broker_ids()):
                results.pop(partition, None)
                return None
            eligible = self._leaders.elr(partition, known.state)
            live = tuple(self._live(partition, replicas))
            question = Wished(wish.value, tuple(replicas), live, eligible, self._context.epoch)
            results[partition] = question.result(known.state)
            return self._leaders.ask(partition, known, question)

        delivery = Delivery()
        try:
            orders = await self._leaders.change(electable, decide)
            delivery = await self._term.order(ClusterChange(partitions=tuple(orders)))
        except OutcomeUnknown as unknown:
            failed = ElectionOutcome(ErrorCode.REQUEST_TIMED_OUT, str(unknown))
            outcomes.update(dict.fromkeys(electable, failed))
        except ZooKeeperError as failure:
            failed = ElectionOutcome(ErrorCode.UNKNOWN_SERVER_ERROR, str(failure))
            outcomes.update(dict.fromkeys(electable, failed))
        for partition in electable:
            if partition not in outcomes:
                outcomes[partition] = self._outcome(wish, partition, results.get(partition))
        return ElectionsDone({partition: outcomes[partition] for partition in partitions}, delivery)

    def _refusal(self, wish: ElectionType, partition: TopicPartition) -> ElectionOutcome | None:
        topic, known = self._context.topics.get(partition.topic), self._context.states.get(partition)
        if topic is None or partition.partition not in topic.assignment.partitions:
            return ElectionOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        if partition.topic in self._context.topics_to_delete:
            return ElectionOutcome(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        if known is None:
            return ElectionOutcome(_UNAVAILABLE[wish], "none of its replicas was ever alive")
        return None

    def _outcome(self, wish: ElectionType, partition: TopicPartition, result: ElectionResult | None) -> ElectionOutcome:
        known = self._context.states.get(partition)
        if known is None:
            return ElectionOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        if result is None:
            return ElectionOutcome(
                ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.", known.state.leader
            )
        if isinstance(result, Elected):
            return ElectionOutcome(ErrorCode.NONE, leader=result.leader)
        self._term.record(
            Decision(
                DecisionKind.LEADER_NOT_ELECTED,
                self._term.now_ms(),
                self._term.broker_id,
                f"{wish.value} election: {result.reason}",
                partition=partition,
                leader_epoch=known.state.leader_epoch,
                controller_epoch=self._context.epoch,
                before={"leader": known.state.leader, "isr": known.state.isr},
                after={"leader": known.state.leader, "isr": known.state.isr},
                evidence={"election": wish.value, "candidates": result.candidates, "live": result.live},
            )
        )
        return ElectionOutcome(
            _UNAVAILABLE[wish], f"Failed to elect a leader for partition {partition}: {result.reason}"
        )

    def _replicas(self, partition: TopicPartition) -> tuple[BrokerId, ...]:
        return self._context.topics[partition.topic].replicas(partition.partition)

    def _live(self, partition: TopicPartition, replicas: Sequence[BrokerId]) -> list[BrokerId]:
        electable = self._context.electable_broker_ids()
        return [each for each in replicas if each in electable and not self._context.is_offline(partition, each)]


_UNAVAILABLE: Final = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
