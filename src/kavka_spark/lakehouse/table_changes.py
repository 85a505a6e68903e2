"""What became of a table's rows from one version to the next: a task's part.

Decides which rows were inserted, changed and deleted, out of files that a commit added and took out.

| a commit | is read as |
|--|--|
| only adds files | each row an insert; a task for each file |
| adds and takes out files | the difference of their rows, partition by partition; a task for each |
| says that its rows are as they were (compaction) | nothing |

Where the table has keys (mergeKeys), a row of the same key before and after is an update, with both images. Rows that
are in old and new files alike are no change.

Source: the names of Delta's change data feed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kavka_spark.lakehouse.errors import TableRefused
from kavka_spark.lakehouse.layout import Layout, Partition
from kavka_spark.lakehouse.stored_files import StoredFile

CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
ROWS_AT_A_TIME: Final = 10_000

Row = dict[str, Any]


class ChangedFile(NamedTuple):
    """A file that a commit added or took out, by its path below the layout's place."""

    path: str
    partition: Partition


@dataclass(frozen=True)
class CommitFiles:
    """What a commit did to a table's files."""

    version: int
    added: tuple[ChangedFile, ...] = ()
    removed: tuple[ChangedFile, ...] = ()


class ChangesTask(InputPartition):
    """One file of inserts, or all files of one partition that a commit touched."""

    def __init__(
        self, version: int, constants: Mapping[str, Any], added: Sequence[str], removed: Sequence[str]
    ) -> None:
        super().__init__((version, tuple(added), tuple(removed)))
        self.version = version
        self.constants = dict(constants)
        self.added = tuple(added)
        self.removed = tuple(removed)


def tasks_of(commits: Iterable[CommitFiles], layout: Layout) -> list[ChangesTask]:
    """In the order of the commits."""
    tasks = []
    for commit in commits:
        by_partition: dict[Partition, tuple[list[str], list[str]]] = {}
        # Rows may have moved from files of a former partitioning: then only all files together are the same rows.
        names = {tuple(name for name, _ in file.partition) for file in (*commit.added, *commit.removed)}
        is_mixed = len(names) > 1 and bool(commit.removed)
        for at, files in enumerate((commit.added, commit.removed)):
            for file in files:
                by_partition.setdefault(() if is_mixed else file.partition, ([], []))[at].append(file.path)
        for partition, (added, removed) in sorted(by_partition.items(), key=lambda each: str(each[0])):
            constants = {name: value for name, value in partition if name in layout.left_out}
            if removed:
                tasks.append(ChangesTask(commit.version, constants, sorted(added), sorted(removed)))
            else:
                tasks += [ChangesTask(commit.version, constants, [path], []) for path in sorted(added)]
    return tasks


def read_changes(
    task: ChangesTask, layout: Layout, keys: Sequence[str], columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The changes as Spark takes them: `columns` are those of the rows, then `_change_type` and `_commit_version`.

    Raises TableRefused where a file is gone."""
    if not task.removed:
        for path in task.added:
            for part in _parts(path, layout, task.constants):
                yield from _batches(part.select(columns.names[:-2]), INSERT, task.version, columns)
        return
    before = [row for path in task.removed for row in _rows(path, layout, task.constants)]
    after = [row for path in task.added for row in _rows(path, layout, task.constants)]
    changes = list(difference(before, after, keys))
    for start in range(0, len(changes), ROWS_AT_A_TIME):
        some = changes[start : start + ROWS_AT_A_TIME]
        rows = [{**row, CHANGE_TYPE: kind, COMMIT_VERSION: task.version} for kind, row in some]
        yield from pa.Table.from_pylist(rows, columns).to_batches()


def difference(before: Sequence[Row], after: Sequence[Row], keys: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """What has to happen to `before` to become `after`: kind of change, and row. Deletes come first."""
    old, new = Counter(map(_frozen, before)), Counter(map(_frozen, after))
    gone, come = old - new, new - old
    lost, found = _once_each(before, gone), _once_each(after, come)
    was = {tuple(row[key] for key in keys): row for row in lost} if keys else {}
    now = {tuple(row[key] for key in keys) for row in found} if keys else set()
    for row in lost:
        if not keys or tuple(row[key] for key in keys) not in now:
            yield DELETE, row
    for row in found:
        earlier = was.get(tuple(row[key] for key in keys)) if keys else None
        if earlier is None:
            yield INSERT, row
        else:
            yield BEFORE, earlier
            yield AFTER, row


def _once_each(rows: Sequence[Row], wanted: Counter[Any]) -> list[Row]:
    found, left = [], wanted.copy()
    for row in rows:
        frozen = _frozen(row)
        if left[frozen] > 0:
            left[frozen] -= 1
            found.append(row)
    return found


def _frozen(value: Any) -> Any:
    """The same for equal values, and hashable."""
    if isinstance(value, dict):
        return tuple((name, _frozen(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return "NaN" if value != value else value  # NaN alone differs from itself


def _rows(path: str, layout: Layout, constants: Mapping[str, Any]) -> list[Row]:
    return [row for part in _parts(path, layout, constants) for row in part.to_pylist()]


def _parts(path: str, layout: Layout, constants: Mapping[str, Any]) -> Iterator[pa.Table]:
    try:
        with StoredFile(path, layout, constants) as file:
            yield from file.parts()
    except FileNotFoundError as failure:
        raise TableRefused(
            f"a file of an earlier version of {layout.place.address} is gone ({path}): VACUUM, or an expiry of "
            "snapshots, has removed it before its changes were read. Keep files for longer, and start the query with a "
            "new checkpoint and startingVersion"
        ) from failure


def _batches(rows: pa.Table, kind: str, version: int, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    whole = rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(kind, pa.string()), rows.num_rows))
    whole = whole.append_column(COMMIT_VERSION, pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows))
    yield from whole.cast(columns).to_batches(max_chunksize=ROWS_AT_A_TIME)
