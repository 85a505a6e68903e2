"""Streams groups through their coordinator: tasks, internal topics, epochs, time-outs, and what the log keeps."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol, JoinRequest
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import OffsetsLog
from tests.kit.one_by_one import OneByOne
from tests.kit.streams_case import (
    APPLICATION,
    CHANGELOG,
    COUNTS,
    LIMITS,
    REBALANCE_MS,
    REPARTITION,
    STATELESS,
    StreamsCase,
    active,
    code,
    codes,
    part,
    topology,
)
from tests.kit.virtual_time import in_virtual_time

SESSION_S = LIMITS.session_timeout_ms / 1000


def test_a_first_member_gets_every_task() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        one = await case.beat("one")
        assert active(one) == {"0": [0, 1, 2, 3]}
        assert (one.member_epoch, one.heartbeat_interval_ms, codes(one)) == (2, 5_000, [])
        assert case.group.state == "Stable"
        later = await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
        assert (later.tasks, later.member_epoch) == (None, 2)

    in_virtual_time(scenario)


def test_a_second_member_gets_tasks_only_when_the_first_has_given_them_back() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        assert (active(two), case.group.state) == ({}, "Reconciling")
        asked = await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
        assert (active(asked), asked.member_epoch) == ({"0": [0, 1]}, 2)
        assert (await case.beat("two", two.member_epoch, has={})).tasks is None, "not given back yet"
        given_back = await case.beat("one", 2, has={"0": [0, 1]})
        assert given_back.member_epoch == 3
        assert active(await case.beat("two", two.member_epoch, has={})) == {"0": [2, 3]}
        assert case.group.state == "Stable"

    in_virtual_time(scenario)


def test_a_heartbeat_of_a_streams_group_at_rest_looks_at_no_other_member() -> None:
    """Else the heartbeats of a group cost the square of its members."""

    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
        await case.beat("one", 2, has={"0": [0, 1]})
        await case.beat("two", two.member_epoch, has={})
        group = case.group
        assert group.state == "Stable"
        group.members, group.deadlines, group.target = whole = (
            OneByOne(group.members),
            OneByOne(group.deadlines),
            OneByOne(group.target),
        )
        for _ in range(3):
            await asyncio.sleep(5)
            for member, tasks in (("one", [0, 1]), ("two", [2, 3])):
                assert (await case.beat(member, 3, has={"0": tasks})).member_epoch == 3
        group.members, group.deadlines, group.target = (each.whole() for each in whole)
        await asyncio.sleep(SESSION_S - 1)
        await case.beat("one", 3, has={"0": [0, 1]})
        await asyncio.sleep(2)
        assert list(group.members) == ["one"], "sessions end as before"

    in_virtual_time(scenario)


def test_the_first_assignment_waits_for_members() -> None:
    async def scenario() -> None:
        case = StreamsCase(initial_delay_ms=3_000)
        await case.start()
        one = await case.beat("one")
        assert (codes(one), one.member_epoch, active(one)) == (["ASSIGNMENT_DELAYED"], 1, {})
        await asyncio.sleep(2)
        two = await case.beat("two")
        assert codes(two) == ["ASSIGNMENT_DELAYED"]
        await asyncio.sleep(1.1)
        assert active(await case.beat("one", 1, has={})) == {"0": [0, 2]}
        assert active(await case.beat("two", 1, has={})) == {"0": [1, 3]}

    in_virtual_time(scenario)


def test_assignments_are_an_interval_apart() -> None:
    async def scenario() -> None:
        case = StreamsCase(assignment_interval_ms=1_000)
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        assert codes(two) == ["ASSIGNMENT_DELAYED"]
        assert case.group.state == "Assigning"
        await asyncio.sleep(1)
        assert codes(await case.beat("two", two.member_epoch, has={})) == []

    in_virtual_time(scenario)


def test_internal_topics_are_asked_for_and_then_tasks_are_given() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        one = await case.beat("one", application=COUNTS)
        assert (codes(one), active(one)) == (["MISSING_INTERNAL_TOPICS"], {})
        assert {name: topic.partition_count for name, topic in one.missing.items()} == {CHANGELOG: 4, REPARTITION: 4}
        assert case.group.state == "NotReady"
        for name in one.missing:
            case.topics.put(name, 4)
        later = await case.beat("one", one.member_epoch, has={})
        assert (codes(later), dict(later.missing)) == ([], {})
        assert active(later) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}

    in_virtual_time(scenario)


def test_topics_that_come_while_the_first_assignment_waits_are_in_it() -> None:
    async def scenario() -> None:
        case = StreamsCase(initial_delay_ms=3_000)
        await case.start()
        one = await case.beat("one", application=COUNTS)
        for name in one.missing:
            case.topics.put(name, 4)
        await asyncio.sleep(3.1)
        assert case.group.state in ("Reconciling", "Stable")
        assert active(await case.beat("one", one.member_epoch, has={})) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}

    in_virtual_time(scenario)


def test_standbys_are_at_other_processes_than_the_active_tasks() -> None:
    async def scenario() -> None:
        case = StreamsCase(standby_replicas=1)
        await case.start()
        for name in (CHANGELOG, REPARTITION):
            case.topics.put(name, 4)
        await case.beat("one", application=COUNTS)
        await case.beat("two", application=COUNTS)
        epochs = {"one": 2, "two": 3}
        for _round in range(6):
            for member, epoch in epochs.items():
                known = case.group.members[member]
                answer = await case.beat(
                    member, epoch, active=known.assigned.active, standby=known.assigned.standby, warmup={}
                )
                epochs[member] = answer.member_epoch
        one, two = (case.group.members[name].assigned for name in ("one", "two"))
        assert case.group.state == "Stable"
        assert one.active["1"].isdisjoint(two.active["1"])
        assert (one.standby["1"], two.standby["1"]) == (two.active["1"], one.active["1"])
        assert "0" not in one.standby, "what keeps no state needs none"

    in_virtual_time(scenario)


def test_more_standbys_are_another_assignment() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        for name in (CHANGELOG, REPARTITION):
            case.topics.put(name, 4)
        await case.beat("one", application=COUNTS)
        await case.beat("two", application=COUNTS)
        epoch = case.group.epoch
        case.limits["standby_replicas"] = 1
        await case.beat("two", 3, has={})
        assert case.group.epoch == epoch + 1
        assert case.group.target_of("two").standby

    in_virtual_time(scenario)


def test_who_is_silent_for_a_session_is_out() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        one = await case.beat("one")
        await case.beat("two")
        await asyncio.sleep(SESSION_S - 1)
        await case.beat("one", one.member_epoch)
        await asyncio.sleep(2)
        assert list(case.group.members) == ["one"]
        assert code(await case.refused("two", 3)) is ErrorCode.UNKNOWN_MEMBER_ID

    in_virtual_time(scenario)


def test_who_does_not_give_back_in_time_is_out() -> None:
    async def scenario() -> None:
        case = StreamsCase(session_timeout_ms=1_000_000)
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
        await asyncio.sleep(REBALANCE_MS / 1000 + 1)
        assert code(await case.refused("one", 2, has={"0": [0, 1, 2, 3]})) is ErrorCode.UNKNOWN_MEMBER_ID
        assert active(await case.beat("two", two.member_epoch, has={})) == {"0": [0, 1, 2, 3]}

    in_virtual_time(scenario)


def test_time_to_give_back_begins_when_the_member_is_told_and_not_with_a_refused_heartbeat() -> None:
    async def scenario() -> None:
        case = StreamsCase(session_timeout_ms=1_000_000)
        case.log = OffsetsLog(delay_s=0.001, keeps_failed=True)
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        case.log.error, case.log.uncommitted = ErrorCode.REQUEST_TIMED_OUT, 1
        refusal = await case.refused("one", 2, has={"0": [0, 1, 2, 3]})
        assert code(refusal) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(REBALANCE_MS / 1000 - 1)
        case.log.uncommitted = 0
        assert active(await case.beat("one", 2, has={"0": [0, 1, 2, 3]})) == {"0": [0, 1]}
        await asyncio.sleep(REBALANCE_MS / 1000 - 1)
        assert (await case.beat("one", 2, has={"0": [0, 1]})).member_epoch == 3
        assert active(await case.beat("two", two.member_epoch, has={})) == {"0": [2, 3]}

    in_virtual_time(scenario)


def test_who_leaves_gives_its_tasks_to_the_others() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        left = await case.beat("one", -1)
        assert (left.member_id, left.member_epoch, left.endpoint_epoch) == ("one", -1, 0)
        assert active(await case.beat("two", two.member_epoch, has={})) == {"0": [0, 1, 2, 3]}
        await case.beat("two", -1)
        assert case.group.state == "Empty"
        assert [rebalance.why for rebalance in case.rebalances[-1:]] == ["member two leaves"]

    in_virtual_time(scenario)


def test_another_topology_is_refused_and_an_older_one_is_told_so() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        newer = topology(part("0", "t"), epoch=2)
        await case.beat("one", application=newer)
        other = topology(part("other", "t"), epoch=2)
        assert code(await case.refused("two", application=other)) is ErrorCode.INVALID_REQUEST
        assert code(await case.refused("two", application=replace(newer, epoch=3))) is ErrorCode.INVALID_REQUEST
        assert codes(await case.beat("two", application=STATELESS)) == ["STALE_TOPOLOGY"]
        assert case.group.topology == newer

    in_virtual_time(scenario)


@pytest.mark.parametrize(
    ("epoch", "has", "expected"),
    [
        (3, {"0": [0]}, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, {"0": [0]}, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, {"9": [0]}, ErrorCode.INVALID_REQUEST),
        (2, {"9": []}, ErrorCode.INVALID_REQUEST),
        (2, {"0": [4]}, ErrorCode.INVALID_REQUEST),
        (2, {"0": [-1]}, ErrorCode.INVALID_REQUEST),
        (-2, None, ErrorCode.INVALID_REQUEST),
        (-3, None, ErrorCode.INVALID_REQUEST),
    ],
)
def test_epochs_and_tasks_that_cannot_be_are_refused(
    epoch: int, has: dict[str, list[int]] | None, expected: ErrorCode
) -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        before = len(case.log.records)
        assert code(await case.refused("one", epoch, has=has)) is expected
        assert len(case.log.records) == before

    in_virtual_time(scenario)


def test_who_comes_with_its_former_epoch_is_told_its_tasks_again() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
        await case.beat("one", 2, has={"0": [0, 1]})  # the answer, with epoch 3, is lost
        again = await case.beat("one", 2, has={"0": [0, 1]})
        assert (again.member_epoch, active(again)) == (3, {"0": [0, 1]})
        assert two.member_epoch == 3
        assert code(await case.refused("one", 2, has={"0": [0, 1, 2]})) is ErrorCode.FENCED_MEMBER_EPOCH

    in_virtual_time(scenario)


@pytest.mark.parametrize(
    "fields",
    [
        {"instance_id": "static"},
        {"has_offsets": True},
        {"has_end_offsets": True},
        {"warmup": {"0": frozenset({0})}},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"active": {"0": frozenset({0})}},
        {"standby": {"0": frozenset({0})}},
        {"active": {"0": frozenset()}},
        {"active": None},
        {"topology": None},
    ],
)
def test_what_cannot_be_meant_by_joining_is_refused(fields: dict[str, object]) -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        assert code(await case.refused("one", **fields)) is ErrorCode.INVALID_REQUEST
        assert case.groups.list_groups() == []

    in_virtual_time(scenario)


def test_a_topology_is_told_by_joining_only() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        assert code(await case.refused("one", 2, topology=STATELESS)) is ErrorCode.INVALID_REQUEST

    in_virtual_time(scenario)


def test_a_full_group_takes_nobody_else() -> None:
    async def scenario() -> None:
        case = StreamsCase(max_size=1)
        await case.start()
        await case.beat("one")
        assert code(await case.refused("two")) is ErrorCode.GROUP_MAX_SIZE_REACHED
        await case.beat("one")  # who is a member may join again

    in_virtual_time(scenario)


def test_a_member_that_fails_for_all_has_all_stop_until_nobody_is_left() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        await case.beat("one", -1, wants_shutdown=True)
        told = await case.beat("two", two.member_epoch, has={})
        assert codes(told) == ["SHUTDOWN_APPLICATION"]
        await case.beat("two", -1)
        assert codes(await case.beat("two")) == []

    in_virtual_time(scenario)


def test_who_makes_a_group_and_has_it_stop_is_alone_told_so() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        one = await case.beat("one", wants_shutdown=True)
        assert codes(one) == ["SHUTDOWN_APPLICATION"]
        assert codes(await case.beat("one", one.member_epoch, has={})) == []
        assert codes(await case.beat("two")) == []

    in_virtual_time(scenario)


def test_a_new_coordinator_has_the_group_as_it_was() -> None:
    async def scenario() -> None:
        case = StreamsCase(standby_replicas=1)
        await case.start()
        for name in (CHANGELOG, REPARTITION):
            case.topics.put(name, 4)
        await case.beat("one", application=COUNTS, tags=(("zone", "a"),), endpoint=None)
        two = await case.beat("two", application=COUNTS)
        asked = await case.beat("one", 2, has={"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]})
        before = case.group
        await case.start()
        after = case.group
        for name in ("members", "target", "topology", "epoch", "assignment_epoch", "assignment_timestamp_ms"):
            assert getattr(after, name) == getattr(before, name), name
        assert (after.metadata_hash, after.validated_epoch) == (before.metadata_hash, before.validated_epoch)
        assert (after.state, dict(after.configs)) == ("Reconciling", dict(before.configs))
        assert (await case.beat("two", two.member_epoch, has={})).tasks is not None, "it may not have been told"
        has = {name: sorted(numbers) for name, numbers in active(asked).items()}
        assert (await case.beat("one", 2, has=has)).member_epoch == 3
        assert case.group.epoch == before.epoch, "nothing has changed"
        await asyncio.sleep(SESSION_S + 1)
        assert case.group.state == "Empty", "sessions began anew"

    in_virtual_time(scenario)


def test_what_could_not_be_written_is_as_if_it_had_not_been() -> None:
    async def scenario() -> None:
        case = StreamsCase(initial_delay_ms=3_000)
        await case.start()
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert code(await case.refused("one", application=COUNTS)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert case.groups.list_groups() == []
        one = await case.beat("one", application=COUNTS)
        assert codes(one) == ["ASSIGNMENT_DELAYED", "MISSING_INTERNAL_TOPICS"]

    in_virtual_time(scenario)


def test_topics_that_come_with_a_write_of_unknown_outcome_are_not_missed() -> None:
    """Found by a random walk: the records had the hash of the topics, and the group stayed NotReady for ever."""

    async def scenario() -> None:
        case = StreamsCase()
        case.log = OffsetsLog(delay_s=0.001, keeps_failed=True)
        await case.start()
        one = await case.beat("one", application=COUNTS)
        for name in one.missing:
            case.topics.put(name, 4)
        case.log.error = ErrorCode.REQUEST_TIMED_OUT
        assert code(await case.refused("one", one.member_epoch, has={})) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await case.beat("one", one.member_epoch, has={})
        assert case.group.state == "Stable"

    in_virtual_time(scenario)


def test_nobody_is_told_what_is_not_committed() -> None:
    """Found by the simulator: after a write that timed out the next heartbeat was answered from what it had changed. A
    leader that was replaced then had it cut off, and the next coordinator gave the tasks to another member."""

    async def scenario() -> None:
        case = StreamsCase()
        case.log = OffsetsLog(delay_s=0.001, keeps_failed=True)
        await case.start()
        await case.beat("one")
        await case.beat("two")
        await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
        case.log.error, case.log.uncommitted = ErrorCode.REQUEST_TIMED_OUT, 1
        for _ in range(2):
            assert code(await case.refused("one", 2, has={"0": [0, 1]})) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        case.log.uncommitted = 0
        one = await case.beat("one", 2, has={"0": [0, 1]})
        assert (one.member_epoch, active(one)) == (3, {"0": [0, 1]})

    in_virtual_time(scenario)


def test_what_is_loaded_and_not_committed_is_told_nobody() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        case.log.uncommitted = 1
        case.groups.shut_down()
        await case.start()
        assert code(await case.refused("one", 2, has={"0": [0]})) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        case.log.uncommitted = 0
        assert active(await case.beat("one", 2, has={"0": [0]})) == {"0": [0, 1, 2, 3]}

    in_virtual_time(scenario)


def commit(member: str, epoch: int, *topics: str, partition: int = 0) -> CommitRequest:
    offsets = [OffsetToCommit(topic, partition, 7, -1, "") for topic in topics]
    return CommitRequest(APPLICATION, member, None, epoch, offsets, api_version=9)


async def refused_commit(case: StreamsCase, request: CommitRequest) -> ErrorCode:
    with pytest.raises(RequestError) as refusal:
        await case.groups.offsets.commit(request)
    return refusal.value.code


def test_commits_are_checked_by_epoch_and_by_task() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        one = await case.beat("one")
        assert await case.groups.offsets.commit(commit("one", one.member_epoch, "t")) == [ErrorCode.NONE]
        await case.beat("two")
        await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
        await case.beat("one", 2, has={"0": [0, 1]})
        assert await case.groups.offsets.commit(commit("one", 2, "t")) == [ErrorCode.NONE], "task 0 is its own since 2"
        assert await refused_commit(case, commit("one", 2, "t", partition=3)) is ErrorCode.STALE_MEMBER_EPOCH
        assert await refused_commit(case, commit("one", 2, "u")) is ErrorCode.STALE_MEMBER_EPOCH
        assert await refused_commit(case, commit("one", 4, "t")) is ErrorCode.STALE_MEMBER_EPOCH
        assert await refused_commit(case, commit("nobody", 2, "t")) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await refused_commit(case, commit("", -1, "t")) is ErrorCode.UNKNOWN_MEMBER_ID
        old = commit("one", 3, "t")._replace(api_version=8)
        assert await refused_commit(case, old) is ErrorCode.UNSUPPORTED_VERSION
        case.groups.offsets.check_fetch(APPLICATION, None, -1)
        with pytest.raises(RequestError):
            case.groups.offsets.check_fetch(APPLICATION, "one", 2)
        assert await case.groups.offsets.delete(APPLICATION, [("t", 0)]) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]

    in_virtual_time(scenario)


def test_a_group_with_members_is_not_deleted_and_an_empty_one_is_with_its_offsets() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        one = await case.beat("one")
        await case.groups.offsets.commit(commit("one", one.member_epoch, "t"))
        with pytest.raises(RequestError) as refusal:
            await case.groups.delete_group(APPLICATION)
        assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
        await case.beat("one", -1)
        await case.groups.delete_group(APPLICATION)
        assert case.groups.list_groups() == []
        await case.start()
        assert case.groups.list_groups() == []
        assert case.groups.offsets.fetch_all(APPLICATION) == []

    in_virtual_time(scenario)


def test_an_empty_group_goes_with_its_last_offset() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        one = await case.beat("one")
        await case.groups.offsets.commit(commit("one", one.member_epoch, "t"))
        await asyncio.sleep(1)
        await case.groups.offsets.expire(500)
        assert len(case.groups.offsets.fetch_all(APPLICATION)) == 1, "its members read the topic"
        await case.beat("one", -1)
        await case.groups.offsets.expire(500)
        assert case.groups.list_groups() == []

    in_virtual_time(scenario)


def join_request(member: str = "") -> JoinRequest:
    protocols = [JoinProtocol("range", b"")]
    return JoinRequest(
        member, None, "old", "/127.0.0.1", 10_000, REBALANCE_MS, "consumer", protocols, require_known_member_id=False
    )


def test_classic_members_join_an_empty_group_only() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        for member in ("", "one", "two"):
            joined = await case.groups.join(APPLICATION, join_request(member))
            assert (joined.error, joined.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""), (
                "it has no such member"
            )
        await case.beat("one", -1)
        joined = await case.groups.join(APPLICATION, join_request())
        assert joined.error is ErrorCode.NONE
        assert [group.kind for group in case.groups.list_groups()] == ["classic"]
        refused = await case.refused("one")
        assert (code(refused), refused.message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {APPLICATION} is not a streams group.",
        )

    in_virtual_time(scenario)


def test_a_group_that_only_has_offsets_becomes_a_streams_group_and_keeps_them() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.groups.offsets.commit(commit("", -1, "t"))
        assert [group.kind for group in case.groups.list_groups()] == ["classic"]
        await case.beat("one")
        assert [(group.kind, group.protocol_type) for group in case.groups.list_groups()] == [("streams", "streams")]
        assert len(case.groups.offsets.fetch_all(APPLICATION)) == 1
        await case.start()
        assert [group.kind for group in case.groups.list_groups()] == ["streams"]

    in_virtual_time(scenario)


def test_where_the_protocol_is_off_nobody_joins() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        case.is_enabled = False
        assert code(await case.refused("one")) is ErrorCode.UNSUPPORTED_VERSION

    in_virtual_time(scenario)


def test_a_group_that_is_not_there_has_no_members() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        assert code(await case.refused("one", 3)) is ErrorCode.GROUP_ID_NOT_FOUND
        assert code(await case.refused("one", -1)) is ErrorCode.GROUP_ID_NOT_FOUND

    in_virtual_time(scenario)
