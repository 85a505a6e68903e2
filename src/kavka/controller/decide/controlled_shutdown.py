"""What becomes of one partition when a broker that has a replica of it is about to stop.

    partition           led by the broker                       followed by it
    several replicas    the next in-sync replica that stays     it leaves the ISR, unless it is the last of it
                        leads; without one nothing changes
    one replica         nothing: no other broker could take over

Invariants:
I1  A partition that no other broker can take over keeps its leader: it is served until the broker is gone.
I2  The last in-sync replica stays in the ISR.

Source: Kafka's KafkaController.doControlledShutdown; KIP-380, KIP-841.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from kavka.controller.decide.election import Elected, PartitionChange, elect_for_controlled_shutdown
from kavka.model import BrokerId
from kavka.zookeeper.znodes import PartitionState


def leave(
    broker_id: BrokerId,
    replicas: Sequence[BrokerId],
    state: PartitionState,
    live: Collection[BrokerId],
    shutting_down: Collection[BrokerId],
    *,
    controller_epoch: int,
) -> PartitionChange | None:
    """What becomes of a partition that `broker_id`, one of `shutting_down`, has a replica of; None if nothing does."""
    epoch = state.leader_epoch + 1
    recovery = state.leader_recovery_state
    if state.leader == broker_id:
        election = elect_for_controlled_shutdown(replicas, state.isr, live, shutting_down)
        if not isinstance(election, Elected):
            return None
        return PartitionChange(
            PartitionState(election.leader, epoch, election.isr, controller_epoch, recovery), election
        )
    remaining = tuple(member for member in state.isr if member != broker_id)
    if remaining == state.isr or not remaining:
        return None
    why = f"broker {broker_id} is shutting down; leader {state.leader} goes on with {list(remaining)}"
    return PartitionChange(PartitionState(state.leader, epoch, remaining, controller_epoch, recovery), None, why)


class Leaving(NamedTuple):
    """A `Question`: `broker_id`, one of `shutting_down`, has a replica of it."""

    broker_id: BrokerId
    replicas: tuple[BrokerId, ...]
    live: tuple[BrokerId, ...]
    shutting_down: tuple[BrokerId, ...]
    controller_epoch: int

    def answer(self, state: PartitionState) -> PartitionChange | None:
        return leave(
            self.broker_id,
            self.replicas,
            state,
            self.live,
            self.shutting_down,
            controller_epoch=self.controller_epoch,
        )
