"""Faults of members of any group and of transactional producers: what leaving, a crash and a pause of the process
that has a place are.

They are strikes as other faults are, so that a failing run can be made smaller by leaving them out.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from kavka.simulator.faults.fault_group import FaultGroup

if TYPE_CHECKING:
    from collections.abc import Collection

    from kavka.simulator.clients.places import Places
    from kavka.simulator.faults.fault_group import Arguments
    from kavka.simulator.host.scheduler import NodeLoop


class PlaceFaults(FaultGroup):
    """Of the places of one kind. A fault returns False where nobody has the place, or its process is paused."""

    @property
    @abstractmethod
    def places(self) -> Places[Any]:
        """Whose members go wrong."""

    def heal(self, brokers: Collection[int]) -> None:
        self.places.heal()

    def draw_place(self) -> int | None:
        count = len(self.places)
        return int(self.random.random() * count) if count else None

    def draw_for_a_while(self) -> Arguments | None:
        place = self.draw_place()
        return None if place is None else {"place": place, "ms": self.draw_ms(0.1, 20.0)}

    def awake(self, place: int) -> NodeLoop | None:
        loop = self.places.loop(place)
        return None if loop is None or loop.is_paused else loop

    def leaves(self, place: int, ms: int) -> bool:
        if self.awake(place) is None:
            return False
        self.places.leave(place)
        self.later(lambda: self.places.join(place), ms)
        return True

    def crashes(self, place: int, ms: int) -> bool:
        if self.awake(place) is None:
            return False
        self.places.crash(place)
        self.later(lambda: self.places.join(place), ms)
        return True

    def pauses(self, place: int, ms: int) -> bool:
        loop = self.awake(place)
        if loop is None:
            return False
        loop.pause()
        self.later(loop.resume, ms, lambda: loop.is_paused)
        return True
