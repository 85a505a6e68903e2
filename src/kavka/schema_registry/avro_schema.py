"""AvroSchema: an Avro schema with what it refers to, as the registry compares it.

Decides nothing of its own: avro.py parses, avro_compatibility.py compares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kavka.schema_registry.avro import AvroType, NotAvro, canonical_text, parse_avro
from kavka.schema_registry.avro_compatibility import misfits
from kavka.schema_registry.schemas import ParsedSchema, SchemaProblem


class AvroSchema:
    """Made by `parse`."""

    def __init__(self, parsed: AvroType, referenced: frozenset[str]) -> None:
        self.parsed = parsed
        self._referenced = referenced
        self.text = canonical_text(parsed, referenced=referenced)

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str], *, is_new: bool) -> AvroSchema:
        """Raises SchemaProblem."""
        names: dict[str, AvroType] = {}
        try:
            for each in references.values():
                parse_avro(each, names, validate_defaults=False)
            referenced = frozenset(names)
            parsed = parse_avro(text, names, validate_defaults=is_new)
        except NotAvro as problem:
            raise SchemaProblem(str(problem)) from problem
        found = cls(parsed, referenced)
        if is_new:
            _require_readable(found.text, references)
        return found

    def normalized(self) -> str:
        return canonical_text(self.parsed, referenced=self._referenced, normalized=True)

    def formatted(self, form: str) -> str | None:
        """resolved: what the references declare stands in the text itself."""
        return canonical_text(self.parsed) if form == "resolved" else None

    def misfits(self, written: ParsedSchema) -> list[str]:
        assert isinstance(written, AvroSchema)
        return [str(each) for each in misfits(self.parsed, written.parsed)]


def _require_readable(text: str, references: Mapping[str, str]) -> None:
    """Raises SchemaProblem for what the reader of records does not take (avro.py, I2)."""
    import fastavro

    named: dict[str, dict[Any, Any]] = {}
    try:
        for each in references.values():
            fastavro.parse_schema(json.loads(each), named_schemas=named)
        fastavro.parse_schema(json.loads(text), named_schemas=named)
    except (ValueError, TypeError, KeyError, fastavro.schema.SchemaParseException) as problem:
        raise SchemaProblem(f"{type(problem).__name__}: {problem}") from problem
    except fastavro.schema.UnknownType as problem:
        raise SchemaProblem(f"it names a type that is not there: {problem}") from problem
