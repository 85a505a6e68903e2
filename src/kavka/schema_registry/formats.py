"""Avro, Protobuf and JSON Schema: bytes behind Confluent's five-byte prefix to a value, by the schema they name.

Decides how bytes are read by a schema. The schema comes from the operator's registry and is believed; the bytes are
anybody's. Must not know how a schema is fetched.

I1  Bytes that do not fit raise `SchemaMismatch`, whatever is in them.
I2  No few bytes stand for much work: a schema whose arrays have items of no bytes (a million nulls in five bytes), or
    whose records have thousands of values in each byte, is refused.

Source: the Avro 1.11 specification; Protocol Buffers' encoding guide; Confluent's wire format (for Protobuf a list of
message indexes stands before the message; the single byte 0 says the first message of the file).
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

MOST_INDEXES = 20
"""Depth of nested messages in the list before a Protobuf message."""
MOST_RAW_FIELDS = 2_000
RAW_DEPTH = 8
MOST_VALUES = 1_000
"""Of a record, for each byte that it takes at least."""


class SchemaMismatch(Exception):
    """These bytes are not what the schema says, or the schema cannot be used. The message says why."""


class Schema(NamedTuple):
    """A schema as the registry gave it, made ready. `kind`: AVRO, PROTOBUF or JSON; `parsed` belongs to its reader."""

    number: int
    kind: str
    name: str
    parsed: Any
    text: str = ""
    references: Mapping[str, str] = {}
    """Name to text of what it refers to, those that others need first; of Protobuf to descriptors in base64."""


def parse_schema(number: int, kind: str, text: str, references: Mapping[str, str], serialized: str = "") -> Schema:
    """Makes a schema ready. references: name to text of what it refers to, of Protobuf to a descriptor in base64.
    serialized: a Protobuf file's descriptor in base64; without it fields are shown by their numbers. Raises
    SchemaMismatch."""
    return _parsed(number, kind, text, references, serialized)._replace(text=text, references=references)


def _parsed(number: int, kind: str, text: str, references: Mapping[str, str], serialized: str) -> Schema:
    if kind == "AVRO":
        return _avro(number, text, references)
    if kind == "PROTOBUF":
        return _protobuf(number, serialized, references)
    if kind == "JSON":
        return Schema(number, kind, _title(text), None)
    raise SchemaMismatch(f"{kind} is not a known type of schema")


def decode_with(schema: Schema, data: bytes) -> Any:
    """The value: dicts, lists, strings, numbers; bytes as 0x... Raises SchemaMismatch."""
    match schema.kind:
        case "AVRO":
            return _decode_avro(schema.parsed, data)
        case "PROTOBUF":
            return _decode_protobuf(schema.parsed, data)
        case _:
            try:
                return json.loads(data)
            except (ValueError, RecursionError) as problem:
                raise SchemaMismatch(f"no JSON behind the prefix: {problem}") from problem


# ---------------------------------------------------------------------------------------------------------------- Avro


def _avro(number: int, text: str, references: Mapping[str, str]) -> Schema:
    import fastavro

    try:
        parsed, is_much_work = fastavro_schema(text, references)
    except (ValueError, TypeError, KeyError, RecursionError, fastavro.schema.SchemaParseException) as problem:
        raise SchemaMismatch(f"schema {number} is not Avro: {problem}") from problem
    except fastavro.schema.UnknownType as problem:
        raise SchemaMismatch(f"schema {number} names a type that is not there: {problem}") from problem
    if is_much_work:
        raise SchemaMismatch(f"schema {number} has an array whose items take no bytes")
    name = parsed.get("name", "") if isinstance(parsed, dict) else ""
    return Schema(number, "AVRO", str(name), parsed)


def fastavro_schema(
    text: str, references: Mapping[str, str], change: Callable[[Any], Any] = lambda document: document
) -> tuple[Any, bool]:
    """An Avro schema as fastavro's readers take it, and whether few bytes of it stand for much work (I2). change: of
    each document before it is parsed. Raises what json and fastavro raise."""
    import fastavro

    named: dict[str, Any] = {}
    whole = _with_declarations(text, references)
    for each in references.values() if whole is None else ():
        fastavro.parse_schema(change(json.loads(each)), named_schemas=named)
    parsed = fastavro.parse_schema(change(json.loads(text if whole is None else whole)), named_schemas=named)
    weights = _Weights(named)
    weights.of(parsed)
    return parsed, weights.is_much_work


def _with_declarations(text: str, references: Mapping[str, str]) -> str | None:
    """A union, array or map of references with their declarations in it; None for others. With a named type fastavro
    keeps what it refers to, and with these its readers do not know the names."""
    from kavka.schema_registry.avro import NAMED, NotAvro, canonical_text, parse_avro

    document = json.loads(text)
    if not references or (isinstance(document, dict) and document.get("type") in NAMED):
        return None
    try:
        names: dict[str, Any] = {}
        for each in references.values():
            parse_avro(each, names, validate_defaults=False)
        return canonical_text(parse_avro(text, names, validate_defaults=False))
    except NotAvro:
        return None


class _Weights:
    """How few bytes the values of a type take, and how many values they hold."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, tuple[int, int]] = {}
        self.is_much_work = False

    def of(self, schema: Any) -> tuple[int, int]:
        if isinstance(schema, list):
            for each in schema:
                self.of(each)
            return 1, 1  # What may be there takes bytes of its own when it is.
        if isinstance(schema, str):
            if schema in self._known:
                return self._known[schema]
            return (0, 1) if schema == "null" else self.of(self._named[schema]) if schema in self._named else (1, 1)
        if not isinstance(schema, dict):
            return 1, 1
        match schema.get("type"):
            case "record" | "error":
                return self._record(schema)
            case "array":
                self.is_much_work |= self.of(schema.get("items"))[0] == 0
                return 1, 1
            case "map":
                self.of(schema.get("values"))
                return 1, 1
            case "fixed":
                return int(schema.get("size", 0)), 1
            case "enum":
                return 1, 1
            case kind:
                return self.of(kind)

    def _record(self, schema: dict[str, Any]) -> tuple[int, int]:
        name = str(schema.get("name"))
        if name not in self._known:
            self._known[name] = (1, 1)  # For those that it is in itself.
            inner = [self.of(each.get("type")) for each in schema.get("fields", [])]
            size, values = sum(size for size, _ in inner), 1 + sum(values for _, values in inner)
            self.is_much_work |= values > MOST_VALUES * (size + 1)
            self._known[name] = (size, values)
        return self._known[name]


