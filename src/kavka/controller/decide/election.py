"""Who leads a partition: its first leader, and four kinds of elections after.

Each decision takes the replicas, the in-sync replicas and who is alive, and returns the new leader and ISR with the
reason and what it rested on, or why there is none. It knows no znodes, requests or epochs.

Invariants:
I1  The leader is alive and in the new ISR; the new ISR is never empty.
I2  A leader from outside the ISR (an unclean election: records may be lost) comes only out of an offline election
    with `unclean_allowed`, is marked as such, and stands alone in the ISR. So stands an eligible leader replica
    (`eligible_leaders`), which has every committed record: that election is clean.
I3  Without a live in-sync replica nothing is changed: the ISR remembers who has every committed record.

Source: Kafka's PartitionLeaderElectionAlgorithms; for `without_offline` the case C of replication's crash table, where
Kafka's ReplicaStateMachine keeps whichever member it removes last.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from kavka.model import NO_LEADER, BrokerId
from kavka.zookeeper.znodes import RECOVERING, PartitionState


class ElectionKind(Enum):
    """Why a leader is elected."""

    INITIAL = "initial"
    """The partition never had a leader: all live replicas are in sync, with nothing."""
    OFFLINE = "offline"
    """The partition lost its leader."""
    PREFERRED = "preferred"
    """The first replica is to lead."""
    REASSIGNMENT = "reassignment"
    """The leader is not among the replicas that the partition moves to."""
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    """The leader is about to stop."""


class Elected(NamedTuple):
    """A leader. `unclean`: it was not in sync. `reason` is a sentence, `candidates` the order of preference."""

    kind: ElectionKind
    leader: BrokerId
    isr: tuple[BrokerId, ...]
    unclean: bool
    reason: str
    candidates: tuple[BrokerId, ...]
    live: tuple[BrokerId, ...]


class NotElected(NamedTuple):
    """No leader could be elected. The partition's state does not change."""

    kind: ElectionKind
    reason: str
    candidates: tuple[BrokerId, ...]
    live: tuple[BrokerId, ...]


ElectionResult: TypeAlias = Elected | NotElected


def elect_initial(replicas: Sequence[BrokerId], live: Collection[BrokerId]) -> ElectionResult:
    """The first live replica leads. The ISR is all live replicas."""
    alive = tuple(replica for replica in replicas if replica in live)
    if not alive:
        return NotElected(ElectionKind.INITIAL, "no replica is alive", tuple(replicas), alive)
    reason = "first live replica of a new partition"
    return Elected(ElectionKind.INITIAL, alive[0], alive, False, reason, tuple(replicas), alive)


def elect_offline(
    replicas: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    live: Collection[BrokerId],
    *,
    unclean_allowed: bool,
    eligible: Collection[BrokerId] = (),
) -> ElectionResult:
    """The first live in-sync replica leads, and the ISR is the live in-sync replicas. Otherwise the first live one of
    `eligible` leads, alone in the ISR; otherwise, if allowed, the first live replica, alone."""
    kind = ElectionKind.OFFLINE
    alive = tuple(replica for replica in replicas if replica in live)
    leader = next((replica for replica in alive if replica in isr), None)
    if leader is not None:
        remaining = tuple(replica for replica in isr if replica in live)
        return Elected(kind, leader, remaining, False, "first live in-sync replica", tuple(replicas), alive)
    leader = next((replica for replica in alive if replica in eligible), None)
    if leader is not None:
        reason = "no in-sync replica is alive; first live eligible leader replica, which has all that is committed"
        return Elected(kind, leader, (leader,), False, reason, tuple(replicas), alive)
    if not alive:
        return NotElected(kind, "no replica is alive", tuple(replicas), alive)
    if not unclean_allowed:
        return NotElected(
            kind,
            "no in-sync replica is alive and unclean.leader.election.enable is false",
            tuple(replicas),
            alive,
        )
    reason = "the first live replica, as no in-sync replica is alive"
    return Elected(kind, alive[0], (alive[0],), True, reason, tuple(replicas), alive)


