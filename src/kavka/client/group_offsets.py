"""Where a group of any kind is, and setting it elsewhere: committed offsets, or a share group's start offsets.

Decides which requests say and change it, by the kind of the group.
"""

from __future__ import annotations

from collections.abc import Mapping

from kavka.client.cluster import Cluster
from kavka.client.group import CommittedOffset
from kavka.client.group_admin import SHARE, GroupAdmin, ShownGroup
from kavka.client.share_group_admin import ShareGroupAdmin
from kavka.model import TopicPartition


async def offsets_of(cluster: Cluster, group: ShownGroup) -> dict[TopicPartition, CommittedOffset]:
    """What the group has committed; of a share group the first records that are not done. Raises `RequestError`."""
    if group.kind != SHARE:
        return await GroupAdmin(cluster).offsets(group.group_id)
    positions = await ShareGroupAdmin(cluster).positions(group.group_id)
    return {place: CommittedOffset(at.start) for place, at in positions.items()}


async def set_offsets(cluster: Cluster, group: ShownGroup, offsets: Mapping[TopicPartition, int]) -> None:
    """Has a group without members begin there. Raises `RequestError` if it has members."""
    admin = ShareGroupAdmin(cluster).set_positions if group.kind == SHARE else GroupAdmin(cluster).set_offsets
    await admin(group.group_id, offsets)