def _decode_avro(parsed: Any, data: bytes) -> Any:
    # The reader in Python, for the compiled one ends the process where bytes make it recurse too deep: a list of
    # 100,000 entries, by a schema whose record refers to itself, is 100 KB.
    from fastavro._read_py import schemaless_reader

    stream = io.BytesIO(data)
    try:
        value = schemaless_reader(stream, parsed, None)
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        EOFError,
        OverflowError,
        ArithmeticError,
        RecursionError,
        MemoryError,
        StopIteration,
        AttributeError,
    ) as problem:
        raise SchemaMismatch(f"{type(problem).__name__} {problem}".strip()) from problem
    left = len(data) - stream.tell()
    if left:
        raise SchemaMismatch(f"{left} bytes are left over")
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (bytes, bytearray)):
        return "0x" + value.hex()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


# ------------------------------------------------------------------------------------------------------------ Protobuf


def _protobuf(number: int, serialized: str, references: Mapping[str, str]) -> Schema:
    if not serialized:
        return Schema(number, "PROTOBUF", "", None)
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized, validate=True))
        pool = descriptor_pool.DescriptorPool()
        for name, reference in references.items():
            imported = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(reference, validate=True))
            imported.name = name
            _add_well_known(pool, imported)
            pool.Add(imported)
        _add_well_known(pool, file)
        file.name = file.name or f"schema-{number}.proto"
        pool.Add(file)
        descriptor = pool.FindFileByName(file.name)
    except (binascii.Error, ValueError, DecodeError, TypeError, KeyError) as problem:
        raise SchemaMismatch(f"schema {number} is not a Protobuf descriptor: {problem}") from problem
    return Schema(number, "PROTOBUF", str(file.package), descriptor)


