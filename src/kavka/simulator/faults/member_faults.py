"""Faults of members of a consumer group.

member leaves    one closes its consumer in order and comes back later
member crashes   its process dies without a word and another is started later
member pauses    it does nothing for a while, sometimes longer than its session lasts
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.place_faults import PlaceFaults

if TYPE_CHECKING:
    from kavka.simulator.clients.members import Members
    from kavka.simulator.faults.fault_group import Arguments

KINDS: Final = ("member leaves", "member crashes", "member pauses")


class MemberFaults(PlaceFaults):
    """Leaving, crashes and pauses of members."""

    @property
    def places(self) -> Members:
        return self.world.members

    def draw_member_leaves(self) -> Arguments | None:
        return self.draw_for_a_while()

    def member_leaves(self, place: int, ms: int) -> bool:
        return self.leaves(place, ms)

    def draw_member_crashes(self) -> Arguments | None:
        return self.draw_for_a_while()

    def member_crashes(self, place: int, ms: int) -> bool:
        return self.crashes(place, ms)

    def draw_member_pauses(self) -> Arguments | None:
        return self.draw_for_a_while()

    def member_pauses(self, place: int, ms: int) -> bool:
        return self.pauses(place, ms)
