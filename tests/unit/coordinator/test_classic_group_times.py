"""When things happen in a classic group: generations, deadlines, leaders, and what holds once its log is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import (
    Effects,
    GroupState,
    JoinProtocol,
    Leaver,
    Member,
    StoredGroup,
)
from kavka.errors import ErrorCode, RequestError
from tests.kit.classic_group import LIMITS, REBALANCE_MS, SESSION_MS, Driver
from tests.kit.group_case import subscription

LONG_MS = 200_000
"""A session that is not over within these tests."""

# -- rebalances


@pytest.mark.parametrize(("protocols", "protocol_type"), [((), "consumer"), (("range",), "")])
def test_the_first_member_too_must_support_something(protocols: tuple[str, ...], protocol_type: str) -> None:
    driver = Driver()
    answer = driver.joins[driver.join(new_id="a", protocols=protocols, protocol_type=protocol_type)]
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_that_was_empty_in_between_waits_for_others_anew() -> None:
    """Who joined the former members does not make the first of the next ones wait longer."""
    driver = Driver(replace(LIMITS, initial_rebalance_delay_ms=3_000))
    driver.join(new_id="a")
    driver.pass_time(3_000)
    driver.join(new_id="b")
    driver.join(new_id="c")
    driver.leave(Leaver("a"), Leaver("b"), Leaver("c"))
    assert driver.group.state is GroupState.EMPTY
    joined = driver.join(new_id="d")
    driver.pass_time(2_999)
    assert joined not in driver.joins
    driver.pass_time(1)
    assert driver.joins[joined].error is ErrorCode.NONE


def test_a_delay_of_a_millisecond_is_one() -> None:
    driver = Driver(replace(LIMITS, initial_rebalance_delay_ms=1))
    joined = driver.join(new_id="a")
    assert joined not in driver.joins
    driver.pass_time(1)
    assert joined in driver.joins


def test_a_new_member_makes_the_first_ones_wait_for_another_delay() -> None:
    driver = Driver(replace(LIMITS, initial_rebalance_delay_ms=3_000))
    joined = driver.join(new_id="a")
    driver.pass_time(2_000)
    driver.join(new_id="b")
    driver.pass_time(1_000)
    assert driver.group.next_deadline_ms() == driver.now_ms + 3_000
    driver.pass_time(2_999)
    assert joined not in driver.joins
    driver.pass_time(1)
    assert joined in driver.joins


def test_who_is_late_for_a_rebalance_is_named_in_its_cause() -> None:
    driver = Driver()
    driver.join(new_id="a", session_ms=LONG_MS)
    driver.join(new_id="b", session_ms=LONG_MS)
    driver.pass_time(REBALANCE_MS)
    assert list(driver.group.members) == ["b"]
    assert driver.rebalances[-1].why.endswith("member a did not join again in time")
    assert driver.pass_time(REBALANCE_MS) == ["b"]
    assert driver.rebalances[-1].why == "member b did not ask for its assignment in time"


def test_the_leader_leads_on_as_long_as_it_joins_again() -> None:
    driver = Driver()
    driver.join(new_id="i-1", instance="i", session_ms=LONG_MS)
    for name in ("a", "b"):
        driver.join(new_id=name, session_ms=LONG_MS)
    driver.join("a", session_ms=LONG_MS)
    driver.pass_time(REBALANCE_MS)
    assert driver.group.leader_id == "a", "the first of those who joined again"
    driver.join(new_id="c", session_ms=LONG_MS)
    for name in ("i-1", "b", "a"):
        driver.join(name, session_ms=LONG_MS)
    assert driver.group.state is GroupState.COMPLETING_REBALANCE
    assert (next(iter(driver.group.members)), driver.group.leader_id) == ("i-1", "a")


def test_a_group_without_members_has_no_protocol_and_no_leader() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.leave(Leaver("a"))
    assert (driver.group.protocol, driver.group.leader_id, driver.group.protocol_type) == (None, None, "consumer")


def test_nobody_leaves_where_nobody_is_found_and_nothing_is_disturbed() -> None:
    driver = Driver()
    driver.stable_with("a")
    assert driver.leave(Leaver("stranger"), Leaver("", None), Leaver("", "nobody")) == 3 * [ErrorCode.UNKNOWN_MEMBER_ID]
    assert driver.group.state is GroupState.STABLE


def test_a_record_that_is_under_way_when_another_member_joins_is_of_no_use() -> None:
    driver = Driver()
    driver.join(new_id="a")
    held = driver.sync("a", {"a": b"everything"})
    driver.join(new_id="b")
    assert driver.syncs[held].error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join("a")
    effects = Effects()
    driver.group.on_written(1, ErrorCode.NONE, driver.now_ms, effects)
    assert driver.group.state is GroupState.COMPLETING_REBALANCE
    written = driver.writes
    again = driver.sync("a", {"a": b"p0", "b": b"p1"})
    assert driver.writes == written + 1
    driver.written()
    assert driver.syncs[again].assignment == b"p0"


def test_members_that_run_out_together_have_the_others_rebalance_once() -> None:
    driver = Driver()
    driver.join(new_id="a", session_ms=LONG_MS)
    for name in ("b", "c"):
        driver.join(new_id=name)
    driver.join("a", session_ms=LONG_MS)
    driver.join("b")
    generation = driver.group.generation
    assert driver.pass_time(SESSION_MS) == ["b", "c"]
    driver.join("a", session_ms=LONG_MS, subscription=b"other topics")
    assert driver.group.generation == generation + 1


def test_the_last_member_that_a_rebalance_waits_for_runs_out() -> None:
    driver = Driver()
    driver.stable_with("a", "b")
    waiting = driver.join("a", subscription=b"other topics")
    assert driver.pass_time(SESSION_MS) == ["b"]
    assert driver.joins[waiting].error is ErrorCode.NONE


def test_a_follower_that_leaves_is_told_by_its_held_sync() -> None:
    driver = Driver()
    driver.join(new_id="a")
    driver.join(new_id="b")
    driver.join("a")
    held = driver.sync("b")
    driver.leave(Leaver("b"))
    assert driver.syncs[held].error is ErrorCode.UNKNOWN_MEMBER_ID


# -- deadlines


def test_who_only_asked_for_an_id_has_a_session_for_it() -> None:
    driver = Driver()
    assert driver.group.next_deadline_ms() is None
    driver.join(new_id="p", known=True)
    assert driver.group.next_deadline_ms() == driver.now_ms + SESSION_MS


def test_a_rebalance_without_members_ends_at_once_but_for_who_has_an_id() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.join(new_id="p", known=True, session_ms=LONG_MS)
    driver.leave(Leaver("a"))
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    assert driver.group.next_deadline_ms() == driver.now_ms
    driver.pass_time(0)
    assert driver.group.state is GroupState.EMPTY


def test_the_time_for_syncs_is_over_with_the_generation() -> None:
    driver = Driver()
    driver.join(new_id="a", session_ms=LONG_MS)
    driver.pass_time(1_000)
    driver.join(new_id="b", session_ms=LONG_MS)
    assert driver.group.next_deadline_ms() == driver.now_ms + REBALANCE_MS


def test_the_time_for_syncs_is_looked_at_once() -> None:
    driver = Driver()
    driver.join(new_id="a", session_ms=LONG_MS)
    driver.sync("a", {})
    driver.written()
    driver.pass_time(REBALANCE_MS)
    assert driver.group.next_deadline_ms() == driver.now_ms - REBALANCE_MS + LONG_MS


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
def test_a_held_sync_s_session_begins_with_its_answer(error: ErrorCode) -> None:
    driver = Driver()
    driver.join(new_id="a", rebalance_ms=LONG_MS)
    driver.sync("a", {"a": b"p0"})
    driver.pass_time(3 * SESSION_MS)
    driver.written(error)
    assert driver.pass_time(SESSION_MS - 1) == []
    assert driver.pass_time(1) == ["a"]


# -- a group from the log


def stored(*members: Member, generation: int = 4, protocol_type: str | None = "consumer") -> StoredGroup:
    leader = members[-1].member_id if members else None
    return StoredGroup(generation, protocol_type, "range" if members else None, leader, members, 77)


def member(member_id: str, instance: str | None = None, topics: bytes = b"") -> Member:
    protocols = [JoinProtocol("range", topics)]
    return Member(member_id, instance, "c", "/", SESSION_MS, REBALANCE_MS, "consumer", protocols, b"assigned")


def restored(driver: Driver, record: StoredGroup) -> ClassicGroup:
    driver.group.restore(record, driver.now_ms)
    effects = Effects()
    driver.group.on_loaded(driver.now_ms, effects)
    driver.take(effects)
    return driver.group


def test_members_of_a_group_from_the_log_go_on() -> None:
    driver = Driver()
    driver.now_ms += 500
    group = restored(driver, stored(member("i-1", "i"), member("a")))
    assert (group.state, group.generation, group.leader_id) == (GroupState.STABLE, 4, "a")
    assert (group.state_since_ms, group.written_at_wall_ms) == (driver.now_ms, 77)
    assert driver.syncs[driver.sync("i-1")].assignment == b"assigned"
    group.heartbeat("i-1", "i", 4, driver.now_ms)
    with pytest.raises(RequestError) as refused:
        group.heartbeat("a", "i", 4, driver.now_ms)
    assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID
    assert driver.pass_time(SESSION_MS - 1) == []
    assert driver.pass_time(1) == ["i-1", "a"]
    assert driver.rebalances[-1].members_before == 2


def test_a_group_without_members_comes_from_the_log_as_one() -> None:
    driver = Driver()
    group = restored(driver, stored())
    assert (group.state, group.next_deadline_ms()) == (GroupState.EMPTY, None)
    assert driver.joins[driver.join(new_id="a")].generation == 5


def test_an_instance_id_that_the_log_names_twice_stops_nothing() -> None:
    driver = Driver()
    restored(driver, stored(member("i-1", "i"), member("i-2", "i")))
    assert driver.leave(Leaver("i-2"), Leaver("i-1")) == [ErrorCode.NONE, ErrorCode.NONE]
    assert driver.group.state is GroupState.EMPTY


def test_a_leader_that_the_log_names_and_does_not_have_stops_nothing() -> None:
    driver = Driver()
    restored(driver, stored(member("a"))._replace(leader_id="gone"))
    driver.join("a", subscription=b"other topics")
    assert driver.group.leader_id == "a"


@pytest.mark.parametrize("size", [LIMITS.max_size, LIMITS.max_size + 1])
def test_a_group_that_is_larger_than_allowed_by_now_shrinks(size: int) -> None:
    driver = Driver()
    group = restored(driver, stored(*(member(f"m{number}") for number in range(size))))
    if size == LIMITS.max_size:
        assert group.state is GroupState.STABLE
        return
    assert group.state is GroupState.PREPARING_REBALANCE
    tokens = [driver.join(f"m{number}") for number in range(size)]
    assert driver.joins[tokens[-1]].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.joins[tokens[0]].generation == 5
    assert driver.rebalances[-1].why.startswith("4 members are more than group.max.size of 3")


def test_a_group_that_had_just_become_a_classic_one_has_its_members_join_again() -> None:
    driver = Driver()
    group = restored(driver, stored(member("a"))._replace(leader_id=None))
    assert group.state is GroupState.PREPARING_REBALANCE
    driver.join("a")
    assert driver.rebalances[-1].why == "its last member of the newer protocol is gone"
    assert group.leader_id == "a"


def test_an_empty_group_from_the_log_has_no_rebalance_for_want_of_a_leader() -> None:
    assert restored(Driver(replace(LIMITS, max_size=0)), stored()).state is GroupState.EMPTY


# -- a group that goes on after all


def test_a_group_that_goes_on_waits_for_its_members_and_no_longer() -> None:
    driver = Driver(replace(LIMITS, initial_rebalance_delay_ms=3_000))
    driver.join(new_id="a")
    driver.pass_time(3_000)
    driver.group.freeze(driver.now_ms, Effects())
    driver.group.thaw(driver.now_ms, Effects())
    assert driver.joins[driver.join("a")].error is ErrorCode.NONE


def test_what_is_held_of_a_group_that_goes_on_is_answered_once() -> None:
    driver = Driver()
    driver.join(new_id="a")
    held = driver.sync("a", {"a": b"p0"})
    for change in (driver.group.freeze, driver.group.thaw):
        effects = Effects()
        change(driver.now_ms, effects)
        driver.take(effects)
    assert driver.syncs[held].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_group_that_lost_its_members_before_it_was_frozen_is_empty_afterwards() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.join(new_id="p", known=True)
    driver.leave(Leaver("a"))
    driver.group.freeze(driver.now_ms, Effects())
    driver.group.thaw(driver.now_ms, Effects())
    assert driver.pass_time(SESSION_MS) == ["p"]
    assert (driver.group.state, driver.group.next_deadline_ms()) == (GroupState.EMPTY, None)


# -- questions


def test_a_group_is_unused_until_somebody_asks_to_join() -> None:
    driver = Driver()
    assert (driver.group.had_no_member, driver.group.is_unused, driver.group.has_pending_members) == (True, True, False)
    driver.join(new_id="p", known=True)
    assert (driver.group.had_no_member, driver.group.is_unused, driver.group.has_pending_members) == (True, False, True)
    driver.join("p")
    assert (driver.group.had_no_member, driver.group.is_unused, driver.group.has_pending_members) == (False,) * 3
    driver.leave(Leaver("p"))
    assert (driver.group.had_no_member, driver.group.is_unused) == (False, False)


def test_what_members_read_is_known_of_consumers_alone() -> None:
    asked = ["read", "other"]
    group = restored(Driver(), stored(member("a", topics=subscription("read"))))
    assert group.subscribed_among(asked) == {"read"}
    group = restored(Driver(), stored(member("a", topics=subscription("read")), protocol_type="connect"))
    assert group.subscribed_among(asked) == set()
    group = restored(Driver(), stored(member("a", topics=b"?")))
    assert group.subscribed_among(asked) == set(asked), "what cannot be read may be anything"
    for generation, may_be_read in ((0, set(asked)), (1, set())):
        assert restored(Driver(), stored(generation=generation)).subscribed_among(asked) == may_be_read
    driver = Driver(replace(LIMITS, initial_rebalance_delay_ms=3_000))
    driver.join(new_id="a")
    assert driver.group.subscribed_among(asked) == set(asked), "nothing is chosen yet"


def test_an_offset_s_retention_counts_from_its_commit_or_from_when_the_group_was_left() -> None:
    """As in Kafka: not while members are there whose subscriptions nobody knows, nor in a rebalance (KAFKA-13636)."""
    assert Driver().group.expires_since(5) == 5, "of a group without members, that never had one"
    assert restored(Driver(), stored()).expires_since(5) == 77
    assert restored(Driver(), stored()._replace(written_at_wall_ms=None)).expires_since(5) == 5
    assert restored(Driver(), stored(member("a"))).expires_since(5) == 5
    assert restored(Driver(), stored(member("a"), protocol_type="connect")).expires_since(5) is None
    assert restored(Driver(), stored(member("a"))._replace(protocol=None)).expires_since(5) is None
    driver = Driver()
    driver.stable_with("a")
    driver.join(new_id="b")
    assert driver.group.expires_since(5) is None


def test_a_commit_with_a_generation_is_a_member_s() -> None:
    driver = Driver()
    for check in (
        lambda: driver.group.check_commit("", None, 0, driver.now_ms),
        lambda: driver.group.check_transactional_commit("", None, 0),
    ):
        with pytest.raises(RequestError) as refused:
            check()
        assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
