"""The rules of a classic group, event by event."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import (
    NEW_MEMBER_JOIN_MS,
    Effects,
    GroupState,
    JoinAnswer,
    JoinProtocol,
    Leaver,
    Member,
    StoredGroup,
)
from kavka.coordinator.groups.decide.rebalance import LONGEST_CAUSE, LONGEST_WHY, MOST_CAUSES, Rebalance
from kavka.errors import ErrorCode, InvariantViolation, RequestError
from tests.kit.classic_group import LIMITS, REBALANCE_MS, SESSION_MS, Driver
from tests.kit.group_case import subscription


def test_the_first_member_leads_generation_1_and_sees_its_own_subscription() -> None:
    driver = Driver()
    answer = driver.joins[driver.join(new_id="a")]
    assert answer.error is ErrorCode.NONE
    assert (answer.generation, answer.leader, answer.protocol) == (1, "a", "range")
    assert [member.metadata for member in answer.members] == [b"topics"]


def test_a_member_without_an_id_is_given_one_first() -> None:
    driver = Driver()
    answer = driver.joins[driver.join(new_id="client-1", known=True)]
    assert answer == JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, "client-1")
    assert driver.group.state is GroupState.EMPTY
    assert driver.joins[driver.join("client-1")].generation == 1


def test_an_id_that_was_given_out_and_not_used_is_forgotten_after_the_session() -> None:
    driver = Driver()
    driver.join(new_id="late", known=True)
    assert driver.pass_time(SESSION_MS) == ["late"]
    answer = driver.joins[driver.join("late")]
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_assignments_go_out_only_after_the_record_is_written() -> None:
    driver = Driver()
    driver.join(new_id="a")
    token = driver.sync("a", {"a": b"p0"})
    assert driver.writes == 1
    assert token not in driver.syncs
    driver.written()
    assert driver.syncs[token].assignment == b"p0"
    assert driver.group.state is GroupState.STABLE


def test_a_record_that_could_not_be_written_starts_another_rebalance() -> None:
    driver = Driver()
    driver.join(new_id="a")
    token = driver.sync("a", {"a": b"p0"})
    driver.written(ErrorCode.NOT_COORDINATOR)
    assert driver.syncs[token].error is ErrorCode.NOT_COORDINATOR
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_second_member_makes_the_first_rejoin() -> None:
    driver = Driver()
    driver.stable_with("a")
    waiting = driver.join(new_id="b")
    assert waiting not in driver.joins
    with pytest.raises(RequestError) as refused:
        driver.group.heartbeat("a", None, 1, driver.now_ms)
    assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    first = driver.join("a")
    assert driver.joins[first].generation == driver.joins[waiting].generation == 2
    assert len(driver.joins[first].members) == 2
    assert driver.joins[waiting].members == ()


def test_who_does_not_rejoin_in_time_is_out() -> None:
    driver = Driver()
    driver.stable_with("a")
    waiting = driver.join(new_id="b")
    driver.pass_time(REBALANCE_MS)
    assert driver.joins[waiting].leader == "b"
    assert list(driver.group.members) == ["b"]


def test_a_silent_member_is_out_after_its_session_and_the_others_rebalance() -> None:
    driver = Driver()
    driver.stable_with("a", "b")
    driver.now_ms += SESSION_MS - 1
    driver.group.heartbeat("a", None, driver.group.generation, driver.now_ms)
    assert driver.pass_time(1) == ["b"]
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_each_generation_says_what_it_comes_from() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.join(new_id="b")
    driver.now_ms += 50
    driver.join("a")
    driver.sync("a", {})
    driver.sync("b")
    driver.written(ErrorCode.NOT_COORDINATOR)
    driver.leave(Leaver("b", None, "the consumer is closed"))
    driver.pass_time(REBALANCE_MS)
    assert driver.rebalances == [
        Rebalance("orders", "classic", "member a joins from /127.0.0.1", 0, 1, 0, 1, 0),
        Rebalance("orders", "classic", "member b joins from /127.0.0.1", 1, 2, 1, 2, 50),
        Rebalance(
            "orders",
            "classic",
            "the record of generation 2 was not written: NOT_COORDINATOR; member b leaves: the consumer is closed; "
            f"member a was silent for its session of {SESSION_MS} ms",
            2,
            3,
            2,
            0,
            REBALANCE_MS,
        ),
    ]


def test_of_many_causes_a_few_are_told_and_the_others_counted() -> None:
    driver = Driver(replace(LIMITS, initial_rebalance_delay_ms=3_000, max_size=50))
    for number in range(MOST_CAUSES + 6):
        driver.join(new_id=f"m{number}")
    driver.pass_time(3_000)
    driver.pass_time(3_000)
    (rebalance,) = driver.rebalances
    assert rebalance.why.count(" joins ") == MOST_CAUSES
    assert rebalance.why.endswith("; and 6 more")
    assert (rebalance.members, rebalance.took_ms) == (MOST_CAUSES + 6, 6_000)


def test_what_clients_call_themselves_is_not_told_at_any_length() -> None:
    driver = Driver()
    driver.join(new_id="a" * 30_000)
    (rebalance,) = driver.rebalances
    assert rebalance.why == f"member {'a' * (LONGEST_CAUSE - 10)}..."
    of_the_newer_protocol = rebalance._replace(why="b" * 30_000)
    assert len(of_the_newer_protocol.as_decision(0, 1).why) < LONGEST_WHY + 100


def test_the_last_member_to_leave_leaves_an_empty_group_of_the_next_generation() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.leave(Leaver("a"))
    assert driver.group.state is GroupState.EMPTY
    assert driver.group.generation == 2
    assert driver.writes == 2


def test_a_first_generation_does_not_wait_for_who_only_asked_for_an_id() -> None:
    driver = Driver()
    driver.join(new_id="pending", known=True)
    joined = driver.join(new_id="i-1", instance="i")
    driver.pass_time(0)
    assert driver.joins[joined].generation == 1


def test_those_who_leave_together_have_the_others_rebalance_once() -> None:
    driver = Driver(replace(LIMITS, max_size=9))
    driver.join(new_id="i-1", instance="i")
    driver.join(new_id="pending", known=True)
    driver.join(new_id="a")
    rejoined = driver.join("i-1", instance="i")
    waiting = driver.join(new_id="b")
    assert rejoined not in driver.joins
    assert driver.leave(
        Leaver("", "i"),
        Leaver("", "nobody"),
        Leaver("", None),
        Leaver("stranger"),
        Leaver("a", "i"),
        Leaver("pending", "any"),
        Leaver("a"),
        Leaver("a"),
    ) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert driver.joins[rejoined].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (driver.joins[waiting].leader, driver.joins[waiting].generation) == ("b", 2)


def test_a_group_at_its_end_lets_nobody_leave() -> None:
    driver = Driver()
    driver.stable_with("a")
    driver.group.freeze(driver.now_ms, Effects())
    with pytest.raises(RequestError) as refused:
        driver.leave(Leaver("a"))
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_member_that_does_not_sync_in_time_is_out() -> None:
    driver = Driver()
    driver.join(new_id="a", session_ms=200_000)
    assert driver.pass_time(REBALANCE_MS) == ["a"]
    assert driver.group.state is GroupState.EMPTY


def test_a_member_that_only_sends_heartbeats_keeps_its_part_from_nobody() -> None:
    """The others work since the leader's sync; KAFKA-12890."""
    driver = Driver()
    driver.join(new_id="a")
    driver.join(new_id="b")
    driver.join("a")
    driver.sync("a", {"a": b"1", "b": b"2"})
    driver.written()
    for _ in range(5):
        driver.pass_time(REBALANCE_MS // 6)
        for member in ("a", "b"):
            driver.group.heartbeat(member, None, 2, driver.now_ms)
    assert driver.group.state is GroupState.STABLE
    assert driver.pass_time(REBALANCE_MS // 6) == ["b"]
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    assert list(driver.group.members) == ["a"]


def test_a_member_that_synced_late_stays() -> None:
    driver = Driver()
    driver.join(new_id="a")
    driver.join(new_id="b")
    driver.join("a")
    driver.sync("a", {"a": b"1", "b": b"2"})
    driver.written()
    assert driver.syncs[driver.sync("b")].assignment == b"2"
    for _ in range(7):
        driver.pass_time(REBALANCE_MS // 6)
        for member in ("a", "b"):
            driver.group.heartbeat(member, None, 2, driver.now_ms)
    assert driver.group.state is GroupState.STABLE


@pytest.mark.parametrize("rebalance_ms", [0, -1])
def test_static_members_that_stay_away_have_nobody_woken_again_and_again(rebalance_ms: int) -> None:
    """Nothing can happen before one comes back, or its session ends: a time-out of nothing comes round at once."""
    driver = Driver()
    driver.join(new_id="i-1", instance="i", rebalance_ms=rebalance_ms, session_ms=60_000)
    driver.sync("i-1", {"i-1": b"1"})
    driver.written()
    driver.join(new_id="a", rebalance_ms=rebalance_ms)
    driver.leave(Leaver("a"))
    driver.pass_time(1)
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    assert driver.group.next_deadline_ms() == driver.now_ms - 1 + 60_000
    back = driver.join(new_id="i-2", instance="i")
    assert driver.joins[back].generation == 2


def test_the_time_of_those_who_stay_away_begins_when_one_comes_back() -> None:
    driver = Driver()
    for name in ("i", "j"):
        driver.join(new_id=f"{name}-1", instance=name, session_ms=200_000)
    driver.join("i-1", instance="i", session_ms=200_000)
    driver.sync("i-1", {})
    driver.sync("j-1", {})
    driver.written()
    driver.join(new_id="a")
    driver.leave(Leaver("a"))
    driver.pass_time(REBALANCE_MS)
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    driver.pass_time(2 * REBALANCE_MS)
    back = driver.join("i-1", instance="i", session_ms=200_000)
    driver.pass_time(REBALANCE_MS - 1)
    assert back not in driver.joins
    driver.pass_time(1)
    assert driver.joins[back].generation == driver.group.generation == 3


def test_a_session_goes_on_when_what_was_held_is_answered() -> None:
    """However long it was held: the leader took its time, and another member joins before it is done."""
    driver = Driver()
    driver.join(new_id="a")
    driver.join(new_id="b")
    driver.join("a")
    held = driver.sync("b")
    for _ in range(4):
        driver.pass_time(SESSION_MS // 2)
        driver.group.heartbeat("a", None, 2, driver.now_ms)
    driver.join(new_id="c")
    assert driver.syncs[held].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.pass_time(SESSION_MS - 1) == []
    assert driver.pass_time(1) == ["a", "b"]


def test_generations_and_members_that_are_not_current_change_nothing() -> None:
    driver = Driver()
    driver.stable_with("a")
    for member, generation, code in (
        ("a", 0, ErrorCode.ILLEGAL_GENERATION),
        ("a", 2, ErrorCode.ILLEGAL_GENERATION),
        ("stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(RequestError) as refused:
            driver.group.heartbeat(member, None, generation, driver.now_ms)
        assert refused.value.code is code
    assert driver.syncs[driver.sync("a", generation=7)].error is ErrorCode.ILLEGAL_GENERATION
    assert driver.group.state is GroupState.STABLE


def test_members_agree_on_a_protocol_by_vote() -> None:
    driver = Driver()
    driver.join(new_id="a", protocols=("range", "sticky"))
    second = driver.join(new_id="b", protocols=("sticky", "range"))
    third = driver.join(new_id="c", protocols=("sticky",))
    driver.join("a", protocols=("range", "sticky"))
    assert driver.joins[second].protocol == driver.joins[third].protocol == "sticky"


@pytest.mark.parametrize(
    ("protocols", "protocol_type"),
    [((), "consumer"), (("range",), ""), (("other",), "consumer"), (("range",), "connect")],
)
def test_protocols_that_do_not_fit_are_refused(protocols: tuple[str, ...], protocol_type: str) -> None:
    driver = Driver()
    driver.stable_with("a")
    answer = driver.joins[driver.join(new_id="b", protocols=protocols, protocol_type=protocol_type)]
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.group.state is GroupState.STABLE


def test_a_full_group_takes_no_more() -> None:
    driver = Driver()
    driver.stable_with("a", "b", "c")
    assert driver.joins[driver.join(new_id="d")].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_who_only_asked_for_an_id_takes_no_room() -> None:
    """A client that died between the two JoinGroups kept its successor out, whose error no consumer survives."""
    driver = Driver(replace(LIMITS, max_size=1))
    for number in range(2):
        asked = driver.join(new_id=f"p{number}", known=True)
        assert driver.joins[asked].error is ErrorCode.MEMBER_ID_REQUIRED
    joined = driver.join("p1")
    driver.pass_time(0)
    assert driver.joins[joined].error is ErrorCode.NONE
    assert driver.joins[driver.join("p0")].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.joins[driver.join(new_id="p2", known=True)].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_who_only_asked_for_an_id_may_join_with_it_after_a_rebalance_that_did_not_wait() -> None:
    driver = Driver()
    driver.stable_with("a", "b")
    driver.join("a", subscription=b"other topics")
    driver.join(new_id="p", known=True, session_ms=2 * REBALANCE_MS)
    driver.pass_time(REBALANCE_MS)
    assert driver.group.state is GroupState.COMPLETING_REBALANCE
    driver.join("p")
    again = driver.join("a", subscription=b"other topics")
    assert driver.joins[again].error is ErrorCode.NONE
    assert set(driver.group.members) == {"a", "p"}


def test_in_a_rebalance_the_first_that_come_stay() -> None:
    driver = Driver()
    driver.stable_with("a", "b", "c")
    driver.leave(Leaver("c"))
    first, second = driver.join(new_id="d"), driver.join(new_id="e")
    stays = driver.join("b")
    assert driver.joins[driver.join("a")].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    # Who is refused is out, and nobody waits for it.
    assert {driver.joins[token].error for token in (first, second, stays)} == {ErrorCode.NONE}
    assert set(driver.group.members) == {"b", "d", "e"}


def test_a_static_member_of_a_full_group_comes_back() -> None:
    driver = Driver(replace(LIMITS, max_size=1))
    driver.join(new_id="i-1", instance="i")
    driver.sync("i-1", {"i-1": b"all"})
    driver.written()
    back = driver.join(new_id="i-2", instance="i")
    driver.written()
    assert driver.joins[back].error is ErrorCode.NONE


def test_a_first_join_is_not_held_for_longer_than_five_minutes() -> None:
    """Who came and went while a member that sends heartbeats holds a rebalance up for hours stayed a member, each time
    it came."""
    driver = Driver()
    driver.stable_with("a", "b")
    driver.join("a", rebalance_ms=3_600_000)
    waiting = driver.join(new_id="c")
    for _ in range(40):
        driver.pass_time(SESSION_MS - 1)
        if waiting in driver.joins:
            break
        with pytest.raises(RequestError):
            driver.group.heartbeat("b", None, driver.group.generation, driver.now_ms)
    assert driver.joins[waiting].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert NEW_MEMBER_JOIN_MS <= driver.now_ms - 1_000 < NEW_MEMBER_JOIN_MS + SESSION_MS
    assert set(driver.group.members) == {"a", "b"}


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_session_timeouts_have_bounds(session_ms: int) -> None:
    driver = Driver()
    assert driver.joins[driver.join(new_id="a", session_ms=session_ms)].error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_follower_that_rejoins_unchanged_does_not_disturb() -> None:
    driver = Driver()
    driver.stable_with("a", "b")
    follower = next(member for member in driver.group.members if member != driver.group.leader_id)
    generation = driver.group.generation
    assert driver.joins[driver.join(follower)].generation == generation
    assert driver.group.state is GroupState.STABLE
    assert driver.group.leader_id is not None
    driver.join(driver.group.leader_id)
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def static_group(driver: Driver, subscription: bytes = b"topics") -> None:
    """A stable group of one static member."""
    driver.join(new_id="i-1", instance="i", subscription=subscription)
    driver.sync("i-1", {"i-1": b"p0"})
    driver.written()


@pytest.mark.parametrize("skipping", [True, False])
def test_a_static_member_that_comes_back_takes_its_place_without_a_rebalance(skipping: bool) -> None:
    driver = Driver()
    static_group(driver)
    token = driver.join(new_id="i-2", instance="i", skipping=skipping)
    assert token not in driver.joins, "its new id is not in the log yet"
    driver.written()
    answer = driver.joins[token]
    assert (answer.error, answer.member_id, answer.generation) == (ErrorCode.NONE, "i-2", 1)
    assert answer.skip_assignment == skipping
    assert (answer.leader, len(answer.members)) == (("i-2", 1) if skipping else ("i-1", 0))
    assert driver.group.state is GroupState.STABLE
    assert driver.group.members["i-2"].assignment == b"p0"
    with pytest.raises(RequestError) as refused:
        driver.group.heartbeat("i-1", "i", 1, driver.now_ms)
    assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    "returning",
    [
        pytest.param(subscription("orders"), id="nothing owned any more, no generation"),
        pytest.param(subscription("orders", owned={"orders": [7]}, generation=9), id="another generation"),
        pytest.param(subscription("orders")[:-1], id="what follows the topics cannot be read"),
        pytest.param(b"", id="nothing can be read"),
    ],
)
def test_what_a_static_member_last_owned_does_not_make_its_return_a_rebalance(returning: bytes) -> None:
    """Cooperative assignors, and Java's default list, say in the subscription what a member owns and since when."""
    driver = Driver()
    static_group(driver, subscription("orders", owned={"orders": [0, 1]}, generation=4))
    token = driver.join(new_id="i-2", instance="i", subscription=returning)
    driver.written()
    assert driver.joins[token].generation == 1
    assert driver.group.state is GroupState.STABLE


def test_subscriptions_that_are_no_consumer_s_do_not_make_a_return_a_rebalance() -> None:
    driver = Driver()
    driver.join(new_id="i-1", instance="i", subscription=b"worker 1", protocol_type="connect")
    driver.sync("i-1", {})
    driver.written()
    token = driver.join(new_id="i-2", instance="i", subscription=b"worker 1, with tasks", protocol_type="connect")
    driver.written()
    assert driver.joins[token].generation == 1


def test_a_static_member_that_comes_back_to_other_topics_has_the_group_rebalance() -> None:
    """Kafka leaves the group as it is: the new topic's partitions are read when something else makes it rebalance."""
    driver = Driver()
    static_group(driver, subscription("orders"))
    answer = driver.joins[driver.join(new_id="i-2", instance="i", subscription=subscription("orders", "bills"))]
    assert (answer.error, answer.generation) == (ErrorCode.NONE, 2)
    assert driver.rebalances[-1].why == "static member i came back with another subscription"


def test_a_static_member_that_changes_the_protocol_in_force_has_the_group_rebalance() -> None:
    driver = Driver()
    driver.join(new_id="i-1", instance="i", protocols=("range", "sticky"))
    driver.sync("i-1", {"i-1": b"p0"})
    driver.written()
    answer = driver.joins[driver.join(new_id="i-2", instance="i", protocols=("sticky",))]
    assert (answer.protocol, answer.generation) == ("sticky", 2)


def test_a_static_member_whose_new_id_could_not_be_written_has_its_former_one() -> None:
    """The next coordinator would know the former id alone, and fence the member for good."""
    driver = Driver()
    static_group(driver)
    token = driver.join(new_id="i-2", instance="i")
    driver.written(ErrorCode.NOT_COORDINATOR)
    assert driver.joins[token] == JoinAnswer(ErrorCode.NOT_COORDINATOR)
    assert list(driver.group.members) == ["i-1"]
    assert (driver.group.leader_id, driver.group.state) == ("i-1", GroupState.STABLE)
    driver.group.heartbeat("i-1", "i", 1, driver.now_ms)
    again = driver.join(new_id="i-3", instance="i")
    driver.written()
    assert driver.joins[again].error is ErrorCode.NONE


def test_a_static_member_whose_id_is_being_written_takes_part_in_a_rebalance() -> None:
    driver = Driver()
    static_group(driver)
    back = driver.join(new_id="i-2", instance="i")
    new = driver.join(new_id="a")
    assert driver.joins[back].generation == driver.joins[new].generation == 2
    driver.written()
    assert driver.group.state is GroupState.COMPLETING_REBALANCE


def test_a_static_member_that_comes_back_twice_is_answered_once_each() -> None:
    driver = Driver()
    static_group(driver)
    first = driver.join(new_id="i-2", instance="i")
    second = driver.join(new_id="i-3", instance="i")
    assert driver.joins[first].error is ErrorCode.FENCED_INSTANCE_ID
    driver.written()
    assert driver.joins[second].member_id == "i-3"


def test_the_first_members_wait_for_others_at_most_for_the_rebalance_timeout() -> None:
    driver = Driver(LIMITS.__class__(6_000, 1_800_000, 3_000, 3))
    first = driver.join(new_id="a")
    driver.pass_time(2_000)
    second = driver.join(new_id="b")
    driver.pass_time(1_000)
    assert first not in driver.joins, "a new member extends the delay"
    driver.pass_time(3_000)
    assert driver.joins[first].generation == driver.joins[second].generation == 1
    assert len(driver.group.members) == 2


def test_death_answers_all_that_wait() -> None:
    driver = Driver()
    driver.stable_with("a")
    waiting = driver.join(new_id="b")
    effects = Effects()
    driver.group.die(driver.now_ms, ErrorCode.NOT_COORDINATOR, effects)
    driver.take(effects)
    assert driver.joins[waiting].error is ErrorCode.NOT_COORDINATOR
    assert driver.joins[driver.join(new_id="c")].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_members_of_a_group_that_is_thawed_have_a_session_to_join_again() -> None:
    """Their heartbeats were refused while its end was being written, for longer than a session."""
    driver = Driver()
    driver.stable_with("a")
    effects = Effects()
    driver.group.freeze(driver.now_ms, effects)
    driver.now_ms += 2 * SESSION_MS
    with pytest.raises(RequestError):
        driver.group.heartbeat("a", None, 1, driver.now_ms)
    driver.group.thaw(driver.now_ms, effects)
    assert driver.pass_time(SESSION_MS - 1) == []
    token = driver.join("a")
    assert driver.joins[token].generation == 2


def test_an_illegal_move_is_a_bug() -> None:
    group = ClassicGroup("orders", LIMITS, 0)
    group.die(0, ErrorCode.NONE, Effects())
    with pytest.raises(InvariantViolation):
        group.die(0, ErrorCode.NONE, Effects())


def test_a_commit_needs_the_current_generation_unless_the_group_is_empty() -> None:
    driver = Driver()
    driver.group.check_commit("", None, -1, driver.now_ms)
    driver.stable_with("a")
    driver.group.check_commit("a", None, 1, driver.now_ms)
    with pytest.raises(RequestError) as refused:
        driver.group.check_commit("", None, -1, driver.now_ms)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(RequestError) as refused:
        driver.group.check_commit("a", None, 0, driver.now_ms)
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


def test_what_members_read_is_read_once_for_all_topics_that_are_asked_about() -> None:
    """A request that deletes the offsets of 2,000 topics had 300 subscriptions decoded for each of them."""
    said = subscription(*(f"read-{number}" for number in range(50)))
    protocols = [JoinProtocol("range", said)]
    members = [
        Member(f"m{number}", None, "c", "/127.0.0.1", SESSION_MS, REBALANCE_MS, "consumer", protocols)
        for number in range(300)
    ]
    group = ClassicGroup("orders", replace(LIMITS, max_size=1_000), 0)
    group.restore(StoredGroup(5, "consumer", "range", "m0", members, None), 0)
    begin = time.process_time()
    assert group.subscribed_among([*(f"gone-{number}" for number in range(2_000)), "read-7"]) == {"read-7"}
    assert time.process_time() - begin < 1
