"""Changes of rows, out of Debezium's envelope, for the tables' sinks.

    from kavka_spark.lakehouse.changes import debezium

    changes = debezium(records, keys=["id"], schema="id BIGINT, name STRING", buckets=8)
    changes.writeStream.format("kavka-delta").option("mergeKeys", "id") ...

Decides what a record of a change means. Must not know tables.

| record | becomes |
|--|--|
| op c (create), r (read in a snapshot), u (update) | an upsert of `after` |
| op u whose key differs in `before` and `after` | a delete of the key in `before`, and an upsert of `after` |
| op d (delete) | a delete of the key in `before`, or in the record's key where `before` is missing |
| no value (tombstone), op m (a message of the log) | nothing |
| op t (truncate), anything else | the query ends: a table is never emptied silently, and no change is left out |

Changes of one key are in one partition, in the order of the database. So the highest offset is the last one.

Source: Debezium's documentation, "Data change events".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql import types as T  # noqa: N812  # its usual name

from kavka.errors import ConfigError
from kavka_spark.lakehouse.layout import DEFAULT_BUCKETS
from kavka_spark.lakehouse.merging import CHANGE_COLUMN, DELETE, OFFSET_COLUMN, UPSERT
from kavka_spark.stable import stable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CAN_BE_KEYS: Final = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.StringType,
    T.VarcharType,
    T.CharType,
    T.DateType,
    T.BooleanType,
    T.DecimalType,
)
"""Types whose text is the same in every session and in a wider type: the text decides about the bucket."""
_PARSED: Final = "__kavka_change"
_MISFIT: Final = "__kavka_misfit"


def debezium(
    records: DataFrame, *, keys: Sequence[str], schema: str | None = None, buckets: int = DEFAULT_BUCKETS
) -> DataFrame:
    """The changes that `records` hold: columns of the rows, and what the sink needs to merge them by `keys`.

    records: with the columns value, topic, partition and offset, and key where deletes need it. Their values are
    Debezium's JSON, with or without its schema beside the payload; `schema` says which columns rows have ("id BIGINT,
    name STRING"). Without `schema` the column value is a struct with before, after and op, as `from_registry` makes it.

    buckets: how many tasks merge, and how many parts the table has. It cannot change later.

    Raises ConfigError for columns that are missing, or that cannot be keys.
    """
    missing = [name for name in ("value", "topic", "partition", "offset") if name not in records.columns]
    if missing:
        raise ConfigError(f"debezium(records) needs the column {missing[0]!r}; there are {', '.join(records.columns)}")
    parsed = records.withColumn(_PARSED, _parsed(records, schema))
    row = parsed.select(F.col(f"{_PARSED}.after").alias("after")).schema["after"].dataType
    if not isinstance(row, T.StructType):
        raise ConfigError("the column 'value' has no struct 'after': give schema=..., or a column of from_registry")
    _check_keys(row, keys)
    change, operation = F.col(_PARSED), F.col(f"{_PARSED}.op")
    where = F.concat(F.col("topic"), F.lit("-"), F.col("partition"), F.lit(" at offset "), F.col("offset"))
    told = F.when(operation.isin("c", "r", "u") & change["after"].isNotNull(), F.lit(UPSERT))
    told = told.when(operation == "d", F.lit(DELETE)).otherwise(
        F.raise_error(_problem(operation, where)).cast("string")
    )
    wanted = F.col("value").isNotNull() & (operation.isNull() | (operation != "m"))
    key = _key(records, row, keys)
    columns, before, after = [], [], []
    for field in row.fields:
        deleted, written = change["before"][field.name], change["after"][field.name]
        before.append(deleted.alias(field.name))
        after.append(written.alias(field.name))
        if field.name in keys and key is not None:
            deleted = F.coalesce(deleted, key[field.name])
        columns.append(F.when(operation == "d", deleted).otherwise(written).alias(field.name))
    both = F.array(
        F.struct(*before, F.lit(DELETE).alias(CHANGE_COLUMN)), F.struct(*after, F.lit(UPSERT).alias(CHANGE_COLUMN))
    )
    one = F.array(F.struct(*columns, told.alias(CHANGE_COLUMN)))
    made = F.explode(F.when((operation == "u") & _is_moved(change, keys), both).otherwise(one)).alias(_PARSED)
    rows = parsed.where(wanted).select(made, F.col("offset").alias(OFFSET_COLUMN))
    rows = rows.select(f"{_PARSED}.*", OFFSET_COLUMN)
    return stable(rows, buckets, *(F.col(name).cast("string") for name in keys))


def _is_moved(change: Column, keys: Sequence[str]) -> Column:
    """Whether an update says that its row had another key before: Debezium sends a delete and a create in its place
    only where the key of its records changes."""
    moved = F.lit(False)
    for name in keys:
        moved = moved | F.coalesce(change["before"][name] != change["after"][name], F.lit(False))
    return moved


def is_change(schema: str | None = None) -> Column:
    """Whether the column `value` is a change that `debezium` takes, or nothing. Write others to a topic or table of
    their own: `records.where(~is_change(schema))`."""
    value = F.col("value") if schema is None else _from_json(schema)
    known = value["op"].isin("c", "r", "u") & value["after"].isNotNull() | value["op"].isin("d", "m")
    return F.col("value").isNull() | F.coalesce(known, F.lit(False))


def _parsed(records: DataFrame, schema: str | None) -> Column:
    kind = records.schema["value"].dataType
    if schema is not None:
        return _from_json(schema)
    if not isinstance(kind, T.StructType) or not {"before", "after", "op"} <= set(kind.fieldNames()):
        raise ConfigError(
            "without schema=... the column 'value' must be a struct with before, after and op, as from_registry makes "
            f"it; it is {kind.simpleString()[:80]}"
        )
    return F.col("value")


def _from_json(schema: str) -> Column:
    """The envelope, also where Debezium's converter puts it behind its schema. Nothing in it where a value does not fit
    its column's type: Spark would make that a null."""
    envelope = f"before STRUCT<{_fields(schema)}>, after STRUCT<{_fields(schema)}>, op STRING"
    both = F.from_json(
        F.col("value").cast("string"),
        f"{envelope}, payload STRUCT<{_fields(envelope)}>, {_MISFIT} STRING",
        {"columnNameOfCorruptRecord": _MISFIT},
    )
    return (
        F.when(both[_MISFIT].isNotNull(), F.lit(None))
        .when(both["payload"].isNotNull(), both["payload"])
        .otherwise(F.struct(*(both[name].alias(name) for name in ("before", "after", "op"))))
    )


