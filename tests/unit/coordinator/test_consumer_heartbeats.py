"""What a heartbeat of the newer protocol (KIP-848) leads to: the records, and the answer. As Kafka's
GroupCoordinatorService and GroupMetadataManager decide it."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from kavka.coordinator.groups.consumer.decide.group import (
    NOTHING,
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
)
from kavka.coordinator.groups.consumer.decide.heartbeat import check_request
from kavka.coordinator.groups.consumer.decide.records import (
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    PartitionMetadataRecord,
    RegexRecord,
    TargetMemberRecord,
    TargetRecord,
)
from kavka.coordinator.groups.consumer.decide.target_assignment import metadata_hash
from kavka.errors import ErrorCode, RequestError
from tests.kit.decided_group import GROUP, WALL_MS, DecidedGroup, heartbeat, part
from tests.kit.group_surroundings import CONSUMER_LIMITS, HandMadeTopics
from tests.kit.one_by_one import OneByOne

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
ALL = part(1, 0, 1, 2, 3)
NO_MEMBER_ID, NO_TIMEOUT = "MemberId can't be empty.", "RebalanceTimeoutMs must be provided in first request."
OWNS, READS = (
    "TopicPartitions must be empty when (re-)joining.",
    ("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
)


@pytest.mark.parametrize(
    ("epoch", "fields", "why"),
    [
        (0, {}, ""),
        (0, {"group_id": ""}, "GroupId can't be empty."),
        (5, {"instance_id": ""}, "InstanceId can't be empty."),
        (5, {"rack_id": ""}, "RackId can't be empty."),
        (5, {"instance_id": "i", "rack_id": "r"}, ""),
        (0, {"member_id": ""}, NO_MEMBER_ID),
        (0, {"member_id": "", "version": 0}, ""),
        (0, {"member_id": "", "version": 1}, NO_MEMBER_ID),
        (5, {"member_id": "", "version": 0}, NO_MEMBER_ID),
        (-1, {"member_id": "", "version": 0}, NO_MEMBER_ID),
        (-2, {"member_id": "", "version": 1, "instance_id": "i"}, NO_MEMBER_ID),
        (-2, {"member_id": "", "version": 0, "instance_id": "i"}, ""),
        (0, {"rebalance_timeout_ms": -1}, NO_TIMEOUT),
        (0, {"rebalance_timeout_ms": 0}, ""),
        (0, {"owned": None}, OWNS),
        (0, {"owned": part(1, 0)}, OWNS),
        (0, {"topics": None}, READS),
        (0, {"topics": []}, ""),
        (0, {"topics": None, "topic_regex": ""}, ""),
        (1, {}, ""),
        (-1, {}, ""),
        (-2, {}, "InstanceId can't be null."),
        (-2, {"instance_id": "i"}, ""),
        (-3, {"instance_id": "i"}, "MemberEpoch is invalid."),
        (5, {"assignor": "range"}, ""),
    ],
)
def test_requests_that_cannot_be_meant_are_refused_in_kafka_s_words(
    epoch: int, fields: dict[str, object], why: str
) -> None:
    request = heartbeat("one", epoch, **fields)
    if not why:
        check_request(request, CONSUMER_LIMITS)
        return
    with pytest.raises(RequestError) as refused:
        check_request(request, CONSUMER_LIMITS)
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, why)


def test_an_assignor_that_the_broker_has_not_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(RequestError) as refused:
        check_request(heartbeat("one", 5, assignor="mine"), CONSUMER_LIMITS)
    assert refused.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert refused.value.message == "ServerAssignor mine is not supported. Supported assignors: uniform, range."


@pytest.mark.parametrize(
    ("fields", "is_full"),
    [
        ({"epoch": 0, "rebalance_timeout_ms": -1, "topics": None, "owned": None}, True),
        ({"epoch": 5, "rebalance_timeout_ms": 9, "topics": ["t"], "owned": {}}, True),
        ({"epoch": 5, "rebalance_timeout_ms": 9, "topic_regex": "t", "owned": {}}, True),
        ({"epoch": 5, "rebalance_timeout_ms": -1, "topics": ["t"], "owned": {}}, False),
        ({"epoch": 5, "rebalance_timeout_ms": 9, "owned": {}}, False),
        ({"epoch": 5, "rebalance_timeout_ms": 9, "topics": ["t"]}, False),
    ],
)
def test_a_full_request_has_all_fields_or_joins(fields: dict[str, object], is_full: bool) -> None:
    assert heartbeat("one", **fields).is_full is is_full  # type: ignore[arg-type]


# -- joining


def test_the_first_member_gets_everything_in_epoch_2() -> None:
    """A group begins with epoch 1, as in Kafka, and a subscription raises it."""
    case = DecidedGroup()
    decision = case.beat("one", rack_id="r", instance_id="i", assignor="range")
    said = ConsumerMember(
        "one", "i", "r", "client", "/127.0.0.1", frozenset({"t"}), rebalance_timeout_ms=20_000, assignor="range"
    )
    moved = ConsumerMember("one", epoch=2, assigned=ALL, assignment_epochs={(T, number): 2 for number in range(4)})
    assert case.said == [
        MemberRecord(GROUP, "one", said),
        EpochRecord(GROUP, 2, metadata_hash(["t"], case.topics)),
        TargetMemberRecord(GROUP, "one", ALL),
        TargetRecord(GROUP, 2, WALL_MS),
        CurrentRecord(GROUP, "one", moved),
    ]
    assert decision.answer == ("one", 2, 5_000, ALL)
    assert decision.member == case.group.members["one"] == moved.with_subscription_of(said)
    assert case.group.members["one"].topics == {"t"}


def test_a_first_member_that_reads_nothing_makes_a_group_of_epoch_1() -> None:
    case = DecidedGroup()
    decision = case.beat("one", topics=[])
    assert decision.answer == ("one", 1, 5_000, {})
    assert case.group.epoch == case.group.assignment_epoch == 1
    assert case.group.metadata_hash == 0


def test_a_member_that_joins_once_more_starts_again_and_keeps_its_place() -> None:
    case = DecidedGroup()
    case.beat("one")
    again = case.beat("one")
    assert again.answer == ("one", 2, 5_000, ALL)
    assert case.group.epoch == 2, "nothing is new"


def test_a_group_takes_members_up_to_its_size_and_those_who_come_back() -> None:
    case = DecidedGroup(max_size=2)
    case.beat("one")
    case.beat("two", instance_id="i")
    full = ErrorCode.GROUP_MAX_SIZE_REACHED, "The consumer group has reached its maximum capacity of 2 members."
    assert case.refused("three") == full
    assert case.refused("three", instance_id="j") == full
    case.beat("one")
    case.leave("two", -2, "i")
    case.beat("three", instance_id="i")
    assert set(case.group.members) == {"one", "three"}


# -- which epoch a request must have


@pytest.mark.parametrize(
    ("received", "owned", "relation"),
    [
        (5, None, ""),
        (0, None, ""),
        (6, part(1, 0), "greater"),
        (4, part(1, 0, 1), ""),
        (4, part(1, 0), ""),
        (4, {}, ""),
        (4, None, "smaller"),
        (4, part(1, 0, 2), "smaller"),
        (4, {**part(1, 0), **part(2, 0)}, "smaller"),
        (3, {}, "smaller"),
    ],
)
@pytest.mark.parametrize("instance_id", [None, "i"])
def test_a_member_knows_its_epoch_or_the_one_before_whose_answer_may_be_lost(
    received: int, owned: dict[uuid.UUID, frozenset[int]] | None, relation: str, instance_id: str | None
) -> None:
    case = DecidedGroup()
    member = ConsumerMember(
        "one", instance_id, topics=frozenset({"t"}), epoch=5, previous_epoch=4, assigned=part(1, 0, 1)
    )
    case.put(member, epoch=5)
    if instance_id and not received:
        return  # Its instance id is not free.
    if not relation:
        case.beat("one", received, owned=owned, instance_id=instance_id)
        return
    assert case.refused("one", received, owned=owned, instance_id=instance_id) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({received}) than the one known by the group "
        "coordinator (5). The member must abandon all its partitions and rejoin.",
    )


def test_an_epoch_before_that_is_ahead_of_the_member_s_own_does_not_count() -> None:
    """A member that fell back to its target has been in a higher epoch than it is."""
    case = DecidedGroup()
    case.put(ConsumerMember("one", epoch=5, previous_epoch=6, assigned=ALL, topics=frozenset({"t"})), epoch=5)
    code, why = case.refused("one", 6, owned={})
    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert "greater member epoch (6)" in why


def test_who_is_no_member_must_join_first() -> None:
    case = DecidedGroup()
    case.beat("one")
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert case.refused("two", 2) == (unknown, "Member two is not a member of group g.")
    assert case.refused("two", 2, instance_id="i") == (unknown, "Instance id i is unknown.")


# -- static members


def test_an_instance_id_has_one_member_at_a_time() -> None:
    case = DecidedGroup()
    case.beat("one", instance_id="i")
    assert case.refused("two", 2, instance_id="i") == (
        ErrorCode.FENCED_INSTANCE_ID,
        "Static member two with instance id i was fenced by member one.",
    )
    assert case.refused("two", instance_id="i") == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member two with instance id i cannot join the group because the instance id is owned by one member.",
    )


def test_a_static_member_goes_for_a_while_and_comes_back_to_what_it_had() -> None:
    case = DecidedGroup()
    case.beat("one", instance_id="i", rack_id="r")
    case.group.put_member(replace(case.group.members["one"], revoking=part(2, 7)))
    left = case.leave("one", -2, "i")
    assert left.answer == ("one", -2, 0, None)
    assert left.member == case.group.members["one"]
    ((kind, _, away),) = [(type(record), record.group_id, record) for record in case.said]
    assert kind is CurrentRecord
    assert isinstance(away, CurrentRecord)
    assert away.member is not None
    assert (away.member.epoch, away.member.revoking, away.member.assigned) == (-2, NOTHING, ALL)
    back = case.beat("uno", instance_id="i")
    assert back.answer == ("uno", 2, 5_000, ALL)
    assert case.said[:3] == [
        CurrentRecord(GROUP, "one", None),
        TargetMemberRecord(GROUP, "one", None),
        MemberRecord(GROUP, "one", None),
    ]
    member, target, began, *then = case.said[3:]
    assert isinstance(member, MemberRecord)
    assert member.member is not None
    assert (member.member_id, member.member.instance_id, member.member.rack_id) == ("uno", "i", "r")
    assert target == TargetMemberRecord(GROUP, "uno", ALL)
    assert isinstance(began, CurrentRecord)
    assert began.member is not None
    assert (began.member_id, began.member.epoch, began.member.previous_epoch) == ("uno", 0, 0)
    assert not [record for record in then if isinstance(record, EpochRecord)], "nobody has to do anything"
    assert list(case.group.members) == ["uno"]


def test_a_static_member_that_comes_back_to_other_topics_has_all_assigned_anew() -> None:
    case = DecidedGroup()
    case.topics.put("u", 1)
    case.beat("one", instance_id="i")
    case.beat("two")
    case.leave("one", -2, "i")
    case.beat("uno", instance_id="i", topics=["u"])
    assert case.group.epoch == 4
    assert case.group.target == {"uno": part(2, 0), "two": ALL}


def test_a_static_member_of_the_classic_protocol_need_not_have_left() -> None:
    case = DecidedGroup()
    classic = ClassicMetadata(10_000, ())
    case.put(ConsumerMember("one", "i", topics=frozenset({"t"}), epoch=5, classic=classic, assigned=ALL), epoch=5)
    assert case.beat("uno", instance_id="i").member is not None
    assert case.group.members["uno"].classic is None


# -- what a heartbeat says that is new


@pytest.mark.parametrize(
    ("says", "attribute", "value"),
    [
        ({"rack_id": "s"}, "rack_id", "s"),
        ({"client_id": "other"}, "client_id", "other"),
        ({"client_host": "/127.0.0.2"}, "client_host", "/127.0.0.2"),
        ({"topics": ["t", "u"]}, "topics", {"t", "u"}),
        ({"topics": []}, "topics", set()),
        ({"topic_regex": "x"}, "topic_regex", "x"),
        ({"rebalance_timeout_ms": 7}, "rebalance_timeout_ms", 7),
        ({"assignor": "uniform"}, "assignor", "uniform"),
    ],
)
def test_what_a_heartbeat_says_is_kept_and_the_rest_stays(
    says: dict[str, object], attribute: str, value: object
) -> None:
    case = DecidedGroup()
    case.beat("one", instance_id="i", rack_id="r", assignor="range", topic_regex="y")
    before = case.group.members["one"]
    case.beat("one", 2, instance_id="i", **says)
    after = case.group.members["one"]
    assert getattr(after, attribute) == value
    kept = {"instance_id", "rack_id", "client_id", "client_host", "topics", "topic_regex", "assignor"} - {attribute}
    assert {name: getattr(after, name) for name in kept} == {name: getattr(before, name) for name in kept}
    assert isinstance(case.said[0], MemberRecord)


@pytest.mark.parametrize(
    ("says", "raises"),
    [
        ({"rack_id": "s"}, False),
        ({"client_host": "/127.0.0.2"}, False),
        ({"rebalance_timeout_ms": 7}, False),
        ({"assignor": "range"}, False),
        ({"topics": ["t", "gone"]}, True),
        ({"topic_regex": "x"}, True),
    ],
)
def test_a_subscription_raises_the_group_s_epoch_and_nothing_else_that_a_member_says(
    says: dict[str, object], raises: bool
) -> None:
    case = DecidedGroup()
    case.beat("one")
    case.beat("one", 2, **says)
    assert case.group.epoch == (3 if raises else 2)


def test_a_heartbeat_that_says_nothing_new_writes_nothing_and_is_told_nothing() -> None:
    case = DecidedGroup()
    case.beat("one")
    case.beat("one", 2)
    for _ in range(2):
        assert case.beat("one", 2).answer == ("one", 2, 5_000, None)
        assert not case.said
    case.group.untold.add("one")
    assert case.beat("one", 2).answer.assignment == ALL, "it may not have been told"


@pytest.mark.parametrize("topics", [["t"], []])
def test_a_heartbeat_of_a_group_at_rest_looks_at_no_other_member(topics: list[str]) -> None:
    case = DecidedGroup()
    joined = case.beat("one", topics=topics).answer
    case.beat("one", joined.member_epoch)
    case.group.members = OneByOne(case.group.members)
    assert case.beat("one", joined.member_epoch).answer.assignment is None


def test_a_heartbeat_that_says_all_is_told_all() -> None:
    case = DecidedGroup()
    case.beat("one")
    assert case.beat("one", 2, topics=["t"], owned=ALL, rebalance_timeout_ms=20_000).answer.assignment == ALL
    assert not case.said


# -- when the epoch rises, and when the target is computed


def test_topics_that_change_raise_the_epoch_where_a_member_reads_them() -> None:
    case = DecidedGroup()
    case.beat("one", topics=["t", "later"])
    case.topics.put("other", 3)
    case.beat("one", 2)
    assert (case.group.epoch, case.said) == (2, [])
    case.topics.put("later", 1)
    assert case.beat("one", 2).answer == ("one", 3, 5_000, {**ALL, **part(3, 0)})
    assert case.said[0] == EpochRecord(GROUP, 3, metadata_hash(["t", "later"], case.topics))
    case.topics.remove("later")
    gone = case.beat("one", 3)
    assert case.group.epoch == 4
    assert gone.answer == ("one", 3, 5_000, ALL), "it is to give back first"


def test_what_is_read_from_now_on_is_in_the_group_s_hash() -> None:
    case = DecidedGroup()
    case.topics.put("u", 1)
    case.beat("one")
    case.beat("one", 2)
    assert not case.said, "its topics have been looked at"
    case.beat("one", 2, topics=["t", "u"])
    assert case.said[1] == EpochRecord(GROUP, 3, metadata_hash(["t", "u"], case.topics))


@pytest.mark.parametrize("topics", [HandMadeTopics(), HandMadeTopics(other=1)])
def test_a_group_that_was_loaded_is_compared_with_the_topics_that_there_are(topics: HandMadeTopics) -> None:
    case = DecidedGroup()
    case.put(
        ConsumerMember("one", client_id="client", client_host="/127.0.0.1", topics=frozenset({"t"}), epoch=5), epoch=5
    )
    case.group.metadata_hash = metadata_hash(["t"], case.topics)
    case.topics = topics
    case.beat("one", 5)
    assert case.said[0] == EpochRecord(GROUP, 6, 0), "t is gone"


def test_a_record_of_kafka_4_0_is_deleted_with_the_next_epoch() -> None:
    case = DecidedGroup()
    case.beat("one")
    case.group.has_partition_metadata = True
    case.beat("one", 2, client_host="/127.0.0.2")
    assert PartitionMetadataRecord(GROUP, is_there=False) not in case.said
    case.beat("one", 2, topics=["t", "u"])
    assert case.said[1:3] == [
        PartitionMetadataRecord(GROUP, is_there=False),
        EpochRecord(GROUP, 3, metadata_hash(["t"], case.topics)),
    ]
    assert not case.group.has_partition_metadata


@pytest.mark.parametrize(("passed_ms", "assigns"), [(-1, True), (0, False), (999, False), (1_000, True), (1_001, True)])
def test_between_two_assignments_there_is_time_unless_the_clock_was_put_back(passed_ms: int, assigns: bool) -> None:
    case = DecidedGroup(assignment_interval_ms=1_000)
    case.beat("one")
    case.now_ms += passed_ms
    second = case.beat("two")
    assert case.group.epoch == 3
    assert case.group.assignment_epoch == (3 if assigns else 2)
    assert second.answer.member_epoch == (3 if assigns else 2)
    assert second.answer.assignment == {}
    assert (TargetRecord(GROUP, 3, case.now_ms) in case.said) is assigns


def test_an_assignment_that_had_to_wait_comes_with_the_next_heartbeat() -> None:
    case = DecidedGroup(assignment_interval_ms=1_000)
    case.beat("one")
    case.beat("two")
    case.beat("two", 2)
    case.beat("two", 2)
    assert (case.group.epoch, case.group.assignment_epoch) == (3, 2)
    case.now_ms += 1_000
    case.beat("two", 2)
    assert (case.group.epoch, case.group.assignment_epoch) == (3, 3)
    assert case.group.target == {"one": part(1, 0, 1), "two": part(1, 2, 3)}


def test_only_parts_of_the_target_that_change_are_written() -> None:
    case = DecidedGroup()
    case.beat("one")
    for name, epoch in (("two", 3), ("three", 4)):
        case.beat(name, topics=["none"])
        parts = [record for record in case.said if isinstance(record, TargetMemberRecord | TargetRecord)]
        assert parts == [TargetMemberRecord(GROUP, name, {}), TargetRecord(GROUP, epoch, WALL_MS)]


def test_most_members_wishes_choose_the_assignor() -> None:
    case = DecidedGroup()
    case.topics.put("u", 1)
    case.topics.put("v", 1)
    for name in ("one", "two", "three"):
        case.beat(name, topics=["u", "v"], assignor="uniform" if name == "three" else "range")
    assert case.group.target == {"one": {**part(2, 0), **part(3, 0)}, "two": {}, "three": {}}, "each topic by itself"
    case.beat("two", 3, assignor="uniform", topics=["u", "v", "none"])
    assert sorted(map(len, case.group.target.values())) == [0, 1, 1]


# -- on the way to the target


def test_a_member_gives_back_before_another_is_given() -> None:
    case = DecidedGroup()
    case.beat("one")
    assert case.beat("two").answer == ("two", 3, 5_000, {})
    assert case.group.members["two"].state is MemberState.UNRELEASED_PARTITIONS
    assert case.beat("one", 2, owned=ALL).answer == ("one", 2, 5_000, part(1, 0, 1))
    assert case.group.members["one"].revoking == part(1, 2, 3)
    for _ in range(3):
        assert case.beat("two", 3).answer == ("two", 3, 5_000, None)
    assert not case.said
    assert case.beat("one", 2, owned=part(1, 0, 1)).answer == ("one", 3, 5_000, None)
    assert [type(record) for record in case.said] == [CurrentRecord]
    assert case.beat("two", 3).answer == ("two", 3, 5_000, part(1, 2, 3))
    assert case.group.state == "Stable"


def test_what_a_member_reads_no_more_it_gives_back_at_once() -> None:
    """Though the assignment that takes it away has to wait."""
    case = DecidedGroup(assignment_interval_ms=1_000)
    case.topics.put("u", 1)
    case.beat("one", topics=["t", "u"])
    left = case.beat("one", 2, topics=["t"], owned={**ALL, **part(2, 0)})
    assert left.answer == ("one", 2, 5_000, ALL)
    assert case.group.members["one"].revoking == part(2, 0)
    assert case.group.assignment_epoch == 2


def test_what_is_read_no_more_is_given_back_with_what_was_to_be_given_back_before() -> None:
    case = DecidedGroup()
    case.topics.put("u", 1)
    case.beat("one", topics=["t", "u"])
    case.beat("two")
    owned = {**ALL, **part(2, 0)}
    case.beat("one", 2, owned=owned)
    gives = case.group.members["one"].revoking
    assert gives
    assert U not in gives
    case.beat("one", 2, topics=["t"], owned=owned)
    assert case.group.assignment_epoch == case.group.epoch == 4
    assert case.group.members["one"].revoking == {**gives, **part(2, 0)}
    assert U not in case.group.members["one"].assigned


def test_what_a_member_has_without_reading_it_it_keeps_while_nothing_changes() -> None:
    """As the leader of its classic group gave it."""
    case = DecidedGroup()
    has = {**ALL, **part(2, 0)}
    case.topics.put("u", 1)
    case.put(
        ConsumerMember("one", topics=frozenset({"t"}), epoch=5, assigned=has, client_id="c", client_host="h"), epoch=5
    )
    case.group.metadata_hash = metadata_hash(["t"], case.topics)
    answer = case.beat("one", 5, owned=has).answer
    assert [type(record) for record in case.said] == [MemberRecord], "it has another address"
    assert answer == ("one", 5, 5_000, None)


def test_a_topic_that_is_gone_is_no_reason_to_give_back_before_the_next_target() -> None:
    case = DecidedGroup(assignment_interval_ms=1_000)
    case.topics.put("u", 1)
    case.beat("one", topics=["t", "u"])
    case.topics.remove("u")
    left = case.beat("one", 2, topics=["t", "v"], owned={**ALL, **part(2, 0)})
    assert left.answer == ("one", 2, 5_000, None)
    assert case.group.members["one"].revoking == {}


# -- regular expressions


def test_what_an_expression_matched_is_read() -> None:
    case = DecidedGroup()
    case.resolved = {"t.*": ResolvedRegex(frozenset({"t"}), 1, WALL_MS)}
    joined = case.beat("one", topics=None, topic_regex="t.*")
    assert joined.answer.assignment == ALL
    assert case.said[1] == RegexRecord(GROUP, "t.*", case.resolved["t.*"])
    added = case.topics.put("t2", 1)
    case.resolved = {"t.*": ResolvedRegex(frozenset({"t", "t2"}), 2, WALL_MS)}
    assert set(case.beat("one", 2).answer.assignment or {}) == {T, added}
    assert case.said[:2] == [
        RegexRecord(GROUP, "t.*", case.resolved["t.*"]),
        EpochRecord(GROUP, 3, metadata_hash(["t", "t2"], case.topics)),
    ]


def test_an_expression_that_matches_the_same_again_is_written_and_raises_nothing() -> None:
    case = DecidedGroup()
    case.resolved = {"t.*": ResolvedRegex(frozenset({"t"}), 1, WALL_MS)}
    case.beat("one", topics=None, topic_regex="t.*")
    case.resolved = {"t.*": ResolvedRegex(frozenset({"t"}), 7, WALL_MS + 9)}
    case.beat("one", 2)
    assert case.said == [RegexRecord(GROUP, "t.*", case.resolved["t.*"])]


def test_an_expression_that_nobody_has_any_more_is_deleted() -> None:
    case = DecidedGroup()
    case.resolved = {"t": ResolvedRegex(frozenset({"t"}), 1, WALL_MS), "x": ResolvedRegex(frozenset(), 1, WALL_MS)}
    case.beat("one", topics=None, topic_regex="t")
    case.beat("two", topics=None, topic_regex="x")
    case.beat("three", topics=None, topic_regex="x")
    case.resolved = {}
    case.beat("two", 3, topic_regex="")
    assert set(case.group.regexes) == {"t", "x"}
    case.leave("three")
    assert RegexRecord(GROUP, "x", None) in case.said
    assert set(case.group.regexes) == {"t"}


def test_an_expression_that_is_not_matched_yet_is_none() -> None:
    case = DecidedGroup()
    assert case.beat("one", topics=None, topic_regex="t.*").answer.assignment == {}
    assert not case.group.regexes
    case.resolved = {"x": ResolvedRegex(frozenset({"t"}), 1, WALL_MS)}
    assert case.beat("two", topics=None, topic_regex="x").answer.assignment == ALL
    case.resolved = {"t.*": ResolvedRegex(frozenset({"t"}), 1, WALL_MS)}
    epoch = case.group.epoch
    case.beat("one", case.group.members["one"].epoch)
    assert case.group.epoch == epoch + 1
    assert sorted(len(assigned[T]) for assigned in case.group.target.values()) == [2, 2]


# -- leaving


def test_a_member_that_leaves_raises_the_epoch_and_is_gone() -> None:
    case = DecidedGroup()
    case.topics.put("u", 1)
    case.beat("one")
    case.beat("two", topics=["u"])
    left = case.leave("two")
    assert left.answer == ("two", -1, 0, None)
    assert left.member is None
    assert case.said == [
        CurrentRecord(GROUP, "two", None),
        TargetMemberRecord(GROUP, "two", None),
        MemberRecord(GROUP, "two", None),
        EpochRecord(GROUP, 4, metadata_hash(["t"], case.topics)),
    ]


def test_a_static_member_leaves_for_good_too_and_only_under_its_own_id() -> None:
    case = DecidedGroup()
    case.beat("one", instance_id="i")
    for member_id, instance_id, code in (
        ("two", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("one", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("two", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        for epoch in (-1, -2):
            with pytest.raises(RequestError) as refused:
                case.leave(member_id, epoch, instance_id)
            assert refused.value.code is code
    assert case.leave("one", -1, "i").member is None
    assert not case.group.members
