"""Table: what a table format must be able to do for the sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kavka_spark.lakehouse.batch import Batch
from kavka_spark.lakehouse.data_files import WrittenFile
from kavka_spark.lakehouse.layout import Layout
from kavka_spark.lakehouse.progress import Held, nested

MARK = "kavka"
"""Under this name a commit has what `mark_of` says, as JSON."""


class Table(Protocol):
    """One table as of its latest version at the time when it was opened."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def layout(self) -> Layout:
        """What tasks must know."""

    def held(self, batch: Batch, writer_id: str) -> Held:
        """What it holds of the batch's query and partitions."""

    def append(self, files: Sequence[WrittenFile], batch: Batch | None, writer_id: str) -> None:
        """Adds the files, and the batch with its offsets, in one commit on the version that was opened. Without a
        batch it adds the files only. Raises CommitConflict if somebody else has committed since; what else it raises
        leaves unknown whether the commit came through."""


def mark_of(batch: Batch, writer_id: str) -> dict[str, object]:
    """What a commit says of its batch."""
    return {
        "writer": writer_id,
        "query": batch.query,
        "batch": batch.number,
        "starts": nested(batch.starts),
        "ends": nested(batch.ends),
        "topicIds": dict(sorted(batch.topic_ids.items())),
    }
