"""Assignors: every partition once, fair, and sticky."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.groups.consumer.decide.assignors import (
    Assignor,
    GroupSpec,
    MemberSpec,
    assign_range,
    preferred_assignor,
)
from kavka.coordinator.groups.consumer.decide.group import Assignment
from kavka.coordinator.groups.consumer.decide.uniform_assignor import assign_uniform


def cases_of_kafka() -> list[tuple[str, GroupSpec, dict[str, Assignment]]]:
    """kafka_assignments.txt: assignor, group, and what Kafka's assignor gave each member."""
    found: list[tuple[str, GroupSpec, dict[str, Assignment]]] = []
    for line in Path(__file__).with_name("kafka_assignments.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            name, *counts = line.split(" ")
            sizes = {topic(int(number, 16)): int(count) for number, count in (each.split(":") for each in counts)}
            found.append((name, GroupSpec([], sizes), {}))
            continue
        member_id, instance_id, reads, had, gets = re.fullmatch(
            r" +(\S+) (\S+) reads ?(.*); had ?(.*); gets ?(.*)", line
        ).groups()  # type: ignore[union-attr]  # else the file is wrong
        read = [topic(int(number, 16)) for number in reads.split()]
        _, group, expected = found[-1]
        group.members.append(  # type: ignore[attr-defined]  # a list
            MemberSpec(member_id, None if instance_id == "-" else instance_id, read, places(had))
        )
        expected[member_id] = places(gets)
    return found


def places(text: str) -> Assignment:
    """ "7:0-2,5" as a part of an assignment."""
    found: dict[uuid.UUID, frozenset[int]] = {}
    for each in text.split():
        number, _, runs = each.partition(":")
        ends = [run.partition("-") for run in runs.split(",")]
        found[topic(int(number, 16))] = frozenset(
            place for first, _, last in ends for place in range(int(first), int(last or first) + 1)
        )
    return found


def topic(number: int) -> uuid.UUID:
    return uuid.UUID(int=number)


@st.composite
def groups(draw: st.DrawFn, *, homogeneous: bool | None = None) -> GroupSpec:
    counts = {topic(number): draw(st.integers(0, 7)) for number in range(draw(st.integers(1, 5)))}
    everything = sorted(counts)
    same = draw(st.booleans()) if homogeneous is None else homogeneous
    members = []
    free = [(topic_id, partition) for topic_id in everything for partition in range(counts[topic_id])]
    for number in range(draw(st.integers(1, 6))):
        topics = everything if same else draw(st.lists(st.sampled_from(everything), unique=True))
        kept = [place for place in free if draw(st.booleans()) and draw(st.booleans())]
        free = [place for place in free if place not in kept]
        assigned: dict[uuid.UUID, frozenset[int]] = {}
        for topic_id, partition in kept:
            assigned[topic_id] = assigned.get(topic_id, frozenset()) | {partition}
        instance = f"i{number}" if draw(st.integers(0, 3)) == 0 else None
        members.append(MemberSpec(f"m{number}", instance, sorted(topics), assigned))
    return GroupSpec(members, counts)


def check_complete(group: GroupSpec, assigned: dict[str, Assignment]) -> None:
    given_to: dict[tuple[uuid.UUID, int], str] = {}
    for member in group.members:
        for topic_id, partitions in assigned.get(member.member_id, {}).items():
            assert topic_id in member.topics, "a member gets what it does not read"
            for partition in partitions:
                assert (topic_id, partition) not in given_to, "given twice"
                given_to[topic_id, partition] = member.member_id
    read = {topic_id for member in group.members for topic_id in member.topics}
    assert set(given_to) == {(name, number) for name in read for number in range(group.partition_counts[name])}


def sizes(assigned: dict[str, Assignment]) -> list[int]:
    return [sum(map(len, one.values())) for one in assigned.values()]


@given(groups(), st.sampled_from([assign_range, assign_uniform]))
def test_every_partition_that_is_read_is_given_to_one_who_reads_it(group: GroupSpec, assignor: Assignor) -> None:
    assigned = assignor(group)
    check_complete(group, assigned)
    assert assignor(group) == assigned


@given(groups(homogeneous=True))
def test_uniform_is_fair_and_changes_nothing_when_asked_again(group: GroupSpec) -> None:
    assigned = assign_uniform(group)
    found = sizes(assigned)
    assert not found or max(found) - min(found) <= 1
    again = [member._replace(assigned=assigned.get(member.member_id, {})) for member in group.members]
    assert assign_uniform(GroupSpec(again, group.partition_counts)) == assigned


@given(groups(homogeneous=True))
def test_uniform_moves_no_more_than_it_must(group: GroupSpec) -> None:
    total = sum(group.partition_counts.values())
    quota = total // len(group.members)
    assigned = assign_uniform(group)
    for member in group.members:
        had = {(name, number) for name, numbers in member.assigned.items() for number in numbers}
        has = {(name, number) for name, numbers in assigned.get(member.member_id, {}).items() for number in numbers}
        assert len(had & has) >= min(len(had), quota)


@pytest.mark.parametrize(("name", "group", "expected"), cases_of_kafka())
def test_assignments_are_those_of_kafka(name: str, group: GroupSpec, expected: dict[str, Assignment]) -> None:
    assigned = assign_range(group) if name == "range" else assign_uniform(group)
    assert {member.member_id: assigned.get(member.member_id, {}) for member in group.members} == expected


def test_uniform_looks_at_each_topic_sixteen_times_at_the_most() -> None:
    """A chain of members, each with a topic in common with the next, would take more. These are Kafka's numbers."""
    counts = {topic(number): 51 - number for number in range(1, 9)}
    members = [
        MemberSpec(
            f"m{number}",
            None,
            [topic(place) for place in (number, number + 1) if topic(place) in counts],
            {topic(number + 1): frozenset(range(50 - number))} if number < 8 else {},
        )
        for number in range(9)
    ]
    assert sizes(assign_uniform(GroupSpec(members, counts))) == [46, 45, 44, 42, 41, 40, 39, 38, 37]


def test_of_members_that_read_the_same_each_topic_may_come_first() -> None:
    same = [MemberSpec("a", None, [topic(1), topic(2)], {}), MemberSpec("b", None, [topic(2), topic(1)], {})]
    assert GroupSpec(same, {}).is_homogeneous
    assert GroupSpec([], {}).is_homogeneous
    assert not GroupSpec([*same, MemberSpec("c", None, [topic(1)], {})], {}).is_homogeneous
    assert assign_uniform(GroupSpec([], {})) == {}
    assert assign_uniform(GroupSpec([MemberSpec("a", None, [], {})], {})) in ({}, {"a": {}})


def test_range_gives_members_the_same_numbers_of_each_topic() -> None:
    members = [MemberSpec(name, None, [topic(1), topic(2)], {}) for name in ("b", "a")]
    assigned = assign_range(GroupSpec(members, {topic(1): 3, topic(2): 3}))
    assert assigned["a"] == {topic(1): {0, 1}, topic(2): {0, 1}}
    assert assigned["b"] == {topic(1): {2}, topic(2): {2}}


def test_static_members_come_first_by_their_instance_ids() -> None:
    members = [MemberSpec("a", None, [topic(1)], {}), MemberSpec("z", "i", [topic(1)], {})]
    assert assign_range(GroupSpec(members, {topic(1): 3}))["z"] == {topic(1): {0, 1}}


def test_the_assignor_is_the_one_that_most_members_want() -> None:
    assert preferred_assignor(["range", "range", "uniform"], ["uniform", "range"]) == "range"


def test_without_wishes_or_with_as_many_for_each_it_is_the_first_that_the_broker_has() -> None:
    assert preferred_assignor([None, None], ["uniform", "range"]) == "uniform"
    assert preferred_assignor(["range", "uniform"], ["uniform", "range"]) == "uniform"


def test_wishes_for_an_assignor_that_is_not_there_do_not_count() -> None:
    assert preferred_assignor(["gone", "gone", "range"], ["uniform", "range"]) == "range"
