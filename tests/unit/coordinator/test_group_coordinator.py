"""The flow around groups: what is committed is there after a restart, and nothing is answered before."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from kavka.coordinator.groups.classic.decide.membership import (
    GroupLimits,
    GroupState,
    JoinProtocol,
    JoinRequest,
    Leaver,
    SyncRequest,
)
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.groups.decide.records import GroupRecord, decode_record
from kavka.coordinator.groups.decide.shard import MAX_NEW_GROUPS
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.coordinator.shared.decide.partitions import java_string_hash
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.errors import ErrorCode, RequestError
from kavka.model import GoneTopic
from kavka.protocol.codec import EncodeError
from tests.kit.group_surroundings import group_surroundings
from tests.kit.virtual_time import in_virtual_time

LIMITS = GroupLimits(10, 1_800_000, 0, 100)


class MemoryLog:
    """`__consumer_offsets` in memory; `gate` holds appends back while it is closed, `commits_after_s` their answers.

    With `keeps_failed` the log has what it answers `error` to, as a leader that does not know the outcome.
    `uncommitted`: how many records at the end of each partition are not committed yet.
    """

    def __init__(self) -> None:
        self.records: dict[int, list[CoordinatorRecord]] = {}
        self.open: dict[int, list[OpenTransaction]] = {}
        self.gate: asyncio.Event | None = None
        self.commits_after_s = 0.0
        self.error = ErrorCode.NONE
        self.keeps_failed = False
        self.uncommitted = 0
        self.settled: asyncio.Future[bool] | None = None

    def ends(self, partition: int) -> tuple[int, int] | None:
        count = len(self.records.get(partition, ()))
        return count - self.uncommitted, count

    async def settle(self, partition: int) -> bool:
        return self.settled is None or await self.settled

    def append(
        self, partition: int, records: Sequence[CoordinatorRecord], *, producer_id: int = -1, producer_epoch: int = -1
    ) -> Awaitable[ErrorCode]:
        if self.gate is not None:
            return self._append_later(partition, records, producer_id, producer_epoch, self.gate)
        self._put(partition, records, producer_id, producer_epoch)
        return self._commit(self.error)

    async def _append_later(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        producer_id: int,
        producer_epoch: int,
        gate: asyncio.Event,
    ) -> ErrorCode:
        await gate.wait()
        self._put(partition, records, producer_id, producer_epoch)
        return await self._commit(self.error)

    def _put(self, partition: int, records: Sequence[CoordinatorRecord], producer_id: int, producer_epoch: int) -> None:
        if self.error is ErrorCode.NONE or self.keeps_failed:
            if producer_id >= 0:
                self.open.setdefault(partition, []).append(OpenTransaction(producer_id, producer_epoch, records))
            else:
                self.records.setdefault(partition, []).extend(records)

    async def _commit(self, error: ErrorCode) -> ErrorCode:
        if self.commits_after_s:
            await asyncio.sleep(self.commits_after_s)
        return error

    async def read(self, partition: int) -> AsyncIterator[Sequence[CoordinatorRecord] | OpenTransaction]:
        yield list(self.records.get(partition, []))
        for transaction in self.open.get(partition, []):
            yield transaction


async def coordinator(log: MemoryLog, *, partitions: int = 3) -> GroupCoordinator:
    groups = GroupCoordinator(
        asyncio.get_running_loop(),
        log,
        group_surroundings()._replace(classic_limits=LIMITS),
        offset_metadata_max_bytes=16,
    )
    groups.set_partition_count(partitions)
    for partition in range(partitions):
        await groups.load(partition, leader_epoch=0)
    return groups


def member(member_id: str = "", *, session_ms: int = 60_000) -> JoinRequest:
    return JoinRequest(
        member_id,
        None,
        "client",
        "/127.0.0.1",
        session_ms,
        60_000,
        "consumer",
        [JoinProtocol("range", b"s")],
        require_known_member_id=False,
    )


def offset(value: int, metadata: str = "") -> OffsetToCommit:
    return OffsetToCommit("orders", 0, value, 3, metadata)


def runs(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 60)

    in_virtual_time(bounded)


@pytest.mark.parametrize("is_committed", [True, False])
def test_nothing_is_served_of_a_log_whose_end_may_still_be_lost(is_committed: bool) -> None:
    """Seed 138: members learned what they own in a generation that was lost later, and began again."""

    async def scenario() -> None:
        log = MemoryLog()
        log.settled = asyncio.get_running_loop().create_future()
        loading = asyncio.ensure_future(coordinator(log, partitions=1))
        await asyncio.sleep(0.01)
        assert not loading.done()
        log.settled.set_result(is_committed)
        groups = await loading
        if is_committed:
            assert (await groups.join("g", member())).error is ErrorCode.NONE
        else:
            with pytest.raises(RequestError) as refused:
                await groups.join("g", member())
            assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    runs(scenario)


def test_members_outlive_the_loading_of_their_group() -> None:
    """Clients know COORDINATOR_LOAD_IN_PROGRESS neither of Heartbeat nor of SyncGroup: Java's consumer throws what it
    does not know of a sync at its application."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log, partitions=1)
        joined = await groups.join("g", member())
        sync = SyncRequest(joined.member_id, None, 1, "consumer", "range", {joined.member_id: b"all"})
        await groups.sync("g", sync)
        groups.unload(0, leader_epoch=1)
        log.settled = asyncio.get_running_loop().create_future()
        loading = asyncio.ensure_future(groups.load(0, leader_epoch=2))
        await asyncio.sleep(0.01)
        groups.heartbeat("g", joined.member_id, None, 1)
        with pytest.raises(RequestError) as refused:
            await groups.sync("g", sync)
        assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        log.settled.set_result(True)
        await loading
        assert (await groups.sync("g", sync)).assignment == b"all"
        with pytest.raises(RequestError):
            groups.heartbeat("g", joined.member_id, None, 2)

    runs(scenario)


