"""What a fetch is answered for a partition that could not be read, and who hears of it."""

from __future__ import annotations

import pytest

from kavka.decisions import Decision, DecisionKind
from kavka.errors import CorruptRecords, ErrorCode, OffsetOutOfRange, RequestError, StorageError
from kavka.model import TopicPartition
from kavka.replication.decide.fetching import FetchOutcome, FetchSpec
from kavka.replication.decide.partition_results import PartitionRefusal
from kavka.replication.read_failures import READ_FAILURES, ReadFailures
from tests.unit.replication.replication_support import TOPIC_ID, A

SPEC = FetchSpec(TopicPartition("orders", 0), TOPIC_ID, 7, 100)
WHY = (Decision(DecisionKind.FENCED, 0, A, "one"), Decision(DecisionKind.FENCED, 1, A, "two"))
DISK = StorageError("disk", "Input/output error")


@pytest.mark.parametrize(
    ("failure", "error", "recorded", "reported"),
    [
        (OffsetOutOfRange("too far"), ErrorCode.OFFSET_OUT_OF_RANGE, (), []),
        (CorruptRecords("garbage"), ErrorCode.CORRUPT_MESSAGE, (), []),
        (RequestError(ErrorCode.FENCED_LEADER_EPOCH, "late"), ErrorCode.FENCED_LEADER_EPOCH, (), []),
        (PartitionRefusal(ErrorCode.UNKNOWN_LEADER_EPOCH, "early", WHY), ErrorCode.UNKNOWN_LEADER_EPOCH, WHY, []),
        (DISK, ErrorCode.KAFKA_STORAGE_ERROR, (), [DISK]),
    ],
)
def test_a_failure_is_its_partitions_error_and_only_who_must_hears_of_it(
    failure: OffsetOutOfRange | CorruptRecords | RequestError | StorageError,
    error: ErrorCode,
    recorded: tuple[Decision, ...],
    reported: list[StorageError],
) -> None:
    decisions: list[Decision] = []
    failures: list[StorageError] = []
    outcome = ReadFailures(record=decisions.append, on_storage_error=failures.append).outcome(SPEC, failure)
    assert outcome == FetchOutcome(SPEC, error)
    assert (tuple(decisions), failures) == (recorded, reported)
    assert isinstance(failure, READ_FAILURES)
