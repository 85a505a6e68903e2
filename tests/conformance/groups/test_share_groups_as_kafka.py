"""Kafka's own classes of share groups and ours, on the same random inputs: where a state is kept, what is stored of
offsets, and who reads which partition.

Which partition goes to whom depends on Java's hash tables there, on names here. How many each member has, how many
members each partition has, and how many partitions stay where they were does not.
"""

from __future__ import annotations

import base64
import random
import subprocess
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.coordinator.groups.consumer.decide.group import Assignment
from kavka.coordinator.groups.share.decide.simple_assignor import assign_simple
from kavka.coordinator.share_state.decide.batches import combined
from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.coordinator.shared.decide.partitions import partition_for
from kavka.model import StateBatch
from tests.apache_kafka import PeerMissing, installed

pytestmark = pytest.mark.kafka

ROUNDS = 2_000
STATES = (0, 2, 4)
"""What is stored of a record: available, acknowledged, archived."""


def answers(lines: Sequence[str]) -> list[str]:
    """What Kafka's classes say, line by line."""
    try:
        jars = installed("kraft")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    source = Path(__file__).with_name("ShareAnswers.java")
    said = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(source)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert said.returncode == 0, said.stderr[-2000:]
    told = said.stdout.splitlines()
    assert len(told) == len(lines)
    return told


def test_states_are_kept_where_kafka_looks_for_them() -> None:
    rng = random.Random(932)
    letters = "abcXYZ059-_.:äß€😀 "
    lines, ours = [], []
    for _ in range(ROUNDS):
        group = "".join(rng.choices(letters, k=rng.randint(1, 30)))
        topic_id = uuid.UUID(int=rng.getrandbits(128))
        partition, count = rng.choice([rng.randint(0, 9), 2**31 - 1]), rng.randint(1, 100)
        text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
        lines.append(f"place;{group};{text};{partition};{count}")
        key = str(ShareKey(group, topic_id, partition))
        ours.append(f"{key} {partition_for(key, count)}")
    assert answers(lines) == ours


def random_batches(rng: random.Random, *, overlapping: bool) -> list[StateBatch]:
    """Up to a dozen, of offsets below 60. `overlapping`: in any order, as a request may have them."""
    found: list[StateBatch] = []
    position = 0
    for _ in range(rng.randint(0, 12)):
        first = rng.randint(0, 50) if overlapping else position + rng.choice((0, 0, 1, 4))
        last = first + rng.choice((0, 0, 1, 3, 9))
        found.append(StateBatch(first, last, rng.choice(STATES), rng.randint(1, 3)))
        position = last + 1
    return found


def text_of(batches: Sequence[StateBatch]) -> str:
    return ",".join(":".join(map(str, batch)) for batch in batches)


def by_offset(batches: Sequence[StateBatch]) -> dict[int, tuple[int, int]]:
    return {
        offset: (batch.state, batch.deliveries)
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }


def parsed(text: str) -> list[StateBatch]:
    return [StateBatch(*map(int, batch.split(":"))) for batch in text.split(",") if batch]


def test_what_is_stored_after_a_write_is_what_kafka_stores() -> None:
    """Of a leader, whose counts and states of an offset never go back."""
    rng = random.Random(1)
    cases = []
    for _ in range(ROUNDS):
        stored = combined((), random_batches(rng, overlapping=False), -1)
        known = by_offset(stored)
        newer = []
        for batch in random_batches(rng, overlapping=False):
            before = [known[each] for each in range(batch.first_offset, batch.last_offset + 1) if each in known]
            most = max((count for _state, count in before), default=0)
            newer.append(batch._replace(deliveries=most + 1))
        cases.append((stored, newer, rng.choice((-1, 0, rng.randint(0, 60)))))
    lines = [f"combine;{start};{text_of(stored)};{text_of(newer)}" for stored, newer, start in cases]
    for (stored, newer, start), line, told in zip(cases, lines, answers(lines), strict=True):
        ours, theirs = combined(stored, newer, start), parsed(told)
        assert by_offset(ours) == by_offset(theirs), line
        # Kafka leaves some neighbours apart that say the same.
        assert text_of(ours) == text_of(combined((), theirs, start)), line


class Group(NamedTuple):
    """What the assignor is given."""

    subscriptions: Mapping[str, frozenset[uuid.UUID]]
    partitions: Mapping[uuid.UUID, frozenset[int]]
    former: Mapping[str, Assignment]


def random_group(rng: random.Random) -> Group:
    """Up to 9 members, 4 topics of up to 7 partitions. Half of the groups have a former assignment: that of others."""
    topics = [uuid.UUID(int=number) for number in range(rng.randint(1, 4))]
    partitions = {topic_id: frozenset(range(rng.randint(1, 7))) for topic_id in topics}
    same = rng.random() < 0.5
    members = [f"m{number}" for number in range(rng.randint(1, 9))]
    subscriptions = {
        member: frozenset(topics if same else rng.sample(topics, rng.randint(1, len(topics)))) for member in members
    }
    former: Mapping[str, Assignment] = {}
    if rng.random() < 0.5:
        once = rng.sample(members, rng.randint(1, len(members)))
        former = assign_simple({member: subscriptions[member] for member in once}, partitions, {})
    return Group(subscriptions, partitions, {member: former.get(member, {}) for member in members})


def line_of(group: Group) -> str:
    counts = ",".join(f"{topic_id.int}:{len(numbers)}" for topic_id, numbers in group.partitions.items())
    members = (
        f"{member}|{','.join(str(topic_id.int) for topic_id in sorted(read))}|{','.join(places(group.former[member]))}"
        for member, read in group.subscriptions.items()
    )
    return ";".join(("assign", counts, *members))


def places(assignment: Assignment) -> list[str]:
    return sorted(f"{topic_id.int}:{number}" for topic_id, numbers in assignment.items() for number in numbers)


def test_members_have_as_many_partitions_as_with_kafka() -> None:
    rng = random.Random(7)
    groups = [random_group(rng) for _ in range(ROUNDS)]
    lines = [line_of(group) for group in groups]
    for group, line, told in zip(groups, lines, answers(lines), strict=True):
        had = {member: places(parts) for member, parts in group.former.items()}
        found = assign_simple(group.subscriptions, group.partitions, group.former)
        ours = {member: places(parts) for member, parts in found.items()}
        members = (part.split("=") for part in told.split(";") if part)
        theirs = {member: [place for place in parts.split(",") if place] for member, parts in members}
        assert {member: len(parts) for member, parts in ours.items()} == {
            member: len(parts) for member, parts in theirs.items()
        }, line
        assert readers(ours) == readers(theirs), line
        assert kept(ours, had) == kept(theirs, had), line


def readers(given: Mapping[str, Sequence[str]]) -> list[int]:
    """Of each partition that somebody reads, how many do."""
    return sorted(Counter(place for places in given.values() for place in places).values())


def kept(given: Mapping[str, Sequence[str]], had: Mapping[str, Sequence[str]]) -> int:
    """How many partitions stay where they were."""
    return sum(len(set(places) & set(had[member])) for member, places in given.items())