def test_committed_offsets_and_members_survive_a_restart() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        joined = await groups.join("g", member())
        synced = await groups.sync(
            "g", SyncRequest(joined.member_id, None, 1, "consumer", "range", {joined.member_id: b"mine"})
        )
        assert synced.assignment == b"mine"
        assert await groups.offsets.commit(CommitRequest("g", joined.member_id, None, 1, [offset(42, "note")])) == [
            ErrorCode.NONE
        ]

        restarted = await coordinator(log)
        found = restarted.offsets.fetch("g", "orders", 0)
        assert found is not None
        assert (found.offset, found.leader_epoch, found.metadata) == (42, 3, "note")
        group = restarted.describe_group("g")
        assert group is not None
        assert group.state is GroupState.STABLE
        assert group.members[joined.member_id].assignment == b"mine"
        restarted.heartbeat("g", joined.member_id, None, 1)

    runs(scenario)


def test_an_offset_is_invisible_until_its_record_is_committed() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        log.gate = asyncio.Event()
        committing = asyncio.ensure_future(groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)])))
        await asyncio.sleep(0)
        assert groups.offsets.fetch("g", "orders", 0) is None
        assert not committing.done()
        log.gate.set()
        assert await committing == [ErrorCode.NONE]
        found = groups.offsets.fetch("g", "orders", 0)
        assert found is not None
        assert found.offset == 7

    runs(scenario)


def test_a_commit_that_could_not_be_written_changes_nothing() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)])) == [
            ErrorCode.COORDINATOR_NOT_AVAILABLE
        ]
        assert groups.offsets.fetch("g", "orders", 0) is None

    runs(scenario)


def test_a_commit_that_the_log_takes_for_too_large_says_so() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        log.error = ErrorCode.MESSAGE_TOO_LARGE
        assert await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)])) == [
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        ]

    runs(scenario)


