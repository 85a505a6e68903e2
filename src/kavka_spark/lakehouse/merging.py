"""Changes of rows into a table: a task's part, copy on write.

Decides which rows of the table a batch replaces. A table of this kind is partitioned by `kavka_bucket`, a hash of the
key, and a task has all changes of one bucket (`stable`). So a key is in the files of one bucket only, and no two tasks
touch the same file.

    step
    1 the last change of each key, by its offset
    2 of the bucket's files those that have a changed key are read, and written anew without it
    3 rows of upserts are added

Must not know tables' logs: the layout names each bucket's files, and the commit removes those that were written anew.

Invariants
  I1  After the commit a key has one row if its last change was an upsert, and none if it was a delete.
  I2  A file without a changed key stays as it is.
  I3  The commit is made only if the bucket still has the files that the task saw (`Bucket.check_same`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kavka_spark.errors import SinkError
from kavka_spark.lakehouse.data_files import FileWriter, WrittenFile
from kavka_spark.lakehouse.errors import SchemaRefused, TableRefused
from kavka_spark.lakehouse.layout import BUCKET_COLUMN, Layout
from kavka_spark.lakehouse.stored_files import StoredFile
from kavka_spark.stable import TASK_BITS, TASK_COLUMN

CHANGE_COLUMN: Final = "kavka_change"
OFFSET_COLUMN: Final = "kavka_offset"
UPSERT, DELETE = "upsert", "delete"
OF_CHANGES: Final = (TASK_COLUMN, CHANGE_COLUMN, OFFSET_COLUMN)
"""Columns of changes that the table does not have."""


@dataclass(frozen=True)
class Bucket:
    """What a task made of its bucket."""

    number: int
    seen: tuple[str, ...]
    removed: tuple[str, ...]
    """Of `seen`, those whose rows are in new files, or gone."""

    def check_same(self, now: Mapping[int, Sequence[str]], table: str) -> None:
        """I3. Raises TableRefused."""
        if sorted(now.get(self.number, ())) != sorted(self.seen):
            raise TableRefused(
                f"{table} was changed while a batch of changes was written for it: its bucket {self.number} has other "
                "files now. Nothing was committed; start the query again, and it merges the batch into the table as it "
                "is. Compact or change such a table while the query stands still"
            )


class Merged(NamedTuple):
    """A task's files, and its bucket; None if it had no changes."""

    files: list[WrittenFile]
    bucket: Bucket | None


def check_columns(names: Sequence[str], keys: Sequence[str]) -> None:
    """Whether these are columns of changes. Raises SchemaRefused."""
    absent = [name for name in OF_CHANGES if name not in names]
    if absent:
        raise SchemaRefused(
            f"option 'mergeKeys' is for changes of rows, and these have no column {absent[0]!r}: make them with "
            "kavka_spark.lakehouse.changes, which adds it"
        )
    missing = [key for key in keys if key not in names]
    if missing:
        raise SchemaRefused(f"option 'mergeKeys' names {missing[0]!r}, and the rows have {', '.join(names)}")


def merge(rows: Iterator[pa.RecordBatch], layout: Layout) -> Merged:
    """Writes a bucket anew as far as the changes reach. All changes of a task are in memory, and one file after
    another."""
    assert layout.merge is not None
    chunks = [chunk for chunk in rows if chunk.num_rows]
    if not chunks:
        return Merged([], None)
    changes = pa.Table.from_batches(chunks)
    number = _bucket(changes, layout.merge.buckets)
    last = last_changes(changes, layout.merge.keys)
    columns = last.drop_columns(list(OF_CHANGES)).append_column(BUCKET_COLUMN, _constant(number, last.num_rows))
    is_upsert = pc.equal(last[CHANGE_COLUMN], UPSERT)
    changed = _keys(last, layout)
    writer = FileWriter(layout, f"bucket-{number:05d}")
    seen = tuple(layout.merge.files.get(number, ()))
    removed = []
    try:
        for path in seen:
            kept = _without(path, changed, layout, number)
            if kept is not None:
                removed.append(path)
                writer.write(kept)
        writer.write(columns.filter(is_upsert))
        return Merged(writer.close(), Bucket(number, seen, tuple(removed)))
    except FileNotFoundError as failure:
        writer.discard()
        raise TableRefused(
            f"a file of bucket {number} of {layout.place.address} is gone ({failure}): somebody else has rewritten the "
            "bucket, and VACUUM or an expiry of snapshots took the file, while a batch of changes was merged. Nothing "
            "was committed; start the query again, and it merges the batch into the table as it is"
        ) from failure
    except BaseException:
        writer.discard()
        raise


def last_changes(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Of each key the change with the highest offset. Raises SinkError for a key that is null, and for a change that is
    none."""
    for key in keys:
        if changes[key].null_count:
            at = changes.filter(pc.is_null(changes[key]))[OFFSET_COLUMN][0].as_py()
            raise SinkError(
                f"a change has no {key!r}, by which rows are merged (offset {at}): every change, deletions included, "
                "needs it. PostgreSQL sends the primary key unless REPLICA IDENTITY is NOTHING"
            )
    others = set(pc.unique(changes[CHANGE_COLUMN]).to_pylist()) - {UPSERT, DELETE}
    if others:
        raise SinkError(f"column {CHANGE_COLUMN!r} has {min(map(str, others))!r}, expected {UPSERT!r} or {DELETE!r}")
    ordered = changes.append_column("__row", pa.array(range(changes.num_rows), pa.int64()))
    ordered = ordered.sort_by([(OFFSET_COLUMN, "ascending"), ("__row", "ascending")])
    numbered = ordered.select(list(keys)).append_column("__at", pa.array(range(ordered.num_rows), pa.int64()))
    newest = numbered.group_by(list(keys), use_threads=False).aggregate([("__at", "max")])["__at_max"]
    return ordered.take(newest).drop_columns(["__row"])


def _bucket(changes: pa.Table, buckets: int) -> int:
    tasks = set(pc.unique(changes[TASK_COLUMN]).to_pylist())
    if len(tasks) != 1:
        raise SinkError(
            "changes of several buckets came to one task: nothing that moves rows may come behind kavka_spark.lakehouse"
            ".changes"
        )
    task = int(tasks.pop())
    if task >> TASK_BITS != buckets:
        raise TableRefused(
            f"the table has {buckets} buckets, and the changes have {task >> TASK_BITS}: use buckets={buckets}. The "
            "number cannot change later, for rows would be in another bucket than before"
        )
    return task & ((1 << TASK_BITS) - 1)


def _keys(table: pa.Table, layout: Layout) -> pa.Table:
    """The keys in the table's types."""
    assert layout.merge is not None
    keys = layout.merge.keys
    return pa.table([pc.cast(table[key], layout.columns.field(key).type) for key in keys], list(keys))


def _without(path: str, changed: pa.Table, layout: Layout, bucket: int) -> pa.Table | None:
    """The rows of a file whose keys are not among `changed`; None if that is all of them (I2)."""
    assert layout.merge is not None
    with StoredFile(path, layout, {BUCKET_COLUMN: bucket}) as file:
        keys = _keys(file.columns(*layout.merge.keys), layout)
        numbered = keys.append_column("__row", pa.array(range(keys.num_rows), pa.int64()))
        hit = numbered.join(changed, list(layout.merge.keys), join_type="left semi")["__row"]
        if not len(hit):
            return None
        kept = pc.invert(pc.is_in(numbered["__row"], value_set=hit.combine_chunks()))
        return file.rows().filter(kept)


def _constant(value: int, rows: int) -> Any:
    return pa.repeat(pa.scalar(value, pa.int32()), rows)
