"""The text of a .proto file, from its descriptor.

Decides how a descriptor is written, always in the same way. Must not know registries.

I1  Compiled again, the text gives the descriptor again (without what the compiler adds, and comments).
I2  What cannot be written raises SchemaProblem: options that this process does not know would be lost else.

Source: the Protocol Buffers language specification (proto2, proto3), descriptor.proto.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kavka.schema_registry.schemas import SchemaProblem

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

SCALARS: Final = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
"""FieldDescriptorProto.Type to the word for it; 10 is a group, 11 a message, 14 an enum."""
GROUP, MESSAGE, ENUM = 10, 11, 14
LABELS: Final = {1: "optional", 2: "required", 3: "repeated"}
_MOST_FIELD: Final = 1 << 29
_MOST_ENUM: Final = (1 << 31) - 1


def proto_text(file: FileDescriptorProto) -> str:
    """The whole file. Raises SchemaProblem."""
    syntax = file.syntax or "proto2"
    if syntax not in ("proto2", "proto3"):
        raise SchemaProblem(f"a descriptor of {syntax} cannot be written as text: register the text")
    lines = [f'syntax = "{syntax}";']
    if file.package:
        lines += ["", f"package {file.package};"]
    if file.dependency:
        lines.append("")
    for index, name in enumerate(file.dependency):
        word = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
        lines.append(f"import {word}{json.dumps(name)};")
    options = [f"option {name} = {value};" for name, value in _options(file.options)]
    lines += ["", *options] if options else []
    writer = _Writer(is_proto3=syntax == "proto3")
    for message in file.message_type:
        lines += ["", *writer.message(message)]
    for enum in file.enum_type:
        lines += ["", *writer.enum(enum)]
    lines += writer.extensions(file.extension)
    for service in file.service:
        lines += ["", f"service {service.name} {{"]
        lines += [f"  option {name} = {value};" for name, value in _options(service.options)]
        for method in service.method:
            takes = ("stream " if method.client_streaming else "") + method.input_type
            gives = ("stream " if method.server_streaming else "") + method.output_type
            own = [f"option {name} = {value};" for name, value in _options(method.options)]
            end = f" {{ {' '.join(own)} }}" if own else ";"
            lines.append(f"  rpc {method.name} ({takes}) returns ({gives}){end}")
        lines.append("}")
    return "\n".join(lines) + "\n"


class _Writer:
    def __init__(self, *, is_proto3: bool) -> None:
        self._is_proto3 = is_proto3

    def message(self, message: DescriptorProto) -> list[str]:
        lines = [f"message {message.name} {{"]
        lines += [f"  option {name} = {value};" for name, value in _options(message.options)]
        lines += [f"  {line}" for line in self._body(message)]
        return [*lines, "}"]

    def _body(self, message: DescriptorProto) -> Iterator[str]:
        entries = {each.name: each for each in message.nested_type if each.options.map_entry}
        nested_types = {each.name: each for each in message.nested_type}
        groups = [each.type_name.rpartition(".")[2] for each in message.field if each.type == GROUP]
        if len(set(groups)) < len(groups):
            # A group stands in the text with its field, so that no text has two fields of one.
            raise SchemaProblem(f"two fields of {message.name} are one group")
        members: dict[int, list[FieldDescriptorProto]] = {}
        for field in message.field:
            if field.HasField("oneof_index"):
                members.setdefault(field.oneof_index, []).append(field)
        written: set[int] = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, nested_types, entries)
            elif field.oneof_index not in written:
                written.add(field.oneof_index)
                yield f"oneof {message.oneof_decl[field.oneof_index].name} {{"
                for name, value in _options(message.oneof_decl[field.oneof_index].options):
                    yield f"  option {name} = {value};"
                for each in members[field.oneof_index]:
                    yield from (f"  {line}" for line in self._field(each, nested_types, entries, in_oneof=True))
                yield "}"
        for first in message.extension_range:
            yield f"extensions {_range(first.start, first.end - 1, _MOST_FIELD - 1)};"
        for each_range in message.reserved_range:
            yield f"reserved {_range(each_range.start, each_range.end - 1, _MOST_FIELD - 1)};"
        for name in message.reserved_name:
            yield f"reserved {json.dumps(name)};"
        for nested in message.nested_type:
            if nested.name not in entries and nested.name not in groups:
                yield from self.message(nested)
        for enum in message.enum_type:
            yield from self.enum(enum)
        yield from self.extensions(message.extension)

    def _field(
        self,
        field: FieldDescriptorProto,
        nested_types: dict[str, DescriptorProto],
        entries: dict[str, DescriptorProto],
        *,
        in_oneof: bool = False,
    ) -> list[str]:
        end = self._end(field)
        entry = entries.get(field.type_name.rpartition(".")[2]) if field.type == MESSAGE else None
        if entry is not None:
            key, value = (_type(each) for each in entry.field)
            return [f"map<{key}, {value}> {field.name} = {field.number}{end};"]
        label = "" if in_oneof else self._label(field)
        if field.type == GROUP:
            name = field.type_name.rpartition(".")[2]
            nested = nested_types.get(name)
            if nested is None:
                raise SchemaProblem(f"the group {name} cannot be written as text: register the text")
            body = [f"  {line}" for line in self._body(nested)]
            return [f"{label}group {name} = {field.number}{end} {{", *body, "}"]
        return [f"{label}{_type(field)} {field.name} = {field.number}{end};"]

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == 1 and self._is_proto3 and not field.proto3_optional:
            return ""
        return f"{LABELS[field.label]} "

    def _end(self, field: FieldDescriptorProto) -> str:
        found = []
        if field.HasField("default_value"):
            found.append(f"default = {_default(field)}")
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            found.append(f"json_name = {json.dumps(field.json_name)}")
        found += [f"{name} = {value}" for name, value in _options(field.options)]
        return f" [{', '.join(found)}]" if found else ""

    def enum(self, enum: EnumDescriptorProto) -> list[str]:
        lines = [f"enum {enum.name} {{"]
        lines += [f"  option {name} = {value};" for name, value in _options(enum.options)]
        for each in enum.value:
            options = ", ".join(f"{name} = {value}" for name, value in _options(each.options))
            lines.append(f"  {each.name} = {each.number}{f' [{options}]' if options else ''};")
        lines += [f"  reserved {_range(each.start, each.end, _MOST_ENUM)};" for each in enum.reserved_range]
        lines += [f"  reserved {json.dumps(name)};" for name in enum.reserved_name]
        return [*lines, "}"]

    def extensions(self, found: Any) -> list[str]:
        lines: list[str] = []
        for field in found:
            lines += [f"extend {field.extendee} {{", *(f"  {line}" for line in self._field(field, {}, {})), "}"]
        return lines


def _type(field: FieldDescriptorProto) -> str:
    return SCALARS.get(field.type) or field.type_name


def _default(field: FieldDescriptorProto) -> str:
    if field.type == 12:
        return f'"{field.default_value}"'  # It is escaped already.
    return json.dumps(field.default_value, ensure_ascii=False) if field.type == 9 else field.default_value


def _range(first: int, last: int, most: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last >= most else last}"


def _json_name(name: str) -> str:
    """What the compiler makes of a field's name."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _options(options: Any) -> Iterator[tuple[str, str]]:
    """Names and values of the options that are set. Raises SchemaProblem for those that this process does not know."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    if len(UnknownFieldSet(options)) or len(options.uninterpreted_option):
        raise SchemaProblem("a descriptor with options of your own cannot be written as text: register the text")
    for field, value in options.ListFields():
        if field.name == "map_entry":
            continue
        if field.is_extension or field.message_type is not None or isinstance(value, (list, tuple)):
            raise SchemaProblem(f"the option {field.name} cannot be written as text: register the text")
        if field.enum_type is not None:
            yield field.name, field.enum_type.values_by_number[value].name
        elif isinstance(value, bool):
            yield field.name, str(value).lower()
        elif isinstance(value, str):
            yield field.name, json.dumps(value, ensure_ascii=False)
        else:
            yield field.name, str(value)
