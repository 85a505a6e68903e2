"""What a heartbeat makes of a share group: who may join, when epochs rise, what is assigned, told and asked for.

Expected epochs, errors and answers are those of Kafka 4.3's GroupMetadataManager.shareGroupHeartbeat.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kavka.coordinator.groups.consumer.decide.group import Assignment
from kavka.coordinator.groups.consumer.decide.target_assignment import metadata_hash
from kavka.coordinator.groups.share.decide.group import (
    NamedPartitions,
    ShareGroup,
    ShareGroupLimits,
    ShareMember,
    StatePartitions,
    together,
    without,
)
from kavka.coordinator.groups.share.decide.heartbeat import (
    ShareDecision,
    ShareHeartbeat,
    ShareNow,
    check_request,
    decide_heartbeat,
    decide_leave,
    initialized,
)
from kavka.coordinator.groups.share.decide.offsets import forgotten, require_empty, topics_with_states
from kavka.coordinator.groups.share.decide.records import (
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareStatesRecord,
    ShareTargetMemberRecord,
    ShareTargetRecord,
    apply_to,
    decode_share_group_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord, split_version
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import HandMadeTopics

LIMITS = ShareGroupLimits(45_000, 5_000, 3, 0, 30_000)
WALL_MS = 1_700_000_000_000
T, U = uuid.UUID(int=1), uuid.UUID(int=2)


def said(records: Sequence[CoordinatorRecord]) -> list[ShareGroupRecord]:
    found = []
    for record in records:
        version, key = split_version(record.key)
        each = decode_share_group_record(version, key, None if record.value is None else split_version(record.value))
        assert each is not None
        found.append(each)
    return found


def heartbeat(sender: str, epoch: int = 0, **fields: object) -> ShareHeartbeat:
    request = ShareHeartbeat("g", sender, epoch, None, ["t"] if epoch == 0 else None, "client", "/127.0.0.1")
    return request._replace(**fields)  # type: ignore[arg-type]  # names of fields


def part(*indexes: int) -> Assignment:
    return {T: frozenset(indexes)} if indexes else {}


def named(name: str, *indexes: int) -> NamedPartitions:
    return NamedPartitions(name, frozenset(indexes))


class Decided:
    """A group g whose decisions are replayed at once, with a topic t of four partitions and u of one."""

    def __init__(self, *, makes_states: bool = True, **limits: int) -> None:
        self.group = ShareGroup("g")
        self.topics = HandMadeTopics(t=4, u=1)
        self.now = ShareNow(WALL_MS, 1_000, self.topics, replace(LIMITS, **limits))
        self.makes_states = makes_states
        self.written: list[ShareGroupRecord] = []

    def beat(self, sender: str, epoch: int = 0, **fields: object) -> ShareDecision:
        decision = decide_heartbeat(self.group, heartbeat(sender, epoch, **fields), self.now)
        self.written = said(decision.records)
        self.replay(self.written)
        self.group.checked_version = self.topics.version
        if decision.is_at_rest:
            self.group.rest_version = self.topics.version
        if decision.to_initialize and self.makes_states:
            made = {topic_id: each.partitions for topic_id, each in decision.to_initialize.items()}
            self.group.states = initialized(self.group, made)
            self.group.rest_version = -1
        return decision

    def replay(self, records: Sequence[ShareGroupRecord]) -> None:
        for record in records:
            apply_to(self.group, record)

    def refused(self, sender: str, epoch: int = 0) -> RequestError:
        with pytest.raises(RequestError) as refusal:
            self.beat(sender, epoch)
        return refusal.value

    def settled(self, *members: str) -> Decided:
        """Each has joined, and has its part."""
        for member in members:
            self.beat(member)
        for _ in range(2):
            for member in members:
                self.beat(member, self.group.members[member].epoch)
        return self


# -- who may say what


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
        ({"topics": None}, "SubscribedTopicNames must be set in first request."),
        ({"topics": []}, "SubscribedTopicNames must be set in first request."),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_request(heartbeat("one", **fields))
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    "request_", [heartbeat("one"), heartbeat("one", -1), heartbeat("one", 1), heartbeat("one", 1, rack_id="r")]
)
def test_a_request_that_makes_sense_is_not(request_: ShareHeartbeat) -> None:
    check_request(request_)


def test_a_group_takes_no_more_members_than_its_size() -> None:
    case = Decided(max_size=2).settled("one", "two")
    refusal = case.refused("three")
    assert refusal.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refusal.message == "The share group has reached its maximum capacity of 2 members."
    assert case.refused("three", 4).code is ErrorCode.GROUP_MAX_SIZE_REACHED, "with an epoch too, as in Kafka"
    assert case.beat("one").answer.member_epoch == case.group.epoch, "who is in it may join again"


def test_epochs_that_are_neither_the_present_nor_the_one_before_are_fenced() -> None:
    case = Decided()
    assert case.refused("one", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    case.settled("one")
    member = case.group.members["one"]
    case.group.members["one"] = replace(member, epoch=7, previous_epoch=4)
    for epoch, relation in ((8, "greater"), (6, "smaller"), (5, "smaller"), (3, "smaller")):
        refusal = case.refused("one", epoch)
        assert refusal.code is ErrorCode.FENCED_MEMBER_EPOCH
        assert refusal.message == (
            f"The share group member has a {relation} member epoch ({epoch}) than the one known by the group "
            "coordinator (7). The member must abandon all its partitions and rejoin."
        )
    for epoch in (7, 4, 0):
        case.group.members["one"] = replace(member, epoch=7, previous_epoch=4)
        case.beat("one", epoch)
    case.group.members["one"] = replace(member, epoch=2, previous_epoch=3)
    assert case.refused("one", 3).code is ErrorCode.FENCED_MEMBER_EPOCH, "the one before is never above the present"


# -- joining, staying, leaving


def test_a_first_member_gets_its_partitions_once_their_states_are_there() -> None:
    case = Decided()
    hashed = metadata_hash(["t"], case.topics)
    joined = case.beat("one")
    assert case.written == [
        ShareMemberRecord("g", "one", ShareMember("one", None, "client", "/127.0.0.1", frozenset({"t"}))),
        ShareEpochRecord("g", 1, hashed),
        ShareTargetMemberRecord("g", "one", {}),
        ShareTargetRecord("g", 1, WALL_MS),
        ShareCurrentRecord("g", "one", ShareMember("one", epoch=1)),
        ShareStatesRecord("g", StatePartitions({T: named("t", 0, 1, 2, 3)})),
    ]
    assert joined.answer == ("one", 1, 5_000, {})
    assert (joined.epoch, joined.to_initialize, joined.is_at_rest) == (1, {T: named("t", 0, 1, 2, 3)}, False)
    assigned = case.beat("one", 1)
    assert case.written == [
        ShareEpochRecord("g", 2, hashed),
        ShareTargetMemberRecord("g", "one", part(0, 1, 2, 3)),
        ShareTargetRecord("g", 2, WALL_MS),
        ShareCurrentRecord("g", "one", ShareMember("one", epoch=2, previous_epoch=1, assigned=part(0, 1, 2, 3))),
    ]
    assert assigned.answer == ("one", 2, 5_000, part(0, 1, 2, 3))
    assert not assigned.is_at_rest
    for _ in range(2):
        stays = case.beat("one", 2)
        assert (case.written, stays.answer, stays.epoch) == ([], ("one", 2, 5_000, None), 2)
        assert (stays.is_at_rest, stays.to_initialize) == (True, {})


def test_partitions_are_shared_with_who_comes_and_taken_over_from_who_leaves() -> None:
    case = Decided().settled("one")
    assert case.beat("two").answer.assignment == part(2, 3)
    assert case.beat("one", 2).answer == ("one", 3, 5_000, part(0, 1))
    left = decide_leave(case.group, ["two"], case.now)
    assert said(left) == [
        ShareCurrentRecord("g", "two", None),
        ShareTargetMemberRecord("g", "two", None),
        ShareMemberRecord("g", "two", None),
        ShareEpochRecord("g", 4, metadata_hash(["t"], case.topics)),
    ]
    case.replay(said(left))
    assert case.beat("one", 3).answer == ("one", 4, 5_000, part(0, 1, 2, 3))
    assert said(decide_leave(case.group, ["one"], case.now))[-1] == ShareEpochRecord("g", 5, 0), "nothing is read"


def test_the_hash_of_a_group_that_is_left_is_of_what_the_others_read() -> None:
    case = Decided().settled("one")
    case.beat("two", topics=["u"])
    records = said(decide_leave(case.group, ["one"], case.now))
    assert records[-1] == ShareEpochRecord("g", case.group.epoch + 1, metadata_hash(["u"], case.topics))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"rack_id": "r"}, {"rack_id": "r"}),
        ({"client_id": "other"}, {"client_id": "other"}),
        ({"client_host": "/h"}, {"client_host": "/h"}),
    ],
)
def test_what_a_member_says_anew_is_written_without_a_new_epoch(
    fields: dict[str, str], expected: dict[str, str]
) -> None:
    case = Decided().settled("one")
    case.beat("one", 2, **fields)
    assert case.written == [
        ShareMemberRecord(
            "g", "one", replace(ShareMember("one", None, "client", "/127.0.0.1", frozenset({"t"})), **expected)
        )
    ]
    case.beat("one", 2, **{**fields, "rack_id": None})
    assert case.written == [], "nothing new, and a rack that is not named stays"


def test_another_subscription_is_a_new_epoch_though_the_topics_together_are_the_same() -> None:
    case = Decided().settled("one", "two")
    epoch = case.group.epoch
    case.beat("one", case.group.members["one"].epoch, topics=["t", "u"])
    assert case.group.epoch == epoch + 1
    case.beat("two", case.group.members["two"].epoch, topics=["u"])
    assert case.group.epoch == epoch + 2
    case.beat("two", case.group.members["two"].epoch, topics=["u"])
    assert case.group.epoch == epoch + 2, "it says the same again"


def test_topics_that_change_are_a_new_epoch_and_the_states_of_new_partitions_come_first() -> None:
    case = Decided().settled("one")
    case.topics.put("u", 9)
    assert case.beat("one", 2).records == [], "nobody reads it"
    case.topics.put("t", 5)
    grown = case.beat("one", 2)
    assert (grown.epoch, grown.to_initialize) == (3, {T: named("t", 4)})
    assert case.group.members["one"].assigned == part(0, 1, 2, 3)
    assert ShareEpochRecord("g", 3, metadata_hash(["t"], case.topics)) in case.written
    assert case.beat("one", 3).answer == ("one", 4, 5_000, part(0, 1, 2, 3, 4))


def test_a_topic_that_is_made_anew_with_fewer_partitions_is_assigned_as_far_as_it_is_there() -> None:
    case = Decided().settled("one")
    case.topics.put("t", 2)
    assert case.beat("one", 2).answer.assignment == part(0, 1)


def test_the_next_assignment_waits_until_the_last_one_is_old_enough() -> None:
    case = Decided(assignment_interval_ms=1_000).settled("one")
    case.topics.put("t", 5)
    for wall_ms, epoch in ((WALL_MS, 2), (WALL_MS + 999, 2), (WALL_MS + 1_000, 3)):
        case.now = case.now._replace(wall_ms=wall_ms)
        found = case.beat("one", 2)
        assert found.answer.member_epoch == epoch
        assert not found.is_at_rest
    assert case.group.assignment_timestamp_ms == WALL_MS + 1_000


def test_a_clock_that_went_back_does_not_hold_assignments_up() -> None:
    case = Decided(assignment_interval_ms=1_000).settled("one")
    case.now = case.now._replace(wall_ms=WALL_MS - 1)
    case.topics.put("t", 5)
    assert case.beat("one", 2).answer.member_epoch == 3


def test_who_joins_is_assigned_at_once() -> None:
    case = Decided(assignment_interval_ms=1_000).settled("one")
    assert case.beat("two").answer.assignment == part(2, 3)


# -- what a member is told


def test_who_joins_again_who_names_its_topics_and_who_was_not_told_hear_their_assignment() -> None:
    case = Decided().settled("one")
    assert case.beat("one", 2).answer.assignment is None
    assert case.beat("one", 0).answer == ("one", 2, 5_000, part(0, 1, 2, 3))
    assert case.beat("one", 2, topics=["t"]).answer.assignment == part(0, 1, 2, 3)
    assert case.beat("one", 1).answer == ("one", 2, 5_000, part(0, 1, 2, 3)), "it has not heard of its epoch"
    case.group.untold.add("one")
    assert case.beat("one", 2).answer.assignment == part(0, 1, 2, 3)


def test_a_topic_that_is_not_known_here_stays_in_the_assignment() -> None:
    case = Decided().settled("one")
    case.group.target["one"] = {**part(0), U: frozenset({0}), uuid.UUID(int=9): frozenset({1})}
    told = case.beat("one", 2, topics=["t"]).answer.assignment
    assert told == {**part(0), uuid.UUID(int=9): frozenset({1})}, "but u, which it does not read, is left out"


def test_at_rest_a_member_gets_what_it_lacks_of_its_target() -> None:
    case = Decided().settled("one", "two")
    assert case.beat("one", case.group.members["one"].epoch).is_at_rest
    case.group.members["one"] = replace(case.group.members["one"], assigned={})
    case.group.rest_version = case.topics.version
    found = case.beat("one", case.group.members["one"].epoch)
    assert found.answer.assignment == case.group.target["one"]
    assert (len(found.records), found.is_at_rest, found.epoch) == (1, False, case.group.epoch)


# -- states


def test_states_that_were_asked_for_are_asked_for_again_later_only() -> None:
    case = Decided(makes_states=False)
    case.beat("one")
    case.group.asks_again_ms = 2_000
    waits = case.beat("one", 1)
    assert (waits.to_initialize, waits.is_at_rest, waits.records) == ({}, False, [])
    case.now = case.now._replace(now_ms=1_999)
    assert not case.beat("one", 1).to_initialize
    case.now = case.now._replace(now_ms=2_000)
    assert case.beat("one", 1).to_initialize == {T: named("t", 0, 1, 2, 3)}
    case.group.asks_again_ms = None
    assert case.beat("one", 1).to_initialize == {T: named("t", 0, 1, 2, 3)}, "another coordinator asked"
    case.now = case.now._replace(making={T: named("t", 0, 2, 3)})
    assert case.beat("one", 1).to_initialize == {T: named("t", 1)}
    case.group.asks_again_ms = 9_000
    case.topics.put("t", 5)
    assert case.beat("one", 1).to_initialize == {T: named("t", 4)}, "what is new was not asked for"


def test_what_is_asked_for_is_no_longer_being_deleted() -> None:
    case = Decided(makes_states=False)
    case.group.states = StatePartitions(initialized={T: named("t", 0)}, deleting={T: "t", U: "u"})
    case.beat("one")
    assert case.group.states == StatePartitions({T: named("t", 1, 2, 3)}, {T: named("t", 0)}, {U: "u"})


def test_states_that_exist_are_no_longer_on_their_way() -> None:
    group = ShareGroup("g")
    group.states = StatePartitions({T: named("t", 0, 1), U: named("u", 0)}, {T: named("t", 7)}, {U: "u"})
    done = {T: frozenset({1}), U: frozenset({0}), uuid.UUID(int=9): frozenset({0})}
    assert initialized(group, done) == StatePartitions(
        {T: named("t", 0)}, {T: named("t", 1, 7), U: named("u", 0)}, {U: "u"}
    )


def test_partitions_without_a_member_are_a_new_epoch_only_once_all_are_assigned_and_if_they_are_read() -> None:
    case = Decided().settled("one")
    case.group.states = case.group.states._replace(initialized={T: named("t", 0, 1, 2, 3), U: named("u", 0)})
    case.group.rest_version = -1
    assert case.beat("one", 2).records == [], "u is read by nobody"
    case.group.target["one"] = part(0, 1)
    case.group.rest_version = -1
    assert case.beat("one", 2).epoch == 3
    late = Decided(assignment_interval_ms=1_000).settled("one")
    late.topics.put("t", 5)
    late.beat("one", 2)
    assert late.group.epoch == 3
    late.beat("one", 2)
    assert late.group.epoch == 3, "an assignment is due anyway"


# -- the group


def test_a_group_is_stable_with_members_and_empty_without() -> None:
    case = Decided()
    assert case.group.state == "Empty"
    require_empty(case.group)
    case.settled("one").beat("two", topics=["u"])
    assert case.group.state == "Stable"
    assert case.group.topics() == {"t", "u"}
    assert case.group.require_member("two").topics == {"u"}
    with pytest.raises(RequestError) as refused:
        case.group.require_member("three")
    assert (refused.value.code, refused.value.message) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member three is not a member of group g.",
    )
    with pytest.raises(RequestError) as refused:
        require_empty(case.group)
    assert (refused.value.code, refused.value.message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def test_sessions_end_one_by_one() -> None:
    group = ShareGroup("g")
    assert (group.next_deadline_ms(), group.overdue(10)) == (None, [])
    group.members = {name: ShareMember(name) for name in ("one", "two")}
    group.renew("one", 10)
    group.renew("gone", 5)
    group.watch_all(20)
    assert (group.sessions, group.untold) == ({"one": 10, "two": 20}, {"two"})
    assert (group.next_deadline_ms(), group.overdue(9), group.overdue(10)) == (10, [], ["one"])
    group.put_off(15)
    assert group.sessions == {"one": 15, "two": 20}
    group.remove_member("two")
    group.remove_member("never")
    assert (list(group.members), group.sessions, group.untold) == (["one"], {"one": 15}, set())


def test_a_new_group_knows_nothing_of_itself() -> None:
    group = ShareGroup("g")
    assert (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms) == (0, 0, 0, 0)
    assert (group.checked_version, group.rest_version, group.asks_again_ms) == (-1, -1, None)
    assert group.target_of("one") == {}
    joins = ShareMember("one")
    assert (joins.epoch, joins.previous_epoch, joins.assigned) == (0, 0, {})


def test_partitions_of_several_are_joined_and_taken_out() -> None:
    both = together({T: named("t", 0), U: named("u", 1)}, {T: named("t", 2), uuid.UUID(int=3): named("v", 3)})
    assert both == {T: named("t", 0, 2), U: named("u", 1), uuid.UUID(int=3): named("v", 3)}
    assert without(both, {T: [2], U: [1], uuid.UUID(int=9): [0]}) == {T: named("t", 0), uuid.UUID(int=3): named("v", 3)}


def test_topics_that_are_gone_are_forgotten_wherever_the_group_knows_them() -> None:
    group = ShareGroup("g")
    v, w = uuid.UUID(int=3), uuid.UUID(int=4)
    group.states = StatePartitions(
        {T: named("t", 0), w: named("w", 0)}, {U: named("u", 0), w: named("w", 1)}, {v: "v", w: "w"}
    )
    assert topics_with_states(group) == {T, U, v, w}
    assert forgotten(group, [uuid.UUID(int=9)]) == []
    for gone in (T, U, v):
        assert len(forgotten(group, [gone])) == 1
    assert said(forgotten(group, [T, U, v])) == [
        ShareStatesRecord("g", StatePartitions({w: named("w", 0)}, {w: named("w", 1)}, {w: "w"}))
    ]
