"""from_registry and to_registry: columns of records that name a schema of a registry, with no JAR.

Decides what a column becomes before a task starts: the driver asks the registry once, and workers get the answer. Must
not know bytes (schema_decoder.py, schema_encoder.py).

    from kavka_spark.registry import from_registry, to_registry

    orders = records.select(from_registry("value", "http://localhost:8081", subject="orders-value").alias("order"))
    orders.select("order.*")

Records may be written with any version, older and newer, that the reader's schema can read (Avro's rules): a stream
goes on when producers change to another. Columns that a newer version adds are read after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812  # its usual name
from pyspark.sql.functions import col
from pyspark.sql.pandas.functions import arrow_udf

from kavka.errors import ConfigError
from kavka.schema_registry.avro import AvroType, NotAvro, parse_avro
from kavka.schema_registry.client import TRIES, RegistryClient, RegistryFailed, SubjectVersion
from kavka_spark.plain_errors import shown_plainly
from kavka_spark.schema_decoder import RecordDecoder, Wanted
from kavka_spark.schema_encoder import RecordEncoder, Settled
from kavka_spark.schema_types import ColumnType, column_type

if TYPE_CHECKING:
    from pyspark.sql import Column

FAIL, COLUMN = "fail", "column"
MOST_KEPT: Final = 100
"""Decoders and encoders that a worker keeps."""
_made: dict[Any, Any] = {}


def from_registry(
    column: str | Column, registry: str, *, subject: str, version: int | None = None, bad_records: str = FAIL
) -> Column:
    """A column of values of the type that a version of `subject` has; without `version` of its latest.

    column: binary, as producers with Confluent's serializers write keys and values. Null stays null. registry: its
    address, http://HOST:PORT, with a name and a password if it asks for them: https://ada:secret@HOST:PORT.

    Subjects of Avro become the types of schema_types.py. Of JSON Schema and Protobuf the column is the record as JSON
    text: `from_json` makes columns of it.

    bad_records: "fail" ends the query at a record that cannot be read. With "column" the column is a struct of `value`,
    `error` (null where all is well) and `schema_id`: bad records are kept for another sink.

    Raises ConfigError where the registry does not have the subject, does not answer, or where its schema has no type in
    Spark. What goes wrong in a task is a BadRecordError; a registry that is away fails a task after four tries.
    """
    if bad_records not in (FAIL, COLUMN):
        raise ConfigError(f"bad_records is {bad_records!r}, expected {FAIL!r} or {COLUMN!r}")
    found = _version(registry, subject, version)
    keeps_bad = bad_records == COLUMN
    if found.kind == "AVRO":
        kind, reader = column_type(_avro(found)), found.text
    else:
        kind, reader = ColumnType(T.StringType(), pa.string()), ""
    references = tuple(found.references.items())
    wanted = Wanted(registry, subject, reader, references, kind.arrow, keeps_bad)
    returns: T.DataType = kind.spark
    if keeps_bad:
        returns = T.StructType(
            [
                T.StructField("value", kind.spark),
                T.StructField("error", T.StringType()),
                T.StructField("schema_id", T.LongType()),
            ]
        )

    def decode(values: pa.Array) -> pa.Array:
        return decode_column(wanted, values)

    return _applied(decode, returns, column)


def to_registry(column: str | Column, registry: str, *, subject: str, schema: str | None = None) -> Column:
    """A binary column: each value as Avro bytes behind the id of its schema, as Confluent's deserializers take it.

    column: what the schema describes, mostly a struct of all fields. A field that the schema has and the struct has not
    gets its default. schema: Avro's text, which is registered first if the subject does not have it; without it the
    latest version of `subject` counts. Raises ConfigError as `from_registry` does, and where the registry refuses the
    schema. A value that does not fit is a SinkError of its task.
    """
    found = _version(registry, subject, None) if schema is None else _registered(registry, subject, schema)
    if found.kind != "AVRO":
        raise ConfigError(f"subject {subject} is {found.kind}: to_registry writes AVRO")
    _avro(found)
    settled = Settled(subject, found.number, found.text, tuple(found.references.items()))

    def encode(values: pa.Array) -> pa.Array:
        return encode_column(settled, values)

    return _applied(encode, T.BinaryType(), column)


def decode_column(wanted: Wanted, values: pa.Array) -> pa.Array:
    """In a worker."""
    with shown_plainly():
        decoder: RecordDecoder = _kept(wanted, lambda: RecordDecoder(wanted))
        return decoder.decode(values)


def encode_column(settled: Settled, values: pa.Array) -> pa.Array:
    """In a worker."""
    with shown_plainly():
        encoder: RecordEncoder = _kept(settled, lambda: RecordEncoder(settled))
        return encoder.encode(values)


def _applied(work: Callable[[Any], Any], returns: T.DataType, column: str | Column) -> Column:
    work.__annotations__ = {"values": pa.Array, "return": pa.Array}  # Spark looks at them, not at their names.
    made: Any = arrow_udf(work, returns)  # type: ignore[call-overload]  # its stubs know no structs
    found: Column = made(col(column) if isinstance(column, str) else column)
    return found


def _kept(key: Any, make: Callable[[], Any]) -> Any:
    """One for all batches of a worker."""
    found = _made.get(key)
    if found is None:
        if len(_made) >= MOST_KEPT:
            _made.clear()
        found = _made[key] = make()
    return found


def _avro(found: SubjectVersion) -> AvroType:
    names: dict[str, AvroType] = {}
    try:
        for text in found.references.values():
            parse_avro(text, names, validate_defaults=False)
        return parse_avro(found.text, names, validate_defaults=False)
    except NotAvro as problem:
        raise ConfigError(f"version {found.version} of {found.subject} is no Avro: {problem}") from problem


def _version(registry: str, subject: str, version: int | None) -> SubjectVersion:
    try:
        return RegistryClient(registry, tries=TRIES).version(subject, "latest" if version is None else str(version))
    except (RegistryFailed, ValueError) as problem:
        raise ConfigError(f"subject {subject}: {problem}") from problem


def _registered(registry: str, subject: str, schema: str) -> SubjectVersion:
    try:
        return RegistryClient(registry, tries=TRIES).register(subject, schema)
    except (RegistryFailed, ValueError) as problem:
        raise ConfigError(f"subject {subject}: {problem}") from problem
