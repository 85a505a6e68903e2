"""What was written with one Avro schema, read with another: the table of the specification, and what is worse."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import fastavro
import pytest

from kavka.schema_registry.avro import parse_avro
from kavka.schema_registry.avro_compatibility import misfits
from kavka.schema_registry.schemas import SchemaProblem

E_AB = '{"type":"enum","name":"E","symbols":["A","B"]}'
E_ABC = '{"type":"enum","name":"E","symbols":["A","B","C"]}'
E_AB_DEFAULT = '{"type":"enum","name":"E","symbols":["A","B"],"default":"A"}'
F2, F3 = '{"type":"fixed","name":"F","size":2}', '{"type":"fixed","name":"F","size":3}'


def record(*fields: str, name: str = "R", more: str = "") -> str:
    return f'{{"type":"record","name":"{name}","fields":[{",".join(fields)}]{more}}}'


A, B, B_DEFAULT = '{"name":"a","type":"int"}', '{"name":"b","type":"int"}', '{"name":"b","type":"int","default":1}'
LIST = record(A, '{"name":"next","type":["null","R"],"default":null}')
LIST_LONG = record(A.replace("int", "long"), '{"name":"next","type":["null","R"],"default":null}')
LIST_STRING = record(A.replace("int", "string"), '{"name":"next","type":["null","R"],"default":null}')

FITS = [
    ('"long"', '"int"'),
    ('"float"', '"int"'),
    ('"float"', '"long"'),
    ('"double"', '"int"'),
    ('"double"', '"float"'),
    ('"bytes"', '"string"'),
    ('"string"', '"bytes"'),
    ('["null","int"]', '"int"'),
    ('["null","long"]', '"int"'),
    ('"int"', '["int"]'),
    ('["string","null"]', '["null","string"]'),
    ('["int","string"]', '["string"]'),
    ('{"type":"array","items":"long"}', '{"type":"array","items":"int"}'),
    ('{"type":"map","values":["null","int"]}', '{"type":"map","values":"int"}'),
    (E_ABC, E_AB),
    (E_AB_DEFAULT, E_ABC),
    (record(A, B_DEFAULT), record(A)),
    (record(A), record(A, B)),
    (record('{"name":"new","aliases":["a"],"type":"int"}'), record(A)),
    (record(A, name="x.R"), record(A, name="y.R")),
    (record(A, name="S", more=',"aliases":["R"]'), record(A)),
    (LIST_LONG, LIST),
    (LIST, LIST),
]
DOES_NOT = [
    ('"int"', '"long"', "TYPE_MISMATCH"),
    ('"string"', '"int"', "TYPE_MISMATCH"),
    ('"float"', '"double"', "TYPE_MISMATCH"),
    ('"null"', '"int"', "TYPE_MISMATCH"),
    ('["null","string"]', '"int"', "MISSING_UNION_BRANCH"),
    ('["null","int"]', '["null","int","string"]', "MISSING_UNION_BRANCH"),
    ('"int"', '["null","int"]', "TYPE_MISMATCH"),
    (E_AB, E_ABC, "MISSING_ENUM_SYMBOLS"),
    (F2, F3, "FIXED_SIZE_MISMATCH"),
    (F2, F2.replace('"F"', '"G"'), "NAME_MISMATCH"),
    (record(A, name="S"), record(A), "NAME_MISMATCH"),
    (record(A, B), record(A), "READER_FIELD_MISSING_DEFAULT_VALUE"),
    (record(A.replace("int", "string")), record(A), "TYPE_MISMATCH"),
    (LIST_STRING, LIST, "TYPE_MISMATCH"),
    ('{"type":"array","items":"int"}', '{"type":"array","items":"long"}', "TYPE_MISMATCH"),
]


@pytest.mark.parametrize(("reader", "writer"), FITS)
def test_what_can_be_read(reader: str, writer: str) -> None:
    assert misfits(parse_avro(reader), parse_avro(writer)) == []


@pytest.mark.parametrize(("reader", "writer", "kind"), DOES_NOT)
def test_what_cannot_be_read_says_why(reader: str, writer: str, kind: str) -> None:
    found = misfits(parse_avro(reader), parse_avro(writer))
    assert kind in [each.kind for each in found]


def test_a_reason_says_where() -> None:
    inner = '{"name":"in","type":%s}'
    reader = record(inner % record(A, B, name="S"))
    [found] = misfits(parse_avro(reader), parse_avro(record(inner % record(A, name="S"))))
    assert found.path == "/fields/0/type/fields/1"
    assert "errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'" in str(found)


VALUES: dict[str, Any] = {"int": 5, "long": 5, "float": 1.5, "double": 1.5, "string": "x", "bytes": b"x", "null": None}


@pytest.mark.parametrize("writer", sorted(VALUES))
@pytest.mark.parametrize("reader", sorted(VALUES))
def test_primitives_as_a_reader_of_records_takes_them(reader: str, writer: str) -> None:
    """The same table as fastavro's, which reads what is said to be readable."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(f'"{writer}"'), VALUES[writer])
    try:
        fastavro.schemaless_reader(io.BytesIO(out.getvalue()), writer, reader)
    except Exception as problem:
        read: Exception | None = problem
    else:
        read = None
    assert (misfits(parse_avro(f'"{reader}"'), parse_avro(f'"{writer}"')) == []) == (read is None), read


