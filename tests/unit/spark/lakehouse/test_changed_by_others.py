"""Tables whose columns or partitions somebody else changes, between two batches or within one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import StringType

from kavka_spark.lakehouse.compaction import compact
from kavka_spark.lakehouse.errors import TableRefused
from kavka_spark.lakehouse.handles import TableHandle, iceberg_table
from tests.kit.lake_case import Checkpoint, IcebergLake, LakeCase, OneTaskAtATime
from tests.unit.spark.lakehouse.test_merging import Query, content
from tests.unit.spark.lakehouse.test_table_stream import drain, reader_of


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path)


def query_on(lake: IcebergLake, **options: Any) -> LakeCase:
    return LakeCase(Checkpoint(lake.directory / "checkpoint"), lake, **options)


def handle_of(lake: IcebergLake) -> TableHandle:
    return iceberg_table(lake.NAME, "tests", **dict(lake.catalog))


def ids_of_changes(lake: IcebergLake) -> list[int]:
    """What a stream of the table's changes has, from its first version on."""
    _, rows = drain(reader_of(lake))
    assert {row["_change_type"] for row in rows} <= {"insert"}
    return sorted(row["id"] for row in rows)


def make_anew(lake: IcebergLake) -> None:
    """Another column of the same name and type."""
    with lake.table().update_schema() as columns:
        columns.delete_column("country")
    with lake.table().update_schema() as columns:
        columns.add_column("country", StringType())


def exchange_names(lake: IcebergLake) -> None:
    for old, new in (("id", "was id"), ("offset", "id"), ("was id", "offset")):
        with lake.table().update_schema() as columns:
            columns.rename_column(old, new)


@pytest.mark.parametrize("change", [make_anew, exchange_names])
def test_a_column_that_became_another_one_of_its_name_while_a_batch_was_written_is_not_emptied(
    lake: IcebergLake, change: Any
) -> None:
    query = query_on(lake)
    query.run(0, 0, 4)
    query.checkpoint.plan(1, 8)
    tasks = query.write(range(4, 8))
    change(lake)
    with pytest.raises(TableRefused, match=r"is another column of that name now.*start the query again"):
        query.commit(1, tasks)
    assert len(lake.rows()) == 4
    assert query.commit(1, query.write(range(4, 8)))
    assert {row["country"] for row in lake.rows() if row["id"] >= 4} == {"at", "de"}


def test_a_column_that_was_added_while_a_batch_was_written_is_null_in_it(lake: IcebergLake) -> None:
    query = query_on(lake)
    query.run(0, 0, 4)
    query.checkpoint.plan(1, 8)
    tasks = query.write(range(4, 8))
    with lake.table().update_schema() as columns:
        columns.add_column("note", StringType())
        columns.update_column("country", doc="where it went")
    assert query.commit(1, tasks)
    assert {row["note"] for row in lake.rows()} == {None}


@pytest.mark.parametrize("partition_by", [None, ("country",)])
def test_a_table_that_is_partitioned_otherwise_since_is_written_compacted_and_read_on(
    lake: IcebergLake, partition_by: tuple[str, ...] | None
) -> None:
    query = query_on(lake, partition_by=partition_by)
    query.run(0, 0, 4)
    query.run(1, 4, 8)
    with lake.table().update_spec() as spec:
        if partition_by is None:
            spec.add_identity("country")
        else:
            spec.remove_field("country")
    query = LakeCase(query.checkpoint, lake)
    query.run(2, 8, 12)
    query.run(3, 12, 16)
    assert ids_of_changes(lake) == list(range(16))
    compacted = compact(OneTaskAtATime(), handle_of(lake))
    assert compacted.removed > compacted.added
    assert sorted(row["id"] for row in lake.rows()) == list(range(16))
    assert ids_of_changes(lake) == list(range(16))


def test_a_commit_that_moves_rows_between_partitionings_is_the_difference_of_all_its_files(lake: IcebergLake) -> None:
    query = query_on(lake)
    query.run(0, 0, 4)
    with lake.table().update_spec() as spec:
        spec.add_identity("country")
    reader = reader_of(lake)
    end, _ = drain(reader)
    lake.table().delete("id == 0")  # The rest of its file is written anew, in the present partitions.
    _, rows = drain(reader, end)
    assert [(row["id"], row["_change_type"]) for row in rows] == [(0, "delete")]


@pytest.mark.parametrize("replaced", [True, False])
def test_a_table_of_changes_that_is_partitioned_otherwise_since_is_refused(lake: IcebergLake, replaced: bool) -> None:
    query = Query(lake)
    query.run([(key, "first") for key in range(8)])
    with lake.table().update_spec() as spec:
        spec.add_identity("name")
        if replaced:
            spec.remove_field("kavka_bucket")
    with pytest.raises(TableRefused, match=r"is partitioned by .*name.*, and changes are merged by kavka_bucket"):
        query.run([(3, "second")])
    assert content(lake)[3] == "first"


def test_a_table_of_changes_with_rows_that_are_in_no_bucket_is_refused(lake: IcebergLake) -> None:
    query = Query(lake)
    query.run([(key, "first") for key in range(8)])
    with lake.table().update_spec() as spec:
        spec.remove_field("kavka_bucket")
    lake.append({"id": 3, "name": "by somebody else", "kavka_bucket": 0})
    with lake.table().update_spec() as spec:
        spec.add_identity("kavka_bucket")
    with pytest.raises(TableRefused, match=r"a file that is in no kavka_bucket"):
        query.run([(3, "second")])
