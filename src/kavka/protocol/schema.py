"""What a message looks like: its fields, their wire types, and the versions in which each of them exists.

A message module is a list of classes below `Struct`, one line per field:

    transactional_id: str | None = string("3+", nullable="3+", default=None)

The line says the Python type, the wire type, the versions that carry the field, those in which it may be null and the
value it has where a version does not carry it. A tagged field (KIP-482) has a `tag`. Classes have slots and are made
cheaply: `__init__` is only built when a class is first called, because decoding never calls it.

This module knows nothing of bytes: compiler.py turns these tables into functions.

I1. The order of the fields in a class is their order on the wire, in every version that carries them.
I2. A field that a version does not carry has its default after decoding.

Source: KIP-482 (flexible versions and tagged fields); the field tables are those of Kafka's own message classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias, dataclass_transform
from uuid import UUID

from kavka.model import Chunk

ZERO_UUID = UUID(int=0)
"""Kafka's null for ids: a uuid is never null on the wire."""

Records: TypeAlias = Chunk | Sequence[Chunk]
"""Record batches. Decoded: a memoryview onto the request. To encode: bytes, a slice of a file, or several of those."""

INT32_MAX = 2**31 - 1

_NEW: Any = object()
"""Stands in a signature for "a new list" or "a new struct": those must not be shared between two messages."""


class Versions:
    """A set of versions as Kafka writes it: `3`, `0-8`, `4+`, and `0-2,5+` where there is a gap."""

    __slots__ = ("ranges", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.ranges = tuple(_parse_range(part) for part in text.split(",")) if text else ()

    def __contains__(self, version: int) -> bool:
        return any(low <= version <= high for low, high in self.ranges)

    def __repr__(self) -> str:
        return f"Versions({self.text!r})"

    @property
    def lowest(self) -> int:
        return self.ranges[0][0]

    @property
    def highest(self) -> int:
        return self.ranges[-1][1]


def _parse_range(text: str) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), INT32_MAX
    low, _, high = text.partition("-")
    return int(low), int(high or low)


