"""Values of Delta's log: a partition's value as text, and a file's statistics: pure.

Source: the Delta transaction log protocol, "Partition Value Serialization" and "Per-file Statistics".
"""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

MOST_COLUMNS: Final = 32
"""Delta's default of delta.dataSkippingNumIndexedCols."""
LONGEST_TEXT: Final = 256
"""Of a longer bound only its beginning is written."""
_LAST_CHARACTER: Final = "\U0010ffff"


def can_partition(kind: pa.DataType) -> bool:
    """Whether a column's values have a text in the log."""
    return bool(
        types.is_integer(kind)
        or types.is_string(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_decimal(kind)
        or types.is_timestamp(kind)
    )


def partition_text(value: Any) -> str | None:
    """A value of a partition column; None is null. An empty text is null for Delta."""
    match value:
        case None | "":
            return None
        case bool():
            return "true" if value else "false"
        case datetime():
            instant = value.astimezone(UTC) if value.tzinfo else value
            return instant.strftime("%Y-%m-%d %H:%M:%S.%f")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"  # str writes 0E-10
        case _:
            return str(value)


def partition_value(text: str | None, kind: pa.DataType) -> Any:
    """The value that `partition_text` has written."""
    if text is None or text == "":
        return None
    if types.is_timestamp(kind):
        naive = pc.cast(pa.scalar(text), pa.timestamp("us")).as_py()
        return naive.replace(tzinfo=UTC) if kind.tz else naive
    return pc.cast(pa.scalar(text), kind).as_py()


def statistics(footer: pq.FileMetaData, columns: pa.Schema) -> str:
    """Number of rows, bounds and nulls of the first columns, as JSON."""
    least: dict[str, str] = {}
    most: dict[str, str] = {}
    nulls: dict[str, int] = {}
    places = (
        {footer.row_group(0).column(i).path_in_schema: i for i in range(footer.num_columns)}
        if footer.num_row_groups
        else {}
    )
    for field in list(columns)[:MOST_COLUMNS]:
        place = places.get(field.name)
        if place is None or types.is_nested(field.type):
            continue
        found = [footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups)]
        if any(each is None for each in found):
            continue
        if all(each.has_null_count for each in found):
            nulls[field.name] = sum(each.null_count for each in found)
        bounded = [each for each in found if each.has_min_max]
        if len(bounded) != sum(each.num_values > 0 for each in found) or not bounded:
            continue
        low = _bound(min(each.min for each in bounded), up=False)
        high = _bound(max(each.max for each in bounded), up=True)
        if low is not None and high is not None:
            least[field.name], most[field.name] = low, high
    return (
        f'{{"numRecords": {footer.num_rows}, "minValues": {_object(least)}, "maxValues": {_object(most)}, '
        f'"nullCount": {json.dumps(nulls)}}}'
    )


def _object(members: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in members.items()) + "}"


def _bound(value: Any, *, up: bool) -> str | None:
    """As JSON, or None for a value that has no bound there. No bound may be rounded inwards: engines would pass over
    rows that are there. As few as can be are left out: delta-rs's `to_pyarrow_dataset` compares with a null then, and
    finds nothing in a file that has bounds of other columns."""
    if isinstance(value, Decimal):
        return f"{value:f}"  # Each digit: a float has 15.
    written = _plain_bound(value, up=up)
    return None if written is None else json.dumps(written)


def _plain_bound(value: Any, *, up: bool) -> str | float | None:
    """Times are cut to milliseconds, and long texts to their beginning."""
    match value:
        case bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case str():
            if len(value) <= LONGEST_TEXT:
                return value
            if not up:
                return value[:LONGEST_TEXT]
            return None if value[LONGEST_TEXT] == _LAST_CHARACTER else value[:LONGEST_TEXT] + _LAST_CHARACTER
        case datetime():
            whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
            if up and whole != value:
                whole += timedelta(milliseconds=1)
            text = whole.astimezone(UTC).replace(tzinfo=None) if whole.tzinfo else whole
            return text.isoformat(timespec="milliseconds") + ("Z" if whole.tzinfo else "")
        case date():
            return value.isoformat()
        case _:
            return None
