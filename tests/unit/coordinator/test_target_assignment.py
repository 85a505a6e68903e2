"""The target assignment of a consumer group: what an assignor is given, and what becomes of what it returns."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping

from kavka.coordinator.groups.consumer.decide.assignors import GroupSpec, MemberSpec
from kavka.coordinator.groups.consumer.decide.group import Assignment, ConsumerMember
from kavka.coordinator.groups.consumer.decide.target_assignment import (
    ASSIGNORS,
    Reader,
    compute_target,
    metadata_hash,
)
from tests.kit.decided_group import part
from tests.kit.group_surroundings import HandMadeTopics

T, U = uuid.UUID(int=1), uuid.UUID(int=2)


def reader(
    member_id: str, *topics: str, instance: str | None = None, former: Mapping[uuid.UUID, frozenset[int]] | None = None
) -> Reader:
    return Reader(ConsumerMember(member_id, instance), frozenset(topics), former or {})


def given(*readers: Reader, **counts: int) -> GroupSpec:
    """What the assignor of these readers is given."""
    seen: list[GroupSpec] = []

    def assignor(group: GroupSpec) -> dict[str, Assignment]:
        seen.append(group)
        return {}

    assert compute_target(assignor, readers, HandMadeTopics(**counts)) == {
        reader.member.member_id: {} for reader in readers
    }, "members that get nothing are in it"
    (group,) = seen
    return group


def test_a_group_s_hash_is_the_same_in_each_release() -> None:
    """It is kept in the log: another one would have all groups assigned again. Topics in the order of their names."""
    topics = HandMadeTopics(u=7, tt=4)
    digest = hashlib.blake2b(digest_size=8)
    digest.update(U.bytes + (4).to_bytes(8, "big") + b"\x00\x00\x00\x02tt")
    digest.update(T.bytes + (7).to_bytes(8, "big") + b"\x00\x00\x00\x01u")
    expected = int.from_bytes(digest.digest(), "big", signed=True)
    assert metadata_hash(["u", "tt", "u", "gone"], topics) == expected


def test_a_hash_changes_with_each_topic_that_is_read_and_no_other() -> None:
    topics = HandMadeTopics(t=4)
    assert metadata_hash([], topics) == metadata_hash(["gone"], topics) == 0
    hashes = [metadata_hash(["t", "u"], topics)]
    for change in (lambda: topics.put("u", 1), lambda: topics.put("t", 5), lambda: topics.remove("u")):
        change()
        hashes.append(metadata_hash(["t", "u"], topics))
    topics.remove("t")
    topics.put("t", 5)
    hashes.append(metadata_hash(["t", "u"], topics))
    assert len(set(hashes)) == 5
    topics.put("other", 1)
    assert metadata_hash(["t", "u"], topics) == hashes[-1]


def test_members_and_topics_have_an_order_that_all_brokers_know() -> None:
    group = given(reader("c", "u", "t"), reader("b", "t", instance="z"), reader("z", instance="a"), t=1, u=1)
    assert group.members == [
        MemberSpec("z", "a", [], {}),
        MemberSpec("c", None, [T, U], {}),
        MemberSpec("b", "z", [T], {}),
    ]


def test_only_topics_that_are_there_and_are_read_count() -> None:
    group = given(reader("one", "t", "gone"), t=3, u=4)
    assert group.partition_counts == {T: 3}
    assert group.members[0].topics == [T]


def test_an_earlier_target_is_not_trusted() -> None:
    """Assignors use partitions as indexes: what there is not, what is no more, and what two have, is left out."""
    first = reader("a", "t", former={**part(1, -1, 0, 1, 2), **part(7, 0)})
    second = reader("b", "t", former=part(1, 0, 1))
    third = reader("c", "t", "u", former={**part(1, 5), **part(2, 0)})
    group = given(third, second, first, t=2, u=1)
    assert [member.assigned for member in group.members] == [part(1, 0, 1), part(1), {**part(1), **part(2, 0)}]


def test_nobody_is_assigned_nothing() -> None:
    assert compute_target(ASSIGNORS["uniform"], [], HandMadeTopics(t=1)) == {}


def test_what_a_topic_lost_nobody_keeps_and_what_it_gained_somebody_has() -> None:
    for name, assignor in ASSIGNORS.items():
        for count in (1, 4):
            readers = [reader("a", "t", former=part(1, 0, 1)), reader("b", "t", former=part(1, 1, 2))]
            target = compute_target(assignor, readers, HandMadeTopics(t=count))
            has = sorted(number for assigned in target.values() for number in assigned.get(T, ()))
            assert has == list(range(count)), name
    assert list(ASSIGNORS) == ["uniform", "range"]
