"""Eligible leader replicas: who may lead although it left the ISR, and who may not although it is in it (KIP-966).

Decides, where kavka.eligible.leader.replicas.enable is on: which replicas stay eligible (the ELR) when a state
changes, and what becomes of a partition when a broker is back uncleanly: after a stop by which it may have lost what it
had not synced (broker/membership/incarnation.py). Pure; it knows no znodes but the state's form.

What it rests on: with the option a leader commits nothing while fewer than min.insync.replicas are in sync (capped by
the number of replicas; `needed` below). So whoever leaves the ISR then has all that is committed, until that many are
in sync again.

    the ISR changes     |ISR| >= needed: the ELR is empty. Else it is what it was and what the ISR was, without the ISR,
                        without brokers that are no replicas (any more), without those that came back uncleanly
    back uncleanly      out of ISR and ELR while another member of either is left, dead or alive. If that leaves no ISR,
                        a live member of the ELR leads alone; if none lives, the ELR is the ISR of a partition without a
                        leader: whichever returns first may lead
    none is left        the last known leader, in the ISR or put out of it when it came back, or else the first of the
                        ISR, may lead when it is alive: an unclean election. What is lost then is what it had not synced
                        when it stopped, and no other member had either, or had and lost by its own unclean stop

Invariants:
I1  Each member of ISR and ELR has all that is committed, unless the leader was elected uncleanly.
I2  ISR and ELR are disjoint, and together no more than the ISR was when it was `needed` the last time.
I3  The ELR of a state with |ISR| >= needed is void: min.insync.replicas was lowered, and records may be committed that
    those replicas do not have.

Source: KIP-966; Kafka's PartitionChangeBuilder (KRaft). There the ISR may become empty; here it never does, as nothing
that reads ZooKeeper's form of the state expects that: the last member that was left stays in it, dead or not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from kavka.controller.decide.election import (
    Elected,
    ElectionKind,
    PartitionChange,
    after_broker_change,
    elect_offline,
)
from kavka.model import NO_LEADER, BrokerId
from kavka.zookeeper.znodes import RECOVERING, PartitionState


class LiveBrokers(NamedTuple):
    """A `Question`: only the brokers of `live` are alive. `needed` of -1: eligible leader replicas are not
    kept. `unclean` are the brokers that are back uncleanly."""

    replicas: tuple[BrokerId, ...]
    live: tuple[BrokerId, ...]
    unclean_allowed: bool
    controller_epoch: int
    leaving: tuple[BrokerId, ...]
    needed: int = -1
    unclean: tuple[BrokerId, ...] = ()

    def answer(self, state: PartitionState) -> PartitionChange | None:
        if self.needed < 0:
            return after_broker_change(
                self.replicas,
                state,
                self.live,
                unclean_allowed=self.unclean_allowed,
                controller_epoch=self.controller_epoch,
                leaving=self.leaving,
            )
        return _after_broker_change_with_elr(self, state)


def present_elr(state: PartitionState, needed: int) -> tuple[BrokerId, ...]:
    """The ELR as far as it holds (I3)."""
    return state.eligible_leader_replicas if len(state.isr) < needed else ()


def with_elr(
    before: PartitionState,
    after: PartitionState,
    *,
    staying: Collection[BrokerId],
    needed: int,
    unclean: Collection[BrokerId] = (),
) -> PartitionState:
    """`after`, which follows `before`, with the ELR and the last known leader that it has to have. `staying` are the
    replicas that are left, `unclean` the brokers that are back uncleanly."""
    elr: tuple[BrokerId, ...] = ()
    if len(after.isr) < needed:
        former = dict.fromkeys((*present_elr(before, needed), *before.isr))
        elr = tuple(each for each in former if each in staying and each not in after.isr and each not in unclean)
    last: tuple[BrokerId, ...] = ()
    if after.leader == NO_LEADER:
        last = before.last_known_elr if before.leader == NO_LEADER else (before.leader,)
    return replace(after, eligible_leader_replicas=elr, last_known_elr=last)


def _after_broker_change_with_elr(asked: LiveBrokers, state: PartitionState) -> PartitionChange | None:
    """As `election.after_broker_change`, by the table above. The ELR of the state it gives is left to `with_elr`."""
    elr = present_elr(state, asked.needed)
    members = (*state.isr, *elr)
    trusted = [member for member in members if member not in asked.unclean]
    if not trusted:
        return _after_last_resort(asked, state)
    isr = tuple(member for member in state.isr if member in trusted)
    eligible = tuple(member for member in elr if member in trusted)
    leader = state.leader if state.leader in isr else NO_LEADER
    judged = replace(state, leader=leader, isr=isr)
    change = after_broker_change(
        asked.replicas,
        judged,
        asked.live,
        unclean_allowed=asked.unclean_allowed,
        controller_epoch=asked.controller_epoch,
        leaving=asked.leaving,
        eligible=eligible,
    )
    why = ""
    if len(trusted) < len(members):
        out = [member for member in members if member in asked.unclean]
        why = f"brokers {out} did not stop cleanly: they leave the ISR and the ELR, where {trusted} remain"
    elif state.eligible_leader_replicas and not elr:
        gone = list(state.eligible_leader_replicas)
        why = f"the size of the ISR is {len(state.isr)}, which is enough; no longer eligible: {gone}"
    if change is None:
        if not why:
            return None
        same = replace(judged, leader_epoch=state.leader_epoch + 1, controller_epoch=asked.controller_epoch)
        change = PartitionChange(same, None)
    if not change.state.isr:
        change = change._replace(state=replace(change.state, isr=eligible))
    return change._replace(why=why)


def _after_last_resort(asked: LiveBrokers, state: PartitionState) -> PartitionChange | None:
    """All members are back uncleanly."""
    replicas, controller_epoch = asked.replicas, asked.controller_epoch
    known = (state.leader, *state.last_known_elr)
    last = next((broker_id for broker_id in known if broker_id in replicas), state.isr[0])
    candidates = [broker_id for broker_id in replicas if broker_id in asked.live and broker_id not in asked.leaving]
    result = elect_offline(replicas, (last,), candidates, unclean_allowed=asked.unclean_allowed)
    epoch = state.leader_epoch + 1
    if isinstance(result, Elected):
        if result.leader == last:
            reason = "no member of ISR or ELR stopped cleanly; last known leader, which may lack what it had not synced"
            result = Elected(ElectionKind.OFFLINE, last, (last,), True, reason, result.candidates, result.live)
        return PartitionChange(PartitionState(result.leader, epoch, result.isr, controller_epoch, RECOVERING), result)
    if state.leader == NO_LEADER and state.isr == (last,):
        return None
    recovery = state.leader_recovery_state
    return PartitionChange(PartitionState(NO_LEADER, epoch, (last,), controller_epoch, recovery), result)
