"""format("kavka") as a sink: the writers of Spark's Python data source interface, for batches and streams.

Decides what is refused before a job starts. Must not know how rows are written: `writer` does that.

Spark makes a writer in a planning process, for every micro-batch anew, sends it to the executors, and calls `write`
there once per task. What a task wrote is delivered when `write` returns, so that nothing is left for `commit` to do;
a job that fails leaves what other tasks wrote, as the "kafka" sink does.

Source: pyspark.sql.datasource.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kavka_spark.errors import SinkError
from kavka_spark.jvm_sockets import Acknowledging
from kavka_spark.plain_errors import with_plain_errors
from kavka_spark.sink_options import SinkOptions, sink_options
from kavka_spark.sink_schema import SinkColumns, sink_columns
from kavka_spark.worker_garbage import freeze_what_is_loaded


@dataclass(frozen=True)
class WrittenTask(WriterCommitMessage):
    """What a task reports to the driver."""

    rows: int
    skipped: bool


def writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceArrowWriter:
    """The writer for df.write. Raises `ConfigError` or `SinkError` for unsuitable options or columns."""
    freeze_what_is_loaded()
    if overwrite:
        raise SinkError(
            "mode('overwrite') does not work on a topic, whose records stay: use mode('append'), and delete the topic "
            "or its records before where that is meant"
        )
    parsed = sink_options(options, streaming=False)
    return KavkaWriter(sink_columns(schema, parsed), parsed)


def stream_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> DataSourceStreamArrowWriter:
    """The writer for df.writeStream. Raises as `writer` does.

    With outputMode("complete"), `overwrite`, every micro-batch appends the whole result, as with the "kafka" sink.
    """
    freeze_what_is_loaded()
    parsed = sink_options(options, streaming=True)
    return KavkaStreamWriter(sink_columns(schema, parsed), parsed)


@with_plain_errors
class KavkaWriter(Acknowledging, DataSourceArrowWriter):
    """Writes the partitions of a table."""

    def __init__(self, columns: SinkColumns, options: SinkOptions) -> None:
        self._columns = columns
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._columns, self._options)


@with_plain_errors
class KavkaStreamWriter(Acknowledging, DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, columns: SinkColumns, options: SinkOptions) -> None:
        self._columns = columns
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._columns, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        """Does nothing: every task's rows are delivered already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        """Does nothing: what was delivered stays, and the micro-batch comes again."""


def _write(rows: Iterator[pa.RecordBatch], columns: SinkColumns, options: SinkOptions) -> WrittenTask:
    # Planning needs neither sockets nor a loop; what needs them is imported where tasks run.
    from kavka_spark.writer import TaskIdentity, write_rows

    context = TaskContext.get()
    if context is None:
        raise SinkError("rows are written in Spark's tasks only, and this code does not run in one")
    written = write_rows(rows, columns, options, TaskIdentity(context.partitionId(), context.getLocalProperty))
    return WrittenTask(written.rows, written.skipped)