def _add_well_known(pool: Any, file: Any) -> None:
    """Google's own files that this one imports (timestamp.proto and the like)."""
    import importlib

    from google.protobuf import descriptor_pb2

    for name in file.dependency:
        if name.startswith("google/protobuf/") and name.endswith(".proto") and name.count("/") == 2:
            module = name.removeprefix("google/protobuf/").removesuffix(".proto")
            if not module.isidentifier():
                continue
            found = importlib.import_module(f"google.protobuf.{module}_pb2").DESCRIPTOR
            copy = descriptor_pb2.FileDescriptorProto()
            found.CopyToProto(copy)
            pool.Add(copy)


def _decode_protobuf(descriptor: Any, data: bytes) -> Any:
    indexes, body = _indexes(data)
    if descriptor is None:
        return _raw(body, RAW_DEPTH)
    from google.protobuf import json_format, message_factory
    from google.protobuf.message import DecodeError

    try:
        messages = list(descriptor.message_types_by_name.values())
        chosen = messages[indexes[0]]
        for index in indexes[1:]:
            chosen = list(chosen.nested_types)[index]
    except IndexError as problem:
        raise SchemaMismatch(f"the schema has no message {'.'.join(map(str, indexes))}") from problem
    try:
        message = message_factory.GetMessageClass(chosen).FromString(body)
        found = json_format.MessageToDict(message, preserving_proto_field_name=True)
    except (DecodeError, json_format.Error, ValueError, TypeError, RecursionError) as problem:
        raise SchemaMismatch(f"no {chosen.full_name}: {problem}") from problem
    return found


def _indexes(data: bytes) -> tuple[list[int], bytes]:
    """The list of message indexes, zigzag varints, and what stands behind it."""
    count, position = _varint(data, 0)
    count = (count >> 1) ^ -(count & 1)
    if count == 0:
        return [0], data[position:]
    if not 0 < count <= MOST_INDEXES:
        raise SchemaMismatch(f"a message cannot be nested {count} deep")
    indexes = []
    for _ in range(count):
        index, position = _varint(data, position)
        indexes.append((index >> 1) ^ -(index & 1))
    if min(indexes) < 0:
        raise SchemaMismatch(f"message indexes are {indexes}")
    return indexes, data[position:]


def _raw(data: bytes, depth: int) -> dict[str, Any]:
    """A message without its schema: field numbers to what they hold, as far as the bytes show it."""
    found: dict[str, Any] = {}
    position = fields = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        value: Any
        match kind:
            case 0:
                value, position = _varint(data, position)
            case 1 | 5:
                width = 8 if kind == 1 else 4
                value = "0x" + data[position : position + width].hex()
                position += width
            case 2:
                length, position = _varint(data, position)
                value = _chunk(data[position : position + length], depth)
                position += length
            case _:
                raise SchemaMismatch(f"there is no wire type {kind}")
        fields += 1
        if number == 0 or position > len(data) or fields > MOST_RAW_FIELDS:
            raise SchemaMismatch("these bytes are not a Protobuf message")
        name = str(number)
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found


def _chunk(data: bytes, depth: int) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if text is not None and text.isprintable():
        return text
    if depth > 0 and data:
        try:
            return _raw(data, depth - 1)
        except SchemaMismatch:
            pass
    return "0x" + data.hex()


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise SchemaMismatch("a number breaks off")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _title(text: str) -> str:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return str(document.get("title", "")) if isinstance(document, dict) else ""
