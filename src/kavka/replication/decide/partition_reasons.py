"""The why-records of a partition: each with its sentence, and the numbers that show it.

They read the partition and change nothing. `partition` decides which of them is due, and `refusals` decides how often
a refusal is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from kavka.decisions import Decision, DecisionKind, Fact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from kavka.errors import ErrorCode
    from kavka.model import BrokerId, LeaderAndIsr, LeaderEpoch
    from kavka.replication.decide.isr_states import IsrProposal
    from kavka.replication.decide.lag_policy import LagPolicy
    from kavka.replication.decide.partition import Partition
    from kavka.replication.decide.replica import RemoteReplica


class _Facts(TypedDict, total=False):
    before: dict[str, Fact]
    after: dict[str, Fact]
    evidence: dict[str, Fact]


def _decision(
    partition: Partition,
    kind: DecisionKind,
    why: str,
    now_ms: int,
    **facts: Unpack[_Facts],
) -> Decision:
    return Decision(
        kind,
        now_ms,
        partition.local_broker_id,
        why,
        partition=partition.topic_partition,
        leader_epoch=partition.leader_epoch,
        **facts,
    )


def _offsets(partition: Partition) -> dict[str, Fact]:
    return {
        "high_watermark": partition.log.high_watermark,
        "log_end_offset": partition.log.log_end_offset,
        "leader_epoch_start_offset": partition.leader_epoch_start_offset,
    }


# -- roles


def leadership_taken(partition: Partition, before: LeaderAndIsr, now_ms: int, *, is_new: bool) -> Decision:
    """The partition leads in a new epoch."""
    state, log = partition.state, partition.log
    return _decision(
        partition,
        DecisionKind.LEADERSHIP_TAKEN,
        f"the controller made broker {partition.local_broker_id} the leader in epoch {state.leader_epoch}; its log "
        f"ends at {log.log_end_offset}, and records below {log.high_watermark} are known to be committed",
        now_ms,
        before={"leader": before.leader, "leader_epoch": before.leader_epoch},
        after={"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": list(state.isr)},
        evidence={
            "is_new": is_new,
            "partition_epoch": state.partition_epoch,
            "replicas": list(partition.replicas),
        },
    )


def following(partition: Partition, before: LeaderAndIsr, now_ms: int, *, needs_truncation: bool) -> Decision:
    """The partition follows another leader, or the same in a new epoch."""
    state = partition.state
    return _decision(
        partition,
        DecisionKind.FOLLOWING,
        f"broker {partition.local_broker_id} follows broker {state.leader} in leader epoch {state.leader_epoch}"
        + (", and first finds where their logs diverge" if needs_truncation else ""),
        now_ms,
        before={"leader": before.leader, "leader_epoch": before.leader_epoch},
        after={"leader": state.leader, "leader_epoch": state.leader_epoch},
    )


def resigned(partition: Partition, later_epoch: LeaderEpoch, now_ms: int) -> Decision:
    """The partition no longer leads: the controller answered that its leader epoch is over."""
    known = partition.leader_epoch
    return _decision(
        partition,
        DecisionKind.FENCED,
        f"broker {partition.local_broker_id} led in epoch {known}, which is over according to the controller: it "
        "accepts and serves no records until it learns the next leader",
        now_ms,
        evidence={"leader_epoch": known, "later_epoch": later_epoch},
    )


# -- refusals


def too_few_in_sync(partition: Partition) -> str:
    isr, needed = partition.state.isr, partition.effective_min_isr
    return f"the size of {partition.topic_partition}'s ISR is {len(isr)}, and min.insync.replicas asks for {needed}"


def produce_refused(partition: Partition, now_ms: int) -> Decision:
    """An acks=all append was refused because too few replicas are in sync."""
    return _decision(
        partition,
        DecisionKind.PRODUCE_REFUSED,
        too_few_in_sync(partition),
        now_ms,
        evidence={
            "isr": list(partition.state.isr),
            "min_insync_replicas": partition.min_insync_replicas,
            "high_watermark": partition.log.high_watermark,
            "log_end_offset": partition.log.log_end_offset,
        },
    )


def fetched_in_another_epoch(
    partition: Partition, broker_id: BrokerId, asked_epoch: LeaderEpoch, code: ErrorCode, now_ms: int
) -> Decision:
    """A follower's fetch was refused: it was meant for another leader epoch."""
    return _decision(
        partition,
        DecisionKind.FENCED,
        f"broker {broker_id} fetched in leader epoch {asked_epoch}, broker {partition.local_broker_id} "
        f"is in {partition.leader_epoch}: {code.name}",
        now_ms,
        evidence={"fetching_broker": broker_id, "asked_epoch": asked_epoch, "error": code.name},
    )


