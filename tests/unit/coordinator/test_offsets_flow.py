"""The flow around committed offsets: who may ask, what is told of failures, and whose turn it is while much expires."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.coordinator.groups.offsets.flow import GROUPS_AT_ONCE
from kavka.errors import ErrorCode, RequestError
from kavka.model import GoneTopic
from tests.kit.told_lines import told_lines
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_group_coordinator_edges import All, joining, offset, refused, syncing

LOGGER = "kavka.coordinator.groups.offsets"


def commit(group_id: str, *offsets: OffsetToCommit, member: str = "", generation: int = -1) -> CommitRequest:
    return CommitRequest(group_id, member, None, generation, list(offsets))


def found(case: All, group_id: str) -> list[tuple[int, int]]:
    """Partition and offset of all that is committed."""
    return [(partition, each.offset) for _topic, partition, each in case.groups.offsets.fetch_all(group_id)]


# -- who may ask


def test_only_who_is_no_member_commits_to_a_group_without_a_name() -> None:
    """As Kafka's GroupCoordinatorService.commitOffsets, which asks for a name where a generation is given."""

    async def scenario() -> None:
        case = All()
        offsets = (await case.start()).offsets
        assert await offsets.commit(commit("", offset(7))) == [ErrorCode.NONE]
        for generation in (0, 1):
            assert await refused(offsets.commit(commit("", offset(8), generation=generation))) is (
                ErrorCode.INVALID_GROUP_ID
            )
        assert found(case, "") == [(0, 7)]
        assert offsets.pending("") == frozenset()
        offsets.check_fetch("", "m", 3)

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_who_fetches_as_a_member_is_one_in_its_epoch(kind: str) -> None:
    """KIP-848's check of OffsetFetch 9; a classic group asks for nothing."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        joins: Any = case.consumer if kind == "consumer" else case.streams
        epoch = (await joins("g")).member_epoch
        check = groups.offsets.check_fetch
        check("g", "m", epoch)
        check("g", None, -1)
        for member, said, code in (
            ("m", epoch + 1, ErrorCode.STALE_MEMBER_EPOCH),
            ("stranger", epoch, ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            with pytest.raises(RequestError) as told:
                check("g", member, said)
            assert told.value.code is code
        await groups.join("classic", joining())
        check("classic", "stranger", 7)
        check("none", "stranger", 7)

    in_virtual_time(scenario)


def test_each_offset_is_answered_by_itself() -> None:
    """The error of one that is refused, and what became of the others: in a transaction too."""

    async def scenario() -> None:
        case = All()
        offsets = (await case.start()).offsets
        both = [OffsetToCommit("orders", 0, 1, 3, "x" * 17), OffsetToCommit("orders", 1, 1, 3, "")]
        for committed in (offsets.commit(commit("g", *both)), offsets.commit_transactional(commit("g", *both), 9, 0)):
            assert await committed == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
        case.log.error = ErrorCode.MESSAGE_TOO_LARGE
        assert await offsets.commit_transactional(commit("g", *both), 9, 0) == [
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ]
        written = {place: len(records) for place, records in case.log.open.items()}
        assert await offsets.commit_transactional(commit("h", both[0]), 9, 0) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        assert written == {place: len(records) for place, records in case.log.open.items()}, "nothing to write"
        assert [group.group_id for group in case.groups.list_groups()] == ["g"], "nothing became of h"

    in_virtual_time(scenario)


def test_of_a_long_transaction_only_the_last_offset_of_a_partition_is_kept() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        offsets = groups.shard_of("g").shard.offsets
        sizes = []
        for number in range(100, 200):
            await groups.offsets.commit_transactional(commit("g", offset(number)), 9, 0)
            sizes.append(len(pickle.dumps(offsets)))
        assert sizes[-1] == sizes[0]
        groups.offsets.on_marker(0)(9, 0, True)
        found = groups.offsets.fetch("g", "orders", 0)
        assert found is not None
        assert found.offset == 199

    in_virtual_time(scenario)


# -- markers


def test_a_marker_for_a_partition_that_is_not_here_is_passed_over() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await groups.offsets.commit_transactional(commit("g", offset(42)), 9, 0)
        groups.offsets.on_marker(7)(9, 0, True)
        late = groups.offsets.on_marker(0)
        groups.unload(0)
        late(9, 0, True)
        groups.offsets.on_marker(0)(9, 0, True)
        await groups.load(0, leader_epoch=1)
        assert groups.offsets.pending("g") == {("orders", 0)}

    in_virtual_time(scenario)


def test_the_end_of_a_transaction_is_told_once_its_partition_is_served() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await groups.offsets.commit_transactional(commit("g", offset(42)), 9, 0)
        with told_lines(LOGGER) as told:
            groups.offsets.on_marker(0)(9, 3, False)
            case.log.settled = asyncio.get_running_loop().create_future()
            loading = asyncio.ensure_future(groups.load(0, leader_epoch=1))
            await asyncio.sleep(1)
            groups.offsets.on_marker(0)(10, 0, True)
        keys = {"partition": 0, "producer_id": 9, "producer_epoch": 3, "committed": False}
        assert told == [("debug", "group offsets of a transaction ended", keys)]
        case.log.settled.set_result(True)
        await loading

    in_virtual_time(scenario)


def test_a_marker_that_came_while_its_partition_was_read_ends_what_comes_before_it_alone() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await groups.offsets.commit_transactional(commit("g", offset(42)), 9, 0)
        case.log.settled = asyncio.get_running_loop().create_future()
        loading = asyncio.ensure_future(groups.load(0, leader_epoch=1))
        await asyncio.sleep(1)
        ended = groups.offsets.on_marker(0)
        case.log.settled.set_result(True)
        await loading
        ended(9, 0, True)
        assert (groups.offsets.pending("g"), found(case, "g")) == (frozenset(), [(0, 42)])

    in_virtual_time(scenario)


# -- deletion


def test_a_deletion_whose_outcome_is_not_known_is_told_of_and_the_others_go_on() -> None:
    async def scenario() -> None:
        case = All()
        offsets = (await case.start()).offsets
        await offsets.commit(commit("g", offset(7)))
        with told_lines(LOGGER) as told:
            case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            await offsets.on_topics_deleted([GoneTopic("orders")])
            case.log.error = ErrorCode.NONE
            await offsets.on_topics_deleted([GoneTopic("orders")])
        keys = {"partition": 0, "why": "COORDINATOR_NOT_AVAILABLE"}
        assert told == [("warning", "offsets of deleted topics perhaps not deleted", keys)]
        assert found(case, "g") == []

    in_virtual_time(scenario)


def test_a_deletion_is_over_when_it_is_committed() -> None:
    async def scenario() -> None:
        case = All()
        offsets = (await case.start()).offsets
        await offsets.commit(commit("g", offset(7)))
        case.log.commits_after_s = 1
        deleting = asyncio.ensure_future(offsets.on_topics_deleted([GoneTopic("orders")]))
        await asyncio.sleep(0.5)
        assert not deleting.done()
        await deleting
        assert found(case, "g") == []

    in_virtual_time(scenario)


def test_topics_are_deleted_in_each_partition_whether_it_is_served_or_read() -> None:
    async def scenario() -> None:
        case = All()
        groups = case.make()
        groups.set_partition_count(0)
        groups.set_partition_count(2)
        for partition in range(2):
            await groups.load(partition, leader_epoch=0)
        names = {groups.partition_for(name): name for name in map(str, range(20))}
        for name in names.values():
            await groups.offsets.commit(commit(name, offset(7)))
        case.log.settled = asyncio.get_running_loop().create_future()
        loading = asyncio.ensure_future(groups.load(0, leader_epoch=1))
        await asyncio.sleep(1)
        await groups.offsets.on_topics_deleted([GoneTopic("orders")])
        assert found(case, names[1]) == []
        case.log.settled.set_result(True)
        await loading
        assert found(case, names[0]) == []

    in_virtual_time(scenario)


def test_a_deletion_of_what_is_not_there_says_that_it_is_done_and_each_is_answered_by_itself() -> None:
    async def scenario() -> None:
        case = All()
        offsets = (await case.start()).offsets
        await offsets.commit(commit("g", offset(7)))
        assert await offsets.delete("g", [("orders", 5), ("orders", 0)]) == [ErrorCode.NONE] * 2
        await offsets.commit(commit("g", offset(7)))
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await offsets.delete("g", [("orders", 0)]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    in_virtual_time(scenario)


# -- expiry


def test_what_expires_is_told_of_with_the_group_or_with_why_it_did_not() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        joined = await groups.join("with-members", joining(protocols=[JoinProtocol("range", b"s")]))
        await groups.sync("with-members", syncing(joined.member_id))
        await groups.offsets.commit(commit("g", offset(7), offset(8, 1)))
        await groups.offsets.commit_transactional(commit("h", offset(1)), 9, 0)
        await groups.offsets.commit(commit("h", offset(2, 1)))
        with told_lines(LOGGER) as told:
            case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            await groups.offsets.expire(0)
            case.log.error = ErrorCode.NONE
            await groups.offsets.expire(0)
            await groups.offsets.expire(0)
        failed = "group offsets not expired"
        done = "group offsets expired"
        assert told == [
            ("warning", failed, {"group": "g", "why": "COORDINATOR_NOT_AVAILABLE"}),
            ("warning", failed, {"group": "h", "why": "COORDINATOR_NOT_AVAILABLE"}),
            ("info", done, {"group": "g", "records": 3, "group_deleted": True}),
            ("info", done, {"group": "h", "records": 1, "group_deleted": False}),
        ]
        assert found(case, "h") == []
        assert [group.group_id for group in groups.list_groups()] == ["h", "with-members"]

    in_virtual_time(scenario)


def test_a_partition_that_is_read_does_not_expire_and_the_others_do() -> None:
    async def scenario() -> None:
        case = All()
        groups = case.make()
        groups.set_partition_count(0)
        groups.set_partition_count(2)
        for partition in range(2):
            await groups.load(partition, leader_epoch=0)
        names = {groups.partition_for(name): name for name in map(str, range(20))}
        for name in names.values():
            await groups.offsets.commit(commit(name, offset(7)))
        groups.unload(1)
        case.log.settled = asyncio.get_running_loop().create_future()
        loading = asyncio.ensure_future(groups.load(0, leader_epoch=1))
        await asyncio.sleep(1)
        groups._active[0] = groups._active.pop(0)
        case.log.settled, settled = None, case.log.settled
        await groups.load(1, leader_epoch=1)
        written = len(case.log.records[0])
        await groups.offsets.expire(0)
        assert len(case.log.records[0]) == written
        assert found(case, names[1]) == []
        settled.set_result(True)
        await loading
        assert found(case, names[0]) == [(0, 7)]
        await groups.offsets.expire(0)
        assert found(case, names[0]) == []

    in_virtual_time(scenario)


def test_others_have_their_turn_after_so_many_groups() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        assert GROUPS_AT_ONCE == 200
        for number in range(2 * GROUPS_AT_ONCE + 1):
            await groups.offsets.commit(commit(f"g{number}", offset(7)))
        at = asyncio.get_running_loop().time()
        expiring = asyncio.ensure_future(groups.offsets.expire(0))
        left = []
        while not expiring.done():
            await asyncio.sleep(0)
            left.append(len(groups.list_groups()))
        assert asyncio.get_running_loop().time() == at
        assert left[:3] == [201, 1, 0]

    in_virtual_time(scenario)


def test_no_more_expires_in_a_partition_that_has_left() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        for number in range(3):
            await groups.offsets.commit(commit(f"g{number}", offset(7)))
        case.log.commits_after_s = 1
        with told_lines(LOGGER) as told:
            expiring = asyncio.ensure_future(groups.offsets.expire(0))
            await asyncio.sleep(0.5)
            groups.unload(0)
            await expiring
        assert [line.keys["group"] for line in told] == ["g0"]

    in_virtual_time(scenario)


def test_a_group_whose_offsets_do_not_fit_into_a_batch_is_not_deleted_with_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await groups.offsets.commit(commit("g", offset(7), offset(8, 1)))
        monkeypatch.setattr("kavka.coordinator.groups.shard_writer.BATCH_BYTES", 20)
        with told_lines(LOGGER) as told:
            for _ in range(3):
                await groups.offsets.expire(0)
        assert [line.keys for line in told] == [
            {"group": "g", "records": 1, "group_deleted": False},
            {"group": "g", "records": 1, "group_deleted": False},
            {"group": "g", "records": 1, "group_deleted": True},
        ]
        assert groups.list_groups() == []

    in_virtual_time(scenario)
