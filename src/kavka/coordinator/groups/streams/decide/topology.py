"""A Kafka Streams application as the broker knows it: its topology, and which internal topics that needs.

Decides how many tasks each subtopology has, how many partitions its repartition and changelog topics have, which of
them are missing, and what is wrong with those that are there. Must not know members, epochs of groups, or how a topic
is created.

    I1  a changelog has as many partitions as its subtopology has tasks: each task keeps its state in one partition
    I2  topics that are read together have the same number of partitions; of repartition topics the broker chooses it,
        where the application leaves it open

Three outcomes (`Configured`): ready; internal topics missing, with what they are to be created with; or not to be had
as the source topics are now. A topology that cannot be meant at all is refused (STREAMS_INVALID_TOPOLOGY).

Source: KIP-1071; Kafka's InternalTopicManager, RepartitionTopics, ChangelogTopics, CopartitionedTopicsEnforcer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple, Protocol

from kavka.coordinator.groups.consumer.decide.target_assignment import Topics
from kavka.coordinator.groups.streams.decide.hash_order import in_hash_order
from kavka.errors import ErrorCode, RequestError

MOST_NAMED: Final = 3
"""How many topics a status names; the others are counted. Kafka's number."""
MOST_TASKS: Final = 20_000
"""How many tasks an application may have: each part has one for each partition that it reads, so that a request of a
megabyte could name a hundred million. Assigning this many takes about a second. Kafka has no such bound."""


class StatusCode(IntEnum):
    """What a member is told besides its tasks, with the protocol's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """One of them, with a sentence."""

    code: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    """A topic of the application's own. No partitions: the broker chooses; no replicas: the broker's default."""

    name: str
    partition_count: int
    replication_factor: int
    settings: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Topics that are read together, as places in the subtopology's lists."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of the application whose tasks depend on no other part's."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    def sources(self) -> Iterator[str]:
        """What its tasks read."""
        yield from self.source_topics
        yield from (topic.name for topic in self.repartition_sources)


@dataclass(frozen=True)
class Topology:
    """The whole application, by subtopology id."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    def required_topics(self) -> frozenset[str]:
        """What must be there before tasks can run."""
        return frozenset(
            name
            for part in self.subtopologies.values()
            for name in (*part.sources(), *(topic.name for topic in part.changelogs))
        )

    def subtopology_of(self, topic: str) -> str | None:
        """The part that reads a topic; of several, the last."""
        return self._readers.get(topic)

    @cached_property
    def parts(self) -> Sequence[Subtopology]:
        """The subtopologies in the order in which Kafka goes over them, whatever order they came in."""
        return [self.subtopologies[name] for name in in_hash_order(self.subtopologies)]

    @cached_property
    def _readers(self) -> Mapping[str, str]:
        """The part that reads each topic: a commit asks for each of its partitions, of 20,000 parts maybe."""
        return {topic: part.subtopology_id for part in self.parts for topic in part.sources()}


class ConfiguredSubtopology(NamedTuple):
    """A part of the application with the numbers that the broker found."""

    task_count: int
    source_topics: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]