def sent_before_restart(broker_id: BrokerId, epochs: tuple[int, int]) -> str:
    """`epochs`: the broker epoch of the fetch, and the present one."""
    return (
        f"broker {broker_id} sent this fetch before its restart, with broker epoch {epochs[0]}; it is registered with "
        f"{epochs[1]} now"
    )


def fetched_before_restart(partition: Partition, broker_id: BrokerId, epochs: tuple[int, int], now_ms: int) -> Decision:
    """A follower's fetch was refused: the broker sent it before its restart."""
    return _decision(
        partition,
        DecisionKind.FENCED,
        sent_before_restart(broker_id, epochs),
        now_ms,
        evidence={
            "fetching_broker": broker_id,
            "broker_epoch": epochs[0],
            "registered_epoch": epochs[1],
        },
    )


# -- who is in sync


def isr_shrunk(
    partition: Partition,
    leaving: Sequence[RemoteReplica],
    strangers: Sequence[BrokerId],
    policy: LagPolicy,
    now_ms: int,
) -> Decision:
    """`leaving` lag, and `strangers` are no longer replicas: the leader proposes an ISR without them."""
    end_offset, isr = partition.log.log_end_offset, partition.isr_state.maximal_isr
    gone = {*(replica.broker_id for replica in leaving), *strangers}
    reasons = [f"broker {r.broker_id} {policy.why(r, end_offset, now_ms)}" for r in leaving]
    reasons += [f"broker {broker_id} is no longer a replica" for broker_id in strangers]
    evidence: dict[str, Fact] = _offsets(partition)
    for replica in leaving:
        evidence[f"broker_{replica.broker_id}_log_end_offset"] = replica.log_end_offset
        evidence[f"broker_{replica.broker_id}_last_caught_up_ms"] = replica.last_caught_up_ms
        evidence[f"broker_{replica.broker_id}_last_fetch_ms"] = replica.last_fetch_ms
    return _decision(
        partition,
        DecisionKind.ISR_SHRUNK,
        "; ".join(reasons),
        now_ms,
        before={"isr": list(isr)},
        after={"isr": [broker_id for broker_id in isr if broker_id not in gone]},
        evidence=evidence,
    )


def isr_expanded(partition: Partition, joining: RemoteReplica, now_ms: int) -> Decision:
    """`joining` has caught up: the leader proposes an ISR with it."""
    isr, high_watermark = list(partition.isr_state.maximal_isr), partition.log.high_watermark
    return _decision(
        partition,
        DecisionKind.ISR_EXPANDED,
        f"broker {joining.broker_id} has caught up: its log ends at {joining.log_end_offset}, the high watermark is "
        f"{high_watermark}",
        now_ms,
        before={"isr": list(isr)},
        after={"isr": [*isr, joining.broker_id]},
        evidence={
            **_offsets(partition),
            "joining": joining.broker_id,
            "log_end_offset_of_joining": joining.log_end_offset,
            "broker_epoch_of_joining": joining.broker_epoch,
        },
    )


def isr_change_refused(
    partition: Partition, proposal: IsrProposal, current: LeaderAndIsr | None, error: ErrorCode, now_ms: int
) -> Decision:
    """A proposed ISR was refused. `current` is the stored state, if the answer has it."""
    return _decision(
        partition,
        DecisionKind.ISR_CHANGE_REFUSED,
        f"the ISR {list(proposal.isr)} was refused with {error.name}: {proposal.decision.why}",
        now_ms,
        before={"isr": list(partition.state.isr)},
        after={} if current is None else {"isr": list(current.isr), "leader": current.leader},
        evidence={"error": error.name, "partition_epoch": proposal.partition_epoch, "isr": list(proposal.isr)},
    )
