"""What groups of fault kinds share: chance, the world, and undoing a fault later.

A kind named "power cut" is a pair of methods of a group. `draw_power_cut` draws everything random (None if the fault is
impossible now). `power_cut` makes the fault with those arguments, and returns False if it is not allowed now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from kavka.simulator.world import World

Argument = int | float | str | bool | Sequence[int]
Arguments = Mapping[str, Argument]


class FaultGroup:
    """One group, for one world. `bearable`: how many brokers may be away at a time."""

    def __init__(self, world: World, random: Random, bearable: int) -> None:
        self.world = world
        self.random = random
        self.bearable = bearable

    def heal(self, brokers: Collection[int]) -> None:
        """Undoes the faults of this group that still last; of faults of brokers, only those of these brokers."""

    # -- chance

    def draw_ms(self, least_s: float, most_s: float) -> int:
        return round(1_000 * (least_s + self.random.random() * (most_s - least_s)))

    def draw_broker(self) -> int:
        return self.one_of(list(self.world.brokers))

    def draw_serving(self) -> int | None:
        serving = [broker.broker_id for broker in self.world.brokers.values() if broker.is_serving]
        return self.one_of(serving) if serving else None

    def one_of(self, brokers: Sequence[int]) -> int:
        return brokers[int(self.random.random() * len(brokers))]

    # -- what may be had

    def others_are_whole(self, broker_id: int) -> bool:
        """True if enough of the other brokers are up and have their disks."""
        others = [broker for broker in self.world.brokers.values() if broker.broker_id != broker_id]
        return sum(not broker.is_whole for broker in others) < self.bearable

    def may_lose(self, broker_id: int) -> bool:
        """True if the broker's unsynced data, or its whole disks, may be lost: others have what is committed."""
        return (
            len(self.world.brokers) >= 3  # A record on one disk, not synced, is not promised to survive this.
            and self.world.brokers[broker_id].is_whole
            and self.others_are_whole(broker_id)
            and self.world.observer.bears_loss_at(broker_id)
        )

    # -- undoing

    def later(self, action: Callable[[], object], after_ms: int, condition: Callable[[], bool] = lambda: True) -> None:
        """Undoes a fault after a while, unless it was undone before. It does so even after the last new fault."""

        def act() -> None:
            if condition():
                action()

        self.world.scheduler.after(after_ms / 1_000, act)
