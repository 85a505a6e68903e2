"""Faults of members of a share group.

share member leaves       one closes its sessions in order, leaves, and comes back later
share member crashes      its process dies without a word and another is started later
share member pauses       it does nothing for a while, sometimes longer than its locks and its session last
share member disconnects  its connections for records are closed, and it goes on with others
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.place_faults import PlaceFaults

if TYPE_CHECKING:
    from kavka.simulator.clients.share_members import ShareMembers
    from kavka.simulator.faults.fault_group import Arguments

KINDS: Final = ("share member leaves", "share member crashes", "share member pauses", "share member disconnects")


class ShareFaults(PlaceFaults):
    """Leaving, crashes, pauses and lost connections of members."""

    @property
    def places(self) -> ShareMembers:
        return self.world.sharers

    def draw_share_member_leaves(self) -> Arguments | None:
        return self.draw_for_a_while()

    def share_member_leaves(self, place: int, ms: int) -> bool:
        return self.leaves(place, ms)

    def draw_share_member_crashes(self) -> Arguments | None:
        return self.draw_for_a_while()

    def share_member_crashes(self, place: int, ms: int) -> bool:
        return self.crashes(place, ms)

    def draw_share_member_pauses(self) -> Arguments | None:
        return self.draw_for_a_while()

    def share_member_pauses(self, place: int, ms: int) -> bool:
        return self.pauses(place, ms)

    def draw_share_member_disconnects(self) -> Arguments | None:
        place = self.draw_place()
        return None if place is None else {"place": place}

    def share_member_disconnects(self, place: int) -> bool:
        if self.awake(place) is None:
            return False
        self.places.disconnect(place)
        return True
