"""Reasons: the controller's decisions as why-records, with their evidence.

Pure: values in, `Decision` out. It decides nothing and records nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.controller.decide.election import Elected, ElectionResult, NotElected, PartitionChange
from kavka.controller.decide.reassignment import ReplicaAssignment, dropped
from kavka.controller.decide.state_machines import K, RefusedMove, Replica, S
from kavka.decisions import Decision, DecisionKind, Facts
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znodes import PartitionState, TopicAssignment


class Stamp(NamedTuple):
    """Who decided, and when: a broker, as the controller of that epoch."""

    at_ms: int
    broker_id: BrokerId
    controller_epoch: int


class PartitionView(NamedTuple):
    """A partition as the controller knows it. `state` is None if it has none. `live` are the brokers that could
    lead."""

    partition: TopicPartition
    state: PartitionState | None
    live: tuple[BrokerId, ...]


def partition_change_decision(
    partition: TopicPartition,
    before: PartitionState,
    change: PartitionChange,
    *,
    at_ms: int,
    broker_id: BrokerId,
    unreachable: Sequence[BrokerId] = (),
) -> Decision:
    """A partition's state that the controller changed: an election, or replicas that left the ISR."""
    after, election = change.state, change.election
    evidence: Facts = {"unreachable": tuple(unreachable)} if unreachable else {}
    match election:
        case Elected():
            kind = DecisionKind.LEADER_ELECTED
            lost = "; not in sync: records may be lost" if election.unclean else ""
            why = (
                f"{election.kind.value} election: broker {after.leader} leads from epoch {after.leader_epoch}, "
                f"{election.reason}{lost}"
            )
            evidence = {**evidence, **_election_facts(election), "unclean": election.unclean}
        case NotElected():
            kind = DecisionKind.LEADER_NOT_ELECTED
            why = f"{election.kind.value} election: no leader, {election.reason}"
            evidence = {**evidence, **_election_facts(election)}
        case None:
            kind = DecisionKind.ISR_SHRUNK
            gone = tuple(replica for replica in before.isr if replica not in after.isr)
            goes_on = f"leader {after.leader} goes on with {list(after.isr)}"
            why = change.why or f"replicas {list(gone)} are not alive; {goes_on}"
            evidence = {**evidence, "removed": gone}
    return Decision(
        kind,
        at_ms,
        broker_id,
        why,
        partition=partition,
        leader_epoch=after.leader_epoch,
        controller_epoch=after.controller_epoch,
        before=state_facts(before),
        after=state_facts(after),
        evidence=evidence,
    )


def _election_facts(election: ElectionResult) -> Facts:
    return {"election": election.kind.value, "candidates": election.candidates, "live": election.live}


def state_facts(state: PartitionState) -> Facts:
    """A partition's state as the facts before or after a decision."""
    facts: Facts = {"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": state.isr}
    if state.eligible_leader_replicas:
        facts = {**facts, "eligible_leader_replicas": state.eligible_leader_replicas}
    return facts


def refused_move_decision(move: RefusedMove[K, S], *, at_ms: int, broker_id: BrokerId) -> Decision:
    """A move that the tables of `state_machines` do not allow."""
    key: object = move.key
    partition = key if isinstance(key, TopicPartition) else key.topic_partition if isinstance(key, Replica) else None
    whose = f"replica of broker {key.broker_id}" if isinstance(key, Replica) else "partition"
    return Decision(
        DecisionKind.ILLEGAL_MOVE_REFUSED,
        at_ms,
        broker_id,
        f"{whose}: {move.state.value} cannot change to {move.wanted.value}",
        partition=partition,
        before={"state": str(move.state.value)},
        after={"state": str(move.state.value)},
        evidence={"wanted": str(move.wanted.value)},
    )


def broker_decision(stamp: Stamp, kind: DecisionKind, about: BrokerId, why: str, evidence: Facts) -> Decision:
    """A broker came, went, or turned out to be unreachable or leaving."""
    return Decision(
        kind,
        stamp.at_ms,
        stamp.broker_id,
        why,
        about_broker=about,
        controller_epoch=stamp.controller_epoch,
        evidence=evidence,
    )


def topic_decision(
    stamp: Stamp, kind: DecisionKind, assignment: TopicAssignment, added: Sequence[TopicPartition]
) -> Decision:
    """A topic that was created, or partitions that were added to it."""
    factor = len(assignment.partitions[added[0].partition]) if added else 0
    number = len(assignment.partitions)
    has = (
        f"topic {assignment.topic} has 1 partition"
        if number == 1
        else f"topic {assignment.topic} has {number} partitions"
    )
    why = f"{has}, replication factor {factor}"
    if len(added) < number:
        why = f"{has} now, {len(added)} of them new, replication factor {factor}"
    return Decision(
        kind,
        stamp.at_ms,
        stamp.broker_id,
        why,
        controller_epoch=stamp.controller_epoch,
        evidence={
            "topic": assignment.topic,
            "added": len(added),
            "partitions": number,
            "replication_factor": factor,
        },
    )


def reassignment_decision(
    stamp: Stamp, view: PartitionView, before: ReplicaAssignment, after: ReplicaAssignment
) -> Decision:
    """A reassignment that began, ended or was cancelled."""
    if after.is_being_reassigned:
        kind = DecisionKind.REASSIGNMENT_STARTED
        why = f"the partition moves from {id_list(after.origin)} to {id_list(after.target)}"
        if before.is_being_reassigned:
            why += f", no longer to {id_list(before.target)}"
    elif before.is_being_reassigned and after.replicas == before.origin != before.target:
        kind = DecisionKind.REASSIGNMENT_CANCELLED
        why = f"the partition stays on {id_list(after.replicas)}; the copies on {id_list(before.adding)} are deleted"
    else:
        kind = DecisionKind.REASSIGNMENT_FINISHED
        why = f"all of {id_list(after.replicas)} are in sync"
        if dropped(before, after):
            why += f"; the replicas on {id_list(dropped(before, after))} are deleted"
    return _reassignment(stamp, view, kind, why, before, after.replicas)


def reassignment_refused_decision(stamp: Stamp, view: PartitionView, current: ReplicaAssignment, why: str) -> Decision:
    """A reassignment that was asked for and not begun."""
    return _reassignment(stamp, view, DecisionKind.REASSIGNMENT_REFUSED, why, current, current.replicas)


def _reassignment(
    stamp: Stamp,
    view: PartitionView,
    kind: DecisionKind,
    why: str,
    before: ReplicaAssignment,
    replicas: Sequence[BrokerId],
) -> Decision:
    state = view.state
    return Decision(
        kind,
        stamp.at_ms,
        stamp.broker_id,
        why,
        partition=view.partition,
        leader_epoch=-1 if state is None else state.leader_epoch,
        controller_epoch=stamp.controller_epoch,
        before={"replicas": before.replicas, "adding": before.adding, "removing": before.removing},
        after={"replicas": tuple(replicas)},
        evidence={"isr": () if state is None else state.isr, "live": view.live},
    )


def id_list(replicas: Sequence[int]) -> str:
    """Broker ids as records name them: (1, 2)."""
    return f"({', '.join(map(str, replicas))})"
