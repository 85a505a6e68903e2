"""A table's changes as a stream: whoever applies them has the table."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kavka.errors import ConfigError
from kavka_spark.lakehouse.compaction import compact
from kavka_spark.lakehouse.delta_format import DeltaFormat
from kavka_spark.lakehouse.errors import TableRefused
from kavka_spark.lakehouse.handles import TableHandle
from kavka_spark.lakehouse.lake_options import LakeOptions
from kavka_spark.lakehouse.table_changes import difference
from kavka_spark.lakehouse.table_stream import Json, StreamOptions, TableStreamReader, stream_options
from tests.kit.lake_case import Checkpoint, DeltaLake, IcebergLake, Lake, LakeCase, OneTaskAtATime
from tests.unit.spark.lakehouse.test_merging import Query


@pytest.fixture(params=[DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return request.param(tmp_path)


def query_on(lake: Lake) -> LakeCase:
    return LakeCase(Checkpoint(lake.directory / "checkpoint"), lake, partition_by=("country",))


def reader_of(lake: Lake, **options: Any) -> TableStreamReader:
    return TableStreamReader(lake.target(LakeOptions()).existing, StreamOptions(**options))


def read(reader: TableStreamReader, start: Json) -> tuple[Json, list[dict[str, Any]]]:
    """One micro-batch."""
    end = reader.latestOffset(start, ReadAllAvailable())
    if end == start:
        return end, []
    tasks = reader.partitions(start, end)
    return end, [row for task in tasks for chunk in reader.read(task) for row in chunk.to_pylist()]


def drain(reader: TableStreamReader, start: Json | None = None) -> tuple[Json, list[dict[str, Any]]]:
    at, found = start or reader.initialOffset(), []
    while True:
        end, rows = read(reader, at)
        if end == at:
            return at, found
        at, found = end, found + rows


def test_what_a_query_appended_comes_out_once_and_in_order(lake: Lake) -> None:
    query = query_on(lake)
    query.run(0, 0, 10)
    query.run(1, 10, 20)
    reader = reader_of(lake, most_versions=1)
    end, rows = drain(reader)
    assert sorted(row["id"] for row in rows) == list(range(20))
    assert {row["_change_type"] for row in rows} == {"insert"}
    assert max(row["id"] for row in rows[:10]) == 9
    assert {row["country"] for row in rows} == {"at", "de"}
    query.run(2, 20, 30)
    assert sorted(row["id"] for row in drain(reader, end)[1]) == list(range(20, 30))


def test_a_micro_batch_whose_end_was_rolled_back_is_refused_and_not_empty(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    query = query_on(lake)
    query.run(0, 0, 10)
    reader = reader_of(lake)
    start, _ = drain(reader)
    query.run(1, 10, 20)
    end = reader.latestOffset(start, ReadAllAvailable())
    lake.go_back(1)
    with pytest.raises(TableRefused, match="the table was rolled back"):
        reader.partitions(start, end)
    assert [task.added for task in reader.partitions(start, start)] == [()]


def test_a_table_whose_first_snapshots_have_expired_is_not_read_from_the_earliest(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    query_on(lake).run(0, 0, 10)
    lake.append({"id": 1000})
    lake.expire()
    with pytest.raises(TableRefused, match="does not tell its first versions any more"):
        drain(reader_of(lake))


def test_a_micro_batch_that_comes_again_has_the_same_rows_in_the_same_tasks(lake: Lake) -> None:
    query = query_on(lake)
    query.run(0, 0, 10)
    reader = reader_of(lake)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())

    def tasks(reader: TableStreamReader) -> list[list[dict[str, Any]]]:
        return [
            [row for chunk in reader.read(task) for row in chunk.to_pylist()] for task in reader.partitions(start, end)
        ]

    first = tasks(reader)
    query.run(1, 10, 20)
    assert tasks(reader_of(lake)) == first


def test_whoever_applies_the_changes_of_a_merged_table_has_the_table(lake: Lake) -> None:
    chance, query = random.Random(7), Query(lake)
    query.run([(key, "first") for key in range(12)])
    reader, copy = reader_of(lake), {}
    end = reader.initialOffset()
    for _ in range(4):
        end, rows = drain(reader, end)
        for row in rows:
            if row["_change_type"] in ("insert", "update_postimage"):
                copy[row["id"]] = row["name"]
            elif row["_change_type"] == "delete":
                del copy[row["id"]]
        assert copy == {row["id"]: row["name"] for row in lake.rows()}
        query.run([(chance.randrange(15), chance.choice([None, "a", "b", "c"])) for _ in range(8)])


def test_an_update_has_both_images_and_rows_that_were_only_copied_are_no_change(lake: Lake) -> None:
    query = Query(lake)
    query.run([(0, "zero"), (3, "three"), (6, "six")])
    reader = reader_of(lake)
    end, _ = drain(reader)
    query.run([(3, "third"), (6, None), (9, "nine")])
    changes = {(row["_change_type"], row["id"], row["name"]) for row in drain(reader, end)[1]}
    assert changes == {
        ("update_preimage", 3, "three"),
        ("update_postimage", 3, "third"),
        ("delete", 6, "six"),
        ("insert", 9, "nine"),
    }


def test_compaction_is_no_change(lake: Lake) -> None:
    query = query_on(lake)
    query.run(0, 0, 10)
    query.run(1, 10, 20)
    reader = reader_of(lake)
    end, _ = drain(reader)
    compact(OneTaskAtATime(), TableHandle(lake.target(LakeOptions())))
    end, rows = drain(reader, end)
    assert rows == []
    query.run(2, 20, 30)
    assert sorted(row["id"] for row in drain(reader, end)[1]) == list(range(20, 30))


def test_latest_begins_with_what_comes_then(lake: Lake) -> None:
    query = query_on(lake)
    query.run(0, 0, 10)
    reader = reader_of(lake, starting="latest")
    start = reader.initialOffset()
    query.run(1, 10, 20)
    assert sorted(row["id"] for row in drain(reader, start)[1]) == list(range(10, 20))


def test_a_version_begins_with_its_own_changes_and_must_be_there(lake: Lake) -> None:
    query = query_on(lake)
    query.run(0, 0, 10)
    query.run(1, 10, 20)
    last = TableHandle(lake.target(LakeOptions())).batches()[-1].version
    assert sorted(row["id"] for row in drain(reader_of(lake, starting=last))[1]) == list(range(10, 20))
    with pytest.raises(TableRefused, match="has no version 99"):
        reader_of(lake, starting=99).initialOffset()


def test_a_run_of_what_is_there_ends_where_it_was_when_it_began(lake: Lake) -> None:
    query = query_on(lake)
    query.run(0, 0, 10)
    reader = reader_of(lake)
    reader.prepareForTriggerAvailableNow()
    query.run(1, 10, 20)
    assert sorted(row["id"] for row in drain(reader)[1]) == list(range(10))


def test_a_table_that_was_replaced_is_refused(lake: Lake) -> None:
    query = query_on(lake)
    query.run(0, 0, 10)
    reader = reader_of(lake)
    end, _ = drain(reader)
    lake.replace()
    with pytest.raises(TableRefused, match=r"was replaced.*new checkpoint"):
        reader.latestOffset(end, ReadAllAvailable())


def test_a_file_that_was_vacuumed_before_it_was_read_is_told(lake: Lake) -> None:
    query = query_on(lake)
    query.run(0, 0, 10)
    reader = reader_of(lake)
    for path in lake.directory.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(TableRefused, match="VACUUM"):
        drain(reader)


def test_the_log_of_deltas_first_versions_may_be_gone(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path)
    query = query_on(lake)
    query.run(0, 0, 10)
    query.run(1, 10, 20)
    reader = reader_of(lake)
    from deltalake import DeltaTable

    DeltaTable(lake.path).create_checkpoint()
    Path(lake.path, "_delta_log", f"{0:020d}.json").unlink()
    with pytest.raises(TableRefused, match=r"does not tell its first versions any more; it has the versions 1 to 2"):
        drain(reader)


def test_a_checkpoint_of_another_source_is_refused(lake: Lake) -> None:
    query_on(lake).run(0, 0, 10)
    reader = reader_of(lake)
    with pytest.raises(TableRefused, match=r"another source.*checkpointLocation of its own"):
        reader.latestOffset({"orders": {"0": 5}}, ReadAllAvailable())
    with pytest.raises(TableRefused, match="another source"):
        reader.partitions({"orders": {"0": 5}}, {"orders": {"0": 7}})


def test_equal_rows_are_counted() -> None:
    a, b = {"x": 1, "y": [1.5, None]}, {"x": 2, "y": [float("nan")]}
    assert list(difference([a, a, b], [a, b, b], [])) == [("delete", a), ("insert", b)]


def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'startingVersion' is 'first', expected earliest, latest, or the version"):
        stream_options({"startingversion": "first"})
    with pytest.raises(ConfigError, match=r"no option 'startingversoin'; did you mean 'startingVersion'\?"):
        DeltaFormat({"path": str(tmp_path), "startingVersoin": "1"}).source()
