"""Which columns of a table become which part of a record.

Decides whether a schema fits, and says what does not fit and how to fix it. It must not know rows.

Columns, as those of Spark's "kafka" sink: value (needed), key: string or binary; topic: string, needed where the option
is not given; partition: int; headers: array<struct<key string, value binary>>; with includeTimestamp also timestamp;
with exactlyOnce also kavka_task, which `stable` adds. Others are left aside, so that what was read from a topic can be
written as it is.

Source: Spark's "Structured Streaming + Kafka Integration Guide", "Writing Data to Kafka".
"""

from __future__ import annotations

import difflib
from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kavka_spark.errors import SinkError
from kavka_spark.sink_options import SinkOptions
from kavka_spark.stable import TASK_COLUMN

_HEADERS_HINT: Final = "expr(\"array(named_struct('key', 'name', 'value', CAST('content' AS BINARY)))\")"


class SinkColumns(NamedTuple):
    """The index of the column for each part of a record; -1 if there is none."""

    value: int
    key: int
    topic: int
    partition: int
    headers: int
    timestamp: int
    task: int = -1
    """Needed for exactly once."""


def sink_columns(schema: StructType, options: SinkOptions) -> SinkColumns:
    """The columns of the parts. Raises `SinkError` if the schema does not fit."""
    names = schema.fieldNames()
    _check_value(names)
    for name in ("value", "key"):
        _check_bytes(schema, name)
    if options.topic is None and "topic" not in names:
        raise SinkError("the rows have no topic: set option 'topic', or add a column 'topic'" + _near("topic", names))
    topic = -1
    if options.topic is None:
        topic = _checked(schema, "topic", (StringType,), "string", "CAST(topic AS STRING) AS topic")
    timestamp = -1
    if options.include_timestamp:
        if "timestamp" not in names:
            raise SinkError(f"includeTimestamp is true, but there is no column 'timestamp'{_near('timestamp', names)}")
        timestamp = _checked(
            schema,
            "timestamp",
            (TimestampType, TimestampNTZType),
            "timestamp",
            "CAST(timestamp AS TIMESTAMP) AS timestamp",
        )
    return SinkColumns(
        value=names.index("value"),
        key=_index(names, "key"),
        topic=topic,
        partition=_checked(schema, "partition", (IntegerType,), "int", "CAST(partition AS INT) AS partition"),
        headers=_check_headers(schema),
        timestamp=timestamp,
        task=-1 if options.exactly_once is None else _check_task(schema),
    )


def _check_value(names: list[str]) -> None:
    if "value" not in names:
        raise SinkError(
            f"there is no column 'value'; the columns are {', '.join(names) or 'none'}{_near('value', names)}. Make "
            'one, for example with selectExpr("to_json(struct(*)) AS value")'
        )
    for name in ("value", "key", "topic", "partition", "headers", "timestamp", TASK_COLUMN):
        if names.count(name) > 1:
            raise SinkError(f"there are {names.count(name)} columns {name!r}: drop or rename all but one")


def _check_bytes(schema: StructType, name: str) -> None:
    index = _index(schema.fieldNames(), name)
    if index < 0:
        return
    found = schema[index].dataType
    if isinstance(found, StringType | BinaryType):
        return
    is_nested = isinstance(found, StructType | ArrayType) or found.typeName() == "map"
    advice = f"to_json({name}) AS {name}" if is_nested else f"CAST({name} AS STRING) AS {name}"
    raise SinkError(_wrong(name, found, "string or binary", advice))


def _checked(schema: StructType, name: str, types: tuple[type[DataType], ...], expected: str, advice: str) -> int:
    """The column's index, or -1 if there is none. Raises if it has another type."""
    index = _index(schema.fieldNames(), name)
    if index >= 0 and not isinstance(schema[index].dataType, types):
        raise SinkError(_wrong(name, schema[index].dataType, expected, advice))
    return index


def _check_headers(schema: StructType) -> int:
    index = _index(schema.fieldNames(), "headers")
    if index < 0:
        return -1
    found = schema[index].dataType
    element = found.elementType if isinstance(found, ArrayType) else None
    if (
        isinstance(element, StructType)
        and [name.lower() for name in element.fieldNames()] == ["key", "value"]
        and isinstance(element[0].dataType, StringType)
        and isinstance(element[1].dataType, BinaryType)
    ):
        return index
    raise SinkError(
        f"column 'headers' is {found.simpleString()}, expected array<struct<key:string,value:binary>>: build it with "
        f"{_HEADERS_HINT}, or drop it"
    )


def _check_task(schema: StructType) -> int:
    index = _index(schema.fieldNames(), TASK_COLUMN)
    if index >= 0 and isinstance(schema[index].dataType, LongType):
        return index
    raise SinkError(
        "exactlyOnce needs the same rows in the same tasks when a micro-batch is repeated, on however many cores: "
        "write stable(df, 4) in place of df, as the last step, with `from kavka_spark import stable`. 4 is the "
        f"number of tasks, which should not depend on the machine; it adds the column {TASK_COLUMN!r}, "
        + ("which is not there" if index < 0 else f"which is {schema[index].dataType.simpleString()} here")
    )


def _index(names: list[str], name: str) -> int:
    return names.index(name) if name in names else -1


def _wrong(name: str, found: DataType, expected: str, advice: str) -> str:
    return (
        f'column {name!r} is {found.simpleString()}, expected {expected}: convert it with selectExpr("{advice}", ...)'
    )


def _near(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, [found.lower() for found in names], n=1, cutoff=0.7)
    if not near:
        return ""
    meant = next(found for found in names if found.lower() == near[0])
    return f"; did you mean {meant!r}?"
