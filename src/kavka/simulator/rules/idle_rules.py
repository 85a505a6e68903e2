"""R32: a partition that a follower's fetch session keeps aside is as the follower was told, and as it said.

Decides whether a leader may leave the partition out of the session's fetches. What changes a partition must bring it
back in the same step; else its follower would not hear of the change before somebody changed something else.

Source: docs/design/rules.md; kavka.replication.decide.idle_partitions, I1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.model import NO_EPOCH

if TYPE_CHECKING:
    from kavka.broker.reads.fetch_session import FetchSession
    from kavka.replication.decide.idle_partitions import IdlePartition
    from kavka.replication.decide.partition import Partition
    from kavka.replication.decide.replica import RemoteReplica
    from kavka.simulator.rules.replica_view import Seen, View


class IdleRules:
    """Is told of each replica that a step has changed, and of those that left their broker."""

    def __init__(self, view: View) -> None:
        self._view = view

    def on_change(self, seen: Seen) -> None:
        """The replica's log, role or replicas changed."""
        hosted = seen.broker.hosted
        if hosted is None:
            return
        for replica in seen.partition.remote_replicas():
            if replica.idle is not None:
                fault = _fault(seen.partition, replica, replica.idle, hosted.fetch_sessions.sessions())
                if fault:
                    text = f"{seen.name}: idle for broker {replica.broker_id}, {fault}"
                    self._view.require("R32", holds=False, text=text)

    def on_gone(self, broker_id: int, partition: Partition) -> None:
        """The partition is not hosted there any more."""
        for replica in partition.remote_replicas():
            if replica.idle is not None:
                text = f"{partition.topic_partition} is gone from broker {broker_id}, and idle for {replica.broker_id}"
                self._view.require("R32", holds=False, text=text)


def _fault(partition: Partition, replica: RemoteReplica, idle: IdlePartition, sessions: list[FetchSession]) -> str:
    """Why the partition must not be idle; empty if it may."""
    log, spec = partition.log, idle.spec
    if not partition.is_leader or not replica.in_maximal_isr:
        return f"leads {partition.is_leader}, in the ISR {replica.in_maximal_isr}"
    if not spec.fetch_offset == replica.log_end_offset == log.log_end_offset:
        return f"fetched at {spec.fetch_offset}, known to end at {replica.log_end_offset}, ends at {log.log_end_offset}"
    if spec.log_start_offset != replica.log_start_offset:
        return f"began at {spec.log_start_offset}, known to begin at {replica.log_start_offset}"
    if spec.current_leader_epoch not in (NO_EPOCH, partition.leader_epoch):
        return f"fetched in leader epoch {spec.current_leader_epoch}, now it is {partition.leader_epoch}"
    if spec.last_fetched_epoch not in (NO_EPOCH, log.latest_epoch):
        return f"fetched behind epoch {spec.last_fetched_epoch}, the log ends with {log.latest_epoch}"
    now = (log.high_watermark, log.log_start_offset)
    for session in sessions:
        if session.idle is idle.partitions and session.told(idle.key) != now:
            return f"was told of high watermark and log start {session.told(idle.key)}, now they are {now}"
    return ""
