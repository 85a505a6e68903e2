"""Who waits for what: produce, consumers and followers around partitions that lead and follow."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode, StorageError
from kavka.log.unified_log import UnifiedLog
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.replication.decide.fetching import FetchOutcome, FetchParams, FetchSpec
from kavka.replication.decide.isr_states import IsrAnswer, IsrCommitted, IsrProposal, IsrRejected, PendingExpand
from kavka.replication.decide.lag_policy import TimeLagPolicy
from kavka.replication.decide.partition import ACKS_ALL, Partition
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.delayed_requests import AppendOutcome
from kavka.replication.purgatory import DelayedOperation
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts
from tests.unit.log.log_support import PARTITION, batch, new_log
from tests.unit.replication.replication_support import LAG_MS, TOPIC_ID, A, B, Brokers, C

RACKS = {A: "one", B: "two", C: "two"}
SECOND = TopicPartition("orders", 1)


class StoresAll:
    """Stores every proposal at once."""

    def __init__(self) -> None:
        self.written = asyncio.Event()

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
        self.written.set()
        return [IsrCommitted(each.state._replace(partition_epoch=each.partition_epoch + 1)) for each in proposals]


class Room:
    """Broker A with `orders-0` and `orders-1`, which replicas on A, B and C have."""

    def __init__(self, path: Path, *, racks: bool = False, min_insync_replicas: int = 1) -> None:
        self.brokers = Brokers(A, B, C)
        self.failures: list[StorageError] = []
        self.replicas = ReplicaManager(
            asyncio.get_running_loop(),
            ReplicaPorts(
                on_storage_error=self.on_storage_error,
                wall_ms=lambda: 1_700_000_000_000,
                rack_of=RACKS.get if racks else None,
            ),
            PartitionRules(TimeLagPolicy(LAG_MS), self.brokers),
        )
        self.partitions = [
            Partition(
                topic_partition,
                TOPIC_ID,
                new_log(path / str(topic_partition)),
                local_broker_id=A,
                min_insync_replicas=min_insync_replicas,
                rules=self.replicas.rules,
            )
            for topic_partition in (PARTITION, SECOND)
        ]
        for partition in self.partitions:
            self.replicas.host(partition)

    def on_storage_error(self, failure: StorageError) -> None:
        """As a broker: what lies in the directory is offline at once."""
        self.failures.append(failure)
        if "disk" in str(failure):
            self.replicas.take_offline([partition.topic_partition for partition in self.partitions])

    @property
    def partition(self) -> Partition:
        return self.partitions[0]

    def lead(self, isr: tuple[BrokerId, ...] = (A, B, C), *, leader_epoch: int = 1, partition_epoch: int = 0) -> None:
        for partition in self.partitions:
            self.replicas.lead(partition, LeaderAndIsr(A, leader_epoch, isr, partition_epoch), (A, B, C))

    def follow(self, leader: BrokerId = B, *, leader_epoch: int = 2) -> None:
        for partition in self.partitions:
            self.replicas.follow(partition, LeaderAndIsr(leader, leader_epoch, (A, B), 5), (A, B, C))

    def append(self, index: int = 0, *, acks: int = ACKS_ALL) -> AppendOutcome:
        return self.replicas.append("orders", index, batch(), required_acks=acks, wall_ms=1_700_000_000_000)

    def fetch(
        self, broker_id: BrokerId, *offsets: int, wait_ms: int = 10_000, min_bytes: int = 1, leader_epoch: int = 1
    ) -> list[FetchOutcome] | DelayedOperation[list[FetchOutcome]]:
        """A follower asks for these offsets of `orders-0`, `orders-1`."""
        specs = [
            FetchSpec(TopicPartition("orders", index), TOPIC_ID, offset, 1 << 20, leader_epoch, -1, 0)
            for index, offset in enumerate(offsets)
        ]
        params = FetchParams(wait_ms, min_bytes, 1 << 20, read_committed=False)
        return self.replicas.fetch_as_follower(params, specs, broker_id, -1)

    def consume(
        self, offset: int, *, wait_ms: int = 0, only_leader: bool = False, rack: str = ""
    ) -> list[FetchOutcome] | DelayedOperation[list[FetchOutcome]]:
        params = FetchParams(wait_ms, 1, 1 << 20, read_committed=False, only_leader=only_leader, rack=rack)
        return self.replicas.fetch(params, [FetchSpec(PARTITION, TOPIC_ID, offset, 1 << 20)])


def waiting(
    fetched: list[FetchOutcome] | DelayedOperation[list[FetchOutcome]],
) -> asyncio.Future[list[FetchOutcome]]:
    assert isinstance(fetched, DelayedOperation)
    return fetched.answer


def at_once(fetched: list[FetchOutcome] | DelayedOperation[list[FetchOutcome]]) -> list[FetchOutcome]:
    assert isinstance(fetched, list)
    return fetched


def in_loop(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(main())


def test_a_follower_reads_above_the_high_watermark_and_a_consumer_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        room.append()
        (outcome,) = at_once(room.fetch(B, 0))
        assert (outcome.error, outcome.high_watermark) == (ErrorCode.NONE, 0)
        assert outcome.size_bytes > 0
        (nothing,) = at_once(room.consume(0))
        assert nothing.size_bytes == 0

    in_loop(scenario)


def test_an_append_wakes_a_waiting_follower_once_for_all_appends_of_the_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        answer = waiting(room.fetch(B, 0, 0))
        room.append(0)
        room.append(1)
        room.append(0)
        assert not answer.done()
        first, second = await answer
        assert first.size_bytes == 2 * second.size_bytes > 0
        assert room.replicas.followers.purgatory.size == 0

    in_loop(scenario)


def test_fetches_of_all_followers_commit_and_wake_the_producer_and_the_consumer(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        outcome = room.append()
        assert not room.replicas.is_committed("orders", 0, outcome)
        produced = asyncio.ensure_future(room.replicas.await_committed("orders", 0, outcome, 10_000))
        consumed = waiting(room.consume(0, wait_ms=10_000))
        await asyncio.sleep(0)
        waiting(room.fetch(B, 1))
        assert not consumed.done()
        waiting(room.fetch(C, 1))
        assert (await produced).error is ErrorCode.NONE
        assert (await consumed)[0].size_bytes > 0

    in_loop(scenario)


def test_a_follower_is_told_the_high_watermark_that_its_own_fetch_raised(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A, B))
        room.append()
        (outcome,) = at_once(room.fetch(B, 1, wait_ms=0))
        assert outcome.high_watermark == 1

    in_loop(scenario)


def test_where_consumers_read_from_followers_a_new_high_watermark_wakes_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        for racks in (False, True):
            room = Room(tmp_path / str(racks), racks=racks)
            room.lead()
            room.append()
            at_once(room.fetch(B, 0))
            answer = waiting(room.fetch(B, 1))
            room.fetch(C, 1)
            await asyncio.sleep(0.01)
            assert answer.done() is racks
            if racks:
                assert (await answer)[0].high_watermark == 1

    in_loop(scenario)


def test_a_follower_that_waits_in_an_epoch_that_ended_is_fenced_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        answer = waiting(room.fetch(B, 0))
        room.lead(leader_epoch=2, partition_epoch=1)
        assert (await answer)[0].error is ErrorCode.FENCED_LEADER_EPOCH
        (early,) = at_once(room.fetch(B, 0, leader_epoch=9))
        assert early.error is ErrorCode.UNKNOWN_LEADER_EPOCH

    in_loop(scenario)


def test_of_many_roles_that_change_a_waiting_follower_hears_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        answer = waiting(room.fetch(B, 0, 0))
        with room.replicas.followers.roles_changing():
            for partition in room.partitions:
                room.replicas.lead(partition, LeaderAndIsr(A, 2, (A, B, C), 1), (A, B, C))
                await asyncio.sleep(0)
                assert not answer.done()
        assert answer.done()
        assert [outcome.error for outcome in await answer] == [ErrorCode.FENCED_LEADER_EPOCH] * 2
        assert room.replicas.followers.purgatory.size == 0

    in_loop(scenario)


def test_an_append_while_roles_change_tells_of_those_that_have_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        answer = waiting(room.fetch(B, 0, 0))
        with room.replicas.followers.roles_changing():
            room.replicas.lead(room.partition, LeaderAndIsr(A, 2, (A, B, C), 1), (A, B, C))
            room.append(1)
            first, second = await answer
        assert first.error is ErrorCode.FENCED_LEADER_EPOCH
        assert second.size_bytes > 0

    in_loop(scenario)


def test_who_waits_at_a_leader_that_is_none_any_more_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        outcome = room.append()
        produced = asyncio.ensure_future(room.replicas.await_committed("orders", 0, outcome, 10_000))
        fetched = waiting(room.fetch(B, 1))
        await asyncio.sleep(0)
        room.follow()
        assert (await produced).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await fetched)[0].error is ErrorCode.FENCED_LEADER_EPOCH

    in_loop(scenario)


def test_kafka13141_a_fetch_that_has_diverged_counts_for_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A, B))
        room.append()
        room.lead((A, B), leader_epoch=3, partition_epoch=1)
        spec = FetchSpec(PARTITION, TOPIC_ID, 1, 1 << 20, 3, 2, 0)
        params = FetchParams(0, 1, 1 << 20, read_committed=False)
        (outcome,) = at_once(room.replicas.fetch_as_follower(params, [spec], B, -1))
        assert outcome.diverging_epoch == (1, 1)
        assert room.partition.log.high_watermark == 0
        remote = room.partition.remote_replica(B)
        assert remote is not None
        assert remote.log_end_offset == -1

    in_loop(scenario)


def test_a_follower_that_lags_leaves_the_isr_and_the_producer_has_its_answer(tmp_path: Path) -> None:
    """S15, KAFKA-13091: the answer to the proposal alone completes what waits."""

    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A, B))
        outcome = room.append()
        produced = asyncio.ensure_future(room.replicas.await_committed("orders", 0, outcome, 10_000))
        changes = asyncio.ensure_future(room.replicas.run_isr_changes(StoresAll()))
        await asyncio.sleep(0)
        assert not produced.done()
        for remote in room.partition.remote_replicas():
            remote.last_caught_up_ms = room.replicas.now_ms() - LAG_MS - 1
        await room.replicas.shrink_isrs()
        assert (await produced).error is ErrorCode.NONE
        assert room.partition.state.isr == (A,)
        changes.cancel()

    in_loop(scenario)


def test_a_producer_does_not_wait_for_a_dead_replica_that_was_about_to_join(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A,))
        for follower in (B, C):  # B is proposed, and C caught up meanwhile.
            room.partition.record_follower_fetch(follower, -1, 0, leader_end_offset=0, now_ms=room.replicas.now_ms())
        room.lead((A,), partition_epoch=1)
        outcome = room.append()
        produced = asyncio.ensure_future(room.replicas.await_committed("orders", 0, outcome, 10_000))
        await asyncio.sleep(0)
        await room.replicas.shrink_isrs()
        assert not produced.done()
        room.brokers.statuses.clear()
        await room.replicas.shrink_isrs()
        assert (await produced).error is ErrorCode.NONE

    in_loop(scenario)


def test_a_producer_at_a_leader_whose_epoch_is_over_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A, B))
        outcome = room.append()
        produced = asyncio.ensure_future(room.replicas.await_committed("orders", 0, outcome, 10_000))
        await asyncio.sleep(0)
        for remote in room.partition.remote_replicas():
            remote.last_caught_up_ms = room.replicas.now_ms() - LAG_MS - 1
        proposal = room.partition.propose_shrink(room.replicas.now_ms())
        assert proposal is not None
        room.partition.on_isr_rejected(proposal, None, ErrorCode.FENCED_LEADER_EPOCH, now_ms=room.replicas.now_ms())
        await room.replicas.shrink_isrs()
        assert (await produced).error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    in_loop(scenario)


def test_s23_the_producer_is_told_at_once_when_too_few_are_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path, min_insync_replicas=2)
        room.lead((A, B))
        outcome = room.append()
        assert outcome.error is ErrorCode.NONE
        produced = asyncio.ensure_future(room.replicas.await_committed("orders", 0, outcome, 10_000))
        await asyncio.sleep(0)
        room.lead((A,), partition_epoch=1)
        assert (await produced).error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert room.append().error is ErrorCode.NOT_ENOUGH_REPLICAS
        assert room.partition.log.log_end_offset == 1

    in_loop(scenario)


def test_a_follower_that_has_caught_up_joins(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A, B))
        writer = StoresAll()
        changes = asyncio.ensure_future(room.replicas.run_isr_changes(writer))
        room.fetch(C, 0, 0)
        await writer.written.wait()
        assert [partition.state for partition in room.partitions] == [LeaderAndIsr(A, 1, (A, B, C), 1)] * 2
        changes.cancel()

    in_loop(scenario)


def test_the_isr_expiration_runs_twice_in_the_time_that_a_lag_may_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A, B))
        room.append()
        for remote in room.partition.remote_replicas():
            remote.last_caught_up_ms = 0
        writer = StoresAll()
        changes = asyncio.ensure_future(room.replicas.run_isr_changes(writer))
        expiration = asyncio.ensure_future(room.replicas.run_isr_expiration(20))
        await writer.written.wait()
        assert room.partition.state.isr == (A,)
        expiration.cancel()
        changes.cancel()

    in_loop(scenario)


@pytest.mark.setting("replica.selector.class")
def test_a_consumer_is_sent_to_a_replica_in_its_rack_that_has_the_offset(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path, racks=True)
        room.lead((A, B))
        room.append()
        room.append()
        room.fetch(B, 1)
        room.fetch(C, 2)
        assert [at_once(room.consume(1, rack=rack))[0].preferred_read_replica for rack in ("two", "one", "")] == [
            B,
            -1,
            -1,
        ]
        (redirected,) = at_once(room.consume(1, rack="two", wait_ms=10_000))
        assert (redirected.error, redirected.size_bytes) == (ErrorCode.NONE, 0)
        assert at_once(room.consume(2, rack="two"))[0].preferred_read_replica == -1, "B is not there yet, C not in sync"

    in_loop(scenario)


def test_a_consumer_at_a_follower_waits_for_the_followers_high_watermark(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.follow()
        consumed = waiting(room.consume(0, wait_ms=10_000))
        room.partition.append_as_follower(batch(leader_epoch=2), leader_epoch=2, wall_ms=0)
        room.replicas.on_follower_advanced(room.partition)
        assert not consumed.done()
        room.partition.set_follower_high_watermark(1)
        room.replicas.on_follower_advanced(room.partition)
        assert (await consumed)[0].size_bytes > 0
        (refused,) = at_once(room.consume(0, only_leader=True))
        assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    in_loop(scenario)


def test_a_consumer_does_not_wait_for_bytes_that_its_own_limit_keeps_from_it(tmp_path: Path) -> None:
    # fetch.min.bytes = max.partition.fetch.bytes is 1 MiB with many who want large answers. Whole batches are never
    # exactly as many, and a reader of a long log would wait fetch.max.wait.ms before each answer.
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead(isr=(A,))
        for _ in range(10):
            room.append()
        limit = 3 * len(batch()) + 1
        params = FetchParams(10_000, limit, 1 << 20, read_committed=False)
        (outcome,) = at_once(room.replicas.fetch(params, [FetchSpec(PARTITION, TOPIC_ID, 0, limit)]))
        assert outcome.size_bytes == 3 * len(batch())
        (outcome,) = at_once(
            room.replicas.fetch(params._replace(max_bytes=limit), [FetchSpec(PARTITION, TOPIC_ID, 0, 1 << 20)])
        )
        assert outcome.size_bytes == 3 * len(batch())
        consumed = waiting(room.replicas.fetch(params, [FetchSpec(PARTITION, TOPIC_ID, 8, limit)]))
        room.append()
        assert not consumed.done(), "three batches are less than what it asks for, and there is no other"
        room.append()
        assert (await consumed)[0].size_bytes == 3 * len(batch())
        more = params._replace(min_bytes=limit + 1)
        assert waiting(room.replicas.fetch(more, [FetchSpec(PARTITION, TOPIC_ID, 0, limit)])), (
            "others may have the rest"
        )

    in_loop(scenario)


def test_a_reader_of_an_older_segment_does_not_wait_at_its_end_for_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead(isr=(A,))
        for _ in range(3):
            room.append()
            room.partition.log.roll(0)
        room.append()
        room.fetch(B, 0)
        params = FetchParams(10_000, 1 << 20, 1 << 20, read_committed=False)
        (outcome,) = at_once(room.replicas.fetch(params, [FetchSpec(PARTITION, TOPIC_ID, 1, 1 << 20)]))
        assert outcome.size_bytes == len(batch())
        (outcome,) = at_once(room.fetch(B, 1, min_bytes=1 << 20))
        assert outcome.size_bytes == len(batch())
        assert waiting(room.replicas.fetch(params, [FetchSpec(PARTITION, TOPIC_ID, 3, 1 << 20)]))

    in_loop(scenario)


def test_a_throttled_follower_outside_of_the_isr_waits_and_a_member_does_not(tmp_path: Path) -> None:
    class Exhausted:
        sent = 0

        def withholds(self, topic_partition: TopicPartition, broker_id: BrokerId) -> bool:
            return True

        def note_sent(self, topic_partition: TopicPartition, broker_id: BrokerId, size_bytes: int) -> None:
            self.sent += size_bytes

    async def scenario() -> None:
        throttle = Exhausted()
        replicas = ReplicaManager(asyncio.get_running_loop(), ReplicaPorts(lambda failure: None, throttle=throttle))
        partition = Partition(
            PARTITION, TOPIC_ID, new_log(tmp_path), local_broker_id=A, min_insync_replicas=1, rules=replicas.rules
        )
        replicas.host(partition)
        replicas.lead(partition, LeaderAndIsr(A, 1, (A, B), 0), (A, B, C))
        replicas.append("orders", 0, batch(), required_acks=1, wall_ms=1_700_000_000_000)
        params = FetchParams(0, 1, 1 << 20, read_committed=False)
        spec = FetchSpec(PARTITION, TOPIC_ID, 0, 1 << 20, 1, -1, 0)
        assert at_once(replicas.fetch_as_follower(params, [spec], C, -1))[0].size_bytes == 0
        (sent,) = at_once(replicas.fetch_as_follower(params, [spec], B, -1))
        assert throttle.sent == sent.size_bytes > 0

    in_loop(scenario)


def test_what_is_sent_to_a_throttled_follower_counts_once_also_where_its_fetch_waited(tmp_path: Path) -> None:
    class Counting:
        sent = 0

        def withholds(self, topic_partition: TopicPartition, broker_id: BrokerId) -> bool:
            return False

        def note_sent(self, topic_partition: TopicPartition, broker_id: BrokerId, size_bytes: int) -> None:
            self.sent += size_bytes

    async def scenario() -> None:
        throttle = Counting()
        replicas = ReplicaManager(asyncio.get_running_loop(), ReplicaPorts(lambda failure: None, throttle=throttle))
        partition = Partition(
            PARTITION, TOPIC_ID, new_log(tmp_path), local_broker_id=A, min_insync_replicas=1, rules=replicas.rules
        )
        replicas.host(partition)
        replicas.lead(partition, LeaderAndIsr(A, 1, (A, B), 0), (A, B, C))
        size_bytes = len(batch())
        params = FetchParams(10_000, 2 * size_bytes, 1 << 20, read_committed=False)
        spec = FetchSpec(PARTITION, TOPIC_ID, 0, 1 << 20, 1, -1, 0)
        fetched = waiting(replicas.fetch_as_follower(params, [spec], B, -1))
        replicas.append("orders", 0, batch(), required_acks=1, wall_ms=1_700_000_000_000)
        await asyncio.sleep(0)
        assert (fetched.done(), throttle.sent) == (False, 0), "it waits for more, and nothing was sent"
        replicas.append("orders", 0, batch(), required_acks=1, wall_ms=1_700_000_000_000)
        assert (await fetched)[0].size_bytes == throttle.sent == 2 * size_bytes
        replicas.fetch_as_follower(params, [spec], B, -1)
        assert throttle.sent == 4 * size_bytes, "an answer that need not wait"

    in_loop(scenario)


def test_records_of_a_topic_do_not_go_into_another_of_its_name(tmp_path: Path) -> None:
    """1. A topic is deleted, and made again under its name; 2. this broker leads the new one, and has not been told of
    the deletion; 3. a producer that knows only the former one names it by its id."""

    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A,))

        def append(topic_id: uuid.UUID | None) -> ErrorCode:
            return room.replicas.append(
                "orders", 0, batch(), required_acks=1, wall_ms=1_700_000_000_000, topic_id=topic_id
            ).error

        assert append(uuid.UUID(int=99)) is ErrorCode.UNKNOWN_TOPIC_ID
        assert room.partition.log.log_end_offset == 0
        assert (append(TOPIC_ID), append(None)) == (ErrorCode.NONE, ErrorCode.NONE)
        room.replicas.identify(room.partition, uuid.UUID(int=0))
        assert append(TOPIC_ID) is ErrorCode.NONE, "of what is here no id is known yet"

    in_loop(scenario)


@pytest.mark.parametrize(
    ("topic_id", "index", "error"),
    [
        (TOPIC_ID, 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (uuid.UUID(int=99), 0, ErrorCode.INCONSISTENT_TOPIC_ID),
    ],
)
def test_a_follower_that_asks_for_what_is_not_here_is_told(
    tmp_path: Path, topic_id: uuid.UUID, index: int, error: ErrorCode
) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        spec = FetchSpec(TopicPartition("orders", index), topic_id, 0, 1 << 20, 1, -1, 0)
        params = FetchParams(10_000, 1, 1 << 20, read_committed=False)
        (outcome,) = at_once(room.replicas.fetch_as_follower(params, [spec], B, -1))
        assert outcome.error is error

    in_loop(scenario)


def test_an_offset_behind_the_log_is_out_of_range_and_moves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        (outcome,) = at_once(room.fetch(B, 7))
        assert outcome.error is ErrorCode.OFFSET_OUT_OF_RANGE
        remote = room.partition.remote_replica(B)
        assert remote is not None
        assert remote.log_end_offset == -1

    in_loop(scenario)


def test_deleted_records_are_gone_when_all_live_replicas_have_forgotten_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        for _ in range(3):
            room.append()
        room.fetch(B, 3)
        room.fetch(C, 3)
        assert room.partition.log.delete_records(2)
        del room.brokers.statuses[C]
        deleted = asyncio.ensure_future(room.replicas.await_deleted(room.partition, 2, 10_000))
        await asyncio.sleep(0)
        assert not deleted.done()
        spec = FetchSpec(PARTITION, TOPIC_ID, 3, 1 << 20, 1, -1, log_start_offset=2)
        room.replicas.fetch_as_follower(FetchParams(0, 1, 1 << 20, read_committed=False), [spec], B, -1)
        assert await deleted == (ErrorCode.NONE, 2)
        room.brokers.statuses[C] = room.brokers.statuses[B]
        assert await room.replicas.await_deleted(room.partition, 2, 1) == (ErrorCode.REQUEST_TIMED_OUT, 0)

    in_loop(scenario)


@pytest.mark.parametrize("reader", ["consumer", "follower"])
def test_a_disk_that_fails_under_a_waiting_fetch_answers_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """The failure takes the partition offline, which wakes who waits for it: the very fetch that met the failure."""

    def fails(*_: object, **__: object) -> None:
        raise StorageError("disk", "Input/output error")

    bugs: list[dict[str, object]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: bugs.append(context))
        room = Room(tmp_path)
        room.lead(isr=(A,))
        fetch = waiting(room.consume(0, wait_ms=10_000) if reader == "consumer" else room.fetch(B, 0))
        monkeypatch.setattr(UnifiedLog, "read", fails)
        assert room.append().error is ErrorCode.NONE
        (outcome,) = await fetch
        assert outcome.error is ErrorCode.KAFKA_STORAGE_ERROR
        assert len(room.failures) == 1
        assert room.replicas.fetch_purgatory.size == room.replicas.followers.purgatory.size == 0

    asyncio.run(scenario())
    assert bugs == []


def test_a_disk_that_fails_under_the_second_look_of_a_fetch_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that found no room is looked at again, alone, before the fetch waits."""
    read = UnifiedLog.read
    looks = 0

    def fails_at_last(log: UnifiedLog, *arguments: int, **named: int) -> object:
        nonlocal looks
        looks += 1
        if looks > 2:
            raise StorageError("disk", "Input/output error")
        return read(log, *arguments, **named)  # type: ignore[arg-type]

    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead(isr=(A,))
        size = len(batch())
        for index in (0, 1):
            room.append(index)
        monkeypatch.setattr(UnifiedLog, "read", fails_at_last)
        params = FetchParams(10_000, 2 * size, size + 1, read_committed=False)
        specs = [FetchSpec(partition.topic_partition, TOPIC_ID, 0, size + 1) for partition in room.partitions]
        outcomes = at_once(room.replicas.fetch(params, specs))
        assert [outcome.error for outcome in outcomes] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2

    asyncio.run(scenario())


