"""Columns of a schema registry: types, bytes, schemas that change, records that are bad."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import os
import struct
import time
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.errors import ConfigError
from kavka.schema_registry import client
from kavka.schema_registry.avro import parse_avro
from kavka_spark import schema_decoder
from kavka_spark.errors import BadRecordError, RegistryAwayError, SinkError
from kavka_spark.registry import decode_column, encode_column
from kavka_spark.schema_decoder import RecordDecoder, Wanted
from kavka_spark.schema_encoder import RecordEncoder, Settled
from kavka_spark.schema_types import column_type
from tests.kit.schema_registry_server import RegistryServer


def record(*fields: dict[str, Any], name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


A, B = {"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"], "default": None}
OLD, NEW = record(A), record(A, B)
LONG = record({"name": "a", "type": "long"})
TEXT = record({"name": "a", "type": "string"})


def framed(number: int, schema: str, value: Any) -> bytes:
    out = io.BytesIO()
    out.write(struct.pack(">bI", 0, number))
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as found:
        for number, schema in ((1, OLD), (2, NEW), (3, TEXT), (4, LONG)):
            found.schemas[number] = {"schema": schema}
        yield found


def decoder(server: RegistryServer, reader: str, *, keeps_bad: bool = True) -> RecordDecoder:
    kind = column_type(parse_avro(reader)).arrow if reader else pa.string()
    return RecordDecoder(Wanted(server.address, "s", reader, (), kind, keeps_bad))


def test_records_of_older_and_newer_schemas_are_read_in_one_column(server: RegistryServer) -> None:
    data = [framed(1, OLD, {"a": 1}), framed(2, NEW, {"a": 2, "b": "x"}), None]
    assert decoder(server, NEW).decode(pa.array(data, pa.binary())).to_pylist() == [
        {"value": {"a": 1, "b": None}, "error": None, "schema_id": 1},
        {"value": {"a": 2, "b": "x"}, "error": None, "schema_id": 2},
        {"value": None, "error": None, "schema_id": None},
    ]
    assert decoder(server, LONG, keeps_bad=False).decode(pa.array(data[:2], pa.binary())).to_pylist() == [
        {"a": 1},
        {"a": 2},
    ]
    # Each schema was asked for once.
    assert server.asked == ["/schemas/ids/1", "/schemas/ids/2"] * 2


def test_bad_records_become_errors_and_others_are_read(server: RegistryServer) -> None:
    good = framed(1, OLD, {"a": 7})
    data = [
        b"",
        b"abc",
        b"\x01\0\0\0\x01\x02",
        good[:-1],
        good + b"x",
        framed(3, TEXT, {"a": "x"}),
        b"\0\0\0\0\x63\x02",
        good,
    ]
    found = decoder(server, OLD).decode(pa.array(data, pa.binary())).to_pylist()
    errors = [each["error"] for each in found]
    assert found[-1] == {"value": {"a": 7}, "error": None, "schema_id": 1}
    assert all(errors[:-1])
    assert "0 bytes" in errors[0]
    assert "begins with 01" in errors[2]
    assert "left over" in errors[4]
    assert "schema 3 does not fit" in errors[5]
    assert "no schema 99" in errors[6]
    assert found[5]["schema_id"] == 3
    with pytest.raises(BadRecordError, match=r'read as s: it has 0 bytes.*bad_records="column"'):
        decoder(server, OLD, keeps_bad=False).decode(pa.array(data, pa.binary()))


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (503, b"", "answered 503"),
        (404, b"default backend - 404", "answered 404"),
        (404, b'{"message": "no route matched"}', "answered 404"),
        (404, b'["no route"]', "answered 404"),
        (404, b'{"error_code": "40403", "message": "?"}', "answered 404"),
        (200, b"<html>sign in</html>", "did not answer in JSON"),
        (200, b'{"status": "maintenance"}', "answered without a schema"),
        (200, b'{"schema": null}', "answered without a schema"),
    ],
)
def test_a_registry_that_is_away_is_no_bad_record(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, told: str
) -> None:
    """Nor one behind a proxy that does not find it, which knows nothing of schemas."""
    monkeypatch.setattr(client, "PAUSE_S", 0.01)
    server.raw["/schemas/ids/1"] = (status, body)
    data = pa.array([framed(1, OLD, {"a": 7})], pa.binary())
    found = decoder(server, OLD)
    with pytest.raises(RegistryAwayError, match=f"schema 1 could not be fetched: .*{told}"):
        found.decode(data)
    assert server.asked == ["/schemas/ids/1"] * client.TRIES
    del server.raw["/schemas/ids/1"]
    assert found.decode(data).to_pylist()[0]["value"] == {"a": 7}


def test_spark_shows_a_bad_record_without_lines_of_kavkas(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with pytest.raises(BadRecordError):
        decode_column(Wanted(server.address, "s", OLD, (), pa.struct([("a", pa.int32())]), False), pa.array([b"bad"]))
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with pytest.raises(SinkError):
        encode_column(Settled("s", 1, OLD, ()), pa.array([{"a": None}], pa.struct([("a", pa.int32())])))
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"


def test_a_password_is_not_shown_with_what_a_column_asks_for() -> None:
    assert "secret" not in repr(Wanted("http://ada:secret@host:1", "s", "", (), pa.string(), False))


def test_what_is_remembered_of_unknown_ids_is_bounded(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are what anybody writes into a topic."""
    monkeypatch.setattr(schema_decoder, "MOST_UNKNOWN", 3)
    found = decoder(server, OLD)

    def read(*numbers: int) -> None:
        data = [struct.pack(">bI", 0, number) for number in numbers]
        assert all(each["error"] for each in found.decode(pa.array(data, pa.binary())).to_pylist())

    read(101, 102, 103, 103, 102, 104)
    assert len(server.asked) == 4
    read(104, 103, 102)
    assert len(server.asked) == 4
    read(101)
    assert len(server.asked) == 5


