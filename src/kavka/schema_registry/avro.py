"""Avro schemas: text to types, and types to the one text that equal schemas share.

Decides what is an Avro schema. Must not know registries, nor whether two schemas fit (avro_compatibility.py).

I1  `canonical_text` of what it returned is the same text again: a schema that is registered once more is found.
I2  What is parsed here, fastavro parses: what is registered can be read.
I3  Bounded: at most `MOST_DEPTH` levels, so that neither this code nor a reader's recursion ends in the interpreter's.

The text is the one that Java's `Schema.toString` writes, since Confluent's registry keeps that one and its clients
look schemas up by it: attributes in a fixed order, names with a namespace only where it is another than around them,
each named type once.

Source: the Avro 1.11 specification, "Schema Declaration" and "Names"; Apache Avro's org.apache.avro.Schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
MOST_DEPTH: Final = 100
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = {
    "record": frozenset({"type", "name", "namespace", "doc", "fields", "aliases"}),
    "error": frozenset({"type", "name", "namespace", "doc", "fields", "aliases"}),
    "enum": frozenset({"type", "name", "namespace", "doc", "symbols", "default", "aliases"}),
    "fixed": frozenset({"type", "name", "namespace", "doc", "size", "aliases"}),
    "array": frozenset({"type", "items"}),
    "map": frozenset({"type", "values"}),
    "field": frozenset({"name", "type", "doc", "default", "order", "aliases"}),
}
_INT: Final = (-(1 << 31), (1 << 31) - 1)
_LONG: Final = (-(1 << 63), (1 << 63) - 1)


class NotAvro(ValueError):
    """This is no Avro schema; the message says why, and where."""


class _Absent:
    """Stands for a default that is not there: null is one."""


ABSENT: Final = _Absent()


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of a record. `aliases`: names it had."""

    name: str
    type: AvroType
    default: Any = ABSENT
    doc: str | None = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroType:
    """A type. Two are the same only if they are one object: records may contain themselves.

    kind: a primitive's name, record, error, enum, fixed, array, map or union. name: with its namespace.
    """

    kind: str
    name: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    inner: AvroType | None = None
    """Of an array its items, of a map its values."""
    branches: tuple[AvroType, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[AvroType, ...]:
        """The types that it is made of: of its fields, its branches, its items or values."""
        return (*(each.type for each in self.fields), *self.branches, *((self.inner,) if self.inner else ()))

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]


def parse_avro(text: str, names: dict[str, AvroType] | None = None, *, validate_defaults: bool = True) -> AvroType:
    """The type that a text declares. names: what references declare, by whole names; what this text declares is added.
    Raises NotAvro."""
    names = {} if names is None else names
    return _Parser(names, validate_defaults=validate_defaults).parse(_json_of(text), "", "", 0)


def canonical_text(parsed: AvroType, *, referenced: Collection[str] = (), normalized: bool = False) -> str:
    """The text that equal schemas share. referenced: whole names that references declare, which stay names.
    normalized: further properties are sorted, too."""
    found = _Writer(referenced, normalized=normalized).write(parsed, "")
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _json_of(text: str) -> Any:
    stripped = text.strip()
    if _NAME.fullmatch(stripped.replace(".", "_")):
        return stripped  # A bare word, as Java takes it: string
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as problem:
        raise NotAvro("the text is nested too deep") from problem
    except ValueError as problem:
        raise NotAvro(f"the text is not JSON: {problem}") from problem


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


