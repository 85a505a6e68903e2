"""LogCleaner: compacts the logs whose cleanup.policy says so, log.cleaner.threads at a time, the dirtiest first.

A flow. `log.cleaner_choice` decides which log to compact, from where to where, and which segments together.
`log.decide.compaction` decides what stays; a worker runs the steps of `log.cleaner_pass`, a slice at a time. The log
swaps the segments. Meanwhile everything else continues: appends, reads, truncations, deletions. Passes take turns. A
broker is one core, so several passes do not end sooner, but a small log need not wait for a large one.

    I1  Nothing at or above the last stable offset is touched, nor the active segment.
    I2  A pass ends early if the log was truncated or deleted meanwhile, or its directory went offline; the segments
        that it has swapped in by then are correct.
    I3  After each step of a swap the log on the disk is the old one or the new one, also after a power cut:
          1. the new segment is written as .cleaned, and synced     nothing of it counts
          2. renamed to .swap, and the directory synced             a restart puts it in the place of the old ones
                                                                    (behind its last batch they may stay: log_loader)
          3. the old ones renamed to .deleted, readers told; sync   the same
          4. renamed to its own name, and synced                    the new one counts by itself
          5. the old ones may be removed
    I4  `cleaner-offset-checkpoint` says that a log is clean up to an offset after step 4 of all its segments.
    I5  No log has two passes at a time. All of them together keep to log.cleaner.io.max.bytes.per.second, and share
        log.cleaner.dedupe.buffer.size.
    I6  A log that cannot be compacted is reported once, and left alone until this broker restarts.

Source: Kafka's LogCleaner and LogCleanerManager, UnifiedLog.replaceSegments. Kafka does not sync between the steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.config.broker import BrokerConfig
from kavka.errors import CorruptRecords, RecordsError, StorageError
from kavka.filesystem import FileSystem
from kavka.log.cleaner_choice import LogToClean, dirty_segments, filthiest, group_segments, look_at
from kavka.log.decide.checkpoint import CLEANER_OFFSET_CHECKPOINT
from kavka.log.decide.indexes import CorruptIndex
from kavka.log.log_manager import LogManager
from kavka.log.segment import LOG_SUFFIX, LogDirectory, OpenSegments, Segment
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import Offset

if TYPE_CHECKING:
    from kavka.log.cleaner_pass import CleaningPass, Source
    from kavka.log.decide.compaction import Retention
    from kavka.log.decide.offset_map import OffsetMap

logger = Logger(__name__)

MAX_CHECKPOINT_WRITES: Final = 3
"""How often cleaner-offset-checkpoint is written after a pass, until it says what is so."""
RATE_LOOK_S: Final = 1.0
"""How long at most a change of the rate goes unnoticed by a pass that waits."""
MAX_UNCLEANABLE_TOLD: Final = 1_000
"""Logs that are remembered as uncleanable; those of deleted partitions are forgotten first."""


_DAMAGE: Final = (CorruptRecords, RecordsError, CorruptIndex)
"""What says that a log's files are not what they should be."""


class _GivenUp(Exception):
    """The log is not what it was when the pass began, or the broker stops."""


