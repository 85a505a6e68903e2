"""HomeLoader: what lies in the log directories when a broker starts, and the logs that it becomes.

Decides which of the names in a log directory are logs to be loaded, strays to be left alone, or leftovers to be
removed; whether the logs need recovery; and how many are read at a time. What the files of one log are worth is
`log_loader`'s. It must not know what happens to a directory that fails.

Invariants
  I1  The clean-shutdown mark is removed, durably, before a log is read.
  I2  A log that belongs to no topic (a stray) is neither read nor written, only named.
  I3  Of two directories that have the name of one partition, marks of moves say which is the log (`move_marks`).
      Without them nobody can say, and the start is refused; so it is where the other has another topic's id, of which
      the marks say nothing.
  I4  A name that is gone from a log directory, by a start or before a stop that was not clean, is so durably before the
      marks go and before a log is made: a power cut would bring it back beside another log of its name. The name of the
      log is durable before another one loses it.
  I5  A log that may be older than one in a directory that is missing is loaded, and not served.

Source: Kafka's LogManager.loadLogs and loadLog; KAFKA-15375 for I1.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kavka.errors import LogsContradict, RecordsError, StorageError, UndecidedLog
from kavka.filesystem import FileSystem
from kavka.log.decide.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpoint,
    parse_clean_shutdown,
    parse_partition_metadata,
)
from kavka.log.decide.directory_names import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    MOVED_MARK,
    STRAY_SUFFIX,
    is_deleted_name,
    parse_directory_name,
    parse_future_name,
    unique_name,
)
from kavka.log.log_config import LogConfig
from kavka.log.log_home import DeletedDirectory, LogHome
from kavka.log.log_loader import LoadedLog, LoadRequest, RecoveryReason, load_log
from kavka.log.move_marks import MoveMark, choose, read_mark, write_mark
from kavka.log.offset_checkpoints import OffsetCheckpoints
from kavka.log.segment import LogDirectory, OpenSegments
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import Offset, TopicPartition

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""A KRaft broker's own log, which no other broker may touch."""
STRAYS_NAMED = 20
"""Stray logs that the line about them names, of one directory."""

_logger = Logger(__name__)
ConfigFor = Callable[[str], LogConfig]
"""The settings of a topic's logs, by its name."""
RunAll = Callable[[Sequence[Callable[[], None]], int], None]
"""Runs jobs, at most the given number at a time, and returns when all have ended. An exception of a job is a bug."""


def one_by_one(jobs: Sequence[Callable[[], None]], at_a_time: int) -> None:
    """The RunAll of a host without threads."""
    for job in jobs:
        job()


class LoadReport(NamedTuple):
    """What a start found in the log directories."""

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


class LoadingPorts(NamedTuple):
    """What loading asks of others; `LogManager` says what each is."""

    config_for: ConfigFor
    draw: Callable[[int], int]
    is_claimed: Callable[[TopicPartition], bool]
    run_all: RunAll


class LoadingLimits(NamedTuple):
    """The settings that loading obeys."""

    recovery_threads: int
    producer_id_expiration_ms: int


class _Loading:
    """A log that is being loaded, maybe on a thread of its own. Afterwards it has a log or a failure."""

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
        except RecordsError as damage:
            # It lies where recovery reads nothing, and what would have told the same without the records is lost too.
            # To cut the log there would take good records behind it, which may be the last copies.
            self.failure = StorageError(
                self.directory.path,
                f"has damaged records, and no whole snapshot or checkpoint that makes up for them: {damage}; if other "
                "replicas have the partition, remove the directory, and it is fetched anew",
            )


class _Checkpoints(NamedTuple):
    """What the checkpoints of a log directory say."""

    recovery_points: Mapping[TopicPartition, Offset]
    log_starts: Mapping[TopicPartition, Offset]
    high_watermarks: Mapping[TopicPartition, Offset]
    cleaned_to: Mapping[TopicPartition, Offset]


class HomePlan(NamedTuple):
    """What is to be loaded from a log directory."""

    home: LogHome
    was_clean: bool
    loadings: list[_Loading]
    checkpoints: _Checkpoints
    strays: list[str]