class _Parser:
    """Builds types from JSON. `_names` holds what has been declared so far."""

    def __init__(self, names: dict[str, AvroType], *, validate_defaults: bool) -> None:
        self._names = names
        self._validates = validate_defaults
        self._pending: list[tuple[AvroField, str]] = []
        """Fields whose defaults are looked at when all types are whole."""

    def parse(self, found: Any, namespace: str, path: str, depth: int) -> AvroType:
        parsed = self._parse(found, namespace, path, depth)
        for each, where in self._pending:
            if not fits_default(each.type, each.default):
                shown = json.dumps(each.default, ensure_ascii=False)
                raise NotAvro(f"{where}: the default {shown} is not of type {_shown(each.type)}")
        return parsed

    def _parse(self, found: Any, namespace: str, path: str, depth: int) -> AvroType:
        if depth > MOST_DEPTH:
            raise NotAvro(f"{path or '/'}: nested more than {MOST_DEPTH} deep")
        if isinstance(found, str):
            return self._named(found, namespace, path)
        if isinstance(found, list):
            return self._union(found, namespace, path, depth)
        if not isinstance(found, dict):
            raise NotAvro(f"{path or '/'}: {json.dumps(found)} is not a schema")
        kind = found.get("type")
        if kind is None:
            raise NotAvro(f'{path or "/"}: there is no "type"')
        if not isinstance(kind, str):
            return self._parse(kind, namespace, path + "/type", depth + 1)
        if kind in NAMED:
            return self._declaration(kind, found, namespace, path, depth)
        if kind in ("array", "map"):
            what = "items" if kind == "array" else "values"
            if what not in found:
                raise NotAvro(f'{path or "/"}: this {kind} has no "{what}"')
            inner = self._parse(found[what], namespace, f"{path}/{what}", depth + 1)
            return AvroType(kind, inner=inner, properties=_properties(kind, found))
        if kind in PRIMITIVES:
            return AvroType(kind, properties=_properties("array", {**found, "items": None}))
        return self._named(kind, namespace, path)

    def _named(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        known = self._names.get(_whole(name, namespace)) or self._names.get(name)
        if known is None:
            raise NotAvro(f"{path or '/'}: {name!r} is not a type that is declared before it is used")
        return known

    def _union(self, found: list[Any], namespace: str, path: str, depth: int) -> AvroType:
        branches: list[AvroType] = []
        seen: set[str] = set()
        for index, each in enumerate(found):
            branch = self._parse(each, namespace, f"{path}/{index}", depth + 1)
            if branch.kind == "union":
                raise NotAvro(f"{path}/{index}: a union directly in a union")
            key = branch.name or branch.kind
            if key in seen:
                raise NotAvro(f"{path or '/'}: the union has {key} twice")
            seen.add(key)
            branches.append(branch)
        return AvroType("union", branches=tuple(branches))

    def _declaration(self, kind: str, found: dict[str, Any], namespace: str, path: str, depth: int) -> AvroType:
        name = _declared_name(found, namespace, path)
        if name in self._names:
            raise NotAvro(f"{path or '/'}: {name} is declared twice")
        inside = name.rpartition(".")[0]
        aliases = tuple(_whole(each, inside) for each in _texts(found.get("aliases", []), path + "/aliases"))
        declared = AvroType(kind, name, doc=_doc(found, path), aliases=aliases, properties=_properties(kind, found))
        if kind == "enum":
            self._read_enum(declared, found, path)
        elif kind == "fixed":
            size = found.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _INT[1]:
                raise NotAvro(f'{path or "/"}: the "size" of {name} is not a number of bytes')
            declared.size = size
        self._names[name] = declared
        if kind in ("record", "error"):
            self._read_fields(declared, found, path, depth)
        return declared

    def _read_enum(self, declared: AvroType, found: dict[str, Any], path: str) -> None:
        symbols = _texts(found.get("symbols"), path + "/symbols")
        for each in symbols:
            if not _NAME.fullmatch(each):
                raise NotAvro(f"{path}/symbols: {each!r} is not a name")
        if len(set(symbols)) < len(symbols):
            raise NotAvro(f"{path}/symbols: a symbol is there twice")
        default = found.get("default")
        if default is not None and default not in symbols:
            raise NotAvro(f"{path}/default: {default!r} is none of the symbols of {declared.name}")
        declared.symbols, declared.default_symbol = tuple(symbols), default

    def _read_fields(self, declared: AvroType, found: dict[str, Any], path: str, depth: int) -> None:
        fields = found.get("fields")
        if not isinstance(fields, list):
            raise NotAvro(f'{path or "/"}: the record {declared.name} has no list "fields"')
        seen: set[str] = set()
        made: list[AvroField] = []
        for index, each in enumerate(fields):
            where = f"{path}/fields/{index}"
            if not isinstance(each, dict):
                raise NotAvro(f"{where}: this is not a field")
            name = each.get("name")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise NotAvro(f"{where}: {name!r} is not a name for a field")
            if name in seen:
                raise NotAvro(f"{where}: {declared.name} has the field {name} twice")
            if "type" not in each:
                raise NotAvro(f"{where}: the field {name} has no type")
            seen.add(name)
            order = each.get("order", "ascending")
            if order not in ("ascending", "descending", "ignore"):
                raise NotAvro(f"{where}: {order!r} is not an order")
            one = AvroField(
                name,
                self._parse(each["type"], declared.namespace, where + "/type", depth + 1),
                each.get("default", ABSENT),
                _doc(each, where),
                order,
                tuple(_texts(each.get("aliases", []), where + "/aliases")),
                _properties("field", each),
            )
            if self._validates and one.default is not ABSENT:
                self._pending.append((one, where))
            made.append(one)
        declared.fields = tuple(made)


def fits_default(kind: AvroType, value: Any) -> bool:
    """Whether JSON stands for a value of a type, as defaults do: of a union's, of its first type's (Avro 1.11.1 and
    later take any of them)."""
    return _Defaults().fit(kind, value, 0)


class _Defaults:
    """One look at a default. Each part of it is looked at once for each type: unions of records that hold each other
    would make exponential work else."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}

    def fit(self, kind: AvroType, value: Any, depth: int) -> bool:
        if depth > MOST_DEPTH:
            return False
        pair = (id(kind), id(value))
        if pair not in self._known:
            self._known[pair] = self._look(kind, value, depth)
        return self._known[pair]

    def _look(self, kind: AvroType, value: Any, depth: int) -> bool:
        match kind.kind:
            case "array":
                inner = kind.inner
                assert inner is not None
                return isinstance(value, list) and all(self.fit(inner, each, depth + 1) for each in value)
            case "map":
                inner = kind.inner
                assert inner is not None
                return isinstance(value, dict) and all(self.fit(inner, each, depth + 1) for each in value.values())
            case "union":
                return any(self.fit(each, value, depth + 1) for each in kind.branches)
            case "record" | "error":
                return isinstance(value, dict) and all(
                    self.fit(each.type, value[each.name], depth + 1)
                    if each.name in value
                    else each.default is not ABSENT
                    for each in kind.fields
                )
            case _:
                return _fits_flat(kind, value)


def _fits_flat(kind: AvroType, value: Any) -> bool:
    """Of a type that has no parts."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match kind.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            least, most = _INT if kind.kind == "int" else _LONG
            return is_number and least <= value <= most and value == int(value)
        case "float" | "double":
            return is_number
        case "string":
            return isinstance(value, str)
        case "bytes":
            return _is_bytes(value)
        case "fixed":
            return _is_bytes(value) and len(value) == kind.size
        case _:
            return isinstance(value, str) and value in kind.symbols


def _is_bytes(value: Any) -> bool:
    return isinstance(value, str) and all(ord(sign) < 256 for sign in value)


def _declared_name(found: Mapping[str, Any], namespace: str, path: str) -> str:
    name, inside = found.get("name"), found.get("namespace")
    if not isinstance(name, str) or not name:
        raise NotAvro(f'{path or "/"}: this {found.get("type")} has no "name"')
    if inside is not None and not isinstance(inside, str):
        raise NotAvro(f'{path or "/"}: the "namespace" of {name} is not a string')
    whole = name if "." in name else _whole(name, namespace if inside is None else inside)
    whole = whole.removeprefix(".")
    for part in whole.split("."):
        if not _NAME.fullmatch(part):
            raise NotAvro(f"{path or '/'}: {whole!r} is not a name")
    if whole in PRIMITIVES:
        raise NotAvro(f"{path or '/'}: {whole!r} is the name of a primitive type")
    return whole


def _whole(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _texts(found: Any, path: str) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise NotAvro(f"{path}: this is not a list of names")
    return found


def _doc(found: Mapping[str, Any], path: str) -> str | None:
    doc = found.get("doc")
    return doc if isinstance(doc, str) else None


def _properties(kind: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in _RESERVED[kind]}


def _shown(kind: AvroType) -> str:
    return kind.name or (f"union of {', '.join(map(_shown, kind.branches))}" if kind.kind == "union" else kind.kind)


class _Writer:
    """Types to JSON: each named type once, then its name."""

    def __init__(self, referenced: Collection[str], *, normalized: bool) -> None:
        self._written = set(referenced)
        self._normalized = normalized

    def write(self, kind: AvroType, namespace: str) -> Any:
        if kind.kind == "union":
            return [self.write(each, namespace) for each in kind.branches]
        if kind.kind in PRIMITIVES:
            properties = self._sorted(kind.properties)
            return {"type": kind.kind, **properties} if properties else kind.kind
        if kind.kind in ("array", "map"):
            assert kind.inner is not None
            what = "items" if kind.kind == "array" else "values"
            return {"type": kind.kind, what: self.write(kind.inner, namespace), **self._sorted(kind.properties)}
        if kind.name in self._written:
            return kind.short_name if kind.namespace == namespace else kind.name
        self._written.add(kind.name)
        return self._declaration(kind, namespace)

    def _declaration(self, kind: AvroType, namespace: str) -> dict[str, Any]:
        found: dict[str, Any] = {"type": kind.kind, "name": kind.short_name}
        if kind.namespace != namespace:
            found["namespace"] = kind.namespace
        if kind.doc is not None:
            found["doc"] = kind.doc
        if kind.kind == "enum":
            found["symbols"] = list(kind.symbols)
            if kind.default_symbol is not None:
                found["default"] = kind.default_symbol
        elif kind.kind == "fixed":
            found["size"] = kind.size
        else:
            found["fields"] = [self._field(each, kind.namespace) for each in kind.fields]
        found |= self._sorted(kind.properties)
        if kind.aliases:
            found["aliases"] = [_relative(each, kind.namespace) for each in kind.aliases]
        return found

    def _field(self, one: AvroField, namespace: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": one.name, "type": self.write(one.type, namespace)}
        if one.doc is not None:
            found["doc"] = one.doc
        if one.default is not ABSENT:
            found["default"] = one.default
        if one.order != "ascending":
            found["order"] = one.order
        if one.aliases:
            found["aliases"] = list(one.aliases)
        return found | self._sorted(one.properties)

    def _sorted(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        return dict(sorted(properties.items())) if self._normalized else dict(properties)


def _relative(name: str, namespace: str) -> str:
    inside, _, short = name.rpartition(".")
    return short if inside == namespace else name
