"""Members of the classic protocol in a group of the newer one: what their requests are answered with. As Kafka's
GroupMetadataManager decides it; beside Kafka itself: tests/conformance/groups/test_mixed_groups_as_kafka.py."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.consumer_protocol import decode_assignment, encode_assignment
from kavka.coordinator.groups.classic.decide.membership import (
    JoinAnswer,
    JoinProtocol,
    Leaver,
    SyncAnswer,
    SyncRequest,
)
from kavka.coordinator.groups.consumer.decide.classic_members import (
    answer_sync,
    assignment_bytes,
    by_topic_id,
    classic_heartbeat,
    decide_leave,
    require_classic_member,
)
from kavka.coordinator.groups.consumer.decide.group import ClassicMetadata, ConsumerMember, Deadlines, MemberState
from kavka.coordinator.groups.consumer.decide.records import CurrentRecord, EpochRecord, MemberRecord
from kavka.errors import ErrorCode, RequestError
from tests.kit.decided_group import GROUP, DecidedGroup, join_request, part
from tests.kit.group_case import subscription

T = uuid.UUID(int=1)
ALL = part(1, 0, 1, 2, 3)
SAYS = subscription("t")
RANGE, STICKY = JoinProtocol("range", SAYS), JoinProtocol("sticky", SAYS)
CLASSIC = ClassicMetadata(10_000, (RANGE, STICKY))
OLD = ConsumerMember(
    "old", topics=frozenset({"t"}), rebalance_timeout_ms=20_000, classic=CLASSIC, epoch=5, previous_epoch=5
)


def with_old(**changes: object) -> DecidedGroup:
    """A group of epoch 5 whose only member speaks the classic protocol."""
    case = DecidedGroup()
    case.put(replace(OLD, **changes), epoch=5)  # type: ignore[arg-type]  # names of fields
    return case


# -- JoinGroup


def test_a_join_says_all_of_a_member_and_takes_its_next_step() -> None:
    case = DecidedGroup()
    rack = b"\x00\x03" + subscription("t", owned={})[2:] + b"\x00\x01r"
    joined = case.join(join_request("", ("range", rack), ("sticky", SAYS)), "new")
    assert joined.answer == JoinAnswer(ErrorCode.NONE, "new", 2, "consumer", "range")
    assert joined.replaced is None
    said = ConsumerMember(
        "new",
        None,
        "r",
        "old",
        "/127.0.0.1",
        frozenset({"t"}),
        rebalance_timeout_ms=20_000,
        classic=ClassicMetadata(10_000, [JoinProtocol("range", rack), STICKY]),
    )
    assert case.said[0] == MemberRecord(GROUP, "new", said)
    assert joined.member is not None
    assert joined.member.assigned == ALL


def test_a_member_that_joins_again_keeps_what_it_does_not_say_and_gives_up_its_expression() -> None:
    case = DecidedGroup()
    case.put(
        replace(OLD, classic=None, instance_id="i", rack_id="r", topic_regex="x", assignor="range", assigned=ALL),
        epoch=5,
    )
    joined = case.join(join_request("old", ("range", SAYS), client_id="c", client_host="h", rebalance_timeout_ms=7))
    member = case.group.members["old"]
    assert (member.instance_id, member.rack_id, member.topic_regex, member.assignor) == ("i", "r", "", "range")
    assert (member.client_id, member.client_host, member.rebalance_timeout_ms) == ("c", "h", 7)
    assert joined.answer.member_id == "old"
    assert case.group.epoch == 6, "it subscribes to something else"


def test_a_member_without_an_id_is_to_join_with_the_one_that_it_gets() -> None:
    case = DecidedGroup()
    first = case.join(join_request("", ("range", SAYS), require_known_member_id=True), "new")
    assert first == ((), JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, "new"), None, None)
    second = case.join(join_request("new", ("range", SAYS), require_known_member_id=True), "newer")
    assert second.answer.member_id == "new"


def join_refused(case: DecidedGroup, *protocols: tuple[str, bytes], **fields: object) -> tuple[ErrorCode, str]:
    member_id = str(fields.pop("member_id", ""))
    with pytest.raises(RequestError) as refused:
        case.join(join_request(member_id, *protocols, **fields))  # type: ignore[arg-type]  # names of fields
    return refused.value.code, refused.value.message


def test_where_groups_may_not_change_their_protocol_no_classic_member_joins() -> None:
    case = DecidedGroup(upgrade_allowed=False, downgrade_allowed=False)
    assert join_refused(case, ("range", SAYS)) == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "Cannot join the consumer group g with the classic protocol because the group migration is disabled.",
    )


def test_a_full_group_takes_no_classic_member_but_those_that_it_has() -> None:
    case = DecidedGroup(max_size=1)
    case.put(replace(OLD, instance_id="i"), epoch=5)
    assert join_refused(case, ("range", SAYS))[0] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join_refused(case, ("range", SAYS), member_id="other")[0] is ErrorCode.GROUP_MAX_SIZE_REACHED
    case.join(join_request("old", ("range", SAYS)))
    case.join(join_request("", ("range", SAYS), instance="i"), "uno")
    assert list(case.group.members) == ["uno"]


@pytest.mark.parametrize(
    ("protocols", "fields", "joins"),
    [
        (["range"], {}, True),
        (["other", "sticky"], {}, True),
        (["other"], {}, False),
        ([], {}, False),
        (["range"], {"protocol_type": "connect"}, False),
        (["other"], {"member_id": "old"}, True),
    ],
)
def test_classic_members_have_a_protocol_in_common(
    protocols: list[str], fields: dict[str, object], joins: bool
) -> None:
    """Those of the newer protocol do not matter, nor does what the member itself said before."""
    case = with_old()
    case.group.put_member(ConsumerMember("new", epoch=5))
    said = [(name, SAYS) for name in protocols]
    if not joins:
        assert join_refused(case, *said, **fields)[0] is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return
    member_id = str(fields.get("member_id", ""))
    assert case.join(join_request(member_id, *said)).answer.protocol == protocols[0]


def test_a_protocol_that_only_some_have_is_not_in_common() -> None:
    case = with_old()
    case.group.put_member(replace(OLD, member_id="other", classic=ClassicMetadata(10_000, (RANGE, RANGE))))
    assert join_refused(case, ("sticky", SAYS))[0] is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert case.join(join_request("", ("range", SAYS))).answer.error is ErrorCode.NONE


def test_a_subscription_that_cannot_be_read_is_refused_with_the_reason() -> None:
    code, why = join_refused(DecidedGroup(), ("range", b"\x00"))
    assert code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert why == "a subscription or assignment ends too early, after 1 bytes"


def test_a_static_member_comes_back_under_its_own_id_or_as_a_new_one() -> None:
    case = with_old(instance_id="i", assigned=ALL)
    known = case.group.members["old"]
    assert case.join(join_request("old", ("range", SAYS), instance="i")).replaced == known
    for member_id, instance, code in (("other", "i", ErrorCode.FENCED_INSTANCE_ID), ("old", "j", None)):
        refused = join_refused(case, ("range", SAYS), member_id=member_id, instance=instance)[0]
        assert refused is (code or ErrorCode.UNKNOWN_MEMBER_ID)
    known = case.group.members["old"]
    joined = case.join(join_request("", ("range", SAYS), instance="i"), "uno")
    assert joined.replaced == known
    assert joined.member is not None
    assert (joined.member.member_id, joined.member.assigned) == ("uno", ALL)
    began = [record.member for record in case.said if isinstance(record, CurrentRecord) and record.member]
    assert (began[0].epoch, began[0].previous_epoch) == (0, 0)
    assert not [record for record in case.said if isinstance(record, EpochRecord)]
    assert case.join(join_request("", ("range", SAYS), instance="k"), "dos").replaced is None
    assert list(case.group.members) == ["uno", "dos"]


def test_what_a_member_says_it_owns_is_what_it_gives_back() -> None:
    case = with_old(assigned=ALL)
    case.beat("new")
    owns = subscription("t", owned={"t": [0, 1, 2, 3], "gone": [1]})
    assert case.join(join_request("old", ("range", owns))).answer.generation == 5
    assert case.group.members["old"].revoking
    left = sorted(case.group.members["old"].assigned[T])
    gave = subscription("t", owned={"t": left})
    assert case.join(join_request("old", ("range", gave))).answer.generation == 6


# -- topics by name and by id


def test_partitions_are_told_by_name_to_members_and_by_id_to_the_group() -> None:
    topics = DecidedGroup().topics
    assert by_topic_id({"t": [1, 1, 0], "gone": [1]}, topics) == part(1, 0, 1)
    assert by_topic_id({"t": []}, topics) == {}
    topics.put("u", 1)
    told = assignment_bytes({**part(2, 0), **part(1, 2, 0), **part(9, 1)}, (RANGE, JoinProtocol("odd", b"")), topics)
    assert told == encode_assignment({"t": [0, 2], "u": [0]}, 2)
    assert assignment_bytes({}, (JoinProtocol("range", b""),), topics) == encode_assignment({}, 0)


# -- LeaveGroup


def test_who_leaves_is_named_by_either_id_and_once() -> None:
    case = with_old(instance_id="i")
    case.group.put_member(ConsumerMember("two"))
    leavers = [
        Leaver("old", None, "first"),
        Leaver("", "i", "second"),
        Leaver("two", "i"),
        Leaver("two", None),
        Leaver("none"),
        Leaver("", "j"),
    ]
    assert decide_leave(case.group, leavers) == (
        [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ],
        {"old": "first", "two": ""},
    )


# -- SyncGroup and Heartbeat


@pytest.mark.parametrize(
    ("member_id", "instance_id", "generation", "code"),
    [
        ("old", None, 5, None),
        ("old", "i", 5, None),
        ("old", None, 4, ErrorCode.ILLEGAL_GENERATION),
        ("old", None, 6, ErrorCode.ILLEGAL_GENERATION),
        ("none", None, 5, ErrorCode.UNKNOWN_MEMBER_ID),
        ("none", "i", 5, ErrorCode.FENCED_INSTANCE_ID),
        ("old", "j", 5, ErrorCode.UNKNOWN_MEMBER_ID),
        ("new", None, 5, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_classic_member_is_known_by_its_ids_and_generation(
    member_id: str, instance_id: str | None, generation: int, code: ErrorCode | None
) -> None:
    group = with_old(instance_id="i").group
    group.put_member(ConsumerMember("new", epoch=5))
    if code is None:
        assert require_classic_member(group, member_id, instance_id, generation) == (group.members["old"], CLASSIC)
        return
    with pytest.raises(RequestError) as refused:
        require_classic_member(group, member_id, instance_id, generation)
    assert refused.value.code is code
    if member_id == "new":
        assert refused.value.message == "Member new does not use the classic protocol."


def sync(case: DecidedGroup, protocol_type: str | None = None, protocol: str | None = None) -> SyncAnswer:
    return answer_sync(case.group, SyncRequest("old", None, 5, protocol_type, protocol, {}), case.topics, 1_000)


def test_a_sync_is_answered_with_what_the_member_has() -> None:
    case = with_old(assigned=ALL)
    case.group.expect_sync("old", 9, 9, 0)
    answer = sync(case, "consumer", "range")
    assert answer[:3] == (ErrorCode.NONE, "consumer", "range")
    assert decode_assignment(answer.assignment).partitions == {"t": [0, 1, 2, 3]}
    assert case.group.deadlines == {"old": Deadlines(11_000)}
    assert sync(case)[:3] == (ErrorCode.NONE, None, None)


@pytest.mark.parametrize(("protocol_type", "protocol"), [("connect", None), (None, "sticky"), ("connect", "range")])
def test_a_sync_of_another_protocol_is_refused(protocol_type: str | None, protocol: str | None) -> None:
    with pytest.raises(RequestError) as refused:
        sync(with_old(), protocol_type, protocol)
    assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_who_is_behind_joins_again_instead_of_a_sync_unless_it_is_to_give_back_first() -> None:
    case = with_old(assigned=ALL)
    case.group.epoch = case.group.assignment_epoch = 6
    case.group.expect_sync("old", 9, 9, 0)
    with pytest.raises(RequestError) as refused:
        sync(case)
    assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert case.group.deadlines == {"old": Deadlines(11_000, join_ms=21_000, sync_ms=9)}
    case.group.put_member(replace(case.group.members["old"], state=MemberState.UNREVOKED_PARTITIONS))
    assert sync(case).error is ErrorCode.NONE
    assert case.group.deadlines["old"].sync_ms is None


@pytest.mark.parametrize(
    ("member", "epoch", "assignment_epoch", "is_due", "rejoins"),
    [
        ({}, 5, 5, True, False),
        ({}, 6, 5, False, False),
        ({}, 6, 5, True, True),
        ({}, 6, 6, False, True),
        ({"state": MemberState.UNREVOKED_PARTITIONS}, 5, 5, False, True),
        ({"state": MemberState.UNRELEASED_PARTITIONS}, 5, 5, False, True),
        ({"state": MemberState.UNRELEASED_PARTITIONS, "assigned": part(1, 0, 1)}, 5, 5, False, False),
    ],
)
def test_a_heartbeat_has_a_member_join_where_that_gets_it_further(
    member: dict[str, object], epoch: int, assignment_epoch: int, is_due: bool, rejoins: bool
) -> None:
    """It waits for others while they have what it is to get."""
    case = with_old(**member)
    group = case.group
    group.epoch, group.assignment_epoch = epoch, assignment_epoch
    group.put_member(ConsumerMember("new", epoch=5, assigned=part(1, 2)))
    group.target["old"] = part(1, 0, 1, 2) if "assigned" in member else part(1, 3)
    if not rejoins:
        classic_heartbeat(group, "old", None, 5, 1_000, is_due=is_due)
        assert group.deadlines["old"] == Deadlines(11_000)
        return
    for now_ms in (1_000, 2_000):
        with pytest.raises(RequestError) as refused:
            classic_heartbeat(group, "old", None, 5, now_ms, is_due=is_due)
        assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.deadlines["old"] == Deadlines(12_000, join_ms=21_000)
