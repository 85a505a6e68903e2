"""What requests wait for, and what they are answered: one look at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kavka.errors import NO_ERROR, ErrorCode
from kavka.model import LeaderAndIsr, TopicPartition
from kavka.replication.decide.fetching import FetchOutcome, FetchParams, FetchSpec
from kavka.replication.decide.partition import Partition
from kavka.replication.decide.partition_results import EpochEndOffset
from kavka.replication.delayed_requests import (
    AppendOutcome,
    DelayedDelete,
    DelayedFetch,
    DelayedProduce,
    DeleteOutcome,
)
from tests.unit.log.log_support import NOW_MS, PARTITION
from tests.unit.replication.replication_support import TOPIC_ID, A, B, Replica

OTHER = TopicPartition("orders", 1)
PARAMS = FetchParams(10_000, 100, 1_000, read_committed=False)


class Host:
    """Hosts `orders-0`, or says why it does not, and reads what the test says."""

    def __init__(self, path: Path) -> None:
        self.loop = asyncio.get_running_loop()
        self.replica = Replica(path, min_insync_replicas=2)
        self.replica.lead((A, B), replicas=(A, B))
        self.hosted: Partition | None = self.replica.partition
        self.reads: list[tuple[FetchSpec, int, bool]] = []
        self.found = FetchOutcome(SPECS[0], NO_ERROR)

    def partition(self, topic: str, index: int) -> Partition | None:
        assert (topic, index) == PARTITION
        return self.hosted

    def absence(self, topic: str, index: int) -> ErrorCode:
        return ErrorCode.KAFKA_STORAGE_ERROR

    def read(self, params: FetchParams, specs: Sequence[FetchSpec]) -> list[FetchOutcome]:
        assert params is PARAMS
        return [FetchOutcome(spec, NO_ERROR, size_bytes=1) for spec in specs]

    def read_partition(
        self, spec: FetchSpec, max_bytes: int, params: FetchParams, *, min_one_batch: bool
    ) -> FetchOutcome:
        self.reads.append((spec, max_bytes, min_one_batch))
        return self.found


SPECS = [FetchSpec(each, TOPIC_ID, 0, 500) for each in (PARTITION, OTHER)]


def in_loop(path: Path, scenario: Callable[[Host], None]) -> None:
    async def main() -> None:
        scenario(Host(path))

    asyncio.run(main())


def test_an_append_waits_for_the_high_watermark_to_pass_it(tmp_path: Path) -> None:
    def scenario(host: Host) -> None:
        outcome = AppendOutcome(NO_ERROR, base_offset=0, committed_at=2)
        produce = DelayedProduce(host, host.replica.partition, outcome)
        assert produce.answer.get_loop() is host.loop
        host.replica.append(3)
        assert produce.try_complete(None) is None
        host.replica.fetch(B, 1)
        assert produce.try_complete(None) is None
        host.replica.fetch(B, 2)
        assert produce.try_complete(None) is outcome
        assert produce.on_expiration() == AppendOutcome(ErrorCode.REQUEST_TIMED_OUT)

    in_loop(tmp_path, scenario)


def test_an_append_is_answered_at_once_where_too_few_are_left(tmp_path: Path) -> None:
    def scenario(host: Host) -> None:
        host.replica.append(1)
        host.replica.lead((A,), partition_epoch=1, replicas=(A, B))
        answer = DelayedProduce(host, host.replica.partition, AppendOutcome(NO_ERROR, committed_at=1)).try_complete(
            None
        )
        assert answer == AppendOutcome(
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            message="the records are in the leader's log, but only (1,) are in sync now",
        )

    in_loop(tmp_path, scenario)


def test_deleted_records_wait_for_the_last_replica_to_forget_them(tmp_path: Path) -> None:
    def scenario(host: Host) -> None:
        replica = host.replica
        replica.append(3)
        replica.fetch(B, 3)
        assert replica.partition.log.delete_records(2)
        delete = DelayedDelete(host, replica.partition, 2)
        assert delete.answer.get_loop() is host.loop
        for log_start, answer in ((1, None), (2, DeleteOutcome(NO_ERROR, 2))):
            replica.partition.record_follower_fetch(
                B, -1, 3, leader_end_offset=3, log_start_offset=log_start, now_ms=NOW_MS
            )
            assert delete.try_complete(None) == answer
            assert delete.on_expiration() == DeleteOutcome(ErrorCode.REQUEST_TIMED_OUT, log_start)

    in_loop(tmp_path, scenario)


@pytest.mark.parametrize("kind", ["produce", "delete"])
def test_who_waits_at_a_partition_that_went_or_leads_no_more_is_told(tmp_path: Path, kind: str) -> None:
    def scenario(host: Host) -> None:
        partition = host.replica.partition
        host.replica.append(1)
        host.replica.fetch(B, 1)

        def error() -> ErrorCode:
            if kind == "produce":
                answer = DelayedProduce(host, partition, AppendOutcome(NO_ERROR, committed_at=1)).try_complete(None)
            else:
                answer = DelayedDelete(host, partition, 0).try_complete(None)
            assert answer is not None
            return answer.error

        assert error() is NO_ERROR
        host.hosted = None
        assert error() is ErrorCode.KAFKA_STORAGE_ERROR
        host.hosted = Replica(tmp_path / "another").partition
        assert error() is ErrorCode.NOT_LEADER_OR_FOLLOWER, "another one under its name"
        host.hosted = partition
        partition.become_follower(LeaderAndIsr(B, 2, (A, B), 1), (A, B), now_ms=NOW_MS)
        assert error() is ErrorCode.NOT_LEADER_OR_FOLLOWER

    in_loop(tmp_path, scenario)


def fetch(host: Host, *available: int) -> DelayedFetch:
    """It wants 100 bytes, and has seen so many available in the two partitions."""
    outcomes = [
        FetchOutcome(spec, NO_ERROR, available_bytes=size_bytes)
        for spec, size_bytes in zip(SPECS, available, strict=True)
    ]
    return DelayedFetch(host, PARAMS, SPECS, outcomes)


@pytest.mark.parametrize(("found", "is_done"), [(59, False), (60, True), (0, False)])
def test_a_fetch_waits_for_its_bytes_and_looks_only_where_something_changed(
    tmp_path: Path, found: int, *, is_done: bool
) -> None:
    def scenario(host: Host) -> None:
        delayed = fetch(host, 99, 40)
        assert delayed.answer.get_loop() is host.loop
        host.found = FetchOutcome(SPECS[0], NO_ERROR, available_bytes=found)
        answer = delayed.try_complete(host.replica.partition)
        assert host.reads == [(SPECS[0], 500, True)]
        everything = [FetchOutcome(spec, NO_ERROR, size_bytes=1) for spec in SPECS]
        assert answer == (everything if is_done else None)
        assert delayed.on_expiration() == everything

    in_loop(tmp_path, scenario)


def test_what_was_seen_counts_at_the_next_look(tmp_path: Path) -> None:
    def scenario(host: Host) -> None:
        delayed = fetch(host, 0, 0)
        host.found = FetchOutcome(SPECS[0], NO_ERROR, available_bytes=99)
        assert delayed.try_complete(host.replica.partition) is None
        assert delayed._available == {PARTITION: 99, OTHER: 0}
        host.found = FetchOutcome(SPECS[0], NO_ERROR, available_bytes=1)
        assert delayed.try_complete(host.replica.partition) is None, "it is 1 now, and not 100"

    in_loop(tmp_path, scenario)


@pytest.mark.parametrize(
    "found",
    [
        FetchOutcome(SPECS[0], ErrorCode.FENCED_LEADER_EPOCH),
        FetchOutcome(SPECS[0], NO_ERROR, diverging_epoch=EpochEndOffset(1, 0)),
    ],
)
def test_an_error_and_a_log_that_parts_are_answered_at_once(tmp_path: Path, found: FetchOutcome) -> None:
    def scenario(host: Host) -> None:
        host.found = found
        answer = fetch(host, 0, 0).try_complete(host.replica.partition)
        assert answer is not None
        assert [outcome.spec for outcome in answer] == SPECS

    in_loop(tmp_path, scenario)


def test_only_a_partition_that_changed_is_a_reason_to_look(tmp_path: Path) -> None:
    def scenario(host: Host) -> None:
        with pytest.raises(AssertionError):
            fetch(host, 0, 0).try_complete("orders-0")

    in_loop(tmp_path, scenario)
