"""The sink of all table formats: tasks write files, and the driver commits a batch.

Decides the order of steps, and what becomes of files. Must not know a table format.

    step                      in
    1 prepare the table       the driver, when Spark plans a batch: what does not fit is refused here
    2 write files             tasks, each under names of its own
    3 look, decide, commit    the driver, in a process of Python beside the JVM; again where somebody was faster

Invariants
  I1  A batch is committed on a table that was seen without it (`progress`, and the tables' own I1).
  I2  A file is removed only by the attempt that wrote it, and only if no commit with it was ever tried: where the
      outcome is unknown it may be in the table. Files that are in no commit are what Delta's VACUUM and Iceberg's
      removal of orphan files are for.
I3  A commit names no file that is gone: nobody could read such a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kavka.logger import Logger
from kavka_spark.errors import SinkError
from kavka_spark.jvm_sockets import Acknowledging
from kavka_spark.lakehouse.batch import Batch, read_batch
from kavka_spark.lakehouse.data_files import FileWriter, WrittenFile
from kavka_spark.lakehouse.errors import BatchRefused, CommitConflict, SchemaRefused, TableRefused, stored
from kavka_spark.lakehouse.evolution import plain_schema
from kavka_spark.lakehouse.lake_options import LakeOptions
from kavka_spark.lakehouse.layout import BUCKET_COLUMN, Layout
from kavka_spark.lakehouse.merging import CHANGE_COLUMN, OF_CHANGES, Bucket, check_columns, merge
from kavka_spark.lakehouse.progress import Step, next_step, noted
from kavka_spark.lakehouse.table import Table
from kavka_spark.plain_errors import with_plain_errors
from kavka_spark.stable import TASK_COLUMN

logger = Logger(__name__)

MOST_COMMITS: Final = 50
"""How often a commit is tried where others commit at the same time."""

Prepare = Callable[[pa.Schema], Table]
"""Gives the table as it is now, made ready for rows of these columns."""


@dataclass(frozen=True)
class WrittenTask(WriterCommitMessage):
    """What a task reports to the driver."""

    layout: Layout
    """For which the files were written."""
    files: tuple[WrittenFile, ...]
    bucket: Bucket | None = None
    """Where changes are merged."""


def row_columns(schema: StructType, options: LakeOptions) -> pa.Schema:
    """What the sink writes of a table. Columns that say which task writes, or what a change is, are not written."""
    if options.merge_keys:
        check_columns(schema.names, options.merge_keys)
    elif CHANGE_COLUMN in schema.names:
        raise SchemaRefused("these are changes of rows: name the columns that identify a row with option 'mergeKeys'")
    without = OF_CHANGES if options.merge_keys else (TASK_COLUMN,)
    kept = StructType([each for each in schema.fields if each.name not in without])
    columns = plain_schema(to_arrow_schema(kept, timezone="UTC"))
    return columns.append(pa.field(BUCKET_COLUMN, pa.int32())) if options.merge_keys else columns


@with_plain_errors
class LakeWriter(Acknowledging, DataSourceArrowWriter):
    """Writes a table in one commit."""

    def __init__(self, prepare: Prepare, columns: pa.Schema, options: LakeOptions) -> None:
        self._prepare, self._columns, self._options = prepare, columns, options
        self._layout = prepare(columns).layout

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(iterator, self._layout)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        options = self._options
        load = None
        if options.load_id is not None:
            load = Batch(query=options.load_id, number=options.load_number, follows=False)
        commit(_tasks(messages), load, lambda: self._prepare(self._columns), options.writer_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Does nothing (I2)."""


