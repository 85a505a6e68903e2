"""What members of a classic group are answered at the edges of its rules, as Apache Kafka answers them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.membership import Effects, GroupState, JoinAnswer, Leaver
from kavka.errors import ErrorCode, RequestError
from tests.kit.classic_group import LIMITS, REBALANCE_MS, SESSION_MS, Driver

# -- joining


@pytest.mark.parametrize("session_ms", [LIMITS.min_session_timeout_ms, LIMITS.max_session_timeout_ms])
def test_session_timeouts_at_the_bounds_are_allowed(session_ms: int) -> None:
    driver = Driver()
    assert driver.joins[driver.join(new_id="a", session_ms=session_ms)].error is ErrorCode.NONE


def test_an_id_that_was_given_to_a_dynamic_member_is_not_a_static_one_s() -> None:
    driver = Driver()
    driver.join(new_id="p", known=True)
    assert driver.joins[driver.join("p", instance="i")].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.joins[driver.join("p")].error is ErrorCode.NONE


def test_what_a_member_says_when_it_joins_again_holds_from_then_on() -> None:
    driver = Driver()
    driver.stable_with("a")
    again = driver.join("a", subscription=b"other topics", rebalance_ms=5_000, client="renamed", host="/10.0.0.1")
    (member,) = driver.group.members.values()
    assert (member.client_id, member.client_host) == ("renamed", "/10.0.0.1")
    assert [joined.metadata for joined in driver.joins[again].members] == [b"other topics"]
    assert driver.pass_time(5_000) == ["a"], "it did not sync within its new rebalance time-out"
    driver = Driver()
    driver.join(new_id="a")
    driver.join("a", session_ms=20_000, rebalance_ms=60_000, subscription=b"other topics")
    assert driver.pass_time(20_000 - 1) == []
    assert driver.pass_time(1) == ["a"]


@pytest.mark.parametrize(
    ("subscription", "does"), [(b"topics", "asks for it"), (b"other topics", "subscribes to something else")]
)
def test_a_rebalance_says_which_member_wanted_it_and_why(subscription: bytes, does: str) -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.join("a", subscription=subscription, reason="a topic has more partitions")
    assert driver.rebalances[-1].why == f"member a {does}: a topic has more partitions"


def test_who_has_joined_a_full_rebalance_may_ask_again() -> None:
    """The connection of its first request may be gone."""
    driver = Driver(replace(LIMITS, max_size=2, initial_rebalance_delay_ms=3_000))
    first = driver.join(new_id="a")
    driver.join(new_id="b")
    again = driver.join("a")
    assert driver.joins[first].error is ErrorCode.UNKNOWN_MEMBER_ID
    driver.pass_time(3_000)
    driver.pass_time(3_000)
    assert driver.joins[again].error is ErrorCode.NONE


def test_nobody_waits_for_who_was_given_an_id_and_finds_no_room() -> None:
    driver = Driver(replace(LIMITS, max_size=2))
    driver.stable_with("a")
    driver.join(new_id="p", known=True)
    waiting, joined = driver.join("a"), driver.join(new_id="b")
    assert waiting not in driver.joins, "p may come still"
    assert driver.joins[driver.join("p")].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {driver.joins[token].error for token in (waiting, joined)} == {ErrorCode.NONE}


def test_a_rebalance_says_which_member_found_no_room() -> None:
    driver = Driver(replace(LIMITS, max_size=2))
    driver.stable_with("a", "b")
    driver.leave(Leaver("b"))
    driver.join(new_id="c")
    driver.join(new_id="d")
    driver.join("a")
    assert "member a finds no room" in driver.rebalances[-1].why


# -- static members that come back


def static_pair(driver: Driver) -> None:
    """A stable group of the static members i-1, which leads, and j-1."""
    driver.join(new_id="i-1", instance="i")
    driver.join(new_id="j-1", instance="j")
    driver.join("i-1", instance="i")
    driver.sync("i-1", {"i-1": b"p0", "j-1": b"p1"})
    driver.sync("j-1")
    driver.written()
    assert driver.group.state is GroupState.STABLE


def replacement_written(driver: Driver, member_id: str, error: ErrorCode = ErrorCode.NONE) -> None:
    effects = Effects()
    driver.group.on_replacement_written(member_id, error, driver.now_ms, effects)
    driver.take(effects)


def test_the_id_that_a_static_member_comes_back_under_is_written() -> None:
    driver = Driver()
    static_pair(driver)
    written = driver.writes
    driver.join(new_id="i-2", instance="i")
    assert driver.writes == written + 1
    driver.join(new_id="j-2", instance="j")
    assert driver.writes == written + 2


def test_a_static_member_that_comes_back_fences_what_is_held_of_its_former_self() -> None:
    driver = Driver()
    driver.join(new_id="a")
    driver.join(new_id="i-1", instance="i")
    driver.join("a")
    held = driver.sync("i-1")
    driver.join(new_id="i-2", instance="i")
    assert driver.syncs[held].error is ErrorCode.FENCED_INSTANCE_ID
    driver.join("a")
    assert set(driver.group.members) == {"a", "i-2"}


def test_who_was_fenced_is_not_answered_again_when_its_successor_s_id_is_not_written() -> None:
    driver = Driver()
    static_pair(driver)
    first = driver.join(new_id="i-2", instance="i")
    second = driver.join(new_id="i-3", instance="i")
    replacement_written(driver, "i-2")
    replacement_written(driver, "i-3", ErrorCode.NOT_COORDINATOR)
    assert driver.joins[first].error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.joins[second] == JoinAnswer(ErrorCode.NOT_COORDINATOR)
    waiting = driver.join(new_id="a")
    driver.join("j-1", instance="j")
    assert waiting not in driver.joins, "nobody has joined for instance i"


def test_a_static_member_that_left_while_its_id_was_written_is_not_answered_again() -> None:
    driver = Driver()
    static_pair(driver)
    back = driver.join(new_id="i-2", instance="i")
    driver.leave(Leaver("i-2", "i"))
    replacement_written(driver, "i-2")
    assert driver.joins[back].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_is_answered_by_the_rebalance_that_began_while_its_id_was_written() -> None:
    driver = Driver()
    static_pair(driver)
    back, new = driver.join(new_id="i-2", instance="i"), driver.join(new_id="a")
    replacement_written(driver, "i-2")
    assert back not in driver.joins
    driver.join("j-1", instance="j")
    assert driver.joins[back].generation == driver.joins[new].generation == driver.group.generation


def test_a_static_member_is_answered_once_where_a_rebalance_is_over_before_its_id_is_written() -> None:
    driver = Driver()
    static_pair(driver)
    back = driver.join(new_id="i-2", instance="i")
    driver.join(new_id="a")
    driver.join("j-1", instance="j")
    driver.sync("i-2", {})
    driver.written()
    assert driver.group.state is GroupState.STABLE
    answered = dict(driver.joins)
    replacement_written(driver, "i-2")
    assert driver.joins == answered
    assert driver.joins[back].error is ErrorCode.NONE


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
def test_a_static_member_has_a_session_from_when_it_is_known_what_became_of_its_id(error: ErrorCode) -> None:
    driver = Driver()
    static_pair(driver)
    driver.join(new_id="i-2", instance="i", session_ms=SESSION_MS)
    driver.now_ms += SESSION_MS - 1
    driver.group.heartbeat("j-1", "j", driver.group.generation, driver.now_ms)
    replacement_written(driver, "i-2", error)
    assert driver.pass_time(SESSION_MS - 1) == []
    present = "i-2" if error is ErrorCode.NONE else "i-1"
    assert present in driver.pass_time(1)


# -- syncing, staying, leaving


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "fits"),
    [
        ("consumer", "range", True),
        ("consumer", None, True),
        (None, "range", True),
        ("connect", "range", False),
        ("connect", None, False),
        ("consumer", "sticky", False),
        (None, "sticky", False),
    ],
)
def test_who_syncs_for_another_protocol_is_refused(protocol_type: str | None, protocol: str | None, fits: bool) -> None:
    driver = Driver()
    driver.stable_with("a")
    answer = driver.syncs[driver.sync("a", protocol_type=protocol_type, protocol=protocol)]
    assert answer.error is (ErrorCode.NONE if fits else ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_a_sync_answers_with_the_protocol_that_was_chosen() -> None:
    driver = Driver()
    driver.stable_with("a")
    answer = driver.syncs[driver.sync("a")]
    assert (answer.protocol_type, answer.protocol, answer.assignment) == ("consumer", "range", b"a")


def test_a_sync_during_a_rebalance_is_told_to_join_again() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.join(new_id="b")
    assert driver.syncs[driver.sync("a")].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_second_sync_takes_the_place_of_the_first() -> None:
    driver = Driver()
    driver.join(new_id="a")
    first, second = driver.sync("a", {"a": b"p0"}), driver.sync("a", {"a": b"something else"})
    assert driver.writes == 1, "the assignment that is being written stays"
    driver.written()
    assert driver.syncs[first].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.syncs[second].assignment == b"p0"


def test_only_the_leader_s_sync_has_the_assignment() -> None:
    driver = Driver()
    driver.join(new_id="a")
    driver.join(new_id="b")
    driver.join("a")
    driver.sync("b", {"a": b"nothing", "b": b"everything"})
    assert driver.writes == 0
    leader, follower = driver.sync("a", {"a": b"p0", "b": b"p1"}), driver.sync("b")
    driver.written()
    assert (driver.syncs[leader].assignment, driver.syncs[follower].assignment) == (b"p0", b"p1")


def test_who_is_not_in_the_leader_s_assignment_has_nothing() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.join("a")
    again = driver.sync("a", {})
    driver.written()
    assert driver.syncs[again].assignment == b""


def test_a_sync_and_a_commit_keep_a_member_alive() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.now_ms += SESSION_MS - 1
    driver.sync("a")
    assert driver.pass_time(SESSION_MS - 1) == []
    driver.group.check_commit("a", None, driver.group.generation, driver.now_ms)
    assert driver.pass_time(SESSION_MS - 1) == []
    assert driver.pass_time(1) == ["a"]


def test_a_commit_before_the_assignment_is_refused_and_keeps_nobody_alive() -> None:
    driver = Driver()
    driver.join(new_id="a")
    driver.now_ms += SESSION_MS - 1
    with pytest.raises(RequestError) as refused:
        driver.group.check_commit("a", None, 1, driver.now_ms)
    assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.pass_time(1) == ["a"]


def test_a_heartbeat_before_the_assignment_is_fine() -> None:
    driver = Driver()
    driver.join(new_id="a")
    driver.group.heartbeat("a", None, 1, driver.now_ms + SESSION_MS - 1)
    assert driver.pass_time(SESSION_MS) == []


def test_a_transaction_may_commit_for_a_member_also_before_the_assignment() -> None:
    """Producers of before KIP-447 name no member."""
    driver = Driver()
    driver.group.check_transactional_commit("", None, -1)
    driver.group.check_transactional_commit("a", "i", -1)
    driver.join(new_id="a")
    driver.group.check_transactional_commit("a", None, 1)
    driver.group.check_transactional_commit("", None, -1)
    for member_id, instance, generation, code in (
        ("", None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", None, -1, ErrorCode.ILLEGAL_GENERATION),
        ("a", None, 0, ErrorCode.ILLEGAL_GENERATION),
    ):
        with pytest.raises(RequestError) as refused:
            driver.group.check_transactional_commit(member_id, instance, generation)
        assert refused.value.code is code
    driver.group.freeze(driver.now_ms, Effects())
    with pytest.raises(RequestError) as refused:
        driver.group.check_transactional_commit("", None, -1)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_an_ordinary_commit_without_a_generation_is_for_groups_without_members() -> None:
    driver = Driver()
    driver.group.check_commit("whoever", "i", -1, driver.now_ms)
    driver.stable_with("a")
    for member_id, instance, code in (
        ("", "i", ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", None, ErrorCode.ILLEGAL_GENERATION),
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(RequestError) as refused:
            driver.group.check_commit(member_id, instance, -1, driver.now_ms)
        assert refused.value.code is code
    driver.group.freeze(driver.now_ms, Effects())
    with pytest.raises(RequestError) as refused:
        driver.group.check_commit("", None, -1, driver.now_ms)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_static_members_are_known_by_both_their_ids() -> None:
    driver = Driver()
    static_pair(driver)
    generation = driver.group.generation
    driver.group.heartbeat("i-1", "i", generation, driver.now_ms)
    driver.group.heartbeat("i-1", None, generation, driver.now_ms)
    for member_id, instance, code in (
        ("i-1", "j", ErrorCode.FENCED_INSTANCE_ID),
        ("i-1", "k", ErrorCode.UNKNOWN_MEMBER_ID),
        ("k-1", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(RequestError) as refused:
            driver.group.heartbeat(member_id, instance, generation, driver.now_ms)
        assert refused.value.code is code


def test_an_instance_id_is_free_again_once_its_member_has_left() -> None:
    driver = Driver()
    static_pair(driver)
    assert driver.leave(Leaver("i-1", "j"), Leaver("i-1", "i")) == [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE]
    assert driver.group.leader_id == "j-1"
    driver.join(new_id="i-9", instance="i")
    driver.join("j-1", instance="j")
    assert list(driver.group.members) == ["j-1", "i-9"]


# -- a group from the log, and groups at their end


def test_a_frozen_group_answers_who_waits_and_takes_up_its_members_again() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.join(new_id="p", known=True)
    waiting = driver.join(new_id="b")
    effects = Effects()
    driver.group.freeze(driver.now_ms, effects)
    driver.take(effects)
    assert driver.joins[waiting] == JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, "b")
    assert driver.group.next_deadline_ms() is not None, "what was given out runs out all the same"
    effects = Effects()
    driver.group.thaw(driver.now_ms, effects)
    driver.take(effects)
    assert (set(driver.group.members), driver.group.has_pending_members) == ({"a", "b"}, True)
    driver.join("p")
    driver.join("a")
    assert driver.joins[driver.join("b")].error is ErrorCode.NONE
    assert driver.rebalances[-1].why.startswith("member b joins from /127.0.0.1; its end or its change")


def test_an_empty_group_whose_end_was_not_written_is_empty() -> None:
    driver = Driver()
    driver.group.freeze(driver.now_ms, Effects())
    driver.group.thaw(driver.now_ms, Effects())
    assert driver.group.state is GroupState.EMPTY
    assert driver.joins[driver.join(new_id="a")].generation == 1


def test_the_end_of_a_group_answers_a_sync_that_is_held_and_leaves_no_deadline() -> None:
    driver = Driver()
    driver.join(new_id="a")
    held = driver.sync("a", {"a": b"p0"})
    effects = Effects()
    driver.group.die(driver.now_ms, ErrorCode.NOT_COORDINATOR, effects)
    driver.take(effects)
    assert driver.syncs[held].error is ErrorCode.NOT_COORDINATOR
    driver.written()
    assert driver.group.state is GroupState.DEAD


def test_a_rebalance_of_an_empty_group_waits_for_the_shorter_of_its_delay_and_its_timeout() -> None:
    limits = replace(LIMITS, initial_rebalance_delay_ms=3_000)
    for rebalance_ms in (1_000, 10_000):
        driver = Driver(limits)
        joined = driver.join(new_id="a", rebalance_ms=rebalance_ms)
        driver.pass_time(min(rebalance_ms, 3_000) - 1)
        assert joined not in driver.joins
        driver.pass_time(1)
        assert driver.joins[joined].generation == 1
    assert REBALANCE_MS > 3_000
