"""RecordDecoder: bytes that name a schema of a registry, to a column.

Decides what a record says, and which records are bad. Must not know Spark's plan; it runs in Spark's workers.

    byte 0      0
    bytes 1-4   the id of the schema that it was written with
    then        the record; of Protobuf a list of message indexes first

I1  Records of one column may be written with any schemas that the reader's schema can read: each is resolved by its own
    id, so that a topic whose schema changes while a query runs is read on.
I2  A bad record (no prefix, an id that the registry does not have, a schema that does not fit, bytes that are not what
    the schema says) is an error of this record. A registry that is away is none: it fails the task, which Spark tries
    again.
I3  Bytes are anybody's: a schema that contains itself is read by the reader in Python, for the compiled one ends the
    process where bytes make it recurse too deep.

Source: Confluent's wire format.
"""

from __future__ import annotations

import io
import json
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from kavka.schema_registry.avro import AvroType, NotAvro, parse_avro
from kavka.schema_registry.avro_compatibility import misfits
from kavka.schema_registry.client import TRIES, RegistryClient, RegistryFailed, SchemaUnknown
from kavka.schema_registry.formats import Schema, SchemaMismatch, decode_with, fastavro_schema
from kavka_spark.errors import BadRecordError, RegistryAwayError
from kavka_spark.schema_types import without_other_logical_types

MAGIC: Final = 0
PREFIX: Final = struct.Struct(">bI")
FORGET_UNKNOWN_S: Final = 30.0
"""How long an id counts as unknown: a producer may register it meanwhile."""
MOST_UNKNOWN: Final = 10_000
"""Ids that count as unknown; the one that was found out first is forgotten for another."""
MOST_ERROR: Final = 500