def _fields(ddl: str) -> str:
    """Columns as they are written inside of a STRUCT."""
    kind = T.StructType.fromDDL(ddl)
    assert isinstance(kind, T.StructType)
    return ", ".join(f"`{each.name}`: {each.dataType.simpleString()}" for each in kind.fields)


def _key(records: DataFrame, row: T.StructType, keys: Sequence[str]) -> Column | None:
    """The record's key, as JSON or a struct, for deletes without `before`."""
    if "key" not in records.columns:
        return None
    kind = records.schema["key"].dataType
    if isinstance(kind, T.StructType):
        return F.col("key") if set(keys) <= set(kind.fieldNames()) else None
    fields = ", ".join(f"`{name}` {row[name].dataType.simpleString()}" for name in keys)
    both = F.from_json(F.col("key").cast("string"), f"{fields}, payload STRUCT<{_fields(fields)}>")
    plain = F.struct(*(both[name].alias(name) for name in keys))
    return F.when(both["payload"].isNotNull(), both["payload"]).otherwise(plain)


def _check_keys(row: T.StructType, keys: Sequence[str]) -> None:
    if not keys:
        raise ConfigError("debezium(records, keys=...) needs the names of the columns that identify a row")
    for name in keys:
        if name not in row.fieldNames():
            raise ConfigError(f"keys name {name!r}, and rows have {', '.join(row.fieldNames())}")
        if not isinstance(row[name].dataType, _CAN_BE_KEYS):
            raise ConfigError(
                f"the column {name!r} is {row[name].dataType.simpleString()}, which cannot be a key: whole numbers, "
                "strings, dates, decimals and booleans can"
            )


def _problem(operation: Column, where: Column) -> Column:
    return F.concat(
        where,
        F.lit(": no change that can be merged (op "),
        F.coalesce(operation, F.lit("is missing, or a value does not fit its column")),
        F.lit(
            "). Take such records out before with is_change(), and keep them elsewhere; after a truncate (op t), "
            "empty the table by hand"
        ),
    )