class LogCleaner:
    """`config` asks for the broker's settings as they are now. StorageErrors are raised to who calls `clean_due`."""

    def __init__(
        self,
        logs: LogManager,
        filesystem: FileSystem,
        config: Callable[[], BrokerConfig],
        *,
        wall_ms: Callable[[], int],
        run_blocking: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self._logs = logs
        self._filesystem = filesystem
        self._config = config
        self._wall_ms = wall_ms
        self._run_blocking = run_blocking
        self._is_stopping = False
        self._uncleanable: dict[UnifiedLog, str] = {}
        self._under_way: dict[asyncio.Task[None], UnifiedLog] = {}
        self._owed_bytes, self._owed_at = 0.0, 0.0
        """What was moved beyond the rate, and the loop's time when that was so."""
        self._highest_dirty_percent = 0
        self.passes = 0
        self.longest_pass_s = 0.0
        self.last_recopied_percent = 0
        self.highest_utilization_percent = 0
        self.last_look_ms = -1

    # -- what metrics ask

    def uncleanable(self, directory: str) -> list[UnifiedLog]:
        """The logs of a log directory that could not be compacted."""
        return [log for log in self._uncleanable if self._is_current(log) and log.directory.startswith(f"{directory}/")]

    def uncleanable_bytes(self, directory: str) -> int:
        """Dirty bytes of those logs."""
        # Not by a look into the log, which is damaged.
        return sum(
            segment.size
            for log in self.uncleanable(directory)
            for segment in log.segments[:-1]
            if segment.base_offset >= (log.cleaned_to or 0)
        )

    def max_dirty_percent(self) -> int:
        """Of all compacted logs, the highest dirty ratio. While a disk fails the one before: the next look for what is
        due takes its directory offline, and until then all other metrics are wanted more than ever."""
        try:
            looked_at = self._looked_at(self._wall_ms())
        except StorageError:
            return self._highest_dirty_percent
        self._highest_dirty_percent = int(100 * max((found.dirty_ratio for found in looked_at), default=0.0))
        return self._highest_dirty_percent

    # -- passes

    def stop(self) -> None:
        """No further slice begins; a pass under way is given up."""
        self._is_stopping = True

    async def clean_due(self) -> None:
        """Compacts logs until none is due. Raises `StorageError`; other passes are then still under way, and the next
        call waits for them."""
        while True:
            self._begin_passes()
            if not self._under_way:
                return
            patience_s = max(self._config().log_cleaner_backoff_ms, 1) / 1000
            ended, _ = await asyncio.wait(self._under_way, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                del self._under_way[task]
            for task in ended:
                task.result()

    async def ended(self) -> None:
        """Returns when the last pass has ended, after `stop`."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self._under_way.clear()

    def _begin_passes(self) -> None:
        """As many as there may be and logs are due."""
        while not self._is_stopping and len(self._under_way) < self._config().log_cleaner_threads:
            self.last_look_ms = self._wall_ms()
            found = filthiest(self._looked_at(self.last_look_ms))
            if found is None:
                return
            task = asyncio.get_running_loop().create_task(self._clean_one(found))
            self._under_way[task] = found.log

    async def _clean_one(self, found: LogToClean) -> None:
        try:
            await self._clean(found)
        except _GivenUp:
            logger.debug("compaction given up", partition=str(found.log.topic_partition))
        except _DAMAGE as damage:
            self._give_up_on(found.log, str(damage))

    def _looked_at(self, now_ms: int) -> list[LogToClean]:
        """The compacted logs as they are now, without those that cannot be compacted and those with a pass under
        way."""
        looked_at = []
        left_out = {*self._uncleanable, *self._under_way.values()}
        for log in list(self._logs):
            if log.config.cleanup_compact and log not in left_out and log.failure is None:
                try:
                    looked_at.append(look_at(log, now_ms))
                except _DAMAGE as damage:
                    self._give_up_on(log, str(damage))
        return looked_at

    def _give_up_on(self, log: UnifiedLog, why: str) -> None:
        if len(self._uncleanable) >= MAX_UNCLEANABLE_TOLD:
            self._uncleanable = {known: text for known, text in self._uncleanable.items() if self._is_current(known)}
        self._uncleanable[log] = why
        logger.error(
            "log cannot be compacted",
            partition=str(log.topic_partition),
            directory=log.directory,
            why=why,
            next_step="the log keeps growing: repair or delete it, and restart the broker to try again",
        )

    async def _clean(self, found: LogToClean) -> None:
        log, directory = found.log, found.log.directory
        try:
            await self._compact(found)
        except (StorageError, FileNotFoundError) as failure:
            if log.directory != directory:
                # 1. A worker is about to sync the directory, or to open a file. 2. The partition is deleted, or moves
                # to another log directory. 3. The worker finds nothing where the log was: no disk has failed.
                raise _GivenUp from failure
            if isinstance(failure, StorageError):
                raise
            raise StorageError(directory, f"lost a file: {failure}") from failure

    async def _compact(self, found: LogToClean) -> None:
        from kavka.log.cleaner_pass import CleaningPass
        from kavka.log.decide.compaction import Retention
        from kavka.log.decide.offset_map import OffsetMap

        log, config = found.log, self._config()
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        share = config.log_cleaner_dedupe_buffer_size // max(config.log_cleaner_threads, 1)
        offsets = OffsetMap(share, config.log_cleaner_io_buffer_load_factor)
        cleaning = CleaningPass(found.first_dirty, offsets)
        is_same = partial(self._is_same, log, log.truncations)
        for segment in dirty_segments(found):
            if not is_same() or not log.swap.holds([segment]):
                raise _GivenUp
            await self._take(cleaning.index(*_dirty_source(log, segment, found.first_dirty)), is_same)
            if cleaning.is_full:
                break
        end_offset = cleaning.end_offset
        retention = Retention(self._wall_ms(), log.config.delete_retention_ms, log.producers.last_records())
        for group in group_segments(log, end_offset):
            await self._clean_group(log, group, cleaning, retention, is_same)
            # A producer may have written its next batch meanwhile; what was its last one then may go next time.
            retention = retention._replace(last_records=log.producers.last_records())
        if not is_same():
            raise _GivenUp
        log.cleaned_to = end_offset
        await self._write_checkpoints()
        self._note(found, end_offset, cleaning, offsets, loop.time() - began_at)

    async def _write_checkpoints(self) -> None:
        # Again where a truncation has written a lower offset while a worker wrote the former one.
        for _ in range(MAX_CHECKPOINT_WRITES):
            for file in self._logs.checkpoints_due(CLEANER_OFFSET_CHECKPOINT):
                await self._run_blocking(partial(self._logs.write_checkpoint, file))

    def _note(
        self, found: LogToClean, end_offset: Offset, cleaning: CleaningPass, offsets: OffsetMap, took_s: float
    ) -> None:
        stats = cleaning.stats
        self.passes += 1
        self.longest_pass_s = max(self.longest_pass_s, took_s)
        self.last_recopied_percent = int(100 * stats.bytes_written / max(stats.bytes_read, 1))
        self.highest_utilization_percent = max(self.highest_utilization_percent, int(100 * offsets.utilization))
        logger.info(
            "log compacted",
            partition=str(found.log.topic_partition),
            from_offset=found.first_dirty,
            to_offset=end_offset,
            dirty_ratio=round(found.dirty_ratio, 3),
            keys=stats.keys,
            records_read=stats.records_read,
            records_kept=stats.records_kept,
            bytes_written=stats.bytes_written,
            took_s=round(took_s, 3),
        )

    async def _clean_group(
        self,
        log: UnifiedLog,
        group: Sequence[Segment],
        cleaning: CleaningPass,
        retention: Retention,
        is_same: Callable[[], bool],
    ) -> None:
        """Swaps what stays of these segments in as one. Raises _GivenUp."""
        from kavka.log.cleaner_pass import remove_files

        if not is_same() or not log.swap.holds(group):
            raise _GivenUp
        # Of its own until it is installed: a worker fills it.
        aside = LogDirectory(self._filesystem, log.directory, OpenSegments())
        cleaned = Segment.create_cleaned(aside, group[0].base_offset, now_ms=group[-1].created_ms)
        try:
            steps = cleaning.clean(
                [_source(log, segment) for segment in group], cleaned, retention, log.config.index_interval_bytes
            )
            await self._take(steps, is_same)
            if not is_same() or not log.swap.holds(group):
                raise _GivenUp
        except (_GivenUp, *_DAMAGE):
            remove_files(self._filesystem, cleaned)
            raise
        self._keep_age(group[-1], cleaned)
        sync = partial(self._filesystem.sync_directory, log.directory)
        log.swap.begin(cleaned)
        await self._run_blocking(sync)
        if not is_same() or not log.swap.is_under_way or not log.swap.holds(group):
            log.swap.cancel()
            raise _GivenUp
        removals = log.swap.install(group, self._wall_ms() + log.config.file_delete_delay_ms)
        await self._run_blocking(sync)
        log.swap.finish()
        await self._run_blocking(sync)
        log.swap.remove_later(removals)

    def _keep_age(self, latest: Segment, cleaned: Segment) -> None:
        """Retention goes by when a segment was written, where its records have no timestamps. Raises `StorageError`."""
        path = latest.path(LOG_SUFFIX)
        try:
            modified_ms = self._filesystem.modified_ms(path)
        except FileNotFoundError as error:
            raise StorageError(path, "is gone") from error
        self._filesystem.set_modified_ms(cleaned.path(LOG_SUFFIX), modified_ms)

    async def _take(self, steps: Iterator[int], is_same: Callable[[], bool]) -> None:
        """Lets a worker take all steps, a slice at a time. Raises _GivenUp, and what they raise."""
        moved: list[int] = []

        def take_one() -> None:
            for size_bytes in steps:
                moved.append(size_bytes)
                return

        while True:
            if self._is_stopping or not is_same():
                raise _GivenUp
            try:
                await self._run_blocking(take_one)
            except _DAMAGE:
                if not is_same():
                    raise _GivenUp from None  # It read what a truncation cut off.
                raise
            if not moved:
                return
            await self._keep_to_rate(moved.pop())

    async def _keep_to_rate(self, moved: int) -> None:
        """Waits as log.cleaner.io.max.bytes.per.second wants of all passes together."""
        # Also where there is nothing to wait for: the loop has its turn between two slices.
        ahead_s = self._ahead_s(moved)
        await asyncio.sleep(min(ahead_s, RATE_LOOK_S))
        while ahead_s > RATE_LOOK_S and not self._is_stopping:
            ahead_s = self._ahead_s(0)
            await asyncio.sleep(min(ahead_s, RATE_LOOK_S))

    def _ahead_s(self, moved: int) -> float:
        """For how long nothing may be moved at the rate that is set now, `moved` bytes more being noted."""
        now, rate = asyncio.get_running_loop().time(), max(self._config().log_cleaner_io_max_bytes_per_second, 1.0)
        # Zero comes first: the larger of it and NaN is zero then. A rate that is NaN, or without end, bounds nothing.
        self._owed_bytes = max(0.0, self._owed_bytes - (now - self._owed_at) * rate) + moved
        self._owed_at = now
        return max(0.0, self._owed_bytes / rate)

    def _is_current(self, log: UnifiedLog) -> bool:
        return self._logs.get(log.topic_partition) is log

    def _is_same(self, log: UnifiedLog, truncations: int) -> bool:
        return log.truncations == truncations and log.failure is None and self._is_current(log)


def _source(log: UnifiedLog, segment: Segment) -> Source:
    """A segment from its first batch on."""
    from kavka.log.cleaner_pass import Source

    start = segment.base_offset
    return Source(segment.file, 0, segment.size, log.aborted_transactions(start, _next_base(log, segment)))


def _dirty_source(log: UnifiedLog, segment: Segment, first_dirty: Offset) -> tuple[Source, Offset]:
    """A segment from its first dirty batch on, and where the next one begins.

    A transaction that was aborted before is not to be named: nothing that is read ends it, and so whatever the producer
    wrote and committed since would count as aborted.
    """
    from kavka.log.cleaner_pass import Source

    place, end = segment.find(first_dirty), _next_base(log, segment)
    position = segment.size if place is None else place.position
    aborted = log.aborted_transactions(max(segment.base_offset, first_dirty), end)
    return Source(segment.file, position, segment.size, aborted), end


def _next_base(log: UnifiedLog, segment: Segment) -> Offset:
    return next(following.base_offset for following in log.segments if following.base_offset > segment.base_offset)
