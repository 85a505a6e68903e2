"""Table: what a table format must be able to do for the sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kavka.model import TopicPartition
from kavka_spark.lakehouse.batch import Batch
from kavka_spark.lakehouse.data_files import WrittenFile
from kavka_spark.lakehouse.errors import CommitConflict, TableRefused
from kavka_spark.lakehouse.lake_options import LakeOptions
from kavka_spark.lakehouse.layout import (
    BUCKET_COLUMN,
    Layout,
    MergePlan,
    Partition,
    check_buckets,
    check_merge,
    check_partition,
)
from kavka_spark.lakehouse.progress import Held, nested
from kavka_spark.lakehouse.table_changes import CommitFiles

MARK = "kavka"
"""Under this name a commit has what `mark_of` says, as JSON."""
MOST_LOOKS: Final = 10
"""How often a table is made ready where others make or change it at the same time."""


class TableFile(NamedTuple):
    """A file that the table has now."""

    size_bytes: int
    partition: Partition


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

    def append(
        self,
        files: Sequence[WrittenFile],
        batch: Batch | None,
        writer_id: str,
        removed: Sequence[str] = (),
        *,
        same_rows: bool = False,
    ) -> None:
        """Adds the files, removes others, and notes the batch with its offsets, in one commit on the version that was
        opened. `removed` are paths as `files` names them. Without a batch it changes files only, and with `same_rows`
        the rows in them are as they were. Raises CommitConflict if somebody else has committed since; what else it
        raises leaves unknown whether the commit came through."""

    def files(self) -> Mapping[str, TableFile]:
        """Its files, by their paths below the layout's place. Raises TableRefused where some of their rows are deleted
        beside them."""

    def properties(self) -> Mapping[str, str]:
        """What the table says of itself."""

    def versions(self) -> list[int]:
        """Its versions, or the ids of its snapshots, that lead to the present one, in their order, as far as they are
        not forgotten."""

    def reaches_back(self) -> bool:
        """Whether `versions` begins with the table's first one."""

    def files_of(self, version: int) -> CommitFiles:
        """What this version did to the files. Raises TableRefused where it deleted rows beside its files."""

    def batch_marks(self) -> list[dict[str, Any]]:
        """What its commits say of their batches (`mark_of`), the latest first, each with its `version`."""


def made_ready(prepare: Callable[[], Table]) -> Table:
    """What `prepare` gives, which begins anew where somebody else was faster: queries that start together make one
    table, or add the same column. Raises what it raises."""
    for _ in range(MOST_LOOKS - 1):
        try:
            return prepare()
        except CommitConflict:
            continue
    return prepare()


def check_options(properties: Mapping[str, str], partition_by: Sequence[str], options: LakeOptions, table: str) -> None:
    """Whether a table with these properties, partitioned so, is as the options say. Raises TableRefused."""
    check_merge(properties, options.merge_keys, options.merge_buckets, table)
    check_buckets(partition_by, options.merge_keys, table)
    check_partition(partition_by, options.partition_by, table)


def merge_plan(options: LakeOptions, files: Mapping[str, TableFile]) -> MergePlan:
    """How changes are merged into a table that has these files: its one partition column is the bucket. Raises
    TableRefused for a file in which any key may be."""
    by_bucket: dict[int, list[str]] = {}
    for path, file in sorted(files.items()):
        bucket = dict(file.partition).get(BUCKET_COLUMN)
        if bucket is None:
            raise TableRefused(
                f"the table has a file that is in no {BUCKET_COLUMN} ({path}): somebody else has written it. Changes "
                "of its keys would be merged into other files; delete its rows, or write the changes to another table"
            )
        by_bucket.setdefault(bucket, []).append(path)
    plan = {bucket: tuple(paths) for bucket, paths in by_bucket.items()}
    return MergePlan(keys=options.merge_keys, buckets=options.merge_buckets, files=plan)


def filled_in_of(mark: Mapping[str, Any]) -> tuple[tuple[TopicPartition, int, int], ...]:
    """`Batch.filled_in`, out of a mark."""
    return tuple((TopicPartition(topic, number), first, end) for topic, number, first, end in mark.get("filledIn", ()))


def mark_of(batch: Batch, writer_id: str) -> dict[str, object]:
    """What a commit says of its batch."""
    return {
        "writer": writer_id,
        "query": batch.query,
        "batch": batch.number,
        "starts": nested(batch.starts),
        "ends": nested(batch.ends),
        "topicIds": dict(sorted(batch.topic_ids.items())),
        "firsts": nested(batch.firsts),
        "fillers": nested(batch.fillers),
        "filledIn": [[name.topic, name.partition, first, end] for name, first, end in batch.filled_in],
    }
