"""The in-sync replicas of a partition as its leader knows them: committed, or with one change under way.

Decides which replicas hold the high watermark while nobody knows whether a proposed change was stored. Must not know
who proposes, why, or how a proposal travels.

    I1  at most one change is under way
    I2  the maximal ISR holds every set that may be stored: the committed one and the proposed one (R8). A record is
        committed when all of it has the record; so whichever set an election finds, its members have the record

The states, and what leads from one to the other:

    CommittedIsr   -- propose to add one replica        -> PendingExpand
    CommittedIsr   -- propose to remove some            -> PendingShrink
    Pending...     -- stored                            -> CommittedIsr (the new set)
    Pending...     -- refused, and surely not stored    -> CommittedIsr (the set as it was)
    Pending...     -- refused, or answer lost: unknown  -> stays
    any            -- the controller says otherwise     -> CommittedIsr (the controller's set)

Source: KIP-497 and Kafka's PartitionState; AsyncIsr.tla (the union that counts).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kavka.decisions import Decision
from kavka.errors import ErrorCode
from kavka.model import BrokerId, LeaderAndIsr, LeaderEpoch, TopicPartition


@dataclass(frozen=True, slots=True, eq=False)
class IsrProposal:
    """A leader's wish to change the ISR. It is compared by identity: an answer belongs to one proposal.

    `new_isr` pairs each member with the broker epoch it last fetched with (-1 unknown). `partition_epoch` is the
    version of the state that the wish builds on. `decision` has the reason; it is recorded when the change is stored.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    new_isr: tuple[tuple[BrokerId, int], ...]
    decision: Decision

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        return tuple(broker_id for broker_id, _epoch in self.new_isr)

    @property
    def state(self) -> LeaderAndIsr:
        """What the proposal wants stored; the partition epoch is the one it builds on."""
        return LeaderAndIsr(self.leader, self.leader_epoch, self.isr, self.partition_epoch)


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """The stored ISR, as far as this leader knows."""

    isr: tuple[BrokerId, ...]

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        return self.isr


@dataclass(frozen=True, slots=True)
class PendingExpand:
    """`joining` was proposed to be added to `isr`."""

    isr: tuple[BrokerId, ...]
    joining: BrokerId
    proposal: IsrProposal

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        return (*self.isr, self.joining)


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """`leaving` were proposed to be taken out of `isr`; they hold the high watermark until that is stored."""

    isr: tuple[BrokerId, ...]
    leaving: tuple[BrokerId, ...]
    proposal: IsrProposal

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        return self.isr


IsrState: TypeAlias = CommittedIsr | PendingExpand | PendingShrink


# -- answers


class IsrCommitted(NamedTuple):
    """The proposal is stored, by this request or by an earlier one whose answer was lost. `state` is what is there."""

    state: LeaderAndIsr


class IsrRejected(NamedTuple):
    """The proposal was refused. `current` is the stored state if the answer has it."""

    error: ErrorCode
    current: LeaderAndIsr | None = None


class IsrUnknown(NamedTuple):
    """It is unknown whether the proposal was or will be stored. It is sent again to find out."""

    why: str


IsrAnswer: TypeAlias = IsrCommitted | IsrRejected | IsrUnknown
