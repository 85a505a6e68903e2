"""A table's changes as a stream: spark.readStream.format("kavka-delta"), or "kavka-iceberg".

Decides which versions a micro-batch has. Must not know how a version is read (`table_changes`).

    {"table": "the table's id", "version": 17}     the last version that is read; -1 before the first one

Invariants
  I1  `partitions` is a function of start, end and the table's log, which does not change: a micro-batch that is run
      again has the same rows in the same tasks.
  I2  Each version is in one micro-batch, and versions come in their order. Several in one batch are in tasks that may
      run at the same time; `maxVersionsPerTrigger=1` lets the next begin after the one before has ended.

Source: pyspark.sql.datasource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from kavka.errors import ConfigError
from kavka_spark.jvm_sockets import Acknowledging
from kavka_spark.lakehouse.errors import TableRefused
from kavka_spark.lakehouse.layout import MERGE_KEYS
from kavka_spark.lakehouse.table import Table
from kavka_spark.lakehouse.table_changes import CHANGE_TYPE, COMMIT_VERSION, ChangesTask, read_changes, tasks_of
from kavka_spark.options import positive_int
from kavka_spark.plain_errors import with_plain_errors

BEFORE_ALL: Final = -1
EARLIEST, LATEST = "earliest", "latest"
DEFAULT_VERSIONS: Final = 10

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the options of a stream of changes say."""

    starting: int | str = EARLIEST
    most_versions: int = DEFAULT_VERSIONS


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Out of options with lower-case names. Raises ConfigError."""
    text = options.get("startingversion", EARLIEST).strip().lower()
    if text not in (EARLIEST, LATEST) and not text.isdigit():
        raise ConfigError(
            f"option 'startingVersion' is {text!r}, expected earliest, latest, or the version whose changes come first"
        )
    most = positive_int(options, "maxversionspertrigger") if "maxversionspertrigger" in options else DEFAULT_VERSIONS
    return StreamOptions(int(text) if text.isdigit() else text, most)


def change_columns(columns: pa.Schema) -> pa.Schema:
    """What a row of a change has."""
    plain = [pa.field(each.name, each.type) for each in columns]
    return pa.schema([*plain, pa.field(CHANGE_TYPE, pa.string()), pa.field(COMMIT_VERSION, pa.int64())])


def check_columns(wanted: Sequence[str], known: Sequence[str]) -> None:
    """Raises ConfigError where a caller's schema is not that of the changes: all columns are read."""
    if list(wanted) != list(known):
        raise ConfigError(
            f"the changes have the columns {', '.join(known)}: leave out schema(...), and select afterwards"
        )


@with_plain_errors
class TableStreamReader(Acknowledging, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The changes of one table."""

    def __init__(self, look: Callable[[], Table], options: StreamOptions) -> None:
        self._look, self._options = look, options
        opened = look()
        self._layout = opened.layout
        self.columns = change_columns(opened.layout.columns)
        self._keys = (
            tuple(opened.properties().get(MERGE_KEYS, "").split(",")) if MERGE_KEYS in opened.properties() else ()
        )
        self._target: int | None = None

    def initialOffset(self) -> Json:
        table = self._look()
        versions = table.versions()
        match self._options.starting:
            case "earliest":
                version = BEFORE_ALL
            case "latest":
                version = versions[-1] if versions else BEFORE_ALL
            case wanted:
                if wanted not in versions:
                    raise TableRefused(f"{table.name} has no version {wanted}; it has {_shown(versions)}")
                at = versions.index(int(wanted))
                version = versions[at - 1] if at else BEFORE_ALL
        return self._json(version)

    def prepareForTriggerAvailableNow(self) -> None:
        versions = self._look().versions()
        self._target = versions[-1] if versions else BEFORE_ALL

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        table = self._look()
        self._check(start, table)
        ahead = _after(table, start["version"])
        if self._target is not None:
            ahead = ahead[: ahead.index(self._target) + 1] if self._target in ahead else []
        some = ahead[: self._options.most_versions]
        return self._json(some[-1]) if some else start

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """See I1."""
        table = self._look()
        self._check(start, table)
        self._check(end, table)
        ahead = _after(table, start["version"])
        if end["version"] not in ahead and end != start:
            raise TableRefused(
                f"version {end['version']} of {table.name}, up to which a micro-batch reads, is none of its versions "
                "any more: the table was rolled back. Start with a new checkpoint and startingVersion"
            )
        wanted = ahead[: ahead.index(end["version"]) + 1] if end != start else []
        commits = [table.files_of(version) for version in wanted]
        return list(tasks_of(commits, self._layout)) or [ChangesTask(BEFORE_ALL, {}, [], [])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ChangesTask)
        return read_changes(partition, self._layout, self._keys, self.columns)

    def commit(self, end: Json) -> None:
        """Does nothing: the checkpoint has the version."""

    def stop(self) -> None:
        """Does nothing."""

    def _json(self, version: int) -> Json:
        return {"table": self._layout.table_id, "version": version}

    def _check(self, offset: Json, table: Table) -> None:
        if not isinstance(offset, dict) or not {"table", "version"} <= offset.keys():
            raise TableRefused(
                f"the checkpoint holds {offset}, which is no version of a table: it belongs to a query of another "
                "source. Give this query a checkpointLocation of its own"
            )
        if offset["table"] != table.layout.table_id:
            raise TableRefused(
                f"{table.name} was replaced: the checkpoint read the table {offset['table']}, and this one is "
                f"{table.layout.table_id}. Start the query with a new checkpoint"
            )


def _after(table: Table, version: int) -> list[int]:
    """The versions behind `version`, in order."""
    versions = table.versions()
    if version == BEFORE_ALL:
        if not table.reaches_back():
            raise TableRefused(
                f"{table.name} does not tell its first versions any more; it has {_shown(versions)}. Start with "
                "startingVersion=latest, or with one of these"
            )
        return versions
    if version not in versions:
        raise TableRefused(
            f"the changes behind version {version} of {table.name} cannot be told: it has {_shown(versions)}. The "
            "log was cleaned, or the table was rolled back. Start with a new checkpoint and startingVersion"
        )
    return versions[versions.index(version) + 1 :]


def _shown(versions: list[int]) -> str:
    return f"the versions {versions[0]} to {versions[-1]}" if versions else "none"