Decode: TypeAlias = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a column asks for; it is sent to the workers. reader: the Avro schema that records are read with, empty for
    text (JSON Schema and Protobuf); references: name to text, in the order that they need; subject: for errors.
    keeps_bad: bad records become errors in the column."""

    registry: str = field(repr=False)  # It may hold a password.
    subject: str
    reader: str
    references: tuple[tuple[str, str], ...]
    arrow: pa.DataType
    keeps_bad: bool


class RecordDecoder:
    """Decodes the arrays of one column in one worker."""

    def __init__(self, wanted: Wanted, client: RegistryClient | None = None) -> None:
        self._wanted = wanted
        self._client = client or RegistryClient(wanted.registry, tries=TRIES)
        self._decoders: dict[int, Decode] = {}
        self._unknown: dict[int, tuple[str, float]] = {}
        self._reader: AvroType | None = None
        self._parsed_reader: Any = None
        if wanted.reader:
            names: dict[str, AvroType] = {}
            for _, text in wanted.references:
                parse_avro(text, names, validate_defaults=False)
            self._reader = parse_avro(wanted.reader, names, validate_defaults=False)
            self._parsed_reader = _fastavro_schema(wanted.reader, dict(wanted.references))

    def decode(self, column: pa.Array) -> pa.Array:
        """Values of the wanted type; where bad records are kept, structs of value, error and schema id. Raises
        BadRecordError, and RegistryAwayError where a schema is needed that no registry gives."""
        values: list[Any] = []
        errors: list[str | None] = []
        numbers: list[int | None] = []
        unpack, decoders = PREFIX.unpack_from, self._decoders
        for data in column.to_pylist():
            value, error, number = None, None, None
            if data is not None:
                try:
                    magic, number = unpack(data)
                    if magic != MAGIC:
                        raise SchemaMismatch(
                            f"it begins with {data[:1].hex()}, and a record that names a schema with 00"
                        )
                    decode = decoders.get(number) or self._decoder(number)
                    value = decode(data)
                except struct.error:
                    error = f"it has {len(data)} bytes, and the prefix alone has {PREFIX.size}"
                except SchemaMismatch as problem:
                    error = str(problem)[:MOST_ERROR]
            values.append(value)
            errors.append(error)
            numbers.append(number)
        if self._wanted.keeps_bad:
            return pa.StructArray.from_arrays(
                [
                    _array(values, errors, self._wanted.arrow),
                    pa.array(errors, pa.string()),
                    pa.array(numbers, pa.int64()),
                ],
                names=["value", "error", "schema_id"],
            )
        found = _array(values, errors, self._wanted.arrow)
        bad = next((each for each in errors if each is not None), None)
        if bad is not None:
            raise BadRecordError(self._wanted.subject, bad)
        return found

    def _decoder(self, number: int) -> Decode:
        known = self._unknown.get(number)
        if known is not None and time.monotonic() - known[1] < FORGET_UNKNOWN_S:
            raise SchemaMismatch(known[0])
        try:
            found = self._decoders[number] = self._make(self._fetched(number))
        except SchemaMismatch as problem:
            self._unknown[number] = (str(problem), time.monotonic())
            if len(self._unknown) > MOST_UNKNOWN:
                del self._unknown[next(iter(self._unknown))]
            raise
        return found

    def _fetched(self, number: int) -> Schema:
        try:
            return self._client.fetch(number)
        except SchemaUnknown as problem:
            raise SchemaMismatch(str(problem)) from problem
        except RegistryFailed as problem:
            raise RegistryAwayError(number, str(problem)) from problem

    def _make(self, schema: Schema) -> Decode:
        if self._reader is None:
            if schema.kind == "AVRO":
                raise SchemaMismatch(f"schema {schema.number} is AVRO, and {self._wanted.subject} is not")
            return lambda data: json.dumps(decode_with(schema, data[PREFIX.size :]), ensure_ascii=False)
        if schema.kind != "AVRO":
            raise SchemaMismatch(f"schema {schema.number} is {schema.kind}, and {self._wanted.subject} is AVRO")
        try:
            names: dict[str, AvroType] = {}
            for text in schema.references.values():
                parse_avro(text, names, validate_defaults=False)
            written = parse_avro(schema.text, names, validate_defaults=False)
        except NotAvro as problem:
            raise SchemaMismatch(f"schema {schema.number} is no Avro: {problem}") from problem
        against = misfits(self._reader, written)
        if against:
            why = against[0].description
            raise SchemaMismatch(f"schema {schema.number} does not fit the one of {self._wanted.subject}: {why}")
        parsed = _fastavro_schema(schema.text, schema.references)
        return _avro_decoder(parsed, self._parsed_reader, is_recursive=_is_recursive(written))


def _avro_decoder(written: Any, reader: Any, *, is_recursive: bool) -> Decode:
    if is_recursive:
        from fastavro._read_py import schemaless_reader
    else:
        from fastavro import schemaless_reader
    same = None if written == reader else reader

    def decode(data: bytes) -> Any:
        stream = io.BytesIO(data)
        stream.seek(PREFIX.size)
        try:
            value = schemaless_reader(stream, written, same)
        except Exception as problem:
            raise SchemaMismatch(f"{type(problem).__name__} {problem}".strip()) from problem
        if stream.tell() != len(data):
            raise SchemaMismatch(f"{len(data) - stream.tell()} bytes are left over")
        return value

    return decode


def _fastavro_schema(text: str, references: Mapping[str, str]) -> Any:
    import fastavro

    try:
        parsed, is_much_work = fastavro_schema(text, references, without_other_logical_types)
    except (
        ValueError,
        TypeError,
        KeyError,
        fastavro.schema.SchemaParseException,
        fastavro.schema.UnknownType,
    ) as problem:
        raise SchemaMismatch(f"the schema cannot be used: {type(problem).__name__} {problem}") from problem
    if is_much_work:
        raise SchemaMismatch("the schema has an array whose items take no bytes")
    return parsed


def _is_recursive(avro: AvroType, inside: set[int] | None = None, known: set[int] | None = None) -> bool:
    """Whether a record contains itself. Each is looked at once: they may name each other in more ways than can be gone
    through. inside: those that are being looked at; known: those that do not."""
    inside, known = set() if inside is None else inside, set() if known is None else known
    if id(avro) in inside:
        return True
    if id(avro) in known:
        return False
    inside.add(id(avro))
    found = any(_is_recursive(each, inside, known) for each in avro.parts)
    inside.remove(id(avro))
    known.add(id(avro))
    return found


def _array(values: list[Any], errors: list[str | None], kind: pa.DataType) -> pa.Array:
    """The values as a column; one that its type does not hold (a date of the year 300,000) becomes an error."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        pass
    found = []
    for index, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as problem:
            errors[index] = f"{type(problem).__name__} {problem}"[:MOST_ERROR]
            value = None
        found.append(value)
    return pa.array(found, kind)
