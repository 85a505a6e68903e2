"""The catalog: tables of a pipeline, kept from one run to the next.

Spark's own catalog lives in memory, so that a second run finds the files of a table that it does not know, and fails
(LOCATION_ALREADY_EXISTS). Hive's in an embedded Derby would persist, but costs some ten seconds with every start. So
each table's CREATE TABLE is written beside the journals as soon as the table is there, and executed before the next
run.

    I1  a table that is created anew is managed, as it was: SDP truncates no external ones
    I2  a catalog of the user's (`spark.sql.catalogImplementation`, or another than spark_catalog) is left alone
    I3  what is written is whole: a file is renamed into its place
    I4  a driver that is killed between a table's creation and the writing of it leaves a folder that nobody knows: with
        rows in it, it becomes a table of the columns that its files have (its checkpoint counts on them); without any,
        it is removed. This is seen in a storage on this machine's disk only
    I5  a table is created anew where no files are, and put where its files are afterwards: of a partitioned table that
        a stream wrote, Spark finds the partitions' columns twice (in the table and in the paths), and drops all columns
    I6  a table's partitions are those that its folders are: SDP empties a materialized view with TRUNCATE TABLE before
        it computes it, and that removes the files of the partitions that the catalog knows, no others

Source: measured (docs/pipelines.md); CatalogTable of Spark 4.3, whose type only its own API can change.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from kavka_spark.pipelines.problems import plain
from kavka_spark.pipelines.spec import PipelineSpec, SpecError, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER: Final = "catalog"
CATALOG: Final = "spark_catalog"
DATABASE: Final = "default"
WAREHOUSE: Final = "warehouse"
FORMATS: Final = ("parquet", "orc", "json")
"""Formats whose files contain their columns."""


def is_ours(spec: PipelineSpec) -> bool:
    """Whether the tables are in Spark's catalog in memory."""
    return "spark.sql.catalogImplementation" not in spec.configuration


def is_case_insensitive(spec: PipelineSpec) -> bool:
    """Whether the catalog takes two names that differ in capital letters alone for one: Spark's own does."""
    is_told_apart = spec.configuration.get("spark.sql.caseSensitive", "").lower() == "true"
    return spec.catalog in (None, CATALOG) and not is_told_apart


def settings(spec: PipelineSpec) -> dict[str, str]:
    """Where tables lie."""
    return {"spark.sql.warehouse.dir": f"{spec.storage.rstrip('/')}/{WAREHOUSE}"}


def save(spark: SparkSession, spec: PipelineSpec) -> None:
    """Writes down the tables that exist. `spark` is a classic session."""
    if not is_ours(spec):
        return
    folder = spec.state / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    there = set()
    for database in (row.namespace for row in spark.sql(f"SHOW DATABASES IN {CATALOG}").collect()):
        for table in spark.sql(f"SHOW TABLES IN {CATALOG}.`{database}`").collect():
            if table.isTemporary:
                continue
            [created] = spark.sql(f"SHOW CREATE TABLE {CATALOG}.`{database}`.`{table.tableName}`").collect()
            location = _location(spark, database, table.tableName)
            path = folder / f"{database}.{table.tableName}.sql"
            there.add(path.name)
            _write(path, f"{created[0].rstrip()}\nLOCATION '{_quoted(location)}'\n")
    for path in folder.glob("*.sql"):
        if path.name not in there:
            path.unlink()


def restore(spark: SparkSession, spec: PipelineSpec) -> list[str]:
    """Creates the tables of earlier runs; returns their names. `spark` is a classic session."""
    if not is_ours(spec):
        return []
    if spec.database is not None and spec.catalog in (None, CATALOG):
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {CATALOG}.`{spec.database}`")
    files = sorted((spec.state / FOLDER).glob("*.sql"))
    with TemporaryDirectory() as nothing:
        names = [_restored(spark, path, Path(nothing)) for path in files]
    _take_in_orphans(spark, spec)
    return names


