"""Protobuf: Confluent's table of changes, texts and descriptors, and files that are made to do harm.

Each text is compiled in a process of its own, a fifth of a second: the cases of the table share two files.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from kavka.schema_registry.proto_compiler import compile_proto
from kavka.schema_registry.proto_text import proto_text
from kavka.schema_registry.protobuf import ProtobufSchema
from kavka.schema_registry.schemas import PROTOBUF, ParsedSchema, SchemaProblem, parse_schema

# One message for each row: its name, its body before and after, and what is wrong; "" where it fits.
ROWS = [
    ("New", "int32 a = 1;", "int32 a = 1; string b = 2;", ""),
    ("Gone", "int32 a = 1; string b = 2;", "int32 a = 1;", ""),
    ("Renamed", "int32 a = 1;", "int32 other = 1;", ""),
    ("Number", "int32 a = 1;", "string a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    ("Varints", "int32 a = 1; bool b = 2; E c = 3;", "uint64 a = 1; int64 b = 2; int32 c = 3;", ""),
    ("Zigzag", "int32 a = 1;", "sint32 a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    ("Texts", "string a = 1;", "bytes a = 1;", ""),
    ("Fixed", "fixed32 a = 1;", "sfixed32 a = 1;", ""),
    ("Wider", "fixed32 a = 1;", "fixed64 a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    ("Real", "float a = 1;", "double a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    ("Kind", "int32 a = 1;", "Other a = 1;", "FIELD_KIND_CHANGED"),
    ("Type", "Other a = 1;", "Another a = 1;", "FIELD_NAMED_TYPE_CHANGED"),
    ("Map", "map<string, int32> a = 1;", "map<string, int64> a = 1;", ""),
    ("MapValue", "map<string, int32> a = 1;", "map<string, string> a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
    ("Label", "optional int32 a = 1;", "repeated int32 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
    ("TextLabel", "optional string a = 1;", "repeated string a = 1;", ""),
    ("OneofNew", "int32 a = 1;", "oneof o { int32 a = 1; string b = 2; }", ""),
    (
        "OneofJoin",
        "int32 a = 1; int32 b = 2;",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
    ),
    (
        "OneofEnter",
        "oneof o { int32 a = 1; int32 b = 2; } int32 c = 3;",
        "oneof o { int32 a = 1; int32 b = 2; int32 c = 3; }",
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    ("OneofLoses", "oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; }", "ONEOF_FIELD_REMOVED"),
    ("OneofGone", "oneof o { int32 a = 1; int32 b = 2; } int32 c = 3;", "int32 c = 3;", ""),
    ("OneofLeft", "oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; } int32 b = 2;", ""),
    (
        "Nested",
        "message In { int32 a = 1; } In in = 1;",
        "message In { string a = 1; } In in = 1;",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    ("NestedGone", "message In { int32 a = 1; }", "int32 a = 1;", "MESSAGE_REMOVED"),
    ("Recursive", "Recursive next = 1; int32 a = 2;", "Recursive next = 1; int64 a = 2;", ""),
]
SHARED = "enum E { E_ZERO = 0; E_ONE = 1; }\nmessage Other { int32 a = 1; }\nmessage Another { int32 a = 1; }\n"


def file_of(column: int, *, package: str = "shop", more: str = "") -> str:
    messages = "\n".join(f"message {row[0]} {{ {row[column]} }}" for row in ROWS)
    return f'syntax = "proto3";\npackage {package};\n{SHARED}{messages}\n{more}'


@pytest.fixture(scope="module")
def old() -> ParsedSchema:
    return parse_schema(PROTOBUF, file_of(1), {})


@pytest.fixture(scope="module")
def reasons(old: ParsedSchema) -> list[str]:
    return parse_schema(PROTOBUF, file_of(2, more="message Added { int32 a = 1; }"), {}).misfits(old)


@pytest.mark.parametrize(("name", "kind"), [(row[0], row[3]) for row in ROWS])
def test_what_each_change_does(reasons: list[str], name: str, kind: str) -> None:
    found = [each for each in reasons if f"'#/{name}/" in each]
    assert bool(found) == bool(kind), found
    assert not kind or any(f"errorType:'{kind}'" in each for each in found), found


def test_another_package_does_not_fit(old: ParsedSchema) -> None:
    assert "PACKAGE_CHANGED" in parse_schema(PROTOBUF, file_of(1, package="other"), {}).misfits(old)[0]


def test_required_fields_of_proto2() -> None:
    body = 'syntax = "proto2"; message M { optional int32 a = 1; %s }'
    without, with_one = (parse_schema(PROTOBUF, body % each, {}) for each in ("", "required int32 b = 2;"))
    assert "REQUIRED_FIELD_ADDED" in with_one.misfits(without)[0]
    assert "REQUIRED_FIELD_REMOVED" in without.misfits(with_one)[0]


def test_types_of_imported_files_are_compared() -> None:
    order = 'syntax = "proto3"; import "shop/item.proto"; message Order { shop.Item item = 1; }'
    item = 'syntax = "proto3"; package shop; message Item { int32 n = 1; }'
    before = parse_schema(PROTOBUF, order, {"shop/item.proto": item})
    after = parse_schema(PROTOBUF, order, {"shop/item.proto": item.replace("int32", "string")})
    assert before.misfits(before) == []
    assert any("FIELD_NAMED_TYPE_CHANGED" in each for each in after.misfits(before))
    with pytest.raises(SchemaProblem, match=r"shop/item\.proto"):
        parse_schema(PROTOBUF, order, {})


RICH = """
syntax = "proto2";
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "com.example.\\"shop\\"";
option java_multiple_files = true;
option optimize_for = CODE_SIZE;
message Order {
  option deprecated = true;
  required string id = 1;
  optional int32 count = 2 [default = -7];
  optional bytes raw = 3 [default = "\\001\\xff\\""];
  optional string text = 4 [default = "a\\n\\"b\\" \\u00e9"];
  repeated int64 numbers = 5 [packed = true];
  map<string, Item> items = 6;
  oneof paid { string card = 7; bool cash = 8 [deprecated = true]; }
  optional Colour colour = 9 [default = RED];
  optional google.protobuf.Timestamp at = 10;
  optional string odd_name = 11 [json_name = "Odd"];
  optional group Extra = 12 { optional int32 x = 1; }
  extensions 100 to 199, 1000 to max;
  reserved 20, 30 to 40;
  reserved "gone";
  message Item { optional int32 n = 1; message Deep { enum Kind { K = 0; } optional Kind kind = 1; } }
}
enum Colour { option allow_alias = true; RED = 0; ROT = 0 [deprecated = true]; BLUE = -5; reserved 7, 9 to max; }
extend Order { optional int32 more = 100; }
service Orders {
  rpc Get (Order) returns (stream Order) { option deprecated = true; }
  rpc Put (stream Order) returns (Order);
}
"""
OPTIONAL = 'syntax = "proto3"; message M { optional int32 a = 1; int32 b = 2; repeated string c = 3; M m = 4; }'


@pytest.mark.parametrize("text", [RICH, OPTIONAL], ids=["proto2", "proto3"])
def test_a_descriptor_written_as_text_is_the_same_descriptor(text: str) -> None:
    first = compile_proto(text, {})[-1]
    written = proto_text(first)
    again = compile_proto(written, {})[-1]
    assert again == first
    assert proto_text(again) == written


def test_a_descriptor_in_base64_is_kept_as_text() -> None:
    descriptor = compile_proto(OPTIONAL, {})[-1]
    found = parse_schema(PROTOBUF, base64.b64encode(descriptor.SerializeToString()).decode(), {})
    assert found.text.startswith('syntax = "proto3";\n\nmessage M {\n  optional int32 a = 1;\n  int32 b = 2;')
    assert isinstance(found, ProtobufSchema)
    serialized = found.formatted("serialized")
    assert serialized is not None
    decoded = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized))
    assert [each.name for each in decoded.message_type] == ["M"]


def test_a_descriptor_whose_options_would_be_lost_is_refused() -> None:
    descriptor = compile_proto(OPTIONAL, {})[-1]
    descriptor.options.MergeFromString(b"\xc2\x3e\x02hi")  # Option 1000, which nobody here knows.
    with pytest.raises(SchemaProblem, match="options of your own"):
        parse_schema(PROTOBUF, base64.b64encode(descriptor.SerializeToString()).decode(), {})


def in_base64(file: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_a_descriptor_that_contradicts_itself_is_refused() -> None:
    entry = descriptor_pb2.FileDescriptorProto(name="x", syntax="proto3")
    message = entry.message_type.add(name="M")
    nested = message.nested_type.add(name="E", options={"map_entry": True})
    nested.field.add(name="key", number=1, type=9, label=1)
    message.field.add(name="f", number=1, type=11, type_name=".M.E", label=3)
    oneof = descriptor_pb2.FileDescriptorProto(name="x", syntax="proto3")
    oneof.message_type.add(name="M").field.add(name="f", number=1, type=9, label=1, oneof_index=7)
    for each in (entry, oneof):
        with pytest.raises(SchemaProblem, match="contradicts itself"):
            parse_schema(PROTOBUF, in_base64(each), {})


def test_a_small_descriptor_makes_no_large_text() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="x", syntax="proto2")
    message = file.message_type.add(name="M")
    for _ in range(7):
        for number in range(1, 11):
            message.field.add(name=f"f{number}", number=number, type=10, type_name="G", label=1)
        message = message.nested_type.add(name="G")
    with pytest.raises(SchemaProblem, match="are one group"):
        parse_schema(PROTOBUF, in_base64(file), {})


@pytest.mark.parametrize("names", [("schema.proto/x.proto",), ("a", "a/b"), ("a/b", "a")])
def test_references_that_are_files_and_folders_at_once_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(SchemaProblem, match="the beginning of"):
        compile_proto('syntax = "proto3";', dict.fromkeys(names, 'syntax = "proto3";'))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message {", "schema.proto"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "already been used"),
        ('syntax = "proto3"; import "/etc/passwd"; message M {}', "passwd"),
        ("%%%", "neither"),
        ("aGVsbG8gd29ybGQ=", "neither"),
    ],
)
def test_what_is_no_schema_says_why(text: str, why: str) -> None:
    with pytest.raises(SchemaProblem, match=why):
        parse_schema(PROTOBUF, text, {})


@pytest.mark.parametrize("name", ["/etc/cron.d/x", "../outside.proto", "a/../../b", "", "x" * 300])
def test_a_reference_is_written_nowhere_else(name: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaProblem, match="cannot be imported"):
        compile_proto('syntax = "proto3";', {name: 'syntax = "proto3";'})
