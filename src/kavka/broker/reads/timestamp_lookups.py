"""TimestampLookups: has workers find records by their timestamps.

A flow. `log.timestamp_search` decides what to read. At most two searches run at a time: they read files and records,
and workers have other things to do. If a truncation, a compaction or a deletion changed the log meanwhile, it is
searched again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kavka.errors import ErrorCode, RecordsError, RequestError, StorageError
from kavka.log.segment import TimestampedOffset
from kavka.log.timestamp_search import TimestampSearch
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import Offset, TopicPartition

logger = Logger(__name__)

MAX_AT_ONCE: Final = 2
MAX_ATTEMPTS: Final = 3
MAX_TOLD: Final = 1_000
"""Unreadable batches that are remembered, so that each is logged once."""


class TimestampLookups:
    """`run_blocking` carries a call to a worker; `is_current` knows whether a log still is the one of its partition."""

    def __init__(
        self,
        run_blocking: Callable[[Callable[[], None]], Awaitable[None]],
        is_current: Callable[[UnifiedLog], bool],
    ) -> None:
        self._run_blocking = run_blocking
        self._is_current = is_current
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._told: dict[tuple[TopicPartition, Offset | None], None] = {}

    async def find(self, log: UnifiedLog, timestamp: int | None) -> TimestampedOffset | None:
        """The first record that is not older than `timestamp` (ms); with None, that with the largest one.

        Raises `StorageError`; `RecordsError` with the code to answer where the record may be among those that cannot be
        read; and `RequestError` where the log was deleted, or changes faster than it is searched.
        """
        async with self._slots:
            for _ in range(MAX_ATTEMPTS):
                search = TimestampSearch.of(log, timestamp)
                truncations, directory = log.truncations, log.directory
                try:
                    await self._take(search)
                except (RecordsError, StorageError, FileNotFoundError) as failure:
                    if not self._is_current(log):
                        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from failure
                    is_as_before = log.truncations == truncations and log.directory == directory
                    if not is_as_before or not search.still_holds_for(log):
                        continue
                    if isinstance(failure, RecordsError):
                        self._tell(log, search, failure)
                        raise
                    if isinstance(failure, StorageError):
                        raise
                    raise StorageError(log.directory, f"lost a file: {failure}") from failure
                if log.truncations == truncations:
                    search.teach()
                    return search.found
        raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE)

    async def _take(self, search: TimestampSearch) -> None:
        steps = search.steps()
        is_over = False

        def take_one() -> None:
            nonlocal is_over
            is_over = next(steps, search) is search

        while not is_over:
            await self._run_blocking(take_one)

    def _tell(self, log: UnifiedLog, search: TimestampSearch, failure: RecordsError) -> None:
        known = (log.topic_partition, search.unreadable)
        if known in self._told:
            return
        if len(self._told) >= MAX_TOLD:
            del self._told[next(iter(self._told))]
        self._told[known] = None
        logger.warning(
            "records cannot be read",
            partition=str(log.topic_partition),
            base_offset=search.unreadable,
            why=failure.message,
            consequence=f"a look-up by time that reaches this batch gets {failure.code.name}",
            next_step="consumers stop there too: make them seek past the batch, or delete records up to it",
        )