class HomeLoader:
    """One start. Call `find_marks` for each directory, `find_rivals`, `plan` for each, `run`, then `logs_of` and
    `finish` for each, and `clear_marks` for each."""

    def __init__(
        self,
        filesystem: FileSystem,
        shared: tuple[OffsetCheckpoints, OpenSegments, dict[LogDirectory, None]],
        ports: LoadingPorts,
        limits: LoadingLimits,
        now_ms: int,
    ) -> None:
        """`shared`: what all logs of the manager share; the last is where their directories are noted."""
        self._filesystem = filesystem
        self._checkpoints, self._open_segments, self._noted = shared
        self._ports = ports
        self._limits = limits
        self._now_ms = now_ms
        self._marks: dict[TopicPartition, dict[str, MoveMark | None]] = {}
        """Of the partitions with marks of moves, by log directory that has their name."""
        self._missing: str | None = None
        """A log directory that is not there, and may have a log that is newer."""
        self._planned: dict[TopicPartition, str] = {}

    def find_marks(self, path: str) -> None:
        """Looks for logs in a log directory whose move a crash or a failure ended. Raises `StorageError`."""
        found: dict[TopicPartition, MoveMark] = {}
        for name in self._filesystem.list_directories(path):
            partition = parse_directory_name(name)
            if partition is None or name != str(partition):
                continue
            mark = read_mark(self._filesystem, f"{path}/{name}")
            if mark is not None:
                found[partition] = mark
        if found:
            # Their names must last before older copies lose theirs: a kill or a failure may have come before that.
            self._filesystem.sync_directory(path)
        for partition, mark in found.items():
            self._marks.setdefault(partition, {})[path] = mark

    def find_rivals(self, paths: Iterable[str], missing: str | None) -> None:
        """Looks in all log directories for others with the names of those. `missing`: one that is not there."""
        self._missing = missing
        for path in paths:
            for partition, marks in self._marks.items():
                if path not in marks and self._filesystem.exists(f"{path}/{partition}"):
                    marks[path] = None

    def _newer(self, partition: TopicPartition, path: str) -> str | None:
        """The log directory with the log, if that is another one."""
        chosen = choose(self._marks.get(partition, {}))
        return None if chosen == path else chosen

    def _is_undecided(self, partition: TopicPartition) -> bool:
        mark = self._marks.get(partition, {}).get(self._planned[partition].rpartition("/")[0])
        return mark is not None and not mark.is_decided

    def clear_marks(self, home: LogHome, *, all_are_loaded: bool) -> None:
        """Removes the marks of logs that nobody can take for older ones any more, and decides those that were not.
        Raises `StorageError`."""
        for partition, marks in self._marks.items():
            mark = marks.get(home.path)
            log = home.logs.get(partition)
            if mark is None or log is None:
                continue
            if all_are_loaded:
                self._filesystem.remove(f"{log.directory}/{MOVED_MARK}")
            elif not mark.is_decided and log.failure is None:
                write_mark(self._filesystem, log.directory, mark._replace(is_decided=True))

    def plan(self, home: LogHome, report: LoadReport) -> HomePlan:
        """Lists what is in a log directory. Raises `StorageError`, and `LogsContradict`."""
        path = home.path
        names = self._filesystem.list_directories(path)
        was_clean = self._filesystem.exists(f"{path}/{CLEAN_SHUTDOWN}")
        if was_clean:
            self._take_mark(path, report)
        read = self._checkpoints.read
        checkpoints = _Checkpoints(
            read(path, RECOVERY_POINT_CHECKPOINT),
            read(path, LOG_START_OFFSET_CHECKPOINT),
            read(path, HIGH_WATERMARK_CHECKPOINT),
            read(path, CLEANER_OFFSET_CHECKPOINT),
        )
        plan = HomePlan(home, was_clean, [], checkpoints, [])
        for name in names:
            self._plan_name(plan, name)
        if self._marks or not was_clean:
            self._filesystem.sync_directory(path)  # I4
        return plan

    def _take_mark(self, path: str, report: LoadReport) -> None:
        """Notes the broker epoch in the clean-shutdown mark, and removes the mark."""
        mark = f"{path}/{CLEAN_SHUTDOWN}"
        report.broker_epochs[path] = parse_clean_shutdown(self._filesystem.read(mark))
        self._filesystem.remove(mark)
        # Durably: a mark that a power cut brings back would vouch for logs that lost their tails by it.
        self._filesystem.sync_directory(path)

    def _plan_name(self, plan: HomePlan, name: str) -> None:
        home, path, is_claimed = plan.home, plan.home.path, self._ports.is_claimed
        directory = f"{path}/{name}"
        partition = parse_directory_name(name)
        if is_deleted_name(name):
            home.pending.append(DeletedDirectory(self._now_ms, directory))
        elif partition is None:
            copied = parse_future_name(name)
            if copied is not None and is_claimed(copied):
                # A move that did not come to its end: the log is where it was.
                home.pending.append(DeletedDirectory(self._now_ms, directory))
            elif name.endswith((DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX)):
                plan.strays.append(name)
        elif name == str(partition) and (newer := self._newer(partition, path)) is not None:
            self._require_one_topic(partition, directory, f"{newer}/{partition}")
            deleted = f"{path}/{unique_name(partition, DELETE_SUFFIX, self._ports.draw)}"
            self._filesystem.rename(directory, deleted)
            home.pending.append(DeletedDirectory(self._now_ms, deleted))
        elif partition.topic == CLUSTER_METADATA_TOPIC:
            return
        elif not is_claimed(partition) or name != str(partition):
            plan.strays.append(name)
        elif partition in self._planned:
            self._require_one_topic(partition, directory, self._planned[partition])
            raise LogsContradict(directory, f"{partition} is also in {self._planned[partition]}: remove one of the two")
        else:
            self._planned[partition] = directory
            plan.loadings.append(self._loading(plan, partition, directory))

    def _require_one_topic(self, partition: TopicPartition, directory: str, moved: str) -> None:
        """Raises `LogsContradict` if what has the mark of a move is no copy of what is in `directory`.

        1. A mark stays because a disk is offline. 2. The disk with the log is offline, too. 3. The topic is made again,
        and its log takes records on another disk. 4. The disks are back.
        """
        ids = {self._topic_id_in(path) for path in (directory, moved)} - {None}
        if len(ids) > 1:
            raise LogsContradict(
                directory, f"{partition} is also in {moved}, as another topic's: remove one of the two"
            )

    def _topic_id_in(self, directory: str) -> uuid.UUID | None:
        try:
            return parse_partition_metadata(self._filesystem.read(f"{directory}/{PARTITION_METADATA}"))
        except (FileNotFoundError, MalformedCheckpoint):
            return None

    def _loading(self, plan: HomePlan, partition: TopicPartition, directory: str) -> _Loading:
        config, known = self._ports.config_for(partition.topic), plan.checkpoints
        request = LoadRequest(
            config=config,
            was_clean=plan.was_clean,
            recovery_point=known.recovery_points.get(partition, 0),
            log_start_offset=known.log_starts.get(partition, 0),
            now_ms=self._now_ms,
            producer_id_expiration_ms=self._limits.producer_id_expiration_ms,
            cleaned_to=known.cleaned_to.get(partition),
            roll_jitter_ms=config.roll_jitter_ms(self._ports.draw),
        )
        made = None if plan.was_clean else plan.home.made
        in_use = LogDirectory(self._filesystem, directory, self._open_segments, made, self._noted)
        return _Loading(in_use, partition, request)

    def run(self, plans: Sequence[HomePlan]) -> None:
        """Reads the logs. Those that are to be recovered may take threads: what they wait for is the disk."""
        recovering = [loading for plan in plans if not plan.was_clean for loading in plan.loadings]
        at_a_time = self._limits.recovery_threads * sum(not plan.was_clean for plan in plans)
        if at_a_time > 1:
            # `OpenSegments` is not made for threads: each log has its own until it is read.
            most = max(self._open_segments.max_open // at_a_time, 1)
            for loading in recovering:
                loading.directory.open_segments = OpenSegments(most)
        self._ports.run_all([loading.run for loading in recovering], at_a_time)
        for loading in recovering:
            loading.directory.open_segments = self._open_segments.taking_over(loading.directory.open_segments)
        one_by_one([loading.run for plan in plans if plan.was_clean for loading in plan.loadings], 1)

    def logs_of(self, plan: HomePlan, report: LoadReport) -> Iterator[UnifiedLog]:
        """The logs that were read. Raises the `StorageError` of one that could not be."""
        for loading in plan.loadings:
            partition = loading.partition
            log = self._loaded_log(loading, report)
            log.set_high_watermark(plan.checkpoints.high_watermarks.get(partition, 0))
            log.cleaned_to = plan.checkpoints.cleaned_to.get(partition)
            if self._missing is not None and self._is_undecided(partition):
                log.failure = UndecidedLog(
                    self._missing, f"is offline, and may have a newer log of {partition} than {log.directory}"
                )
                _logger.error(
                    "log not served",
                    partition=str(partition),
                    why=str(log.failure),
                    next_step="repair the disk and restart the broker; if it is lost, take it out of log.dirs",
                )
            yield log

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
            jitter=self._ports.draw,
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

    def finish(self, plan: HomePlan, report: LoadReport) -> LoadReport:
        """All logs of the directory are in use."""
        home = plan.home
        checkpointed = {partition for known in plan.checkpoints for partition in known}
        home.former.update(dict.fromkeys(partition for partition in checkpointed if partition not in home.logs))
        home.fully_loaded = True
        if plan.strays:
            _logger.warning(
                "logs left alone",
                directory=home.path,
                logs=len(plan.strays),
                names=plan.strays[:STRAYS_NAMED],
                why="no topic has these partitions",
                next_step="remove them if nobody misses their records",
            )
        loaded = len(plan.loadings)
        recovered = 0 if plan.was_clean else loaded
        # A start that has nothing to recover has nothing to say.
        say = _logger.info if recovered else _logger.debug
        say("logs loaded", directory=home.path, logs=loaded, clean=plan.was_clean)
        return report._replace(loaded=report.loaded + loaded, recovered=report.recovered + recovered)
