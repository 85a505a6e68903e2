"""LakeCase: a table and a checkpoint as Spark leaves it, so that batches can be committed without Spark.

It stands in for Spark alone: files, tables and their commits are the real ones. DeltaLake and IcebergLake look at a
table with the packages that others use, and change it as others do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from pyarrow import fs
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table as OpenedIceberg

from kavka_spark.lakehouse.batch import read_batch
from kavka_spark.lakehouse.delta_format import DeltaTarget
from kavka_spark.lakehouse.iceberg_format import IcebergTarget
from kavka_spark.lakehouse.lake_options import LakeOptions
from kavka_spark.lakehouse.lake_sink import Prepare, WrittenTask, commit, write_task
from kavka_spark.lakehouse.places import Place

ROWS = pa.schema([("id", pa.int64()), ("country", pa.string()), ("offset", pa.int64())])
TOPIC_ID = "2f4c7c0e-0000-4000-8000-000000000001"


def rows_of(ids: Sequence[int], columns: pa.Schema = ROWS) -> pa.RecordBatch:
    values = {
        "id": list(ids),
        "country": ["at" if each % 2 else "de" for each in ids],
        "offset": list(ids),
        "note": [f"note {each}" for each in ids],
    }
    return pa.RecordBatch.from_pydict({name: values[name] for name in columns.names}, schema=columns)


class Checkpoint:
    """What Spark writes of a query: its id, and where each batch ends."""

    def __init__(self, directory: Path, query: str = "query-1", *, began: int = 0, topic_id: str = TOPIC_ID) -> None:
        self.path = directory
        self._began, self._topic_id = began, topic_id
        (directory / "offsets").mkdir(parents=True)
        (directory / "metadata").write_text(json.dumps({"id": query}))

    def plan(
        self, number: int, end: int, *, topic: str = "orders", filled_in: tuple[int, int, int] | None = None
    ) -> None:
        """Batch `number` ends before `end` of partition 0; a range that is filled in is read up to its third number."""
        ids = {"topic ids": {topic: self._topic_id}}
        written: dict[str, Any] = {topic: {"0": end}, **ids}
        if number == 0:
            written["began at"] = {topic: {"0": self._began}, **ids}
        written["first offsets"] = {topic: {"0": self._began}}
        if filled_in is not None:
            written["filled in"] = {topic: {"0": [list(filled_in)]}}
        text = f"v1\n{json.dumps({'batchWatermarkMs': 0})}\n{json.dumps(written)}"
        (self.path / "offsets" / str(number)).write_text(text)


class Lake(Protocol):
    """One table, as others see it."""

    directory: Path

    def target(self, options: LakeOptions) -> Prepare: ...

    def rows(self, version: int | None = None) -> list[dict[str, Any]]: ...

    def commits(self) -> int:
        """Commits of rows, since the table was made."""

    def partitioned_by(self) -> list[str]: ...

    def append(self, row: dict[str, Any]) -> None:
        """By somebody else."""

    def replace(self) -> None:
        """By an empty table at the same place."""

    def go_back(self, commits: int) -> None:
        """To as many commits before."""

    def data_files(self) -> int:
        """Files that are there, in the table or in no commit."""

    def remove_orphans(self) -> None:
        """Of whatever age, as only a table that nobody writes may be cleaned."""


class DeltaLake:
    def __init__(self, directory: Path, store: str | None = None) -> None:
        """store: the address of a store where the table is to be, in place of the directory."""
        self.directory, self.path = directory, f"{store or directory}/table"

    def target(self, options: LakeOptions) -> Prepare:
        return DeltaTarget(Place.at(self.path), options)

    def data_files(self) -> int:
        return _data_files(self.path)

    def remove_orphans(self) -> None:
        DeltaTable(self.path).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)

    def rows(self, version: int | None = None) -> list[dict[str, Any]]:
        return DeltaTable(self.path, version=version).to_pyarrow_table().to_pylist()

    def commits(self) -> int:
        return DeltaTable(self.path).version()

    def partitioned_by(self) -> list[str]:
        return list(DeltaTable(self.path).metadata().partition_columns)

    def append(self, row: dict[str, Any]) -> None:
        columns = pa.schema(DeltaTable(self.path).schema().to_arrow())
        write_deltalake(self.path, pa.Table.from_pylist([row], columns), mode="append")

    def replace(self) -> None:
        DeltaTable.create(self.path, Schema.from_arrow(ROWS), mode="overwrite")

    def go_back(self, commits: int) -> None:
        DeltaTable(self.path).restore(self.commits() - commits)


class IcebergLake:
    NAME = "shop.orders"

    def __init__(self, directory: Path, store: str | None = None, **settings: str) -> None:
        """settings: more of the catalog's, with _ for a dot."""
        self.directory = directory
        self._warehouse = f"{store or f'file://{directory}'}/warehouse"
        self.catalog = (
            ("type", "sql"),
            ("uri", f"sqlite:///{directory / 'catalog.db'}"),
            ("warehouse", self._warehouse),
            *((name.replace("_", "."), value) for name, value in settings.items()),
        )

    def data_files(self) -> int:
        return _data_files(self._warehouse)

    def remove_orphans(self) -> None:
        known = {task.file.file_path.removeprefix("file://") for task in self.table().scan().plan_files()}
        for path in (self.directory / "warehouse").rglob("*.parquet"):
            if str(path) not in known:
                path.unlink()

    def target(self, options: LakeOptions) -> Prepare:
        return IcebergTarget(self.NAME, "tests", self.catalog, options)

    def _catalog(self) -> Catalog:
        return load_catalog("tests", **dict(self.catalog))

    def table(self) -> OpenedIceberg:
        return self._catalog().load_table(self.NAME)

    def rows(self, version: int | None = None) -> list[dict[str, Any]]:
        return self.table().scan(snapshot_id=version).to_arrow().to_pylist()

    def commits(self) -> int:
        return len(self.table().snapshots())

    def partitioned_by(self) -> list[str]:
        return [field.name for field in self.table().spec().fields]

    def append(self, row: dict[str, Any]) -> None:
        table = self.table()
        table.append(pa.Table.from_pylist([row], table.schema().as_arrow()))

    def replace(self) -> None:
        self._catalog().drop_table(self.NAME)
        self._catalog().create_table(self.NAME, ROWS)

    def go_back(self, commits: int) -> None:
        table = self.table()
        snapshot = table.current_snapshot()
        for _ in range(commits):
            assert snapshot is not None
            assert snapshot.parent_snapshot_id is not None
            snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id)
        assert snapshot is not None
        table.manage_snapshots().rollback_to_snapshot(snapshot.snapshot_id).commit()

    def expire(self) -> None:
        """All snapshots but the current one."""
        table = self.table()
        old = [each.snapshot_id for each in table.snapshots() if each != table.current_snapshot()]
        table.maintenance.expire_snapshots().by_ids(old).commit()


