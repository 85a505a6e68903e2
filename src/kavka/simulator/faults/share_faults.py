"""Faults of members of a share group.

    share member leaves       one closes its sessions in order, leaves, and comes back later
    share member crashes      its process dies without a word and another is started later
    share member pauses       it does nothing for a while, sometimes longer than its locks and its session last
    share member disconnects  its connections for records are closed, and it goes on with others

They are strikes as other faults are, so that a failing run can be made smaller by leaving them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.fault_group import FaultGroup

if TYPE_CHECKING:
    from collections.abc import Collection

    from kavka.simulator.faults.fault_group import Arguments
    from kavka.simulator.host.scheduler import NodeLoop

KINDS: Final = ("share member leaves", "share member crashes", "share member pauses", "share member disconnects")


class ShareFaults(FaultGroup):
    """Leaving, crashes, pauses and lost connections of members."""

    def heal(self, brokers: Collection[int]) -> None:
        self.world.sharers.heal()

    def _draw_place(self) -> int | None:
        count = len(self.world.sharers)
        return int(self.random.random() * count) if count else None

    def _draw(self) -> Arguments | None:
        place = self._draw_place()
        return None if place is None else {"place": place, "ms": self.draw_ms(0.1, 20.0)}

    def _awake(self, place: int) -> NodeLoop | None:
        loop = self.world.sharers.loop(place)
        return None if loop is None or loop.is_paused else loop

    def draw_share_member_leaves(self) -> Arguments | None:
        return self._draw()

    def share_member_leaves(self, place: int, ms: int) -> bool:
        if self._awake(place) is None:
            return False
        self.world.sharers.leave(place)
        self.later(lambda: self.world.sharers.join(place), ms)
        return True

    def draw_share_member_crashes(self) -> Arguments | None:
        return self._draw()

    def share_member_crashes(self, place: int, ms: int) -> bool:
        if self._awake(place) is None:
            return False
        self.world.sharers.crash(place)
        self.later(lambda: self.world.sharers.join(place), ms)
        return True

    def draw_share_member_pauses(self) -> Arguments | None:
        return self._draw()

    def share_member_pauses(self, place: int, ms: int) -> bool:
        loop = self._awake(place)
        if loop is None:
            return False
        loop.pause()
        self.later(loop.resume, ms, lambda: loop.is_paused)
        return True

    def draw_share_member_disconnects(self) -> Arguments | None:
        place = self._draw_place()
        return None if place is None else {"place": place}

    def share_member_disconnects(self, place: int) -> bool:
        if self._awake(place) is None:
            return False
        self.world.sharers.disconnect(place)
        return True
