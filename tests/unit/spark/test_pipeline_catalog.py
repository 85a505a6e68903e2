"""Folders of tables that a killed driver left: which of them hold rows that count."""

from __future__ import annotations

from pathlib import Path

from kavka_spark.pipelines.catalog import format_of_rows


def test_rows_count_where_they_were_committed(tmp_path: Path) -> None:
    assert format_of_rows(tmp_path) == ""
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "part-00000-x.c000.snappy.parquet").touch()
    assert format_of_rows(tmp_path) == "parquet"
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (log / ".0.crc").touch()
    assert format_of_rows(tmp_path) == "", "what no micro-batch committed is no row"
    (log / "0").touch()
    assert format_of_rows(tmp_path) == "parquet"
