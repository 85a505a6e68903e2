"""Partitions that a broker hosts: how they are found, what appends and reads of them are answered and count, and what
the timer and the end of the broker do to who waits."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode, RequestError, StorageError
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.unified_log import UnifiedLog
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.records.batch import batch_at
from kavka.records.control import ControlType
from kavka.replication.decide.fetching import FetchOutcome, FetchParams, FetchSpec
from kavka.replication.decide.isr_states import IsrAnswer, IsrCommitted, IsrProposal, IsrRejected, PendingExpand
from kavka.replication.decide.partition import ACKS_ALL, Partition
from kavka.replication.delayed_requests import AppendOutcome
from kavka.replication.purgatory import DelayedOperation
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts
from tests.kit.virtual_time import in_virtual_time
from tests.unit.log.log_support import PARTITION, batch, grant, marker, new_log
from tests.unit.replication.replication_support import LAG_MS, TOPIC_ID, A, B, C
from tests.unit.replication.test_replica_manager import RACKS, SECOND, Room, StoresAll

SIZE = len(batch())
WALL_MS = 1_700_000_000_000
Fetched = list[FetchOutcome] | DelayedOperation[list[FetchOutcome]]


def in_room(path: Path, scenario: Callable[[Room], Awaitable[None]], **how: Any) -> None:
    async def main() -> None:
        await scenario(Room(path, **how))

    in_virtual_time(main)


def alone(room: Room) -> Room:
    """Leads both partitions without followers in sync: what is appended is committed."""
    room.lead((A,))
    return room


def at_once(fetched: Fetched) -> list[FetchOutcome]:
    assert isinstance(fetched, list)
    return fetched


def waiting(fetched: Fetched) -> asyncio.Future[list[FetchOutcome]]:
    assert isinstance(fetched, DelayedOperation)
    return fetched.answer


def sizes(outcomes: list[FetchOutcome]) -> list[int]:
    """Of each, in batches."""
    return [outcome.size_bytes // SIZE for outcome in outcomes]


def spec(index: int, offset: int = 0, max_bytes: int = 1 << 20, **more: Any) -> FetchSpec:
    return FetchSpec(TopicPartition("orders", index), TOPIC_ID, offset, max_bytes)._replace(**more)


def params(wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1 << 20, **more: Any) -> FetchParams:
    return FetchParams(wait_ms, min_bytes, max_bytes, read_committed=False)._replace(**more)


# -- which partitions are here


def test_a_partition_is_found_by_its_name_until_it_goes_and_its_topic_until_its_last_partition_does(
    tmp_path: Path,
) -> None:
    async def scenario(room: Room) -> None:
        replicas = room.replicas
        assert replicas.partition("orders", 0) is room.partition is replicas.require_partition("orders", 0)
        assert list(replicas.partitions()) == room.partitions
        assert replicas.topic_name(TOPIC_ID) == "orders"
        assert replicas.topic_name(uuid.UUID(int=9)) is None
        replicas.traffic.of("orders").bytes_in = 7
        assert replicas.unhost(PARTITION) is room.partition
        assert replicas.unhost(PARTITION) is None
        assert replicas.partition("orders", 0) is None
        assert replicas.topic_name(TOPIC_ID) == "orders", "the other partition is here"
        assert replicas.traffic.of("orders").bytes_in == 7
        replicas.take_offline([SECOND])
        assert replicas.topic_name(TOPIC_ID) is None
        assert (replicas.traffic.topics, replicas.traffic.gone.bytes_in) == ({}, 7)
        assert list(replicas.partitions()) == []

    in_room(tmp_path, scenario)


def test_a_partition_that_is_hosted_again_counts_once(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        for _ in range(3):
            room.replicas.host(room.partition)
        room.replicas.unhost(SECOND)
        assert room.replicas.topic_name(TOPIC_ID) == "orders"
        room.replicas.unhost(PARTITION)
        assert room.replicas.topic_name(TOPIC_ID) is None

    in_room(tmp_path, scenario)


def test_a_topic_that_gets_an_id_is_found_by_it_and_no_more_by_the_one_before(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        other = uuid.UUID(int=88)
        for partition in room.partitions:
            room.replicas.identify(partition, other)
        assert (room.replicas.topic_name(other), room.replicas.topic_name(TOPIC_ID)) == ("orders", None)
        for partition in room.partitions:
            room.replicas.identify(partition, uuid.UUID(int=0))
        assert room.replicas.topic_name(uuid.UUID(int=0)) is None, "that is no topic's own"
        assert room.replicas.topic_name(other) is None

    in_room(tmp_path, scenario)


def test_what_is_not_here_says_why(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        ports = ReplicaPorts(room.failures.append, is_elsewhere=lambda topic, index: (topic, index) == ("orders", 8))
        replicas = ReplicaManager(asyncio.get_running_loop(), ports)
        replicas.host(room.partition)
        assert (replicas.offline_count, replicas.is_offline(PARTITION)) == (0, False)
        replicas.take_offline([PARTITION, TopicPartition("orders", 7)])
        assert (replicas.offline_count, replicas.is_offline(PARTITION)) == (2, True)
        for index, error in (
            (0, ErrorCode.KAFKA_STORAGE_ERROR),
            (7, ErrorCode.KAFKA_STORAGE_ERROR),
            (8, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            assert replicas.absence("orders", index) is error
            with pytest.raises(RequestError) as refused:
                replicas.require_partition("orders", index)
            assert refused.value.code is error
            (outcome,) = replicas.read(params(), [spec(index)])
            assert outcome == FetchOutcome(spec(index), error)
            outcome_of_append = replicas.append("orders", index, batch(), required_acks=1, wall_ms=WALL_MS)
            assert outcome_of_append == AppendOutcome(error)
            assert replicas.when_committed("orders", index, AppendOutcome(ErrorCode.NONE), 10) == AppendOutcome(error)
            assert not replicas.is_committed("orders", index, AppendOutcome(ErrorCode.NONE))
        replicas.host(room.partition)
        assert (replicas.offline_count, replicas.partition("orders", 0)) == (1, room.partition)
        replicas.unhost(TopicPartition("orders", 7))
        assert replicas.offline_count == 0

    in_room(tmp_path, scenario)


def test_without_a_cluster_to_ask_nothing_is_elsewhere_and_the_clock_is_the_loops(tmp_path: Path) -> None:
    async def scenario() -> None:
        await asyncio.sleep(2.5)
        replicas = ReplicaManager(asyncio.get_running_loop(), ReplicaPorts(lambda failure: None))
        assert replicas.absence("orders", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert replicas.now_ms() == 0
        await asyncio.sleep(100.0)
        assert replicas.now_ms() == 100_000
        later = ReplicaManager(asyncio.get_running_loop(), ReplicaPorts(lambda failure: None, wall_ms=lambda: WALL_MS))
        await asyncio.sleep(7.0)
        assert later.now_ms() == WALL_MS + 7_000, "the wall clock's time when it was made, and what went by since"

    in_virtual_time(scenario)


# -- appending


def test_an_append_says_where_it_lies_and_counts(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        replicas = alone(room).replicas
        records = batch(3)
        for number in range(2):
            outcome = replicas.append("orders", 0, records, required_acks=ACKS_ALL, wall_ms=WALL_MS)
            assert outcome == AppendOutcome(ErrorCode.NONE, 3 * number, -1, 0, None, (), 3 * number + 3, None)
            assert replicas.is_committed("orders", 0, outcome)
        counts = replicas.traffic.of("orders")
        assert (counts.produces, counts.failed_produces, counts.messages_in) == (2, 0, 6)
        assert counts.bytes_in == 2 * len(records)
        assert room.partition.log.delete_records(2)
        assert replicas.append("orders", 0, records, required_acks=1, wall_ms=WALL_MS).log_start_offset == 2

    in_room(tmp_path, scenario)


def test_a_batch_that_is_there_already_is_answered_and_counts_no_records(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        replicas = alone(room).replicas
        records = batch(3, producer_id=7, epoch=0, sequence=0)
        outcomes = [
            replicas.append("orders", 0, bytearray(records), required_acks=1, wall_ms=WALL_MS) for _ in range(2)
        ]
        assert [(outcome.error, outcome.base_offset) for outcome in outcomes] == [(ErrorCode.NONE, 0)] * 2
        counts = replicas.traffic.of("orders")
        assert (counts.produces, counts.messages_in, counts.bytes_in) == (2, 3, len(records))

    in_room(tmp_path, scenario)


def test_a_refused_append_says_why_and_counts_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(room: Room) -> None:
        replicas = alone(room).replicas
        room.append()
        assert room.partition.log.delete_records(1)
        damaged = batch()
        damaged[-1] ^= 1
        outcome = replicas.append("orders", 0, damaged, required_acks=1, wall_ms=WALL_MS)
        assert (outcome.error, outcome.log_start_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
        assert outcome.message
        gap = batch(producer_id=7, epoch=0, sequence=5)
        replicas.append("orders", 0, batch(producer_id=7, epoch=0, sequence=0), required_acks=1, wall_ms=WALL_MS)
        outcome = replicas.append("orders", 0, gap, required_acks=1, wall_ms=WALL_MS)
        assert (outcome.error, outcome.log_start_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1)
        assert replicas.traffic.of("orders").failed_produces == 2
        room.follow()
        outcome = room.append()
        assert outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert outcome.message is not None
        assert "does not lead orders-0" in outcome.message
        assert replicas.traffic.of("orders").failed_produces == 3

        def fails(*_: object, **__: object) -> None:
            raise StorageError("disk", "Input/output error")

        room.lead((A,), leader_epoch=3, partition_epoch=6)
        monkeypatch.setattr(UnifiedLog, "append_as_leader", fails)
        assert room.append() == AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR)
        assert len(room.failures) == 1
        assert (replicas.traffic.gone.failed_produces, replicas.traffic.gone.produces) == (4, 6)

    in_room(tmp_path, scenario)


def test_an_append_needs_no_waiting_if_it_failed_or_enough_have_it(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B))
        outcome = room.append()
        assert outcome.committed_at == 1
        assert not room.replicas.is_committed("orders", 0, outcome)
        assert room.replicas.is_committed("orders", 5, AppendOutcome(ErrorCode.CORRUPT_MESSAGE))
        at_once(room.fetch(B, 1, wait_ms=0))
        assert room.replicas.is_committed("orders", 0, outcome)
        assert room.replicas.when_committed("orders", 0, outcome, 10) is outcome
        room.lead((A,), partition_epoch=1)
        assert not room.replicas.is_committed("orders", 0, outcome), "too few are left"

    in_room(tmp_path, scenario, min_insync_replicas=2)


def test_a_log_that_is_to_be_flushed_is_named(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        partition = Partition(
            PARTITION,
            TOPIC_ID,
            new_log(tmp_path / "flushed", flush_messages=1),
            local_broker_id=A,
            min_insync_replicas=1,
            rules=room.replicas.rules,
        )
        room.replicas.host(partition)
        room.replicas.lead(partition, LeaderAndIsr(A, 1, (A,), 0), (A,))
        assert room.append().flush is partition.log

    in_room(tmp_path, scenario)


# -- reading


@pytest.mark.parametrize(
    ("max_bytes", "partition_bytes", "given"),
    [
        (10 * SIZE, 10 * SIZE, [3, 2]),
        (4 * SIZE, 10 * SIZE, [3, 1]),
        (4 * SIZE - 1, 10 * SIZE, [3, 0]),
        (10 * SIZE, SIZE, [1, 1]),
        (10 * SIZE, 2 * SIZE - 1, [1, 1]),
        (1, 10 * SIZE, [1, 0]),  # KIP-74: the first batch of all is whole
        (10 * SIZE, 1, [1, 0]),
    ],
)
def test_partitions_share_the_fetchs_limit_in_its_order(
    tmp_path: Path, max_bytes: int, partition_bytes: int, given: list[int]
) -> None:
    async def scenario(room: Room) -> None:
        alone(room)
        for index, count in ((0, 3), (1, 2)):
            for _ in range(count):
                room.append(index)
        specs = [spec(index, 0, partition_bytes) for index in range(2)]
        assert sizes(room.replicas.read(params(max_bytes=max_bytes), specs)) == given
        nothing_first = [spec(0, 3, partition_bytes), spec(1, 0, partition_bytes)]
        assert sizes(room.replicas.read(params(max_bytes=1), nothing_first)) == [0, 1]

    in_room(tmp_path, scenario)


@pytest.mark.parametrize(
    ("min_bytes", "wait_ms", "waits"),
    [(2 * SIZE, 10_000, False), (2 * SIZE + 1, 10_000, True), (2 * SIZE + 1, 0, False), (2 * SIZE + 1, 1, True)],
)
def test_a_consumer_waits_for_its_bytes_if_it_may_wait(
    tmp_path: Path, min_bytes: int, wait_ms: int, *, waits: bool
) -> None:
    async def scenario(room: Room) -> None:
        alone(room)
        for index in range(2):
            room.append(index)
        fetched = room.replicas.fetch(params(wait_ms, min_bytes), [spec(0), spec(1)])
        assert isinstance(fetched, DelayedOperation) is waits
        if waits:
            assert sizes(await waiting(fetched)) == [1, 1]
            assert asyncio.get_running_loop().time() == pytest.approx(wait_ms / 1000)
        assert at_once(room.replicas.fetch(params(10_000), [])) == []

    in_room(tmp_path, scenario)


def test_a_batch_that_found_no_room_counts_as_there(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        alone(room)
        for index in range(2):
            room.append(index)
        specs = [spec(0), spec(1)]
        fetched = room.replicas.fetch(params(10_000, 2 * SIZE, max_bytes=2 * SIZE - 1), specs)
        assert sizes(at_once(fetched)) == [1, 0], "both are there, and one is all that may come"
        fetched = room.replicas.fetch(params(10_000, 2 * SIZE + 1, max_bytes=2 * SIZE - 1), specs)
        assert sizes(await waiting(fetched)) == [1, 0]
        small = [spec(0), spec(1, 0, SIZE - 1)]
        fetched = room.replicas.fetch(params(10_000, 2 * SIZE - 1, max_bytes=2 * SIZE - 1), small)
        assert sizes(at_once(fetched)) == [1, 0], "a batch counts up to what its partition may give"

    in_room(tmp_path, scenario)


def test_errors_other_replicas_and_logs_that_part_are_no_reason_to_wait(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B))
        room.append()
        at_once(room.fetch(B, 1, wait_ms=0))
        later = params(10_000)
        for one in (
            spec(0, 1, current_leader_epoch=2),
            spec(0, 1, topic_id=uuid.UUID(int=9)),
            spec(5),
            spec(0, 1, last_fetched_epoch=0),
        ):
            (outcome,) = at_once(room.replicas.fetch(later, [one]))
            assert outcome.error is not ErrorCode.NONE or outcome.diverging_epoch == (0, 0)
        (outcome,) = at_once(room.replicas.fetch(later._replace(rack="two"), [spec(0, 1)]))
        assert outcome == FetchOutcome(spec(0, 1), ErrorCode.NONE, 1, 1, 0, preferred_read_replica=B)
        assert waiting(room.replicas.fetch(later, [spec(0, 1, last_fetched_epoch=1)]))

    in_room(tmp_path, scenario, racks=True)


def test_a_consumer_is_sent_to_broker_0_as_to_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(room: Room) -> None:
        zero = BrokerId(0)
        monkeypatch.setitem(RACKS, zero, "zero")
        room.replicas.lead(room.partition, LeaderAndIsr(A, 1, (A, zero), 0), (A, zero))
        at_once(room.fetch(zero, 0, wait_ms=0))
        (outcome,) = at_once(room.consume(0, wait_ms=10_000, rack="zero"))
        assert (outcome.error, outcome.preferred_read_replica) == (ErrorCode.NONE, zero)

    in_room(tmp_path, scenario, racks=True)


def test_a_topic_of_another_id_is_another_topic_and_one_without_an_id_is_taken_by_its_name(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        alone(room)
        for topic_id, error in (
            (TOPIC_ID, ErrorCode.NONE),
            (uuid.UUID(int=0), ErrorCode.NONE),
            (uuid.UUID(int=9), ErrorCode.INCONSISTENT_TOPIC_ID),
        ):
            (outcome,) = room.replicas.read(params(), [spec(0, topic_id=topic_id)])
            assert outcome.error is error

    in_room(tmp_path, scenario)


def test_where_logs_part_is_told_by_the_leader_and_by_a_follower_to_who_may_ask_it(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        alone(room)
        room.append()
        one = spec(0, 1, last_fetched_epoch=0)

        def read(**how: Any) -> FetchOutcome:
            epoch = how.pop("epoch", -1)
            return room.replicas.read(params(**how), [one._replace(current_leader_epoch=epoch)])[0]

        expected = (ErrorCode.NONE, 1, 1, 0, (0, 0))
        for outcome in (read(), read(epoch=1), read(only_leader=False)):
            assert (outcome.error, *outcome[2:5], outcome.diverging_epoch) == expected
        assert read(epoch=0).error is ErrorCode.FENCED_LEADER_EPOCH
        room.follow()
        assert read(only_leader=True).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert read(only_leader=False).diverging_epoch == (0, 0)
        assert read(only_leader=False, epoch=1).error is ErrorCode.FENCED_LEADER_EPOCH
        (outcome,) = room.replicas.read(params(only_leader=False), [spec(0, 0, last_fetched_epoch=0)])
        assert outcome.diverging_epoch is None

    in_room(tmp_path, scenario)


def test_only_a_leader_sends_consumers_elsewhere_and_only_in_the_epoch_that_they_know(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B))
        room.append()
        at_once(room.fetch(B, 1, wait_ms=0))
        in_rack = params(rack="two", only_leader=False)

        def read(epoch: int = -1, rack: str = "two") -> FetchOutcome:
            return room.replicas.read(in_rack._replace(rack=rack), [spec(0, 1, current_leader_epoch=epoch)])[0]

        assert [read(epoch).preferred_read_replica for epoch in (-1, 1)] == [B, B]
        assert read(rack="").preferred_read_replica == -1
        assert read(epoch=2).error is ErrorCode.UNKNOWN_LEADER_EPOCH
        room.follow()
        assert (read().error, read().preferred_read_replica) == (ErrorCode.NONE, -1)

    in_room(tmp_path, scenario, racks=True)


def test_who_reads_what_is_committed_hears_of_aborted_transactions_in_what_it_got(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        replicas = alone(room).replicas
        records = batch(2, producer_id=7, epoch=0, sequence=0, transactional=True)
        log = room.partition.log
        sent = batch_at(memoryview(records))
        assert sent is not None
        grant(log, sent.header)
        assert replicas.append("orders", 0, records, required_acks=1, wall_ms=WALL_MS).error is ErrorCode.NONE
        committed = params(read_committed=True)
        (outcome,) = replicas.read(committed, [spec(0)])
        assert (outcome.size_bytes, outcome.aborted_transactions, outcome.last_stable_offset) == (0, (), 0)
        aborts = marker(ControlType.ABORT, producer_id=7)
        origin = AppendOrigin.COORDINATOR
        replicas.append("orders", 0, aborts, required_acks=1, wall_ms=WALL_MS, origin=origin)
        assert log.high_watermark == 3
        (outcome,) = replicas.read(committed, [spec(0)])
        assert outcome.aborted_transactions == [(7, 0)]
        (outcome,) = replicas.read(params(), [spec(0)])
        assert (outcome.aborted_transactions, outcome.last_stable_offset) == (None, 3)

    in_room(tmp_path, scenario)


# -- who is in sync


def test_the_timer_looks_twice_in_the_time_that_a_lag_may_last(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        looks: list[float] = []

        async def look() -> None:
            looks.append(asyncio.get_running_loop().time())

        room.replicas.shrink_isrs = look  # type: ignore[method-assign]
        running = asyncio.ensure_future(room.replicas.run_isr_expiration(30_000))
        await asyncio.sleep(50.0)
        assert looks == pytest.approx([15.0, 30.0, 45.0])
        running.cancel()

    in_room(tmp_path, scenario)


def test_isr_changes_count_by_what_became_of_them(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        running = asyncio.ensure_future(room.replicas.run_isr_changes(StoresAll()))
        room.lead((A, B))
        at_once(room.fetch(B, 0, 0, wait_ms=0))
        room.append()
        await asyncio.sleep(LAG_MS / 1000 + 1)
        await room.replicas.shrink_isrs()
        await asyncio.sleep(1.0)
        traffic = room.replicas.traffic
        assert room.partition.state.isr == (A,)
        assert (traffic.isr_shrinks, traffic.isr_expands, traffic.failed_isr_updates) == (1, 0, 0)
        at_once(room.fetch(B, 1, wait_ms=0))
        await asyncio.sleep(1.0)
        assert room.partition.state.isr == (A, B)
        assert (traffic.isr_shrinks, traffic.isr_expands, traffic.failed_isr_updates) == (1, 1, 0)
        running.cancel()

    in_room(tmp_path, scenario)


@pytest.mark.parametrize("answer", [IsrCommitted(LeaderAndIsr(A, 1, (A,), 1)), IsrRejected(ErrorCode.INVALID_REQUEST)])
def test_a_proposal_of_a_former_leader_epoch_counts_as_nothing_whatever_became_of_it(
    tmp_path: Path, answer: IsrAnswer
) -> None:
    """The order of the next epoch comes before the answer: Partition.submitAlterPartition looks at it no more."""

    async def scenario(room: Room) -> None:
        room.lead((A, B))
        await asyncio.sleep(LAG_MS / 1000 + 1)
        writer = Slow(answer)
        running = asyncio.ensure_future(room.replicas.run_isr_changes(writer))
        await room.replicas.shrink_isrs()
        await asyncio.sleep(0)
        assert [each.isr for each in writer.asked] == [(A,), (A,)]
        room.lead((A,), leader_epoch=2, partition_epoch=1)
        writer.goes_on.set()
        await asyncio.sleep(1.0)
        traffic = room.replicas.traffic
        assert (traffic.isr_shrinks, traffic.isr_expands, traffic.failed_isr_updates) == (0, 0, 0)
        assert room.partition.state == LeaderAndIsr(A, 2, (A,), 1)
        running.cancel()

    in_room(tmp_path, scenario)


class Slow:
    """Gives each proposal the same answer, when the test says so."""

    def __init__(self, answer: IsrAnswer) -> None:
        self.answer = answer
        self.asked: list[IsrProposal] = []
        self.goes_on = asyncio.Event()

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
        self.asked += proposals
        await self.goes_on.wait()
        return [self.answer for _ in proposals]


def test_the_answer_about_a_partition_that_has_left_meanwhile_is_nobodys(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B))
        await asyncio.sleep(LAG_MS / 1000 + 1)
        writer = Slow(IsrCommitted(LeaderAndIsr(A, 1, (A,), 1)))
        running = asyncio.ensure_future(room.replicas.run_isr_changes(writer))
        await room.replicas.shrink_isrs()
        await asyncio.sleep(0)
        room.replicas.unhost(PARTITION)
        writer.goes_on.set()
        await asyncio.sleep(1.0)
        assert not running.done()
        assert [each.state.isr for each in room.partitions] == [(A, B), (A,)]
        assert room.replicas.traffic.isr_shrinks == 1
        running.cancel()

    in_room(tmp_path, scenario)


def test_a_proposal_of_a_leader_that_is_none_any_more_is_not_sent(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B))
        await asyncio.sleep(LAG_MS / 1000 + 1)
        await room.replicas.shrink_isrs()
        assert room.replicas.isr_changes.waiting == 2
        room.replicas.unhost(PARTITION)
        room.replicas.lead(room.partitions[1], LeaderAndIsr(A, 2, (A, B), 1), (A, B, C))
        writer = Slow(IsrRejected(ErrorCode.INVALID_REQUEST))
        running = asyncio.ensure_future(room.replicas.run_isr_changes(writer))
        await asyncio.sleep(1.0)
        assert (writer.asked, room.replicas.isr_changes.waiting) == ([], 0)
        running.cancel()

    in_room(tmp_path, scenario)


# -- who waits


def test_who_waits_for_a_partition_that_leaves_is_told_and_who_waits_for_another_is_not(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead()
        outcome = room.append()
        loop = asyncio.get_running_loop()
        consumed, other = (
            waiting(room.consume(1, wait_ms=10_000)),
            waiting(room.replicas.fetch(params(10_000), [spec(1)])),
        )
        followed = waiting(room.fetch(B, 1))
        committed = room.replicas.when_committed("orders", 0, outcome, 10_000)
        assert isinstance(committed, asyncio.Future)
        deleted = loop.create_task(room.replicas.await_deleted(room.partition, 1, 10_000))
        await asyncio.sleep(0)
        room.replicas.unhost(PARTITION)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await committed).error is unknown
        assert [each.error for each in (await consumed) + (await followed)] == [unknown] * 2
        assert (await deleted).error is unknown
        assert not other.done()

    in_room(tmp_path, scenario)


def test_a_broker_that_ends_answers_all_who_wait_as_if_their_time_were_up(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead()
        outcome = room.append()
        consumed, followed = waiting(room.consume(0, wait_ms=10_000)), waiting(room.fetch(B, 1))
        committed = room.replicas.when_committed("orders", 0, outcome, 10_000)
        assert isinstance(committed, asyncio.Future)
        deleted = asyncio.ensure_future(room.replicas.await_deleted(room.partition, 1, 10_000))
        await asyncio.sleep(0)
        room.replicas.shut_down()
        assert sizes(consumed.result()) == sizes(followed.result()) == [0]
        assert committed.result().error is ErrorCode.REQUEST_TIMED_OUT
        assert (await deleted).error is ErrorCode.REQUEST_TIMED_OUT
        assert asyncio.get_running_loop().time() == 0, "and none of them later"

    in_room(tmp_path, scenario)


def test_who_has_gone_waits_no_more(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B))
        consumer, follower = room.consume(0, wait_ms=10_000), room.fetch(B, 0)
        for operation in (consumer, follower):
            assert isinstance(operation, DelayedOperation)
            room.replicas.cancel_fetch(operation)
            assert operation.answer.cancelled()
        assert room.replicas.fetch_purgatory.size == room.replicas.followers.purgatory.size == 0

    in_room(tmp_path, scenario)


def test_each_who_waits_is_woken_by_what_it_waits_for_and_by_nothing_else(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B, C))
        outcome = room.append()
        consumed = waiting(room.consume(0, wait_ms=10_000))
        committed = room.replicas.when_committed("orders", 0, outcome, 10_000)
        assert isinstance(committed, asyncio.Future)
        room.append()
        assert (consumed.done(), committed.done()) == (False, False)
        at_once(room.fetch(B, 1, wait_ms=0))
        assert (consumed.done(), committed.done()) == (False, False)
        at_once(room.fetch(C, 1, wait_ms=0))
        assert (consumed.done(), committed.done()) == (True, True)

    in_room(tmp_path, scenario)


def test_a_consumer_at_a_leader_without_followers_is_woken_by_the_append(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        alone(room)
        consumed = waiting(room.consume(0, wait_ms=10_000))
        room.append(1)
        assert not consumed.done()
        room.append()
        assert sizes(consumed.result()) == [1]

    in_room(tmp_path, scenario)


def test_a_producer_is_told_with_the_answer_that_leaves_too_few_in_sync(tmp_path: Path) -> None:
    """The high watermark does not rise then: nothing else would tell it before its time is up."""

    async def scenario(room: Room) -> None:
        room.lead((A, B))
        committed = room.replicas.when_committed("orders", 0, room.append(), 1_000_000)
        assert isinstance(committed, asyncio.Future)
        await asyncio.sleep(LAG_MS / 1000 + 1)
        running = asyncio.ensure_future(room.replicas.run_isr_changes(StoresAll()))
        await room.replicas.shrink_isrs()
        assert not committed.done()
        for _ in range(5):
            await asyncio.sleep(0)
        assert committed.result().error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert room.partition.log.high_watermark == 0
        running.cancel()

    in_room(tmp_path, scenario, min_insync_replicas=2)


def test_a_producer_is_told_with_the_answer_that_another_broker_leads(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B))
        committed = room.replicas.when_committed("orders", 0, room.append(), 1_000_000)
        assert isinstance(committed, asyncio.Future)
        await asyncio.sleep(LAG_MS / 1000 + 1)
        writer = Slow(IsrRejected(ErrorCode.INVALID_UPDATE_VERSION, LeaderAndIsr(B, 2, (A, B), 3)))
        writer.goes_on.set()
        running = asyncio.ensure_future(room.replicas.run_isr_changes(writer))
        await room.replicas.shrink_isrs()
        for _ in range(5):
            await asyncio.sleep(0)
        assert committed.result().error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        running.cancel()

    in_room(tmp_path, scenario)


def test_a_late_order_wakes_nobody(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B), leader_epoch=5, partition_epoch=5)
        followed = waiting(room.fetch(B, 0, leader_epoch=5))
        room.lead((A, B), leader_epoch=4, partition_epoch=4)
        room.follow(leader_epoch=4)
        assert not followed.done()
        assert room.partition.is_leader

    in_room(tmp_path, scenario)


def test_followers_hear_where_a_log_begins_also_while_it_is_idle(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        woken: list[Partition] = []
        room.replicas.followers.wake = woken.append  # type: ignore[method-assign]
        room.replicas.on_log_start_moved(SECOND)
        room.replicas.on_log_start_moved(TopicPartition("orders", 9))
        assert woken == [room.partitions[1]]

    in_room(tmp_path, scenario)


def test_the_timer_looks_no_more_at_what_is_followed_or_has_left(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B))
        room.replicas.unhost(SECOND)
        assert room.replicas.unsettled_count == 2
        await room.replicas.shrink_isrs()
        assert room.replicas.unsettled_count == 1
        room.replicas.follow(room.partition, LeaderAndIsr(B, 2, (A, B), 1), (A, B, C))
        await room.replicas.shrink_isrs()
        assert room.replicas.unsettled_count == 0

    in_room(tmp_path, scenario)


def test_the_timer_looks_at_a_partition_while_a_change_of_its_isr_is_under_way(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        alone(room)
        await room.replicas.shrink_isrs()
        assert room.replicas.unsettled_count == 0
        at_once(room.fetch(B, 0, wait_ms=0))
        assert isinstance(room.partition.isr_state, PendingExpand)
        assert room.replicas.unsettled_count == 1
        await room.replicas.shrink_isrs()
        assert room.replicas.unsettled_count == 1, "though all that there is lies on all of them"
        running = asyncio.ensure_future(room.replicas.run_isr_changes(StoresAll()))
        await asyncio.sleep(1.0)
        await room.replicas.shrink_isrs()
        assert (room.partition.state.isr, room.replicas.unsettled_count) == ((A, B), 0)
        running.cancel()

    in_room(tmp_path, scenario)


def test_of_very_many_partitions_500_are_looked_at_before_others_have_their_turn(tmp_path: Path) -> None:
    async def scenario(room: Room) -> None:
        room.lead((A, B))
        looked: list[Partition] = []
        turns: list[int] = []
        room.replicas._look_at = lambda partition, now_ms: looked.append(partition)  # type: ignore[method-assign]
        many = [
            Partition(
                TopicPartition("many", index),
                TOPIC_ID,
                room.partition.log,
                local_broker_id=A,
                min_insync_replicas=1,
                rules=room.replicas.rules,
            )
            for index in range(1_001)
        ]
        room.replicas._unsettled.clear()
        for partition in many:
            room.replicas.host(partition)

        async def others() -> None:
            while True:
                turns.append(len(looked))
                await asyncio.sleep(0)

        running = asyncio.ensure_future(others())
        await asyncio.sleep(0)
        await room.replicas.shrink_isrs()
        assert looked == many
        assert [turn for turn in dict.fromkeys(turns) if turn] == [500, 1_000]
        running.cancel()

    in_room(tmp_path, scenario)