def _restored(spark: SparkSession, path: Path, nothing: Path) -> str:
    """Creates the table of one file; returns its name. Raises SpecError where the file does not say which."""
    from pyspark.errors import PySparkException

    try:
        database, name = path.stem.split(".", 1)
        statement, location = _parts(path.read_text(encoding="utf-8"))
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {CATALOG}.`{database}`")
        spark.sql(f"{statement}\nLOCATION '{_quoted((nothing / path.stem).as_uri())}'")
    except (PySparkException, ValueError) as problem:
        raise SpecError(
            f"{path} does not hold the CREATE TABLE of {path.stem}: {plain(str(problem))}",
            "take it from a backup, or remove it: the table is then taken in with the columns that its files have",
        ) from problem
    _make_managed(spark, database, name, location)
    table = f"{CATALOG}.`{database}`.`{name}`"
    if external_catalog(spark).getTable(database, name).partitionColumnNames().nonEmpty():
        spark.sql(f"ALTER TABLE {table} RECOVER PARTITIONS")
    return name


def _take_in_orphans(spark: SparkSession, spec: PipelineSpec) -> None:
    """I4. Tables of other databases are in folders NAME.db, which are not searched."""
    warehouse = local_path(settings(spec)["spark.sql.warehouse.dir"])
    if warehouse is None or not warehouse.is_dir():
        return
    known = {table.name.lower() for table in spark.catalog.listTables()}
    for folder in sorted(path for path in warehouse.iterdir() if path.is_dir()):
        if folder.name.lower() in known or folder.name.endswith(".db"):
            continue
        provider = format_of_rows(folder)
        if not provider:
            shutil.rmtree(folder)
        if provider not in FORMATS:
            continue  # Rows of unknown columns: Spark says LOCATION_ALREADY_EXISTS, and nothing is lost.
        spark.sql(
            f"CREATE TABLE {CATALOG}.default.`{folder.name}` USING {provider} LOCATION '{_quoted(f'file://{folder}')}'"
        )
        _make_managed(spark, "default", folder.name)


def format_of_rows(folder: Path) -> str:
    """The format of the rows in a table's folder, by the ending of its files; empty where it has none, or none that a
    micro-batch committed."""
    log = folder / "_spark_metadata"
    if log.is_dir() and not any(path.name.split(".")[0].isdecimal() for path in log.iterdir()):
        return ""
    endings = {path.suffix.removeprefix(".") for path in folder.rglob("part-*")}
    return min(endings, default="")


def _location(spark: SparkSession, database: str, table: str) -> str:
    return str(external_catalog(spark).getTable(database, table).location().toString())


def _make_managed(spark: SparkSession, database: str, table: str, location: str = "") -> None:
    """A table with a location is external to Spark, although its files are just where a managed one's would be.

    `location`, a URI, is where the table is to lie instead.
    """
    jvm: Any = spark._jvm
    catalog = external_catalog(spark)
    found = catalog.getTable(database, table)
    changed = {"tableType": jvm.org.apache.spark.sql.catalyst.catalog.CatalogTableType.MANAGED()}
    if location:
        changed["storage"] = _copied(found.storage(), {"locationUri": jvm.scala.Some(jvm.java.net.URI(location))})
    catalog.alterTable(_copied(found, changed))


def _copied(value: Any, changed: Mapping[str, Any]) -> Any:
    """A copy of a Scala case class with other fields."""
    names = [value.productElementName(number) for number in range(value.productArity())]
    return value.copy(*(changed.get(name, value.productElement(number)) for number, name in enumerate(names)))


def external_catalog(spark: SparkSession):  # type: ignore[no-untyped-def]  # an object of Java's
    return spark._jsparkSession.sharedState().externalCatalog()


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _parts(saved: str) -> tuple[str, str]:
    """The statement and the location, a URI, of what `save` wrote."""
    statement, _, location = saved.rstrip().rpartition("\nLOCATION ")
    return statement, re.sub(r"\\(.)", r"\1", location[1:-1])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
