"""A consumer group of the newer protocol as its records say it is: who is late, who has what, who may commit."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol
from kavka.coordinator.groups.consumer.decide.group import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Assignment,
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    Deadlines,
    MemberState,
    ResolvedRegex,
)
from kavka.errors import ErrorCode, RequestError
from tests.kit.decided_group import part
from tests.kit.group_surroundings import CONSUMER_LIMITS

T = uuid.UUID(int=1)
CLASSIC = ClassicMetadata(10_000, (JoinProtocol("range", b""),))
REVOKING = MemberState.UNREVOKED_PARTITIONS


def a_group(*members: ConsumerMember, epoch: int = 5) -> ConsumerGroup:
    group = ConsumerGroup("g")
    group.epoch = group.assignment_epoch = epoch
    for member in members:
        group.put_member(member)
    return group


# -- deadlines


@pytest.mark.parametrize(
    ("deadlines", "why"),
    [
        (Deadlines(101, revoke_ms=101, join_ms=101, sync_ms=101), ""),
        (Deadlines(100), "no heartbeat in time"),
        (Deadlines(999, revoke_ms=100), "it has not given back in time what is revoked"),
        (Deadlines(999, join_ms=100), "it has not joined again in time"),
        (Deadlines(999, sync_ms=100), "no sync in time"),
    ],
)
def test_who_is_late_and_for_what(deadlines: Deadlines, why: str) -> None:
    assert deadlines.late(100) == why


def test_a_deadline_is_the_soonest_of_all_members() -> None:
    group = a_group(ConsumerMember("one"), ConsumerMember("two"), ConsumerMember("three"))
    assert group.next_deadline_ms() is None
    group.deadlines = {
        "one": Deadlines(400, revoke_ms=300, join_ms=200, sync_ms=100),
        "two": Deadlines(150),
        "three": Deadlines(151),
    }
    assert [sorted(each.all()) for each in group.deadlines.values()] == [[100, 200, 300, 400], [150], [151]]
    assert group.next_deadline_ms() == 100
    assert group.overdue(150) == {"one": "no sync in time", "two": "no heartbeat in time"}


def test_what_could_not_be_done_is_put_off_and_what_is_later_stays() -> None:
    group = a_group(ConsumerMember("one"), ConsumerMember("two"))
    group.deadlines = {
        "one": Deadlines(100, revoke_ms=101, join_ms=102, sync_ms=103),
        "two": Deadlines(501, revoke_ms=502, join_ms=503, sync_ms=504),
    }
    group.put_off(500)
    assert group.deadlines == {
        "one": Deadlines(500, revoke_ms=500, join_ms=500, sync_ms=500),
        "two": Deadlines(501, revoke_ms=502, join_ms=503, sync_ms=504),
    }
    group.deadlines = {"one": Deadlines(100)}
    group.put_off(500)
    assert group.deadlines == {"one": Deadlines(500)}


def test_who_is_heard_of_has_a_whole_session_again_if_it_is_a_member() -> None:
    group = a_group(ConsumerMember("one"))
    group.renew("one", 45, 1_000)
    assert group.deadlines == {"one": Deadlines(1_045)}
    group.deadlines["one"].join_ms = 7
    group.renew("one", 30, 1_010)
    assert group.deadlines == {"one": Deadlines(1_040, join_ms=7)}
    group.renew("two", 45, 1_000)
    group.expect_sync("two", 45, 99, 1_000)
    assert set(group.deadlines) == {"one"}


def test_a_join_is_demanded_once_and_then_a_sync() -> None:
    group = a_group(ConsumerMember("one"))
    group.renew("one", 45, 1_000)
    group.deadlines["one"].expect_join(1_100)
    group.deadlines["one"].expect_join(1_200)
    assert group.deadlines["one"].join_ms == 1_100
    group.expect_sync("one", 50, 300, 1_050)
    assert group.deadlines["one"] == Deadlines(1_100, join_ms=None, sync_ms=1_350)


def test_time_to_give_back_runs_from_when_the_member_is_told() -> None:
    member = ConsumerMember("one", epoch=5, state=REVOKING, revoking=part(1, 0), rebalance_timeout_ms=20)
    group = a_group(member)
    group.watch_revocation("one", 100)
    assert not group.deadlines, "nothing is watched before its session is"
    group.renew("one", 1_000, 0)

    def watched() -> tuple[int | None, int, Assignment]:
        deadlines = group.deadlines["one"]
        return deadlines.revoke_ms, deadlines.revoke_epoch, deadlines.revoking

    group.untold.add("one")
    group.watch_revocation("one", 100)
    assert watched()[0] is None, "not told yet"
    group.untold.discard("one")
    group.watch_revocation("one", 110)
    assert watched() == (130, 5, part(1, 0))
    group.watch_revocation("one", 120)
    assert watched()[0] == 130, "the same again: no more time"
    group.untold.add("one")
    group.watch_revocation("one", 125)
    assert watched()[0] == 130, "it knew of this"
    group.put_member(replace(member, revoking=part(1, 0, 1)))
    group.watch_revocation("one", 126)
    assert watched()[0] is None, "it knows nothing of more"
    group.untold.discard("one")
    group.watch_revocation("one", 127)
    assert watched() == (147, 5, part(1, 0, 1))
    group.put_member(replace(member, revoking=part(1, 0, 1), epoch=6))
    group.watch_revocation("one", 130)
    assert watched() == (150, 6, part(1, 0, 1))


@pytest.mark.parametrize(
    "change",
    [
        {"state": MemberState.STABLE},
        {"state": MemberState.UNRELEASED_PARTITIONS},
        {"classic": CLASSIC},
        {"epoch": -2},
    ],
)
def test_who_has_nothing_to_give_back_or_speaks_the_classic_protocol_or_is_away_is_not_timed(
    change: dict[str, object],
) -> None:
    member = ConsumerMember("one", epoch=5, state=REVOKING, revoking=part(1, 0), rebalance_timeout_ms=20)
    group = a_group(member)
    group.renew("one", 1_000, 0)
    group.watch_revocation("one", 100)
    assert group.deadlines["one"].revoke_ms == 120
    group.put_member(replace(member, **change))  # type: ignore[arg-type]  # names of fields
    group.watch_revocation("one", 101)
    assert group.deadlines["one"].revoke_ms is None


def test_who_is_not_watched_yet_has_its_session_from_now_on_and_is_to_be_told() -> None:
    group = a_group(
        ConsumerMember("one"),
        ConsumerMember("two", classic=CLASSIC),
        ConsumerMember("three", epoch=5, state=REVOKING, revoking=part(1, 0), rebalance_timeout_ms=20),
    )
    group.renew("one", 45_000, 0)
    group.renew("three", 45_000, 0)
    group.watch_all(45_000, 100)
    assert group.deadlines["one"] == Deadlines(45_000)
    assert group.deadlines["two"] == Deadlines(10_100)
    assert group.deadlines["three"].revoke_ms == 120
    assert group.untold == {"two"}


# -- members and what they have


def test_a_partition_is_owned_until_it_is_given_back() -> None:
    group = a_group(ConsumerMember("one", epoch=4, assigned=part(1, 0), revoking=part(1, 1)))
    assert [group.owner_epoch(T, number) for number in range(3)] == [4, 4, -1]
    group.put_member(ConsumerMember("one", epoch=5, assigned=part(1, 0)))
    assert [group.owner_epoch(T, number) for number in range(3)] == [5, -1, -1]
    group.put_member(ConsumerMember("two", epoch=6, assigned=part(1, 1)))
    assert group.owner_epoch(T, 1) == 6
    group.remove_member("two")
    assert group.owner_epoch(T, 1) == -1


def test_the_new_owner_of_a_partition_may_be_told_of_before_the_old_one_gave_it_back() -> None:
    """The log is compacted: of each member it may have only the last word."""
    group = a_group(ConsumerMember("one", epoch=4, assigned=part(1, 0)))
    group.put_member(ConsumerMember("two", epoch=6, assigned=part(1, 0)))
    group.put_member(ConsumerMember("one", epoch=5))
    assert group.owner_epoch(T, 0) == 6
    group.remove_member("one")
    assert group.owner_epoch(T, 0) == 6


def test_a_removed_member_leaves_nothing() -> None:
    group = a_group(ConsumerMember("one", "i", assigned=part(1, 0)))
    group.renew("one", 1, 1)
    group.untold.add("one")
    group.remove_member("one")
    group.remove_member("one")
    assert (group.members, group.deadlines, group.untold) == ({}, {}, set())
    assert group.static_member("i") is None
    group.put_member(ConsumerMember("one"))
    assert group.static_member("i") is None, "it is no static member this time"


def test_an_instance_id_is_of_the_member_that_had_it_last() -> None:
    one, two = ConsumerMember("one", "i"), ConsumerMember("two", "i")
    group = a_group(one, two)
    assert group.static_member("i") == two
    group.remove_member("one")
    assert group.static_member("i") == two
    group.put_member(replace(two, instance_id="j"))
    assert group.static_member("i") is None
    assert group.static_member("j") == replace(two, instance_id="j")
    assert group.static_member(None) is None
    group.put_member(one)
    group.put_member(replace(two, instance_id="i"))
    group.put_member(replace(one, instance_id=None))
    assert group.static_member("i") == replace(two, instance_id="i"), "who had it before does not take it away"


def test_a_static_member_has_the_target_of_whose_place_it_takes() -> None:
    group = a_group(ConsumerMember("one", "i"))
    group.target = {"one": part(1, 0), "two": part(1, 1)}
    assert group.target_of("two", "i") == part(1, 1)
    assert group.target_of("uno", "i") == part(1, 0)
    assert group.target_of("uno", None) == {}
    assert group.target_of("uno", "j") == {}
    del group.target["one"]
    assert group.target_of("uno", "i") == {}


def test_what_is_being_given_back_is_had_until_then() -> None:
    member = ConsumerMember("one", assigned=part(1, 0), revoking={**part(1, 1), **part(2, 0)})
    assert member.held == {**part(1, 0, 1), **part(2, 0)}
    assert replace(member, revoking={}).held == part(1, 0)


def test_what_a_member_says_of_itself_and_what_it_has_are_apart() -> None:
    progress = ConsumerMember(
        "one",
        epoch=5,
        previous_epoch=4,
        state=REVOKING,
        assigned=part(1, 0),
        revoking=part(1, 1),
        assignment_epochs={(T, 0): 3},
    )
    says = ConsumerMember("one", "i", "r", "c", "h", frozenset({"t"}), "x", 9, "range", CLASSIC)
    both = progress.with_subscription_of(says)
    assert both == replace(
        says,
        epoch=5,
        previous_epoch=4,
        state=REVOKING,
        assigned=part(1, 0),
        revoking=part(1, 1),
        assignment_epochs={(T, 0): 3},
    )


def test_a_group_s_state_is_that_of_its_epochs_and_members() -> None:
    group = a_group()
    assert group.state == "Empty"
    group.put_member(ConsumerMember("one", epoch=5))
    assert group.state == "Stable"
    group.put_member(ConsumerMember("two", epoch=4))
    assert group.state == "Reconciling"
    group.put_member(ConsumerMember("two", epoch=5, state=MemberState.UNRELEASED_PARTITIONS))
    assert group.state == "Reconciling"
    group.epoch = 6
    assert group.state == "Assigning"


def test_topics_are_read_by_name_and_by_what_an_expression_matched() -> None:
    group = a_group(
        ConsumerMember("one", topics=frozenset({"a"}), topic_regex="x"),
        ConsumerMember("two", topics=frozenset({"c"}), topic_regex="unknown"),
    )
    group.regexes["x"] = ResolvedRegex(frozenset({"b"}), 1, 1)
    group.regexes[""] = ResolvedRegex(frozenset({"nobody's"}), 1, 1)
    assert [group.topics_of(member) for member in group.members.values()] == [{"a", "b"}, {"c"}]
    assert group.topics_of(ConsumerMember("three", topics=frozenset({"d"}))) == {"d"}
    assert group.subscribed_among(iter(["b", "c", "d"])) == {"b", "c"}


def test_the_classic_members_are_those_with_the_metadata_of_the_classic_protocol() -> None:
    two = ConsumerMember("two", classic=CLASSIC)
    assert list(a_group(ConsumerMember("one"), two).classic_members()) == [two]


def test_a_member_waits_for_others_while_they_have_what_it_is_to_get() -> None:
    waiting = ConsumerMember("one", epoch=5, state=MemberState.UNRELEASED_PARTITIONS, assigned=part(1, 0))
    group = a_group(waiting, ConsumerMember("two", epoch=4, revoking=part(1, 1)))
    group.target = {"one": part(1, 0, 1)}
    assert group.waits_for_others(waiting)
    assert not group.waits_for_others(replace(waiting, state=MemberState.STABLE))
    group.put_member(ConsumerMember("two", epoch=5))
    assert not group.waits_for_others(waiting), "what it has itself does not count"
    group.target = {}
    assert not group.waits_for_others(waiting)


def test_a_group_begins_empty_and_without_epochs() -> None:
    group = ConsumerGroup("g")
    assert (group.epoch, group.assignment_epoch, group.assignment_timestamp_ms, group.metadata_hash) == (0, 0, 0, 0)
    assert not group.has_partition_metadata
    member = ConsumerMember("one")
    assert (member.epoch, member.previous_epoch, member.rebalance_timeout_ms) == (0, 0, -1)


def test_epochs_and_states_have_kafka_s_numbers() -> None:
    assert ConsumerGroup("g").state == "Empty"
    assert (JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH) == (0, -1, -2)
    assert {state.name: state.value for state in MemberState} == {
        "STABLE": 0,
        "UNREVOKED_PARTITIONS": 1,
        "UNRELEASED_PARTITIONS": 2,
        "UNKNOWN": 127,
    }


# -- offsets


@pytest.mark.parametrize(
    ("member_id", "epoch", "partitions", "version", "is_transactional", "code"),
    [
        ("one", 5, [(T, 9)], 9, False, None),
        ("one", 5, [(T, 9)], 8, False, ErrorCode.UNSUPPORTED_VERSION),
        ("one", 5, [(T, 9)], 8, True, None),
        ("one", 3, [(T, 0)], 9, False, None),
        ("one", 4, [(T, 0)], 9, False, None),
        ("one", 2, [(T, 0)], 9, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", 4, [(T, 0), (T, 1)], 9, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", 4, [(None, 0)], 9, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", 6, [(T, 0)], 9, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", -1, [(T, 0)], 9, False, ErrorCode.STALE_MEMBER_EPOCH),
        ("old", 5, [(T, 9)], 2, False, None),
        ("old", 6, [(T, 9)], 2, False, ErrorCode.ILLEGAL_GENERATION),
        ("old", 4, [(T, 9)], 2, False, ErrorCode.ILLEGAL_GENERATION),
        ("two", 5, [(T, 0)], 9, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, [(T, 0)], 9, False, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit(
    member_id: str,
    epoch: int,
    partitions: list[tuple[uuid.UUID | None, int]],
    version: int,
    is_transactional: bool,
    code: ErrorCode | None,
) -> None:
    group = a_group(
        ConsumerMember("one", epoch=5, assigned=part(1, 0), assignment_epochs={(T, 0): 3}),
        ConsumerMember("old", epoch=5, classic=CLASSIC),
    )

    def commit() -> None:
        group.check_commit(member_id, epoch, lambda: partitions, api_version=version, is_transactional=is_transactional)

    if code is None:
        commit()
        return
    with pytest.raises(RequestError) as refused:
        commit()
    assert refused.value.code is code


def test_what_a_member_has_not_it_may_not_commit_in_any_earlier_epoch() -> None:
    last = 2**31 - 1
    group = a_group(ConsumerMember("one", epoch=last))
    with pytest.raises(RequestError) as refused:
        group.check_commit("one", last - 1, lambda: [(T, 0)], api_version=9, is_transactional=False)
    assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(("upgrade", "downgrade"), [(True, True), (True, False), (False, True), (False, False)])
def test_members_of_both_protocols_are_in_a_group_that_may_change_either_way(upgrade: bool, downgrade: bool) -> None:
    limits = replace(CONSUMER_LIMITS, upgrade_allowed=upgrade, downgrade_allowed=downgrade)
    assert limits.migration_allowed is (upgrade or downgrade)


def test_who_manages_its_partitions_itself_may_commit_where_there_is_no_member() -> None:
    group = a_group()
    group.check_commit("", -1, lambda: [(T, 0)], api_version=2, is_transactional=False)
    with pytest.raises(RequestError) as refused:
        group.check_commit("one", 0, lambda: [(T, 0)], api_version=9, is_transactional=False)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, None),
        ("one", 5, None),
        ("old", 5, None),
        ("one", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("old", 6, ErrorCode.ILLEGAL_GENERATION),
        (None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_ask_for_offsets(member_id: str | None, epoch: int, code: ErrorCode | None) -> None:
    group = a_group(ConsumerMember("one", epoch=5), ConsumerMember("old", epoch=5, classic=CLASSIC))
    if code is None:
        group.check_fetch(member_id, epoch)
        return
    with pytest.raises(RequestError) as refused:
        group.check_fetch(member_id, epoch)
    assert refused.value.code is code