def elect_preferred(
    replicas: Sequence[BrokerId], isr: Sequence[BrokerId], live: Collection[BrokerId]
) -> ElectionResult:
    """The first replica leads, if it is alive and in sync."""
    kind = ElectionKind.PREFERRED
    alive = tuple(replica for replica in replicas if replica in live)
    preferred = replicas[0] if replicas else None
    if preferred is not None and preferred in live and preferred in isr:
        return Elected(kind, preferred, tuple(isr), False, "preferred replica", tuple(replicas), alive)
    reason = "the preferred replica is not in sync" if preferred in live else "the preferred replica is not alive"
    return NotElected(kind, reason, tuple(replicas), alive)


def elect_for_reassignment(
    target_replicas: Sequence[BrokerId], isr: Sequence[BrokerId], live: Collection[BrokerId]
) -> ElectionResult:
    """The first of the target replicas that is alive and in sync leads."""
    return _first_in_sync(ElectionKind.REASSIGNMENT, target_replicas, isr, live, isr, "first in-sync target replica")


def elect_for_controlled_shutdown(
    replicas: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    live: Collection[BrokerId],
    shutting_down: Collection[BrokerId],
) -> ElectionResult:
    """The next live in-sync replica that is not shutting down leads. Replicas that are shutting down leave the ISR."""
    staying = [replica for replica in live if replica not in shutting_down]
    remaining = [replica for replica in isr if replica not in shutting_down]
    reason = "first in-sync replica that stays"
    return _first_in_sync(ElectionKind.CONTROLLED_SHUTDOWN, replicas, remaining, staying, remaining, reason)


def _first_in_sync(
    kind: ElectionKind,
    candidates: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    live: Collection[BrokerId],
    new_isr: Sequence[BrokerId],
    reason: str,
) -> ElectionResult:
    alive = tuple(replica for replica in candidates if replica in live)
    leader = next((replica for replica in alive if replica in isr), None)
    if leader is None:
        return NotElected(kind, "no live candidate is in sync", tuple(candidates), alive)
    return Elected(kind, leader, tuple(new_isr), False, reason, tuple(candidates), alive)


def without_offline(isr: Sequence[BrokerId], live: Collection[BrokerId]) -> tuple[BrokerId, ...]:
    """The ISR of a partition when only `live` brokers are left.

    If none of it lives, it stays whole: all its members died in one event, nothing was committed after any of them
    left, and so whichever returns first may lead.
    """
    remaining = tuple(replica for replica in isr if replica in live)
    return remaining or tuple(isr)


class PartitionChange(NamedTuple):
    """What becomes of a partition after brokers came or went: its next state, and the election that led to it, if
    there was one. `why`, a sentence, if it is not that replicas are dead. `staying` are the replicas that are left,
    where that is fewer than are assigned yet."""

    state: PartitionState
    election: ElectionResult | None
    why: str = ""
    staying: tuple[BrokerId, ...] | None = None


def after_broker_change(  # noqa: PLR0913 - asked for every partition of a broker that goes: no value is made for it
    replicas: Sequence[BrokerId],
    state: PartitionState,
    live: Collection[BrokerId],
    *,
    unclean_allowed: bool,
    controller_epoch: int,
    leaving: Collection[BrokerId] = (),
    eligible: Collection[BrokerId] = (),
) -> PartitionChange | None:
    """The partition's next state when only `live` brokers are alive, or None if nothing changes for it.

    A dead leader is replaced, or leaves the partition without one; dead followers leave the ISR. Every change raises
    the leader epoch, so that a request of a broker that was thought dead is refused. Brokers that are `leaving` (their
    controlled shutdown has begun) keep what they lead and win no election.
    """
    epoch = state.leader_epoch + 1
    if state.leader in live:
        isr = without_offline(state.isr, live)
        if isr == state.isr:
            return None
        next_state = PartitionState(state.leader, epoch, isr, controller_epoch, state.leader_recovery_state)
        return PartitionChange(next_state, None)
    candidates = [broker_id for broker_id in replicas if broker_id in live and broker_id not in leaving]
    result = elect_offline(replicas, state.isr, candidates, unclean_allowed=unclean_allowed, eligible=eligible)
    if isinstance(result, Elected):
        recovery = RECOVERING if result.unclean else state.leader_recovery_state
        return PartitionChange(PartitionState(result.leader, epoch, result.isr, controller_epoch, recovery), result)
    isr = without_offline(state.isr, live)
    if state.leader == NO_LEADER and isr == state.isr:
        return None
    next_state = PartitionState(NO_LEADER, epoch, isr, controller_epoch, state.leader_recovery_state)
    return PartitionChange(next_state, result)