@given(st.binary(max_size=40))
def test_whatever_the_bytes_are_it_is_a_value_or_an_error(data: bytes) -> None:
    tree = json.dumps(
        {"type": "record", "name": "T", "fields": [{"name": "l", "type": {"type": "array", "items": "T"}}, A, B]}
    )
    with RegistryServer() as server:
        server.schemas[1] = {"schema": tree}
        server.schemas[2] = {"schema": NEW}
        for number in (1, 2):
            framed_bytes = struct.pack(">bI", 0, number) + data
            [found] = decoder(server, OLD).decode(pa.array([framed_bytes], pa.binary())).to_pylist()
            assert (found["value"] is None) != (found["error"] is None)


def test_deep_bytes_of_a_schema_that_contains_itself_end_no_process(server: RegistryServer) -> None:
    tree = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "l", "type": {"type": "array", "items": "R"}}, {**A, "default": 0}],
    }
    server.schemas[5] = {"schema": json.dumps(tree)}
    data = struct.pack(">bI", 0, 5) + b"\x02" * 200_000
    [found] = decoder(server, OLD).decode(pa.array([data], pa.binary())).to_pylist()
    assert found["error"]


def braided(levels: int) -> str:
    """Records that each hold the one before twice, in lists: 2 ** levels ways lead through them."""
    fields: list[dict[str, Any]] = [{**A, "default": 0}]
    inner: Any = {"type": "record", "name": "Level0", "fields": [A]}
    for level in range(1, levels):
        both = [
            {"name": "x", "type": {"type": "array", "items": inner}},
            {"name": "y", "type": {"type": "array", "items": f"Level{level - 1}"}},
        ]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"Level{level}", "fields": both}})
        inner = f"Level{level}"
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def test_a_schema_with_many_ways_through_it_holds_up_no_task(server: RegistryServer) -> None:
    """Whoever may register a schema and write one record of it stopped a query for ever."""
    began = time.process_time()
    server.schemas[5] = {"schema": braided(60)}
    value = {"a": 7, **{f"f{level}": {"x": [], "y": []} for level in range(1, 60)}}
    data = framed(5, braided(60), value)
    [found] = decoder(server, OLD).decode(pa.array([data], pa.binary())).to_pylist()
    assert found["value"] == {"a": 7}, found["error"]
    with pytest.raises(ConfigError, match=r"R has [0-9,]+ fields, and a column has 20,000 at most"):
        column_type(parse_avro(braided(60)))
    assert column_type(parse_avro(braided(5))).spark.jsonValue()
    assert time.process_time() - began < 5


WIDE = json.dumps(
    {
        "type": "record",
        "name": "Wide",
        "fields": [
            {"name": "flag", "type": "boolean"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["X", "Y"]}},
            {"name": "raw", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "list", "type": {"type": "array", "items": ["null", "int"]}},
            {"name": "map", "type": {"type": "map", "values": "double"}},
            {"name": "number", "type": ["int", "long"]},
            {
                "name": "inner",
                "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "n", "type": "string"}]}],
            },
        ],
    }
)
ROW = {
    "flag": True,
    "day": dt.date(2024, 2, 29),
    "at": dt.datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=dt.UTC),
    "local": dt.datetime(2024, 2, 29, 1, 2, 3, 5),
    "time": 1234,
    "price": decimal.Decimal("12.34"),
    "kind": "Y",
    "raw": b"ab",
    "list": [1, None],
    "map": [("k", 1.5)],
    "number": 7,
    "inner": {"n": "x"},
}


def test_every_type_comes_back_as_it_went(server: RegistryServer) -> None:
    server.schemas[9] = {"schema": WIDE}
    kind = column_type(parse_avro(WIDE)).arrow
    column = pa.array([ROW, None], kind)
    encoded = RecordEncoder(Settled("s", 9, WIDE, ())).encode(column)
    assert encoded.to_pylist()[0][:5] == b"\0\0\0\0\x09"
    assert encoded.to_pylist()[1] is None
    assert decoder(server, WIDE, keeps_bad=False).decode(encoded).to_pylist() == [ROW, None]


def test_a_row_that_does_not_fit_says_so() -> None:
    encoder = RecordEncoder(Settled("orders-value", 9, OLD, ()))
    with pytest.raises(SinkError, match="schema 9 of orders-value"):
        encoder.encode(pa.array([{"a": "text"}]))
    with pytest.raises(SinkError, match="schema 9 of orders-value"):
        encoder.encode(pa.array([{"other": 1}]))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record({"name": "next", "type": ["null", "R"]}), "contains itself"),
        (record({"name": "u", "type": ["int", "string"]}), "union of int, string at /u/"),
        (record({"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 50}}), "50 digits"),
    ],
)
def test_a_schema_without_a_type_in_spark_is_refused(schema: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        column_type(parse_avro(schema))


def test_json_and_protobuf_come_as_text(server: RegistryServer) -> None:
    server.schemas[7] = {"schema": "{}", "schemaType": "JSON"}
    data = pa.array(
        [b"\0\0\0\0\x07" + b'{"a": [1, "\xc3\xa4"]}', b"\0\0\0\0\x07{", framed(1, OLD, {"a": 1})], pa.binary()
    )
    found = decoder(server, "").decode(data).to_pylist()
    assert found[0]["value"] == '{"a": [1, "ä"]}'
    assert "no JSON" in found[1]["error"]
    assert "is AVRO" in found[2]["error"]
