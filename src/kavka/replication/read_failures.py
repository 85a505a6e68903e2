"""ReadFailures: what a fetch is answered for a partition that could not be read, and who hears of it.

The same for consumers and followers. Decides nothing about the request: it turns a failure into the partition's error,
records why the partition refused, and reports a log that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kavka.decisions import RecordDecision
from kavka.errors import ErrorCode, OffsetOutOfRange, RecordsError, RequestError, StorageError
from kavka.replication.decide.fetching import FetchOutcome, FetchSpec
from kavka.replication.decide.partition_results import PartitionRefusal

READ_FAILURES: Final = (OffsetOutOfRange, RecordsError, RequestError, StorageError)
"""What reading a partition raises."""


class ReadFailures:
    """`record` takes note of decisions; `on_storage_error` takes the directory of a log that failed offline."""

    def __init__(self, *, record: RecordDecision, on_storage_error: Callable[[StorageError], None]) -> None:
        self._record = record
        self._on_storage_error = on_storage_error

    def outcome(
        self, spec: FetchSpec, failure: OffsetOutOfRange | RecordsError | RequestError | StorageError
    ) -> FetchOutcome:
        """The answer for the partition of `spec`."""
        if isinstance(failure, PartitionRefusal):
            for decision in failure.decisions:
                self._record(decision)
        if isinstance(failure, StorageError):
            self._on_storage_error(failure)
            return FetchOutcome(spec, ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(failure, OffsetOutOfRange):
            return FetchOutcome(spec, ErrorCode.OFFSET_OUT_OF_RANGE)
        return FetchOutcome(spec, failure.code)