class Configured(NamedTuple):
    """`subtopologies` is None if the source topics do not allow any; `missing` are internal topics to create."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Mapping[str, InternalTopic]
    status: Status | None

    @property
    def is_ready(self) -> bool:
        return self.status is None


# -- from messages


class TopicConfigMessage(Protocol):
    """A setting of an internal topic in a request or a record."""

    key: str
    value: str


class TopicInfoMessage(Protocol):
    """An internal topic in a request or a record."""

    name: str
    partitions: int
    replication_factor: int

    @property
    def topic_configs(self) -> Sequence[TopicConfigMessage]: ...


class CopartitionGroupMessage(Protocol):
    """Topics read together, in a request or a record."""

    source_topics: list[int]
    source_topic_regex: list[int]
    repartition_source_topics: list[int]


class SubtopologyMessage(Protocol):
    """A subtopology in a request or a record."""

    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    repartition_sink_topics: list[str]

    @property
    def state_changelog_topics(self) -> Sequence[TopicInfoMessage]: ...

    @property
    def repartition_source_topics(self) -> Sequence[TopicInfoMessage]: ...

    @property
    def copartition_groups(self) -> Sequence[CopartitionGroupMessage]: ...


def topology_of(epoch: int, parts: Sequence[SubtopologyMessage]) -> Topology:
    """The topology that a request or a record has. Raises `RequestError` (STREAMS_INVALID_TOPOLOGY)."""
    found: dict[str, Subtopology] = {}
    for part in parts:
        if part.subtopology_id in found:
            raise _invalid(f"Subtopology {part.subtopology_id} is there twice.")
        found[part.subtopology_id] = Subtopology(
            part.subtopology_id,
            tuple(part.source_topics),
            tuple(part.source_topic_regex),
            tuple(map(_internal, part.state_changelog_topics)),
            tuple(part.repartition_sink_topics),
            tuple(map(_internal, part.repartition_source_topics)),
            tuple(
                CopartitionGroup(
                    tuple(group.source_topics),
                    tuple(group.source_topic_regex),
                    tuple(group.repartition_source_topics),
                )
                for group in part.copartition_groups
            ),
        )
    return Topology(epoch, found)


def _internal(topic: TopicInfoMessage) -> InternalTopic:
    settings = tuple((setting.key, setting.value) for setting in topic.topic_configs)
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, settings)


# -- checks


def check_topology(topology: Topology) -> None:
    """Raises `RequestError` (STREAMS_INVALID_TOPOLOGY) for one that cannot be meant.

    Apache Kafka answers UNKNOWN_SERVER_ERROR to the flaws of which it says nothing: a second subtopology of an id, a
    place outside of a list, a negative number of partitions.
    """
    if topology.epoch < 0:
        raise _invalid("Topology epoch must be non-negative.")
    for part in topology.subtopologies.values():
        for changelog in part.changelogs:
            if changelog.partition_count != 0:
                raise _invalid(
                    f"Changelog topic {changelog.name} must have an undefined partition count, but it is set to "
                    f"{changelog.partition_count}."
                )
        if any(topic.partition_count < 0 for topic in part.repartition_sources):
            raise _invalid(f"A repartition topic of subtopology {part.subtopology_id} has a negative partition count.")
        for group in part.copartition_groups:
            if not (
                all(0 <= place < len(part.source_topics) for place in group.source_topics)
                and all(0 <= place < len(part.repartition_sources) for place in group.repartition_source_topics)
            ):
                raise _invalid(f"A copartition group of subtopology {part.subtopology_id} names no topic of its.")


def _invalid(why: str) -> RequestError:
    return RequestError(ErrorCode.STREAMS_INVALID_TOPOLOGY, why)


# -- what it needs


class _Refusal(Exception):
    """The source topics do not allow it; `status` says why."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        self.status = Status(code, detail)