def test_a_group_is_written_down_as_it_was_when_its_assignment_came() -> None:
    """Somebody joins between the leader's SyncGroup and the writing, who does not even know the group's protocol."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log, partitions=1)
        both = member()._replace(protocols=[JoinProtocol("range", b"s"), JoinProtocol("sticky", b"s")])
        leader = (await groups.join("g", both)).member_id
        syncing = asyncio.ensure_future(
            groups.sync("g", SyncRequest(leader, None, 1, "consumer", "range", {leader: b"mine"}))
        )
        late = asyncio.ensure_future(groups.join("g", member()._replace(protocols=[JoinProtocol("sticky", b"s")])))
        assert (await syncing).error is ErrorCode.REBALANCE_IN_PROGRESS
        await asyncio.sleep(0.01)
        (written,) = (decode_record(record.key, record.value) for record in log.records[0])
        assert isinstance(written, GroupRecord)
        assert written.value is not None
        assert written.value.generation == 1
        assert [kept.member_id for kept in written.value.members] == [leader]
        late.cancel()

    runs(scenario)


def test_a_deleted_offsets_topic_leaves_nobody_waiting() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log, partitions=1)
        leader = (await groups.join("g", member())).member_id
        log.gate = asyncio.Event()
        syncing = asyncio.ensure_future(groups.sync("g", SyncRequest(leader, None, 1, None, None, {leader: b"mine"})))
        await asyncio.sleep(0.01)
        groups.set_partition_count(0)
        groups.unload(0)
        log.gate.set()
        assert (await syncing).error is ErrorCode.NOT_COORDINATOR
        with pytest.raises(RequestError) as refused:
            groups.heartbeat("g", leader, None, 1)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        # Its successor begins with nothing, whatever its leader epoch.
        log.records.clear()
        groups.set_partition_count(1)
        await groups.load(0, leader_epoch=0)
        assert groups.list_groups() == []

    runs(scenario)


def test_a_number_of_partitions_that_changes_moves_no_group(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog(), partitions=3)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)]))
        placed = {f"group-{number}": groups.partition_for(f"group-{number}") for number in range(20)}
        for count in (4, 4, 61):
            groups.set_partition_count(count)
        assert groups.partition_count == 3
        assert {name: groups.partition_for(name) for name in placed} == placed
        found = groups.offsets.fetch("g", "orders", 0)
        assert found is not None
        assert found.offset == 7
        groups.set_partition_count(0)
        groups.set_partition_count(4)
        assert groups.partition_count == 4

    runs(scenario)
    assert capsys.readouterr().out.count("of the offsets topic has changed") == 2, "once for each"


def test_groups_that_lie_where_nobody_looks_for_them_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log, partitions=3)
        for number in range(20):
            await groups.offsets.commit(CommitRequest(f"group-{number}", "", None, -1, [offset(7)]))
        await coordinator(log, partitions=4)

    runs(scenario)
    told = capsys.readouterr().out
    assert "groups in a wrong partition" in told


def test_a_partition_that_left_before_its_log_was_read_is_not_served() -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog(), partitions=1)
        # Told to lead, and in the same moment that another broker leads: the reading has not begun yet.
        loading = groups.load(0, leader_epoch=1)
        groups.unload(0, 2)
        await loading
        with pytest.raises(RequestError) as refused:
            groups.describe_group("g")
        assert refused.value.code is ErrorCode.NOT_COORDINATOR

    runs(scenario)


def test_leadership_that_is_heard_of_late_changes_nothing() -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog(), partitions=1)
        await groups.load(0, leader_epoch=5)
        groups.unload(0, 4)
        assert groups.describe_group("g") is None
        groups.unload(0, 6)
        await groups.load(0, leader_epoch=5)
        with pytest.raises(RequestError) as refused:
            groups.describe_group("g")
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        # A deleted topic's successor begins at epoch 0.
        groups.forget(0)
        await groups.load(0, leader_epoch=0)
        assert groups.describe_group("g") is None

    runs(scenario)


@pytest.mark.setting("offset.metadata.max.bytes")
def test_metadata_over_its_bound_is_refused_alone() -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog())
        errors = await groups.offsets.commit(
            CommitRequest("g", "", None, -1, [offset(1, "x" * 17), offset(2, "x" * 16)])
        )
        assert errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]

    runs(scenario)


def test_a_deleted_group_is_gone_after_a_restart_too() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)]))
        await groups.delete_group("g")
        for there in (groups, await coordinator(log)):
            assert there.offsets.fetch("g", "orders", 0) is None
            assert there.list_groups() == []
        with pytest.raises(RequestError) as refused:
            await groups.delete_group("g")
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND

    runs(scenario)


def test_a_group_that_came_to_nothing_is_forgotten() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        refused = await groups.join("no-protocol", member()._replace(protocols=[]))
        assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await groups.offsets.commit(CommitRequest("no-commit", "", None, -1, [offset(7)]))
        asked = await groups.join("no-member", member(session_ms=20)._replace(require_known_member_id=True))
        assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
        assert [listed.group_id for listed in groups.list_groups()] == ["no-member"]
        while groups.list_groups():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)

    runs(scenario)


def test_a_commit_under_way_keeps_its_group() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        log.gate = asyncio.Event()
        committing = asyncio.ensure_future(groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)])))
        await asyncio.sleep(0)
        refused = await groups.join("g", member()._replace(protocols=[]))
        assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        log.gate.set()
        assert await committing == [ErrorCode.NONE]
        assert [listed.group_id for listed in groups.list_groups()] == ["g"]
        await groups.delete_group("g")
        assert groups.offsets.fetch("g", "orders", 0) is None

    runs(scenario)


def test_a_session_out_of_bounds_is_refused_before_anybody_looks_for_the_group() -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog())
        with pytest.raises(RequestError) as refused:
            await groups.join("nobody's", member("unknown", session_ms=1))
        assert refused.value.code is ErrorCode.INVALID_SESSION_TIMEOUT
        assert groups.list_groups() == []

    runs(scenario)


def test_a_group_with_members_is_not_deleted() -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog())
        await groups.join("g", member())
        with pytest.raises(RequestError) as refused:
            await groups.delete_group("g")
        assert refused.value.code is ErrorCode.NON_EMPTY_GROUP

    runs(scenario)


def test_a_member_that_falls_silent_is_removed_by_the_timer() -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog())
        joined = await groups.join("g", member(session_ms=20))
        await groups.sync("g", SyncRequest(joined.member_id, None, 1, None, None, {}))
        group = groups.describe_group("g")
        assert group is not None
        while group.state is not GroupState.EMPTY:  # noqa: ASYNC110 - the group is pure: nobody sets an event in it
            await asyncio.sleep(0.005)
        assert group.generation == 2

    runs(scenario)


def test_a_partition_that_moved_away_answers_all_that_wait() -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog(), partitions=1)
        first = await groups.join("g", member())
        waiting = asyncio.ensure_future(groups.sync("g", SyncRequest(first.member_id + "x", None, 1, None, None, {})))
        assert (await waiting).error is ErrorCode.UNKNOWN_MEMBER_ID
        second = asyncio.ensure_future(groups.join("g", member()))
        await asyncio.sleep(0)
        groups.unload(0)
        assert (await second).error is ErrorCode.NOT_COORDINATOR
        with pytest.raises(RequestError) as refused:
            groups.heartbeat("g", first.member_id, None, 1)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR

    runs(scenario)


def test_garbage_in_the_log_is_passed_over() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log, partitions=1)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)]))
        good = log.records[0]
        log.records[0] = [
            CoordinatorRecord(b"", b""),
            CoordinatorRecord(b"\x00\x01\xff", b"x"),
            CoordinatorRecord(b"\x7f\xff", None),
            CoordinatorRecord(good[0].key, b"\x00\x03\x01"),
            *good,
        ]
        found = (await coordinator(log, partitions=1)).offsets.fetch("g", "orders", 0)
        assert found is not None
        assert found.offset == 7

    runs(scenario)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("my-group", -1906497762),
        ("console-consumer-12345", 158455506),
        ("žába", 11599522),
        ("💥", 1772552),
    ],
)
def test_the_hash_is_java_s(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@pytest.mark.parametrize(
    ("group_id", "partition"),
    # As Apache Kafka placed them; the last one's hash is the lowest integer.
    [("plain-group", 10), ("transactional-group", 19), ("new-protocol-group", 39), ("polygenelubricants", 0)],
)
def test_a_group_lies_where_kafka_puts_it(group_id: str, partition: int) -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog(), partitions=50)
        assert groups.partition_for(group_id) == partition

    runs(scenario)


def test_offsets_of_a_transaction_wait_for_its_marker_and_survive_a_restart_before_it() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log, partitions=1)
        errors = await groups.offsets.commit_transactional(CommitRequest("g", "", None, -1, [offset(42)]), 9, 0)
        assert errors == [ErrorCode.NONE]
        assert groups.offsets.fetch("g", "orders", 0) is None
        assert groups.offsets.pending("g") == {("orders", 0)}

        restarted = await coordinator(log, partitions=1)
        assert restarted.offsets.pending("g") == {("orders", 0)}
        restarted.offsets.on_marker(0)(9, 0, True)
        found = restarted.offsets.fetch("g", "orders", 0)
        assert found is not None
        assert found.offset == 42
        assert restarted.offsets.pending("g") == frozenset()

        groups.offsets.on_marker(0)(9, 1, False)
        assert groups.offsets.fetch("g", "orders", 0) is None
        assert groups.list_groups() == []

    runs(scenario)


def test_a_marker_that_is_told_of_before_the_offsets_are_known_to_be_committed_ends_them() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log, partitions=1)
        log.gate = asyncio.Event()
        committing = asyncio.ensure_future(
            groups.offsets.commit_transactional(CommitRequest("g", "", None, -1, [offset(42)]), 9, 0)
        )
        await asyncio.sleep(0)
        groups.offsets.on_marker(0)(9, 0, True)
        log.gate.set()
        assert await committing == [ErrorCode.NONE]
        assert groups.offsets.pending("g") == frozenset()
        found = groups.offsets.fetch("g", "orders", 0)
        assert found is not None
        assert found.offset == 42

    runs(scenario)


def test_a_transaction_of_an_old_generation_commits_no_offsets_and_a_failed_commit_is_not_pending() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log, partitions=1)
        joined = await groups.join("g", member())
        await groups.sync("g", SyncRequest(joined.member_id, None, 1, "consumer", "range", {}))
        for member_id, generation, expected in (
            (joined.member_id, 0, ErrorCode.ILLEGAL_GENERATION),
            ("somebody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            with pytest.raises(RequestError) as refused:
                await groups.offsets.commit_transactional(
                    CommitRequest("g", member_id, None, generation, [offset(1)]), 9, 0
                )
            assert refused.value.code is expected
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await groups.offsets.commit_transactional(
            CommitRequest("g", joined.member_id, None, 1, [offset(1)]), 9, 0
        ) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert groups.offsets.pending("g") == frozenset()
        log.error = ErrorCode.REQUEST_TIMED_OUT
        await groups.offsets.commit_transactional(CommitRequest("g", joined.member_id, None, 1, [offset(1)]), 9, 0)
        assert groups.offsets.pending("g") == {("orders", 0)}

    runs(scenario)


class Wall:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


async def coordinator_at(log: MemoryLog, wall: Wall) -> GroupCoordinator:
    groups = GroupCoordinator(
        asyncio.get_running_loop(),
        log,
        group_surroundings(wall_ms=wall)._replace(classic_limits=LIMITS),
        offset_metadata_max_bytes=16,
    )
    groups.set_partition_count(1)
    await groups.load(0, leader_epoch=0)
    return groups


@pytest.mark.setting("offsets.retention.minutes")
def test_offsets_expire_after_the_group_is_empty_never_while_it_has_members() -> None:
    async def scenario() -> None:
        wall = Wall()
        log = MemoryLog()
        groups = await coordinator_at(log, wall)
        joined = await groups.join("g", member())
        await groups.sync("g", SyncRequest(joined.member_id, None, 1, "consumer", "range", {}))
        await groups.offsets.commit(CommitRequest("g", joined.member_id, None, 1, [offset(5)]))
        wall.now_ms += 10_000
        await groups.offsets.expire(5_000)
        assert groups.offsets.fetch("g", "orders", 0) is not None, "its subscription cannot be read: it may read all"
        await groups.leave("g", [Leaver(joined.member_id)])
        await asyncio.sleep(0.01)
        wall.now_ms += 4_999
        await groups.offsets.expire(5_000)
        assert groups.offsets.fetch("g", "orders", 0) is not None, "empty for less than the retention"
        wall.now_ms += 1
        restarted = await coordinator_at(log, wall)
        for one in (groups, restarted):
            await one.offsets.expire(5_000)
            assert one.offsets.fetch("g", "orders", 0) is None
            assert one.list_groups() == []
        assert (await coordinator_at(log, wall)).list_groups() == []

    runs(scenario)


def test_an_offset_that_is_committed_while_it_expires_stays() -> None:
    async def scenario() -> None:
        wall, log = Wall(), MemoryLog()
        groups = await coordinator_at(log, wall)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)]))
        wall.now_ms += 10_000
        # Not all of the group is over its retention: it is not deleted, and commits go on.
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [OffsetToCommit("orders", 1, 1, 3, "")]))
        await asyncio.gather(
            groups.offsets.expire(5_000), groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(8)]))
        )
        for one in (groups, await coordinator_at(log, wall)):
            found = one.offsets.fetch("g", "orders", 0)
            assert found is not None
            assert found.offset == 8

    runs(scenario)


def test_an_offset_that_is_on_its_way_into_the_log_does_not_expire() -> None:
    """Its record lies in the log before the tombstone would: a commit that is answered with success were gone."""

    async def scenario() -> None:
        wall, log = Wall(), MemoryLog()
        groups = await coordinator_at(log, wall)
        both = [OffsetToCommit("orders", partition, 7, 3, "") for partition in range(2)]
        await groups.offsets.commit(CommitRequest("g", "", None, -1, both))
        wall.now_ms += 10_000
        log.commits_after_s = 0.02
        committing = asyncio.ensure_future(groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(8)])))
        await asyncio.sleep(0.01)
        await groups.offsets.expire(5_000)
        assert await committing == [ErrorCode.NONE]
        for one in (groups, await coordinator_at(log, wall)):
            assert [(p, c.offset) for _topic, p, c in one.offsets.fetch_all("g")] == [(0, 8)]
        wall.now_ms += 10_000
        await groups.offsets.expire(5_000)
        assert groups.list_groups() == []

    runs(scenario)


def test_an_offset_that_is_on_its_way_into_the_log_is_not_stable() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)]))
        log.gate = asyncio.Event()
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        committing = asyncio.ensure_future(groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(8)])))
        await asyncio.sleep(0)
        assert groups.offsets.pending("g") == {("orders", 0)}
        log.gate.set()
        await committing
        assert groups.offsets.pending("g") == frozenset()

    runs(scenario)


@pytest.mark.parametrize("deletes", ["group", "offsets", "topic"])
def test_what_is_deleted_is_deleted_with_what_is_on_its_way_into_the_log(deletes: str) -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        log.commits_after_s = 0.02
        committing = asyncio.ensure_future(groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(8)])))
        await asyncio.sleep(0.01)
        if deletes == "group":
            await groups.delete_group("g")
        elif deletes == "offsets":
            assert await groups.offsets.delete("g", [("orders", 0)]) == [ErrorCode.NONE]
        else:
            await groups.offsets.on_topics_deleted([GoneTopic("orders")])
        assert await committing == [ErrorCode.NONE]
        for one in (groups, await coordinator(log)):
            assert one.offsets.fetch_all("g") == []

    runs(scenario)


@pytest.mark.parametrize("deletes", ["group", "offsets", "topic"])
def test_what_is_deleted_is_deleted_with_what_nobody_knows_to_be_committed(deletes: str) -> None:
    """Else the next coordinator finds it in the log, and a topic made again is read from there."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        known = OffsetToCommit("orders", 1, 7, 3, "")
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [known]))
        log.error, log.keeps_failed = ErrorCode.REQUEST_TIMED_OUT, True
        refused = await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(8)]))
        assert refused == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        log.error = ErrorCode.NONE
        if deletes == "group":
            await groups.delete_group("g")
        elif deletes == "offsets":
            assert await groups.offsets.delete("g", [("orders", 0), ("orders", 1)]) == [ErrorCode.NONE] * 2
        else:
            await groups.offsets.on_topics_deleted([GoneTopic("orders")])
        for one in (groups, await coordinator(log)):
            assert one.offsets.fetch_all("g") == []
        tombstones = sum(record.value is None for records in log.records.values() for record in records)
        await groups.offsets.on_topics_deleted([GoneTopic("orders")])
        assert tombstones == sum(record.value is None for records in log.records.values() for record in records)

    runs(scenario)


