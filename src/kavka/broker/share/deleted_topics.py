"""DeletedTopics: has share groups forget topics that are gone, and the states of them deleted.

Decides which topics those are. What a state says, and who is in a group, it must not know.

    I1  only what is known to be deleted counts. That a topic is not in the metadata says nothing: this broker may not
        have heard of a new one yet, whose states a group coordinator that has heard of it has already made
    I2  of that there are two signs: the controller says that a topic is deleted, or has another topic under its name;
        or no topic in ZooKeeper has its id, where a topic is before anything can be told of it, with an id that no
        other ever gets
    I3  ZooKeeper is read behind a write of this session, which a majority of its servers has agreed to. `sync` alone
        may be answered by a leader that has been replaced and does not know it
    I4  what is missed is found later: whoever loads a partition behind the deletion, or could not write, looks again

Apache Kafka goes by the first sign only, and states that it misses stay for good.

Source: Kafka's ShareCoordinatorService.onTopicsDeleted and GroupCoordinatorService.onPartitionsDeleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING

from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.errors import ZooKeeperError
from kavka.logger import Logger
from kavka.zookeeper.port import ANY_VERSION, Check, ZooKeeper
from kavka.zookeeper.znode_paths import TOPICS_PATH, topic_path
from kavka.zookeeper.znodes import MalformedZNode, TopicAssignment

if TYPE_CHECKING:
    from kavka.broker.late import Late
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.coordinator.share_state.coordinator import ShareCoordinator

logger = Logger(__name__)


class DeletedTopics:
    """For the share groups and the states that this broker coordinates."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        metadata: MetadataCache,
        groups: Late[GroupCoordinator],
        states: Late[ShareCoordinator],
    ) -> None:
        self._zookeeper = zookeeper
        self._metadata = metadata
        self._groups = groups
        self._states = states

    async def on_deleted(self, topic_ids: Collection[uuid.UUID]) -> None:
        """These topics are known to be deleted."""
        groups, states = self._groups.made, self._states.made
        if groups is not None:
            await groups.shares.on_topics_deleted(groups.shards(), topic_ids)
        if states is not None:
            await states.on_topics_deleted(topic_ids)

    async def look(self) -> None:
        """Looks for what was missed (I4)."""
        groups, states = self._groups.made, self._states.made
        known: set[uuid.UUID] = set()
        if groups is not None:
            known |= groups.shares.topic_ids(groups.shards())
        if states is not None:
            known |= states.topic_ids()
        suspects = {topic_id for topic_id in known if self._metadata.topic_name(topic_id) is None}
        if not suspects:
            return
        try:
            gone = suspects - await self._in_zookeeper()
        except (ZooKeeperError, MalformedZNode) as failure:
            logger.warning("topics not looked for", why=str(failure), topics=len(suspects))
            return
        if gone:
            logger.info("states of topics that were deleted before", topics=len(gone))
            await self.on_deleted(gone)

    async def _in_zookeeper(self) -> set[uuid.UUID]:
        """The ids of all topics that are there. One whose node is made meanwhile may be left out: nobody has a state of
        it yet."""
        await self._zookeeper.multi([Check(TOPICS_PATH, ANY_VERSION)])  # I3
        names = await self._zookeeper.children(TOPICS_PATH)
        found = await self._zookeeper.get_many([topic_path(name) for name in names])
        ids: set[uuid.UUID] = set()
        for name, node in zip(names, found, strict=True):
            topic_id = None if node is None else TopicAssignment.decode(name, node[0]).topic_id
            if topic_id is not None:
                ids.add(topic_id)
        return ids
