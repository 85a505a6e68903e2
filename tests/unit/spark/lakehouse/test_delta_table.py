"""What is Delta's own: its optimizer between batches, and tables with promises that files would break."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from kavka_spark.lakehouse.compaction import compact
from kavka_spark.lakehouse.data_files import FileWriter
from kavka_spark.lakehouse.delta_format import DeltaTarget
from kavka_spark.lakehouse.delta_table import DeltaLakeTable
from kavka_spark.lakehouse.errors import SchemaRefused, TableRefused
from kavka_spark.lakehouse.handles import TableHandle
from kavka_spark.lakehouse.lake_options import LakeOptions
from kavka_spark.lakehouse.places import Place
from kavka_spark.lakehouse.stored_files import StoredFile
from tests.kit.lake_case import ROWS, Checkpoint, DeltaLake, LakeCase, OneTaskAtATime


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


def test_a_table_that_forgets_its_batches_is_refused(lake: DeltaLake) -> None:
    """A new checkpoint that began anew wrote every record a second time."""
    query = LakeCase(Checkpoint(lake.directory / "checkpoint"), lake)
    query.run(0, 0, 10)
    DeltaTable(lake.path).alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 days"})
    again = LakeCase(Checkpoint(lake.directory / "again", "query-2"), lake)
    with pytest.raises(TableRefused, match=r"setTransactionRetentionDuration = interval 1 days: it forgets"):
        again.run(0, 0, 10)
    assert len(lake.rows()) == 10


def test_a_null_where_none_may_be_is_refused(lake: DeltaLake) -> None:
    fields = [Field("id", PrimitiveType("long"), nullable=False), Field("country", PrimitiveType("string"))]
    DeltaTable.create(lake.path, Schema(fields))
    query = query_on(lake)
    query.checkpoint.plan(0, 10)
    columns = pa.schema([("country", pa.string())])
    with pytest.raises(SchemaRefused, match=r"'id' of .* may not be null"):
        query.write(range(3), columns=columns)


def test_files_whose_paths_the_log_has_encoded_are_taken_out_once_they_are_rewritten(lake: DeltaLake) -> None:
    for country in ("a/b", "c d", "ü=%", "at") * 2:
        write_deltalake(lake.path, pa.table({"id": [1], "country": [country]}), partition_by=["country"], mode="append")
    table = TableHandle(DeltaTarget(Place.at(str(lake.path)), LakeOptions()))
    before = sorted(lake.rows(), key=str)
    assert compact(OneTaskAtATime(), table) == (8, 4)
    assert sorted(lake.rows(), key=str) == before
    with StoredFile(next(iter(table.open().files())), table.open().layout, {}) as file:
        assert file.rows().num_rows == 2
    changed = {file.path for version in (1, 2, 3, 4) for file in table.open().files_of(version).added}
    assert all(Path(lake.path, path).exists() for path in changed)


def test_bounds_of_long_decimals_hide_no_rows(lake: DeltaLake) -> None:
    columns = pa.schema([("amount", pa.decimal128(25, 2)), ("part", pa.decimal128(20, 10))])
    table = DeltaLakeTable.prepare(Place.at(str(lake.path)), columns, LakeOptions(partition_by=("part",)))
    writer = FileWriter(table.layout, "part")
    amount = Decimal("12345678901234567890.12")
    writer.write(pa.table({"amount": [amount], "part": [Decimal(0)]}, columns))
    table.append(writer.close(), None, "")
    opened = DeltaTable(lake.path)
    found = opened.to_pyarrow_dataset().to_table(filter=pc.field("amount") == pa.scalar(amount, pa.decimal128(25, 2)))
    assert found.num_rows == 1
    assert pa.table(opened.get_add_actions())["partition"].to_pylist() == [{"part": Decimal(0)}]
    log = Path(lake.path, "_delta_log", f"{1:020d}.json").read_text()
    assert '"part":"0.0000000000"' in log


def test_long_texts_and_booleans_have_bounds_and_are_found(lake: DeltaLake) -> None:
    columns = pa.schema([("text", pa.string()), ("flag", pa.bool_()), ("id", pa.int64())])
    table = DeltaLakeTable.prepare(Place.at(str(lake.path)), columns, LakeOptions())
    writer = FileWriter(table.layout, "part")
    texts = ["é" * 300, "é" * 299 + "ü"]
    writer.write(pa.table({"text": texts, "flag": [True, True], "id": [1, 2]}, columns))
    table.append(writer.close(), None, "")
    found = DeltaTable(lake.path).to_pyarrow_dataset()
    for text in texts:
        assert found.to_table(filter=pc.field("text") == text).num_rows == 1
    assert found.to_table(filter=pc.field("flag")).num_rows == 2
    assert found.to_table(filter=~pc.field("flag")).num_rows == 0
