"""LogMaintenance: what a broker does for its logs on a timer: flushes, retention, compaction, checkpoints, removals.

Flows only: each wakes, asks the log manager what is due, and lets a worker thread do what blocks. Intervals are
Kafka's: log.retention.check.interval.ms, log.flush.scheduler.interval.ms, log.flush.offset.checkpoint.interval.ms,
log.flush.start.offset.checkpoint.interval.ms, replica.high.watermark.checkpoint.interval.ms,
producer.id.expiration.check.interval.ms and log.cleaner.backoff.ms. All first come after
their intervals, but for retention where log.initial.task.delay.ms is set.

    I1  a flow survives a storage error: the error takes its directory offline, and the flow continues. Any other
        exception is a bug and goes to `on_bug`
    I2  a log is flushed by one worker at a time
    I3  an interval that changes at run time takes effect at once, also for a flow that is already waiting
    I4  a directory that the log manager itself took offline is reported after the pass that found it
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from kavka.broker.upkeep.flushes import Flushes
from kavka.broker.upkeep.log_cleaner import LogCleaner
from kavka.config.broker import BrokerConfig
from kavka.errors import StorageError
from kavka.log.decide.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kavka.log.log_manager import LogManager
from kavka.log.offset_checkpoints import CheckpointFile
from kavka.logger import Logger
from kavka.model import TopicPartition

logger = Logger(__name__)

FLUSH_LOOK_MS = 1_000
"""How often at the least the logs are asked whether a rolled segment, flush.messages or flush.ms wants a flush; Kafka
looks at flush.messages with every append instead."""
REMOVAL_LOOK_MS = 5_000
"""How often files whose delay is over are removed."""
WRITTEN_AHEAD_AT_ONCE = 32
"""Small files that are written before requests have their turn again: about a millisecond."""

IntervalMs: TypeAlias = Callable[[BrokerConfig], int]
Work: TypeAlias = Callable[[], Awaitable[None]]


class MaintenancePorts(NamedTuple):
    """`on_storage_error` takes a failed directory offline, and informs others. `on_bug` halts the broker.
    `on_log_start_moved` tells who serves the log."""

    wall_ms: Callable[[], int]
    on_storage_error: Callable[[StorageError], None]
    on_bug: Callable[[BaseException], None]
    run_blocking: Callable[[Callable[[], None]], Awaitable[None]]
    on_log_start_moved: Callable[[TopicPartition], None] = lambda topic_partition: None


class LogMaintenance:
    """Runs from `start` to `stop`. `cleaner` compacts, None if log.cleaner.enable is false."""

    def __init__(
        self,
        logs: LogManager,
        config: BrokerConfig,
        ports: MaintenancePorts,
        *,
        cleaner: LogCleaner | None,
    ) -> None:
        self._logs = logs
        self._config = config
        self.cleaner = cleaner
        self._wall_ms = ports.wall_ms
        self._on_storage_error = ports.on_storage_error
        self._on_bug = ports.on_bug
        self._on_log_start_moved = ports.on_log_start_moved
        self._run_blocking = ports.run_blocking
        self.flushes = Flushes(
            wall_ms=ports.wall_ms, on_storage_error=ports.on_storage_error, run_blocking=ports.run_blocking
        )
        self._known_offline = logs.offline_directories
        self._reconfigured = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._at_work: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        """Begins all flows."""
        flows: list[tuple[IntervalMs, Work]] = [
            (lambda config: min(config.log_flush_scheduler_interval_ms, FLUSH_LOOK_MS), self._flush),
            (lambda config: config.log_retention_check_interval_ms, self._retain),
            (lambda config: REMOVAL_LOOK_MS, self._remove),
            (lambda config: config.log_flush_offset_checkpoint_interval_ms, self._checkpoint_recovery_points),
            (lambda config: config.log_flush_start_offset_checkpoint_interval_ms, self._checkpoint_log_start_offsets),
            (lambda config: config.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks),
            (lambda config: config.producer_id_expiration_check_interval_ms, self._expire_producers),
        ]
        if self.cleaner is not None:
            flows.append((lambda config: config.log_cleaner_backoff_ms, self.cleaner.clean_due))
        for interval_ms, work in flows:
            first_ms = _first_retention_ms if work == self._retain else interval_ms
            task = asyncio.get_running_loop().create_task(self._every(first_ms, interval_ms, work))
            task.add_done_callback(self._on_ended)
            self._tasks.append(task)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Obeys `config` from now on, as far as it may change at run time."""
        self._config = config
        self._reconfigured.set()
        self._reconfigured = asyncio.Event()

    async def stop(self) -> None:
        """Ends all flows. Returns when all have ended."""
        self.abort()
        await asyncio.gather(*self._tasks, *self._at_work, return_exceptions=True)
        if self.cleaner is not None:
            await self.cleaner.ended()
        self._tasks.clear()

    def abort(self) -> None:
        """Ends all flows at once; a worker that is at work ends when it is done."""
        if self.cleaner is not None:
            self.cleaner.stop()
        for task in self._tasks:
            task.cancel()

    async def write_ahead(self) -> None:
        """Writes what the logs would be closed with, a little at a time: before a stop, while others are at work.

        Nobody relies on it yet: after a failure the rest is left to the close, which tries again and says so.
        """
        waiting = self._logs.written_at_close()
        for start in range(0, len(waiting), WRITTEN_AHEAD_AT_ONCE):
            try:
                self._logs.write_ahead(waiting[start : start + WRITTEN_AHEAD_AT_ONCE])
            except StorageError:
                return
            await asyncio.sleep(0)

    async def _every(self, first_ms: IntervalMs, interval_ms: IntervalMs, work: Work) -> None:
        pause_ms = first_ms
        while True:
            await self._pause(pause_ms)
            pause_ms = interval_ms
            # Shielded: a worker that syncs a file cannot be stopped, and its log must not be closed under it.
            working = asyncio.ensure_future(work())
            self._at_work.add(working)
            working.add_done_callback(self._at_work.discard)
            try:
                await asyncio.shield(working)
            except StorageError as failure:
                self._on_storage_error(failure)
            self._tell_of_offline_directories()

    async def _pause(self, interval_ms: IntervalMs) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        while (left_s := began_at + max(interval_ms(self._config), 1) / 1000 - loop.time()) > 0:
            reconfigured = self._reconfigured
            try:
                async with asyncio.timeout(left_s):
                    await reconfigured.wait()
            except TimeoutError:
                return

    def _tell_of_offline_directories(self) -> None:
        offline = self._logs.offline_directories
        for directory in [directory for directory in offline if directory not in self._known_offline]:
            self._on_storage_error(offline[directory])
        self._known_offline = offline

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._on_bug(bug)

    async def _flush(self) -> None:
        for log in self._logs.logs_to_identify():
            await self.flushes.sync_topic_id(log)
        for log in self._logs.logs_to_flush(self._wall_ms()):
            await self.flushes.flush_once(log)

    async def _retain(self) -> None:
        for partition, deleted in self._logs.delete_old_segments(self._wall_ms()):
            self._on_log_start_moved(partition)
            logger.info(
                "segments deleted",
                partition=str(partition),
                why=deleted.reason,
                segments=len(deleted.base_offsets),
                size_bytes=deleted.size_bytes,
                log_start_offset=deleted.log_start_offset,
            )

    async def _remove(self) -> None:
        paths = self._logs.take_removals(self._wall_ms())
        if paths:
            await self._run_blocking(lambda: self._logs.remove_paths(paths))

    async def _checkpoint_recovery_points(self) -> None:
        await self._write(self._logs.checkpoints_due(RECOVERY_POINT_CHECKPOINT))

    async def _checkpoint_log_start_offsets(self) -> None:
        await self._write(self._logs.checkpoints_due(LOG_START_OFFSET_CHECKPOINT))

    async def _checkpoint_high_watermarks(self) -> None:
        await self._write(self._logs.checkpoints_due(HIGH_WATERMARK_CHECKPOINT))

    async def _write(self, files: Sequence[CheckpointFile]) -> None:
        for file in files:
            await self._run_blocking(partial(self._logs.write_checkpoint, file))

    async def _expire_producers(self) -> None:
        self._logs.expire_producers(self._wall_ms())


def _first_retention_ms(config: BrokerConfig) -> int:
    delay_ms = config.log_initial_task_delay_ms
    return config.log_retention_check_interval_ms if delay_ms is None else delay_ms
