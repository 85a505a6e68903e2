"""Which rows fit into which table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kavka_spark.lakehouse.errors import SchemaRefused
from kavka_spark.lakehouse.evolution import Evolution, evolve, fits

TABLE = pa.schema([("id", pa.int64()), ("price", pa.decimal128(10, 2)), ("when", pa.timestamp("us", tz="UTC"))])


def change(rows: pa.Schema, *, table: pa.Schema = TABLE, merge: bool = False, may_widen: bool = False) -> Evolution:
    return evolve(table, rows, name="orders", merge=merge, may_widen=may_widen)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (pa.int8(), pa.int64()),
        (pa.int64(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(10, 2)),
        (pa.large_string(), pa.string()),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
        (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64())])),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_a_smaller_type_fits(row: pa.DataType, column: pa.DataType) -> None:
    assert fits(row, column)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (pa.int64(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.string(), pa.int64()),
        (pa.decimal128(10, 3), pa.decimal128(10, 2)),
        (pa.decimal128(12, 2), pa.decimal128(10, 2)),
        (pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
        (pa.struct([("a", pa.int64()), ("b", pa.int64())]), pa.struct([("a", pa.int64())])),
        (pa.struct([("b", pa.int64())]), pa.struct([("a", pa.int64())])),
    ],
)
def test_another_type_does_not(row: pa.DataType, column: pa.DataType) -> None:
    assert not fits(row, column)


def test_rows_with_fewer_columns_and_smaller_types_change_nothing() -> None:
    assert not change(pa.schema([("id", pa.int32())]))


def test_a_new_column_is_refused_with_both_ways_out() -> None:
    with pytest.raises(SchemaRefused, match=r"mergeSchema to true to add it, or leave it out with \.drop\('note'\)"):
        change(pa.schema([("id", pa.int64()), ("note", pa.string())]))


def test_a_new_column_may_be_null_whatever_the_rows_say() -> None:
    found = change(pa.schema([("id", pa.int64()), pa.field("note", pa.string(), nullable=False)]), merge=True)
    assert found.added == (pa.field("note", pa.string()),)


def test_a_larger_type_is_refused_with_a_cast_that_fits() -> None:
    table = pa.schema([("id", pa.int32())])
    with pytest.raises(SchemaRefused, match=r'F\.col\(\'id\'\)\.try_cast\("int"\)'):
        change(pa.schema([("id", pa.int64())]), table=table, merge=True)
    with pytest.raises(SchemaRefused, match="mergeSchema"):
        change(pa.schema([("id", pa.int64())]), table=table, may_widen=True)


def test_where_the_format_can_a_column_is_made_wider() -> None:
    table = pa.schema([("id", pa.int32())])
    found = change(pa.schema([("id", pa.int64())]), table=table, merge=True, may_widen=True)
    assert found.widened == (pa.field("id", pa.int64()),)


def test_another_type_is_never_taken() -> None:
    for may_widen in (True, False):
        with pytest.raises(SchemaRefused, match="'id' of orders is int64, and the rows have string"):
            change(pa.schema([("id", pa.string())]), merge=True, may_widen=may_widen)


def test_names_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(SchemaRefused, match=r"\.withColumnRenamed\('ID', 'id'\)"):
        change(pa.schema([("ID", pa.int64())]), merge=True)
    with pytest.raises(SchemaRefused, match="two columns 'id' and 'Id'"):
        change(pa.schema([("id", pa.int64()), ("Id", pa.int64())]), merge=True)


def test_a_column_that_may_not_be_null_has_to_be_there() -> None:
    table = TABLE.append(pa.field("key", pa.string(), nullable=False))
    with pytest.raises(SchemaRefused, match="'key' of orders may not be null, and the rows do not have it"):
        change(pa.schema([("id", pa.int64())]), table=table)
