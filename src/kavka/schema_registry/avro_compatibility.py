"""Whether what was written with one Avro schema can be read with another.

Decides that, with a reason for each place where it fails. Must not know which of two schemas is the newer one.

    writer -> reader        int -> long, float, double;  long -> float, double;  float -> double;  string <-> bytes
    a union                 each type that may have been written must be readable; one type that fits is enough to read
    records, enums, fixed   equal by their names without namespace, or by an alias of the reader's
    a field of the reader   has its name or one of its aliases in what was written, or a default
    a symbol written        is one of the reader's, or the reader's enum has a default

Source: the Avro 1.11 specification, "Schema Resolution"; Apache Avro's SchemaCompatibility for the reasons' names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.schema_registry.avro import ABSENT, AvroField, AvroType
from kavka.schema_registry.incompatibility import Incompatibility, cut
from kavka.schema_registry.pairwise import Pairwise, settle

MOST_REASONS: Final = 50
_PROMOTIONS: Final[Mapping[str, frozenset[str]]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}


def misfits(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """Why a reader with the one schema cannot read what was written with the other; empty where it can."""
    return settle(lambda pairs: _Resolution(pairs).check(reader, writer, ""))[:MOST_REASONS]


class _Resolution:
    """One look at all pairs."""

    def __init__(self, pairs: Pairwise[Incompatibility]) -> None:
        self._pairs = pairs

    def check(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        return self._pairs.check(reader, writer, lambda: self._check(reader, writer, path))

    def _check(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        if writer.kind == "union":
            return self._from_union(reader, writer, path)
        if reader.kind == "union":
            if any(not self.check(each, writer, f"{path}/{index}") for index, each in enumerate(reader.branches)):
                return []
            name = cut(writer.name or writer.kind)
            text = f"The union at path '{path or '/'}' has no type that reads what was written as {name}"
            return [Incompatibility("MISSING_UNION_BRANCH", path, text, name)]
        if reader.kind == writer.kind:
            return self._same_kind(reader, writer, path)
        if writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return []
        text = f"The type {reader.kind} at path '{path or '/'}' does not read what was written as {writer.kind}"
        return [
            Incompatibility(
                "TYPE_MISMATCH", path, text, f"reader type: {reader.kind} not compatible with {writer.kind}"
            )
        ]

    def _from_union(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        found: list[Incompatibility] = []
        for each in writer.branches:
            found += self.check(reader, each, path)
        return found

    def _same_kind(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        match reader.kind:
            case "array" | "map":
                assert reader.inner is not None
                assert writer.inner is not None
                what = "items" if reader.kind == "array" else "values"
                return self.check(reader.inner, writer.inner, f"{path}/{what}")
            case "fixed":
                return self._name(reader, writer, path) or self._size(reader, writer, path)
            case "enum":
                return self._name(reader, writer, path) or self._symbols(reader, writer, path)
            case "record" | "error":
                return self._name(reader, writer, path) + self._fields(reader, writer, path)
            case _:
                return []

    def _name(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        if reader.short_name == writer.short_name or writer.name in reader.aliases:
            return []
        names = cut(reader.name), cut(writer.name)
        text = f"The {reader.kind} at path '{path or '/'}' is called {names[0]}, and {names[1]} was written"
        return [Incompatibility("NAME_MISMATCH", f"{path}/name", text, f"expected: {names[1]}")]

    def _size(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        if reader.size == writer.size:
            return []
        text = f"{cut(reader.name)} at path '{path or '/'}' has {reader.size} bytes, and {writer.size} were written"
        return [
            Incompatibility(
                "FIXED_SIZE_MISMATCH", f"{path}/size", text, f"expected: {writer.size}, found: {reader.size}"
            )
        ]

    def _symbols(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        known = frozenset(reader.symbols)
        self._pairs.take(len(reader.symbols) + len(writer.symbols))
        missing = [each for each in writer.symbols if each not in known]
        if not missing or reader.default_symbol is not None:
            return []
        text = (
            f"{cut(reader.name)} at path '{path or '/'}' lacks symbols that may have been written, and has no default"
        )
        return [Incompatibility("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text, f"[{cut(', '.join(missing))}]")]

    def _fields(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        written = {each.name: each for each in writer.fields}
        self._pairs.take(len(reader.fields) + len(writer.fields))
        found: list[Incompatibility] = []
        for index, each in enumerate(reader.fields):
            where = f"{path}/fields/{index}"
            source = _source(each, written)
            if source is not None:
                found += self.check(each.type, source.type, where + "/type")
            elif each.default is ABSENT and not (each.type.kind == "enum" and each.type.default_symbol is not None):
                name = cut(each.name)
                text = f"The field '{name}' at path '{where}' has no default value, and was not written"
                found.append(Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", where, text, name))
        return found


def _source(wanted: AvroField, written: Mapping[str, AvroField]) -> AvroField | None:
    for name in (wanted.name, *wanted.aliases):
        if name in written:
            return written[name]
    return None
