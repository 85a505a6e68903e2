"""Faults of members of a share group.

share member leaves       one closes its sessions in order, leaves, and comes back later
share member crashes      its process dies without a word and another is started later
share member pauses       it does nothing for a while, sometimes longer than its locks and its session last
share member disconnects  its connections for records are closed, and it goes on with others
share group set anew      all members leave, an administrator has the group begin somewhere else, and they come back
share group forgets       the same, and the group's positions are deleted
share group deleted       the same, and the group is deleted, and made again by who comes
share group configured    the group is given another isolation level, limit of deliveries or length of locks
share topic deleted       a topic comes of which a group without members has a state, and is deleted after a while

Those for which all leave are tried for a while: a member that crashed is still in the group, and one that wakes comes
between.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kavka.client.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from kavka.client.group_admin import GroupAdmin
from kavka.client.share_group_admin import ShareGroupAdmin
from kavka.errors import ErrorCode, KavkaError
from kavka.model import Offset, TopicPartition
from kavka.simulator.clients.share_members import GROUP
from kavka.simulator.faults.place_faults import PlaceFaults
from kavka.simulator.rules.share_readable import DELIVERIES, ISOLATION, LOCK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kavka.client.cluster import Cluster
    from kavka.simulator.clients.share_members import ShareMembers
    from kavka.simulator.faults.fault_group import Arguments

KINDS: Final = (
    "share member leaves",
    "share member crashes",
    "share member pauses",
    "share member disconnects",
    "share group set anew",
    "share group forgets",
    "share group deleted",
    "share group configured",
    "share topic deleted",
)
IDLERS: Final = "idlers"
"""A share group that never has members."""
ERRANDS: Final = "errands"
"""The topic of which it has a state."""
CHOICES: Final = (
    (ISOLATION, ("read_committed", "read_uncommitted")),
    (DELIVERIES, ("2", "3", "4")),
    (LOCK, ("2000", "3000", "4000")),
)
"""Settings of the group, and what they may become."""
TRIES: Final = 20
PAUSE_S: Final = 0.5


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

    # -- administrators

    def draw_share_group_set_anew(self) -> Arguments | None:
        return {"share": round(self.random.random(), 2), "ms": self.draw_ms(1.0, 15.0)} if len(self.places) else None

    def share_group_set_anew(self, share: float, ms: int) -> bool:
        partitions = self._partitions()
        bounds = self.world.observer.true_high_watermark
        wanted: dict[TopicPartition, Offset] = {each: int(share * bounds.get(each, 0)) for each in partitions}

        async def change(cluster: Cluster) -> None:
            await ShareGroupAdmin(cluster).set_positions(GROUP, wanted)
            self.world.observer.shares.on_positions_set(GROUP, wanted)

        return bool(wanted) and self._change(change, ms)

    def draw_share_group_forgets(self) -> Arguments | None:
        return {"ms": self.draw_ms(1.0, 15.0)} if len(self.places) else None

    def share_group_forgets(self, ms: int) -> bool:
        topics = sorted({partition.topic for partition in self._partitions()})

        async def change(cluster: Cluster) -> None:
            errors = await ShareGroupAdmin(cluster).delete_positions(GROUP, topics)
            if any(error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for error in errors.values()):
                raise KavkaError(f"{errors}")

        return self._change(change, ms)

    def draw_share_group_deleted(self) -> Arguments | None:
        return {"ms": self.draw_ms(1.0, 15.0)} if len(self.places) else None

    def share_group_deleted(self, ms: int) -> bool:
        async def change(cluster: Cluster) -> None:
            await GroupAdmin(cluster).delete(GROUP)

        return self._change(change, ms)

    def draw_share_group_configured(self) -> Arguments | None:
        setting, values = CHOICES[int(self.random.random() * len(CHOICES))]
        return {"setting": setting, "value": values[int(self.random.random() * len(values))]}

    def share_group_configured(self, setting: str, value: str) -> bool:
        self.world.observer.shares.wishes.on_asked(setting, value)
        group = ConfigResource(ResourceType.GROUP, GROUP)
        change = ConfigChange(setting, value)
        self.world.administer(lambda admin: admin.alter_configs({group: [change]}))
        return True

    def draw_share_topic_deleted(self) -> Arguments | None:
        return {"ms": self.draw_ms(0.5, 8.0)} if len(self.places) else None

    def share_topic_deleted(self, ms: int) -> bool:
        async def come(cluster: Cluster) -> None:
            await Admin(cluster).create_topics([NewTopic(ERRANDS, 1, self.world.replicas)])
            for _ in range(TRIES):
                try:
                    await ShareGroupAdmin(cluster).set_positions(IDLERS, {TopicPartition(ERRANDS, 0): 0})
                except KavkaError:
                    await asyncio.sleep(PAUSE_S)
                else:
                    break

        async def go(cluster: Cluster) -> None:
            self.world.observer.shares.on_topic_to_go(ERRANDS)
            await Admin(cluster).delete_topics([ERRANDS])

        if self.world.observer.topic_id(ERRANDS) is not None:
            return False
        self.world.ask(come)
        self.later(lambda: self.world.ask(go), ms)
        return True

    def _partitions(self) -> list[TopicPartition]:
        return [each for each in self.world.partitions if each in self.world.observer.stored]

    def _change(self, change: Callable[[Cluster], Awaitable[None]], ms: int) -> bool:
        """All members leave; it is changed as soon as that is possible, and they come back after `ms`."""
        places = [place for place in range(len(self.places)) if self.awake(place) is not None]
        if not places:
            return False

        async def insist(cluster: Cluster) -> None:
            for _ in range(TRIES):
                try:
                    await change(cluster)
                except KavkaError:
                    await asyncio.sleep(PAUSE_S)
                else:
                    return

        for place in places:
            self.places.leave(place)
            self.later(lambda place=place: self.places.join(place), ms)  # type: ignore[misc]
        self.world.ask(insist)
        return True
