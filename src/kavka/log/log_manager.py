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
  I7  What a checkpoint says of a log holds for no other log of that name. Else, with records deleted up to 26, the
      topic deleted and made again, five records acknowledged and the broker killed: the next start believes that the
      log begins at 26, and drops all five. So the checkpoints of a directory forget a log before its successor is made
      there, and none that was made before is written after a later one.

Source: Kafka's LogManager, MetaPropertiesEnsemble, BrokerMetadataCheckpoint; rules S38, S39.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from kavka.errors import (
    DamagedLog,
    DamagedMetadata,
    ErrorCode,
    InconsistentMetadata,
    InvariantViolation,
    LogDirectoryLocked,
    StorageError,
)
from kavka.filesystem import File, FileSystem, make_durable_directory
from kavka.log.decide.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpoint,
    MetaProperties,
    format_clean_shutdown,
    format_meta_properties,
    format_offsets,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_offsets,
    parse_partition_metadata,
)
from kavka.log.durability import FlushTask
from kavka.log.log_config import LogConfig
from kavka.log.log_loader import MARK_IGNORED, LoadedLog, LoadRequest, RecoveryReason, create_log, load_log
from kavka.log.log_move import MOVED_MARK, LogMove
from kavka.log.log_results import DeletedSegments
from kavka.log.made_directories import MadeDirectories
from kavka.log.segment import DEFAULT_MAX_OPEN_SEGMENTS, LogDirectory, OpenSegments
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import Offset, TopicPartition

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
MAX_NAME_LENGTH = 255
MAX_FORMER = 10_000
"""Logs that are gone from a directory and may stand in its checkpoints, before these are written for that alone."""
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""A KRaft broker's own log, which no other broker may touch."""
MAX_PREFERENCES = 10_000
"""Partitions without a log here of which it is remembered in which directory they are to be."""
_FUTURE = re.compile(r"(.+)-([0-9]+)\.[^.]+-future")
_DELETED = re.compile(r".+-[0-9]+\.[^.]+-delete")
STRAYS_NAMED = 20
"""Stray logs that the line about them names, of one directory."""
DEFAULT_PRODUCER_ID_EXPIRATION_MS = 24 * 3_600_000
"""producer.id.expiration.ms"""

_logger = Logger(__name__)
ConfigFor = Callable[[str], LogConfig]
"""The settings of a topic's logs, by its name."""
RunAll = Callable[[Sequence[Callable[[], None]], int], None]
"""Runs jobs, so many at a time at most; returns when all have ended. What one of them raises is a bug."""


def one_by_one(jobs: Sequence[Callable[[], None]], at_a_time: int) -> None:
    """The RunAll of a host without threads."""
    for job in jobs:
        job()


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


class LoadReport(NamedTuple):
    """What `load` found."""

    loaded: int
    recovered: int
    """Logs that were loaded without a clean-shutdown mark."""
    reasons: list[tuple[TopicPartition, RecoveryReason]]
    offline: dict[str, StorageError]
    broker_epochs: dict[str, int]
    """By directory, the broker epoch in its clean-shutdown mark (KIP-966); none without a mark."""
    was_clean: bool = False
    """Whether every directory was there, with a mark that could be believed: nothing was lost since the last stop. A
    directory that was empty, a new disk perhaps, has none."""


class CheckpointFile(NamedTuple):
    """A checkpoint as it is to be written; those that are made later have larger numbers."""

    path: str
    content: bytes
    number: int


class LogDirectoryInfo(NamedTuple):
    """One log directory as DescribeLogDirs tells of it; sizes in bytes, -1 where they cannot be had."""

    path: str
    error: StorageError | None
    total_bytes: int
    usable_bytes: int
    logs: list[UnifiedLog]


class _DeletedDirectory(NamedTuple):
    due_ms: int
    """By the wall clock, as `PendingRemoval` has it."""
    path: str


class _Loading:
    """A log that is being loaded, maybe beside others on a thread of its own; afterwards one of the two is there."""

    __slots__ = ("directory", "failure", "loaded", "partition", "request")

    def __init__(self, directory: LogDirectory, partition: TopicPartition, request: LoadRequest) -> None:
        self.directory = directory
        self.partition = partition
        self.request = request
        self.loaded: LoadedLog | None = None
        self.failure: StorageError | None = None

    def run(self) -> None:
        try:
            self.loaded = load_log(self.directory, self.request)
        except StorageError as failure:
            self.failure = failure


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


