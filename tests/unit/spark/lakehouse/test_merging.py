"""Changes merged into a table, Delta and Iceberg: after each batch it has what a dictionary would have."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kavka_spark.errors import SinkError
from kavka_spark.lakehouse.batch import read_batch
from kavka_spark.lakehouse.errors import BatchRefused, SchemaRefused, TableRefused
from kavka_spark.lakehouse.lake_options import LakeOptions
from kavka_spark.lakehouse.lake_sink import WrittenTask, commit, write_task
from kavka_spark.lakehouse.layout import BUCKET_COLUMN
from kavka_spark.lakehouse.merging import CHANGE_COLUMN, DELETE, OFFSET_COLUMN, UPSERT, check_columns, last_changes
from kavka_spark.stable import TASK_BITS, TASK_COLUMN
from tests.kit.lake_case import Checkpoint, DeltaLake, IcebergLake, Lake

ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])
BUCKETS = 3
Change = tuple[int, str | None]
"""Key and new name; None deletes."""


@pytest.fixture(params=[DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return request.param(tmp_path)


def bucket_of(key: int) -> int:
    return key % BUCKETS


class Query:
    """A query of changes; Spark's part of it is played."""

    def __init__(self, lake: Lake, *, columns: pa.Schema = ROWS, **more: Any) -> None:
        self.columns = columns.append(pa.field(BUCKET_COLUMN, pa.int32()))
        self.checkpoint = Checkpoint(lake.directory / "checkpoint")
        self.options = LakeOptions(
            checkpoint=str(self.checkpoint.path), merge_keys=("id",), merge_buckets=BUCKETS, **more
        )
        self.prepare = lake.target(self.options)
        self.offset = 0
        self.number = -1

    def tasks(self, changes: Sequence[Change], *, buckets: int = BUCKETS, **more: Any) -> list[WrittenTask]:
        layout = self.prepare(self.columns).layout
        begun, self.offset = self.offset, self.offset + len(changes)
        made = []
        for bucket in range(BUCKETS):
            rows = [(at, key, name) for at, (key, name) in enumerate(changes, begun) if bucket_of(key) == bucket]
            chunk = {
                "id": [key for _, key, _ in rows],
                "name": [name for _, _, name in rows],
                CHANGE_COLUMN: [DELETE if name is None else UPSERT for _, _, name in rows],
                OFFSET_COLUMN: [at for at, _, _ in rows],
                TASK_COLUMN: [(buckets << TASK_BITS) + bucket for _ in rows],
                **{name: [value] * len(rows) for name, value in more.items()},
            }
            made.append(write_task(iter([pa.RecordBatch.from_pydict(chunk)]), layout))
        return made

    def commit(self, tasks: Sequence[WrittenTask]) -> bool:
        self.checkpoint.plan(self.number, self.offset)
        batch = read_batch(str(self.checkpoint.path), self.number)
        return commit(tasks, batch, lambda: self.prepare(self.columns), "kavka")

    def run(self, changes: Sequence[Change], **more: Any) -> bool:
        self.number += 1
        return self.commit(self.tasks(changes, **more))


def content(lake: Lake) -> dict[int, str]:
    rows = lake.rows()
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows), "a key has two rows"
    return found


def test_a_key_has_one_row_with_its_last_name_and_none_once_it_is_deleted(lake: Lake) -> None:
    chance, expected, query = random.Random(19), {}, Query(lake)
    for _ in range(6):
        changes = [
            (chance.randrange(30), None if chance.random() < 0.3 else f"name {chance.randrange(1000)}")
            for _ in range(20)
        ]
        query.run(changes)
        for key, name in changes:
            if name is None:
                expected.pop(key, None)
            else:
                expected[key] = name
        assert content(lake) == expected


def test_files_without_a_changed_key_stay(lake: Lake) -> None:
    query = Query(lake)
    query.run([(key, "first") for key in range(9)])
    tasks = query.tasks([(3, "second"), (100, None)])
    assert [task.bucket and len(task.bucket.removed) for task in tasks] == [1, 0, None]


def test_a_batch_that_comes_again_is_left_out(lake: Lake) -> None:
    query = Query(lake)
    query.run([(1, "first"), (2, "first")])
    again = query.tasks([])
    assert not query.commit(again)
    query.run([(1, None)])
    assert content(lake) == {2: "first"}


def test_a_driver_that_died_between_files_and_commit_merges_again(lake: Lake) -> None:
    query = Query(lake)
    query.run([(1, "first"), (2, "first")])
    query.tasks([(1, "second")])
    query.offset = 2
    query.run([(1, "second")])
    assert content(lake) == {1: "second", 2: "first"}


