"""ISR proposals: whether the ISR that a leader proposes is accepted.

Decides on one proposal by what the controller knows.

What is compared, in this order; the first that fits is the answer:

    topic or partition unknown, or being deleted       UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION
    an epoch higher than the controller's              NOT_CONTROLLER: there is a newer one, which wrote it
    a leader epoch lower than the present one          FENCED_LEADER_EPOCH
    leader, ISR and recovery as they are already       success, with the present partition epoch (S16: an answer lost)
    another partition epoch                            INVALID_UPDATE_VERSION
    not from the leader; ISR without it; no replica,   INVALID_REQUEST
      or one twice
    recovering with more than the leader, or again,    INVALID_REQUEST
      or in no state of recovery that there is
    a new member that is not alive, is shutting down,  INELIGIBLE_REPLICA (before version 2: OPERATION_NOT_ATTEMPTED)
      is unreachable, or fetched in another life (S18)

Invariants:
I1  The ISR is never empty, and the leader is in it.
I2  Nobody joins the ISR whose registration is not the one that it fetched with (KIP-903), nor on its way out (KIP-841).

Source: Kafka's KafkaController.tryProcessAlterPartition; KIP-497, KIP-704, KIP-841, KIP-903. That a proposal must come
from the leader and name replicas only, and the check of broker epochs, are those of its KRaft controllers.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from kavka.controller.decide.context import NO_BROKER_EPOCH, ControllerContext, KnownState
from kavka.controller.decide.reasons import state_facts
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znodes import RECOVERED, RECOVERING, PartitionState

FIRST_VERSION_WITH_TOPIC_IDS: Final = 2
"""Of AlterPartition: before it INELIGIBLE_REPLICA is not known."""


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


class ProposalRefused(NamedTuple):
    """Why not; `reason` is a sentence."""

    code: ErrorCode
    reason: str


Verdict: TypeAlias = Accepted | Unchanged | ProposalRefused


def judge(proposal: Proposal, context: ControllerContext, *, version: int) -> Verdict:
    """The answer to one proposal, in the order of the module's table."""
    known = context.states.get(proposal.partition)
    if known is None or proposal.partition.topic in context.topics_to_delete:
        return ProposalRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    present = known.state
    if proposal.partition_epoch > known.version or proposal.leader_epoch > present.leader_epoch:
        return ProposalRefused(
            ErrorCode.NOT_CONTROLLER,
            f"leader epoch {proposal.leader_epoch} and partition epoch {proposal.partition_epoch} are newer than this "
            f"controller's, {present.leader_epoch} and {known.version}",
        )
    if proposal.leader_epoch < present.leader_epoch:
        return ProposalRefused(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {proposal.leader_epoch} is over, the current one is {present.leader_epoch}",
        )
    is_same = proposal.leader == present.leader and proposal.recovery == present.leader_recovery_state
    if is_same and sorted(proposal.members) == sorted(present.isr):
        return Unchanged(known)
    if proposal.partition_epoch != known.version:
        return ProposalRefused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"it is based on partition epoch {proposal.partition_epoch}, the current one is {known.version}",
        )
    return _judge_members(proposal, known, context, version)


def _judge_members(proposal: Proposal, known: KnownState, context: ControllerContext, version: int) -> Verdict:
    present, members = known.state, proposal.members
    replicas = context.topics[proposal.partition.topic].replicas(proposal.partition.partition)
    if proposal.leader != present.leader:
        return ProposalRefused(
            ErrorCode.INVALID_REQUEST, f"broker {proposal.leader} proposed it, broker {present.leader} leads"
        )
    if proposal.leader not in members or not set(members) <= set(replicas) or len(set(members)) < len(members):
        return ProposalRefused(
            ErrorCode.INVALID_REQUEST,
            f"an ISR of {list(members)} lacks leader {proposal.leader}, names a broker twice, or goes beyond the "
            f"replicas {list(replicas)}",
        )
    if proposal.recovery not in (RECOVERED, RECOVERING):
        return ProposalRefused(ErrorCode.INVALID_REQUEST, f"there is no leader recovery state {proposal.recovery}")
    if proposal.recovery == RECOVERING and (len(members) > 1 or present.leader_recovery_state == RECOVERED):
        return ProposalRefused(
            ErrorCode.INVALID_REQUEST, f"a leader that recovers cannot have an ISR of {list(members)}"
        )
    for broker_id, epoch in proposal.isr:
        # Who is in the ISR already was judged when it joined; and a leader may go on while it is shutting down.
        ineligible = None if broker_id in present.isr else _ineligible(broker_id, epoch, context)
        if ineligible is not None:
            code = ErrorCode.INELIGIBLE_REPLICA
            if version < FIRST_VERSION_WITH_TOPIC_IDS:
                code = ErrorCode.OPERATION_NOT_ATTEMPTED
            return ProposalRefused(code, ineligible)
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
        case ProposalRefused(code, reason):
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
