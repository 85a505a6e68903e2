"""AlterPartition: a leader proposes who is in sync, and the controller judges and writes it.

`judge` decides on one proposal and is pure; `IsrAlterations` is the flow that takes a request, writes what was accepted
in the reign, and answers. It must not know who sent the request, nor how the answer travels.

What is compared, in this order; the first that fits is the answer:

    topic or partition unknown, or being deleted       UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION
    an epoch higher than the controller's              NOT_CONTROLLER: there is a newer one, which wrote it
    a leader epoch lower than the present one          FENCED_LEADER_EPOCH
    leader, ISR and recovery as they are already       success, with the present partition epoch (S16: an answer lost)
    another partition epoch                            INVALID_UPDATE_VERSION
    not from the leader; ISR without it; no replica    INVALID_REQUEST
    recovering with more than the leader, or again     INVALID_REQUEST
    a new member that is not alive, is shutting down,  INELIGIBLE_REPLICA (before version 2: OPERATION_NOT_ATTEMPTED)
      is unreachable, or fetched in another life (S18)

Invariants:
I1  The ISR is never empty, and the leader is in it.
I2  Nobody joins the ISR whose registration is not the one that it fetched with (KIP-903), nor on its way out (KIP-841).
I3  Memory follows ZooKeeper: a rejected or unknown write is read back and judged again.

Source: Kafka's KafkaController.tryProcessAlterPartition; KIP-497, KIP-704, KIP-841, KIP-903. That a proposal must come
from the leader and name replicas only, and the check of broker epochs, are those of its KRaft controllers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from kavka.controller.decide.context import NO_BROKER_EPOCH, ControllerContext, KnownState
from kavka.controller.decide.reasons import state_facts
from kavka.controller.orders.orders import ClusterChange
from kavka.controller.term.controller_term import Reign
from kavka.controller.work.leaders import MAX_WRITE_ATTEMPTS, Leaders
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.messages.alter_partition_request import AlterPartitionRequest
from kavka.protocol.messages.alter_partition_request import PartitionData as ProposedPartition
from kavka.protocol.messages.alter_partition_request import TopicData as ProposedTopic
from kavka.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kavka.zookeeper.port import BadVersion, NoNode, OutcomeUnknown, SetData, Stat
from kavka.zookeeper.znodes import RECOVERED, RECOVERING, PartitionState, partition_state_path

FIRST_VERSION_WITH_RECOVERY: Final = 1
FIRST_VERSION_WITH_TOPIC_IDS: Final = 2
FIRST_VERSION_WITH_BROKER_EPOCHS: Final = 3


class Proposal(NamedTuple):
    """What a leader wants. `isr` holds (broker, the epoch it fetched with; NO_BROKER_EPOCH where unknown)."""

    partition: TopicPartition
    leader: BrokerId
    leader_epoch: int
    isr: tuple[tuple[BrokerId, int], ...]
    recovery: int
    partition_epoch: int

    @property
    def members(self) -> tuple[BrokerId, ...]:
        return tuple(broker_id for broker_id, _ in self.isr)


class Accepted(NamedTuple):
    """To be written: `state` in place of `before`."""

    state: PartitionState
    before: KnownState


class Unchanged(NamedTuple):
    """It is so already."""

    known: KnownState


class Refused(NamedTuple):
    """Why not; `reason` is a sentence."""

    code: ErrorCode
    reason: str


Verdict: TypeAlias = Accepted | Unchanged | Refused


def judge(proposal: Proposal, context: ControllerContext, *, version: int) -> Verdict:
    """The answer to one proposal, in the order of the module's table."""
    known = context.states.get(proposal.partition)
    if known is None or proposal.partition.topic in context.topics_to_delete:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    present = known.state
    if proposal.partition_epoch > known.version or proposal.leader_epoch > present.leader_epoch:
        return Refused(
            ErrorCode.NOT_CONTROLLER,
            f"leader epoch {proposal.leader_epoch} and partition epoch {proposal.partition_epoch} are not known here, "
            f"where they are {present.leader_epoch} and {known.version}",
        )
    if proposal.leader_epoch < present.leader_epoch:
        return Refused(
            ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {proposal.leader_epoch} is over, it is {present.leader_epoch}"
        )
    is_same = proposal.leader == present.leader and proposal.recovery == present.leader_recovery_state
    if is_same and sorted(proposal.members) == sorted(present.isr):
        return Unchanged(known)
    if proposal.partition_epoch != known.version:
        return Refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"it was made for partition epoch {proposal.partition_epoch}, it is {known.version}",
        )
    return _judge_members(proposal, known, context, version)