def configure(topology: Topology, topics: Topics) -> Configured:
    """What the topology needs while topics are as they are now. Raises `RequestError` (STREAMS_INVALID_TOPOLOGY)."""
    check_topology(topology)
    try:
        decided, read = _decide_counts(topology, topics)
        parts = {
            name: _configured(topology.subtopologies[name], decided, read) for name in sorted(topology.subtopologies)
        }
        _check_size(parts)
        missing = _missing(parts, topics)
    except _Refusal as refusal:
        return Configured(topology.epoch, None, {}, refusal.status)
    status = None
    if missing:
        status = Status(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {named(sorted(missing))}")
    return Configured(topology.epoch, parts, missing, status)


def named(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} additional topics" if more > 0 else "")


def _decide_counts(topology: Topology, topics: Topics) -> tuple[dict[str, int], dict[str, int]]:
    """Partitions that internal topics are to have, and those of every topic that the application reads. A topic of the
    user's that a part writes as a repartition topic keeps those that it has."""
    parts = topology.parts
    missing = sorted({name for part in parts for name in part.source_topics if topics.topic(name) is None})
    if missing:
        raise _Refusal(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {named(missing)} are missing.")
    decided = _repartition_counts(parts, topics)

    def count(name: str) -> int:
        """As it is; as it is to be, where the topic is not there."""
        topic = topics.topic(name)
        return decided[name] if topic is None else topic.partition_count

    _copartition(parts, count, decided)
    read = {name: count(name) for part in parts for name in part.sources()}
    for part in parts:
        most = max((read[name] for name in part.sources()), default=0)
        if most == 0:
            raise _invalid(f"No source topics found for subtopology {part.subtopology_id}")
        decided.update((topic.name, most) for topic in part.changelogs)
    return decided, read


def _repartition_counts(parts: Sequence[Subtopology], topics: Topics) -> dict[str, int]:
    """Partitions of repartition topics: what the application says, or the most of what is written into them from.

    Kafka goes over all parts again and again, and takes for a part's sinks what is known of its sources when it comes
    by. The result here is the same; but a part is looked at once, when its turn comes in the first round in which one
    of its sources is known: a chain of parts in the wrong order would take a round for each.
    """
    counts = {
        topic.name: topic.partition_count
        for part in parts
        for topic in part.repartition_sources
        if topic.partition_count
    }
    readers: dict[str, list[int]] = {}
    turns: list[tuple[int, int]] = []
    for place, part in enumerate(parts):
        for topic in part.repartition_sources:
            readers.setdefault(topic.name, []).append(place)
        if part.source_topics or any(topic.name in counts for topic in part.repartition_sources):
            turns.append((0, place))
    queued = {place for _round, place in turns}
    while turns:
        this_round, place = heapq.heappop(turns)
        part = parts[place]
        most = max(_known_sources(part, counts, topics))
        for sink in part.repartition_sinks:
            if sink in counts:
                continue
            counts[sink] = most
            for reader in readers.get(sink, ()):
                if reader not in queued:
                    queued.add(reader)
                    heapq.heappush(turns, (this_round if reader > place else this_round + 1, reader))
    if any(sink not in counts for part in parts for sink in part.repartition_sinks):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the "
            "topology that cannot be resolved."
        )
    if any(topic.name not in counts for part in parts for topic in part.repartition_sources):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
    return counts


def _known_sources(part: Subtopology, counts: Mapping[str, int], topics: Topics) -> Iterator[int]:
    """Partitions of what the part reads, as far as they are known."""
    yield from (counts[topic.name] for topic in part.repartition_sources if topic.name in counts)
    known = (topics.topic(name) for name in part.source_topics)
    yield from (topic.partition_count for topic in known if topic is not None)


def _copartition(parts: Sequence[Subtopology], count: Callable[[str], int], decided: dict[str, int]) -> None:
    """Gives topics that are read together the same number of partitions, and refuses where that is not possible."""
    fixed = {topic.name for part in parts for topic in part.repartition_sources if topic.partition_count != 0}
    flexible = {topic.name for part in parts for topic in part.repartition_sources if topic.partition_count == 0}
    # No group changes them: where they do not fit, it is refused.
    fixed_counts = {count(name) for name in fixed}
    for part in parts:
        for group in part.copartition_groups:
            names = {part.source_topics[place] for place in group.source_topics}
            names |= {part.repartition_sources[place].name for place in group.repartition_source_topics}
            if names:
                decided.update(_same_count(names, fixed, flexible, fixed_counts, count))


def _same_count(
    names: set[str], fixed: set[str], flexible: set[str], fixed_counts: set[int], count: Callable[[str], int]
) -> dict[str, int]:
    ours = {name: count(name) for name in sorted(names) if name in fixed or name in flexible}
    theirs = {name: count(name) for name in sorted(names) if name not in ours}
    if theirs:
        wanted = _only(set(theirs.values()), theirs)
    elif fixed:
        # As in Kafka all fixed topics of the application are compared, not only those of this group.
        wanted = _only(fixed_counts, ours)
    else:
        wanted = max(ours.values())
    for name, found in ours.items():
        if name in fixed and found != wanted:
            raise _Refusal(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{found}] of repartition topic [{name}] doesn't match number of partitions "
                f"[{wanted}] of the source topic.",
            )
    return dict.fromkeys(ours, wanted)


def _only(counts: set[int], told: Mapping[str, int]) -> int:
    """The number that all have."""
    if len(counts) != 1:
        listed = ", ".join(f"{name}={told[name]}" for name in sorted(told))
        raise _Refusal(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(counts))


def _configured(part: Subtopology, decided: Mapping[str, int], read: Mapping[str, int]) -> ConfiguredSubtopology:
    def with_count(topic: InternalTopic) -> InternalTopic:
        return topic._replace(partition_count=topic.partition_count or decided[topic.name])

    return ConfiguredSubtopology(
        max(read[name] for name in part.sources()),
        part.source_topics,
        tuple(map(with_count, part.changelogs)),
        part.repartition_sinks,
        tuple(map(with_count, part.repartition_sources)),
    )


def _check_size(parts: Mapping[str, ConfiguredSubtopology]) -> None:
    tasks = sum(part.task_count for part in parts.values())
    if tasks > MOST_TASKS:
        raise _Refusal(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"The application would have {tasks} tasks, which are more than the {MOST_TASKS} that one may have.",
        )


def _missing(parts: Mapping[str, ConfiguredSubtopology], topics: Topics) -> dict[str, InternalTopic]:
    wanted = {topic.name: topic for part in parts.values() for topic in (*part.repartition_sources, *part.changelogs)}
    missing = {}
    for name in sorted(wanted):
        there = topics.topic(name)
        if there is None:
            missing[name] = wanted[name]
        elif there.partition_count != wanted[name].partition_count:
            raise _Refusal(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected "
                f"{wanted[name].partition_count}, found {there.partition_count}",
            )
    return missing
