"""The bytes that consumers of the classic protocol exchange, read as Kafka's ConsumerProtocol reads them."""

from __future__ import annotations

import pytest

from kavka.coordinator.groups.classic.decide.consumer_protocol import (
    ConsumerAssignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    decode_topics,
    differ_in_topics,
    encode_assignment,
    subscription_version,
)
from kavka.coordinator.groups.classic.decide.membership import (
    MOVES,
    NEW_MEMBER_JOIN_MS,
    Effects,
    GroupState,
    JoinAnswer,
    JoinProtocol,
    JoinRequest,
    Member,
    SyncAnswer,
)
from kavka.coordinator.groups.classic.decide.protocol_choice import common_protocols, select_protocol
from kavka.errors import ErrorCode, InvariantViolation, ProtocolViolation

TOPICS = b"\x00\x00\x00\x02\x00\x01t\x00\x02uv"
DATA = b"\x00\x00\x00\x03abc"
NO_DATA = b"\xff\xff\xff\xff"
PARTS = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05"
GENERATION, RACK, NO_RACK = b"\x00\x00\x00\x07", b"\x00\x01r", b"\xff\xff"
READS = ["t", "uv"]
OWNS = {"t": [0, 5]}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x00\x00" + TOPICS + DATA, Subscription(0, READS, {}, None)),
        (b"\x00\x00" + TOPICS + NO_DATA, Subscription(0, READS, {}, None)),
        (b"\x00\x00" + TOPICS + NO_DATA + PARTS, Subscription(0, READS, {}, None)),
        (b"\x00\x01" + TOPICS + DATA + PARTS, Subscription(1, READS, OWNS, None)),
        (b"\x00\x02" + TOPICS + DATA + PARTS + GENERATION, Subscription(2, READS, OWNS, None)),
        (b"\x00\x03" + TOPICS + DATA + PARTS + GENERATION + RACK, Subscription(3, READS, OWNS, "r")),
        (b"\x00\x01" + TOPICS + NO_DATA + PARTS, Subscription(1, READS, OWNS, None)),
        (b"\x00\x03" + TOPICS + DATA + PARTS + GENERATION + NO_RACK, Subscription(3, READS, OWNS, None)),
        (b"\x00\x03" + TOPICS + DATA + PARTS + GENERATION + b"\x00\x00", Subscription(3, READS, OWNS, "")),
        (b"\x00\x09" + TOPICS + DATA + PARTS + GENERATION + RACK + b"more", Subscription(9, READS, OWNS, "r")),
        (b"\x00\x00" + b"\x00\x00\x00\x00" + NO_DATA, Subscription(0, [], {}, None)),
        (b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x00" + NO_DATA, Subscription(0, [""], {}, None)),
        (b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01\xff" + NO_DATA, Subscription(0, ["\ufffd"], {}, None)),
    ],
)
def test_a_subscription_is_read_in_each_version(data: bytes, said: Subscription) -> None:
    assert decode_subscription(data) == said
    assert decode_topics(data) == frozenset(said.topics)
    assert subscription_version(data) == said.version


def test_each_byte_of_a_subscription_and_an_assignment_is_needed() -> None:
    for whole in (
        b"\x00\x02" + TOPICS + DATA + PARTS + GENERATION,
        b"\x00\x03" + TOPICS + DATA + PARTS + GENERATION + RACK,
    ):
        for length in range(len(whole)):
            with pytest.raises(ProtocolViolation):
                decode_subscription(whole[:length])
    whole = b"\x00\x00" + PARTS + DATA
    for length in range(1, len(whole)):
        with pytest.raises(ProtocolViolation):
            decode_assignment(whole[:length])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x00", "a subscription or assignment ends too early, after 1 bytes"),
        (b"\xff\xff" + TOPICS + DATA, "version -1 of the consumer protocol does not exist"),
        (b"\x00\x00" + b"\xff\xff\xff\xff" + DATA, "an array claims -1 entries, but only 7 bytes remain"),
        (b"\x00\x00" + b"\x00\x00\x00\x04" + DATA, "an array claims 4 entries, but only 7 bytes remain"),
        (
            b"\x00\x00" + b"\x00\x00\x00\x01" + b"\xff\xff" + DATA,
            "a name in a consumer's subscription or assignment is null",
        ),
    ],
)
def test_what_is_no_subscription_says_why(data: bytes, why: str) -> None:
    with pytest.raises(ProtocolViolation) as refused:
        decode_subscription(data)
    assert str(refused.value) == why


def test_an_array_may_have_as_many_entries_as_two_bytes_each_leave_room_for() -> None:
    assert decode_topics(b"\x00\x00" + b"\x00\x00\x00\x03" + bytes(6)) == {""}


def test_what_is_wrong_behind_the_topics_does_not_hide_them() -> None:
    assert decode_topics(b"\x00\x03" + TOPICS) == {"t", "uv"}


@pytest.mark.parametrize(
    ("data", "version"), [(b"", 0), (b"\x00", 0), (b"\x00\x02", 2), (b"\xff\xff", 0), (b"\x01\x00", 256)]
)
def test_a_member_whose_bytes_do_not_say_speaks_the_lowest_version(data: bytes, version: int) -> None:
    assert subscription_version(data) == version