def test_a_bucket_that_changed_while_the_batch_was_written_is_refused(lake: Lake) -> None:
    query = Query(lake)
    query.run([(1, "first")])
    slow = query.tasks([(1, "second")])
    lake.append({"id": 4, "name": "of another", BUCKET_COLUMN: 1})
    query.number += 1
    with pytest.raises(TableRefused, match="its bucket 1 has other files now"):
        query.commit(slow)
    query.number -= 1
    query.offset = 1
    query.run([(1, "second")])
    assert content(lake) == {1: "second", 4: "of another"}


def test_a_bucket_whose_files_are_gone_while_it_is_read_is_told(lake: Lake) -> None:
    """Somebody compacted it, and a VACUUM that spares nothing took what was there before."""
    query = Query(lake)
    query.run([(1, "first")])
    planned = query.prepare(query.columns)
    planned.layout.place.remove(list(planned.files()))
    query.prepare = lambda _: planned
    with pytest.raises(TableRefused, match=r"a file of bucket 1 of .* is gone \(.*start the query again"):
        query.tasks([(1, "second")])


def test_earlier_changes_are_not_filled_in(lake: Lake) -> None:
    """An older change would replace a newer one."""
    query = Query(lake)
    query.run([(1, "a")])
    query.number += 1
    query.checkpoint.plan(query.number, query.offset, filled_in=(0, 1, 1))
    batch = read_batch(str(query.checkpoint.path), query.number)
    with pytest.raises(BatchRefused, match="an older change would replace a newer one"):
        commit(query.tasks([]), batch, lambda: query.prepare(query.columns), "kavka")


def test_columns_may_be_added_later(lake: Lake) -> None:
    query = Query(lake)
    query.run([(1, "first"), (2, "first")])
    wider = Query.__new__(Query)
    wider.__dict__ = {**query.__dict__}
    wider.options = LakeOptions(
        checkpoint=query.options.checkpoint, merge_keys=("id",), merge_buckets=BUCKETS, merge_schema=True
    )
    wider.prepare = lake.target(wider.options)
    wider.columns = ROWS.append(pa.field("age", pa.int32())).append(pa.field(BUCKET_COLUMN, pa.int32()))
    wider.run([(2, "second"), (5, "first")], age=7)
    assert {row["id"]: (row["name"], row["age"]) for row in lake.rows()} == {
        1: ("first", None),
        2: ("second", 7),
        5: ("first", 7),
    }


def test_another_number_of_buckets_is_refused(lake: Lake) -> None:
    query = Query(lake)
    with pytest.raises(TableRefused, match="use buckets=3"):
        query.run([(1, "first")], buckets=4)
    options = LakeOptions(checkpoint="/c", merge_keys=("id",), merge_buckets=5)
    with pytest.raises(TableRefused, match="set option mergeBuckets to 3"):
        lake.target(options)(query.columns)


def test_rows_are_not_appended_to_a_table_of_changes_nor_changes_merged_into_one_of_rows(lake: Lake) -> None:
    query = Query(lake)
    query.run([(1, "first")])
    with pytest.raises(TableRefused, match="merges changes by id: set option mergeKeys to 'id'"):
        lake.target(LakeOptions(checkpoint="/c"))(ROWS)


def test_changes_are_refused_by_a_table_of_rows(lake: Lake) -> None:
    lake.target(LakeOptions(checkpoint="/c"))(ROWS)
    with pytest.raises(TableRefused, match="was not made for changes"):
        Query(lake).run([(1, "first")])


def changes_of(**columns: Any) -> pa.Table:
    return pa.table({CHANGE_COLUMN: [UPSERT], OFFSET_COLUMN: [7], TASK_COLUMN: [0], **columns})


def test_a_change_without_its_key_ends_the_batch() -> None:
    with pytest.raises(SinkError, match=r"a change has no 'id'.*\(offset 7\).*REPLICA IDENTITY"):
        last_changes(changes_of(id=pa.array([None], pa.int64())), ["id"])


def test_a_change_of_another_kind_ends_the_batch() -> None:
    with pytest.raises(SinkError, match="has 'truncate', expected 'upsert' or 'delete'"):
        last_changes(changes_of(id=[1], **{CHANGE_COLUMN: ["truncate"]}), ["id"])


def test_keys_of_several_columns_count_together() -> None:
    table = pa.table(
        {
            "a": [1, 1, 1],
            "b": ["x", "y", "x"],
            CHANGE_COLUMN: [UPSERT] * 3,
            OFFSET_COLUMN: [1, 2, 3],
            TASK_COLUMN: [0] * 3,
        }
    )
    found = last_changes(table, ["a", "b"])
    assert sorted(zip(found["b"].to_pylist(), found[OFFSET_COLUMN].to_pylist(), strict=True)) == [("x", 3), ("y", 2)]


def test_rows_that_are_no_changes_are_told_what_makes_changes() -> None:
    with pytest.raises(SchemaRefused, match=r"no column 'kavka_task': make them with kavka_spark\.lakehouse\.changes"):
        check_columns(["id"], ["id"])
