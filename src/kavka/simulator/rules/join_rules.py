"""Rules about who becomes a member of an ISR, and who may lead after a loss.

Decides whether a leader could propose a member, whether the controller could accept it, and whether a stored ISR came
about in a legal way.

    R10  who is proposed has, in the leader's epoch, everything up to the high watermark and the epoch's start, and has
         it in fact; the controller takes nobody who is not registered, is leaving, or fetched in a former life
    R10  an ISR only grows as its leader proposed; elections and reassignments add nobody (R21)
    R12  a replica that lost power, and with it committed records, does not lead while another one has them

Source: Kip320.tla's FencedLeaderExpandIsr; KIP-841, KIP-903; docs/design/rules.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.replication.decide.isr_states import CommittedIsr, PendingExpand
from kavka.simulator.rules.log_mirror import differ

if TYPE_CHECKING:
    from kavka.controller.decide.context import ControllerContext
    from kavka.model import LeaderEpoch
    from kavka.simulator.host.wire import Exchange
    from kavka.simulator.rules.replica_view import Look, Seen, View
    from kavka.zookeeper.znodes import PartitionState


class _Ineligible(NamedTuple):
    """A member that the controller must not accept, by what it knew at the time of the request."""

    partition: TopicPartition
    topic: Any
    """Name or id, as the request has it."""
    why: str


class _Wish(NamedTuple):
    """What distinguishes one proposal of a leader from another."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: frozenset[int]


class JoinRules:
    """Gets ISRs from the observer, and AlterPartition from the wire."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._proposed: dict[TopicPartition, dict[tuple[LeaderEpoch, frozenset[int]], None]] = {}
        self._was_eligible: dict[_Wish, None] = {}
        """Proposals that could be taken when they came first; sent again they may be found stored."""

    def forget(self, topic: str) -> None:
        """The topic is deleted."""
        for partition in [partition for partition in self._proposed if partition.topic == topic]:
            del self._proposed[partition]

    def on_isr(self, seen: Seen, look: Look) -> None:
        """A leader's own view of its ISR changed."""
        isr = look.isr
        if isinstance(isr, CommittedIsr) or not look.is_leader:
            return
        partition = seen.partition
        proposed = self._proposed.setdefault(partition.topic_partition, {})
        for known in [known for known in proposed if known[0] < look.state.leader_epoch]:
            del proposed[known]
        proposed[look.state.leader_epoch, frozenset(isr.proposal.isr)] = None
        if isinstance(isr, PendingExpand):
            self._check_candidate(seen, look, isr)

    def _check_candidate(self, seen: Seen, look: Look, isr: PendingExpand) -> None:
        partition, joining = seen.partition, isr.joining
        needed = max(look.high_watermark, partition.leader_epoch_start_offset)
        remote = partition.remote_replica(joining)
        known_end = -1 if remote is None else remote.log_end_offset
        if known_end < needed:
            text = f"{seen.name} proposes {joining}, known to {known_end}, {needed} is needed"
            self._view.require("R10", holds=False, text=text)
        other = self._view.replicas[partition.topic_partition].get(joining)
        hosted = other.broker.hosted if other is not None else None
        if other is None or hosted is None or not other.is_present or self._view.allows_loss(partition.topic_partition):
            return
        epochs = dict(isr.proposal.new_isr)
        is_same_life = epochs[joining] == hosted.broker_epoch
        if is_same_life and other.partition.log.log_end_offset < needed:
            text = f"{seen.name} proposes {joining}, whose log ends at {other.partition.log.log_end_offset}: {needed}"
            self._view.require("R10", holds=False, text=f"{text} is needed")

    def on_stored(self, partition: TopicPartition, before: PartitionState, state: PartitionState) -> None:
        """A state was stored in the next version."""
        added = set(state.isr) - set(before.isr)
        if not added:
            return
        if state.leader_epoch == before.leader_epoch:
            is_proposed = (state.leader_epoch, frozenset(state.isr)) in self._proposed.get(partition, {})
            self._view.require("R10", is_proposed, f"{partition}: {state} after {before}, which no leader proposed")
        elif not self._view.allows_loss(partition):
            # Its return may have put the last leader out of an ISR of which nobody is left to trust (KIP-966).
            is_last_leader = before.leader == NO_LEADER and state.isr == before.last_known_elr
            is_allowed = is_last_leader or added <= set(before.eligible_leader_replicas)
            self._view.require("R21", is_allowed, f"{partition}: {state} after {before}: an election added members")

    def on_leader(self, broker_id: int, seen: Seen, isr: tuple[int, ...]) -> None:
        """R12: a replica leads in the stored epoch; `isr` is the stored one."""
        view, partition = self._view, seen.partition.topic_partition
        committed = view.committed.get(partition)
        if committed is None or (broker_id, partition) not in view.powerless:
            return
        difference = differ(committed, seen.mirror, committed.end)
        if not difference:
            del view.powerless[broker_id, partition]
        elif isr != (broker_id,):
            text = f"{seen.name} leads with ISR {isr}, it lost power and lacks committed records: {difference}"
            view.require("R12", holds=False, text=text)

    # -- what the controller is asked

    def on_request(self, exchange: Exchange) -> None:
        """Notes which proposals the controller must refuse."""
        hosted = exchange.broker.broker
        if exchange.key is not ApiKey.ALTER_PARTITION or hosted is None or not hosted.controller.is_active:
            return
        context = hosted.controller.context
        for topic in exchange.request.topics:
            name = self._view.topic_name(topic.topic_id) if topic.topic_id.int else topic.topic_name
            for proposed in topic.partitions:
                partition = TopicPartition(name, proposed.partition_index)
                known = context.states.get(partition)
                if known is None or not proposed.new_isr_with_epochs:
                    continue
                members = {member.broker_id: member.broker_epoch for member in proposed.new_isr_with_epochs}
                wish = _Wish(partition, proposed.leader_epoch, proposed.partition_epoch, frozenset(members))
                reasons = [
                    why
                    for broker_id, epoch in members.items()
                    if (why := _ineligible(context, broker_id, epoch)) and broker_id not in known.state.isr
                ]
                if not reasons:
                    self._was_eligible[wish] = None
                elif wish not in self._was_eligible:
                    key = topic.topic_id if topic.topic_id.int else topic.topic_name
                    exchange.expected.append(_Ineligible(partition, key, reasons[0]))

    def on_answer(self, exchange: Exchange) -> None:
        """R10: checks that what had to be refused was refused."""
        if exchange.key is not ApiKey.ALTER_PARTITION or exchange.answer.error_code:
            return
        for refusal in exchange.expected:
            if not isinstance(refusal, _Ineligible):
                continue
            for topic in exchange.answer.topics:
                if refusal.topic not in (topic.topic_id, topic.topic_name):
                    continue
                for answered in topic.partitions:
                    if answered.partition_index == refusal.partition.partition:
                        self._view.require("R10", answered.error_code != 0, f"{refusal.partition}: {refusal.why}")


def _ineligible(context: ControllerContext, broker_id: int, epoch: int) -> str:
    """Why a broker may join no ISR, as the controller knows; empty if it may."""
    registered = context.broker_epoch(BrokerId(broker_id))
    if registered < 0:
        return f"broker {broker_id} was taken into the ISR, which is not registered"
    if broker_id in context.shutting_down:
        return f"broker {broker_id} was taken into the ISR, which is shutting down"
    if epoch not in (-1, registered):
        return f"broker {broker_id} was taken into the ISR with epoch {epoch}, it is registered with {registered}"
    return ""
