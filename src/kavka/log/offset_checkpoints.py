"""OffsetCheckpoints: the files of a log directory that say one offset of each of its logs.

Decides what each of them must say now, which are to be written, and that no older content replaces a newer one. It must
not know when they are written, nor which threads do it.

    recovery-point-offset-checkpoint   everything below is durable
    log-start-offset-checkpoint        the log start, where the first segment does not say it itself, as Kafka does
    replication-offset-checkpoint      the high watermark, as far as it may be claimed after a power cut
    cleaner-offset-checkpoint          compaction has been here; only where it has been anywhere, as Kafka does

A broker with ten thousand partitions looks at them every five seconds, and has to say something else of a few, or of
none. So what a checkpoint says is kept in blocks of BLOCK lines: a look takes one offset of each log, and only the
blocks are made anew in which one differs. To have each log note that its high watermark moved instead would cost every
append more than these looks do.

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
    join_lines,
    offset_lines,
    parse_offsets,
)
from kavka.log.log_home import LogHome
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import Offset, TopicPartition

BLOCK: Final = 256
"""Partitions whose lines are made anew where the offset of one has changed: 0.1 ms."""

_logger = Logger(__name__)


class CheckpointFile(NamedTuple):
    """A checkpoint as it is to be written; those that are made later have larger numbers. Those that say the same have
    one `version`."""

    path: str
    content: bytes
    number: int
    version: int


def _explicit_log_start(log: UnifiedLog) -> Offset | None:
    start = log.log_start_offset
    return start if start and start > log.segments[0].base_offset else None


_OFFSET_OF: Final[Mapping[str, Callable[[UnifiedLog], Offset | None]]] = {
    RECOVERY_POINT_CHECKPOINT: lambda log: log.recovery_point,
    LOG_START_OFFSET_CHECKPOINT: _explicit_log_start,
    HIGH_WATERMARK_CHECKPOINT: lambda log: log.durable_high_watermark,
    CLEANER_OFFSET_CHECKPOINT: lambda log: log.cleaned_to,
}


class _Text:
    """What a checkpoint says, in blocks. `version` is another number whenever it says something else."""

    __slots__ = ("blocks", "count", "offsets", "version")

    def __init__(self) -> None:
        self.offsets: list[Offset | None] = []
        self.blocks: list[str] = []
        self.count = 0
        self.version = 0


class _Texts:
    """What the checkpoints of a log directory say of these logs; `former` is what they said of others before."""

    __slots__ = ("_sorted", "by_name", "former", "logs")

    def __init__(self, logs: list[UnifiedLog], former: dict[str, _Text]) -> None:
        self.logs = logs
        self.former = former
        self._sorted = sorted(logs, key=lambda log: log.topic_partition)
        self.by_name: dict[str, _Text] = {}

    def take(self, name: str) -> bool:
        """Looks at the logs; whether the checkpoint `name` says something else now."""
        offset_of, logs = _OFFSET_OF[name], self._sorted
        offsets = [offset_of(log) for log in logs]
        text = self.by_name.setdefault(name, _Text())
        if offsets == text.offsets:
            return False
        for start in range(0, len(logs), BLOCK):
            end, number = start + BLOCK, start // BLOCK
            if number == len(text.blocks):
                text.blocks.append("")
            if offsets[start:end] != text.offsets[start:end]:
                found = zip(logs[start:end], offsets[start:end], strict=True)
                entries = [(log.topic_partition, offset) for log, offset in found if offset is not None]
                text.blocks[number] = offset_lines(entries)
        text.offsets = offsets
        text.count = sum(offset is not None for offset in offsets)
        return True


class OffsetCheckpoints:
    """The checkpoints of all log directories of a broker."""

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self._written: dict[str, tuple[int, int]] = {}
        """By path, number and version of what is on disk."""
        self._texts: dict[str, _Texts] = {}
        """By log directory."""
        self._made = 0
        self._versions = 0
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
            text = self._text_of(home, name)
            written = self._written.get(f"{home.path}/{name}")
            if written is None or written[1] != text.version:
                files.append(self._file(home, name, text))
        return files

    def of(self, home: LogHome, name: str) -> CheckpointFile:
        """What a checkpoint of a log directory must say now."""
        return self._file(home, name, self._text_of(home, name))

    def _file(self, home: LogHome, name: str, text: _Text) -> CheckpointFile:
        self._made += 1
        return CheckpointFile(f"{home.path}/{name}", join_lines(text.blocks, text.count), self._made, text.version)

    def _text_of(self, home: LogHome, name: str) -> _Text:
        texts, logs = self._texts.get(home.path), list(home.logs.values())
        if texts is None or texts.logs != logs:
            former_texts = {} if texts is None else {**texts.former, **texts.by_name}
            texts = self._texts[home.path] = _Texts(logs, former_texts)
        has_changed = texts.take(name)
        text, former = texts.by_name[name], texts.former.pop(name, None)
        if former is not None and "".join(former.blocks) == "".join(text.blocks):
            text.version = former.version
        elif has_changed or not text.version:
            self._versions += 1
            text.version = self._versions
        return text

    def write(self, file: CheckpointFile) -> None:
        """Blocks, and may run on a worker. A file that was made before the one on disk is not written. Raises
        `StorageError`."""
        with self._writing:
            written = self._written.get(file.path)
            if written is not None and file.number < written[0]:
                return
            self._filesystem.write_atomically(file.path, file.content)
            self._written[file.path] = (file.number, file.version)

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
        """Removes logs that are gone from the checkpoints. They are written durably: the names of these logs'
        directories, which are in the same one, do not come back either. Blocks. Raises `StorageError`."""
        for name in _OFFSET_OF:
            if name != CLEANER_OFFSET_CHECKPOINT or self._filesystem.exists(f"{home.path}/{name}"):
                self.write(self.of(home, name))
        home.former.clear()
