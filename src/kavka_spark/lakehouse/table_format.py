"""What the tables' formats have in common as Spark sees them.

It is imported in every Python process that looks for formats: it imports nothing heavy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter

from kavka_spark.plain_errors import or_refused, with_plain_errors
from kavka_spark.worker_garbage import freeze_what_is_loaded

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kavka_spark.lakehouse.lake_options import LakeOptions
    from kavka_spark.lakehouse.table import Table


class Target(Protocol):
    """Which table, and how."""

    @property
    def options(self) -> LakeOptions: ...

    def __call__(self, columns: pa.Schema) -> Table:
        """The table as it is now, made ready for rows of these columns."""

    def existing(self) -> Table:
        """The table as it is. Raises TableRefused if there is none."""


@with_plain_errors
class TableFormat(DataSource):
    """A sink, and the stream of a table's changes."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.given = {name.lower(): text for name, text in options.items()}

    @abstractmethod
    def target(self, *, streaming: bool) -> Target:
        """Out of the options. Raises ConfigError."""

    @abstractmethod
    def source(self) -> Target:
        """Which table a stream reads. Raises ConfigError."""

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        from kavka_spark.lakehouse.table_stream import change_columns

        return from_arrow_schema(change_columns(self.source().existing().layout.columns))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return or_refused(lambda: self._stream_reader(schema))

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        from kavka_spark.lakehouse.table_stream import TableStreamReader, check_columns, stream_options

        reader = TableStreamReader(self.source().existing, stream_options(self.given))
        check_columns(schema.names, reader.columns.names)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kavka_spark.lakehouse.lake_sink import LakeWriter, check_mode, row_columns

        freeze_what_is_loaded()
        check_mode(overwrite, streaming=False)
        target = self.target(streaming=False)
        return LakeWriter(target, row_columns(schema, target.options), target.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from kavka_spark.lakehouse.lake_sink import LakeStreamWriter, check_mode, row_columns

        freeze_what_is_loaded()
        check_mode(overwrite, streaming=True)
        target = self.target(streaming=True)
        return LakeStreamWriter(target, row_columns(schema, target.options), target.options)
