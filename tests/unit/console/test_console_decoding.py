"""What records say, whatever is in them: text, JSON, numbers, Avro, Protobuf, and what was made to do harm."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import struct
import time
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from kavka.console.messages.decoding import SHOWN_CHARACTERS, Format, decode, field, laid_out, schema_id
from kavka.schema_registry import client
from kavka.schema_registry.client import SchemaRegistry
from kavka.schema_registry.formats import Schema, SchemaMismatch, decode_with, parse_schema
from tests.kit.schema_registry_server import RegistryServer

PERSON = (
    '{"type": "record", "name": "Person", '
    '"fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]}'
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def avro(schema: str, value: object, number: int = 7) -> bytes:
    import json

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return struct.pack("!bi", 0, number) + out.getvalue()


def person_proto() -> tuple[str, type]:
    """A file with a message Person that has a message Address inside; its descriptor in base64, and Person's class."""
    file = descriptor_pb2.FileDescriptorProto(name="person.proto", package="shop", syntax="proto3")
    person = file.message_type.add(name="Person")
    person.field.add(name="name", number=1, type=9, label=1)
    person.field.add(name="age", number=2, type=5, label=1)
    address = person.nested_type.add(name="Address")
    address.field.add(name="city", number=1, type=9, label=1)
    encoded = base64.b64encode(file.SerializeToString()).decode()
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return encoded, message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Person"))


class TestForms:
    def test_null_and_empty_are_two_things(self) -> None:
        assert decode(None).kind == "null"
        assert decode(b"").kind == "empty"

    def test_json_is_laid_out_and_its_tokens_stay_as_they_were(self) -> None:
        found = decode(b'{"b":1.10,"a":12345678901234567890,"b":[],"c":{"d":"x,{}"}}')
        assert found.kind == "json"
        assert found.text == (
            '{\n  "b": 1.10,\n  "a": 12345678901234567890,\n  "b": [],\n  "c": {\n    "d": "x,{}"\n  }\n}'
        )

    def test_text_that_only_begins_like_json_is_text(self) -> None:
        assert decode(b"{not json").kind == "text"
        assert decode(b"{not json", Format.JSON).problem == "this is not valid JSON"

    def test_a_number_alone_is_text_with_a_value(self) -> None:
        found = decode(b"42")
        assert (found.kind, found.text, found.value) == ("text", "42", 42)

    def test_integers_as_kafkas_serializers_write_them(self) -> None:
        assert decode(struct.pack("!q", -5), Format.INTEGER).text == "-5"
        assert decode(struct.pack("!i", 70_000), Format.INTEGER).text == "70000"
        assert "1, 2, 4 or 8 bytes" in decode(b"abc", Format.INTEGER).problem

    def test_bytes_are_shown_in_hex(self) -> None:
        found = decode(bytes(range(0x80, 0x98)))
        assert found.kind == "hex"
        assert found.text.splitlines()[0].startswith("00000000  80 81 82")
        assert decode(b"AB", Format.HEX).text.endswith("41 42" + " " * 42 + "  AB")

    def test_a_field_is_found_by_its_path(self) -> None:
        value = {"customer": {"names": ["Ada", "Eve"]}, "n": 3}
        assert field(value, "customer.names.1") == "Eve"
        assert field(value, "customer.names.9") is None
        assert field(value, "n.x") is None
        assert field(value, "customer.names.99999999999999999999") is None


