"""LogHome: one log directory that is in use, with its lock and the logs in it.

Decides nothing; `log_manager` does. It must not know other log directories.
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.filesystem import File
from kavka.log.made_directories import MadeDirectories
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition


class DeletedDirectory(NamedTuple):
    """The renamed directory of a log, to be removed."""

    due_ms: int
    """By the wall clock, as `PendingRemoval` has it."""
    path: str


class LogHome:
    """One log directory that is in use."""

    __slots__ = ("former", "fully_loaded", "lock", "logs", "made", "path", "pending")

    def __init__(self, path: str, lock: File, made: MadeDirectories) -> None:
        self.path = path
        self.lock = lock
        self.made = made
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.fully_loaded = False
        self.pending: list[DeletedDirectory] = []
        self.former: dict[TopicPartition, None] = {}
        """Partitions whose logs are gone from here: their offsets may still stand in checkpoints, and a power cut may
        bring their directories back."""
