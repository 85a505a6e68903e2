"""Flushes: makes logs durable on a worker thread, one flush of a log at a time.

Decides only who waits for which flush. A caller that comes during a flush waits for the next one, which then serves all
callers that came meanwhile. With many producers the disk does as many flushes as it can, not one for each producer.

    I1  `flush` returns true only when a sync that began after the call's records were written has returned
    I2  a log is flushed by one worker at a time
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kavka.errors import StorageError
from kavka.log.durability import FlushTask
from kavka.log.unified_log import UnifiedLog
from kavka.model import Offset


class Flushes:
    """`on_storage_error` takes the directory of a log that could not be flushed offline."""

    def __init__(
        self,
        *,
        wall_ms: Callable[[], int],
        on_storage_error: Callable[[StorageError], None],
        run_blocking: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self._wall_ms = wall_ms
        self._on_storage_error = on_storage_error
        self._run_blocking = run_blocking
        self._under_way: dict[UnifiedLog, asyncio.Task[None]] = {}

    async def flush(self, log: UnifiedLog, offset: Offset) -> bool:
        """Whether the log is durable up to `offset`: false where its disk failed."""
        while log.recovery_point < min(offset, log.log_end_offset) and log.failure is None:
            before, joins = log.recovery_point, log in self._under_way
            await self.flush_once(log)
            if log.recovery_point == before and not joins:
                return False  # the log is being closed
        return log.failure is None

    async def flush_once(self, log: UnifiedLog) -> None:
        """Waits for the flush that is under way, or for one that makes all durable that is not, records or not."""
        await self._join(log, log.prepare_flush)

    async def sync_topic_id(self, log: UnifiedLog) -> None:
        """Makes the log's topic id durable, if no flush is under way."""
        await self._join(log, log.prepare_topic_id_sync)

    async def _join(self, log: UnifiedLog, prepare: Callable[[], FlushTask | None]) -> None:
        task = self._under_way.get(log)
        if task is None:
            task = self._under_way[log] = asyncio.get_running_loop().create_task(self._run(log, prepare))
        # Shielded: others wait for it too, and a worker that syncs cannot be stopped.
        await asyncio.shield(task)

    async def _run(self, log: UnifiedLog, prepare: Callable[[], FlushTask | None]) -> None:
        try:
            task = prepare()
            if task is None:
                return
            try:
                await self._run_blocking(task.sync)
            except StorageError as failure:
                log.fail_flush(failure)
                self._on_storage_error(failure)
                return
            log.complete_flush(task, self._wall_ms())
        except StorageError as failure:
            self._on_storage_error(failure)
        finally:
            del self._under_way[log]