class TestHostileBytes:
    def test_control_characters_are_shown_by_their_codes(self) -> None:
        text = decode(b"red \x1b[31m bell \x07 null \x00 backspace \x08", Format.TEXT).text
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\\x1b[31m" in text
        assert "\\x00" in text

    def test_broken_utf8_is_shown_by_its_bytes(self) -> None:
        assert decode(b"caf\xe9 and more text", Format.TEXT).text == "caf\\xe9 and more text"
        assert decode(b"caf\xe9 and more text").kind == "text"

    def test_marks_that_turn_the_writing_are_shown(self) -> None:
        text = decode("invoice\u202egpj.exe".encode()).text
        assert "\u202e" not in text
        assert "\\u202e" in text

    def test_a_script_stays_text_for_the_page_to_escape(self) -> None:
        assert decode(b"<script>alert(1)</script>").text == "<script>alert(1)</script>"

    def test_a_megabyte_is_cut_and_says_how_much_there_is(self) -> None:
        found = decode(b"x" * 1_000_000)
        assert (len(found.text), found.is_cut, found.size_bytes) == (SHOWN_CHARACTERS, True, 1_000_000)
        assert decode(b'{"a": [' + b"1," * 400_000 + b"1]}").is_cut
        assert len(decode(b'{"a": [' + b"1," * 400_000 + b"1]}").text) == SHOWN_CHARACTERS
        assert decode(bytes(1_000_000)).is_cut
        assert len(decode(b"x" * 1_000_000).preview) <= 200

    def test_deep_json_is_not_followed(self) -> None:
        assert decode(b"[" * 500_000).kind == "text"
        assert decode(b"[" * 500_000 + b"]" * 500_000).kind == "text"

    def test_a_number_of_a_million_digits_is_text(self) -> None:
        assert decode(b"[" + b"9" * 1_000_000 + b"]").kind == "text"

    @given(st.binary(max_size=300), st.sampled_from(Format))
    def test_any_bytes_decode_to_text_that_does_nothing(self, data: bytes, form: Format) -> None:
        found = decode(data, form)
        assert found.size_bytes == len(data)
        assert all(character in "\n\t" or ord(character) >= 32 for character in found.text)
        found.text.encode()

    @given(JSON_VALUES)
    def test_json_laid_out_is_the_same_json(self, value: object) -> None:
        import json

        assert json.loads(laid_out(json.dumps(value))) == value
        assert json.loads(laid_out(json.dumps(value, indent=1, ensure_ascii=False))) == value


class TestSchemas:
    def test_the_prefix_names_a_schema(self) -> None:
        assert schema_id(struct.pack("!bi", 0, 42) + b"x") == 42
        assert schema_id(b"\x01\x00\x00\x00\x2a") is None
        assert schema_id(b"\x00\x00") is None
        assert schema_id(None) is None
        assert schema_id(b"\x00\xff\xff\xff\xff") is None

    def test_avro_by_its_schema(self) -> None:
        schema = parse_schema(7, "AVRO", PERSON, {})
        found = decode(avro(PERSON, {"name": "Ada", "age": 36}), schema=schema)
        assert (found.kind, found.schema, found.value) == ("avro", "7 Person", {"name": "Ada", "age": 36})

    def test_bytes_that_are_not_the_schemas_are_shown_as_they_are_with_the_reason(self) -> None:
        schema = parse_schema(7, "AVRO", PERSON, {})
        for data in (avro(PERSON, {"name": "Ada", "age": 36})[:-1], avro(PERSON, {"name": "Ada", "age": 1}) + b"more"):
            found = decode(data, schema=schema)
            assert found.kind in ("text", "hex")
            assert found.problem.startswith("schema 7 cannot decode it")

    def test_avro_that_refers_to_itself_a_hundred_thousand_times(self) -> None:
        text = '{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}'
        with pytest.raises(SchemaMismatch, match="Recursion"):
            decode_with(parse_schema(1, "AVRO", text, {}), b"\x02" * 100_000 + b"\x00")

    @pytest.mark.parametrize(
        "items",
        ['"null"', '{"type": "fixed", "name": "F", "size": 0}', '{"type": "record", "name": "R", "fields": []}'],
    )
    def test_arrays_of_nothing_are_refused(self, items: str) -> None:
        text = '{"type": "record", "name": "A", "fields": [{"name": "a", "type": {"type": "array", "items": %s}}]}'
        with pytest.raises(SchemaMismatch, match="no bytes"):
            parse_schema(1, "AVRO", text % items, {})

    def test_arrays_of_nothing_by_name_are_refused(self) -> None:
        empty = '{"type": "record", "name": "E", "fields": []}'
        fields = f'{{"name": "e", "type": {empty}}}, {{"name": "a", "type": {{"type": "array", "items": "E"}}}}'
        with pytest.raises(SchemaMismatch, match="no bytes"):
            parse_schema(1, "AVRO", f'{{"type": "record", "name": "A", "fields": [{fields}]}}', {})
        with pytest.raises(SchemaMismatch, match="no bytes"):
            parse_schema(1, "AVRO", '{"type": "array", "items": "E"}', {"E": empty})

    def test_records_that_double_are_refused(self) -> None:
        schema: dict[str, Any] = {"type": "record", "name": "Level30", "fields": []}
        for i in range(29, -1, -1):
            fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"Level{i + 1}"}]
            schema = {"type": "record", "name": f"Level{i}", "fields": fields}
        with pytest.raises(SchemaMismatch, match="no bytes"):
            parse_schema(1, "AVRO", json.dumps(schema), {})

    def test_a_large_record_of_optional_records_is_read(self) -> None:
        def record(name: str, fields: int, kind: Any) -> dict[str, Any]:
            made = [{"name": "f0", "type": ["null", kind]}]
            by_name = kind if isinstance(kind, str) else kind["name"]
            made += [{"name": f"f{i}", "type": ["null", by_name]} for i in range(1, fields)]
            return {"type": "record", "name": name, "fields": made}

        schema = record("Order", 10, record("Party", 100, record("Address", 100, "string")))
        found = decode_with(parse_schema(1, "AVRO", json.dumps(schema), {}), b"\x00" * 10)
        assert found == {f"f{i}": None for i in range(10)}

    @pytest.mark.parametrize(
        ("text", "data", "value"),
        [
            ('["n.A", "string"]', b"\x00\x02", {"x": 1}),
            ('{"type": "array", "items": "n.A"}', b"\x02\x02\x00", [{"x": 1}]),
            ('{"type": "record", "name": "B", "fields": [{"name": "a", "type": "n.A"}]}', b"\x02", {"a": {"x": 1}}),
        ],
        ids=["union", "array", "record"],
    )
    def test_references_are_read_wherever_they_stand(self, text: str, data: bytes, value: object) -> None:
        a = '{"type": "record", "name": "A", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}'
        assert decode_with(parse_schema(1, "AVRO", text, {"n.A": a}), data) == value

    def test_an_array_that_claims_more_than_there_is_ends(self) -> None:
        schema = parse_schema(1, "AVRO", '{"type": "array", "items": "long"}', {})
        began = time.process_time()
        with pytest.raises(SchemaMismatch):
            decode_with(schema, b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x02")
        assert time.process_time() - began < 1

    def test_protobuf_by_its_descriptor_and_by_message_index(self) -> None:
        serialized, person = person_proto()
        schema = parse_schema(9, "PROTOBUF", "", {}, serialized)
        body = person(name="Ada", age=36).SerializeToString()
        prefix = struct.pack("!bi", 0, 9)
        assert decode(prefix + b"\x00" + body, schema=schema).value == {"name": "Ada", "age": 36}
        city = person.Address(city="Paris").SerializeToString()
        assert decode(prefix + b"\x04\x00\x00" + city, schema=schema).value == {"city": "Paris"}
        assert "no message 3" in decode(prefix + b"\x02\x06" + body, schema=schema).problem

    def test_protobuf_without_a_descriptor_shows_numbers_of_fields(self) -> None:
        _, person = person_proto()
        body = person(name="Ada", age=36).SerializeToString()
        assert decode_with(parse_schema(9, "PROTOBUF", "", {}), b"\x00" + body) == {"1": "Ada", "2": 36}

    @pytest.mark.parametrize("depth", [400, 900, 985, 990, 993])
    def test_a_deep_record_with_a_schema_does_not_fill_memory_with_what_indents_it(self, depth: int) -> None:
        """Anybody who may produce could: one of 200 KB became 180 MB in six seconds, while all others waited."""
        data = b"[" * depth + b"1," * 100_000 + b"1" + b"]" * depth
        began = time.process_time()
        found = decode(b"\0\0\0\0\4" + data, schema=Schema(4, "JSON", "", None))
        assert time.process_time() - began < 1.5
        assert found.size_bytes == len(data) + 5
        assert len(found.text) <= SHOWN_CHARACTERS

    @given(st.binary(max_size=200))
    def test_any_bytes_behind_a_schema_end_in_a_value_or_a_mismatch(self, data: bytes) -> None:
        serialized, _ = person_proto()
        for schema in (
            parse_schema(1, "AVRO", PERSON, {}),
            parse_schema(2, "PROTOBUF", "", {}, serialized),
            parse_schema(3, "PROTOBUF", "", {}),
            Schema(4, "JSON", "", None),
        ):
            try:
                decode_with(schema, data)
            except SchemaMismatch:
                pass

    @pytest.mark.parametrize("text", ["", "[", "42", '{"type": "nonsense"}', '{"type": "record"}', "null"])
    def test_what_is_no_schema_says_so(self, text: str) -> None:
        with pytest.raises(SchemaMismatch):
            parse_schema(1, "AVRO", text, {})


class TestRegistry:
    def ask(self, server: RegistryServer, *numbers: int) -> list[Schema | str]:
        async def ask() -> list[Schema | str]:
            registry = SchemaRegistry(server.address)
            return [await registry.schema(number) for number in numbers]

        return asyncio.run(ask())

    def test_a_schema_is_asked_for_once(self) -> None:
        with RegistryServer() as server:
            server.schemas[7] = {"schema": PERSON}
            first, second = self.ask(server, 7, 7)
            assert isinstance(first, Schema)
            assert first is second
            assert server.asked == ["/schemas/ids/7"]

    def test_references_are_followed(self) -> None:
        outer = '{"type": "record", "name": "Order", "fields": [{"name": "by", "type": "Person"}]}'
        with RegistryServer() as server:
            reference = {"name": "Person", "subject": "person", "version": 2}
            server.schemas[8] = {"schema": outer, "schemaType": "AVRO", "references": [reference]}
            server.subjects["person", "2"] = {"schema": PERSON}
            (schema,) = self.ask(server, 8)
        assert isinstance(schema, Schema), schema
        assert decode_with(schema, b"\x06Ada\x48") == {"by": {"name": "Ada", "age": 36}}

    def test_protobuf_is_asked_for_as_a_descriptor(self) -> None:
        serialized, person = person_proto()
        with RegistryServer() as server:
            server.schemas[9] = {"schema": "syntax = ...", "schemaType": "PROTOBUF"}
            server.serialized[9] = serialized
            (schema,) = self.ask(server, 9)
        assert isinstance(schema, Schema), schema
        assert decode_with(schema, b"\x00" + person(name="Ada").SerializeToString()) == {"name": "Ada"}

    def test_a_failure_is_told_and_remembered(self) -> None:
        with RegistryServer() as server:
            first, second = self.ask(server, 1, 1)
            assert isinstance(first, str)
            assert "404" in first
            assert first == second
            assert len(server.asked) == 1

    def test_answers_that_lie_are_failures(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client, "MOST_ANSWER_BYTES", 1000)
        with RegistryServer() as server:
            for number, answer in enumerate(
                [
                    (200, b"no json"),
                    (200, b"[]"),
                    (200, b"[" * 999),
                    (200, b'{"schema": 5}'),
                    (200, b"x" * 2000),
                    (302, b"http://127.0.0.1:1/"),
                ]
            ):
                server.raw[f"/schemas/ids/{number}"] = answer
            assert all(isinstance(found, str) for found in self.ask(server, *range(6)))

    def test_a_registry_that_is_gone_is_told(self) -> None:
        with RegistryServer() as server:
            address = server.address
        found = asyncio.run(SchemaRegistry(address).schema(1))
        assert isinstance(found, str)
        assert "does not answer" in found

    def test_name_and_password_are_sent_and_not_shown(self) -> None:
        with RegistryServer() as server:
            registry = SchemaRegistry(server.address.replace("://", "://ada:p%40ss@"))
            asyncio.run(registry.schema(1))
            assert server.authorization == ["Basic " + base64.b64encode(b"ada:p@ss").decode()]
            assert "p@ss" not in registry.address
            assert "ada" not in registry.address

    @pytest.mark.parametrize("address", ["", "ftp://x", "file:///etc/passwd"])
    def test_what_is_no_address_is_refused(self, address: str) -> None:
        with pytest.raises(ValueError):
            SchemaRegistry(address)