def test_offsets_of_a_deleted_topic_go_before_those_of_one_that_is_made_again() -> None:
    """Each partition of the log had its tombstones after those of the one before were committed."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        names = {groups.partition_for(name): name for name in map(str, range(50))}
        for name in names.values():
            await groups.offsets.commit(CommitRequest(name, "", None, -1, [offset(7)]))
        log.commits_after_s = 0.02
        deleting = asyncio.ensure_future(groups.offsets.on_topics_deleted([GoneTopic("orders")]))
        await asyncio.sleep(0.01)
        commits = [groups.offsets.commit(CommitRequest(name, "", None, -1, [offset(1)])) for name in names.values()]
        await asyncio.gather(deleting, *commits)
        for one in (groups, await coordinator(log)):
            for name in names.values():
                found = one.offsets.fetch(name, "orders", 0)
                assert found is not None
                assert found.offset == 1

    runs(scenario)


def of_topic(number: int, value: int, partition: int = 0) -> OffsetToCommit:
    """An offset for the topic `orders` with this id."""
    return OffsetToCommit("orders", partition, value, 3, "", uuid.UUID(int=number))


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_late_end_of_a_topic_takes_no_offset_of_its_successor(is_committed: bool) -> None:
    """A coordinator that was cut off hears of the end after members have committed for the topic made again."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        log.commits_after_s = 0.02
        committing = asyncio.ensure_future(groups.offsets.commit(CommitRequest("g", "", None, -1, [of_topic(2, 8)])))
        await asyncio.sleep(0.03 if is_committed else 0.01)
        await groups.offsets.on_topics_deleted([GoneTopic("orders", uuid.UUID(int=1))])
        assert await committing == [ErrorCode.NONE]
        for one in (groups, await coordinator(log)):
            found = one.offsets.fetch("g", "orders", 0)
            assert found is not None
            assert (found.offset, found.topic_id) == (8, uuid.UUID(int=2))
        await groups.offsets.on_topics_deleted([GoneTopic("orders", uuid.UUID(int=2), has_successor=True)])
        assert groups.offsets.fetch("g", "orders", 0) is None

    runs(scenario)