def _judge_members(proposal: Proposal, known: KnownState, context: ControllerContext, version: int) -> Verdict:
    present, members = known.state, proposal.members
    replicas = context.topics[proposal.partition.topic].replicas(proposal.partition.partition)
    if proposal.leader != present.leader:
        return Refused(
            ErrorCode.INVALID_REQUEST, f"broker {proposal.leader} proposed it, broker {present.leader} leads"
        )
    if proposal.leader not in members or any(member not in replicas for member in members):
        return Refused(
            ErrorCode.INVALID_REQUEST,
            f"an ISR of {list(members)} lacks leader {proposal.leader} or goes beyond the replicas {list(replicas)}",
        )
    if proposal.recovery == RECOVERING and (len(members) > 1 or present.leader_recovery_state == RECOVERED):
        return Refused(ErrorCode.INVALID_REQUEST, f"a leader does not recover with an ISR of {list(members)}")
    for broker_id, epoch in proposal.isr:
        # Who is in the ISR already was judged when it joined; and a leader may go on while it is shutting down.
        ineligible = None if broker_id in present.isr else _ineligible(broker_id, epoch, context)
        if ineligible is not None:
            code = ErrorCode.INELIGIBLE_REPLICA
            if version < FIRST_VERSION_WITH_TOPIC_IDS:
                code = ErrorCode.OPERATION_NOT_ATTEMPTED
            return Refused(code, ineligible)
    state = PartitionState(present.leader, present.leader_epoch, members, context.epoch, proposal.recovery)
    return Accepted(state, known)


def _ineligible(broker_id: BrokerId, epoch: int, context: ControllerContext) -> str | None:
    registered = context.broker_epoch(broker_id)
    if registered == NO_BROKER_EPOCH:
        return f"broker {broker_id} is not alive"
    if broker_id in context.shutting_down:
        return f"broker {broker_id} is shutting down"
    if broker_id in context.unreachable:
        return f"broker {broker_id} refuses connections"
    if epoch not in (NO_BROKER_EPOCH, registered):
        return f"broker {broker_id} fetched with broker epoch {epoch}, its registration has {registered}"
    return None


class IsrAlterations:
    """Judges and writes what leaders propose, in one reign."""

    def __init__(self, reign: Reign, leaders: Leaders) -> None:
        self._reign = reign
        self._context = reign.context
        self._leaders = leaders

    async def alter(
        self, request: AlterPartitionRequest, version: int
    ) -> tuple[AlterPartitionResponse, list[TopicPartition]]:
        """The answer, and the partitions whose ISR changed. Raises Deposed; ZooKeeperError where it stays unknown
        whether the changes were written: the leader asks again."""
        if self._context.broker_epoch(BrokerId(request.broker_id)) != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), []
        async with self._reign.turn:
            proposals, topics, unknown = self._read(request, version)
            changed: list[TopicPartition] = []
            try:
                verdicts = await self._write(proposals, version, changed)
            finally:
                orders = [self._context.partition_order(partition, recipients=()) for partition in changed]
                await self._reign.order(ClusterChange(partitions=tuple(orders)))
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
                refused = Refused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
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
    ) -> list[Unchanged | Refused]:
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
                results = await self._reign.write(
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
        self._reign.witness.on_judged(proposal, self._context, verdict, version=version)
        if not isinstance(verdict, Accepted):
            return verdict
        kept = self._leaders.keep_elr(proposal.partition, verdict.before.state, verdict.state)
        return verdict._replace(state=kept)

    def _record(self, proposal: Proposal, verdict: Verdict, before: KnownState | None) -> None:
        reign = self._reign
        decision = verdict_decision(
            proposal,
            verdict,
            None if before is None else before.state,
            at_ms=reign.now_ms(),
            broker_id=reign.broker_id,
            controller_epoch=self._context.epoch,
        )
        if decision is not None:
            reign.record(decision)


def verdict_decision(
    proposal: Proposal,
    verdict: Verdict,
    before: PartitionState | None,
    *,
    at_ms: int,
    broker_id: BrokerId,
    controller_epoch: int,
) -> Decision | None:
    """The verdict as a why-record; None where nothing was decided."""
    match verdict:
        case Unchanged():
            return None
        case Refused(code, reason):
            kind = DecisionKind.ISR_CHANGE_REFUSED
            why = f"broker {proposal.leader} proposed ISR {list(proposal.members)}: {code.name}, {reason}"
            after = {} if before is None else state_facts(before)
        case Accepted(state, _):
            is_smaller = before is not None and len(state.isr) < len(before.isr)
            kind = DecisionKind.ISR_SHRUNK if is_smaller else DecisionKind.ISR_EXPANDED
            why = f"ISR {list(state.isr)}, as leader {proposal.leader} proposed in epoch {proposal.leader_epoch}"
            after = state_facts(state)
    return Decision(
        kind,
        at_ms,
        broker_id,
        why,
        partition=proposal.partition,
        leader_epoch=proposal.leader_epoch,
        controller_epoch=controller_epoch,
        before={} if before is None else state_facts(before),
        after=after,
        evidence={
            "proposed_isr": proposal.members,
            "broker_epochs": tuple(epoch for _, epoch in proposal.isr),
            "partition_epoch": proposal.partition_epoch,
        },
    )


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


def _answer(index: int, verdict: Unchanged | Refused) -> PartitionData:
    match verdict:
        case Refused(code, _):
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
