"""MadeDirectories: which directories of partitions a power cut may still take away, with all that is durable in them.

Decides when a log directory is to be synced for the names of the directories in it. A new directory is durable only
with its parent, however often its own files are synced: so no flush of a log is over before its directory's name is
durable. One sync of the parent serves all directories that were made before it, so ten thousand new partitions cost one
sync and not ten thousand.

    I1  `ensure(number)` returns only after a sync of the parent that began when directory `number` had been made
    I2  any thread may call `ensure`

Source: POSIX (fsync); Kafka's Utils.flushDir, which it calls for each new file's and directory's parent.
"""

from __future__ import annotations

from kavka.filesystem import FileSystem


class MadeDirectories:
    """Of the log directory `path`."""

    __slots__ = ("_durable", "_filesystem", "_made", "_path")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._made = 0
        self._durable = 0

    def add(self) -> int:
        """The number of a directory that was just made, or found after a stop that was not clean."""
        self._made += 1
        return self._made

    def ensure(self, number: int) -> None:
        """Makes the name of the directory with this number durable. Blocks. Raises `StorageError`."""
        if number > self._durable:
            made = self._made
            self._filesystem.sync_directory(self._path)
            # Two threads may have synced at a time, and the one that began first may end last.
            self._durable = max(self._durable, made)