class Field:
    """One field of a struct. `name` is given by the class that holds it.

    `kind` is the wire type (`int8` ... `uuid`, `string`, `bytes`, `records`, `struct`, `array`). `element` is what an
    array holds: a wire type or a struct class; for a `struct` it is that class.
    """

    __slots__ = (
        "default",
        "default_factory",
        "element",
        "flexible",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self,
        kind: str,
        versions: str,
        *,
        default: object = None,
        default_factory: Callable[[], object] | None = None,
        element: str | type[Struct] = "",
        nullable: str = "",
        tag: int | None = None,
        tagged: str = "",
        ignorable: bool = False,
        flexible: bool = True,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = Versions(versions)
        self.default = default
        self.default_factory = default_factory
        self.element = element
        self.nullable = Versions(nullable)
        self.tag = tag
        self.tagged = Versions((tagged or versions) if tag is not None else "")
        self.ignorable = ignorable
        self.flexible = flexible

    @property
    def struct(self) -> type[Struct]:
        """The class of a struct, or of the structs in an array."""
        assert isinstance(self.element, type)
        return self.element

    def new_default(self) -> object:
        return self.default if self.default_factory is None else self.default_factory()


# The specifiers below return a Field, but stand for the value that the field holds, so their type is left open.


def boolean(versions: str, *, default: bool, tag: int | None = None, tagged: str = "", ignorable: bool = False) -> Any:
    return Field("bool", versions, default=default, tag=tag, tagged=tagged, ignorable=ignorable)


def int8(versions: str, *, default: int, tag: int | None = None, tagged: str = "", ignorable: bool = False) -> Any:
    return Field("int8", versions, default=default, tag=tag, tagged=tagged, ignorable=ignorable)


def int16(versions: str, *, default: int, tag: int | None = None, tagged: str = "", ignorable: bool = False) -> Any:
    return Field("int16", versions, default=default, tag=tag, tagged=tagged, ignorable=ignorable)


def uint16(versions: str, *, default: int, tag: int | None = None, tagged: str = "", ignorable: bool = False) -> Any:
    return Field("uint16", versions, default=default, tag=tag, tagged=tagged, ignorable=ignorable)


def int32(versions: str, *, default: int, tag: int | None = None, tagged: str = "", ignorable: bool = False) -> Any:
    return Field("int32", versions, default=default, tag=tag, tagged=tagged, ignorable=ignorable)


def uint32(versions: str, *, default: int, tag: int | None = None, tagged: str = "", ignorable: bool = False) -> Any:
    return Field("uint32", versions, default=default, tag=tag, tagged=tagged, ignorable=ignorable)


def int64(versions: str, *, default: int, tag: int | None = None, tagged: str = "", ignorable: bool = False) -> Any:
    return Field("int64", versions, default=default, tag=tag, tagged=tagged, ignorable=ignorable)


def float64(versions: str, *, default: float, tag: int | None = None, tagged: str = "", ignorable: bool = False) -> Any:
    return Field("float64", versions, default=default, tag=tag, tagged=tagged, ignorable=ignorable)


def uuid(versions: str, *, default: UUID, tag: int | None = None, tagged: str = "", ignorable: bool = False) -> Any:
    return Field("uuid", versions, default=default, tag=tag, tagged=tagged, ignorable=ignorable)


def string(
    versions: str,
    *,
    default: str | None,
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
    flexible: bool = True,
) -> Any:
    """UTF-8, at most 32,767 bytes. `flexible=False`: has its old encoding in flexible versions too (the client id)."""
    return Field(
        "string",
        versions,
        default=default,
        nullable=nullable,
        tag=tag,
        tagged=tagged,
        ignorable=ignorable,
        flexible=flexible,
    )


def binary(
    versions: str,
    *,
    default: bytes | None,
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
) -> Any:
    """Bytes that are copied out of the request."""
    return Field("bytes", versions, default=default, nullable=nullable, tag=tag, tagged=tagged, ignorable=ignorable)


def record_batches(
    versions: str,
    *,
    default: bytes | None,
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
) -> Any:
    """Record batches, never copied: a view onto the request when decoded, passed by reference when encoded."""
    return Field("records", versions, default=default, nullable=nullable, tag=tag, tagged=tagged, ignorable=ignorable)


def struct(
    element: type[Struct],
    versions: str,
    *,
    default: None = None,
    default_factory: Callable[[], Struct] | None = None,
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
) -> Any:
    """A struct inside a struct. A tagged one is None where its tag is absent."""
    return Field(
        "struct",
        versions,
        default=default,
        default_factory=default_factory,
        element=element,
        nullable=nullable,
        tag=tag,
        tagged=tagged,
        ignorable=ignorable,
    )


def array(
    element: str | type[Struct],
    versions: str,
    *,
    default: None = None,
    default_factory: Callable[[], list[Any]] | None = None,
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
) -> Any:
    """A list of structs, or of one wire type given by its name."""
    return Field(
        "array",
        versions,
        default=default,
        default_factory=default_factory,
        element=element,
        nullable=nullable,
        tag=tag,
        tagged=tagged,
        ignorable=ignorable,
    )


@dataclass_transform(
    field_specifiers=(
        boolean,
        int8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float64,
        uuid,
        string,
        binary,
        record_batches,
        struct,
        array,
    )
)
class StructMeta(type):
    """Turns the `Field`s of a class body into slots."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **schema: Any) -> StructMeta:
        fields: list[Field] = []
        for field_name, value in list(namespace.items()):
            if isinstance(value, Field):
                value.name = field_name
                fields.append(value)
                del namespace[field_name]
        names = tuple(field.name for field in fields)
        namespace["__slots__"] = names
        namespace["__match_args__"] = names
        namespace["_fields"] = tuple(fields)
        made = super().__new__(cls, name, bases, namespace)
        if schema:
            made._schema = Schema(name, namespace["_fields"], **schema)  # type: ignore[attr-defined]
            for functions in ("_decoders", "_encoders", "_chunk_encoders"):
                setattr(made, functions, {})
        return made


class Struct(metaclass=StructMeta):
    """A piece of a message. Made with keywords; each field has the default that Kafka gives it."""

    _fields: ClassVar[tuple[Field, ...]]

    def __init__(self, *args: object, **values: object) -> None:
        cls = type(self)
        _install_init(cls)
        cls.__init__(self, *args, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self._fields)

    __hash__ = None  # type: ignore[assignment]  # a struct is mutable

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={_brief(getattr(self, field.name))}" for field in self._fields)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A request, a response, a header, or a value that is stored in a record: what has versions of its own."""

    _schema: ClassVar[Schema]
    _decoders: ClassVar[dict[int, Callable[[Any], Any]]]
    """The functions that codec.py has had written so far, by version."""
    _encoders: ClassVar[dict[int, Callable[[Any], bytearray]]]
    _chunk_encoders: ClassVar[dict[int, Callable[[Any], list[Any]]]]


class Schema:
    """A message as a whole.

    `kind`: request, response, header, data, coordinator-key or coordinator-value. `api_key` is the API's number, for
    coordinator records the number that their key begins with, otherwise None. `flexible_from` is the first version with
    compact lengths and tagged fields, or None.
    """

    __slots__ = ("api_key", "fields", "flexible_from", "kind", "max_version", "min_version", "name")

    def __init__(
        self,
        name: str,
        fields: tuple[Field, ...],
        *,
        kind: str,
        versions: str,
        flexible: str | None = None,
        api_key: int | None = None,
    ) -> None:
        valid = Versions(versions)
        self.name = name
        self.fields = fields
        self.kind = kind
        self.api_key = api_key
        self.min_version = valid.lowest
        self.max_version = valid.highest
        self.flexible_from = None if flexible is None else Versions(flexible).lowest

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


def _install_init(cls: type[Struct]) -> None:
    """Writes the `__init__` of `cls`: straight-line, as one would by hand."""
    parameters = ["self"]
    body = []
    names: dict[str, Any] = {"new": _NEW}
    for index, field in enumerate(cls._fields):
        if field.default_factory is None:
            names[f"default_{index}"] = field.default
            parameters.append(f"{field.name}=default_{index}")
            body.append(f"    self.{field.name} = {field.name}")
        else:
            names[f"make_{index}"] = field.default_factory
            parameters.append(f"{field.name}=new")
            body.append(f"    self.{field.name} = make_{index}() if {field.name} is new else {field.name}")
    source = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or "    pass")
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), names)
    cls.__init__ = names["__init__"]  # type: ignore[method-assign]


def _brief(value: object) -> str:
    """A record batch in a log line says its size, not its bytes."""
    if isinstance(value, memoryview) or (isinstance(value, bytes | bytearray) and len(value) > 64):
        return f"<{len(value)} bytes>"
    return repr(value)