def _data_files(place: str) -> int:
    files, path = Place.at(place).open()
    found = files.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return sum(each.path.endswith(".parquet") for each in found)


class LakeCase:
    """A query that writes to one table."""

    def __init__(self, checkpoint: Checkpoint, lake: Lake, **options: Any) -> None:
        self.checkpoint = checkpoint
        self.options = LakeOptions(checkpoint=str(checkpoint.path), **options)
        self.prepare = lake.target(self.options)

    def write(self, ids: Sequence[int], *, columns: pa.Schema = ROWS, tasks: int = 2) -> list[WrittenTask]:
        """What tasks do."""
        layout = self.prepare(columns).layout
        return [write_task(iter([rows_of(ids[task::tasks], columns)]), layout) for task in range(tasks)]

    def commit(self, number: int, tasks: Sequence[WrittenTask], *, columns: pa.Schema = ROWS) -> bool:
        """What the driver does then."""
        batch = read_batch(str(self.checkpoint.path), number)
        return commit(tasks, batch, lambda: self.prepare(columns), self.options.writer_id)

    def run(self, number: int, start: int, end: int, *, columns: pa.Schema = ROWS, topic: str = "orders") -> bool:
        """A batch of the records `start` to before `end`."""
        self.checkpoint.plan(number, end, topic=topic)
        return self.commit(number, self.write(range(start, end), columns=columns), columns=columns)


class OneTaskAtATime:
    """Stands in for a SparkSession: its parallelize, map and collect, here."""

    def __init__(self, between: Callable[[], Any] = lambda: None) -> None:
        self._between = between
        self.sparkContext = self

    def parallelize(self, groups: list[Any], _slices: int) -> OneTaskAtATime:
        self._groups = groups
        return self

    def map(self, work: Callable[[Any], Any]) -> OneTaskAtATime:
        self._results = [work(group) for group in self._groups]
        return self

    def collect(self) -> list[Any]:
        self._between()
        return self._results
