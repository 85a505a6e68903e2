"""What Kafka's own group coordinator makes of an application's topology, and what ours makes of it: as many tasks, the
same internal topics with as many partitions, and the same refusals. Random topologies, possible ones and others.

Not compared is which of several topics a sentence names: Kafka takes the first of a hash set.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from kavka.coordinator.groups.streams.decide.topology import (
    Configured,
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
    configure,
)
from kavka.errors import RequestError
from tests.apache_kafka import PeerMissing, installed
from tests.kit.group_surroundings import HandMadeTopics

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

TOPOLOGIES = 5_000
MOST_PARTITIONS = 4
NAMES_ONE_OF_SEVERAL = {"MISSING_INTERNAL_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS"}


_T = TypeVar("_T")


class Application(NamedTuple):
    """A topology, and the topics that are there."""

    parts: Sequence[Subtopology]
    topics: dict[str, int]


def random_application(rng: random.Random) -> Application:
    """Up to 6 parts of up to 2 topics of each kind. Half can be meant; of the others topics may be missing, or written
    by no part."""
    is_tidy = rng.random() < 0.5
    ids = [str(number) for number in range(rng.randint(1, 6))]
    if not is_tidy and rng.random() < 0.3:
        ids = [rng.choice("abcxyz") * rng.randint(1, 4) + each for each in ids]
    outside = [f"t{number}" for number in range(rng.randint(1, 4))]
    same = rng.randint(1, MOST_PARTITIONS)
    topics = {
        name: same if rng.random() < 0.7 else rng.randint(1, MOST_PARTITIONS)
        for name in outside
        if is_tidy or rng.random() < 0.9
    }
    inside = [f"r{number}" for number in range(rng.randint(0, 4))]
    counts = {name: rng.choice((0, 0, 0, same, rng.randint(1, MOST_PARTITIONS))) for name in inside}
    parts = [_part(rng, each, outside, inside, counts) for each in ids]
    if is_tidy:
        parts = _made_whole(rng, parts, outside)
    for name in inside:
        if rng.random() < 0.15:
            topics[name] = counts[name] or rng.choice((same, rng.randint(1, MOST_PARTITIONS)))
    for part in parts:
        for changelog in part.changelogs:
            if rng.random() < 0.1:
                topics[changelog.name] = same
    rng.shuffle(parts)
    return Application(parts, topics)


def _part(rng: random.Random, name: str, outside: list[str], inside: list[str], counts: dict[str, int]) -> Subtopology:
    def some(names: Sequence[_T], most: int) -> list[_T]:
        return rng.sample(names, min(len(names), rng.randint(0, most)))

    sources = some(outside, 2)
    repartitions = [InternalTopic(each, counts[each], 0, ()) for each in some(inside, 2)]
    sinks = some([*inside, *(outside if rng.random() < 0.1 else ())], 2)
    changelogs = [InternalTopic(f"c{name}-{number}", 0, 0, ()) for number in range(rng.randint(0, 2))]
    groups = [
        CopartitionGroup(tuple(some(range(len(sources)), 2)), (), tuple(some(range(len(repartitions)), 2)))
        for _ in range(rng.randint(0, 2))
    ]
    return Subtopology(name, tuple(sources), (), tuple(changelogs), tuple(sinks), tuple(repartitions), tuple(groups))


def _made_whole(rng: random.Random, parts: list[Subtopology], outside: list[str]) -> list[Subtopology]:
    """Each part reads something, and each topic that one reads is written by one."""
    written = {sink for part in parts for sink in part.repartition_sinks}
    read = {topic.name for part in parts for topic in part.repartition_sources}
    parts = [
        part if part.source_topics or part.repartition_sources else part._replace(source_topics=(rng.choice(outside),))
        for part in parts
    ]
    first, *others = parts
    missing = tuple(sorted(read - written))
    return [
        first._replace(
            source_topics=first.source_topics or (rng.choice(outside),),
            repartition_sinks=(*first.repartition_sinks, *missing),
        ),
        *others,
    ]


def line(application: Application) -> str:
    def listed(names: Sequence[object]) -> str:
        return ",".join(map(str, names))

    fields = [listed([f"{name}:{count}" for name, count in application.topics.items()])]
    for part in application.parts:
        groups = (
            f"{listed(group.source_topics)}+{listed(group.repartition_source_topics)}"
            for group in part.copartition_groups
        )
        fields.append(
            "|".join(
                (
                    part.subtopology_id,
                    listed(part.source_topics),
                    listed(part.repartition_sinks),
                    listed([f"{topic.name}:{topic.partition_count}" for topic in part.repartition_sources]),
                    listed([topic.name for topic in part.changelogs]),
                    "/".join(groups),
                )
            )
        )
    return ";".join(fields)


class Found(NamedTuple):
    """What a topology comes to, as the Java program says it."""

    status: str
    sentence: str
    tasks: str
    created: str


def ours(application: Application) -> Found:
    topology = Topology(0, {part.subtopology_id: part for part in application.parts})
    try:
        found: Configured = configure(topology, HandMadeTopics(**application.topics))
    except RequestError as refused:
        return Found("StreamsInvalidTopologyException", refused.message or "", "", "")
    tasks = ",".join(f"{name}:{part.task_count}" for name, part in sorted((found.subtopologies or {}).items()))
    created = ",".join(f"{name}:{topic.partition_count}" for name, topic in sorted(found.missing.items()))
    status, detail = ("", "") if found.status is None else (found.status.code.name, found.status.detail)
    return Found(status, detail, tasks, created)


def test_applications_are_configured_as_kafka_does() -> None:
    try:
        jars = installed("kraft")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    rng = random.Random(1071)
    applications = [random_application(rng) for _ in range(TOPOLOGIES)]
    program = Path(__file__).with_name("ConfigureTopics.java")
    answer = subprocess.run(
        ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(program)],
        input="".join(f"{line(application)}\n" for application in applications).encode(),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    statuses = set()
    for application, told in zip(applications, answer.stdout.decode().splitlines(), strict=True):
        status, sentence, tasks, created = told.split(";")
        statuses.add(status)
        found = ours(application)
        assert (found.status, found.tasks, found.created) == (status, tasks, created), line(application)
        if status not in NAMES_ONE_OF_SEVERAL:
            assert found.sentence == sentence, line(application)
    assert statuses == {"", "StreamsInvalidTopologyException", *NAMES_ONE_OF_SEVERAL, "MISSING_SOURCE_TOPICS"}