def test_an_offset_of_a_topic_that_is_gone_holds_for_no_other_one_of_its_name() -> None:
    """Its tombstone could not be written. By the id of the topic made again it must not be found, also not by the next
    coordinator: a group would begin behind records that nobody has read."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [of_topic(1, 7)]))
        held, of_transaction = groups.partition_for("g"), CommitRequest("g", "", None, -1, [of_topic(1, 9, 1)])
        assert await groups.offsets.commit_transactional(of_transaction, 5, 0) == [ErrorCode.NONE]
        groups.offsets.on_marker(held)(5, 0, True)
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await groups.offsets.on_topics_deleted([GoneTopic("orders", uuid.UUID(int=1))])
        log.error = ErrorCode.NONE
        for partition, value in ((0, 7), (1, 9)):
            found = groups.offsets.fetch("g", "orders", partition, uuid.UUID(int=1))
            assert found is not None
            assert found.offset == value
            assert groups.offsets.fetch("g", "orders", partition, uuid.UUID(int=2)) is None
        again = await coordinator(log)
        assert again.offsets.fetch("g", "orders", 0, uuid.UUID(int=1)) is not None
        assert again.offsets.fetch("g", "orders", 0, uuid.UUID(int=2)) is None

    runs(scenario)


@pytest.mark.parametrize("deletes", ["offsets", "topic"])
def test_what_is_committed_after_a_deletion_of_several_batches_stays(
    monkeypatch: pytest.MonkeyPatch, deletes: str
) -> None:
    """The later batches went into the log after the first was committed, and with them an offset of the topic that had
    been made again meanwhile."""
    monkeypatch.setattr("kavka.coordinator.groups.shard_writer.BATCH_BYTES", 50)

    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        offsets = [OffsetToCommit("orders", partition, 7, 3, "") for partition in range(6)]
        await groups.offsets.commit(CommitRequest("g", "", None, -1, offsets))
        log.commits_after_s = 0.02
        if deletes == "offsets":
            partitions = [("orders", partition) for partition in range(6)]
            deleting: asyncio.Future[object] = asyncio.ensure_future(groups.offsets.delete("g", partitions))
        else:
            deleting = asyncio.ensure_future(groups.offsets.on_topics_deleted([GoneTopic("orders")]))
        await asyncio.sleep(0.01)
        again = [OffsetToCommit("orders", partition, 1, 3, "") for partition in range(0, 6, 2)]
        await groups.offsets.commit(CommitRequest("g", "", None, -1, again))
        await deleting
        for one in (groups, await coordinator(log)):
            assert [(partition, c.offset) for _topic, partition, c in one.offsets.fetch_all("g")] == [
                (0, 1),
                (2, 1),
                (4, 1),
            ]

    runs(scenario)


def test_offsets_of_a_deleted_topic_are_gone_though_it_is_not_known_whether_their_tombstones_are_committed() -> None:
    """As in Apache Kafka, which forgets them when it writes. Else the topic made again was read from the former
    topic's offsets, until the next coordinator read the log."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)]))
        log.error, log.keeps_failed = ErrorCode.REQUEST_TIMED_OUT, True
        await groups.offsets.on_topics_deleted([GoneTopic("orders")])
        for one in (groups, await coordinator(log)):
            assert one.offsets.fetch_all("g") == []

    runs(scenario)