def test_the_timer_looks_at_partitions_that_time_alone_may_change_and_at_no_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A, B))
        assert room.replicas.unsettled_count == 2
        at_once(room.fetch(B, 0, wait_ms=0))
        await room.replicas.shrink_isrs()
        assert room.replicas.unsettled_count == 1, "B has not fetched orders-1 yet"
        at_once(room.fetch(B, 0, 0, wait_ms=0))
        await room.replicas.shrink_isrs()
        assert room.replicas.unsettled_count == 0, "B has all there is, and may be silent from now on"
        room.append()
        assert room.replicas.unsettled_count == 1
        at_once(room.fetch(B, 1, 0, wait_ms=0))
        await room.replicas.shrink_isrs()
        assert room.replicas.unsettled_count == 0
        room.follow()
        await room.replicas.shrink_isrs()
        assert room.replicas.unsettled_count == 0

    in_loop(scenario)


def test_a_follower_that_was_settled_and_does_not_fetch_what_came_since_leaves_the_isr(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A, B))
        at_once(room.fetch(B, 0, 0, wait_ms=0))
        await room.replicas.shrink_isrs()
        changes = asyncio.ensure_future(room.replicas.run_isr_changes(StoresAll()))
        grow_old(room)
        await room.replicas.shrink_isrs()
        await asyncio.sleep(0)
        assert room.partition.state.isr == (A, B), "silent for long, and behind in nothing"
        room.append(acks=1)
        await room.replicas.shrink_isrs()
        await asyncio.sleep(0)
        assert room.partition.state.isr == (A,)
        assert room.partitions[1].state.isr == (A, B)
        changes.cancel()

    in_loop(scenario)


