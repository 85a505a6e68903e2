"""Queries that begin together both go on; a disk that is full is told in a sentence, and each row is there once."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kavka_spark.lakehouse import delta_table, iceberg_table
from kavka_spark.lakehouse.errors import LakehouseError, StoreFailed
from tests.kit.lake_case import ROWS, Checkpoint, DeltaLake, IcebergLake, Lake, LakeCase

WITH_NOTE = ROWS.append(pa.field("note", pa.string()))
SMALL = 300
"""Bytes: less than any file of data, log entry or manifest."""


@pytest.fixture(params=[DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return request.param(tmp_path)


def new_case(lake: Lake, query: str = "query-1", **more: Any) -> LakeCase:
    return LakeCase(Checkpoint(lake.directory / query, query), lake, **more)


def ids_in(lake: Lake) -> list[int]:
    return sorted(row["id"] for row in lake.rows())


@contextmanager
def no_file_beyond(size_bytes: int) -> Iterator[None]:
    """As on a full disk: a write fails, with EFBIG in place of ENOSPC."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("columns", [ROWS, WITH_NOTE], ids=["made", "changed"])
def test_two_queries_that_make_or_change_a_table_at_once_both_go_on(
    lake: Lake, columns: pa.Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one has looked before the first one makes the table, or adds the column."""
    code = delta_table if isinstance(lake, DeltaLake) else iceberg_table
    first, second = (new_case(lake, query, merge_schema=True) for query in ("query-1", "query-2"))
    if columns is WITH_NOTE:
        assert first.run(0, 0, 10, topic="first")
    kept = code._open
    overtaken = []

    def slowly(*given: Any) -> Any:
        found = kept(*given)
        if not overtaken:
            overtaken.append(True)
            first.prepare(columns)
        return found

    monkeypatch.setattr(code, "_open", slowly)
    assert second.run(0, 100, 110, columns=columns, topic="second")
    assert overtaken
    assert lake.rows()[0].keys() == set(columns.names)
    assert ids_in(lake) == [*(range(10) if columns is WITH_NOTE else ()), *range(100, 110)]


def test_a_full_disk_while_the_table_is_made_is_told_and_it_is_made_when_there_is_room(lake: Lake) -> None:
    query = new_case(lake)
    # The catalog's own file is the first that Iceberg writes.
    told = "I/O error" if isinstance(lake, IcebergLake) else "no Delta table can be made .*[Ff]ile too large"
    with no_file_beyond(SMALL), pytest.raises(LakehouseError, match=told):
        query.prepare(ROWS)
    assert query.run(0, 0, 10)
    assert ids_in(lake) == list(range(10))


def test_a_full_disk_while_a_task_writes_is_told_and_leaves_no_file(lake: Lake) -> None:
    query = new_case(lake)
    query.run(0, 0, 10)
    before = lake.data_files()
    query.checkpoint.plan(1, 20)
    with no_file_beyond(SMALL), pytest.raises(StoreFailed, match=r"a task cannot write.*[Ff]ile too large"):
        query.write(range(10, 20))
    assert lake.data_files() == before
    assert query.run(1, 10, 20)
    assert ids_in(lake) == list(range(20))


def test_a_full_disk_at_the_commit_is_told_and_each_row_is_there_once_when_there_is_room(lake: Lake) -> None:
    query = new_case(lake)
    query.run(0, 0, 10)
    query.checkpoint.plan(1, 20)
    tasks = query.write(range(10, 20))
    with no_file_beyond(SMALL), pytest.raises(StoreFailed, match=r"the commit to .* failed.*[Ff]ile too large") as told:
        query.commit(1, tasks)
    assert "\x1b" not in str(told.value)
    assert ids_in(lake) == list(range(10))
    assert query.run(1, 10, 20)
    assert ids_in(lake) == list(range(20))


def test_a_full_disk_while_a_column_is_added_is_told(lake: Lake) -> None:
    query = new_case(lake, merge_schema=True)
    query.run(0, 0, 10)
    with no_file_beyond(SMALL), pytest.raises(StoreFailed, match=r"columns .*: .*[Ff]ile too large"):
        query.prepare(WITH_NOTE)
    assert query.run(1, 10, 20, columns=WITH_NOTE)
    assert ids_in(lake) == list(range(20))
