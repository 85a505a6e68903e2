"""Export: what a search found as CSV, JSON lines or Parquet.

Decides the columns and how bytes become text in each. Must not know how records were found, nor pages.

    JSON lines  {"partition", "offset", "timestamp" (ISO 8601, UTC), "key", "value", "headers"}: JSON as it was written,
                Avro and Protobuf as JSON, text as text. Other bytes are {"base64": "..."}
    CSV         the same columns (RFC 4180); JSON as its text, other bytes as "base64:...". What a spreadsheet would
                take for a formula has an apostrophe before it
    Parquet     partition, offset, timestamp; key and value as bytes, exactly; value_text as in CSV; headers as a list.
                Needs pyarrow

I1  Nothing is cut. A search holds SCAN_BYTES at most, and so does what is made of it, a few times.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from kavka.client.consumer import ConsumerRecord
    from kavka.console.messages.decoding import Decoded

MOST_EXPORTED: Final = 10_000
"""Records of one file."""
COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
CHUNK: Final = 500
_FORMULA: Final = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""What OWASP's "CSV Injection" lists; the last four are = + - @ in full width."""
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


class Kind(Enum):
    CSV = "csv"
    JSON_LINES = "jsonl"
    PARQUET = "parquet"

    @property
    def media_type(self) -> str:
        return {"csv": "text/csv", "jsonl": "application/jsonl"}.get(self.value, "application/vnd.apache.parquet")


def kinds() -> tuple[str, ...]:
    """What can be made here: Parquet where pyarrow is installed."""
    return tuple(kind.value for kind in Kind if kind is not Kind.PARQUET or find_spec("pyarrow") is not None)


class Row(NamedTuple):
    """A record, whole, and what its key and value were read as."""

    record: ConsumerRecord
    key: Decoded
    value: Decoded


def lines(rows: Sequence[Row], kind: Kind) -> Iterator[bytes]:
    """CSV or JSON lines, some rows at a time."""
    if kind is Kind.CSV:
        yield (",".join(COLUMNS) + "\r\n").encode()
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        yield (_csv(some) if kind is Kind.CSV else "".join(map(_json_line, some))).encode()


def parquet(rows: Sequence[Row]) -> bytes:
    """A whole file. Raises ImportError where there is no pyarrow."""
    import pyarrow as pa  # late: large, and not everybody has it
    import pyarrow.parquet as pq

    header = pa.struct([("name", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("value_text", pa.string()),
            ("headers", pa.list_(header)),
        ]
    )
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for record, _key, value in rows:
        columns["partition"].append(record.partition)
        columns["offset"].append(record.offset)
        columns["timestamp"].append(record.timestamp_ms if record.timestamp_ms >= 0 else None)
        columns["key"].append(record.key)
        columns["value"].append(record.value)
        columns["value_text"].append(text_of(record.value, value))
        columns["headers"].append([{"name": name, "value": data} for name, data in record.headers])
    out = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), out, compression="zstd")
    return out.getvalue()


def text_of(data: bytes | None, decoded: Decoded) -> str | None:
    """What a key or value says, whole; None for null."""
    if data is None:
        return None
    if decoded.schema:
        return json.dumps(decoded.value, ensure_ascii=False, default=str)
    if decoded.kind == "integer":
        return decoded.text
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def _json_line(row: Row) -> str:
    record, key, value = row
    told = {
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": json.dumps(_time(record.timestamp_ms)),
        "key": _as_json(record.key, key),
        "value": _as_json(record.value, value),
        "headers": json.dumps([[name, _plain(data)] for name, data in record.headers], ensure_ascii=False),
    }
    return "{" + ", ".join(f'"{name}": {each}' for name, each in told.items()) + "}\n"


def _as_json(data: bytes | None, decoded: Decoded) -> str:
    """JSON in one line; that of a record as it was written, but for its line breaks between tokens."""
    if data is None:
        return "null"
    if decoded.schema:
        return json.dumps(decoded.value, ensure_ascii=False, default=str)
    if decoded.kind == "json":
        # Inside of a string there is no line break: JSON wants it escaped there.
        return data.decode().replace("\r", " ").replace("\n", " ").strip()
    if decoded.kind == "integer":
        return decoded.text
    return json.dumps(_plain(data), ensure_ascii=False)


def _plain(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _csv(rows: Iterable[Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    for record, key, value in rows:
        headers = json.dumps([[name, _plain(data)] for name, data in record.headers], ensure_ascii=False)
        told = (text_of(record.key, key), text_of(record.value, value), headers if record.headers else "")
        cells = ["" if each is None else _harmless(each) for each in told]
        writer.writerow([record.partition, record.offset, _time(record.timestamp_ms) or "", *cells])
    return out.getvalue()


def _harmless(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def _time(timestamp_ms: int) -> str | None:
    if timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None  # A producer may write any time, that of the year 292,278,994 too.
