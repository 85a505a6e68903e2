"""Rows as files, and what Delta's log says of them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kavka_spark.lakehouse import data_files
from kavka_spark.lakehouse.data_files import FileWriter
from kavka_spark.lakehouse.delta_log_actions import partition_text, statistics
from kavka_spark.lakehouse.errors import SchemaRefused
from kavka_spark.lakehouse.layout import Layout
from kavka_spark.lakehouse.places import Place

COLUMNS = pa.schema([("id", pa.int64()), ("country", pa.string())])


def layout(path: Path, columns: pa.Schema = COLUMNS, **more: Any) -> Layout:
    return Layout(place=Place.at(str(path)), table_id="t", columns=columns, **more)


def test_each_partition_has_files_of_its_own(tmp_path: Path) -> None:
    writer = FileWriter(layout(tmp_path, partition_by=("country",), left_out=frozenset(["country"])), "part")
    for start in (0, 10):
        ids = list(range(start, start + 10))
        writer.write(pa.RecordBatch.from_pydict({"id": ids, "country": [["at", "x/y", None][i % 3] for i in ids]}))
    files = writer.close()
    assert {file.partition for file in files} == {("at",), ("x/y",), (None,)}
    assert sum(file.rows for file in files) == 20
    for file in files:
        assert (tmp_path / file.path).stat().st_size == file.size_bytes
        assert pq.read_table(tmp_path / file.path, partitioning=None).column_names == ["id"]


def test_few_files_are_open_at_a_time_and_full_ones_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "MOST_OPEN_FILES", 2)
    writer = FileWriter(layout(tmp_path, partition_by=("country",)), "part")
    for _ in range(2):
        writer.write(pa.RecordBatch.from_pydict({"id": [1, 2, 3], "country": ["a", "b", "c"]}))
        assert len(writer._open) == 2
    assert sum(file.rows for file in writer.close()) == 6
    small = FileWriter(layout(tmp_path / "small", file_bytes=100), "part")
    for _ in range(3):
        small.write(pa.RecordBatch.from_pydict({"id": list(range(100)), "country": ["x" * 9] * 100}))
    assert len(small.close()) == 3


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    writer = FileWriter(layout(tmp_path), "part")
    writer.write(pa.RecordBatch.from_pydict({"id": [1], "country": ["a"]}))
    writer.discard()
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_value_that_does_not_fit_names_its_column(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int32()), pa.field("country", pa.string(), nullable=False)])
    with pytest.raises(SchemaRefused, match="column 'id' does not fit into int32"):
        FileWriter(layout(tmp_path, columns), "p").write(pa.RecordBatch.from_pydict({"id": [1 << 40], "country": [""]}))
    with pytest.raises(SchemaRefused, match="column 'country' may not be null"):
        FileWriter(layout(tmp_path, columns), "p").write(pa.RecordBatch.from_pydict({"id": [1], "country": [None]}))


def test_statistics_bound_every_value(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": pa.array([3, None, 1], pa.int64()),
            "text": ["b", "a", "x" * 1000],
            "when": pa.array([datetime(2026, 1, 1, 0, 0, 0, 1500, UTC)] * 3, pa.timestamp("us", tz="UTC")),
            "price": pa.array([Decimal("1.25"), Decimal("2.00"), None], pa.decimal128(9, 2)),
            "none": pa.array([None] * 3, pa.int64()),
            "day": pa.array([date(2026, 1, 2)] * 3),
        }
    )
    pq.write_table(rows, tmp_path / "f")
    found = json.loads(statistics(pq.read_metadata(tmp_path / "f"), rows.schema))
    assert found["numRecords"] == 3
    assert found["nullCount"] == {"id": 1, "text": 0, "when": 0, "price": 1, "none": 3, "day": 0}
    least = {"id": 1, "text": "a", "when": "2026-01-01T00:00:00.001Z", "price": 1.25, "day": "2026-01-02"}
    most = {"id": 3, "text": "x" * 256 + "\U0010ffff", "when": "2026-01-01T00:00:00.002Z", "price": 2.0}
    assert found["minValues"] == least
    assert found["maxValues"] == most | {"day": "2026-01-02"}


def test_values_of_partitions_are_texts_as_deltas_protocol_has_them() -> None:
    assert partition_text(None) is None
    assert partition_text(True) == "true"
    assert partition_text(7) == "7"
    assert partition_text(date(2026, 1, 2)) == "2026-01-02"
    assert partition_text(datetime(2026, 1, 2, 3, 4, 5, 6, UTC)) == "2026-01-02 03:04:05.000006"
    assert partition_text(Decimal("1.50")) == "1.50"
    assert partition_text(Decimal("0E-10")) == "0.0000000000"


@pytest.mark.parametrize(
    ("given", "address"),
    [("/a/b/", "/a/b"), ("file:/a/b", "/a/b"), ("file:///a%20b", "/a b"), ("s3://bucket/t/", "s3://bucket/t")],
)
def test_places_are_absolute(given: str, address: str) -> None:
    assert Place.at(given).address == address
