"""What an administrator is told of a share-partition's records."""

from __future__ import annotations

from kavka.model import StateBatch
from kavka.share.decide.acquired_records import LogBatch, Wish
from kavka.share.decide.in_flight import Run, look
from kavka.share.decide.share_partition import Acknowledgement, AcknowledgeType, ShareLimits, SharePartition
from kavka.share.decide.spans import RecordState

LIMITS = ShareLimits(deliveries=5, lock_ms=30_000, in_flight=2_000)


def taken(member: str, now_ms: int, *, records: int = 10) -> SharePartition:
    partition = SharePartition(0)
    partition.acquire(member, [LogBatch(0, records - 1)], Wish(records), now_ms, LIMITS)
    return partition


def test_a_lock_is_told_with_its_holder_and_the_time_that_is_left() -> None:
    found = look(taken("anna", 1_000), 11_000, 100)
    assert found[:4] == (0, 10, 10, 1)
    assert found.runs == (Run(0, 9, RecordState.ACQUIRED, None, 1, "anna", 20_000),)


def test_a_lock_that_is_over_and_not_yet_noticed_has_no_time_left() -> None:
    (run,) = look(taken("anna", 0), 31_000, 100).runs
    assert run.lock_left_ms == 0


def test_what_is_being_written_still_has_its_holder() -> None:
    partition = taken("anna", 0)
    partition.acknowledge("anna", [Acknowledgement(0, 3, [AcknowledgeType.ACCEPT])], 0, LIMITS)
    first, second = look(partition, 0, 100).runs
    assert (first.last, first.being_written, first.member_id) == (3, RecordState.ACKNOWLEDGED, "anna")
    assert (second.first, second.being_written) == (4, None)
    partition.settle(partition.take_write(), is_committed=True)
    assert look(partition, 0, 100).start == 4


def test_what_was_released_or_is_done_behind_the_start_has_no_holder() -> None:
    partition = SharePartition(
        5, [StateBatch(5, 6, RecordState.AVAILABLE, 2), StateBatch(7, 8, RecordState.ARCHIVED, 5)]
    )
    found = look(partition, 0, 100)
    assert (found.start, found.end, found.records) == (5, 9, 2)
    assert found.runs == (
        Run(5, 6, RecordState.AVAILABLE, None, 2, "", None),
        Run(7, 8, RecordState.ARCHIVED, None, 5, "", None),
    )


def test_of_many_runs_the_first_are_told_and_all_are_counted() -> None:
    partition = taken("anna", 0, records=20)
    for offset in range(1, 20, 2):
        partition.acknowledge("anna", [Acknowledgement(offset, offset, [AcknowledgeType.ACCEPT])], 0, LIMITS)
    found = look(partition, 0, 3)
    assert [run.first for run in found.runs] == [0, 1, 2]
    assert found.run_count == 20
