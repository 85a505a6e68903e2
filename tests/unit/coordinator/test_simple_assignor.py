"""The simple assignor of share groups: how many members read a partition, how many each member reads, who keeps what.

The numbers are those of Kafka's SimpleHomogeneousAssignmentBuilder: a partition has `ceil(members / partitions)`
members, and the i-th of M members has `ceil(x * (i + 1)) - ceil(x * i)` partitions, x = sharing * partitions / M.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping

import pytest

from kavka.coordinator.groups.consumer.decide.group import Assignment
from kavka.coordinator.groups.share.decide.simple_assignor import assign_simple

T, U, V = (uuid.UUID(int=number) for number in (1, 2, 3))


def part(**indexes: str) -> Assignment:
    """`t="01"` are the partitions 0 and 1 of T."""
    return {{"t": T, "u": U, "v": V}[name]: frozenset(map(int, each)) for name, each in indexes.items()}


def assigned(
    read: Mapping[str, str], counts: Mapping[str, int], former: Mapping[str, Assignment] | None = None
) -> dict[str, Assignment]:
    ids = {"t": T, "u": U, "v": V}
    return assign_simple(
        {member: frozenset(ids[name] for name in names) for member, names in read.items()},
        {ids[name]: frozenset(range(count)) for name, count in counts.items()},
        former or {},
    )


@pytest.mark.parametrize(
    ("members", "partitions", "each_has", "each_is_read_by"),
    [
        (1, 3, [3], 1),
        (2, 5, [3, 2], 1),
        (3, 4, [2, 1, 1], 1),
        (3, 5, [2, 2, 1], 1),
        (3, 2, [2, 1, 1], 2),
        (4, 2, [1, 1, 1, 1], 2),
        (5, 2, [2, 1, 1, 1, 1], 3),
        (4, 3, [2, 1, 2, 1], 2),
        (3, 1, [1, 1, 1], 3),
    ],
)
def test_partitions_are_shared_out_evenly(
    members: int, partitions: int, each_has: list[int], each_is_read_by: int
) -> None:
    names = [f"m{number}" for number in range(members)]
    found = assigned(dict.fromkeys(names, "t"), {"t": partitions})
    assert [len(found[name][T]) for name in names] == each_has
    readers = Counter(index for name in names for index in found[name][T])
    assert readers == dict.fromkeys(range(partitions), each_is_read_by)


def test_topics_that_all_read_are_shared_out_together_in_the_order_of_ids_and_numbers() -> None:
    assert assigned({"b": "ut", "a": "tu"}, {"u": 1, "t": 3}) == {"a": part(t="02"), "b": part(t="1", u="0")}


def test_each_topic_is_shared_out_alone_where_members_read_different_ones() -> None:
    found = assigned({"a": "t", "b": "tu", "c": "u"}, {"t": 2, "u": 1})
    assert found == {"a": part(t="0"), "b": part(t="1", u="0"), "c": part(u="0")}


def test_who_reads_nothing_that_is_there_gets_nothing() -> None:
    assert assigned({"a": "v", "b": ""}, {"t": 2}) == {"a": {}, "b": {}}
    assert assigned({"a": "vt", "b": "vt"}, {"t": 2}) == {"a": part(t="0"), "b": part(t="1")}
    assert assigned({"a": "t"}, {"t": 0}) == {"a": {}}
    assert assigned({}, {"t": 2}) == {}


def test_a_member_keeps_what_it_had() -> None:
    former = {"a": part(t="13"), "b": part(t="02")}
    assert assigned({"a": "t", "b": "t"}, {"t": 4}, former) == former


def test_what_is_new_goes_to_who_lacks_most() -> None:
    former = {"a": part(t="0"), "b": part(t="1")}
    assert assigned({"a": "t", "b": "t", "c": "t"}, {"t": 6}, former) == {
        "a": part(t="03"),
        "b": part(t="14"),
        "c": part(t="25"),
    }


def test_who_has_more_than_its_part_keeps_the_first_of_it() -> None:
    former = {"a": part(t="0123")}
    assert assigned({"a": "t", "b": "t"}, {"t": 4}, former) == {"a": part(t="01"), "b": part(t="23")}


def test_who_shares_a_partition_that_fewer_are_to_read_moves_to_another() -> None:
    former = {"a": part(t="0"), "b": part(t="0"), "c": part(t="0")}
    found = assigned({"a": "t", "b": "t", "c": "t"}, {"t": 3}, former)
    assert found == {"a": part(t="0"), "b": part(t="1"), "c": part(t="2")}
    found = assigned({"a": "t", "b": "t", "c": "t"}, {"t": 2}, former)
    assert found == {"a": part(t="01"), "b": part(t="0"), "c": part(t="1")}


def test_what_is_no_longer_there_or_no_longer_read_is_not_kept() -> None:
    former = {"a": part(t="0", u="0", v="7"), "gone": part(t="1")}
    assert assigned({"a": "t", "b": "t"}, {"t": 2, "u": 1}, former) == {"a": part(t="0"), "b": part(t="1")}
    former = {"a": part(t="9")}
    assert assigned({"a": "t", "b": "t"}, {"t": 2}, former) == {"a": part(t="0"), "b": part(t="1")}


def test_a_partition_that_is_left_to_who_reads_it_already_has_fewer_readers() -> None:
    """As in Kafka: another order would be better balanced, and nobody gives up what it has for that."""
    former = {"b": part(t="0"), "c": part(t="0")}
    found = assigned({"a": "t", "b": "t", "c": "t"}, {"t": 2}, former)
    assert found == {"a": part(t="1"), "b": part(t="0"), "c": part(t="0")}
