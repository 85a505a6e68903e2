"""Which rows fit into which table, and how the table may change for them: pure.

Decides by names and types. Must not know a table format.

| the rows have | the table has | |
|--|--|--|
| a column | it, with the same type | fits |
| a column of a smaller type | int for bigint, float for double, fewer digits of a decimal | fits: made wider |
| a column of a larger type | the smaller one | refused; mergeSchema makes the table's wider where its format can |
| a column | none | refused; with mergeSchema it is added, null in earlier rows |
| none | a column that may be null | fits: null |
| none | a column that may not be null | refused |
| any other type | | refused |
| a name that differs in case only | | refused: engines do not tell them apart |

Columns are never removed or renamed. Structs, arrays and maps must have the same fields, of types that fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import types

from kavka_spark.lakehouse.errors import SchemaRefused

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS: Final = (pa.float32(), pa.float64())


class Evolution(NamedTuple):
    """What has to change before the rows fit: columns that are added (they may be null), and others made wider."""

    added: tuple[pa.Field, ...] = ()
    widened: tuple[pa.Field, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.widened)


def evolve(table: pa.Schema, rows: pa.Schema, *, name: str, merge: bool, may_widen: bool) -> Evolution:
    """How `table` must change. `may_widen`: whether the format can make a column wider. Raises SchemaRefused."""
    check_names(rows.names, name)
    known = {each.name: each for each in table}
    by_case = {each.lower(): each for each in known}
    added, widened = [], []
    for row in rows:
        if row.name in known:
            if not fits(row.type, known[row.name].type):
                widened.append(_widened(known[row.name], row, name=name, may_widen=may_widen and merge))
        elif (other := by_case.get(row.name.lower())) is not None:
            raise SchemaRefused(
                f"the rows have a column {row.name!r}, and {name} has {other!r}: rename it with "
                f".withColumnRenamed({row.name!r}, {other!r})"
            )
        elif merge:
            added.append(row.with_nullable(True))
        else:
            raise SchemaRefused(
                f"{name} has no column {row.name!r} ({row.type}): set option mergeSchema to true to add it, or leave "
                f"it out with .drop({row.name!r})"
            )
    given = set(rows.names)
    for column in table:
        if column.name not in given and not column.nullable:
            raise SchemaRefused(f"column {column.name!r} of {name} may not be null, and the rows do not have it")
    return Evolution(tuple(added), tuple(widened))


def check_names(names: Iterable[str], table: str) -> None:
    """Raises SchemaRefused for names that engines do not tell apart."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) is not name:
            raise SchemaRefused(f"the rows for {table} have two columns {other!r} and {name!r}: rename one of them")


def _widened(column: pa.Field, row: pa.Field, *, name: str, may_widen: bool) -> pa.Field:
    if may_widen and fits(column.type, row.type) and not types.is_nested(row.type):
        return column.with_type(row.type)
    advice = (
        f'cast it, for example F.col({row.name!r}).try_cast("{spark_name(column.type)}"), or write to a new table'
        if not types.is_nested(row.type)
        else "give it the same fields, or write to a new table"
    )
    wider = (
        "; with option mergeSchema an Iceberg table makes it wider"
        if not may_widen and fits(column.type, row.type) and not types.is_nested(row.type)
        else ""
    )
    raise SchemaRefused(
        f"column {row.name!r} of {name} is {column.type}, and the rows have {row.type}: {advice}{wider}"
    )


def fits(row: pa.DataType, column: pa.DataType) -> bool:
    """Whether every value of one type is one of the other."""
    if row.equals(column):
        return True
    for ladder in (_INTEGERS, _FLOATS):
        if row in ladder and column in ladder:
            return ladder.index(row) <= ladder.index(column)
    if types.is_decimal(row) and types.is_decimal(column):
        return bool(row.scale == column.scale and row.precision <= column.precision)
    if types.is_struct(row) and types.is_struct(column):
        pairs = zip(row, column, strict=False)
        return len(row) == len(column) and all(a.name == b.name and fits(a.type, b.type) for a, b in pairs)
    if types.is_list(row) and types.is_list(column):
        return fits(row.value_type, column.value_type)
    if types.is_map(row) and types.is_map(column):
        return fits(row.key_type, column.key_type) and fits(row.item_type, column.item_type)
    return bool(_plain(row).equals(_plain(column)))


def _plain(kind: pa.DataType) -> pa.DataType:
    """One type for those that differ in memory only."""
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    return kind


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with the types that Spark's tasks have, and without metadata."""
    return pa.schema([pa.field(each.name, plain_type(each.type), each.nullable) for each in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """`_plain` at any depth."""
    if types.is_struct(kind):
        return pa.struct([pa.field(each.name, plain_type(each.type), each.nullable) for each in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(pa.field("element", plain_type(kind.value_type), kind.value_field.nullable))
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    return _plain(kind)


def spark_name(kind: pa.DataType) -> str:
    """What SQL calls it, for messages."""
    names = {"int64": "bigint", "int32": "int", "int16": "smallint", "int8": "tinyint", "date32[day]": "date"}
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return names.get(str(kind), str(kind))
