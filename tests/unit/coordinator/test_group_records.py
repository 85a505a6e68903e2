"""Records of offsets and classic groups in Kafka's formats, and what is told of a rebalance."""

from __future__ import annotations

import uuid

import pytest

from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import (
    GroupLimits,
    GroupState,
    JoinProtocol,
    Member,
    StoredGroup,
)
from kavka.coordinator.groups.decide.rebalance import (
    LONGEST_CAUSE,
    LONGEST_WHY,
    MOST_CAUSES,
    Causes,
    Rebalance,
    because,
    shortened,
)
from kavka.coordinator.groups.decide.records import (
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    decode_record,
    group_record,
    group_tombstone,
    offset_record,
    stored_group,
)
from kavka.decisions import Decision, DecisionKind, Facts
from kavka.errors import ProtocolViolation
from kavka.model import BrokerId
from kavka.protocol.codec import encode
from kavka.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kavka.protocol.messages.offset_commit_value import OffsetCommitValue

TOPIC_ID = uuid.UUID(int=7)
KEY = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x05"


# -- offsets


def test_an_offset_is_written_in_version_4_with_its_topic_s_id() -> None:
    record = offset_record("g", "t", 5, CommittedOffset(9, 3, "m", 1_000, topic_id=TOPIC_ID))
    value = b"\x00\x04" + bytes(7) + b"\x09" + bytes(3) + b"\x03" + b"\x02m" + bytes(6) + b"\x03\xe8"
    assert record == (KEY, value + b"\x01\x00\x10" + TOPIC_ID.bytes)
    assert decode_record(*record) == OffsetRecord("g", "t", 5, CommittedOffset(9, 3, "m", 1_000, -1, TOPIC_ID))


def test_an_offset_with_an_expiry_of_its_own_is_written_in_version_1() -> None:
    """Which has no leader epoch and no topic id."""
    record = offset_record("g", "t", 5, CommittedOffset(9, 3, "m", 1_000, 2_000, TOPIC_ID))
    value = bytes(7) + b"\x09" + b"\x00\x01m" + bytes(6) + b"\x03\xe8" + bytes(6) + b"\x07\xd0"
    assert record == (KEY, b"\x00\x01" + value)
    assert decode_record(*record) == OffsetRecord("g", "t", 5, CommittedOffset(9, -1, "m", 1_000, 2_000))


@pytest.mark.parametrize(
    ("version", "leader_epoch", "expiry"), [(0, -1, -1), (1, -1, 2_000), (2, -1, -1), (3, 3, -1), (4, 3, -1)]
)
def test_an_offset_is_read_in_each_version(version: int, leader_epoch: int, expiry: int) -> None:
    value = OffsetCommitValue(
        offset=9, leader_epoch=3 if version >= 3 else -1, metadata="m", commit_timestamp=1_000, expire_timestamp=-1
    )
    if version == 1:
        value.expire_timestamp = 2_000
    for key_version in (0, 1):
        key = bytes([0, key_version]) + KEY[2:]
        read = decode_record(key, bytes([0, version]) + encode(value, version))
        assert read == OffsetRecord("g", "t", 5, CommittedOffset(9, leader_epoch, "m", 1_000, expiry))


def test_an_offset_is_deleted_by_a_record_without_a_value() -> None:
    assert offset_record("g", "t", 5, None) == (KEY, None)
    assert decode_record(KEY, None) == OffsetRecord("g", "t", 5, None)


# -- groups


def member(member_id: str, *protocols: tuple[str, bytes], instance_id: str | None = None) -> Member:
    return Member(
        member_id,
        instance_id,
        "c",
        "h",
        10_000,
        20_000,
        "consumer",
        [JoinProtocol(*protocol) for protocol in protocols],
        assignment=b"has",
    )


def group_of(*members: Member, protocol: str | None, generation: int = 7) -> ClassicGroup:
    group = ClassicGroup("g", GroupLimits(1, 2, 3, 4), 0)
    leader_id = members[0].member_id if members else None
    group.restore(StoredGroup(generation, "consumer", protocol, leader_id, list(members), None), 0)
    return group


def test_a_group_is_kept_with_its_members_their_subscriptions_and_what_they_are_to_have() -> None:
    one = member("one", ("range", b"r"), ("sticky", b"s"), instance_id="i")
    two = member("two", ("sticky", b"t"))
    two.proposed = b"gets"
    record = group_record(group_of(one, two, protocol="sticky"), wall_ms=1_234)
    assert record.key == b"\x00\x02\x00\x01g"
    assert record.value is not None
    assert record.value[:2] == b"\x00\x03"
    read = decode_record(*record)
    assert isinstance(read, GroupRecord)
    assert read.value is not None
    assert stored_group(read.value) == StoredGroup(
        7,
        "consumer",
        "sticky",
        "one",
        [
            Member("one", "i", "c", "h", 10_000, 20_000, "consumer", [JoinProtocol("sticky", b"s")], b"has"),
            Member(
                "two", None, "c", "h", 10_000, 20_000, "consumer", [JoinProtocol("sticky", b"t")], assignment=b"gets"
            ),
        ],
        1_234,
    )