@pytest.mark.parametrize("seed", range(12))
def test_the_timer_misses_nothing_that_a_look_at_all_partitions_finds(tmp_path: Path, seed: int) -> None:
    """Two brokers live the same life; one of them takes all partitions as new before each look."""

    async def scenario() -> None:
        rooms = [Room(tmp_path / name) for name in ("one", "other")]
        lives = [Life(room, random.Random(seed)) for room in rooms]
        changes = [asyncio.ensure_future(room.replicas.run_isr_changes(StoresSome(seed))) for room in rooms]
        for _ in range(60):
            for life in lives:
                life.step()
            for partition in rooms[1].partitions:
                rooms[1].replicas.host(partition)
            if lives[0].looks:
                for room in rooms:
                    await room.replicas.shrink_isrs()
            await asyncio.sleep(0)
            assert lives[0].seen() == lives[1].seen()
        for each in changes:
            each.cancel()

    in_loop(scenario)


class Life:
    """What happens to a broker's partitions, by chance."""

    def __init__(self, room: Room, chance: random.Random) -> None:
        self._room = room
        self._chance = chance
        self._epoch = 1
        self.looks = False
        room.lead((A, B, C))

    def step(self) -> None:
        self.looks = self._chance.random() < 0.4
        happens = self._chance.choices(("append", "all fetch", "one fetches", "time", "order"), (25, 30, 15, 20, 10))[0]
        index, broker_id = self._chance.randrange(2), self._chance.choice((B, C))
        ends = [partition.log.log_end_offset for partition in self._room.partitions]
        if happens == "append":
            self._room.append(index, acks=1)
        elif happens == "all fetch":
            for follower in (B, C):
                self._room.fetch(follower, *ends, wait_ms=0, leader_epoch=self._epoch)
        elif happens == "one fetches":
            self._room.fetch(broker_id, max(ends[0] - 1, 0), ends[1], wait_ms=0, leader_epoch=self._epoch)
        elif happens == "time":
            grow_old(self._room)
        else:
            self._epoch += 1
            isr = self._chance.choice(((A,), (A, B), (A, B, C)))
            self._room.lead(isr, leader_epoch=self._epoch, partition_epoch=self._epoch)

    def seen(self) -> list[object]:
        return [
            (each.role, each.state, type(each.isr_state), each.isr_state.maximal_isr, each.log.high_watermark)
            for each in self._room.partitions
        ]


