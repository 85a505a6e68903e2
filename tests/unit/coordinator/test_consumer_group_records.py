"""Records of consumer groups: what is written is what is read, what a group becomes of them, and what deletes it."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol
from kavka.coordinator.groups.consumer.decide.group import (
    NOTHING,
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
)
from kavka.coordinator.groups.consumer.decide.records import (
    ConsumerGroupRecord,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    PartitionMetadataRecord,
    RegexRecord,
    TargetMemberRecord,
    TargetRecord,
    apply_to,
    assigned_since,
    current_record,
    decode_consumer_group_record,
    epoch_record,
    group_tombstones,
    is_deletion,
    member_record,
    member_tombstones,
    partition_metadata_tombstone,
    regex_record,
    target_member_record,
    target_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord, with_version
from kavka.errors import ProtocolViolation
from kavka.protocol.codec import encode
from kavka.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from tests.kit.decided_group import decoded, part

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
SAYS = ConsumerMember(
    "one",
    "i",
    "r",
    "client",
    "/127.0.0.1",
    frozenset({"b", "a"}),
    "x.*",
    20_000,
    "range",
    ClassicMetadata(10_000, [JoinProtocol("range", b"said"), JoinProtocol("sticky", b"")]),
)
HAS = ConsumerMember(
    "one",
    epoch=5,
    previous_epoch=4,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned={**part(1, 2, 0), **part(2, 7)},
    revoking=part(1, 1),
    assignment_epochs={(T, 0): 3, (T, 2): 4, (U, 7): 5, (T, 1): 2},
)
REGEX = ResolvedRegex(frozenset({"b", "a"}), 9, 1_234)
PUT: list[tuple[int, CoordinatorRecord, ConsumerGroupRecord]] = [
    (3, epoch_record("g", 7, -5), EpochRecord("g", 7, -5)),
    (5, member_record("g", SAYS), MemberRecord("g", "one", SAYS)),
    (6, target_record("g", 7, 1_234), TargetRecord("g", 7, 1_234)),
    (7, target_member_record("g", "one", HAS.assigned), TargetMemberRecord("g", "one", HAS.assigned)),
    (8, current_record("g", HAS), CurrentRecord("g", "one", HAS)),
    (16, regex_record("g", "x.*", REGEX), RegexRecord("g", "x.*", REGEX)),
]
GONE: list[ConsumerGroupRecord] = [
    CurrentRecord("g", "one", None),
    TargetMemberRecord("g", "one", None),
    TargetRecord("g", None, 0),
    MemberRecord("g", "one", None),
    RegexRecord("g", "x.*", None),
    PartitionMetadataRecord("g", is_there=False),
    EpochRecord("g", None, 0),
]


@pytest.mark.parametrize(("version", "record", "said"), PUT)
def test_what_is_written_is_read_again(version: int, record: CoordinatorRecord, said: ConsumerGroupRecord) -> None:
    assert record.key[:2] == bytes([0, version])
    assert record.value is not None
    assert record.value[:2] == b"\x00\x00"
    assert decoded([record]) == [said]
    assert not is_deletion(said)


def test_records_are_kafka_s_bytes() -> None:
    """As GroupCoordinatorRecordHelpers writes them: topics, partitions and names in order."""
    version, epoch, tagged = b"\x00\x00", b"\x00\x00\x00\x07", b"\x01\x00\x08"
    hashed = b"\xff" * 7 + b"\xfb"
    assert epoch_record("g", 7, -5) == (b"\x00\x03\x00\x01g", version + epoch + tagged + hashed)
    assert target_record("g", 7, 5) == (b"\x00\x06\x00\x01g", version + epoch + tagged + bytes(7) + b"\x05")
    topic = bytes(15) + b"\x01" + b"\x03" + bytes(4) + b"\x00\x00\x00\x02"
    part_of = target_member_record("g", "one", part(1, 2, 0))
    assert part_of == (b"\x00\x07\x00\x01g\x00\x03one", version + b"\x02" + topic + b"\x00" + b"\x00")
    assert regex_record("g", "x", ResolvedRegex(frozenset({"b", "a"}), 1, 2)).value == (
        b"\x00\x00" + b"\x03\x02a\x02b" + bytes(7) + b"\x01" + bytes(7) + b"\x02" + b"\x00"
    )


def test_a_member_of_the_newer_protocol_has_no_classic_metadata() -> None:
    plain = replace(SAYS, classic=None)
    assert decoded([member_record("g", plain)]) == [MemberRecord("g", "one", plain)]


def test_a_group_s_tombstones_delete_all_that_it_has() -> None:
    group = ConsumerGroup("g")
    for _, _, said in PUT:
        apply_to(group, said)
    group.has_partition_metadata = True
    assert decoded(group_tombstones(group)) == GONE
    assert all(is_deletion(said) for said in GONE)
    group.has_partition_metadata = False
    group.target["two"] = NOTHING
    parts = [said for said in decoded(group_tombstones(group)) if isinstance(said, TargetMemberRecord)]
    assert parts == [TargetMemberRecord("g", "one", None), TargetMemberRecord("g", "two", None)]
    assert PartitionMetadataRecord("g", is_there=False) not in decoded(group_tombstones(group))


def test_members_tombstones_come_in_kafka_s_order() -> None:
    assert decoded(member_tombstones("g", ["one", "two"])) == [
        CurrentRecord("g", "one", None),
        CurrentRecord("g", "two", None),
        TargetMemberRecord("g", "one", None),
        TargetMemberRecord("g", "two", None),
        MemberRecord("g", "one", None),
        MemberRecord("g", "two", None),
    ]


def test_what_kafka_4_0_wrote_of_topics_is_known_to_be_there() -> None:
    tombstone = partition_metadata_tombstone("g")
    assert tuple(tombstone) == (b"\x00\x04\x00\x01g", None)
    there = decode_consumer_group_record(4, tombstone.key[2:], (0, b"whatever"))
    assert there == PartitionMetadataRecord("g", is_there=True)
    assert not is_deletion(there)


def test_keys_of_other_kinds_are_none_of_a_consumer_group() -> None:
    named = b"\x00\x01g\x00\x03one"
    keys = {3: named[:3], 4: named[:3], 5: named, 6: named[:3], 7: named, 8: named, 16: named}
    known = {version: decode_consumer_group_record(version, keys.get(version, b""), None) for version in range(30)}
    assert {version for version, said in known.items() if said is not None} == set(keys)


def test_a_value_of_another_version_is_no_record() -> None:
    with pytest.raises(ProtocolViolation):
        decode_consumer_group_record(3, b"\x00\x01g", (1, bytes(5)))


# -- what a member has


def current(*parts: TopicPartitions, state: int = 0, epoch: int = 5) -> ConsumerMember:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=4,
        state=state,
        assigned_partitions=list(parts),
        partitions_pending_revocation=[],
    )
    key = current_record("g", HAS).key
    (said,) = decoded([CoordinatorRecord(key, with_version(0, encode(value, 0)))])
    assert isinstance(said, CurrentRecord)
    assert said.member is not None
    return said.member


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (0, MemberState.STABLE),
        (1, MemberState.UNREVOKED_PARTITIONS),
        (2, MemberState.UNRELEASED_PARTITIONS),
        (3, MemberState.UNKNOWN),
        (127, MemberState.UNKNOWN),
    ],
)
def test_a_state_that_is_not_known_is_unknown(number: int, state: MemberState) -> None:
    assert current(state=number).state is state


@pytest.mark.parametrize(("epochs", "since"), [([3, 4], [3, 4]), (None, [5, 5]), ([], [5, 5]), ([3], [5, 5])])
def test_brokers_before_4_3_do_not_say_since_when_a_partition_is_had(
    epochs: list[int] | None, since: list[int]
) -> None:
    had = TopicPartitions(topic_id=T, partitions=[0, 1], assignment_epochs=epochs)
    assert current(had).assignment_epochs == dict(zip([(T, 0), (T, 1)], since, strict=True))
    assert assigned_since(had, -2) == (epochs if epochs and len(epochs) == 2 else [0, 0]), "of a member that is away"


def test_a_topic_without_partitions_is_nothing() -> None:
    assert current(TopicPartitions(topic_id=T, partitions=[], assignment_epochs=None)).assigned is NOTHING


def test_of_what_has_no_epoch_it_is_the_member_s_own() -> None:
    (said,) = decoded([current_record("g", replace(HAS, assignment_epochs={}))])
    assert isinstance(said, CurrentRecord)
    assert said.member is not None
    assert set(said.member.assignment_epochs.values()) == {5}
    (said,) = decoded([current_record("g", replace(HAS, epoch=-2, assignment_epochs={}))])
    assert isinstance(said, CurrentRecord)
    assert said.member is not None
    assert set(said.member.assignment_epochs.values()) == {0}


# -- replay


def test_a_group_becomes_what_its_records_say_in_any_order_of_a_member_s() -> None:
    both = HAS.with_subscription_of(SAYS)
    for order in (PUT, PUT[::-1]):
        group = ConsumerGroup("g")
        for _, _, said in order:
            apply_to(group, said)
        assert (group.epoch, group.metadata_hash) == (7, -5)
        assert (group.assignment_epoch, group.assignment_timestamp_ms) == (7, 1_234)
        assert group.members == {"one": both}
        assert group.target == {"one": HAS.assigned}
        assert group.regexes == {"x.*": REGEX}


def test_what_is_deleted_is_gone_and_what_was_not_there_is_no_mistake() -> None:
    group = ConsumerGroup("g")
    for _, _, said in PUT:
        apply_to(group, said)
    apply_to(group, PartitionMetadataRecord("g", is_there=True))
    group.matched_versions["x.*"] = 3
    assert group.has_partition_metadata
    apply_to(group, GONE[0])
    assert group.members == {"one": ConsumerMember("one").with_subscription_of(SAYS)}
    for _ in range(2):
        for said in GONE:
            apply_to(group, said)
    assert (group.members, group.target, group.regexes, group.matched_versions) == ({}, {}, {}, {})
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (0, 0)
    assert not group.has_partition_metadata
    assert group.epoch == 7, "who holds the groups removes it"
