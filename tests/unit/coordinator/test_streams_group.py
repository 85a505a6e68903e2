"""What a streams group knows: its state, who has which task, who may commit, and whose time is up."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kavka.coordinator.groups.streams.decide import group as group_module
from kavka.coordinator.groups.streams.decide.group import MemberState, StreamsGroup, StreamsMember
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, Task, Tasks
from kavka.coordinator.groups.streams.decide.topology import Configured
from kavka.errors import ErrorCode, RequestError
from tests.kit.streams_case import STATELESS, part, topology

ONE = StreamsMember("one", rebalance_timeout_ms=300, process_id="p1", epoch=5)
TWO = StreamsMember("two", rebalance_timeout_ms=300, process_id="p2", epoch=5)


def a_group(*members: StreamsMember) -> StreamsGroup:
    """In epoch 5, assigned."""
    group = StreamsGroup("g")
    group.epoch = group.assignment_epoch = 5
    group.put_topology(STATELESS)
    group.validated_epoch = STATELESS.epoch
    for member in members:
        group.put_member(member)
    return group


def tasks(*numbers: int) -> dict[str, frozenset[int]]:
    return {"0": frozenset(numbers)}


# -- state


def test_a_new_group_has_the_epochs_that_kafka_begins_with() -> None:
    group = StreamsGroup("g")
    assert (group.epoch, group.assignment_epoch, group.validated_epoch, group.endpoint_epoch) == (1, 1, -1, 0)
    assert (group.metadata_hash, group.assignment_timestamp_ms, group.checked_version) == (0, 0, -1)
    assert (group.state, dict(group.configs), group.topology, group.configured) == ("Empty", {}, None, None)
    assert (group.delayed_until_ms, group.shutdown_asked_by) == (None, None)
    assert group.target_of("one") == NOTHING


def test_numbers_in_the_log_and_in_requests_are_kafkas() -> None:
    assert {state.name: state.value for state in MemberState} == {
        "STABLE": 1,
        "UNREVOKED_TASKS": 2,
        "UNRELEASED_TASKS": 3,
        "UNKNOWN": 127,
    }
    assert (group_module.JOINING_EPOCH, group_module.LEAVING_EPOCH, group_module.STATIC_LEAVING_EPOCH) == (0, -1, -2)
    bare = StreamsMember("one")
    assert (bare.epoch, bare.previous_epoch, bare.rebalance_timeout_ms, bare.topology_epoch) == (0, 0, -1, -1)
    assert (bare.state, bare.assigned, bare.revoking) == (MemberState.STABLE, NOTHING, NOTHING)
    assert bare.is_reconciled_to(0)


def test_a_groups_state_is_that_of_its_epochs_topology_and_members() -> None:
    assert a_group().state == "Empty"
    group = a_group(ONE, TWO)
    assert group.state == "Stable"
    group.put_member(replace(TWO, state=MemberState.UNRELEASED_TASKS))
    assert group.state == "Reconciling"
    group.put_member(replace(TWO, epoch=4))
    assert group.state == "Reconciling"
    group.epoch = 6
    assert group.state == "Assigning"
    group.validated_epoch = -1
    assert group.state == "NotReady"
    group.validated_epoch = STATELESS.epoch
    group.put_topology(None)
    assert group.state == "NotReady"


def test_a_topology_is_to_be_compared_with_the_topics_anew() -> None:
    group = a_group()
    group.configured, group.checked_version = Configured(0, None, {}, None), 7
    group.put_topology(STATELESS)
    assert (group.configured, group.checked_version, group.topology) == (None, -1, STATELESS)


def test_who_is_no_member_is_told_so() -> None:
    group = a_group(ONE)
    assert group.require_member("one") is ONE
    with pytest.raises(RequestError) as refused:
        group.require_member("two")
    assert (refused.value.code, refused.value.message) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member two is not a member of group g.",
    )


def test_a_topic_is_read_while_there_are_members_and_a_topology() -> None:
    group = a_group(ONE)
    assert group.subscribed_among(["t", "u"]) == {"t"}
    assert a_group().subscribed_among(["t"]) == set()
    group.put_topology(None)
    assert group.subscribed_among(["t"]) == set()


# -- who has which task


def test_a_task_is_a_processs_until_it_is_given_back() -> None:
    group = a_group(replace(ONE, assigned=Tasks(tasks(0)), revoking=Tasks(tasks(1))), TWO)
    assert [group.active_process(Task("0", number)) for number in range(3)] == ["p1", "p1", None]
    group.put_member(replace(ONE, assigned=Tasks(tasks(0))))
    assert [group.active_process(Task("0", number)) for number in range(2)] == ["p1", None]
    group.remove_member("one")
    assert group.active_process(Task("0", 0)) is None


def test_the_new_owner_may_be_told_of_before_the_old_one_gave_the_task_back() -> None:
    group = a_group(replace(ONE, assigned=Tasks(tasks(0))), replace(TWO, assigned=Tasks(tasks(0))))
    assert group.active_process(Task("0", 0)) == "p2"
    group.put_member(ONE)
    assert group.active_process(Task("0", 0)) == "p2"


@pytest.mark.parametrize("kind", ["standby", "warmup"])
@pytest.mark.parametrize("field", ["assigned", "revoking"])
def test_copies_are_at_every_process_that_has_one(kind: str, field: str) -> None:
    has = NOTHING._replace(**{kind: tasks(0)})
    three = replace(ONE, member_id="three")
    copies = {field: has}
    group = a_group(replace(ONE, **copies), replace(TWO, **copies), replace(three, **copies))  # type: ignore[arg-type]
    task = Task("0", 0)

    def at() -> Sequence[bool]:
        return [group.copies_at(task, process) for process in ("p1", "p2", "p3")]

    assert at() == [True, True, False]
    group.remove_member("one")
    assert at() == [True, True, False], "another member of the process has one too"
    group.put_member(three)
    assert at() == [False, True, False]
    group.remove_member("two")
    assert at() == [False, False, False]
    assert not group.copies_at(Task("0", 1), "p1")
    assert group.active_process(task) is None


def test_a_removed_member_leaves_nothing() -> None:
    group = a_group(ONE, TWO)
    group.watch_all(100, 0)
    group.shutdown_asked_by = "one"
    group.remove_member("one")
    group.remove_member("never")
    assert (list(group.members), list(group.deadlines), group.untold) == (["two"], ["two"], {"two"})
    assert group.shutdown_asked_by == "one", "until nobody is left"
    group.remove_member("two")
    assert group.shutdown_asked_by is None


# -- offsets


def committing(
    group: StreamsGroup, epoch: int, partition: int = 0, *, topic: str = "t", member: str = "one", **how: object
) -> str:
    """The refusal; empty if there is none."""
    fields = {"api_version": 9, "is_transactional": False, **how}
    try:
        group.check_commit(member, epoch, [("t", 0), (topic, partition)], **fields)  # type: ignore[arg-type]
    except RequestError as refused:
        return f"{refused.code.name}: {refused.message}"
    return ""


def test_who_may_commit() -> None:
    group = a_group(replace(ONE, assignment_epochs={Task("0", 0): 2, Task("0", 1): 4}))
    stale = "STALE_MEMBER_EPOCH: "
    assert committing(group, 5, 9, topic="unknown") == "", "in its epoch a member may commit anything"
    assert committing(group, 6) == f"{stale}Received member epoch 6 is newer than current member epoch 5."
    assert committing(group, 2) == committing(group, 4, 1) == ""
    assert committing(group, 3, 1) == (f"{stale}Received member epoch 3 is older than assignment epoch 4 for task 0-1.")
    assert committing(group, 1) == f"{stale}Received member epoch 1 is older than assignment epoch 2 for task 0-0."
    assert committing(group, 4, 2) == f"{stale}Task 0-2 is not assigned or pending revocation for member."
    assert committing(group, 4, topic="u") == f"{stale}Topic u is not in the topology."
    assert committing(group, 5, member="two") == "UNKNOWN_MEMBER_ID: Member two is not a member of group g."
    assert committing(group, -1, member="") == "UNKNOWN_MEMBER_ID: Member  is not a member of group g."
    group.put_topology(None)
    assert committing(group, 4) == f"{stale}Topology is not available for offset commit validation."


def test_versions_that_know_no_streams_groups_are_refused_outside_of_transactions() -> None:
    group = a_group(ONE)
    assert committing(group, 5, api_version=8) == (
        "UNSUPPORTED_VERSION: OffsetCommit version 9 or above must be used by members using the streams group protocol"
    )
    assert committing(group, 5, api_version=8, is_transactional=True) == ""


def test_who_manages_its_partitions_itself_may_commit_where_there_is_no_member() -> None:
    assert committing(a_group(), -1, member="") == ""
    assert committing(a_group(), 0, member="") == "UNKNOWN_MEMBER_ID: Member  is not a member of group g."


@pytest.mark.parametrize(
    ("member", "epoch", "code"),
    [
        (None, -1, None),
        (None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 5, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("one", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", 6, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", 5, None),
    ],
)
def test_who_may_ask_for_offsets(member: str | None, epoch: int, code: ErrorCode | None) -> None:
    group = a_group(ONE)
    if code is None:
        group.check_fetch(member, epoch)
        return
    with pytest.raises(RequestError) as refused:
        group.check_fetch(member, epoch)
    assert refused.value.code is code


def test_nothing_is_kept_of_tasks_that_nobody_has_any_more() -> None:
    group = a_group()
    size = len(pickle.dumps(group))
    for number in range(100):
        group.put_member(replace(ONE, assigned=Tasks(*({f"{number}": frozenset((kind,))} for kind in range(3)))))
    group.remove_member("one")
    assert len(pickle.dumps(group)) == size


# -- deadlines


def test_who_is_heard_of_has_a_whole_session_again_if_it_is_a_member() -> None:
    group = a_group(ONE, TWO)
    assert group.next_deadline_ms() is None
    group.renew("one", 100, 10)
    group.renew("two", 100, 20)
    group.renew("gone", 100, 0)
    assert (sorted(group.deadlines), group.next_deadline_ms()) == (["one", "two"], 110)
    assert (group.overdue(109), group.overdue(110)) == ({}, {"one": "no heartbeat in time"})
    group.renew("one", 50, 110)
    assert group.next_deadline_ms() == 120
    assert group.overdue(160) == {"one": "no heartbeat in time", "two": "no heartbeat in time"}


def test_who_is_not_watched_yet_has_its_session_from_now_on_and_is_to_be_told() -> None:
    group = a_group(ONE, TWO)
    group.renew("one", 100, 10)
    group.watch_all(200, 20)
    assert (group.deadlines["one"].session_ms, group.deadlines["two"].session_ms) == (110, 220)
    assert group.untold == {"two"}


def test_time_to_give_back_runs_once_for_each_epoch_from_when_the_member_is_told() -> None:
    group = a_group(replace(ONE, state=MemberState.UNREVOKED_TASKS))
    group.watch_revocation("one", 0)
    group.watch_revocation("gone", 0)
    group.renew("one", 10_000, 0)
    deadlines = group.deadlines["one"]
    group.untold.add("one")
    group.watch_revocation("one", 10)
    assert deadlines.revoke_ms is None, "it has not been told"
    group.untold.clear()
    group.watch_revocation("one", 20)
    assert (deadlines.revoke_ms, group.overdue(319)) == (320, {})
    assert group.overdue(320) == {"one": "it has not given back in time what is revoked"}
    group.watch_revocation("one", 30)
    assert deadlines.revoke_ms == 320, "once"
    group.untold.add("one")
    group.watch_revocation("one", 40)
    assert deadlines.revoke_ms == 320, "its answer failed, which gives it no more time"
    group.put_member(replace(ONE, state=MemberState.UNREVOKED_TASKS, epoch=6))
    group.watch_revocation("one", 50)
    assert deadlines.revoke_ms is None, "of its new epoch it has not been told"
    group.untold.clear()
    group.watch_revocation("one", 60)
    assert deadlines.revoke_ms == 360
    group.put_member(replace(ONE, state=MemberState.UNREVOKED_TASKS, epoch=7))
    group.watch_revocation("one", 70)
    assert deadlines.revoke_ms == 370
    group.put_member(replace(ONE, state=MemberState.UNRELEASED_TASKS, epoch=7))
    group.watch_revocation("one", 80)
    assert deadlines.revoke_ms is None


def test_a_loaded_member_that_must_give_back_is_told_first() -> None:
    group = a_group(replace(ONE, state=MemberState.UNREVOKED_TASKS))
    group.watch_all(1_000, 0)
    assert (group.deadlines["one"].revoke_ms, group.untold) == (None, {"one"})
    group.untold.clear()
    group.watch_all(1_000, 10)
    assert group.deadlines["one"].revoke_ms == 310


def test_the_first_assignment_waits_until_its_time_and_longer_where_it_could_not_be_written() -> None:
    group = a_group(ONE)
    assert not group.is_delay_over(10**9)
    group.renew("one", 100, 0)
    group.put_off(50)
    assert (group.deadlines["one"].session_ms, group.delayed_until_ms) == (100, None)
    group.delayed_until_ms = 60
    assert group.next_deadline_ms() == 60
    assert (group.is_delay_over(59), group.is_delay_over(60)) == (False, True)
    group.put_off(70)
    assert (group.delayed_until_ms, group.deadlines["one"].session_ms) == (70, 100)
    group.put_off(65)
    assert group.delayed_until_ms == 70
    group.put_off(150)
    assert (group.delayed_until_ms, group.deadlines["one"].session_ms) == (150, 150)
    group.delayed_until_ms = 900
    assert group.next_deadline_ms() == 150


def test_of_several_parts_that_read_a_topic_the_last_is_asked() -> None:
    group = a_group(replace(ONE, assignment_epochs={Task("1", 0): 2}))
    group.put_topology(topology(part("0", "t"), part("1", "t")))
    assert committing(group, 3) == ""
