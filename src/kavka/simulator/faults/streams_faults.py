"""Faults of members of a streams group, and what administrators do to it.

streams member leaves   one leaves in order, and comes back later
streams member crashes  its process dies without a word and another is started later
streams member pauses   it does nothing for a while, sometimes longer than its session lasts
change standbys         the group is to have another number of standby tasks
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.client.admin import ConfigChange, ConfigResource, ResourceType
from kavka.simulator.clients.streams_members import GROUP
from kavka.simulator.faults.place_faults import PlaceFaults

if TYPE_CHECKING:
    from kavka.simulator.clients.streams_members import StreamsMembers
    from kavka.simulator.faults.fault_group import Arguments

KINDS: Final = ("streams member leaves", "streams member crashes", "streams member pauses", "change standbys")
MOST_STANDBYS: Final = 2


class StreamsFaults(PlaceFaults):
    """Leaving, crashes and pauses of members, and changes of the group's settings."""

    @property
    def places(self) -> StreamsMembers:
        return self.world.streamers

    def draw_streams_member_leaves(self) -> Arguments | None:
        return self.draw_for_a_while()

    def streams_member_leaves(self, place: int, ms: int) -> bool:
        return self.leaves(place, ms)

    def draw_streams_member_crashes(self) -> Arguments | None:
        return self.draw_for_a_while()

    def streams_member_crashes(self, place: int, ms: int) -> bool:
        return self.crashes(place, ms)

    def draw_streams_member_pauses(self) -> Arguments | None:
        return self.draw_for_a_while()

    def streams_member_pauses(self, place: int, ms: int) -> bool:
        return self.pauses(place, ms)

    def draw_change_standbys(self) -> Arguments | None:
        return {"count": int(self.random.random() * (MOST_STANDBYS + 1))}

    def change_standbys(self, count: int) -> bool:
        group = ConfigResource(ResourceType.GROUP, GROUP)
        change = ConfigChange("streams.num.standby.replicas", str(count))
        self.world.administer(lambda admin: admin.alter_configs({group: [change]}))
        return True
