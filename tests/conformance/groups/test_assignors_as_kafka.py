"""Kafka's own assignors and ours, on the same random groups: the same assignments, partition by partition.

Kafka's order of members and topics is that of its hash maps; Assign.java hands it collections that keep ours.
"""

from __future__ import annotations

import random
import subprocess
import uuid
from pathlib import Path

import pytest

from kavka.coordinator.groups.consumer.decide.assignors import GroupSpec, MemberSpec, assign_range
from kavka.coordinator.groups.consumer.decide.group import Assignment
from kavka.coordinator.groups.consumer.decide.uniform_assignor import assign_uniform
from tests.apache_kafka import PeerMissing, installed

pytestmark = pytest.mark.kafka

GROUPS = 2_000
ASSIGNORS = {"range": assign_range, "uniform": assign_uniform}


def random_group(rng: random.Random) -> GroupSpec:
    """Up to 8 members, 6 topics of up to 9 partitions; half of them with former assignments."""
    topics = [uuid.UUID(int=number) for number in range(rng.randint(1, 6))]
    counts = {topic_id: rng.randint(0, 9) for topic_id in topics}
    same, sticky = rng.random() < 0.4, rng.random() < 0.6
    owners: dict[tuple[uuid.UUID, int], int] = {}
    count = rng.randint(1, 8)
    if sticky:
        weights = [rng.random() ** 2 for _ in range(count)]
        for topic_id in topics:
            for partition in range(counts[topic_id]):
                if rng.random() < 0.8:
                    owners[topic_id, partition] = rng.choices(range(count), weights)[0]
    members = []
    for number in range(count):
        read = topics if same else sorted(rng.sample(topics, rng.randint(0, len(topics))))
        had: dict[uuid.UUID, frozenset[int]] = {}
        for (topic_id, partition), owner in owners.items():
            if owner == number:
                had[topic_id] = had.get(topic_id, frozenset()) | {partition}
        instance = f"i{rng.randint(0, 99)}-{number}" if rng.random() < 0.2 else None
        members.append(MemberSpec(f"m{number}", instance, read, had))
    return GroupSpec(members, counts)


def line(name: str, group: GroupSpec) -> str:
    counts = ",".join(f"{topic_id.int}:{count}" for topic_id, count in group.partition_counts.items())
    members = (
        "|".join(
            (
                member.member_id,
                member.instance_id or "",
                ",".join(str(topic_id.int) for topic_id in member.topics),
                places(member.assigned),
            )
        )
        for member in group.members
    )
    return ";".join((name, counts, *members))


def places(assignment: Assignment) -> str:
    return ",".join(
        sorted(f"{topic_id.int}:{number}" for topic_id, numbers in assignment.items() for number in numbers)
    )


@pytest.mark.parametrize("name", ASSIGNORS)
def test_assignments_are_those_of_kafka(name: str) -> None:
    try:
        jars = installed("kraft")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    rng = random.Random(848)
    groups = [random_group(rng) for _ in range(GROUPS)]
    asked = "".join(line(name, group) + "\n" for group in groups)
    source = Path(__file__).with_name("Assign.java")
    answer = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(source)],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    for group, told in zip(groups, answer.stdout.splitlines(), strict=True):
        ours = ASSIGNORS[name](group)
        expected = "".join(f"{one.member_id}={places(ours.get(one.member_id, {}))};" for one in group.members)
        assert told == expected, line(name, group)
