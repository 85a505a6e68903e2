"""StoredFile: a data file of a table, read with the table's columns.

Decides which column of a file is which of the table: by Iceberg's id of the field where both have one, for a column may
have been renamed since; otherwise by its name. Columns that the file does not have are null, or the value of its
partition. Must not know tables' logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kavka_spark.lakehouse.data_files import aligned
from kavka_spark.lakehouse.layout import Layout, field_id


class StoredFile:
    """Opened by `with`."""

    def __init__(self, path: str, layout: Layout, constants: Mapping[str, Any]) -> None:
        """path: below the layout's place. constants: values of columns that files leave out."""
        files, root = layout.place.open()
        self._layout, self._constants = layout, constants
        self._stream = files.open_input_file(f"{root}/{path}")
        self._parquet = pq.ParquetFile(self._stream)
        self._names = names_of(self._parquet.schema_arrow, layout)

    def __enter__(self) -> StoredFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parquet.close()
        self._stream.close()

    def columns(self, *wanted: str) -> pa.Table:
        """Some of the table's columns, which the file must have."""
        theirs = {ours: name for name, ours in self._names.items()}
        return self._renamed(self._parquet.read(columns=[theirs[name] for name in wanted]))

    def rows(self) -> pa.Table:
        """All rows."""
        return self._whole(self._parquet.read(columns=list(self._names)))

    def parts(self) -> Iterator[pa.Table]:
        """All rows, a row group at a time."""
        for group in range(self._parquet.num_row_groups):
            yield self._whole(self._parquet.read_row_group(group, columns=list(self._names)))

    def _whole(self, read: pa.Table) -> pa.Table:
        table = self._renamed(read)
        for name, value in self._constants.items():
            if name not in table.column_names:
                kind = self._layout.columns.field(name).type
                table = table.append_column(name, pa.repeat(pa.scalar(value, kind), table.num_rows))
        return aligned(table, self._layout)

    def _renamed(self, read: pa.Table) -> pa.Table:
        return read.rename_columns([self._names[name] for name in read.column_names])


def names_of(columns: pa.Schema, layout: Layout) -> dict[str, str]:
    """The table's name of each column of a file that the table still has."""
    by_id = {field_id(each): each.name for each in layout.columns if field_id(each) is not None}
    names = {}
    for each in columns:
        found = by_id.get(field_id(each)) if by_id and field_id(each) is not None else each.name
        if found is not None and found in layout.columns.names:
            names[each.name] = found
    return names