def test_subscriptions_differ_where_both_can_be_read_and_do() -> None:
    same = b"\x00\x00" + b"\x00\x00\x00\x02" + b"\x00\x02uv" + b"\x00\x01t"
    assert not differ_in_topics(b"\x00\x00" + TOPICS, same)
    assert differ_in_topics(b"\x00\x00" + TOPICS, b"\x00\x00" + bytes(4))
    assert not differ_in_topics(b"\x00\x00" + TOPICS, b"")
    assert not differ_in_topics(b"", b"\x00\x00" + TOPICS)


def test_an_assignment_is_read_with_its_assignor_s_data() -> None:
    assert decode_assignment(b"\x00\x00" + PARTS + DATA) == ConsumerAssignment({"t": [0, 5]}, b"abc")
    assert decode_assignment(b"\x00\x01" + PARTS + NO_DATA + b"more") == ConsumerAssignment({"t": [0, 5]}, b"")
    assert decode_assignment(b"") == ConsumerAssignment({}, b"")
    twice = b"\x00\x00\x00\x02" + 2 * PARTS[4:]
    assert decode_assignment(b"\x00\x00" + twice + DATA).partitions == {"t": [0, 5, 0, 5]}


@pytest.mark.parametrize(("version", "written"), [(-1, 0), (0, 0), (1, 1), (3, 3), (4, 3)])
def test_an_assignment_is_written_in_a_version_that_there_is(version: int, written: int) -> None:
    assert encode_assignment({"t": (0, 5)}, version) == bytes([0, written]) + PARTS + NO_DATA


# -- members


def member(member_id: str, *names: str) -> Member:
    protocols = [JoinProtocol(name, name.encode()) for name in names]
    return Member(member_id, None, "c", "h", 10_000, 20_000, "consumer", protocols)


def test_the_protocol_is_the_one_that_most_vote_for_among_those_that_all_support() -> None:
    a, b, c = member("a", "x", "y", "z"), member("b", "z", "y"), member("c", "w", "y", "z")
    assert common_protocols([a, b, c]) == {"y", "z"}
    assert select_protocol([a, b, c]) == "y"
    assert select_protocol([b, a]) == "z", "of as many votes the earliest member's"
    assert select_protocol([a, b]) == "y"
    assert common_protocols([member("d", "x", "x"), a]) == {"x"}, "who says one twice supports it once"
    assert common_protocols([a, member("d", "w", "w")]) == frozenset()


def test_a_member_s_subscription_is_that_under_the_protocol_or_under_its_first_choice() -> None:
    one = member("a", "x", "y")
    assert [one.metadata(name) for name in ("x", "y", "z", None)] == [b"x", b"y", b"x", b"x"]


def test_who_supports_none_of_the_candidates_is_a_bug() -> None:
    with pytest.raises(InvariantViolation, match=r"member a supports none of \['v', 'w'\]"):
        member("a", "x").vote(frozenset({"w", "v"}))


@pytest.mark.parametrize(
    ("join_token", "sync_token", "is_new", "may"),
    [
        (None, None, False, True),
        (0, None, False, False),
        (None, 0, False, False),
        (0, None, True, True),
        (None, None, True, True),
    ],
)
def test_who_waits_for_us_does_not_run_out_unless_for_its_first_generation(
    join_token: int | None, sync_token: int | None, is_new: bool, may: bool
) -> None:
    one = member("a", "x")
    one.join_token, one.sync_token, one.is_new = join_token, sync_token, is_new
    assert one.may_run_out is may


def test_why_a_member_ran_out() -> None:
    one = member("a", "x")
    assert one.ran_out == "member a was silent for its session of 10000 ms"
    one.is_new = True
    assert one.ran_out == "member a waited 300000 ms for its first generation"
    assert NEW_MEMBER_JOIN_MS == 5 * 60_000


def test_a_new_member_and_answers_without_more_say_so() -> None:
    one = member("a", "x")
    assert one.may_run_out
    assert (one.assignment, one.proposed, one.join_token, one.sync_token) == (b"", None, None, None)
    assert (one.session_deadline_ms, one.awaits_sync, one.is_new) == (0, False, False)
    refused = JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID)
    assert refused == (ErrorCode.UNKNOWN_MEMBER_ID, "", -1, None, None, "", (), False)
    assert SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID) == (ErrorCode.UNKNOWN_MEMBER_ID, None, None, b"")
    asked = JoinRequest("", None, "c", "h", 1, 2, "consumer", [], require_known_member_id=False)
    assert (asked.supports_skipping_assignment, asked.reason) == (False, "")
    effects = Effects()
    assert (effects.joins, effects.syncs, effects.rebalances, effects.replaced) == ([], [], [], "")
    assert not effects.write_group


def test_states_follow_each_other_as_in_kafka() -> None:
    """ClassicGroupState's valid previous states, but for Dead: a group that was frozen comes back from there, Empty."""
    empty, preparing, completing = GroupState.EMPTY, GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE
    stable, dead = GroupState.STABLE, GroupState.DEAD
    assert {state: set(moves) for state, moves in MOVES.items()} == {
        empty: {preparing, dead},
        preparing: {completing, empty, dead},
        completing: {stable, preparing, dead},
        stable: {preparing, dead},
        dead: {empty},
    }
