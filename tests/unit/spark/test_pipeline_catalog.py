"""Folders of tables that a killed driver left: which of them hold rows that count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException

from kavka_spark.pipelines.catalog import format_of_rows, restore
from kavka_spark.pipelines.spec import SpecError, parse_spec


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


class Refusing:
    """A session that takes no statement but one that makes a database."""

    def sql(self, statement: str) -> None:
        if not statement.startswith("CREATE DATABASE"):
            raise ParseException("[PARSE_SYNTAX_ERROR] Syntax error at or near 'LOCATION'. SQLSTATE: 42601")


@pytest.mark.parametrize("name", ["default.orders.sql", "orders.sql"], ids=["a cut statement", "no database"])
def test_a_damaged_file_of_the_catalog_is_named_with_both_ways_out(tmp_path: Path, name: str) -> None:
    spec = parse_spec(tmp_path / "pipeline.yml", {"name": "n", "storage": "s"})
    (spec.state / "catalog").mkdir(parents=True)
    (spec.state / "catalog" / name).write_text("CREATE TABLE spark_catalog.default.orders (\n  partition INT,")
    refusing: Any = Refusing()
    with pytest.raises(SpecError, match=rf"{name} does not hold the CREATE TABLE") as refused:
        restore(refusing, spec)
    assert "or remove it" in refused.value.next_step