@with_plain_errors
class LakeStreamWriter(Acknowledging, DataSourceStreamArrowWriter):
    """Writes micro-batches, each in one commit."""

    def __init__(self, prepare: Prepare, columns: pa.Schema, options: LakeOptions) -> None:
        self._prepare, self._columns, self._options = prepare, columns, options
        self._layout = prepare(columns).layout

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_task(iterator, self._layout)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        assert self._options.checkpoint is not None
        batch = read_batch(self._options.checkpoint, batchId)
        commit(_tasks(messages), batch, lambda: self._prepare(self._columns), self._options.writer_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        """Does nothing (I2)."""


def write_task(rows: Iterator[pa.RecordBatch], layout: Layout) -> WrittenTask:
    """A task's rows as files. Where it fails it removes them. Raises StoreFailed, and SchemaRefused and SinkError for
    rows."""
    with stored(f"a task cannot write its files of {layout.place.address}"):
        return _write_task(rows, layout)


def _write_task(rows: Iterator[pa.RecordBatch], layout: Layout) -> WrittenTask:
    if layout.merge is not None:
        merged = merge(rows, layout)
        return WrittenTask(layout.without_files(), tuple(merged.files), merged.bucket)
    context = TaskContext.get()
    writer = FileWriter(layout, f"part-{0 if context is None else context.partitionId():05d}")
    try:
        for chunk in rows:
            writer.write(chunk)
        return WrittenTask(layout, tuple(writer.close()))
    except BaseException:
        writer.discard()
        raise


def commit(tasks: Sequence[WrittenTask], batch: Batch | None, look: Callable[[], Table], writer_id: str) -> bool:
    """Commits the files, or finds the batch in the table already: False. Raises BatchRefused, SchemaRefused,
    TableRefused, StoreFailed, and CommitConflict where others were faster `MOST_COMMITS` times."""
    files = [file for task in tasks for file in task.files]
    buckets = [task.bucket for task in tasks if task.bucket is not None]
    removed = [path for bucket in buckets for path in bucket.removed]
    for attempt in range(MOST_COMMITS):
        table = look()
        if batch is not None:
            held = table.held(batch, writer_id)
            if next_step(batch, held, table=table.name, writer_id=writer_id) is Step.SKIP:
                if attempt == 0:  # I2
                    table.layout.place.remove([each.path for each in files])
                logger.info("batch already in the table", table=table.name, query=batch.query, batch=batch.number)
                return False
            if batch.filled_in and table.layout.merge is not None:
                raise BatchRefused(
                    f"{batch} fills in earlier records (kavka.backfill.from), and {table.name} is a table of merged "
                    "changes, in which an older change would replace a newer one. Nothing was committed. Start the "
                    "query with a new checkpoint, without the backfill"
                )
        for task in tasks:
            task.layout.check_same(table.layout)
        _check_there(table, files)
        for bucket in buckets:
            bucket.check_same(table.layout.merge.files if table.layout.merge is not None else {}, table.name)
        try:
            table.append(files, None if batch is None else noted(batch, held), writer_id, removed)
        except CommitConflict as conflict:
            if attempt == MOST_COMMITS - 1:
                raise
            logger.info("commit tried again", table=table.name, why=str(conflict))
            continue
        return True
    raise AssertionError("the last attempt returns or raises")


def _check_there(table: Table, files: Sequence[WrittenFile]) -> None:
    """I3. Raises TableRefused."""
    gone = table.layout.place.missing([file.path for file in files]) if files else []
    if gone:
        raise TableRefused(
            f"{len(gone)} of {len(files)} files that this batch wrote for {table.name} are gone ({gone[0]}): VACUUM or "
            "a removal of orphan files takes what is in no commit yet, unless it spares what is younger than a batch. "
            "Nothing was committed; start the query again, and it writes the batch anew"
        )


def _tasks(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenTask]:
    tasks = [message for message in messages if isinstance(message, WrittenTask)]
    if len(tasks) != len(messages):
        raise SinkError("a task of this batch reported nothing: the batch is not committed")
    return tasks


def check_mode(overwrite: bool, *, streaming: bool) -> None:
    """Raises SinkError for modes that replace rows."""
    if overwrite and streaming:
        raise SinkError(
            "outputMode('complete') replaces all rows with each micro-batch, and a table takes appends: use "
            "outputMode('append'), with a watermark where rows are aggregated"
        )
    if overwrite:
        raise SinkError("mode('overwrite') is not for tables of this sink, which appends: use mode('append')")
