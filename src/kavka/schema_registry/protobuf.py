"""ProtobufSchema: a .proto file with what it imports, as the registry compares it.

Decides what is a schema of Protobuf: the text of a file, or its descriptor in base64, as Python's client sends it. Must
not know whether two fit (proto_compatibility.py).

A text is kept as it came, with its comments; a descriptor as proto_text.py writes it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kavka.schema_registry.proto_compiler import compile_proto
from kavka.schema_registry.proto_text import ENUM, GROUP, LABELS, MESSAGE, SCALARS, proto_text
from kavka.schema_registry.schemas import ParsedSchema, SchemaProblem

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

ENUM_WORD: Final = "enum"


@dataclass(slots=True, eq=False)
class ProtoField:
    """A field. label: required, optional, repeated, or empty where the text has none. scalar: the word for its type,
    or enum; message: of what type it is, by its whole name; key, value: of a map."""

    number: int
    name: str
    label: str = ""
    scalar: str = ""
    message: str = ""
    key: ProtoField | None = None
    value: ProtoField | None = None
    oneof: str = ""


@dataclass(slots=True, eq=False)
class ProtoMessage:
    """A message. name: within its package; is_own: not imported."""

    name: str
    package: str
    is_own: bool
    fields: dict[int, ProtoField] = field(default_factory=dict)
    nested: tuple[ProtoMessage, ...] = ()


class ProtobufSchema:
    """Made by `parse`. messages: all, by whole names; own: those of the file itself, without nested ones."""

    def __init__(self, text: str, files: list[FileDescriptorProto]) -> None:
        self.text = text
        self._file = files[-1]
        self.package = self._file.package
        self.messages: dict[str, ProtoMessage] = {}
        self.own: tuple[ProtoMessage, ...] = ()
        for each in files:
            is_own = each is self._file
            is_proto3 = each.syntax == "proto3"
            made = tuple(
                self._message(found, "", each.package, is_own=is_own, is_proto3=is_proto3)
                for found in each.message_type
            )
            if is_own:
                self.own = made

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str], *, is_new: bool) -> ProtobufSchema:
        """Raises SchemaProblem."""
        descriptor = _descriptor(text)
        if descriptor is not None:
            try:
                text = proto_text(descriptor)
            except (ValueError, LookupError) as problem:
                raise SchemaProblem(f"the descriptor contradicts itself: {problem}") from problem
        return cls(text, compile_proto(text, references))

    def normalized(self) -> str:
        return proto_text(self._file)

    def formatted(self, form: str) -> str | None:
        """serialized: the descriptor of the file, in base64."""
        return base64.b64encode(self._file.SerializeToString()).decode() if form == "serialized" else None

    def misfits(self, written: ParsedSchema) -> list[str]:
        from kavka.schema_registry.proto_compatibility import misfits

        assert isinstance(written, ProtobufSchema)
        return [str(each) for each in misfits(self, written)]

    def _message(
        self, found: DescriptorProto, above: str, package: str, *, is_own: bool, is_proto3: bool
    ) -> ProtoMessage:
        name = f"{above}.{found.name}" if above else found.name
        made = ProtoMessage(name, package, is_own)
        self.messages[f".{package}.{name}" if package else f".{name}"] = made
        entries = {each.name: each for each in found.nested_type if each.options.map_entry}
        made.fields = {each.number: _field(each, found, entries, is_proto3=is_proto3) for each in found.field}
        made.nested = tuple(
            self._message(each, name, package, is_own=is_own, is_proto3=is_proto3)
            for each in found.nested_type
            if each.name not in entries
        )
        return made


def _field(
    found: FieldDescriptorProto, message: DescriptorProto, entries: Mapping[str, DescriptorProto], *, is_proto3: bool
) -> ProtoField:
    made = ProtoField(found.number, found.name)
    if found.HasField("oneof_index") and not found.proto3_optional:
        made.oneof = message.oneof_decl[found.oneof_index].name
    elif found.label != 1 or not is_proto3 or found.proto3_optional:
        made.label = LABELS[found.label]
    entry = entries.get(found.type_name.rpartition(".")[2]) if found.type == MESSAGE else None
    if entry is not None:
        made.label = ""
        made.key, made.value = (_field(each, entry, {}, is_proto3=True) for each in entry.field)
    elif found.type in (MESSAGE, GROUP):
        made.message = found.type_name
    else:
        made.scalar = ENUM_WORD if found.type == ENUM else SCALARS[found.type]
    return made


def _descriptor(text: str) -> FileDescriptorProto | None:
    """What a text says that is a descriptor in base64; None where it is none."""
    if "{" in text or ";" in text:
        return None
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (binascii.Error, ValueError, DecodeError) as problem:
        raise SchemaProblem(
            f"this is neither the text of a .proto file nor its descriptor in base64: {problem}"
        ) from problem
    return found