@pytest.mark.parametrize("deletes", ["group", "offsets"])
def test_what_may_come_back_is_not_said_to_be_gone(deletes: str) -> None:
    """Who asked for the deletion hears of a failure, and asks again. There is nothing left to delete, but the
    tombstones may be cut off with this leader."""

    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log, partitions=1)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)]))

        async def deleted() -> ErrorCode:
            try:
                if deletes == "group":
                    await groups.delete_group("g")
                else:
                    return (await groups.offsets.delete("g", [("orders", 0)]))[0]
            except RequestError as refused:
                return refused.code
            return ErrorCode.NONE

        log.error, log.keeps_failed, log.uncommitted = ErrorCode.REQUEST_TIMED_OUT, True, 1
        assert await deleted() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.error = ErrorCode.NONE
        assert await deleted() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(RequestError) as refused:  # Its reader would begin elsewhere.
            groups.offsets.fetch("g", "orders", 0)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.uncommitted = 0
        assert groups.offsets.fetch("g", "orders", 0) is None
        assert await deleted() is (ErrorCode.GROUP_ID_NOT_FOUND if deletes == "group" else ErrorCode.NONE)

    runs(scenario)


def test_offsets_of_a_topic_that_is_deleted_while_they_are_loaded_go_with_it() -> None:
    """Apache Kafka leaves them: a topic made again under its name is read from the former topic's offsets."""

    async def scenario() -> None:
        log = MemoryLog()
        offsets = [OffsetToCommit("orders", partition, 7, 3, "") for partition in range(2)]
        await (await coordinator(log, partitions=1)).offsets.commit(CommitRequest("g", "", None, -1, offsets))
        log.settled = asyncio.get_running_loop().create_future()
        groups = GroupCoordinator(
            asyncio.get_running_loop(),
            log,
            group_surroundings()._replace(classic_limits=LIMITS),
            offset_metadata_max_bytes=16,
        )
        groups.set_partition_count(1)
        loading = asyncio.ensure_future(groups.load(0, leader_epoch=1))
        await asyncio.sleep(0.01)
        await groups.offsets.on_topics_deleted([GoneTopic("orders")])
        log.settled.set_result(True)
        await loading
        # In the step in which the partition is served: what is committed from then on is of another topic.
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(1)]))
        for one in (groups, await coordinator(log, partitions=1)):
            assert [(partition, c.offset) for _topic, partition, c in one.offsets.fetch_all("g")] == [(0, 1)]

    runs(scenario)


