"""RecordEncoder: a column to bytes that name a schema of a registry.

Decides how values become bytes. Must not know Spark's plan; it runs in Spark's workers. The schema is settled before
the first task: a worker asks no registry.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kavka_spark.errors import SinkError
from kavka_spark.schema_decoder import MAGIC, PREFIX


@dataclass(frozen=True, slots=True)
class Settled:
    """The schema to write with; it is sent to the workers. number: its id; text: Avro; references: name to text."""

    subject: str
    number: int
    text: str
    references: tuple[tuple[str, str], ...]


class RecordEncoder:
    """Encodes the arrays of one column in one worker."""

    def __init__(self, settled: Settled) -> None:
        import fastavro

        named: dict[str, dict[Any, Any]] = {}
        for _, text in settled.references:
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        self._parsed = fastavro.parse_schema(json.loads(settled.text), named_schemas=named)
        self._settled = settled
        self._prefix = PREFIX.pack(MAGIC, settled.number)

    def encode(self, column: pa.Array) -> pa.Array:
        """Binary values; null stays null. Raises SinkError for a value that the schema does not take."""
        from fastavro import schemaless_writer

        found: list[bytes | None] = []
        for value in column.to_pylist():
            if value is None:
                found.append(None)
                continue
            out = io.BytesIO()
            out.write(self._prefix)
            try:
                schemaless_writer(out, self._parsed, _mapped(value), strict_allow_default=True)
            except Exception as problem:
                why = f"{type(problem).__name__} {problem}".strip()[:500]
                raise SinkError(
                    f"a row does not fit schema {self._settled.number} of {self._settled.subject}: {why}"
                ) from problem
            found.append(out.getvalue())
        return pa.array(found, pa.binary())


def _mapped(value: Any) -> Any:
    """Arrow's maps are lists of pairs."""
    if isinstance(value, dict):
        return {name: _mapped(each) for name, each in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) and len(each) == 2 for each in value):
            return {name: _mapped(each) for name, each in value}
        return [_mapped(each) for each in value]
    return value
