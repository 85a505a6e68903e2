"""PartitionMetadata: partition.metadata, the small file with the topic id beside a log's records.

Decides when the file is written and whether it is durable. It must not know who assigns topic ids.

A log whose topic id is not on the disk beside its records is dangerous: a topic of the same name that is made later
takes them for its own. So the file is written before the first batch. Kafka syncs it then; here a worker does within a
second, and the flush of the first records in any case.

Source: KIP-516, Kafka's PartitionMetadataFile.
"""

from __future__ import annotations

import uuid

from kavka.errors import InconsistentMetadata
from kavka.log.decide.checkpoint import PARTITION_METADATA, format_partition_metadata
from kavka.log.segment import LogDirectory
from kavka.model import Offset, TopicPartition


class PartitionMetadata:
    """The topic id of one log."""

    __slots__ = ("_ahead", "_directory", "is_unsynced", "is_unwritten", "topic_id")

    def __init__(
        self, directory: LogDirectory, topic_id: uuid.UUID | None, *, is_unwritten: bool, is_unsynced: bool
    ) -> None:
        """`is_unsynced`: after a kill it is unknown whether the file is durable."""
        self._directory = directory
        self._ahead: str | None = None
        """The file that `write_ahead` wrote."""
        self.topic_id = topic_id
        self.is_unwritten = is_unwritten
        """Whether the file does not have the topic id yet."""
        self.is_unsynced = is_unsynced
        """Whether the file has the topic id, and a power cut may take it. That harms no log without records."""

    @property
    def path(self) -> str:
        return f"{self._directory.path}/{PARTITION_METADATA}"

    def assign(self, topic_id: uuid.UUID, partition: TopicPartition) -> None:
        """Takes the topic id, if there was none. Raises `InconsistentMetadata` if there was another one."""
        if self.topic_id is not None and self.topic_id != topic_id:
            raise InconsistentMetadata(
                self.path, f"the log of {partition} has the topic id {self.topic_id}, expected {topic_id}"
            )
        if self.topic_id is None:
            self.topic_id, self.is_unwritten = topic_id, True
            self._directory.note()

    def is_due(self, log_end_offset: Offset) -> bool:
        """Whether there are records and the topic id beside them is not durable yet."""
        return log_end_offset > 0 and (self.is_unsynced or self.is_unwritten)

    def write(self) -> None:
        """Writes the file, without a sync. Raises `StorageError`."""
        self.write_ahead()
        self.is_unwritten = False
        self._directory.note()

    def write_ahead(self) -> None:
        """Writes what the log is closed with, so that `write` finds it there: until then nobody relies on it, and it
        counts as unwritten. Raises `StorageError`."""
        assert self.topic_id is not None
        if self._ahead == self.path:
            return
        # Not beside and renamed: nobody reads it before a restart, and what a crash tears is malformed, not wrong.
        file = self._directory.filesystem.open(self.path, create=True)
        if file.size():
            file.truncate(0)
        file.append(format_partition_metadata(self.topic_id))
        self._ahead = self.path