def grow_old(room: Room) -> None:
    """All followers were last caught up longer ago than they may lag."""
    for partition in room.partitions:
        for remote in partition.remote_replicas():
            remote.last_caught_up_ms = room.replicas.now_ms() - LAG_MS - 1


class StoresSome:
    """Stores a proposal, refuses it, or leaves open what became of it. Equal proposals have equal answers."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
        return [self._answer(each) for each in proposals]

    def _answer(self, proposal: IsrProposal) -> IsrAnswer:
        chance = random.Random(f"{self._seed} {proposal.topic_partition} {proposal.isr} {proposal.state}")
        stored = proposal.state._replace(partition_epoch=proposal.partition_epoch + 1)
        answers: tuple[IsrAnswer, ...] = (
            IsrCommitted(stored),
            IsrRejected(ErrorCode.INELIGIBLE_REPLICA),
            IsrRejected(ErrorCode.INVALID_UPDATE_VERSION),
            IsrRejected(ErrorCode.FENCED_LEADER_EPOCH),
        )
        return chance.choice(answers)


def test_a_follower_that_waited_is_answered_with_what_was_read_when_it_was_woken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead()
        fetched = waiting(room.fetch(B, 0, 0))
        reads: list[FetchSpec] = []
        read_one = room.replicas.followers.read_one

        def counted(spec: FetchSpec, *rest: Any, **named: Any) -> FetchOutcome:
            reads.append(spec)
            return read_one(spec, *rest, **named)

        monkeypatch.setattr(room.replicas.followers, "read_one", counted)
        room.append(1)
        first, second = await fetched
        assert (first.size_bytes, second.size_bytes) == (0, len(batch()))
        assert [spec.topic_partition for spec in reads] == [SECOND]

    in_loop(scenario)


def test_a_follower_that_waited_gets_what_fits_where_two_partitions_changed(tmp_path: Path) -> None:
    async def scenario() -> None:
        room, size_bytes = Room(tmp_path), len(batch())
        room.lead()
        specs = [FetchSpec(tp, TOPIC_ID, 0, 1 << 20, 1, -1, 0) for tp in (PARTITION, SECOND)]
        params = FetchParams(10_000, 1, size_bytes + size_bytes // 2, read_committed=False)
        fetched = waiting(room.replicas.fetch_as_follower(params, specs, B, -1))
        room.append(1)
        room.append(0)
        sizes = [outcome.size_bytes for outcome in await fetched]
        assert sizes == [size_bytes, 0], "in the order of the fetch, up to its bound, whichever was looked at first"

    in_loop(scenario)


def test_appends_to_several_partitions_wait_at_the_same_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        room = Room(tmp_path, min_insync_replicas=2)
        room.lead()
        futures = [room.replicas.when_committed("orders", index, room.append(index), 50) for index in (0, 1)]
        done, _ = await asyncio.wait([f for f in futures if isinstance(f, asyncio.Future)], timeout=5)
        assert {future.result().error for future in done} == {ErrorCode.REQUEST_TIMED_OUT}
        assert len(done) == 2
        assert room.replicas.when_committed("orders", 5, room.append(0), 50) == AppendOutcome(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    in_loop(scenario)


def test_who_dies_outside_of_the_isr_holds_nothing_back_any_more(tmp_path: Path) -> None:
    """The high watermark waits for a replica that is about to join. Nothing else would look until the limit is over."""

    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A,))
        waiting(room.fetch(B, 0, 0))
        waiting(room.fetch(C, 0, 0))
        outcome = room.append()
        committed = asyncio.ensure_future(room.replicas.await_committed("orders", 0, outcome, 60_000))
        waiting(room.fetch(B, 1, 0))
        await asyncio.sleep(0)
        assert room.partition.log.high_watermark == 0, "C is so close that it may join"
        del room.brokers.statuses[C]
        room.replicas.on_brokers_gone()
        assert (await committed) is outcome
        assert room.partition.log.high_watermark == 1
        assert room.partitions[1].log.high_watermark == 0, "nothing waits there"

    in_loop(scenario)


def test_readers_do_not_wait_for_a_replica_outside_of_the_isr_that_fetches_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With acks=1 no request waits for the record. Its readers wait for the timer, and not for the next record."""

    async def scenario() -> None:
        room = Room(tmp_path)
        room.lead((A,))
        waiting(room.fetch(B, 0, 0))
        pending = room.partition.isr_state
        assert isinstance(pending, PendingExpand)
        waiting(room.fetch(C, 0, 0))
        stored = LeaderAndIsr(A, 1, (A, B), 1)
        room.partition.on_isr_committed(pending.proposal, stored, now_ms=room.replicas.now_ms())
        room.append(acks=1)
        waiting(room.fetch(B, 1, 0))
        consumed = waiting(room.consume(0, wait_ms=10_000))
        await room.replicas.shrink_isrs()
        assert room.partition.log.high_watermark == 0, "C may join"
        lagging_ms = room.replicas.now_ms() + LAG_MS + 1
        monkeypatch.setattr(room.replicas, "now_ms", lambda: lagging_ms)
        await room.replicas.shrink_isrs()
        assert room.partition.log.high_watermark == 1
        (answer,) = await consumed
        assert answer.size_bytes
        await room.replicas.shrink_isrs()

    in_loop(scenario)


