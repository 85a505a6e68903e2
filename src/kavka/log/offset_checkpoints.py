"""OffsetCheckpoints: the files of a log directory that say one offset of each of its logs.

Decides what each of them must say now, which are to be written, and that no older content replaces a newer one. It must
not know when they are written, nor which threads do it.

    recovery-point-offset-checkpoint   everything below is durable
    log-start-offset-checkpoint        the log start, where the first segment does not say it itself, as Kafka does
    replication-offset-checkpoint      the high watermark, as far as it may be claimed after a power cut
    cleaner-offset-checkpoint          compaction has been here; only where it has been anywhere, as Kafka does

Source: Kafka's OffsetCheckpointFile, LogManager.checkpointLogRecoveryOffsets, ReplicaManager.checkpointHighWatermarks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.filesystem import FileSystem
from kavka.log.decide.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpoint,
    format_offsets,
    parse_offsets,
)
from kavka.log.log_home import LogHome
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import Offset, TopicPartition

_logger = Logger(__name__)


class CheckpointFile(NamedTuple):
    """A checkpoint as it is to be written; those that are made later have larger numbers."""

    path: str
    content: bytes
    number: int


def _explicit_log_start(log: UnifiedLog) -> Offset | None:
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None


_OFFSET_OF: Final[Mapping[str, Callable[[UnifiedLog], Offset | None]]] = {
    RECOVERY_POINT_CHECKPOINT: lambda log: log.recovery_point,
    LOG_START_OFFSET_CHECKPOINT: _explicit_log_start,
    HIGH_WATERMARK_CHECKPOINT: lambda log: log.durable_high_watermark,
    CLEANER_OFFSET_CHECKPOINT: lambda log: log.cleaned_to,
}


class OffsetCheckpoints:
    """The checkpoints of all log directories of a broker."""

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self._written: dict[str, CheckpointFile] = {}
        self._made = 0
        self._writing = threading.Lock()
        """Held while a checkpoint is written, here or on a worker."""

    def read(self, directory: str, name: str) -> dict[TopicPartition, Offset]:
        """The entries of a checkpoint, none if it is missing or damaged. Raises `StorageError`."""
        path = f"{directory}/{name}"
        try:
            return parse_offsets(self._filesystem.read(path))
        except FileNotFoundError:
            return {}
        except MalformedCheckpoint as error:
            _logger.warning("checkpoint ignored", path=path, why=str(error))
            return {}

    def due(self, homes: Iterable[LogHome], name: str) -> list[CheckpointFile]:
        """The checkpoints of this name that must say something else than they do; to be given to `write`."""
        files = []
        for home in homes:
            file = self.of(home, name)
            written = self._written.get(file.path)
            if written is None or written.content != file.content:
                files.append(file)
        return files

    def of(self, home: LogHome, name: str) -> CheckpointFile:
        """What a checkpoint of a log directory must say now."""
        offset_of = _OFFSET_OF[name]
        offsets = {partition: offset_of(log) for partition, log in home.logs.items()}
        known = {partition: offset for partition, offset in offsets.items() if offset is not None}
        self._made += 1
        return CheckpointFile(f"{home.path}/{name}", format_offsets(known), self._made)

    def write(self, file: CheckpointFile) -> None:
        """Blocks, and may run on a worker. A file that was made before the one on disk is not written. Raises
        `StorageError`."""
        with self._writing:
            written = self._written.get(file.path)
            if written is not None and file.number < written.number:
                return
            self._filesystem.write_atomically(file.path, file.content)
            self._written[file.path] = file

    def offsets_of(self, log: UnifiedLog) -> Sequence[Offset | None]:
        """What the checkpoints are to say of a log now, for `write_lowered`."""
        return (log.recovery_point, log.log_start_offset, log.durable_high_watermark, log.cleaned_to)

    def write_lowered(self, home: LogHome, log: UnifiedLog, before: Sequence[Offset | None]) -> None:
        """Writes the checkpoints that must say less of the log than they may have said `before`. Blocks. Raises
        `StorageError`."""
        for name, was, now in zip(_OFFSET_OF, before, self.offsets_of(log), strict=True):
            if was is not None and now is not None and now < was:
                self.write(self.of(home, name))

    def write_all(self, home: LogHome) -> None:
        """Writes all checkpoints of a log directory. Blocks. Raises `StorageError`."""
        for name in _OFFSET_OF:
            self.write(self.of(home, name))

    def forget_former(self, home: LogHome) -> None:
        """Removes logs that are gone from the checkpoints. Blocks. Raises `StorageError`."""
        for name in _OFFSET_OF:
            if name != CLEANER_OFFSET_CHECKPOINT or self._filesystem.exists(f"{home.path}/{name}"):
                self.write(self.of(home, name))
        home.former.clear()