def test_an_empty_group_is_kept_without_members_and_leader() -> None:
    read = decode_record(*group_record(group_of(protocol=None), wall_ms=0))
    assert isinstance(read, GroupRecord)
    assert read.value is not None
    assert stored_group(read.value) == StoredGroup(7, "consumer", None, None, [], 0)
    away = group_of(member("one", ("range", b"r")), protocol=None)
    away.state = GroupState.EMPTY
    read = decode_record(*group_record(away, wall_ms=0))
    assert isinstance(read, GroupRecord)
    assert read.value is not None
    assert read.value.members == []


def test_a_group_that_nobody_has_joined_is_of_no_type() -> None:
    read = decode_record(*group_record(ClassicGroup("g", GroupLimits(1, 2, 3, 4), 0), wall_ms=5))
    assert isinstance(read, GroupRecord)
    assert read.value is not None
    assert (read.value.protocol_type, read.value.generation, read.value.leader) == ("", 0, None)


def test_a_member_without_a_protocol_in_force_has_no_subscription() -> None:
    read = decode_record(*group_record(group_of(member("one", ("range", b"r")), protocol=None), wall_ms=0))
    assert isinstance(read, GroupRecord)
    assert read.value is not None
    assert [each.subscription for each in read.value.members] == [b""]
    assert stored_group(read.value).members[0].protocols == [JoinProtocol("", b"")]


@pytest.mark.parametrize(("rebalance_ms", "expected"), [(-1, 10_000), (0, 0), (20_000, 20_000)])
def test_a_record_of_version_0_has_one_time_out_for_both(rebalance_ms: int, expected: int) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="one",
        members=[
            MemberMetadata(
                member_id="one",
                client_id="c",
                client_host="h",
                rebalance_timeout=rebalance_ms,
                session_timeout=10_000,
                subscription=b"",
                assignment=b"",
            )
        ],
    )
    stored = stored_group(value)
    assert [each.rebalance_timeout_ms for each in stored.members] == [expected]
    assert stored.written_at_wall_ms is None, "it does not say when"


def test_a_group_is_deleted_by_a_record_without_a_value() -> None:
    assert group_tombstone("g") == (b"\x00\x02\x00\x01g", None)
    assert decode_record(*group_tombstone("g")) == GroupRecord("g", None)


def test_other_keys_are_not_known_and_none_is_no_key() -> None:
    assert [decode_record(bytes([0, version]), b"") for version in range(3, 30)] == [None] * 27
    with pytest.raises(ProtocolViolation):
        decode_record(b"\x00", None)


# -- what is told of a rebalance


@pytest.mark.parametrize(
    ("members", "took_ms", "why", "evidence"),
    [
        (1, 5, "generation 8 with 1 member begins after 5 ms: she left", {"kind": "classic", "took_ms": 5}),
        (2, 0, "generation 8 with 2 members begins after 0 ms: she left", {"kind": "classic", "took_ms": 0}),
        (0, None, "epoch 8 with 0 members begins: she left", {"kind": "classic"}),
    ],
)
def test_a_rebalance_s_why_record(members: int, took_ms: int | None, why: str, evidence: Facts) -> None:
    rebalance = Rebalance("g", "classic", "she left", 7, 8, 3, members, took_ms)
    assert rebalance.as_decision(1_234, BrokerId(2)) == Decision(
        DecisionKind.GROUP_REBALANCED,
        1_234,
        BrokerId(2),
        why,
        group="g",
        before={"generation": 7, "members": 3},
        after={"generation": 8, "members": members},
        evidence=evidence,
    )


def test_a_rebalance_s_causes_have_a_length() -> None:
    rebalance = Rebalance("g", "classic", "x" * (LONGEST_WHY + 1), 7, 8, 1, 1, 0)
    assert rebalance.as_decision(0, BrokerId(0)).why.endswith(": " + "x" * (LONGEST_WHY - 3) + "...")
    assert LONGEST_WHY == 1_500


def test_a_few_causes_are_told_and_the_others_counted() -> None:
    causes = Causes()
    assert causes.take() == ""
    for number in range(MOST_CAUSES):
        causes.add(f"cause {number}")
    assert causes.take() == "cause 0; cause 1; cause 2; cause 3"
    for number in range(MOST_CAUSES + 2):
        causes.add(f"cause {number}")
    assert causes.take() == "cause 0; cause 1; cause 2; cause 3; and 2 more"
    causes.add("y" * (LONGEST_CAUSE + 1))
    assert causes.take() == "y" * (LONGEST_CAUSE - 3) + "..."
    assert causes.take() == ""


def test_a_text_is_as_long_as_it_may_be() -> None:
    assert shortened("abcde", 5) == "abcde"
    assert shortened("abcdef", 5) == "ab..."
    assert shortened("z" * LONGEST_CAUSE) == "z" * LONGEST_CAUSE
    assert LONGEST_CAUSE == 300


def test_a_client_s_reason_comes_behind_the_cause() -> None:
    assert because("she left", "") == "she left"
    assert because("she left", "too slow") == "she left: too slow"
