"""LateShare: the parts of share groups, each made with its first use, and what joins them before that.

Decides nothing, and imports nothing that a start does not need.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kavka.broker.assembly.ends import Stage
from kavka.broker.late import Late
from kavka.broker.metadata.metadata_cache import SHARE_STATE_TOPIC, MetadataCache
from kavka.errors import ErrorCode, RequestError
from kavka.model import LeaderEpoch, Offset

if TYPE_CHECKING:
    from kavka.broker.assembly.parts import Base
    from kavka.broker.metadata.features import Features
    from kavka.broker.reads.timestamp_lookups import TimestampLookups
    from kavka.broker.share.deleted_topics import DeletedTopics
    from kavka.broker.share.persister import SharePersister
    from kavka.broker.share.room import ShareRoom
    from kavka.broker.topics.topic_creation import TopicCreation
    from kavka.controller.decide.topic_plans import TopicRequest
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.coordinator.share_state.coordinator import ShareCoordinator
    from kavka.replication.replica_manager import ReplicaManager

INITIALIZE_PATIENCE_S: Final = 2.5
"""How long a group's coordinator asks for new states; it asks again with a later heartbeat."""
CHANGE_PATIENCE_S: Final = 10.0
"""How long an administrator's change of states is tried."""


class TopicOfStates:
    """Creates `__share_group_state` where it is missing, and topics of dead letters; what creates topics is made after
    what needs it."""

    def __init__(self) -> None:
        self.creation: TopicCreation | None = None

    async def ensure(self) -> None:
        """Raises `RequestError` (COORDINATOR_NOT_AVAILABLE)."""
        if self.creation is None:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await self.creation.ensure_internal_topic(SHARE_STATE_TOPIC)

    async def create(self, wish: TopicRequest) -> ErrorCode:
        """NONE if the topic is there now."""
        if self.creation is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return await self.creation.create_one(wish)


class LateStates:
    """The states of share-partitions, as group coordinators ask for them."""

    def __init__(self, persister: Late[SharePersister]) -> None:
        self._persister = persister

    async def initialize(
        self,
        group_id: str,
        state_epoch: int,
        topics: Mapping[uuid.UUID, Sequence[int]],
        coordinator_epoch: LeaderEpoch,
    ) -> Mapping[uuid.UUID, frozenset[int]]:
        return await self._persister().initialize(
            group_id, state_epoch, topics, INITIALIZE_PATIENCE_S, coordinator_epoch=coordinator_epoch
        )

    async def set(
        self,
        group_id: str,
        state_epoch: int,
        offsets: Mapping[uuid.UUID, Mapping[int, Offset]],
        coordinator_epoch: LeaderEpoch,
    ) -> Mapping[tuple[uuid.UUID, int], ErrorCode]:
        from kavka.coordinator.share_state.decide.records import ShareKey

        persister = self._persister()
        keys = [(topic_id, index) for topic_id, wanted in offsets.items() for index in wanted]
        outcomes = await asyncio.gather(
            *(
                persister.begin(
                    ShareKey(group_id, topic_id, index),
                    state_epoch,
                    offsets[topic_id][index],
                    CHANGE_PATIENCE_S,
                    coordinator_epoch=coordinator_epoch,
                )
                for topic_id, index in keys
            ),
            return_exceptions=True,
        )
        return {key: _error(outcome) for key, outcome in zip(keys, outcomes, strict=True)}

    async def delete(
        self, group_id: str, topics: Mapping[uuid.UUID, Sequence[int]], coordinator_epoch: LeaderEpoch
    ) -> Mapping[uuid.UUID, ErrorCode]:
        from kavka.coordinator.share_state.decide.records import ShareKey

        persister = self._persister()
        keys = [ShareKey(group_id, topic_id, index) for topic_id, indexes in topics.items() for index in indexes]
        outcomes = await asyncio.gather(
            *(persister.delete(key, CHANGE_PATIENCE_S, coordinator_epoch=coordinator_epoch) for key in keys),
            return_exceptions=True,
        )
        errors = dict.fromkeys(topics, ErrorCode.NONE)
        for key, outcome in zip(keys, outcomes, strict=True):
            errors[key.topic_id] = errors[key.topic_id] or _error(outcome)
        return errors


def _error(outcome: BaseException | None) -> ErrorCode:
    """The error of a request that was answered, or refused."""
    if outcome is None:
        return ErrorCode.NONE
    if isinstance(outcome, RequestError):
        return ErrorCode(outcome.code)
    raise outcome


class LateShare:
    """The late parts of share groups."""

    def __init__(
        self,
        base: Base,
        loop: asyncio.AbstractEventLoop,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        features: Features,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`broker_epoch` is that of the present registration."""
        self._base = base
        self.features = features
        self._loop = loop
        self._metadata = metadata
        self._replicas = replicas
        self.topic = TopicOfStates()
        self.groups: Late[GroupCoordinator] | None = None
        """Share groups are among them; they are made after this."""

        def make_states() -> ShareCoordinator:
            from kavka.broker.assembly.share_parts import new_share_states

            return new_share_states(base, loop, metadata, replicas)

        def make_persister() -> SharePersister:
            from kavka.broker.assembly.share_parts import new_persister

            return new_persister(base, metadata, self.states, self.topic, broker_epoch)

        self.states = Late(make_states)
        self.persister = Late(make_persister)
        self.deleted_topics = Late(self._make_deleted_topics)

    def _make_deleted_topics(self) -> DeletedTopics:
        from kavka.broker.share.deleted_topics import DeletedTopics

        assert self.groups is not None
        return DeletedTopics(self._base.ports.zookeeper, self._metadata, self.groups, self.states)

    async def on_topics_deleted(self, topic_ids: frozenset[uuid.UUID]) -> None:
        """These topics are known to be deleted."""
        if self.states.made is not None or (self.groups is not None and self.groups.made is not None):
            await self.deleted_topics().on_deleted(topic_ids)

    async def look_for_deleted_topics(self) -> None:
        """Looks for deletions that were missed, where there is anything that could be of a deleted topic."""
        if self.states.made is not None or (self.groups is not None and self.groups.made is not None):
            await self.deleted_topics().look()

    def parts(
        self, lookups: Late[TimestampLookups]
    ) -> tuple[Late[ShareRoom], Late[ShareCoordinator], Callable[[], Awaitable[None]]]:
        """What leads, what keeps states, and what looks for deleted topics."""
        return self._room(lookups), self.states, self.look_for_deleted_topics

    def _room(self, lookups: Late[TimestampLookups]) -> Late[ShareRoom]:
        """What leads for share groups; it ends with the broker."""

        def make() -> ShareRoom:
            from kavka.broker.assembly.share_parts import new_share_room

            return new_share_room(self._base, self._loop, self._metadata, self._replicas, self, lookups)

        room = Late(make)

        def close() -> None:
            if room.made is not None:
                room.made.close()
            if self.persister.made is not None:
                self.persister.made.close()
            if self.states.made is not None:
                self.states.made.shut_down()

        self._base.ends.add_instant(Stage.INPUTS, stop=close)
        return room
