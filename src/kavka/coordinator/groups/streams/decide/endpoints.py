"""Where each partition of the application's topics is served: what instances tell each other for interactive queries.

Decides which partitions an endpoint has, from its member's tasks. Must not know how it is reached.

Source: KIP-1071; Kafka's EndpointToPartitionsManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kavka.coordinator.groups.consumer.decide.target_assignment import Topics
from kavka.coordinator.groups.streams.decide.group import Endpoint, StreamsMember
from kavka.coordinator.groups.streams.decide.tasks import TaskIds
from kavka.coordinator.groups.streams.decide.topology import ConfiguredSubtopology


class TopicPartitions(NamedTuple):
    """Partitions of one topic."""

    topic: str
    partitions: Sequence[int]


class EndpointPartitions(NamedTuple):
    """What an endpoint has: of active tasks, and of standby tasks."""

    endpoint: Endpoint
    active: Sequence[TopicPartitions]
    standby: Sequence[TopicPartitions]


def endpoints_of(
    members: Iterable[StreamsMember], parts: Mapping[str, ConfiguredSubtopology] | None, topics: Topics
) -> list[EndpointPartitions]:
    """Of each member that has an endpoint; none while the topology is not known to fit."""
    return [
        EndpointPartitions(
            member.endpoint,
            _partitions(member.assigned.active, parts, topics),
            _partitions(member.assigned.standby, parts, topics),
        )
        for member in members
        if member.endpoint is not None and parts is not None
    ]


def _partitions(ids: TaskIds, parts: Mapping[str, ConfiguredSubtopology], topics: Topics) -> list[TopicPartitions]:
    found = []
    for subtopology in sorted(ids):
        part = parts.get(subtopology)
        if part is None:
            continue
        for name in dict.fromkeys((*part.source_topics, *(topic.name for topic in part.repartition_sources))):
            topic = topics.topic(name)
            if topic is not None:
                numbers = [number for number in sorted(ids[subtopology]) if number < topic.partition_count]
                found.append(TopicPartitions(name, numbers))
    return found