def test_more_offsets_than_a_batch_holds_expire_a_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.coordinator.groups.shard_writer.BATCH_BYTES", 50)

    async def scenario() -> None:
        wall, log = Wall(), MemoryLog()
        groups = await coordinator_at(log, wall)
        offsets = [OffsetToCommit("orders", partition, 7, 3, "") for partition in range(6)]
        await groups.offsets.commit(CommitRequest("g", "", None, -1, offsets))
        wall.now_ms += 10_000
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [OffsetToCommit("orders", 6, 1, 3, "")]))
        log.commits_after_s = 0.02
        expiring = asyncio.ensure_future(groups.offsets.expire(5_000))
        await asyncio.sleep(0.01)
        # It waits for the first batch; what it would put into a later one is committed again meanwhile.
        await groups.offsets.commit(CommitRequest("g", "", None, -1, offsets[5:]))
        await expiring
        for one in (groups, await coordinator_at(log, wall)):
            left = [partition for _topic, partition, _committed in one.offsets.fetch_all("g")]
            assert 5 in left
            assert 0 not in left
        for _again in offsets:
            await groups.offsets.expire(5_000)
        assert [partition for _topic, partition, _committed in groups.offsets.fetch_all("g")] == [5, 6]

    runs(scenario)


def test_what_no_record_can_hold_leaves_nothing_pending() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        groups = await coordinator(log)
        endless = 2**63 - 1
        assert await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)], retention_ms=endless)) == [
            ErrorCode.NONE
        ]
        long_topic = OffsetToCommit("t" * 40_000, 0, 1, 0, "")
        with pytest.raises(EncodeError):
            await groups.offsets.commit_transactional(CommitRequest("g", "", None, -1, [long_topic]), 1, 0)
        assert groups.offsets.pending("g") == frozenset()

    runs(scenario)


def test_a_marker_that_comes_late_ends_nothing_of_the_next_transaction() -> None:
    """1. a marker is written once more, and waits for the followers; 2. the producer commits an offset in its next
    transaction; 3. both are committed. The offset was taken for committed, though the transaction may be aborted: then
    a group passed over what nobody has worked on."""

    async def scenario() -> None:
        groups = await coordinator(MemoryLog(), partitions=1)
        await groups.offsets.commit_transactional(CommitRequest("g", "", None, -1, [offset(41)]), 9, 0)
        groups.offsets.on_marker(0)(9, 1, True)
        late = groups.offsets.on_marker(0)
        await groups.offsets.commit_transactional(CommitRequest("g", "", None, -1, [offset(42)]), 9, 1)
        late(9, 1, True)
        found = groups.offsets.fetch("g", "orders", 0)
        assert found is not None
        assert found.offset == 41
        assert groups.offsets.pending("g") == {("orders", 0)}
        groups.offsets.on_marker(0)(9, 2, False)
        assert groups.offsets.fetch("g", "orders", 0) == found
        assert groups.offsets.pending("g") == frozenset()

    runs(scenario)


