"""A schema of any of the types that the registry knows: text in, something that can be compared out.

Decides which module reads which type. Must not know subjects, versions nor ids: what a schema refers to is handed in as
texts, by the names that it uses.

I1  Whatever the text holds, a schema comes out or SchemaProblem.

A type is known where its packages are installed; they are imported when the first schema of it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kavka.errors import KavkaError

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
TYPES: Final = (JSON, PROTOBUF, AVRO)
MOST_SCHEMA_BYTES: Final = 1_000_000
"""Of a schema's text. A record of the topic holds it, and brokers take 1 MiB unless told otherwise."""


class SchemaProblem(KavkaError):
    """This is no schema of its type; the message says why, and where."""


class ParsedSchema(Protocol):
    """A schema, ready to be compared."""

    @property
    def text(self) -> str:
        """The text that equal schemas share: it is what the registry keeps."""

    def normalized(self) -> str:
        """A text that schemas share which differ in the order of what has none."""

    def formatted(self, form: str) -> str | None:
        """The schema in another form (`serialized`, `resolved`); None where its type has no such form."""

    def misfits(self, written: ParsedSchema) -> list[str]:
        """Why a reader with this schema cannot read what was written with the other; empty where it can."""


def parse_schema(kind: str, text: str, references: Mapping[str, str], *, is_new: bool = True) -> ParsedSchema:
    """A schema made ready. references: name, as the schema uses it, to text; those that others need come first.
    is_new: what older registries let through, as defaults that do not fit, is refused. Raises SchemaProblem."""
    maker = _MAKERS.get(kind)
    if maker is None:
        raise SchemaProblem(f"{kind!r} is not a known type of schema: choose one of {', '.join(TYPES)}")
    try:
        found = maker(text, references, is_new)
        found.text.encode()
    except RecursionError as problem:
        raise SchemaProblem("the schema is nested too deep") from problem
    except UnicodeEncodeError as problem:
        raise SchemaProblem(f"the schema holds half of a character: {problem}") from problem
    return found


def _avro(text: str, references: Mapping[str, str], is_new: bool) -> ParsedSchema:
    from kavka.schema_registry.avro_schema import AvroSchema

    return AvroSchema.parse(text, references, is_new=is_new)


def _json(text: str, references: Mapping[str, str], is_new: bool) -> ParsedSchema:
    from kavka.schema_registry.json_schema import JsonSchema

    return JsonSchema.parse(text, references, is_new=is_new)


def _protobuf(text: str, references: Mapping[str, str], is_new: bool) -> ParsedSchema:
    from kavka.schema_registry.protobuf import ProtobufSchema

    return ProtobufSchema.parse(text, references, is_new=is_new)


_MAKERS: Final[Mapping[str, Callable[[str, Mapping[str, str], bool], ParsedSchema]]] = {
    AVRO: _avro,
    JSON: _json,
    PROTOBUF: _protobuf,
}
