"""What is Delta's own: its optimizer between batches, and tables with promises that files would break."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from kavka_spark.lakehouse.errors import SchemaRefused, TableRefused
from tests.kit.lake_case import ROWS, Checkpoint, DeltaLake, LakeCase


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    return DeltaLake(tmp_path)


def query_on(lake: DeltaLake) -> LakeCase:
    return LakeCase(Checkpoint(lake.directory / "checkpoint"), lake)


def test_its_optimizer_is_no_obstacle(lake: DeltaLake) -> None:
    query = query_on(lake)
    for number in range(3):
        query.run(number, number * 10, number * 10 + 10)
    assert DeltaTable(lake.path).optimize.compact()["numFilesRemoved"] == 6
    query.run(3, 30, 40)
    assert sorted(row["id"] for row in lake.rows()) == list(range(40))


def test_a_table_with_rules_that_files_would_break_is_refused(lake: DeltaLake) -> None:
    DeltaTable.create(lake.path, Schema.from_arrow(ROWS))
    DeltaTable(lake.path).alter.add_constraint({"positive": "id >= 0"})
    with pytest.raises(TableRefused, match=r"uses delta\.constraints\.positive"):
        query_on(lake).run(0, 0, 10)


def test_a_null_where_none_may_be_is_refused(lake: DeltaLake) -> None:
    fields = [Field("id", PrimitiveType("long"), nullable=False), Field("country", PrimitiveType("string"))]
    DeltaTable.create(lake.path, Schema(fields))
    query = query_on(lake)
    query.checkpoint.plan(0, 10)
    columns = pa.schema([("country", pa.string())])
    with pytest.raises(SchemaRefused, match=r"'id' of .* may not be null"):
        query.write(range(3), columns=columns)