def test_a_marker_from_before_the_log_was_read_again_ends_nothing_once_more() -> None:
    """It was read with the log."""

    async def scenario() -> None:
        groups = await coordinator(MemoryLog(), partitions=1)
        before = groups.offsets.on_marker(0)
        await groups.load(0, 7)
        await groups.offsets.commit_transactional(CommitRequest("g", "", None, -1, [offset(42)]), 9, 1)
        before(9, 1, True)
        assert groups.offsets.fetch("g", "orders", 0) is None
        assert groups.offsets.pending("g") == {("orders", 0)}

    runs(scenario)


def test_an_offset_that_a_transaction_may_change_does_not_expire() -> None:
    async def scenario() -> None:
        wall = Wall()
        groups = await coordinator_at(MemoryLog(), wall)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(5)]))
        await groups.offsets.commit_transactional(CommitRequest("g", "", None, -1, [offset(6)]), 9, 0)
        wall.now_ms += 10_000
        await groups.offsets.expire(5_000)
        assert groups.offsets.fetch("g", "orders", 0) is not None
        groups.offsets.on_marker(0)(9, 0, False)
        await groups.offsets.expire(5_000)
        assert groups.list_groups() == []

    runs(scenario)


def test_a_client_that_names_a_retention_has_it() -> None:
    async def scenario() -> None:
        wall = Wall()
        log = MemoryLog()
        groups = await coordinator_at(log, wall)
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(5)], retention_ms=60_000))
        wall.now_ms += 59_999
        await groups.offsets.expire(5_000)
        restarted = await coordinator_at(log, wall)
        assert restarted.offsets.fetch("g", "orders", 0) is not None
        wall.now_ms += 1
        await restarted.offsets.expire(5_000)
        assert restarted.list_groups() == []

    runs(scenario)


def test_a_deletion_that_could_not_be_written_leaves_the_group_and_its_generation() -> None:
    async def scenario() -> None:
        wall = Wall()
        log = MemoryLog()
        groups = await coordinator_at(log, wall)
        joined = await groups.join("g", member())
        await groups.sync("g", SyncRequest(joined.member_id, None, 1, "consumer", "range", {}))
        await groups.leave("g", [Leaver(joined.member_id)])
        await asyncio.sleep(0.01)
        wall.now_ms += 10_000
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await groups.offsets.expire(5_000)
        log.error = ErrorCode.NONE
        assert (await groups.join("g", member())).generation == 3

    runs(scenario)


def test_offsets_of_topics_that_a_member_reads_are_not_deleted() -> None:
    async def scenario() -> None:
        subscription = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"
        groups = await coordinator(MemoryLog(), partitions=1)
        joined = await groups.join("g", member()._replace(protocols=[JoinProtocol("range", subscription)]))
        await groups.sync("g", SyncRequest(joined.member_id, None, 1, "consumer", "range", {}))
        both = [offset(5), offset(6)._replace(topic="bills")]
        await groups.offsets.commit(CommitRequest("g", joined.member_id, None, 1, both))
        errors = await groups.offsets.delete("g", [("orders", 0), ("bills", 0), ("bills", 7)])
        assert errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE]
        assert [topic for topic, _index, _offset in groups.offsets.fetch_all("g")] == ["orders"]
        with pytest.raises(RequestError) as refused:
            await groups.offsets.delete("unknown", [("orders", 0)])
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND

    runs(scenario)


def test_ids_of_groups_that_are_only_named_take_no_room() -> None:
    async def scenario() -> None:
        groups = await coordinator(MemoryLog(), partitions=1)
        for number in range(2 * MAX_NEW_GROUPS):
            group_id = f"group-{number}"
            for attempt in (
                groups.offsets.commit(CommitRequest(group_id, "m", None, 3, [offset(1)])),
                groups.delete_group(group_id),
                groups.sync(group_id, SyncRequest("m", None, 1, None, None, {})),
            ):
                with pytest.raises(RequestError):
                    await attempt
            assert await groups.leave(group_id, [Leaver("m")]) == [ErrorCode.UNKNOWN_MEMBER_ID]
            assert (await groups.join(group_id, member("stolen"))).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert groups.list_groups() == []

        newest = ""
        for number in range(2 * MAX_NEW_GROUPS):
            asked = member()._replace(require_known_member_id=True)
            newest = (await groups.join(f"group-{number}", asked)).member_id
        assert len(groups.list_groups()) == MAX_NEW_GROUPS
        last = f"group-{2 * MAX_NEW_GROUPS - 1}"
        assert (await groups.join(last, member(newest))).error is ErrorCode.NONE
        assert (await groups.join("group-0", member("forgotten"))).error is ErrorCode.UNKNOWN_MEMBER_ID

    runs(scenario)
