"""Messages made up from their tables: for tests of the codec, comparison with Kafka's classes, fuzzing of a broker.

The same `random` gives the same message, so that a sample can be named by a seed.

I1. A sample can be encoded in the version it was made for, and decoding gives back an equal message: what the version
    does not carry has its default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from kavka.errors import InvariantViolation
from kavka.protocol.schema import ZERO_UUID, Field, Message, Struct

__all__ = ["Dice", "sample"]

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Struct)
T = TypeVar("T")

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
LETTERS = "abcdefghijklmnopqrstuvwxyz-._0123456789 ÄßéЖ語\u0000\U0001f600"
"""One, two, three and four bytes of UTF-8."""
LONG = 130
"""A length whose varint has two bytes."""
COMMON = 0.96
"""The share of values that are short. Low draws give small messages, so that a search for a small one ends there."""
NULL = 0.25
"""The share of nullable values that are null, and of tagged ones that are absent."""


class Dice(Protocol):
    """Where chance comes from: a `random.Random`, or what a test library puts in its place."""

    def random(self) -> float: ...
    def choice(self, seq: Sequence[T]) -> T: ...
    def randint(self, a: int, b: int) -> int: ...
    def getrandbits(self, k: int, /) -> int: ...


def sample(message_type: type[M], version: int, random: Dice) -> M:
    """A message with made-up values in every field that `version` carries."""
    return _struct(message_type, version, random)


def _struct(struct_type: type[S], version: int, random: Dice) -> S:
    made = struct_type()
    for field in struct_type._fields:
        if version in field.versions:
            setattr(made, field.name, _value(field, version, random))
    return made


def _value(field: Field, version: int, random: Dice) -> Any:
    tagged = version in field.tagged
    if tagged and random.random() < NULL:
        return field.new_default()
    if version in field.nullable and random.random() < NULL:
        return None
    match field.kind:
        case "struct":
            made = _struct(field.struct, version, random)
            # A tagged struct that is all defaults is not written, so that it would come back as None.
            absent = (
                tagged and field.default is None and field.default_factory is None and version not in field.nullable
            )
            return None if absent and made == field.struct() else made
        case "array":
            return _array(field, version, random)
        case kind:
            return _scalar(kind, random)


def _array(field: Field, version: int, random: Dice) -> list[Any]:
    if isinstance(field.element, type):
        return [_struct(field.element, version, random) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    count = LONG if random.random() >= COMMON else random.choice((0, 1, 2, 3))
    return [_scalar(field.element, random) for _ in range(count)]


def _scalar(kind: str, random: Dice) -> Any:
    if kind in INTEGERS:
        low, high = INTEGERS[kind]
        return random.choice((low, high, 0, 1, random.randint(low, high)))
    match kind:
        case "bool":
            return random.random() < 0.5
        case "float64":
            return random.choice((0.0, -1.5, 1e300, random.randint(-1_000_000, 1_000_000) / 64))
        case "uuid":
            return random.choice((ZERO_UUID, UUID(int=random.getrandbits(128))))
        case "string":
            return "".join(random.choice(LETTERS) for _ in range(_length(random)))
        case "bytes":
            return bytes(random.getrandbits(8) for _ in range(_length(random)))
        case "records":
            return memoryview(bytes(random.getrandbits(8) for _ in range(_length(random))))
    raise InvariantViolation(f"no samples of the wire type {kind}")


def _length(random: Dice) -> int:
    return LONG if random.random() >= COMMON else random.choice((0, 1, 2, 7))
