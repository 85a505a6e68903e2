"""JSON Schema: text to shapes that can be compared.

Decides what is a JSON Schema, what its references mean, and which shape a schema has. Must not know whether two fit
(json_compatibility.py).

I1  Nothing is fetched: a reference leads into the same text, or to a schema that the registry has.
I2  A shape is made once for each schema in a text, so that a pair of shapes can be known by their identities.

A schema of several kinds at once (a type and an enum, say) is the product of its parts, and a list of types the sum of
its types: so does the library that Confluent's registry compares with.

Source: JSON Schema drafts 4 to 2020-12; jsonschema checks them, referencing resolves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from kavka.schema_registry.schemas import ParsedSchema, SchemaProblem

if TYPE_CHECKING:
    from referencing._core import Resolver

MOST_DEPTH: Final = 100
MOST_COMPARISONS: Final = 4_000_000
"""Of items with each other, in lists that cannot be sorted: so are enum and required checked for repetitions."""
ROOT: Final = "urn:kavka:schema"
_BY_KEYWORD: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"minLength", "maxLength", "pattern"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "object": frozenset(
        {
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "minProperties",
            "maxProperties",
            "dependencies",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
        }
    ),
    "array": frozenset(
        {
            "items",
            "prefixItems",
            "additionalItems",
            "minItems",
            "maxItems",
            "uniqueItems",
            "contains",
            "unevaluatedItems",
        }
    ),
}
_VALUES: Final = frozenset({"examples", "default", "const"})
_OLD_DRAFT: Final = re.compile(r"draft-0[346]/")
"""Drafts in which the values of an enum have to differ."""
_COMBINED: Final = ("allOf", "anyOf", "oneOf")


class Kind(Enum):
    """What a shape is."""

    EMPTY = "true"
    FALSE = "false"
    COMBINED = "combined"
    NOT = "not"
    ENUM = "enum"
    CONST = "const"
    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NULL = "null"
    OBJECT = "object"
    ARRAY = "array"


@dataclass(slots=True, eq=False)
class Shape:
    """One schema, or one part of one. `keywords`: those of the schema. criterion: of a combination allOf, anyOf or
    oneOf; parts: what it combines. is_integer: of a number."""

    kind: Kind
    keywords: Mapping[str, Any] = field(default_factory=dict)
    criterion: str = ""
    parts: tuple[Shape, ...] = ()
    is_integer: bool = False
    shapes: Shapes | None = None
    where: Resolver[Any] | None = None

    def inner(self, schema: Any) -> Shape:
        """The shape of a schema that stands in this one."""
        assert self.shapes is not None
        assert self.where is not None
        return self.shapes.of(schema, self.where)


class JsonSchema:
    """Made by `parse`."""

    def __init__(self, document: Any, root: Shape) -> None:
        self._document = document
        self.root = root
        self.text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str], *, is_new: bool) -> JsonSchema:
        """Raises SchemaProblem."""
        document = _document_of(text)
        if is_new:
            _require_valid(document)
        shapes = Shapes(document, {name: _document_of(each) for name, each in references.items()})
        return cls(document, shapes.root())

    def normalized(self) -> str:
        return json.dumps(self._document, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    def formatted(self, form: str) -> str | None:
        return None

    def misfits(self, written: ParsedSchema) -> list[str]:
        from kavka.schema_registry.json_compatibility import misfits

        assert isinstance(written, JsonSchema)
        return [str(each) for each in misfits(self.root, written.root)]


class Shapes:
    """The shapes of one text and of those that it refers to. Raises SchemaProblem for references that lead nowhere."""

    def __init__(self, document: Any, references: Mapping[str, Any]) -> None:
        import referencing
        import referencing.jsonschema

        specification = referencing.jsonschema.specification_with(
            _dialect(document), default=referencing.jsonschema.DRAFT7
        )
        resources = [(name, specification.create_resource(each)) for name, each in references.items()]
        resources.append((_base(document), specification.create_resource(document)))
        try:
            registry: Any = referencing.Registry().with_resources(resources).crawl()
        except (ValueError, TypeError, AttributeError, KeyError) as problem:
            raise SchemaProblem(f"the names in it ($id, $anchor) cannot be used: {problem}") from problem
        self._document = document
        self._resolver = registry.resolver(_base(document))
        self._made: dict[int, Shape] = {}
        self._following: set[int] = set()
        self._kept: list[Any] = []
        """Schemas whose shapes are known: their identities must not be given to others."""
        _require_resolvable(document, self._resolver)

    def root(self) -> Shape:
        return self.of(self._document, self._resolver)

    def of(self, schema: Any, where: Resolver[Any]) -> Shape:
        """The shape of a schema."""
        if isinstance(schema, bool):
            return _TRUE if schema else _FALSE
        if not isinstance(schema, dict):
            raise SchemaProblem(f"{str(schema)[:100]} stands where a schema should")
        known = self._made.get(id(schema))
        if known is None:
            known = self._made[id(schema)] = self._make(schema, where)
            self._kept.append(schema)
        return known

    def _make(self, schema: dict[str, Any], where: Resolver[Any]) -> Shape:
        where = _inside(schema, where)
        parts = list(self._parts(schema, where))
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return Shape(Kind.EMPTY, schema, shapes=self, where=where)
        return Shape(Kind.COMBINED, schema, "allOf", tuple(parts), shapes=self, where=where)

    def _parts(self, schema: dict[str, Any], where: Resolver[Any]) -> Iterator[Shape]:
        if isinstance(schema.get("$ref"), str):
            yield self._referred(schema, where)
            return
        for criterion in _COMBINED:
            found = schema.get(criterion)
            if isinstance(found, list) and found:
                parts = _different([(each, self.of(each, where)) for each in found])
                yield Shape(Kind.COMBINED, schema, criterion, parts, shapes=self, where=where)
        if "not" in schema:
            yield Shape(Kind.NOT, schema, parts=(self.of(schema["not"], where),), shapes=self, where=where)
        if "enum" in schema:
            yield Shape(Kind.ENUM, schema, shapes=self, where=where)
        if "const" in schema:
            yield Shape(Kind.CONST, schema, shapes=self, where=where)
        types = schema.get("type")
        if isinstance(types, str):
            yield self._typed(types, schema, where)
        elif isinstance(types, list) and types:
            parts = tuple(self._typed(str(each), schema, where) for each in dict.fromkeys(map(str, types)))
            if len(parts) == 1:
                yield parts[0]
            else:
                yield Shape(Kind.COMBINED, schema, "anyOf", parts, shapes=self, where=where)
        else:
            for name, keywords in _BY_KEYWORD.items():
                if not keywords.isdisjoint(schema):
                    yield self._typed(name, schema, where)

    def _typed(self, name: str, schema: dict[str, Any], where: Resolver[Any]) -> Shape:
        kind = Kind.NUMBER if name == "integer" else _TYPES.get(name)
        if kind is None:
            raise SchemaProblem(f"{name!r} is not a JSON type")
        return Shape(kind, schema, is_integer=name == "integer", shapes=self, where=where)

    def _referred(self, schema: dict[str, Any], where: Resolver[Any]) -> Shape:
        if id(schema) in self._following:
            raise SchemaProblem(f"$ref {schema['$ref']!r} leads back to itself")
        self._following.add(id(schema))
        try:
            found = _looked_up(schema["$ref"], where)
            return self.of(found.contents, found.resolver)
        finally:
            self._following.discard(id(schema))


_TRUE: Final = Shape(Kind.EMPTY)
_FALSE: Final = Shape(Kind.FALSE)
_TYPES: Final = {
    "string": Kind.STRING,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "null": Kind.NULL,
    "object": Kind.OBJECT,
    "array": Kind.ARRAY,
}


def _document_of(text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise SchemaProblem(f"the text is not JSON: {problem}") from problem
    if not isinstance(found, (dict, bool)):
        raise SchemaProblem("a JSON schema is an object, true or false")
    if _depth(found) > MOST_DEPTH:
        raise SchemaProblem(f"the schema is nested more than {MOST_DEPTH} deep")
    return found


def _depth(found: Any) -> int:
    deepest, open_values = 0, [(found, 1)]
    while open_values:
        value, depth = open_values.pop()
        deepest = max(deepest, depth)
        if depth > MOST_DEPTH:
            break
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        open_values += [(each, depth + 1) for each in inner]
    return deepest


def _require_valid(document: Any) -> None:
    """Raises SchemaProblem for what its draft does not allow."""
    import jsonschema

    if isinstance(document, dict) and not isinstance(document.get("$schema", ""), str):
        raise SchemaProblem("/$schema: this is not a string")
    if _comparisons(document) > MOST_COMPARISONS:
        raise SchemaProblem("its lists of values of several types are too long")
    validator = jsonschema.validators.validator_for(document, default=jsonschema.Draft7Validator)
    try:
        validator.check_schema(document)
    except OverflowError as problem:
        raise SchemaProblem(f"a pattern cannot be used: {problem}") from problem
    except jsonschema.exceptions.SchemaError as problem:
        where = "/" + "/".join(map(str, problem.absolute_path))
        raise SchemaProblem(f"{where}: {problem.message[:500]}") from problem


def _comparisons(document: Any) -> int:
    """How many it takes at worst to look for repetitions in the lists that are looked through for them."""
    ignored = _VALUES if _OLD_DRAFT.search(_dialect(document)) else _VALUES | {"enum"}
    found = 0
    open_values: list[tuple[Any, str]] = [(document, "")]
    while open_values:
        value, name = open_values.pop()
        if isinstance(value, list):
            is_sortable = all(isinstance(each, str) for each in value) or all(
                isinstance(each, (int, float)) for each in value
            )
            found += 0 if is_sortable else len(value) ** 2
            open_values += [(each, "") for each in value]
        elif isinstance(value, dict):
            # In dependencies these names are those of properties.
            passed = frozenset() if name in ("dependencies", "dependentRequired") else ignored
            open_values += [
                (inner, key) for key, inner in value.items() if not (key in passed and isinstance(inner, list))
            ]
    return found


def _looked_up(reference: str, where: Resolver[Any]) -> Any:
    """What a reference leads to. Raises SchemaProblem."""
    import referencing.exceptions

    try:
        return where.lookup(reference)
    except (referencing.exceptions.Unresolvable, ValueError, TypeError, KeyError, AttributeError) as problem:
        raise SchemaProblem(f"$ref {reference[:200]!r} leads nowhere: name it in the references") from problem


def _require_resolvable(document: Any, resolver: Resolver[Any]) -> None:
    open_schemas: list[tuple[Any, Resolver[Any]]] = [(document, resolver)]
    while open_schemas:
        found, where = open_schemas.pop()
        if isinstance(found, dict):
            where = _inside(found, where)
            reference = found.get("$ref")
            if isinstance(reference, str):
                _looked_up(reference, where)
            # Under these names stand values, not schemas.
            open_schemas += [(each, where) for name, each in found.items() if name not in ("enum", "const", "default")]
        elif isinstance(found, list):
            open_schemas += [(each, where) for each in found]


def _inside(schema: Mapping[str, Any], where: Resolver[Any]) -> Resolver[Any]:
    """The resolver for what stands in a schema: one with an $id has names of its own."""
    name = schema.get("$id")
    if not isinstance(name, str) or name.startswith("#"):
        return where
    import referencing.jsonschema

    return where.in_subresource(referencing.jsonschema.DRAFT202012.create_resource(schema))


def _dialect(document: Any) -> str:
    found = document.get("$schema") if isinstance(document, dict) else None
    return found if isinstance(found, str) else "http://json-schema.org/draft-07/schema#"


def _base(document: Any) -> str:
    found = document.get("$id") if isinstance(document, dict) else None
    return found if isinstance(found, str) and not found.startswith("#") else ROOT


def _different(found: list[tuple[Any, Shape]]) -> tuple[Shape, ...]:
    """Those that differ: one that is there twice counts once."""
    seen: dict[str, Shape] = {}
    for schema, shape in found:
        seen.setdefault(json.dumps(schema, sort_keys=True), shape)
    return tuple(seen.values())
