"""Avro's types as Spark's and Arrow's.

Decides which column a schema becomes, and which schemas cannot become one. Must not know registries nor bytes.

| Avro | Spark |
|--|--|
| boolean, int, long, float, double, string, bytes | boolean, int, bigint, float, double, string, binary |
| enum, uuid; fixed | string; binary |
| record, array, map | struct, array, map<string, ...> |
| date; timestamp-millis and -micros; local-timestamp-... | date; timestamp; timestamp_ntz |
| decimal | decimal(precision, scale) |
| a union of null and one type | that type, which may be null |
| int and long; float and double in one union | bigint; double |

Times of day and durations come as the numbers or bytes that they are. Records that contain themselves, other unions and
decimals of more than 38 digits have no type in Spark: they are refused before a task starts. So is a schema of
more than `MOST_FIELDS`: records may name each other, so that a few lines stand for millions of columns.

Source: the Avro 1.11 specification; Spark's avro data source, whose table this is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812  # its usual name

from kavka.errors import ConfigError
from kavka.schema_registry.avro import AvroType

MOST_DIGITS: Final = 38
MOST_FIELDS: Final = 20_000
"""Of a column, in all of its structs together."""
KEPT: Final = frozenset(
    {
        "date",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "decimal",
        "uuid",
    }
)
"""Logical types that become types of Spark's; of others the type below counts."""


class ColumnType(NamedTuple):
    """One type as both sides call it."""

    spark: T.DataType
    arrow: pa.DataType


_PLAIN: Final = {
    "null": ColumnType(T.NullType(), pa.null()),
    "boolean": ColumnType(T.BooleanType(), pa.bool_()),
    "int": ColumnType(T.IntegerType(), pa.int32()),
    "long": ColumnType(T.LongType(), pa.int64()),
    "float": ColumnType(T.FloatType(), pa.float32()),
    "double": ColumnType(T.DoubleType(), pa.float64()),
    "string": ColumnType(T.StringType(), pa.string()),
    "enum": ColumnType(T.StringType(), pa.string()),
    "bytes": ColumnType(T.BinaryType(), pa.binary()),
    "fixed": ColumnType(T.BinaryType(), pa.binary()),
}
_LOGICAL: Final = {
    ("int", "date"): ColumnType(T.DateType(), pa.date32()),
    ("long", "timestamp-millis"): ColumnType(T.TimestampType(), pa.timestamp("us", tz="UTC")),
    ("long", "timestamp-micros"): ColumnType(T.TimestampType(), pa.timestamp("us", tz="UTC")),
    ("long", "local-timestamp-millis"): ColumnType(T.TimestampNTZType(), pa.timestamp("us")),
    ("long", "local-timestamp-micros"): ColumnType(T.TimestampNTZType(), pa.timestamp("us")),
    ("string", "uuid"): ColumnType(T.StringType(), pa.string()),
}


def column_type(avro: AvroType) -> ColumnType:
    """The type of the column. Raises ConfigError."""
    if (fields := _fields_in(avro, {})) > MOST_FIELDS:
        raise ConfigError(
            f"{avro.name or 'the schema'} has {fields:,} fields, and a column has {MOST_FIELDS:,} at most"
        )
    return _column_type(avro, "/", ())


def _fields_in(avro: AvroType, known: dict[int, int]) -> int:
    """How many fields a column of this type has; a record is looked at once, wherever it stands."""
    if id(avro) not in known:
        known[id(avro)] = 0  # In itself: that is told elsewhere.
        known[id(avro)] = len(avro.fields) + sum(_fields_in(each, known) for each in avro.parts)
    return known[id(avro)]


def _column_type(avro: AvroType, path: str, above: tuple[str, ...]) -> ColumnType:
    match avro.kind:
        case "record" | "error":
            if avro.name in above:
                raise ConfigError(f"{avro.name} at {path} contains itself, which no type of Spark's does")
            inner = (*above, avro.name)
            fields = [(each.name, _column_type(each.type, f"{path}{each.name}/", inner)) for each in avro.fields]
            return ColumnType(
                T.StructType([T.StructField(name, found.spark) for name, found in fields]),
                pa.struct([pa.field(name, found.arrow) for name, found in fields]),
            )
        case "array":
            assert avro.inner is not None
            item = _column_type(avro.inner, f"{path}items/", above)
            return ColumnType(T.ArrayType(item.spark), pa.list_(item.arrow))
        case "map":
            assert avro.inner is not None
            value = _column_type(avro.inner, f"{path}values/", above)
            return ColumnType(T.MapType(T.StringType(), value.spark), pa.map_(pa.string(), value.arrow))
        case "union":
            return _union(avro, path, above)
        case _:
            return _plain(avro, path)


def _plain(avro: AvroType, path: str) -> ColumnType:
    logical = avro.properties.get("logicalType")
    if logical == "decimal" and avro.kind in ("bytes", "fixed"):
        precision, scale = avro.properties.get("precision"), avro.properties.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
            return _PLAIN[avro.kind]
        if precision > MOST_DIGITS:
            raise ConfigError(f"the decimal at {path} has {precision} digits, and Spark's have {MOST_DIGITS} at most")
        return ColumnType(T.DecimalType(precision, scale), pa.decimal128(precision, scale))
    return _LOGICAL.get((avro.kind, str(logical)), _PLAIN[avro.kind])


def _union(avro: AvroType, path: str, above: tuple[str, ...]) -> ColumnType:
    branches = [each for each in avro.branches if each.kind != "null"]
    if not branches:
        return _PLAIN["null"]
    if len(branches) == 1:
        return _column_type(branches[0], path, above)
    kinds = {each.kind for each in branches if not each.properties}
    if len(branches) == 2 and kinds in ({"int", "long"}, {"float", "double"}):
        return _PLAIN["long" if "int" in kinds else "double"]
    names = ", ".join(each.name or each.kind for each in branches)
    raise ConfigError(f"the union of {names} at {path} has no type in Spark: null and one other type have")


def without_other_logical_types(schema: Any) -> Any:
    """A schema in JSON without the logical types that have none in Spark: their values come as they are."""
    if isinstance(schema, list):
        return [without_other_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: without_other_logical_types(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
        if name != "logicalType" or value in KEPT
    }
