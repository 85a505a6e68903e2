"""AlterPartition: leaders propose who is in sync, and the controller writes what it accepts.

`IsrAlterations` is the flow that takes a request, has `isr_proposals` judge it, writes what was accepted in the
controller's term, and answers. It must not know who sent the request, nor how the answer travels.

Invariant:
I1  Memory follows ZooKeeper: a rejected or unknown write is read back and judged again.

Source: Kafka's KafkaController.tryProcessAlterPartition; KIP-497.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.controller.decide.context import NO_BROKER_EPOCH, KnownState
from kavka.controller.decide.isr_proposals import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    Accepted,
    Proposal,
    ProposalRefused,
    Unchanged,
    Verdict,
    judge,
    verdict_decision,
)
from kavka.controller.orders.orders import ClusterChange, partition_order
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.leaders import MAX_WRITE_ATTEMPTS, Leaders
from kavka.errors import ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.messages.alter_partition_request import AlterPartitionRequest
from kavka.protocol.messages.alter_partition_request import PartitionData as ProposedPartition
from kavka.protocol.messages.alter_partition_request import TopicData as ProposedTopic
from kavka.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kavka.zookeeper.port import BadVersion, NoNode, OutcomeUnknown, SetData, Stat
from kavka.zookeeper.znode_paths import partition_state_path
from kavka.zookeeper.znodes import RECOVERED

FIRST_VERSION_WITH_RECOVERY: Final = 1
FIRST_VERSION_WITH_BROKER_EPOCHS: Final = 3


class IsrAlterations:
    """Judges and writes what leaders propose, in one term."""

    def __init__(self, term: ControllerTerm, leaders: Leaders) -> None:
        self._term = term
        self._context = term.context
        self._leaders = leaders

    async def alter(
        self, request: AlterPartitionRequest, version: int
    ) -> tuple[AlterPartitionResponse, list[TopicPartition]]:
        """The answer, and the partitions whose ISR changed. Raises NotController; ZooKeeperError where it stays unknown
        whether the changes were written: the leader asks again."""
        registered = self._context.broker_epoch(BrokerId(request.broker_id))
        if registered == NO_BROKER_EPOCH or registered != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), []
        async with self._term.turn:
            proposals, topics, unknown = self._read(request, version)
            changed: list[TopicPartition] = []
            try:
                verdicts = await self._write(proposals, version, changed)
            finally:
                orders = [partition_order(self._context, partition, recipients=()) for partition in changed]
                await self._term.order(ClusterChange(partitions=tuple(orders)))
        answers = {
            proposal.partition: _answer(proposal.partition.partition, verdict)
            for proposal, verdict in zip(proposals, verdicts, strict=True)
        }
        answered = [
            TopicData(topic_name=name, topic_id=topic.topic_id, partitions=[answers[partition] for partition in mine])
            for name, topic, mine in topics
        ]
        return AlterPartitionResponse(topics=[*answered, *unknown]), changed

    def _read(
        self, request: AlterPartitionRequest, version: int
    ) -> tuple[list[Proposal], list[tuple[str, ProposedTopic, list[TopicPartition]]], list[TopicData]]:
        """The proposals; per topic its name, form and partitions; and answers for topics with unknown ids."""
        proposals: list[Proposal] = []
        topics = []
        unknown: list[TopicData] = []
        for topic in request.topics:
            by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
            name = self._context.topic_name(topic.topic_id) if by_id else topic.topic_name
            if name is None:
                refused = ProposalRefused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
                answers = [_answer(each.partition_index, refused) for each in topic.partitions]
                unknown.append(TopicData(topic_id=topic.topic_id, partitions=answers))
                continue
            mine = [_proposal(name, BrokerId(request.broker_id), each, version) for each in topic.partitions]
            proposals += mine
            topics.append((name, topic, [proposal.partition for proposal in mine]))
        # A partition named twice: the last counts, as in Kafka.
        return list({proposal.partition: proposal for proposal in proposals}.values()), topics, unknown

    async def _write(
        self, proposals: Sequence[Proposal], version: int, changed: list[TopicPartition]
    ) -> list[Unchanged | ProposalRefused]:
        """Writes what is accepted; `changed` gets the partitions that were written, also if it fails in the end."""
        before = {proposal.partition: self._context.states.get(proposal.partition) for proposal in proposals}
        for attempt in range(MAX_WRITE_ATTEMPTS):
            verdicts = [self._judge(proposal, version) for proposal in proposals]
            accepted = [
                (proposal.partition, verdict)
                for proposal, verdict in zip(proposals, verdicts, strict=True)
                if isinstance(verdict, Accepted)
            ]
            try:
                results = await self._term.write(
                    SetData(partition_state_path(partition), verdict.state.encode(), verdict.before.version)
                    for partition, verdict in accepted
                )
            except (BadVersion, NoNode, OutcomeUnknown):
                await self._leaders.load([partition for partition, _ in accepted])
                changed += [
                    partition
                    for partition, verdict in accepted
                    if partition in self._context.states and self._context.states[partition] != verdict.before
                ]
                if attempt == MAX_WRITE_ATTEMPTS - 1:
                    raise
                continue
            for (partition, verdict), stat in zip(accepted, results, strict=True):
                assert isinstance(stat, Stat)
                self._context.states[partition] = KnownState(verdict.state, stat.version)
                changed.append(partition)
            break
        for proposal, judged in zip(proposals, verdicts, strict=True):
            self._record(proposal, judged, before[proposal.partition])
        return [
            Unchanged(self._context.states[proposal.partition]) if isinstance(judged, Accepted) else judged
            for proposal, judged in zip(proposals, verdicts, strict=True)
        ]

    def _judge(self, proposal: Proposal, version: int) -> Verdict:
        verdict = judge(proposal, self._context, version=version)
        self._term.input_recorder.on_judged(proposal, self._context, verdict, version=version)
        if not isinstance(verdict, Accepted):
            return verdict
        kept = self._leaders.keep_elr(proposal.partition, verdict.before.state, verdict.state)
        return verdict._replace(state=kept)

    def _record(self, proposal: Proposal, verdict: Verdict, before: KnownState | None) -> None:
        term = self._term
        decision = verdict_decision(
            proposal,
            verdict,
            None if before is None else before.state,
            at_ms=term.now_ms(),
            broker_id=term.broker_id,
            controller_epoch=self._context.epoch,
        )
        if decision is not None:
            term.record(decision)


def _proposal(name: str, leader: BrokerId, form: ProposedPartition, version: int) -> Proposal:
    if version >= FIRST_VERSION_WITH_BROKER_EPOCHS:
        isr = tuple((BrokerId(member.broker_id), member.broker_epoch) for member in form.new_isr_with_epochs)
    else:
        isr = tuple((BrokerId(member), NO_BROKER_EPOCH) for member in form.new_isr)
    return Proposal(
        TopicPartition(name, form.partition_index),
        leader,
        form.leader_epoch,
        isr,
        form.leader_recovery_state if version >= FIRST_VERSION_WITH_RECOVERY else RECOVERED,
        form.partition_epoch,
    )


def _answer(index: int, verdict: Unchanged | ProposalRefused) -> PartitionData:
    match verdict:
        case ProposalRefused(code, _):
            return PartitionData(partition_index=index, error_code=code)
        case Unchanged(KnownState(state, partition_epoch)):
            return PartitionData(
                partition_index=index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                leader_recovery_state=state.leader_recovery_state,
                partition_epoch=partition_epoch,
            )
