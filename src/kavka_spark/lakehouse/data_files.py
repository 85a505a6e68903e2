"""A task's rows as Parquet files of a table.

Decides which file a row goes to, and when a file is full. Files have names of their own (UUIDs), so an attempt that
comes again overwrites nothing, and what no commit names belongs to nobody.

Must not know tables' logs: what a commit needs is in `WrittenFile`.

Invariants
  I1  A file has rows of one partition only.
  I2  At most `MOST_OPEN_FILES` are open in a task; the one that was longest without a row is closed for a new one.
  I3  A value that the table's type cannot hold, or a null where none may be, fails the task and names the column.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kavka_spark.lakehouse.errors import SchemaRefused
from kavka_spark.lakehouse.layout import Layout

MOST_OPEN_FILES: Final = 64
"""Each holds a row group in memory."""
ROW_GROUP_ROWS: Final = 100_000
"""Rows of a file are written when there are so many, or ROW_GROUP_BYTES."""
ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_NAME: Final = 60


class WrittenFile(NamedTuple):
    """A file that is complete."""

    path: str
    """Below the table's place."""
    size_bytes: int
    rows: int
    partition: tuple[Any, ...]
    """A value for each column that the table is partitioned by."""
    footer: pq.FileMetaData


class FileWriter:
    """Writes one task's rows. `close` completes the files; `discard` removes what there is of them."""

    def __init__(self, layout: Layout, name: str) -> None:
        """name: what file names begin with."""
        self._layout = layout
        self._name = name
        self._files, self._root = layout.place.open()
        self._open: OrderedDict[tuple[Any, ...], _OpenFile] = OrderedDict()
        self._written: list[WrittenFile] = []
        self._paths: list[str] = []

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        table = aligned(rows, self._layout)
        for partition, part in self._parts(table):
            found = self._open.get(partition)
            if found is None:
                found = self._open[partition] = self._begin(partition)
            self._open.move_to_end(partition)
            found.add(part)
            if found.size_bytes >= self._layout.file_bytes:
                self._finish(partition)

    def close(self) -> list[WrittenFile]:
        for partition in list(self._open):
            self._finish(partition)
        return self._written

    def discard(self) -> None:
        for each in self._open.values():
            each.abandon()
        self._layout.place.remove(self._paths)

    def _parts(self, table: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        """I1."""
        by = list(self._layout.partition_by)
        if not by or not table.num_rows:
            if table.num_rows:
                yield (), table.select(self._layout.file_columns.names)
            return
        numbered = table.select(by).append_column("__row", pa.array(range(table.num_rows), pa.int64()))
        groups = numbered.group_by(by, use_threads=False).aggregate([("__row", "list")])
        for group in groups.to_pylist():
            chosen = pa.array(group["__row_list"], pa.int64())
            values = tuple(group[each] for each in by)
            yield values, table.take(chosen).select(self._layout.file_columns.names)

    def _begin(self, partition: tuple[Any, ...]) -> _OpenFile:
        if len(self._open) >= MOST_OPEN_FILES:
            self._finish(next(iter(self._open)))
        directory = "".join(
            f"{_usual(name)}={_usual('null' if value is None else str(value))}/"
            for name, value in zip(self._layout.partition_by, partition, strict=True)
        )
        path = f"{directory}{self._name}-{uuid.uuid4()}.parquet"
        self._paths.append(path)
        whole = f"{self._root}/{path}"
        self._files.create_dir(whole.rpartition("/")[0], recursive=True)
        return _OpenFile(path, partition, self._files.open_output_stream(whole), self._layout.file_columns)

    def _finish(self, partition: tuple[Any, ...]) -> None:
        self._written.append(self._open[partition].finish())
        del self._open[partition]  # Not where it failed: `discard` abandons it.


class _OpenFile:
    def __init__(self, path: str, partition: tuple[Any, ...], stream: Any, columns: pa.Schema) -> None:
        self._path, self._partition, self._stream = path, partition, stream
        self._footers: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(stream, columns, compression="zstd", metadata_collector=self._footers)
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._waiting_bytes = self._rows = 0

    @property
    def size_bytes(self) -> int:
        """What is in the file, and what waits for it, which will be smaller there."""
        return int(self._stream.tell()) + self._waiting_bytes

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.get_total_buffer_size() if self._waiting_rows > ROW_GROUP_ROWS else rows.nbytes
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def finish(self) -> WrittenFile:
        self._flush()
        self._writer.close()
        size_bytes = int(self._stream.tell())
        self._stream.close()
        return WrittenFile(self._path, size_bytes, self._rows, self._partition, self._footers[0])

    def abandon(self) -> None:
        """Closes what is open; the file goes away. A disk that is full says so again here."""
        self._waiting.clear()
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()
        self._writer.is_open = False  # Its end would close it again, and print what that says.
        with contextlib.suppress(OSError):
            self._stream.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=ROW_GROUP_ROWS)
            self._rows += self._waiting_rows
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


def aligned(rows: pa.RecordBatch | pa.Table, layout: Layout) -> pa.Table:
    """The rows with the table's columns, in its order and types (I3)."""
    given = {name: position for position, name in enumerate(rows.schema.names)}
    columns = []
    for field in layout.columns:
        if field.name not in given:
            column: Any = pa.nulls(rows.num_rows, field.type)
        else:
            column = _cast(rows.column(given[field.name]), field)
        if not field.nullable and column.null_count:
            raise SchemaRefused(
                f"column {field.name!r} may not be null in {layout.place.address}, and {column.null_count} rows of a "
                "task are: fill or filter them before the sink"
            )
        columns.append(column)
    return pa.table(columns, schema=layout.columns)


def _cast(column: Any, field: pa.Field) -> Any:
    if column.type.equals(field.type):
        return column
    try:
        return pc.cast(column, field.type, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as failure:
        raise SchemaRefused(f"column {field.name!r} does not fit into {field.type}: {failure}") from failure


def _usual(text: str) -> str:
    """A directory's name is for people: the log has the value."""
    return _UNUSUAL.sub("_", text)[:_LONGEST_NAME]
