"""Records of share groups: what is written is what is read, what a group becomes of them, and what deletes it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from kavka.coordinator.groups.share.decide.group import NamedPartitions, ShareGroup, ShareMember, StatePartitions
from kavka.coordinator.groups.share.decide.records import (
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareStatesRecord,
    ShareTargetMemberRecord,
    ShareTargetRecord,
    apply_to,
    current_record,
    decode_share_group_record,
    epoch_record,
    group_tombstones,
    is_deletion,
    member_record,
    member_tombstones,
    states_record,
    target_member_record,
    target_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord, split_version
from kavka.errors import ProtocolViolation
from kavka.protocol.codec import decode
from kavka.protocol.messages import share_group_state_partition_metadata_value as states
from kavka.protocol.messages.share_group_current_member_assignment_value import ShareGroupCurrentMemberAssignmentValue
from kavka.protocol.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from kavka.protocol.messages.share_group_target_assignment_member_value import ShareGroupTargetAssignmentMemberValue

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
PART = {U: frozenset({0}), T: frozenset({5, 0, 33})}
SAYS = ShareMember("one", "rack", "client", "/127.0.0.1", frozenset({"b", "a"}))
HAS = ShareMember("one", epoch=7, previous_epoch=6, assigned=PART)
STATES = StatePartitions(
    {U: NamedPartitions("u", frozenset({2, 1})), T: NamedPartitions("t", frozenset({33, 0}))},
    {U: NamedPartitions("u", frozenset({0})), T: NamedPartitions("t", frozenset({8, 3}))},
    {U: "u", T: "t"},
)


def said(record: CoordinatorRecord) -> ShareGroupRecord:
    version, key = split_version(record.key)
    found = decode_share_group_record(version, key, None if record.value is None else split_version(record.value))
    assert found is not None
    return found


def replayed(group: ShareGroup, *records: ShareGroupRecord) -> ShareGroup:
    for record in records:
        apply_to(group, record)
    return group


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (epoch_record("g", 5, -17), ShareEpochRecord("g", 5, -17)),
        (member_record("g", SAYS), ShareMemberRecord("g", "one", SAYS)),
        (target_record("g", 5, 1_700), ShareTargetRecord("g", 5, 1_700)),
        (target_member_record("g", "one", PART), ShareTargetMemberRecord("g", "one", PART)),
        (current_record("g", HAS), ShareCurrentRecord("g", "one", HAS)),
        (states_record("g", STATES), ShareStatesRecord("g", STATES)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_is_written_is_what_is_read(record: CoordinatorRecord, expected: ShareGroupRecord) -> None:
    assert said(record) == expected


def test_keys_and_values_have_the_versions_of_apache_kafka() -> None:
    written = [
        member_record("g", SAYS),
        epoch_record("g", 5, 0),
        target_record("g", 5, 0),
        target_member_record("g", "one", PART),
        current_record("g", HAS),
        states_record("g", STATES),
    ]
    assert [split_version(record.key)[0] for record in written] == [10, 11, 12, 13, 14, 15]
    assert {split_version(record.value or b"")[0] for record in written} == {0}


def test_the_same_group_is_written_in_the_same_bytes() -> None:
    """Names, topics and partitions stand in order, whatever the order of sets and mappings."""
    member = decode(ShareGroupMemberMetadataValue, (member_record("g", SAYS).value or b"")[2:], 0)
    assert member.subscribed_topic_names == ["a", "b"]
    target = decode(ShareGroupTargetAssignmentMemberValue, (target_member_record("g", "one", PART).value or b"")[2:], 0)
    current = decode(ShareGroupCurrentMemberAssignmentValue, (current_record("g", HAS).value or b"")[2:], 0)
    for parts in (target.topic_partitions, current.assigned_partitions):
        assert [(each.topic_id, each.partitions) for each in parts] == [(T, [0, 5, 33]), (U, [0])]
    assert current.state == 0, "stable, as Kafka's only state of a share group's member"
    found = decode(states.ShareGroupStatePartitionMetadataValue, (states_record("g", STATES).value or b"")[2:], 0)
    assert [(each.topic_id, each.partitions) for each in found.initializing_topics] == [(T, [0, 33]), (U, [1, 2])]
    assert [(each.topic_id, each.partitions) for each in found.initialized_topics] == [(T, [3, 8]), (U, [0])]
    assert [each.topic_id for each in found.deleting_topics] == [T, U]


def tombstones(records: Sequence[CoordinatorRecord]) -> list[tuple[int, ShareGroupRecord]]:
    assert all(record.value is None for record in records)
    return [(split_version(record.key)[0], said(record)) for record in records]


def test_a_member_is_deleted_in_the_order_of_apache_kafka() -> None:
    """All current assignments, then all parts of the target, then the members."""
    assert tombstones(member_tombstones("g", ["one", "two"])) == [
        (14, ShareCurrentRecord("g", "one", None)),
        (14, ShareCurrentRecord("g", "two", None)),
        (13, ShareTargetMemberRecord("g", "one", None)),
        (13, ShareTargetMemberRecord("g", "two", None)),
        (10, ShareMemberRecord("g", "one", None)),
        (10, ShareMemberRecord("g", "two", None)),
    ]


def test_a_group_is_deleted_with_members_and_parts_of_targets_that_it_has() -> None:
    group = ShareGroup("g")
    group.members["one"] = SAYS
    group.target = {"one": PART, "gone": PART}
    deleted = tombstones(group_tombstones(group))
    assert [version for version, _ in deleted] == [14, 14, 13, 13, 10, 10, 12, 15, 11]
    assert deleted[2:4] == [
        (13, ShareTargetMemberRecord("g", "one", None)),
        (13, ShareTargetMemberRecord("g", "gone", None)),
    ]
    assert deleted[6:] == [
        (12, ShareTargetRecord("g", None, 0)),
        (15, ShareStatesRecord("g", None)),
        (11, ShareEpochRecord("g", None, 0)),
    ]
    assert all(is_deletion(record) for _, record in deleted)


def test_what_says_something_is_no_deletion() -> None:
    for record in (
        ShareEpochRecord("g", 0, 0),
        ShareTargetRecord("g", 0, 0),
        ShareTargetMemberRecord("g", "one", {}),
        ShareMemberRecord("g", "one", SAYS),
        ShareCurrentRecord("g", "one", HAS),
        ShareStatesRecord("g", StatePartitions()),
    ):
        assert not is_deletion(record)


@pytest.mark.parametrize("version", [9, 16, 17, 0, -1])
def test_keys_of_other_groups_are_not_read(version: int) -> None:
    key = epoch_record("g", 5, 0).key[2:]
    assert decode_share_group_record(version, key, None) is None


@pytest.mark.parametrize("version", [10, 11, 12, 13, 14, 15])
def test_what_is_no_such_record_is_refused(version: int) -> None:
    with pytest.raises(ProtocolViolation):
        decode_share_group_record(version, b"\xff", None)
    key = (member_record if version in (10, 13, 14) else lambda group_id, _: epoch_record(group_id, 1, 1))("g", SAYS)
    with pytest.raises(ProtocolViolation, match="has no version 1"):
        decode_share_group_record(version, key.key[2:], (1, b""))


# -- what a group becomes of them


def test_a_group_is_what_its_records_say() -> None:
    group = replayed(
        ShareGroup("g"),
        ShareEpochRecord("g", 5, 99),
        ShareMemberRecord("g", "one", SAYS),
        ShareTargetRecord("g", 4, 1_700),
        ShareTargetMemberRecord("g", "one", PART),
        ShareTargetMemberRecord("g", "two", PART),
        ShareCurrentRecord("g", "one", HAS),
        ShareStatesRecord("g", STATES),
    )
    assert (group.epoch, group.metadata_hash) == (5, 99)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (4, 1_700)
    assert group.target == {"one": PART, "two": PART}
    assert group.states == STATES
    assert group.members == {
        "one": ShareMember("one", "rack", "client", "/127.0.0.1", frozenset({"a", "b"}), 7, 6, PART)
    }
    says_more = ShareMember("one", None, "other", "/h", frozenset({"c"}))
    replayed(group, ShareMemberRecord("g", "one", says_more))
    assert group.members == {"one": ShareMember("one", None, "other", "/h", frozenset({"c"}), 7, 6, PART)}


def test_deletions_take_away_what_they_name() -> None:
    group = replayed(
        ShareGroup("g"),
        ShareEpochRecord("g", 5, 99),
        ShareMemberRecord("g", "one", SAYS),
        ShareMemberRecord("g", "two", ShareMember("two")),
        ShareTargetRecord("g", 4, 1_700),
        ShareTargetMemberRecord("g", "one", PART),
        ShareTargetMemberRecord("g", "two", PART),
        ShareCurrentRecord("g", "one", HAS),
        ShareStatesRecord("g", STATES),
    )
    group.watch_all(10)
    replayed(
        group,
        ShareCurrentRecord("g", "one", None),
        ShareTargetMemberRecord("g", "one", None),
        ShareTargetMemberRecord("g", "never", None),
    )
    assert group.members["one"] == SAYS, "what it says of itself stays until its own record goes"
    assert group.target == {"two": PART}
    replayed(group, ShareMemberRecord("g", "one", None), ShareMemberRecord("g", "never", None))
    assert (list(group.members), list(group.sessions), group.untold) == (["two"], ["two"], {"two"})
    replayed(group, ShareCurrentRecord("g", "one", None))
    assert list(group.members) == ["two"], "a deletion makes no member"
    replayed(group, ShareTargetRecord("g", None, 0), ShareStatesRecord("g", None), ShareEpochRecord("g", None, 0))
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (0, 0)
    assert group.states == StatePartitions()
    assert (group.epoch, group.metadata_hash) == (5, 99), "who holds the groups removes it"


def test_a_current_assignment_makes_a_member_whose_own_record_was_compacted_away() -> None:
    group = replayed(ShareGroup("g"), ShareCurrentRecord("g", "one", HAS))
    assert group.members == {"one": HAS}


def test_each_record_ends_the_rest_of_its_group() -> None:
    for record in (ShareEpochRecord("g", None, 0), ShareMemberRecord("g", "one", None), ShareStatesRecord("g", None)):
        group = ShareGroup("g")
        group.rest_version = 7
        assert replayed(group, record).rest_version == -1
