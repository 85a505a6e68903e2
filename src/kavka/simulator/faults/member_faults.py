"""Faults of members of a consumer group.

    member leaves    one closes its consumer in order and comes back later
    member crashes   its process dies without a word and another is started later
    member pauses    it does nothing for a while, sometimes longer than its session lasts

They are strikes as other faults are, so that a failing run can be made smaller by leaving them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.fault_group import FaultGroup

if TYPE_CHECKING:
    from collections.abc import Collection

    from kavka.simulator.faults.fault_group import Arguments
    from kavka.simulator.host.scheduler import NodeLoop

KINDS: Final = ("member leaves", "member crashes", "member pauses")


class MemberFaults(FaultGroup):
    """Leaving, crashes and pauses of members."""

    def heal(self, brokers: Collection[int]) -> None:
        self.world.members.heal()

    def _draw_place(self) -> int | None:
        count = len(self.world.members)
        return int(self.random.random() * count) if count else None

    def _draw(self) -> Arguments | None:
        place = self._draw_place()
        return None if place is None else {"place": place, "ms": self.draw_ms(0.1, 20.0)}

    def _awake(self, place: int) -> NodeLoop | None:
        loop = self.world.members.loop(place)
        return None if loop is None or loop.is_paused else loop

    def draw_member_leaves(self) -> Arguments | None:
        return self._draw()

    def member_leaves(self, place: int, ms: int) -> bool:
        if self._awake(place) is None:
            return False
        self.world.members.leave(place)
        self.later(lambda: self.world.members.join(place), ms)
        return True

    def draw_member_crashes(self) -> Arguments | None:
        return self._draw()

    def member_crashes(self, place: int, ms: int) -> bool:
        if self._awake(place) is None:
            return False
        self.world.members.crash(place)
        self.later(lambda: self.world.members.join(place), ms)
        return True

    def draw_member_pauses(self) -> Arguments | None:
        return self._draw()

    def member_pauses(self, place: int, ms: int) -> bool:
        loop = self._awake(place)
        if loop is None:
            return False
        loop.pause()
        self.later(loop.resume, ms, lambda: loop.is_paused)
        return True