def test_who_hears_late_that_its_epoch_is_over_stops_leading_at_the_timers_next_look(tmp_path: Path) -> None:
    """1. A leader proposes; 2. the controller's word on the same epoch comes, and all is settled; 3. the answer comes:
    another leads. Without an append nothing had looked at it again, and readers went on at a former leader."""

    class Late:
        def __init__(self) -> None:
            self.goes_on = asyncio.Event()

        async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
            await self.goes_on.wait()
            return [IsrRejected(ErrorCode.FENCED_LEADER_EPOCH) for _ in proposals]

    async def scenario() -> None:
        room, controller = Room(tmp_path), Late()
        running = asyncio.ensure_future(room.replicas.run_isr_changes(controller))
        room.lead((A,))
        waiting(room.fetch(B, 0, 0))
        await asyncio.sleep(0)
        room.lead((A,), partition_epoch=1)
        await room.replicas.shrink_isrs()
        assert (room.replicas.unsettled_count, room.partition.is_leader) == (0, True)
        controller.goes_on.set()
        for _ in range(10):
            await asyncio.sleep(0)
        assert room.replicas.traffic.failed_isr_updates == 2
        await room.replicas.shrink_isrs()
        assert not room.partition.is_leader
        running.cancel()

    in_loop(scenario)
