"""PartitionSnapshot: all that a `Partition` remembers, as a value. Its next decisions follow from this value, its log
and its later inputs.

Decides nothing. A flight recording begins with one for each partition, and a replay continues from it.
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.decisions import DecisionKind
from kavka.model import BrokerId, LeaderAndIsr, LeaderEpoch, Offset
from kavka.replication.decide.isr_states import IsrProposal, IsrState
from kavka.replication.decide.replica import RemoteReplica


class RemoteSnapshot(NamedTuple):
    """A `RemoteReplica`; its membership in the maximal ISR follows from the partition's ISR."""

    broker_id: BrokerId
    log_start_offset: Offset
    log_end_offset: Offset
    last_fetch_leader_end_offset: Offset
    last_caught_up_ms: int
    last_fetch_ms: int
    broker_epoch: int

    @classmethod
    def of(cls, replica: RemoteReplica) -> RemoteSnapshot:
        return cls(
            replica.broker_id,
            replica.log_start_offset,
            replica.log_end_offset,
            replica.last_fetch_leader_end_offset,
            replica.last_caught_up_ms,
            replica.last_fetch_ms,
            replica.broker_epoch,
        )

    def give_to(self, replica: RemoteReplica) -> None:
        """Has `replica` be what the snapshot was taken of."""
        replica.log_start_offset = self.log_start_offset
        replica.log_end_offset = self.log_end_offset
        replica.last_fetch_leader_end_offset = self.last_fetch_leader_end_offset
        replica.last_caught_up_ms = self.last_caught_up_ms
        replica.last_fetch_ms = self.last_fetch_ms
        replica.broker_epoch = self.broker_epoch


class PartitionSnapshot(NamedTuple):
    """`role` is the value of a `partition.Role`. `last_recorded` and `suppressed` limit how often refusals are
    recorded."""

    role: str
    state: LeaderAndIsr
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    min_insync_replicas: int
    leader_epoch_start_offset: Offset
    isr: IsrState
    in_flight: IsrProposal | None
    newest_epoch: LeaderEpoch
    remotes: tuple[RemoteSnapshot, ...]
    hw_floor: Offset
    may_propose_ms: int
    last_recorded: tuple[tuple[DecisionKind, int, int], ...]
    suppressed: tuple[tuple[DecisionKind, int], ...]