class _HomePlan(NamedTuple):
    """What is to be loaded from a log directory, and what its checkpoints say."""

    home: _Home
    was_clean: bool
    loadings: list[_Loading]
    high_watermarks: Mapping[TopicPartition, Offset]
    cleaned_to: Mapping[TopicPartition, Offset]
    checkpointed: set[TopicPartition]
    strays: list[str]


class _Home:
    """One log directory that is in use."""

    __slots__ = ("former", "fully_loaded", "lock", "logs", "made", "path", "pending")

    def __init__(self, path: str, lock: File, made: MadeDirectories) -> None:
        self.path = path
        self.lock = lock
        self.made = made
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.fully_loaded = False
        self.pending: list[_DeletedDirectory] = []
        self.former: dict[TopicPartition, None] = {}
        """Partitions whose logs are gone from here and whose offsets may still stand in checkpoints (I7)."""


class LogManager:
    """The logs of one broker. Call `load` first and `close` last."""

    def __init__(
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

        `is_claimed`: whether there is a topic that a partition is of; the logs of others are left alone (I6).
        `run_all` reads and syncs logs, on threads where the settings ask for more than one at a time.
        """
        if not directories or len(set(directories)) != len(directories):
            raise InvariantViolation(f"log directories must be named once each, got {directories!r}")
        self._filesystem = filesystem
        self._directories = list(directories)
        self._settings = settings
        self._config_for = config_for
        self._draw = draw
        self._is_claimed = is_claimed
        self._run_all = run_all
        self._open_segments = OpenSegments(settings.max_open_segments)
        self._homes: dict[str, _Home] = {}
        self._checkpointed: dict[str, bytes] = {}
        self._checkpoints_made = 0
        self._written_number: dict[str, int] = {}
        self._writing = threading.Lock()
        """Held while a checkpoint is written, here or on a worker (I7)."""
        self._offline: dict[str, StorageError] = {}
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._preferred: dict[TopicPartition, str] = {}
        self._moves: dict[TopicPartition, LogMove] = {}
        self._moved: dict[TopicPartition, str] = {}
        self._marks: list[str] = []
        self.producer_id_expiration_ms = settings.producer_id_expiration_ms
        """producer.id.expiration.ms, which may change at run time."""
        self.recovery_threads = settings.recovery_threads
        """num.recovery.threads.per.data.dir, as it is to be when the logs are closed."""
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
        self._require_one_directory()
        self._agree_on_identity()
        report = LoadReport(0, 0, [], dict(self._offline), {})
        self._find_moved()
        plans: list[_HomePlan] = []
        planned: dict[TopicPartition, str] = {}
        for home in list(self._homes.values()):
            with self._offline_if_it_fails(home, report):
                plans.append(self._plan_home(home, now_ms, planned, report))
        self._run_loadings(plans)
        for plan in plans:
            with self._offline_if_it_fails(plan.home, report):
                report = self._finish_home(plan, report)
        self._require_one_directory()
        for mark in self._marks if not self._offline else ():
            # Now nobody could take the other one for the log.
            self._filesystem.remove(mark)
        marked = report.broker_epochs.keys() >= set(self._directories)
        believed = all(reason.what != MARK_IGNORED and reason.offset < 0 for _, reason in report.reasons)
        return report._replace(was_clean=marked and believed and not report.offline)

    def _find_moved(self) -> None:
        """Looks for logs whose move was ended by a crash: two directories have their names, and one of them a mark."""
        for path in self._homes:
            try:
                for name in self._filesystem.list_directory(path):
                    partition = parse_directory_name(name)
                    if partition is not None and self._filesystem.exists(f"{path}/{name}/{MOVED_MARK}"):
                        self._moved[partition] = path
            except StorageError as error:
                _logger.warning("log directory not read", directory=path, why=str(error))

    def _open_home(self, path: str) -> _Home:
        make_durable_directory(self._filesystem, path)
        lock = self._filesystem.lock(f"{path}/{LOCK}")
        return _Home(path, lock, MadeDirectories(self._filesystem, path))

    def _require_one_directory(self) -> None:
        if self.is_released:
            raise StorageError(self._directories[0], "is given up: the broker is stopping")
        if not self._homes:
            path, error = next(iter(self._offline.items()))
            raise StorageError(path, f"no log directory is left: {error}")

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
        self._require_one_directory()

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
    def _offline_if_it_fails(self, home: _Home, report: LoadReport) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            if isinstance(error, InconsistentMetadata):
                self.release()
                raise
            self.on_storage_error(home.path, error)
            report.offline[home.path] = error

    def _plan_home(self, home: _Home, now_ms: int, planned: dict[TopicPartition, str], report: LoadReport) -> _HomePlan:
        path = home.path
        names = self._filesystem.list_directory(path)
        was_clean = CLEAN_SHUTDOWN in names
        if was_clean:
            mark = f"{path}/{CLEAN_SHUTDOWN}"
            report.broker_epochs[path] = parse_clean_shutdown(self._filesystem.read(mark))
            self._filesystem.remove(mark)
            # Durably: a mark that a power cut brings back would vouch for logs that lost their tails by it.
            self._filesystem.sync_directory(path)
        recovery_points = self._read_offsets(path, RECOVERY_POINT_CHECKPOINT)
        log_starts = self._read_offsets(path, LOG_START_OFFSET_CHECKPOINT)
        high_watermarks = self._read_offsets(path, HIGH_WATERMARK_CHECKPOINT)
        cleaned_to = self._read_offsets(path, CLEANER_OFFSET_CHECKPOINT)
        loadings: list[_Loading] = []
        strays = []
        for name in names:
            directory = f"{path}/{name}"
            if _DELETED.fullmatch(name) is not None:
                home.pending.append(_DeletedDirectory(now_ms, directory))
                continue
            partition = parse_directory_name(name)
            if partition is None:
                copied = _FUTURE.fullmatch(name)
                if copied is not None and self._is_claimed(TopicPartition(copied[1], int(copied[2]))):
                    # A move that did not come to its end: the log is where it was.
                    home.pending.append(_DeletedDirectory(now_ms, directory))
                elif name.endswith((DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX)):
                    strays.append(name)
                continue
            if self._moved.get(partition, path) != path:
                deleted = f"{path}/{self._unique_name(partition, DELETE_SUFFIX)}"
                self._filesystem.rename(directory, deleted)
                home.pending.append(_DeletedDirectory(now_ms, deleted))
                continue
            if partition.topic == CLUSTER_METADATA_TOPIC:
                continue
            if not self._is_claimed(partition) or name != str(partition):
                strays.append(name)
                continue
            if partition in planned:
                raise InconsistentMetadata(
                    directory, f"{partition} is also in {planned[partition]}: remove one of the two"
                )
            planned[partition] = directory
            config = self._config_for(partition.topic)
            request = LoadRequest(
                config=config,
                was_clean=was_clean,
                recovery_point=recovery_points.get(partition, 0),
                log_start_offset=log_starts.get(partition, 0),
                now_ms=now_ms,
                producer_id_expiration_ms=self.producer_id_expiration_ms,
                cleaned_to=cleaned_to.get(partition),
                roll_jitter_ms=config.roll_jitter_ms(self._draw),
            )
            loadings.append(_Loading(self._directory_in(home, directory, is_durable=was_clean), partition, request))
        checkpointed = {
            partition for known in (recovery_points, log_starts, high_watermarks, cleaned_to) for partition in known
        }
        return _HomePlan(home, was_clean, loadings, high_watermarks, cleaned_to, checkpointed, strays)

    def _run_loadings(self, plans: Sequence[_HomePlan]) -> None:
        """Reads the logs. Those that are to be recovered may take threads: what they wait for is the disk."""
        recovering = [loading for plan in plans if not plan.was_clean for loading in plan.loadings]
        at_a_time = self.recovery_threads * sum(not plan.was_clean for plan in plans)
        if at_a_time > 1:
            # `OpenSegments` is not made for threads: each log has its own until it is read.
            most = max(self._settings.max_open_segments // at_a_time, 1)
            for loading in recovering:
                loading.directory.open_segments = OpenSegments(most)
        self._run_all([loading.run for loading in recovering], at_a_time)
        for loading in recovering:
            loading.directory.open_segments = self._open_segments.taking_over(loading.directory.open_segments)
        one_by_one([loading.run for plan in plans if plan.was_clean for loading in plan.loadings], 1)

    def _finish_home(self, plan: _HomePlan, report: LoadReport) -> LoadReport:
        home, path = plan.home, plan.home.path
        marked = []
        for loading in plan.loadings:
            partition = loading.partition
            log = self._loaded_log(loading, report)
            log.set_high_watermark(plan.high_watermarks.get(partition, 0))
            log.cleaned_to = plan.cleaned_to.get(partition)
            home.logs[partition] = self._logs[partition] = log
            if partition in self._moved:
                marked.append(f"{loading.directory.path}/{MOVED_MARK}")
        home.former.update(dict.fromkeys(partition for partition in plan.checkpointed if partition not in home.logs))
        home.fully_loaded = True
        self._marks.extend(marked)
        if plan.strays:
            _logger.warning(
                "logs left alone",
                directory=path,
                logs=len(plan.strays),
                names=plan.strays[:STRAYS_NAMED],
                why="no topic has these partitions",
                next_step="remove them if nobody misses their records",
            )
        loaded = len(plan.loadings)
        recovered = 0 if plan.was_clean else loaded
        # A start that has nothing to recover has nothing to say.
        say = _logger.info if recovered else _logger.debug
        say("logs loaded", directory=path, logs=loaded, clean=plan.was_clean)
        return report._replace(loaded=report.loaded + loaded, recovered=report.recovered + recovered)

    def _loaded_log(self, loading: _Loading, report: LoadReport) -> UnifiedLog:
        if loading.failure is not None:
            raise loading.failure
        assert loading.loaded is not None
        report.reasons.extend((loading.partition, reason) for reason in loading.loaded.reasons)
        return UnifiedLog(
            loading.partition,
            loading.loaded,
            loading.request.config,
            now_ms=loading.request.now_ms,
            topic_id=self._read_topic_id(loading.directory.path, loading.partition, report),
            jitter=self._draw,
        )

    def _read_topic_id(self, path: str, partition: TopicPartition, report: LoadReport) -> uuid.UUID | None:
        file_path = f"{path}/{PARTITION_METADATA}"
        try:
            return parse_partition_metadata(self._filesystem.read(file_path))
        except FileNotFoundError:
            return None
        except MalformedCheckpoint as error:
            report.reasons.append((partition, RecoveryReason("topic id unknown", file_path, str(error))))
            _logger.warning("topic id unknown", path=file_path, why=str(error))
            return None

    def _read_offsets(self, path: str, name: str) -> dict[TopicPartition, Offset]:
        file_path = f"{path}/{name}"
        try:
            return parse_offsets(self._filesystem.read(file_path))
        except FileNotFoundError:
            return {}
        except MalformedCheckpoint as error:
            _logger.warning("checkpoint ignored", path=file_path, why=str(error))
            return {}

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
        """The partition's log, made in `directory` or in the one with the fewest logs if there is none.

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
            config = self._config_for(partition.topic)
        self._move_strays_aside(partition)
        try:
            if not self._filesystem.exists(home.path):
                # Making it again would bring back a log directory without its lock and its identity.
                raise StorageError(home.path, "is gone")
            if partition in home.former:
                self._forget_former(home)
            log = self._create_log(home, partition, topic_id, config, now_ms)
        except StorageError as error:
            self.on_storage_error(home.path, error)
            raise
        home.logs[partition] = self._logs[partition] = log
        return log

    def _forget_former(self, home: _Home) -> None:
        """Has the directory's checkpoints say nothing of logs that are gone (I7). Blocks. Raises `StorageError`."""
        for name, offset_of in _CHECKPOINTS.items():
            if name != CLEANER_OFFSET_CHECKPOINT or self._filesystem.exists(f"{home.path}/{name}"):
                self.write_checkpoint(self._checkpoint(home, name, offset_of))
        home.former.clear()

    def _move_strays_aside(self, partition: TopicPartition) -> None:
        """Makes way for a log of this name, wherever a stray one lies: in another directory it would be a second log of
        the partition at the next start."""
        for home in list(self._homes.values()):
            path = f"{home.path}/{partition}"
            if not self._filesystem.exists(path):
                continue
            aside = f"{home.path}/{self._unique_name(partition, STRAY_SUFFIX)}"
            try:
                self._filesystem.rename(path, aside)
            except StorageError as error:
                self.on_storage_error(home.path, error)
                raise
            _log_set_aside(partition, aside)

    def _directory_in(self, home: _Home, path: str, *, is_durable: bool) -> LogDirectory:
        return LogDirectory(self._filesystem, path, self._open_segments, None if is_durable else home.made)

    def _create_log(
        self, home: _Home, partition: TopicPartition, topic_id: uuid.UUID | None, config: LogConfig, now_ms: int
    ) -> UnifiedLog:
        path = f"{home.path}/{partition}"
        self._filesystem.make_directory(path)
        directory = self._directory_in(home, path, is_durable=False)
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

    def _home_for_new(self, directory: str | None) -> _Home:
        if directory is not None:
            home = self._homes.get(directory)
            if home is None:
                raise StorageError(directory, "is no log directory of this broker, or offline")
            return home
        self._require_one_directory()
        return min(self._homes.values(), key=lambda home: len(home.logs))

    def delete(self, partition: TopicPartition, now_ms: int, *, delay_ms: int | None = None) -> bool:
        """Takes the partition's log away; its files go `delay_ms` (file.delete.delay.ms) later. False without one.

        Raises `StorageError`; the log is gone from here all the same.
        """
        log = self._logs.pop(partition, None)
        if log is None:
            return False
        self.end_move(partition)
        home = self._home_of(log)
        home.logs.pop(partition, None)
        log.abandon()
        path = f"{home.path}/{self._unique_name(partition, DELETE_SUFFIX)}"
        try:
            self._note_former(home, partition)
            log.rename_directory(path)
        except StorageError as error:
            self.on_storage_error(home.path, error)
            raise
        delay_ms = log.config.file_delete_delay_ms if delay_ms is None else delay_ms
        home.pending.append(_DeletedDirectory(now_ms + delay_ms, path))
        _logger.info("log deleted", partition=str(partition), path=path, delay_ms=delay_ms)
        return True

    def _note_former(self, home: _Home, partition: TopicPartition) -> None:
        """Remembers a log that is gone from here. Raises `StorageError`."""
        home.former[partition] = None
        if len(home.former) > MAX_FORMER:
            self._forget_former(home)

    # -- moves between log directories

    def check_directory(self, directory: str) -> ErrorCode:
        """LOG_DIR_NOT_FOUND for one that is not of this broker, KAFKA_STORAGE_ERROR for one that is offline."""
        if directory not in self._directories:
            return ErrorCode.LOG_DIR_NOT_FOUND
        return ErrorCode.NONE if directory in self._homes else ErrorCode.KAFKA_STORAGE_ERROR

    def prefer_directory(self, partition: TopicPartition, directory: str) -> None:
        """The partition's log, which is not here yet, is to be made in this directory."""
        self._preferred.pop(partition, None)
        self._preferred[partition] = directory
        while len(self._preferred) > MAX_PREFERENCES:
            del self._preferred[next(iter(self._preferred))]

    def begin_move(self, partition: TopicPartition, directory: str) -> LogMove | None:
        """A move of the partition's log into another directory, in the place of one that was under way; None where it
        is there already. Raises `StorageError`."""
        log = self._logs[partition]
        under_way = self._moves.get(partition)
        if under_way is not None and under_way.path.startswith(f"{directory}/"):
            return under_way
        self.end_move(partition)
        if self._home_of(log).path == directory:
            return None
        path = f"{directory}/{self._unique_name(partition, FUTURE_SUFFIX)}"
        self._filesystem.make_directory(path)
        move = self._moves[partition] = LogMove(self._filesystem, log, path)
        return move

    def is_under_way(self, move: LogMove) -> bool:
        """Whether it is the present move of a log that is still here, with both directories in use."""
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
            for name, offset_of in _CHECKPOINTS.items():
                self.write_checkpoint(self._checkpoint(target, name, offset_of))
            former = move.finish(f"{target.path}/{partition}")
        except StorageError:
            del target.logs[partition]
            target.former[partition] = None
            raise
        del self._moves[partition]
        source.logs.pop(partition, None)
        deleted = f"{source.path}/{self._unique_name(partition, DELETE_SUFFIX)}"
        self._filesystem.rename(former, deleted)
        self._filesystem.sync_directory(source.path)
        source.pending.append(_DeletedDirectory(now_ms + log.config.file_delete_delay_ms, deleted))
        self._filesystem.remove(f"{log.directory}/{MOVED_MARK}")
        for home in (target, source):
            for name, offset_of in _CHECKPOINTS.items():
                self.write_checkpoint(self._checkpoint(home, name, offset_of))

    def end_move(self, partition: TopicPartition) -> None:
        """A move that is under way is so no more; its copy is removed with the deleted directories."""
        move = self._moves.pop(partition, None)
        home = None if move is None else self._homes.get(move.path.rpartition("/")[0])
        if move is not None and home is not None:
            home.pending.append(_DeletedDirectory(0, move.path))

    def moves(self, directory: str) -> list[LogMove]:
        """The moves into a directory."""
        return [move for move in self._moves.values() if move.path.startswith(f"{directory}/")]

    def truncate_to(self, partition: TopicPartition, offset: Offset, now_ms: int) -> bool:
        """Truncates a partition's log, and checkpoints the recovery points if its own went back (I4).

        False if there was nothing at `offset` and behind it. Blocks. Raises `StorageError`.
        """
        log = self._logs[partition]
        before = log.recovery_point, log.cleaned_to
        truncated = log.truncate_to(offset, now_ms)
        self._checkpoint_lowered(log, *before)
        return truncated

    def truncate_fully_and_start_at(
        self, partition: TopicPartition, offset: Offset, now_ms: int, *, log_start_offset: Offset | None = None
    ) -> None:
        """Empties a partition's log, to go on at `offset`; checkpoints as `truncate_to` does."""
        log = self._logs[partition]
        before = log.recovery_point, log.cleaned_to
        log.truncate_fully_and_start_at(offset, now_ms, log_start_offset=log_start_offset)
        self._checkpoint_lowered(log, *before)

    def _checkpoint_lowered(self, log: UnifiedLog, recovery_point: Offset, cleaned_to: Offset | None) -> None:
        home = self._home_of(log)
        if log.recovery_point < recovery_point:
            self.write_checkpoint(self._checkpoint(home, RECOVERY_POINT_CHECKPOINT, lambda one: one.recovery_point))
        if cleaned_to is not None and log.cleaned_to is not None and log.cleaned_to < cleaned_to:
            self.write_checkpoint(self._checkpoint(home, CLEANER_OFFSET_CHECKPOINT, lambda one: one.cleaned_to))

    def set_aside(self, partition: TopicPartition) -> str:
        """Takes a log away from under its name and keeps its files, as TOPIC-PARTITION.UUID-stray; returns the path.

        For a log of a topic that was deleted and created again under its name, which a crash kept from being removed.
        Raises `StorageError`; the log is gone from here all the same.
        """
        log = self._logs.pop(partition)
        home = self._home_of(log)
        home.logs.pop(partition, None)
        log.abandon()
        path = f"{home.path}/{self._unique_name(partition, STRAY_SUFFIX)}"
        try:
            self._note_former(home, partition)
            log.rename_directory(path)
        except StorageError as error:
            self.on_storage_error(home.path, error)
            raise
        _log_set_aside(partition, path)
        return path

    def _unique_name(self, partition: TopicPartition, ending: str) -> str:
        unique = f"{self._draw(1 << 64):016x}{self._draw(1 << 64):016x}"
        suffix = f"-{partition.partition}.{unique}{ending}"
        return f"{partition.topic[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"

    def _home_of(self, log: UnifiedLog) -> _Home:
        return self._homes[log.directory.rpartition("/")[0]]

    # -- periodic work

    def take_removals(self, now_ms: int) -> list[str]:
        """Paths of files and directories whose delay is over, to be given to `remove_paths`."""
        due = [path for log in self._logs.values() for path in log.take_removals(now_ms)]
        for home in self._homes.values():
            due.extend(entry.path for entry in home.pending if entry.due_ms <= now_ms)
            home.pending = [entry for entry in home.pending if entry.due_ms > now_ms]
        return due

    def remove_paths(self, paths: Iterable[str]) -> None:
        """Removes files and directories for good. Blocks. Raises `StorageError`, after it has tried all of them: the
        other ones may lie on disks that work, and nobody asks for them again."""
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
        """Applies retention to every log (log.retention.check.interval.ms). A failing disk takes its directory off."""
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
        return [log for log in self._logs.values() if log.flush_due(now_ms)]

    def logs_to_identify(self) -> list[UnifiedLog]:
        """Logs whose topic id is not durable yet."""
        return [log for log in self._logs.values() if log.topic_id_due]

    def expire_producers(self, now_ms: int) -> None:
        """Forgets silent producers (producer.id.expiration.check.interval.ms)."""
        for log in self._logs.values():
            log.producers.expire(now_ms, self.producer_id_expiration_ms)

    def checkpoint_recovery_points(self) -> None:
        """Writes recovery-point-offset-checkpoint, here and now. Blocks."""
        self._write_checkpoints(self.recovery_point_checkpoints())

    def checkpoint_high_watermarks(self) -> None:
        """Writes replication-offset-checkpoint, here and now. Blocks."""
        self._write_checkpoints(self.high_watermark_checkpoints())

    def checkpoint_log_start_offsets(self) -> None:
        """Writes log-start-offset-checkpoint, here and now. Blocks."""
        self._write_checkpoints(self.log_start_offset_checkpoints())

    def recovery_point_checkpoints(self) -> list[CheckpointFile]:
        """What recovery-point-offset-checkpoint must say now (log.flush.offset.checkpoint.interval.ms), where it says
        something else; to be given to `write_checkpoint`."""
        return self._checkpoints(RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point)

    def high_watermark_checkpoints(self) -> list[CheckpointFile]:
        """The same for replication-offset-checkpoint (replica.high.watermark.checkpoint.interval.ms)."""
        return self._checkpoints(HIGH_WATERMARK_CHECKPOINT, lambda log: log.durable_high_watermark)

    def log_start_offset_checkpoints(self) -> list[CheckpointFile]:
        """The same for log-start-offset-checkpoint (log.flush.start.offset.checkpoint.interval.ms).

        Only starts that the first segment does not say itself, as Kafka does.
        """
        return self._checkpoints(LOG_START_OFFSET_CHECKPOINT, _explicit_log_start)

    def cleaner_offset_checkpoints(self) -> list[CheckpointFile]:
        """The same for cleaner-offset-checkpoint, after a compaction. Kafka has none where nothing was compacted."""
        return self._checkpoints(CLEANER_OFFSET_CHECKPOINT, lambda log: log.cleaned_to)

    def write_checkpoint(self, file: CheckpointFile) -> None:
        """Blocks, and may run on a worker. One that was made before the one on disk is not written (I7). Raises
        `StorageError`."""
        with self._writing:
            if file.number < self._written_number.get(file.path, 0):
                return
            self._filesystem.write_atomically(file.path, file.content)
            self._checkpointed[file.path] = file.content
            self._written_number[file.path] = file.number

    def _checkpoints(self, name: str, offset_of: Callable[[UnifiedLog], Offset | None]) -> list[CheckpointFile]:
        files = []
        for home in self._homes.values():
            file = self._checkpoint(home, name, offset_of)
            if self._checkpointed.get(file.path) != file.content:
                files.append(file)
        return files

    def _checkpoint(self, home: _Home, name: str, offset_of: Callable[[UnifiedLog], Offset | None]) -> CheckpointFile:
        offsets = {partition: offset_of(log) for partition, log in home.logs.items()}
        known = {partition: offset for partition, offset in offsets.items() if offset is not None}
        self._checkpoints_made += 1
        return CheckpointFile(f"{home.path}/{name}", format_offsets(known), self._checkpoints_made)

    def _write_checkpoints(self, files: Iterable[CheckpointFile]) -> None:
        for file in files:
            try:
                self.write_checkpoint(file)
            except StorageError as error:
                self.on_storage_error(file.path, error)

    # -- failure

    @property
    def offline_directories(self) -> dict[str, StorageError]:
        """The directories that cannot be used, and why."""
        return dict(self._offline)

    @property
    def live_directories(self) -> list[str]:
        return list(self._homes)

    def directory_of(self, path: str) -> str | None:
        """The log directory that `path`, as a `StorageError` names it, lies in; None if it is none that is in use."""
        for directory in self._homes:
            if path == directory or path.startswith(f"{directory}/"):
                return directory
        return None

    def on_storage_error(self, path: str, error: StorageError) -> list[TopicPartition]:
        """Takes the directory that `path` lies in offline; returns the partitions that are gone with it.

        A `DamagedLog` takes nothing along: its log has failed, the disk has not. The caller halts the broker if
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
            next_step="repair the disk and restart the broker",
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
                infos.append(LogDirectoryInfo(path, self._offline.get(path), -1, -1, []))
                continue
            try:
                total, usable = self._filesystem.space(path)
            except (StorageError, FileNotFoundError):
                total = usable = -1
            infos.append(LogDirectoryInfo(path, None, total, usable, list(home.logs.values())))
        return infos

    # -- the end

    def close(self, now_ms: int, *, broker_epoch: int = -1) -> None:
        """Flushes and closes every log and marks the directories clean. Blocks.

        Worker threads must be done with flushes before. A directory that fails is left without its mark.
        """
        self._flush_beside_each_other(now_ms)
        for home in list(self._homes.values()):
            try:
                for log in home.logs.values():
                    if log.failure is not None:
                        raise log.failure
                    log.close(now_ms)
                self.write_checkpoint(self._checkpoint(home, RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point))
                self.write_checkpoint(self._checkpoint(home, LOG_START_OFFSET_CHECKPOINT, _explicit_log_start))
                self.write_checkpoint(
                    self._checkpoint(home, HIGH_WATERMARK_CHECKPOINT, lambda log: log.durable_high_watermark)
                )
                if home.fully_loaded:
                    self._filesystem.write_atomically(
                        f"{home.path}/{CLEAN_SHUTDOWN}", format_clean_shutdown(broker_epoch)
                    )
            except StorageError as error:
                self.on_storage_error(home.path, error)
        self.release()

    def _flush_beside_each_other(self, now_ms: int) -> None:
        """Makes logs durable, several at a time where there may be several; a failure stays with its log."""
        at_a_time = self.recovery_threads * len(self._homes)
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
            self._run_all([one.run for one in syncing], at_a_time)
            for one in syncing:
                if one.failure is None:
                    one.log.complete_flush(one.task, now_ms)
                else:
                    one.log.fail_flush(one.failure)

    def release(self) -> None:
        """Gives up the locks without writing anything."""
        self.is_released = True
        for home in self._homes.values():
            for log in home.logs.values():
                log.abandon()
            home.lock.close()
        self._homes.clear()
        self._logs.clear()


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition whose log lies in a directory called `name`; None for a file or a directory of another kind."""
    topic, separator, partition = name.rpartition("-")
    if not separator or not topic or name.startswith("."):
        return None
    if not partition.isascii() or not partition.isdigit() or name.endswith((FUTURE_SUFFIX, STRAY_SUFFIX)):
        return None
    return TopicPartition(topic, int(partition))


_CHECKPOINTS: Final[Mapping[str, Callable[[UnifiedLog], Offset | None]]] = {
    RECOVERY_POINT_CHECKPOINT: lambda log: log.recovery_point,
    LOG_START_OFFSET_CHECKPOINT: lambda log: _explicit_log_start(log),
    HIGH_WATERMARK_CHECKPOINT: lambda log: log.durable_high_watermark,
    CLEANER_OFFSET_CHECKPOINT: lambda log: log.cleaned_to,
}


def _log_set_aside(partition: TopicPartition, path: str) -> None:
    _logger.warning(
        "log set aside",
        partition=str(partition),
        path=path,
        why="it is of a former topic of this name",
        next_step="remove the directory if nobody misses its records",
    )


def _explicit_log_start(log: UnifiedLog) -> Offset | None:
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None
