"""An election that an operator asks for: whether a partition needs it, and how it comes out.

    wish         needed where                              who leads
    PREFERRED    another than the first replica leads      the first replica, if it is alive and in sync
    UNCLEAN      nobody leads, or the leader is dead       the first live replica in sync; if none is, the first live
                                                           one, alone in the ISR, and records may be lost

Invariant:
I1  A preferred election never leads outside the ISR (KAFKA-9866); an unclean one only at an operator's explicit wish.

Source: KIP-183, KIP-460; Kafka's ElectLeadersRequest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple, assert_never

from kavka.controller.decide.election import Elected, ElectionResult, PartitionChange, elect_offline, elect_preferred
from kavka.model import BrokerId
from kavka.zookeeper.znodes import RECOVERING, PartitionState


class ElectionType(Enum):
    """What an operator asks for."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def is_needed(wish: ElectionType, replicas: Sequence[BrokerId], leader: BrokerId, alive: Collection[BrokerId]) -> bool:
    """Whether the wish is not fulfilled already."""
    match wish:
        case ElectionType.PREFERRED:
            return bool(replicas) and leader != replicas[0]
        case ElectionType.UNCLEAN:
            return leader not in alive
    assert_never(wish)


def hold(
    wish: ElectionType,
    replicas: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    live: Collection[BrokerId],
    eligible: Collection[BrokerId] = (),
) -> ElectionResult:
    """The election, for a partition that needs it. An eligible leader replica comes before one that lost records."""
    match wish:
        case ElectionType.PREFERRED:
            return elect_preferred(replicas, isr, live)
        case ElectionType.UNCLEAN:
            return elect_offline(replicas, isr, live, unclean_allowed=True, eligible=eligible)
    assert_never(wish)


def succeed(state: PartitionState, elected: Elected, controller_epoch: int) -> PartitionChange:
    """The partition's state after the election. Who leads a partition that recovers goes on with that (KIP-704)."""
    recovery = RECOVERING if elected.unclean else state.leader_recovery_state
    next_state = PartitionState(elected.leader, state.leader_epoch + 1, elected.isr, controller_epoch, recovery)
    return PartitionChange(next_state, elected)


class Wished(NamedTuple):
    """A `Question`: an operator wants the election. `wish` is the value of an `ElectionType`."""

    wish: str
    replicas: tuple[BrokerId, ...]
    live: tuple[BrokerId, ...]
    eligible: tuple[BrokerId, ...]
    controller_epoch: int

    def result(self, state: PartitionState) -> ElectionResult:
        return hold(ElectionType(self.wish), self.replicas, state.isr, self.live, self.eligible)

    def answer(self, state: PartitionState) -> PartitionChange | None:
        result = self.result(state)
        return succeed(state, result, self.controller_epoch) if isinstance(result, Elected) else None
