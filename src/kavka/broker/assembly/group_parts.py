"""Parts beside the coordinator of groups: what creates topics of streams groups, and what counts groups.

Decides nothing. A late part (`broker/late.py`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.coordinators.group_census import CensusPorts, GroupCensus
from kavka.broker.topics.streams_topics import StreamsTopics

if TYPE_CHECKING:
    from kavka.broker.assembly.parts import Base
    from kavka.broker.late import Late
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.topics.topic_creation import TopicCreation
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.coordinator.share_state.coordinator import ShareCoordinator


class GroupParts(NamedTuple):
    """Both."""

    topics: StreamsTopics
    census: GroupCensus


def new_group_parts(
    base: Base,
    loop: asyncio.AbstractEventLoop,
    metadata: MetadataCache,
    groups: Late[GroupCoordinator],
    creation: TopicCreation,
    states: Late[ShareCoordinator],
) -> GroupParts:
    config = base.config
    ports = CensusPorts(base.broker_id, config.inter_broker_listener, config.request_timeout_ms, base.open_peer)
    return GroupParts(
        StreamsTopics(creation.create_all, base.tasks.spawn, lambda: int(loop.time() * 1000)),
        GroupCensus(metadata, groups, states, ports),
    )
