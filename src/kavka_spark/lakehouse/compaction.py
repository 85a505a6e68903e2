"""Small files of a table as few large ones: Spark's tasks rewrite them, and one commit exchanges them.

    from kavka_spark.lakehouse.compaction import compact

    compact(spark, delta_table("tables/orders"))

Decides which files go together. Must not know tables' logs. Rows stay as they are, so the commit says that it changes
no data, and does not count as a batch.

Invariants
  I1  Files of one partition go together, at most `file_bytes` of them, and never one alone.
  I2  The commit is made only if each file that it takes out is still there. Appends of others in between do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka_spark.lakehouse.data_files import FileWriter, WrittenFile
from kavka_spark.lakehouse.errors import CommitConflict, TableRefused
from kavka_spark.lakehouse.layout import Layout, Partition
from kavka_spark.lakehouse.stored_files import StoredFile
from kavka_spark.lakehouse.table import TableFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka_spark.lakehouse.handles import TableHandle

SMALL_BYTES: Final = 32 * 1024 * 1024
MOST_COMMITS: Final = 50


class Compacted(NamedTuple):
    """How many files became how many."""

    removed: int
    added: int


class Group(NamedTuple):
    """Files that become one, or a few."""

    paths: tuple[str, ...]
    constants: dict[str, Any]
    """Values of columns that are left out of files."""


def compact(spark: SparkSession, table: TableHandle, *, small_bytes: int = SMALL_BYTES) -> Compacted:
    """Puts files below `small_bytes` together, up to the size of files that a task writes (128 MiB).

    Raises TableRefused if somebody else has taken out one of the files meanwhile: nothing is changed then.
    """
    opened = table.open()
    layout = opened.layout
    groups = plan(opened.files(), layout, small_bytes)
    if not groups:
        return Compacted(0, 0)
    parallel = spark.sparkContext.parallelize(groups, len(groups))
    written = [file for files in parallel.map(_Rewrite(layout)).collect() for file in files]
    removed = [path for group in groups for path in group.paths]
    for attempt in range(MOST_COMMITS):
        now = table.open()
        gone = set(removed) - now.files().keys()
        if gone:
            layout.place.remove([file.path for file in written])
            raise TableRefused(
                f"{now.name} was changed while its files were rewritten: {min(gone)} is not among them any more. The "
                "table is as it was; compact it again, and a table of merged changes while its query stands still"
            )
        layout.check_same(now.layout)
        try:
            now.append(written, None, "", removed, same_rows=True)
        except CommitConflict:
            if attempt == MOST_COMMITS - 1:
                raise
            continue
        return Compacted(len(removed), len(written))
    raise AssertionError("the last attempt returns or raises")


def plan(files: Mapping[str, TableFile], layout: Layout, small_bytes: int) -> list[Group]:
    """I1. The smallest come first, so that most of them go."""
    by_partition: dict[Partition, list[str]] = {}
    for path, file in sorted(files.items(), key=lambda each: (each[1].size_bytes, each[0])):
        if file.size_bytes < small_bytes:
            by_partition.setdefault(file.partition, []).append(path)
    groups = []
    for partition, paths in by_partition.items():
        constants = {name: value for name, value in partition if name in layout.left_out}
        together: list[str] = []
        size_bytes = 0
        for path in paths:
            if size_bytes + files[path].size_bytes > layout.file_bytes:
                groups.append(Group(tuple(together), constants))
                together, size_bytes = [], 0
            together.append(path)
            size_bytes += files[path].size_bytes
        groups.append(Group(tuple(together), constants))
    return [group for group in groups if len(group.paths) > 1]


class _Rewrite:
    """A task's part; it travels to workers."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __call__(self, group: Group) -> list[WrittenFile]:
        writer = FileWriter(self._layout, "compacted")
        try:
            for path in group.paths:
                with StoredFile(path, self._layout, group.constants) as file:
                    for part in file.parts():
                        writer.write(part)
            return writer.close()
        except BaseException:
            writer.discard()
            raise
