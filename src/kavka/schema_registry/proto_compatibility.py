"""Whether what was written with one Protobuf schema can be read with another.

Decides that, with a reason for each place where it cannot. Fields are known by their numbers, messages by their names.

    fits          fields, messages, enums and their values that are new; fields and enums that are gone; other names of
                  fields; string and bytes; int32, int64, uint32, uint64, bool and enums; sint32 and sint64; fixed32 and
                  sfixed32; fixed64 and sfixed64; a field that leaves its oneof
    does not fit  another package; a message that is gone; required fields that are new or gone; types of other groups
                  than those; a field that is gone from a oneof whose others stay; fields that were independent in one
                  oneof; a number that was single and is repeated, or the other way round

Source: Protocol Buffers, "Updating A Message Type"; Confluent Schema Registry, "Protobuf compatibility rules", whose
Difference.Type the names of the reasons are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kavka.schema_registry.incompatibility import Incompatibility
from kavka.schema_registry.pairwise import Pairwise, settle
from kavka.schema_registry.protobuf import ENUM_WORD, ProtobufSchema, ProtoField, ProtoMessage

MOST_REASONS: Final = 50
_GROUPS: Final = (
    frozenset({"int32", "int64", "uint32", "uint64", "bool", ENUM_WORD}),
    frozenset({"sint32", "sint64"}),
    frozenset({"string", "bytes"}),
    frozenset({"fixed32", "sfixed32"}),
    frozenset({"fixed64", "sfixed64"}),
    frozenset({"float"}),
    frozenset({"double"}),
)
"""Types that are written alike."""
_TEXTS: Final = _GROUPS[2]


def misfits(reader: ProtobufSchema, writer: ProtobufSchema) -> list[Incompatibility]:
    """Why a reader with the one schema cannot read what was written with the other; empty where it can."""
    return settle(lambda pairs: _Difference(pairs, writer, reader).files())[:MOST_REASONS]


def _misfit(kind: str, path: str, text: str, about: str = "") -> Incompatibility:
    return Incompatibility.of(kind, path, text, about)


class _Difference:
    """One look at all pairs of messages."""

    def __init__(self, pairs: Pairwise[Incompatibility], old: ProtobufSchema, new: ProtobufSchema) -> None:
        self._pairs = pairs
        self._old = old
        self._new = new

    def files(self) -> list[Incompatibility]:
        found = self._all(self._old.own, self._new.own, "#")
        if self._old.package != self._new.package:
            text = f"The package was {self._old.package!r} and is {self._new.package!r} in the new schema"
            found.insert(0, _misfit("PACKAGE_CHANGED", "#/", text))
        return found

    def _all(self, old: Sequence[ProtoMessage], new: Sequence[ProtoMessage], path: str) -> list[Incompatibility]:
        after = {each.name: each for each in new}
        found: list[Incompatibility] = []
        for each in old:
            where = f"{path}/{each.name.rpartition('.')[2]}"
            if each.name in after:
                found += self._messages(each, after[each.name], where)
            else:
                found.append(_misfit("MESSAGE_REMOVED", where, f"The new schema has no message {each.name}", each.name))
        return found

    def _messages(self, old: ProtoMessage, new: ProtoMessage, path: str) -> list[Incompatibility]:
        return self._pairs.check(new, old, lambda: self._compare(old, new, path))

    def _compare(self, old: ProtoMessage, new: ProtoMessage, path: str) -> list[Incompatibility]:
        found = [*_oneofs(old, new, path)]
        staying = {each.oneof for number, each in old.fields.items() if number in new.fields}
        staying |= {each.oneof for each in new.fields.values()}
        self._pairs.take(len(old.fields) + len(new.fields))
        for number in sorted({*old.fields, *new.fields}):
            before, after = old.fields.get(number), new.fields.get(number)
            where = f"{path}/{number}"
            if before is None:
                assert after is not None
                if after.label == "required":
                    text = f"{after.name} is required in the new schema"
                    found.append(_misfit("REQUIRED_FIELD_ADDED", where, text, after.name))
            elif after is None:
                found += _gone(before, staying, path)
            else:
                found += self._fields(before, after, where)
        return found + self._all(old.nested, new.nested, path)

    def _fields(self, old: ProtoField, new: ProtoField, path: str) -> list[Incompatibility]:
        if _kind(old) != _kind(new):
            text = f"{new.name} was a {_kind(old)} and is a {_kind(new)} in the new schema"
            return [_misfit("FIELD_KIND_CHANGED", path, text, new.name)]
        if old.scalar:
            return self._scalars(old, new, path)
        if old.message:
            return self._named(old, new, path)
        assert old.key is not None
        assert old.value is not None
        assert new.key is not None
        assert new.value is not None
        return self._fields(old.key, new.key, f"{path}/key") + self._fields(old.value, new.value, f"{path}/value")

    def _scalars(self, old: ProtoField, new: ProtoField, path: str) -> list[Incompatibility]:
        group = next(each for each in _GROUPS if old.scalar in each)
        if new.scalar not in group:
            text = f"{new.name} was {old.scalar} and is {new.scalar} in the new schema"
            return [_misfit("FIELD_SCALAR_KIND_CHANGED", path, text, new.name)]
        if old.label and new.label and old.label != new.label and group is not _TEXTS:
            text = f"{new.name} was {old.label} and is {new.label} in the new schema"
            return [_misfit("FIELD_NUMERIC_LABEL_CHANGED", path, text, new.name)]
        return []

    def _named(self, old: ProtoField, new: ProtoField, path: str) -> list[Incompatibility]:
        before, after = self._old.messages.get(old.message), self._new.messages.get(new.message)
        names = (before.name if before else old.message, after.name if after else new.message)
        if names[0] != names[1]:
            text = f"{new.name} was of type {names[0]} and is of type {names[1]} in the new schema"
            return [_misfit("FIELD_NAMED_TYPE_CHANGED", path, text, new.name)]
        if before is None or after is None or (before.is_own and after.is_own):
            return []  # What the file itself declares is compared where it stands.
        found = self._messages(before, after, path)
        text = f"The type {names[1]} of {new.name} does not read what was written"
        return [*found, _misfit("FIELD_NAMED_TYPE_CHANGED", path, text, new.name)] if found else []


def _kind(found: ProtoField) -> str:
    return "scalar" if found.scalar else "message" if found.message else "map"


def _gone(gone: ProtoField, staying: Collection[str], path: str) -> list[Incompatibility]:
    """staying: oneofs of which at least a field is left."""
    if gone.oneof:
        if gone.oneof not in staying:
            return []  # The whole oneof is gone.
        text = f"{gone.name} is gone from the oneof {gone.oneof}, whose other fields stay"
        return [_misfit("ONEOF_FIELD_REMOVED", f"{path}/{gone.oneof}/{gone.number}", text, gone.name)]
    if gone.label == "required":
        text = f"{gone.name} was required and is gone"
        return [_misfit("REQUIRED_FIELD_REMOVED", f"{path}/{gone.number}", text, gone.name)]
    return []


def _oneofs(old: ProtoMessage, new: ProtoMessage, path: str) -> Iterator[Incompatibility]:
    """Fields that could be set together before, and exclude each other now."""
    members: dict[str, list[ProtoField]] = {}
    for each in new.fields.values():
        if each.oneof:
            members.setdefault(each.oneof, []).append(each)
    for name, fields in members.items():
        before = [old.fields[each.number] for each in fields if each.number in old.fields]
        origins = {f"oneof {each.oneof}" if each.oneof else f"field {each.number}" for each in before}
        if len(origins) < 2:
            continue
        moved = sum(not each.oneof for each in before)
        kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if moved > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
        yield _misfit(kind, f"{path}/{name}", f"Fields that were independent exclude each other in {name}", name)