def test_records_that_hold_each_other_and_differ_deep_inside_do_not_fit() -> None:
    """A pair is taken for fitting while it is being looked at; that must not hide in a union what is wrong with it."""
    writer = (
        '{"type":"record","name":"A","fields":[{"name":"u","type":["null",{"type":"record","name":"B","fields":['
        '{"name":"a","type":"A"}]}]},{"name":"x","type":"int"},{"name":"again","type":["null","B"]}]}'
    )
    reader = writer.replace('{"name":"x","type":"int"}', '{"name":"x","type":"string"}')
    assert "TYPE_MISMATCH" in [each.kind for each in misfits(parse_avro(reader), parse_avro(writer))]


def test_large_unions_are_not_compared_for_ever() -> None:
    def union(prefix: str) -> str:
        return f"[{','.join(record(A, name=f'{prefix}{i}') for i in range(3_000))}]"

    began = time.process_time()
    with pytest.raises(SchemaProblem, match="too large to be compared"):
        misfits(parse_avro(union("A")), parse_avro(union("B")))
    assert time.process_time() - began < 10


def test_long_lists_of_symbols_are_compared_in_no_time() -> None:
    def enum(count: int) -> str:
        return json.dumps({"type": "enum", "name": "E", "symbols": [f"S{i}" for i in range(count)]})

    began = time.process_time()
    assert misfits(parse_avro(enum(50_000)), parse_avro(enum(50_000))) == []
    [found] = misfits(parse_avro(enum(1)), parse_avro(enum(50_000)))
    assert len(found.about) < 1_000
    assert time.process_time() - began < 5


def test_unions_of_records_in_records_are_compared_in_no_time() -> None:
    """Twenty levels of three records each, each of which holds all three of the next: 3 ** 20 paths."""
    levels = 20

    def record_of(level: int, which: int, leaf: str) -> dict[str, Any]:
        return {
            "type": "record",
            "name": f"R{level}_{which}",
            "fields": [{"name": "f", "type": union(level + 1, which, leaf)}],
        }

    def union(level: int, which: int, leaf: str) -> Any:
        if level == levels:
            return leaf
        return [record_of(level, i, leaf) if which == 0 else f"R{level}_{i}" for i in range(3)]

    reader, writer = json.dumps(union(0, 0, "string")), json.dumps(union(0, 0, "int"))
    began = time.process_time()
    assert misfits(parse_avro(reader), parse_avro(writer))
    assert time.process_time() - began < 2
