"""What a table tells its users, and its small files put together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kavka.model import TopicPartition
from kavka_spark.lakehouse import compaction
from kavka_spark.lakehouse.compaction import Compacted, compact, plan
from kavka_spark.lakehouse.errors import TableRefused
from kavka_spark.lakehouse.handles import CommittedBatch, OffsetNotHeld, TableHandle, as_of
from kavka_spark.lakehouse.lake_options import LakeOptions
from kavka_spark.lakehouse.layout import Layout
from kavka_spark.lakehouse.places import Place
from kavka_spark.lakehouse.table import TableFile
from tests.kit.lake_case import ROWS, Checkpoint, DeltaLake, IcebergLake, Lake, LakeCase, OneTaskAtATime


@pytest.fixture(params=[DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return request.param(tmp_path)


@pytest.fixture
def query(lake: Lake) -> LakeCase:
    return LakeCase(Checkpoint(lake.directory / "checkpoint"), lake, partition_by=("country",))


@pytest.fixture
def handle(lake: Lake) -> TableHandle:
    return TableHandle(lake.target(LakeOptions()))


def test_a_table_tells_its_batches_and_where_a_new_query_goes_on(query: LakeCase, handle: TableHandle) -> None:
    for number in range(3):
        query.run(number, number * 10, number * 10 + 10)
    batches = handle.batches()
    assert [batch.number for batch in batches] == [0, 1, 2]
    assert batches[1].starts == {TopicPartition("orders", 0): 10}
    assert json.loads(handle.starting_offsets()) == {"orders": {"0": 30}}
    assert handle.starting_offsets("another") == "{}"


def test_as_of_an_offset_is_the_version_that_brought_it(lake: Lake, query: LakeCase, handle: TableHandle) -> None:
    for number in range(3):
        query.run(number, number * 10, number * 10 + 10)
    found = handle.as_of("orders", 0, 14)
    assert found.number == 1
    assert sorted(row["id"] for row in lake.rows(found.version)) == list(range(20))
    with pytest.raises(OffsetNotHeld, match="up to before offset 30, and not 30"):
        handle.as_of("orders", 0, 30)
    with pytest.raises(OffsetNotHeld, match="no batch with records of orders-7"):
        handle.as_of("orders", 7, 0)


def batch(version: int, start: int, end: int, topic_id: str = "a") -> CommittedBatch:
    name = TopicPartition("t", 0)
    return CommittedBatch(version, "kavka", "q", version, {name: start}, {name: end}, {"t": topic_id})


def test_an_offset_from_before_what_the_log_still_tells_is_refused() -> None:
    with pytest.raises(OffsetNotHeld, match="at offset 5 came before version 7"):
        as_of([batch(7, 10, 20)], TopicPartition("t", 0), 5)


def test_of_a_topic_that_was_made_anew_the_present_one_counts() -> None:
    batches = [batch(1, 0, 50), batch(2, 0, 10, "b"), batch(3, 10, 20, "b")]
    assert as_of(batches, TopicPartition("t", 0), 12).version == 3
    with pytest.raises(OffsetNotHeld, match="before offset 20"):
        as_of(batches, TopicPartition("t", 0), 30)


def test_a_table_that_is_not_there_is_told(handle: TableHandle) -> None:
    with pytest.raises(TableRefused, match=r"no (Delta|Iceberg) table"):
        handle.batches()


def test_small_files_become_few_and_the_query_goes_on(lake: Lake, query: LakeCase, handle: TableHandle) -> None:
    for number in range(3):
        query.run(number, number * 10, number * 10 + 10)
    before = lake.rows()
    assert compact(OneTaskAtATime(), handle) == Compacted(6, 2)
    assert sorted(lake.rows(), key=str) == sorted(before, key=str)
    assert {len(paths) for paths in _paths_by_partition(handle).values()} == {1}
    assert query.run(3, 30, 40)
    assert sorted(row["id"] for row in lake.rows()) == list(range(40))
    assert handle.as_of("orders", 0, 35).number == 3


def _paths_by_partition(handle: TableHandle) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for path, file in handle.open().files().items():
        found.setdefault(file.partition, []).append(path)
    return found


def test_a_batch_that_is_committed_meanwhile_stays(lake: Lake, query: LakeCase, handle: TableHandle) -> None:
    query.run(0, 0, 10)
    query.run(1, 10, 20)
    assert compact(OneTaskAtATime(between=lambda: query.run(2, 20, 30)), handle) == Compacted(4, 2)
    assert sorted(row["id"] for row in lake.rows()) == list(range(30))


def test_files_that_somebody_else_took_out_meanwhile_leave_the_table_as_it_was(
    lake: Lake, query: LakeCase, handle: TableHandle
) -> None:
    query.run(0, 0, 10)
    query.run(1, 10, 20)
    with pytest.raises(TableRefused, match="was changed while its files were rewritten"):
        compact(OneTaskAtATime(between=lambda: compact(OneTaskAtATime(), handle)), handle)
    assert sorted(row["id"] for row in lake.rows()) == list(range(20))


def test_only_small_files_of_one_partition_go_together_up_to_a_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(
        place=Place.at("/t"), table_id="t", columns=ROWS, partition_by=("country",), file_bytes=100,
        left_out=frozenset({"country"}),
    )  # fmt: skip
    sizes = {"a": (40, "at"), "b": (50, "at"), "c": (30, "at"), "d": (90, "at"), "e": (10, "de"), "f": (99, "at")}
    files = {path: TableFile(size, (("country", country),)) for path, (size, country) in sizes.items()}
    assert plan(files, layout, 95) == [compaction.Group(("c", "a"), {"country": "at"})]


def test_batches_that_were_taken_back_are_not_told_also_after_the_next_one(
    lake: Lake, query: LakeCase, handle: TableHandle
) -> None:
    query.run(0, 0, 10)
    query.run(1, 10, 20)
    lake.go_back(1)
    again = LakeCase(Checkpoint(lake.directory / "again", "query-2", began=10), lake)
    again.run(0, 10, 15)
    again.run(1, 15, 20)
    lake.go_back(1)
    assert [(batch.query, batch.number) for batch in handle.batches()] == [("query-1", 0), ("query-2", 0)]
    assert json.loads(handle.starting_offsets()) == {"orders": {"0": 15}}
