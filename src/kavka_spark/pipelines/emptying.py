"""A full refresh of a streaming table with partitions has to empty it.

SDP's full refresh gives the table's flow a new checkpoint and empties the table with TRUNCATE TABLE. Of a table with
partitions that removes the files of the partitions that the catalog knows. A stream registers none, and makes no
folders for them, so nothing was removed: the rows of before stayed, and so did the log of the files, `_spark_metadata`,
by whose numbers Spark passed over the first micro-batches of the new checkpoint as written already.

So while SDP works, the catalog knows one partition of such a table, which lies where the table does: TRUNCATE TABLE
removes all there is, at the time when SDP does it for other tables, and only of the tables that SDP empties.

    I1  only of streaming tables whose files have such a log: that is how they are read, and not by partitions
    I2  only in Spark's catalog in memory, of which the next driver's knows nothing. In another one (Hive's) a kill
        would leave the partition; there, a full refresh of such a table is refused before anything has changed
    I3  the partition is forgotten afterwards, and no file with it: of another table it would be a partition's end

Source: Spark 4.3, TruncateTableCommand, FileStreamSink.addBatch, DatasetManager.materializeTable, State.reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from kavka_spark.pipelines.catalog import CATALOG, external_catalog, is_case_insensitive, is_ours
from kavka_spark.pipelines.definitions import Definitions
from kavka_spark.pipelines.problems import plain
from kavka_spark.pipelines.spec import PipelineSpec, SpecError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG: Final = "_spark_metadata"
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""What a catalog has for NULL, the one value that columns of all types take."""


def streaming_tables(definitions: Definitions) -> list[str]:
    return [name for name in definitions.tables().values() if definitions.kind_of(name) == "streaming table"]


@contextmanager
def as_wholes(spark: SparkSession, spec: PipelineSpec, streaming: Iterable[str]) -> Iterator[None]:
    """For the block, TRUNCATE TABLE empties the streaming tables of these names also where they have partitions.
    `spark` is a classic session. Raises SpecError where that cannot be."""
    known: list[tuple[str, str, list[str]]] = []
    try:
        for name in streaming:
            home, database, table = [*spec.home, *name.replace("`", "").split(".")][-3:]
            if is_case_insensitive(spec):
                database, table = database.lower(), table.lower()
            columns = _columns(spark, database, table) if home == CATALOG else []
            if columns:
                if not is_ours(spec):
                    raise _cannot(table, "its catalog is not the one that kavka keeps")
                known.append((database, table, columns))
                _add(spark, database, table, columns)
        yield
    finally:
        for database, table, columns in known:
            _forget(spark, database, table, columns)


def _columns(spark: SparkSession, database: str, table: str) -> list[str]:
    """Those of its partitions, of a table whose files have a log."""
    jvm: Any = spark._jvm
    java: Any = spark
    catalog = external_catalog(spark)
    if not catalog.databaseExists(database) or not catalog.tableExists(database, table):
        return []
    found = catalog.getTable(database, table)
    folder = jvm.org.apache.hadoop.fs.Path(found.location())
    files = folder.getFileSystem(java._jsc.hadoopConfiguration())
    names = found.partitionColumnNames()
    there = names.nonEmpty() and files.exists(jvm.org.apache.hadoop.fs.Path(folder, LOG))
    return [names.apply(number) for number in range(names.size())] if there else []


def _add(spark: SparkSession, database: str, table: str, columns: list[str]) -> None:
    location = external_catalog(spark).getTable(database, table).location().toString()
    values = ", ".join(f"`{column}` = NULL" for column in columns)
    where = location.replace("\\", "\\\\").replace("'", "\\'")
    name = f"{CATALOG}.`{database}`.`{table}`"
    try:
        spark.sql(f"ALTER TABLE {name} ADD IF NOT EXISTS PARTITION ({values}) LOCATION '{where}'")
    except PySparkException as problem:
        raise _cannot(table, plain(str(problem))) from problem


def _cannot(table: str, why: str) -> SpecError:
    return SpecError(
        f"Spark does not empty the streaming table {table}, which has partition_cols, and would lose rows: {why}",
        "nothing was changed; define the table without partition_cols, under another name",
    )


def _forget(spark: SparkSession, database: str, table: str, columns: list[str]) -> None:
    """`ALTER TABLE ... DROP PARTITION` would remove the files."""
    jvm: Any = spark._jvm
    values = jvm.org.apache.spark.api.python.PythonUtils
    catalog = external_catalog(spark)
    if catalog.tableExists(database, table):
        which = values.toSeq([values.toScalaMap(dict.fromkeys(columns, NO_VALUE))])
        catalog.dropPartitions(database, table, which, True, False, True)
