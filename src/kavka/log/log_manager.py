"""LogManager: all logs of a broker, in all of its log directories.

Decides in which directory a partition lives, which directories can be used, what is checkpointed, flushed, retained and
removed when. It must not know roles, leaders or clients, nor the time: its caller says `now_ms`, and which of the
blocking calls (marked "blocks") go to a worker.

Invariants
  I1  A log directory belongs to one broker of one cluster (meta.properties) and to one process (.lock).
  I2  The clean-shutdown mark is removed, durably, before the first log is loaded and written only after every log was
      loaded and closed and all that the next start believes is durable, names too (KAFKA-15375): whatever happens in
      between, a power cut included, the next start recovers.
  I3  The failure of one directory takes its logs offline and no others; nothing there is read or written any more.
  I4  A recovery point on disk is never above what was synced, nor above the log's end (KAFKA-10101).
  I5  A deleted partition is gone at once under its name; its files go later, under TOPIC-PARTITION.UUID-delete.
  I6  A log that belongs to no topic (a stray) is neither read nor written, only named; if a topic of its name is made,
      it gets out of the way under TOPIC-PARTITION.UUID-stray.
  I7  A checkpoint entry never counts for another log of the same name. Otherwise: records are deleted up to 26, the
      topic is deleted and created again, five records are acknowledged, and the broker is killed; the next start
      believes that the log begins at 26, and drops all five. So the checkpoints of a directory forget a log before its
      successor is created there, and an older checkpoint never replaces a later one.

Source: Kafka's LogManager, MetaPropertiesEnsemble, BrokerMetadataCheckpoint; rules S38, S39.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kavka.errors import (
    DamagedLog,
    DamagedMetadata,
    DiskFull,
    ErrorCode,
    InconsistentMetadata,
    InvariantViolation,
    LogDirectoryLocked,
    StorageError,
    UndecidedLog,
)
from kavka.filesystem import FileSystem, make_durable_directory
from kavka.log.decide.checkpoint import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpoint,
    MetaProperties,
    format_clean_shutdown,
    format_meta_properties,
    parse_meta_properties,
)
from kavka.log.decide.directory_names import DELETE_SUFFIX, FUTURE_SUFFIX, MOVED_MARK, STRAY_SUFFIX, unique_name
from kavka.log.durability import FlushTask
from kavka.log.home_loader import (
    ConfigFor,
    HomeLoader,
    HomePlan,
    LoadingLimits,
    LoadingPorts,
    LoadReport,
    RunAll,
    one_by_one,
)
from kavka.log.log_config import LogConfig
from kavka.log.log_home import DeletedDirectory, LogHome
from kavka.log.log_loader import MARK_IGNORED, LoadRequest, create_log
from kavka.log.log_results import DeletedSegments
from kavka.log.made_directories import MadeDirectories
from kavka.log.offset_checkpoints import CheckpointFile, OffsetCheckpoints
from kavka.log.segment import DEFAULT_MAX_OPEN_SEGMENTS, LogDirectory, OpenSegments
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import Offset, TopicPartition

if TYPE_CHECKING:
    from kavka.log.log_move import LogMove

MAX_FORMER = 10_000
"""Logs that are gone from a directory and may stand in its checkpoints, before these are written for that alone."""
MAX_PREFERENCES = 10_000
"""Partitions without a log here of which it is remembered in which directory they are to be."""
DEFAULT_PRODUCER_ID_EXPIRATION_MS = 24 * 3_600_000
"""producer.id.expiration.ms"""

_logger = Logger(__name__)


class LogManagerSettings(NamedTuple):
    """What all logs of a broker share."""

    broker_id: int | None = None
    """None: take the one in meta.properties."""
    cluster_id: str | None = None
    max_open_segments: int = DEFAULT_MAX_OPEN_SEGMENTS
    """Descriptors and loaded indexes kept at a time; a `ulimit -n` bounds it from above."""
    producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS
    recovery_threads: int = 1
    """num.recovery.threads.per.data.dir: logs of one directory that are recovered, or flushed at the end, at a time."""


class LogDirectoryInfo(NamedTuple):
    """One log directory for DescribeLogDirs; sizes in bytes, -1 if they are unknown."""

    path: str
    error: StorageError | None
    total_bytes: int
    usable_bytes: int
    logs: list[UnifiedLog]
    is_cordoned: bool = False


class _Syncing:
    """A log whose last records become durable."""

    __slots__ = ("failure", "log", "task")

    def __init__(self, log: UnifiedLog, task: FlushTask) -> None:
        self.log = log
        self.task = task
        self.failure: StorageError | None = None

    def run(self) -> None:
        try:
            self.task.sync()
        except StorageError as failure:
            self.failure = failure


class LogManager:
    """The logs of one broker. Call `load` first and `close` last.

    One class, because every method reads or changes the same map of partitions to logs and homes: to find, make, move,
    delete or close a log needs what the others did. Loading and checkpoints do not need it, and are modules.
    """

    def __init__(  # noqa: PLR0913 - made once, by name; the last three are for tests and the simulator
        self,
        filesystem: FileSystem,
        directories: Sequence[str],
        settings: LogManagerSettings,
        config_for: ConfigFor,
        *,
        draw: Callable[[int], int] = lambda limit: 0,
        is_claimed: Callable[[TopicPartition], bool] = lambda partition: True,
        run_all: RunAll = one_by_one,
    ) -> None:
        """`directories` are log.dirs; `draw(limit)` an integer below `limit`, for jitter and directory names.

        `is_claimed` tells if a partition belongs to an existing topic; other logs are left alone (I6). `run_all` reads
        and syncs logs, on threads where the settings ask for more than one at a time.
        """
        if not directories or len(set(directories)) != len(directories):
            raise InvariantViolation(f"log directories must be named once each, got {directories!r}")
        self._filesystem = filesystem
        self._directories = list(directories)
        self._settings = settings
        self._ports = LoadingPorts(config_for, draw, is_claimed, run_all)
        self._draw = draw
        self._open_segments = OpenSegments(settings.max_open_segments)
        self._homes: dict[str, LogHome] = {}
        self._checkpoints = OffsetCheckpoints(filesystem)
        self._offline: dict[str, StorageError] = {}
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._noted: dict[LogDirectory, None] = {}
        """Those of logs that flushes and removals have to look at."""
        self._preferred: dict[TopicPartition, str] = {}
        self._moves: dict[TopicPartition, LogMove] = {}
        self.producer_id_expiration_ms = settings.producer_id_expiration_ms
        """producer.id.expiration.ms, which may change at run time."""
        self.recovery_threads = settings.recovery_threads
        """num.recovery.threads.per.data.dir, as it is to be when the logs are closed."""
        self.cordoned: frozenset[str] = frozenset()
        """cordoned.log.dirs: directories that get no new logs (KIP-1066)."""
        self.is_released = False
        """Whether the directories are given up, at the end or after a start that failed: no log is here any more."""
        self.broker_id = settings.broker_id
        self.cluster_id = settings.cluster_id

    # -- start

    def load(self, now_ms: int) -> LoadReport:
        """Takes the directories into use and loads every log in them. Blocks.

        A directory that cannot be used is offline in the report. Raises `InconsistentMetadata` if one belongs to
        another broker or cluster, `LogDirectoryLocked` if another process has it, and `StorageError` if none is left.
        """
        for path in self._directories:
            try:
                self._homes[path] = self._open_home(path)
            except (LogDirectoryLocked, InconsistentMetadata):
                self.release()
                raise
            except StorageError as error:
                self._take_offline(path, error)
        self._agree_on_identity()
        report = LoadReport(0, 0, [], dict(self._offline), {})
        limits = LoadingLimits(self.recovery_threads, self.producer_id_expiration_ms)
        parts = (self._checkpoints, self._open_segments, self._noted)
        loader = HomeLoader(self._filesystem, parts, self._ports, limits, now_ms)
        for home in list(self._homes.values()):
            with self._offline_if_it_fails(home, report):
                loader.find_marks(home.path)
        loader.find_rivals(self._homes, next(iter(self._offline), None))
        plans: list[HomePlan] = []
        for home in list(self._homes.values()):
            with self._offline_if_it_fails(home, report):
                plans.append(loader.plan(home, report))
        loader.run(plans)
        for plan in plans:
            with self._offline_if_it_fails(plan.home, report):
                for log in loader.logs_of(plan, report):
                    plan.home.logs[log.topic_partition] = self._logs[log.topic_partition] = log
                report = loader.finish(plan, report)
        all_are_loaded = not self._offline
        for home in list(self._homes.values()):
            with self._offline_if_it_fails(home, report):
                loader.clear_marks(home, all_are_loaded=all_are_loaded)
        self._require_one_directory()
        marked = report.broker_epochs.keys() >= set(self._directories)
        believed = all(reason.what != MARK_IGNORED and reason.offset < 0 for _, reason in report.reasons)
        return report._replace(was_clean=marked and believed and not report.offline)

    def _open_home(self, path: str) -> LogHome:
        make_durable_directory(self._filesystem, path)
        lock = self._filesystem.lock(f"{path}/{LOCK}")
        return LogHome(path, lock, MadeDirectories(self._filesystem, path))

    def _require_one_directory(self) -> None:
        if self.is_released:
            raise StorageError(self._directories[0], "was released: the broker is stopping")
        if not self._homes:
            path, error = next(iter(self._offline.items()))
            raise StorageError(path, f"no usable log directory is left: {error}")

    def _agree_on_identity(self) -> None:
        """Checks meta.properties of every directory against the settings and each other, and writes missing ones."""
        missing = []
        for path in list(self._homes):
            try:
                found = self._read_meta_properties(path)
            except StorageError as error:
                if isinstance(error, InconsistentMetadata):
                    self.release()
                    raise
                self.on_storage_error(path, error)
                continue
            if found is None:
                missing.append(path)
                continue
            self._check_identity(path, "broker.id", self.broker_id, found.broker_id)
            self._check_identity(path, "cluster.id", self.cluster_id, found.cluster_id)
            self.broker_id = self.broker_id if found.broker_id is None else found.broker_id
            self.cluster_id = self.cluster_id if found.cluster_id is None else found.cluster_id
        data = format_meta_properties(MetaProperties(self.broker_id, self.cluster_id))
        for path in missing:
            try:
                # Durably: a torn one would keep the broker from starting after a power cut.
                self._filesystem.write_atomically(f"{path}/{META_PROPERTIES}", data)
            except StorageError as error:
                self.on_storage_error(path, error)

    def _read_meta_properties(self, path: str) -> MetaProperties | None:
        file_path = f"{path}/{META_PROPERTIES}"
        try:
            return parse_meta_properties(self._filesystem.read(file_path))
        except FileNotFoundError:
            return None
        except MalformedCheckpoint as error:
            raise DamagedMetadata(file_path, f"damaged: {error}") from error

    def _check_identity(self, path: str, name: str, expected: object, found: object) -> None:
        if expected is not None and found is not None and expected != found:
            self.release()
            raise InconsistentMetadata(
                f"{path}/{META_PROPERTIES}",
                f"{name} is {found}, expected {expected}; if the directory is of another broker, name another one in "
                "log.dirs",
            )

    @contextmanager
    def _offline_if_it_fails(self, home: LogHome, report: LoadReport) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            if isinstance(error, InconsistentMetadata):
                self.release()
                raise
            self.on_storage_error(home.path, error)
            report.offline[home.path] = error

    # -- logs

    def __iter__(self) -> Iterator[UnifiedLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.get(partition)

    def get_or_create(
        self,
        partition: TopicPartition,
        topic_id: uuid.UUID | None,
        now_ms: int,
        *,
        is_new: bool = True,
        directory: str | None = None,
        config: LogConfig | None = None,
    ) -> UnifiedLog:
        """The partition's log, made in `directory` or in the one with the fewest logs if there is none: of those that
        are not cordoned, or of all where all are, for the controller does not know it and has sent the partition here.

        A partition that is not new (`is_new` false) gets no log while a directory is offline, for it may lie there: an
        empty log in its place would hide its records, and stand in its way when the directory is back.

        Raises `InconsistentMetadata` if the log on disk is of another topic id (see `set_aside`), `StorageError` if it
        cannot be made, or has failed.
        """
        log = self._logs.get(partition)
        if log is not None:
            if log.failure is not None:
                raise log.failure
            if topic_id is not None:
                log.assign_topic_id(topic_id)
            return log
        if not is_new and self._offline:
            offline = next(iter(self._offline))
            raise StorageError(offline, f"is offline, and {partition} may be in it")
        preferred = self._preferred.pop(partition, None)
        if directory is None and preferred in self._homes:
            directory = preferred
        home = self._home_for_new(directory)
        if config is None:
            config = self._ports.config_for(partition.topic)
        for other in list(self._homes.values()):
            if other is not home:
                self._clear_name(other, partition)
        try:
            if partition in home.former:
                self._checkpoints.forget_former(home)
            log = self._create_log(home, partition, topic_id, config, now_ms)
        except StorageError as error:
            self.on_storage_error(home.path, error)
            raise
        home.logs[partition] = self._logs[partition] = log
        return log

    def _clear_name(self, home: LogHome, partition: TopicPartition) -> None:
        """Has no directory of this name in `home`, durably: beside the new log in another log directory it would be a
        second one of the partition at the next start, which refuses two. Raises `StorageError`."""
        try:
            if self._filesystem.exists(f"{home.path}/{partition}"):
                self._move_stray_aside(home, partition)
                self._filesystem.sync_directory(home.path)
            elif partition in home.former:
                self._checkpoints.forget_former(home)
        except StorageError as error:
            self.on_storage_error(home.path, error)
            raise

    def _move_stray_aside(self, home: LogHome, partition: TopicPartition) -> None:
        """Raises `StorageError`."""
        aside = f"{home.path}/{unique_name(partition, STRAY_SUFFIX, self._draw)}"
        self._filesystem.rename(f"{home.path}/{partition}", aside)
        _log_set_aside(partition, aside)

    def _create_log(
        self, home: LogHome, partition: TopicPartition, topic_id: uuid.UUID | None, config: LogConfig, now_ms: int
    ) -> UnifiedLog:
        path = f"{home.path}/{partition}"
        try:
            # One call for all: a thousand new partitions are a thousand of them.
            if not self._filesystem.make_new_directory(path):
                self._move_stray_aside(home, partition)
                self._filesystem.make_new_directory(path)
        except FileNotFoundError as error:
            # To make it again would bring back a log directory without its lock and its identity.
            raise StorageError(home.path, "is gone") from error
        directory = LogDirectory(self._filesystem, path, self._open_segments, home.made, self._noted)
        request = LoadRequest(
            config, True, 0, 0, now_ms, self.producer_id_expiration_ms, roll_jitter_ms=config.roll_jitter_ms(self._draw)
        )
        loaded = create_log(directory, request)
        return UnifiedLog(
            partition,
            loaded,
            config,
            now_ms=now_ms,
            topic_id=topic_id,
            topic_id_is_on_disk=False,
            jitter=self._draw,
        )

    def _home_for_new(self, directory: str | None) -> LogHome:
        if directory is not None:
            home = self._homes.get(directory)
            if home is None:
                raise StorageError(directory, "is not a log directory of this broker, or is offline")
            return home
        self._require_one_directory()
        homes = [home for home in self._homes.values() if home.path not in self.cordoned]
        return min(homes or self._homes.values(), key=lambda home: len(home.logs))

    def delete(self, partition: TopicPartition, now_ms: int, *, delay_ms: int | None = None) -> bool:
        """Removes the partition's log; its files are deleted `delay_ms` (file.delete.delay.ms) later. Returns False if
        there is none.

        Raises `StorageError`; the log is gone from here all the same.
        """
        log = self._logs.pop(partition, None)
        if log is None:
            return False
        home = self._home_of(log)
        path = self._take_out(log, partition, DELETE_SUFFIX)
        delay_ms = log.config.file_delete_delay_ms if delay_ms is None else delay_ms
        home.pending.append(DeletedDirectory(now_ms + delay_ms, path))
        _logger.info("log deleted", partition=str(partition), path=path, delay_ms=delay_ms)
        return True

    def _note_former(self, home: LogHome, partition: TopicPartition) -> None:
        """Remembers a log that is no longer here. Raises `StorageError`."""
        if len(home.former) >= MAX_FORMER:
            self._checkpoints.forget_former(home)
        home.former[partition] = None

    # -- moves between log directories

    def check_directory(self, directory: str) -> ErrorCode:
        """LOG_DIR_NOT_FOUND for one that is not of this broker, KAFKA_STORAGE_ERROR for one that is offline,
        INVALID_REPLICA_ASSIGNMENT for one that is cordoned."""
        if directory not in self._directories:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if directory not in self._homes:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT if directory in self.cordoned else ErrorCode.NONE

    def prefer_directory(self, partition: TopicPartition, directory: str) -> None:
        """Remembers that the partition's log, which does not exist yet, goes into this directory."""
        self._preferred.pop(partition, None)
        self._preferred[partition] = directory
        while len(self._preferred) > MAX_PREFERENCES:
            del self._preferred[next(iter(self._preferred))]

    def begin_move(self, partition: TopicPartition, directory: str) -> LogMove | None:
        """A move of the partition's log into another directory; it replaces a move that is under way. None if the log
        is there already. Raises `StorageError`."""
        from kavka.log.log_move import LogMove  # late: few brokers move a log between their directories

        log = self._logs[partition]
        under_way = self._moves.get(partition)
        if under_way is not None and self.is_under_way(under_way) and under_way.path.startswith(f"{directory}/"):
            return under_way
        self.end_move(partition)
        if self._home_of(log).path == directory:
            return None
        path = f"{directory}/{unique_name(partition, FUTURE_SUFFIX, self._draw)}"
        self._filesystem.make_directory(path)
        move = self._moves[partition] = LogMove(self._filesystem, log, path)
        return move

    def is_under_way(self, move: LogMove) -> bool:
        """True if it is the current move of a log that is still here, with both directories in use."""
        log, partition = move.log, move.log.topic_partition
        is_wanted = self._moves.get(partition) is move and self._logs.get(partition) is log and log.failure is None
        return is_wanted and self.directory_of(move.path) is not None

    def finish_move(self, move: LogMove, now_ms: int) -> None:
        """Puts the copy in the place of the log's directory. Blocks for a few syncs. Raises `StorageError`."""
        log, partition = move.log, move.log.topic_partition
        source, target = self._home_of(log), self._homes[move.path.rpartition("/")[0]]
        # Where a power cut comes before the last of this, the copy is the log: its checkpoints must know it before, or
        # records that were deleted are back. As long as it has not its name, what they say of it counts for nothing.
        target.logs[partition] = log
        try:
            self._checkpoints.write_all(target)
            former = move.finish(f"{target.path}/{partition}")
        except (StorageError, FileNotFoundError):
            left = target if self._home_of(log) is source else source
            del left.logs[partition]
            left.former[partition] = None
            raise
        del self._moves[partition]
        del source.logs[partition]
        source.former[partition] = None
        deleted = f"{source.path}/{unique_name(partition, DELETE_SUFFIX, self._draw)}"
        self._filesystem.rename(former, deleted)
        self._filesystem.sync_directory(source.path)
        source.pending.append(DeletedDirectory(now_ms + log.config.file_delete_delay_ms, deleted))
        if not self._offline:
            # A disk that is back at the next start may have a copy that an earlier move could not rename.
            self._filesystem.remove(f"{log.directory}/{MOVED_MARK}")
        for home in (target, source):
            self._checkpoints.write_all(home)
        del source.former[partition]

    def end_move(self, partition: TopicPartition) -> None:
        """Ends a move that is under way. Its copy is removed with the deleted directories."""
        move = self._moves.pop(partition, None)
        home = None if move is None else self._homes.get(move.path.rpartition("/")[0])
        if move is not None and home is not None:
            home.pending.append(DeletedDirectory(0, move.path))

    def moves(self, directory: str) -> list[LogMove]:
        """The moves into a directory."""
        return [move for move in self._moves.values() if move.path.startswith(f"{directory}/")]

    def truncate_to(self, partition: TopicPartition, offset: Offset, now_ms: int) -> bool:
        """Truncates a partition's log, and writes the checkpoints of which an offset went back with it (I4).

        False if there was nothing at `offset` and behind it. Blocks. Raises `StorageError`.
        """
        log = self._logs[partition]
        before = self._checkpoints.offsets_of(log)
        truncated = log.truncate_to(offset, now_ms)
        self._checkpoints.write_lowered(self._home_of(log), log, before)
        return truncated

    def truncate_fully_and_start_at(
        self, partition: TopicPartition, offset: Offset, now_ms: int, *, log_start_offset: Offset | None = None
    ) -> None:
        """Empties a partition's log, which continues at `offset`. Writes checkpoints as `truncate_to` does."""
        log = self._logs[partition]
        before = self._checkpoints.offsets_of(log)
        log.truncate_fully_and_start_at(offset, now_ms, log_start_offset=log_start_offset)
        self._checkpoints.write_lowered(self._home_of(log), log, before)

    def set_aside(self, partition: TopicPartition) -> str:
        """Renames a log to TOPIC-PARTITION.UUID-stray and keeps its files. Returns the path.

        For a log of a topic that was deleted and created again under its name, which a crash kept from being removed.
        Raises `StorageError`; the log is gone from here all the same.
        """
        path = self._take_out(self._logs.pop(partition), partition, STRAY_SUFFIX)
        _log_set_aside(partition, path)
        return path

    def _take_out(self, log: UnifiedLog, partition: TopicPartition, suffix: str) -> str:
        """Gives the log up, and its directory another name, which is returned. Raises `StorageError`."""
        self.end_move(partition)
        home = self._home_of(log)
        home.logs.pop(partition, None)
        log.abandon()
        path = f"{home.path}/{unique_name(partition, suffix, self._draw)}"
        try:
            self._note_former(home, partition)
            log.rename_directory(path)
        except StorageError as error:
            self.on_storage_error(home.path, error)
            raise
        return path

    def _home_of(self, log: UnifiedLog) -> LogHome:
        return self._homes[log.directory.rpartition("/")[0]]

    # -- periodic work

    def take_removals(self, now_ms: int) -> list[str]:
        """Paths of files and directories whose delay is over, to be given to `remove_paths`."""
        due = [path for log in self._noted_logs() for path in log.take_removals(now_ms)]
        for home in self._homes.values():
            due.extend(entry.path for entry in home.pending if entry.due_ms <= now_ms)
            home.pending = [entry for entry in home.pending if entry.due_ms > now_ms]
        return due

    def remove_paths(self, paths: Iterable[str]) -> None:
        """Removes files and directories for good. Blocks. Raises `StorageError` after it has tried all of them: the
        others may be on disks that work, and nobody would try again."""
        failure: StorageError | None = None
        for path in paths:
            try:
                if path.endswith((DELETE_SUFFIX, FUTURE_SUFFIX)):
                    self._filesystem.remove_directory(path)
                else:
                    self._filesystem.remove(path)
            except FileNotFoundError:
                # A partition that was deleted after its segment took the file along.
                continue
            except StorageError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def delete_old_segments(self, now_ms: int) -> list[tuple[TopicPartition, DeletedSegments]]:
        """Applies retention to every log (log.retention.check.interval.ms). If a disk fails, its directory goes
        offline."""
        deleted: list[tuple[TopicPartition, DeletedSegments]] = []
        for log in list(self._logs.values()):
            if log.failure is None:
                try:
                    deleted.extend((log.topic_partition, group) for group in log.delete_old_segments(now_ms))
                except StorageError as error:
                    self.on_storage_error(log.directory, error)
        return deleted

    def logs_to_flush(self, now_ms: int) -> list[UnifiedLog]:
        """Logs that want to be flushed: prepare each here, sync its task on a worker, complete it here."""
        due = [log for log in self._noted_logs() if log.flush_due(now_ms)]
        self._keep_noted(due)
        return due

    def logs_to_identify(self) -> list[UnifiedLog]:
        """Logs whose topic id is not durable yet."""
        return [log for log in self._noted_logs() if log.topic_id_due]

    @property
    def noted_count(self) -> int:
        """How many logs the next flushes and removals have to look at: those that have changed, not all."""
        return len(self._noted)

    def _noted_logs(self) -> list[UnifiedLog]:
        found = (directory.log for directory in self._noted)
        return [log for log in found if log is not None and self._logs.get(log.topic_partition) is log]

    def _keep_noted(self, due: Sequence[UnifiedLog]) -> None:
        """Forgets the logs that nothing but another note will make due."""
        waiting = {log.directory for log in self._noted_logs() if _waits(log)} | {log.directory for log in due}
        kept = [directory for directory in self._noted if directory.path in waiting]
        self._noted.clear()  # A dict that entries are taken out of one by one stays as large as it was.
        self._noted.update(dict.fromkeys(kept))

    def expire_producers(self, now_ms: int) -> None:
        """Forgets silent producers (producer.id.expiration.check.interval.ms)."""
        for log in self._logs.values():
            log.producers.expire(now_ms, self.producer_id_expiration_ms)

    def checkpoints_due(self, name: str) -> list[CheckpointFile]:
        """The checkpoints called `name` of all directories that must say something else now than they do; give them to
        `write_checkpoint`."""
        return self._checkpoints.due(self._homes.values(), name)

    def write_checkpoint(self, file: CheckpointFile) -> None:
        """Blocks, and may run on a worker. A checkpoint that is older than the one on disk is not written (I7). Raises
        `StorageError`."""
        self._checkpoints.write(file)

    # -- failure

    @property
    def offline_directories(self) -> dict[str, StorageError]:
        """The directories that cannot be used, and why."""
        return dict(self._offline)

    @property
    def live_directories(self) -> list[str]:
        return list(self._homes)

    def directory_of(self, path: str) -> str | None:
        """The log directory in use that contains `path`, the path of a `StorageError`; None if there is none."""
        for directory in self._homes:
            if path == directory or path.startswith(f"{directory}/"):
                return directory
        return None

    def on_storage_error(self, path: str, error: StorageError) -> list[TopicPartition]:
        """Takes the directory of `path` offline. Returns the partitions that are gone with it.

        A `DamagedLog` takes no directory offline: its log has failed, the disk has not. The caller halts the broker if
        `live_directories` is empty then.
        """
        if isinstance(error, DamagedLog):
            _logger.error(
                "log damaged",
                why=str(error),
                next_step="restart the broker: it recovers the log, and fetches from the leader what was lost",
            )
            return []
        directory = self.directory_of(path)
        if directory is None:
            return []
        return self._take_offline(directory, error)

    def _take_offline(self, directory: str, error: StorageError) -> list[TopicPartition]:
        self._offline[directory] = error
        home = self._homes.pop(directory, None)
        partitions = list(home.logs) if home else []
        _logger.error(
            "log directory offline",
            directory=directory,
            why=str(error),
            partitions=len(partitions),
            next_step=f"{'make room on' if isinstance(error, DiskFull) else 'repair'} the disk and restart the broker",
        )
        if home is not None:
            for partition in partitions:
                log = self._logs.pop(partition)
                log.failure = log.failure or error
                log.abandon()
            home.lock.close()
        return partitions

    def describe(self) -> list[LogDirectoryInfo]:
        """Every configured directory with its logs."""
        infos = []
        for path in self._directories:
            home = self._homes.get(path)
            if home is None:
                infos.append(LogDirectoryInfo(path, self._offline.get(path), -1, -1, [], path in self.cordoned))
                continue
            try:
                total, usable = self._filesystem.space(path)
            except (StorageError, FileNotFoundError):
                total = usable = -1
            infos.append(LogDirectoryInfo(path, None, total, usable, list(home.logs.values()), path in self.cordoned))
        return infos

    # -- the end

    def written_at_close(self) -> list[UnifiedLog]:
        """The logs without records whose topic id `close` writes: it may be written ahead."""
        return [log for log in self._logs.values() if log.metadata.is_unwritten and not log.log_end_offset]

    def write_ahead(self, logs: Iterable[UnifiedLog]) -> None:
        """Writes the topic ids of those that are still here. Raises `StorageError`."""
        for log in logs:
            if self.get(log.topic_partition) is log and log.failure is None and log.metadata.is_unwritten:
                log.metadata.write_ahead()

    def close(self, now_ms: int, *, broker_epoch: int = -1) -> None:
        """Flushes and closes every log and marks the directories clean. Blocks.

        Worker threads must be done with flushes before. A directory that fails is left without its mark.
        """
        self._flush_beside_each_other(now_ms)
        for home in list(self._homes.values()):
            try:
                for log in home.logs.values():
                    if isinstance(log.failure, UndecidedLog):
                        log.failure = None  # Its files are whole.
                    if log.failure is not None:
                        raise log.failure
                    log.close(now_ms)
                for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
                    self._checkpoints.write(self._checkpoints.of(home, name))
                if home.fully_loaded:
                    self._filesystem.write_atomically(
                        f"{home.path}/{CLEAN_SHUTDOWN}", format_clean_shutdown(broker_epoch)
                    )
            except StorageError as error:
                self.on_storage_error(home.path, error)
        self.release()

    def _flush_beside_each_other(self, now_ms: int) -> None:
        """Makes logs durable, several at a time if the settings allow it. A failure affects only its log."""
        at_a_time = max(self.recovery_threads * len(self._homes), 1)
        unflushed = [log for log in self._logs.values() if log.log_end_offset > log.recovery_point]
        # Not all at once: each holds its files open.
        for start in range(0, len(unflushed) if at_a_time > 1 else 0, at_a_time):
            syncing = []
            for log in unflushed[start : start + at_a_time]:
                try:
                    log.write_all()
                    task = log.prepare_flush()
                except StorageError:
                    continue  # Its log has noted it.
                if task is not None:
                    syncing.append(_Syncing(log, task))
            self._ports.run_all([one.run for one in syncing], at_a_time)
            for one in syncing:
                if one.failure is None:
                    one.log.complete_flush(one.task, now_ms)
                else:
                    one.log.fail_flush(one.failure)

    def release(self) -> None:
        """Releases the locks without writing anything."""
        self.is_released = True
        for home in self._homes.values():
            for log in home.logs.values():
                log.abandon()
            home.lock.close()
        self._homes.clear()
        self._logs.clear()


def _waits(log: UnifiedLog) -> bool:
    """Whether something of the log will be due, though nothing changes any more."""
    return log.flush_in_progress or log.topic_id_due or log.has_removals or log.config.asks_for_flushes


def _log_set_aside(partition: TopicPartition, path: str) -> None:
    _logger.warning(
        "log set aside",
        partition=str(partition),
        path=path,
        why="it belongs to an earlier topic with this name",
        next_step="remove the directory if nobody misses its records",
    )
