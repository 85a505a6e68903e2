"""One setting: its name, type, default, range, importance, and when it may change.

Decides how a text becomes a value of one of Kafka's nine types and back, and whether the value is in range. Must not
know which settings there are (`broker_settings.py`, `topic.py`), nor what they are for (`documentation.py`).

A table of settings is a class whose attributes are rows:

    class Example(Settings):
        log_segment_bytes = integer(1 << 30, at_least(14), HIGH, CLUSTER_WIDE)

The row's name is the attribute's with dots for underscores, `log.segment.bytes`. A row is a *non-data* descriptor: an
instance answers `example.log_segment_bytes` with the value in its `__dict__`, else with the row's default. So a
configuration costs memory only for what was set, and building one parses only what was set.

I1. `parse(format(value)) == value` for every value that a row takes.
I2. Every refusal is an `InvalidValue` that names the setting, the value (never a password) and what is allowed.

Source: Kafka's ConfigDef (types, trimming, messages), asked of Apache Kafka 3.9.2 and 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast, overload

from kavka.errors import ConfigError

if TYPE_CHECKING:
    from typing import Protocol

T = TypeVar("T")
Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None
"""What a setting may hold: BOOLEAN bool, INT SHORT LONG int, DOUBLE float, LIST a tuple of str, the others str."""


class Type(IntEnum):
    """Kafka's types of settings, with their codes in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


UNKNOWN_TYPE = 0
"""The type code of a setting that no table has."""


class Mode(IntEnum):
    """When a broker's setting may change."""

    READ_ONLY = 0
    """Only in the file, before the start."""
    PER_BROKER = 1
    """At run time, for one broker."""
    CLUSTER_WIDE = 2
    """At run time, for one broker or as the default of all."""


class Importance(IntEnum):
    """How important the setting is to an operator."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


READ_ONLY, PER_BROKER, CLUSTER_WIDE = Mode.READ_ONLY, Mode.PER_BROKER, Mode.CLUSTER_WIDE
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
DOUBLE_MAX = 1.7976931348623157e308


class InvalidValue(ConfigError):
    """A value that the setting does not accept."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {reason}")
        self.name = name
        self.reason = reason


class Range:
    """The range that a setting's value must be in. `str` gives it in a few characters, for people."""

    __slots__ = ()

    def refusal(self, name: str, value: Any) -> tuple[object, str] | None:
        """Why `value` is out of range, with the part of it to show; None if it is in range."""
        raise NotImplementedError


class Between(Range):
    """A number in [low, high]; either bound may be missing, and one value outside them may be allowed too."""

    __slots__ = ("extra", "high", "low")

    def __init__(self, low: float | None, high: float | None, extra: int | None = None) -> None:
        self.low = low
        self.high = high
        self.extra = extra

    def refusal(self, name: str, value: float) -> tuple[object, str] | None:
        if value == self.extra and self.extra is not None:
            return None
        too_low = self.low is not None and value < self.low
        too_high = self.high is not None and value > self.high
        if self.extra is not None and (too_low or too_high):
            return value, f"Value must be between {self.low} and {self.high} or equal to {self.extra}"
        if too_low:
            return _shown(value), f"Value must be at least {self.low}"
        if too_high:
            return _shown(value), f"Value must be no more than {self.high}"
        return None

    def __str__(self) -> str:
        span = f"[{'' if self.low is None else self.low},...{'' if self.high is None else f',{self.high}'}]"
        return span if self.extra is None else f"{span} or {self.extra}"


class OneOf(Range):
    """A text, or each element of a list, must be one of a few names."""

    __slots__ = ("ignore_case", "names")

    def __init__(self, names: tuple[str, ...], *, ignore_case: bool) -> None:
        self.names = names
        self.ignore_case = ignore_case

    def refusal(self, name: str, value: str | tuple[str, ...] | None) -> tuple[object, str] | None:
        elements = (value,) if isinstance(value, str) else value or ()
        allowed = {n.lower() for n in self.names} if self.ignore_case else self.names
        for element in elements:
            if (element.lower() if self.ignore_case else element) not in allowed:
                return element, f"String must be one of: {', '.join(self.names)}"
        return None

    def __str__(self) -> str:
        return f"[{', '.join(self.names)}]"


class NotEmpty(Range):
    """A text, if there is one, must not be empty."""

    __slots__ = ()

    def refusal(self, name: str, value: str | None) -> tuple[object, str] | None:
        return ("", "String may not be empty") if value == "" else None

    def __str__(self) -> str:
        return "non-empty"


class ThrottledReplicas(Range):
    """`*`, or replicas as `partition:broker`."""

    __slots__ = ()

    def refusal(self, name: str, value: tuple[str, ...]) -> tuple[object, str] | None:
        if value == ("*",) or all(re.fullmatch(_REPLICA, element) for element in value):
            return None
        return (
            f"[{', '.join(value)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )

    def __str__(self) -> str:
        return "* or partition:broker,..."


class Release(Range):
    """A release of Kafka such as 3.0, 2.8-IV1 or 3.9.2."""

    __slots__ = ()

    def refusal(self, name: str, value: str) -> tuple[object, str] | None:
        if re.fullmatch(_RELEASE, value):
            return None
        return value, f"Version {value} is not a valid version"

    def __str__(self) -> str:
        return "0.8.0 to 4.0"


# Texts, not compiled patterns: most starts of a broker need none of them, and each costs up to 0.3 ms to compile.
_REPLICA = r"([0-9]+:[0-9]+)?"
_RELEASE = r"(?:0\.(?:8\.[0-2]|9\.0|10\.[0-2]|11\.0)|1\.[01]|2\.[0-8]|3\.[0-9]|4\.0)(?:\.[0-9]+)*(?:-IV[0-9])?"


_LAST_INTERNAL = 10
"""Of a release without -IV: above all there are."""


def release_of(text: str) -> tuple[int, int, int]:
    """What a release names, to be compared: major, minor and internal version.

    >>> release_of("2.7-IV1"), release_of("2.7") > release_of("2.7-IV2")
    ((2, 7, 1), True)
    """
    number, _, internal = text.partition("-IV")
    major, minor = number.split(".")[:2]
    return int(major), int(minor), int(internal) if internal else _LAST_INTERNAL


def at_least(low: float) -> Between:
    return Between(low, None)


def between(low: float, high: float, *, extra: int | None = None) -> Between:
    return Between(low, high, extra)


def one_of(*names: str, ignore_case: bool = False) -> OneOf:
    return OneOf(names, ignore_case=ignore_case)


class Setting(Generic[T]):
    """A row of a table of settings; `name` comes from the attribute it is assigned to."""

    __slots__ = ("attribute", "default", "importance", "internal", "kind", "mode", "name", "newer", "valid")

    def __init__(
        self,
        kind: Type,
        default: T,
        valid: Range | None = None,
        importance: Importance = MEDIUM,
        mode: Mode = READ_ONLY,
        *,
        internal: bool = False,
        newer: bool = False,
        name: str = "",
    ) -> None:
        self.kind = kind
        self.default = default
        self.valid = valid
        self.importance = importance
        self.mode = mode
        self.internal = internal
        """Kafka's tests use it. DescribeConfigs leaves it out unless it was set."""
        self.newer = newer
        """Kafka 3.9 has no such setting, 4.x has."""
        self.name = name
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = self.name or attribute.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Setting[T] | T:
        return self if instance is None else self.default

    @property
    def sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.kind is Type.PASSWORD

    @property
    def read_only(self) -> bool:
        return self.mode is READ_ONLY

    def parse(self, text: str) -> T:
        """The value of `text`. Raises `InvalidValue` for a malformed text or a value out of range."""
        value = _parse(self.name, self.kind, text)
        if self.valid is not None and (refused := self.valid.refusal(self.name, value)):
            raise InvalidValue(self.name, *refused)
        return cast(T, value)

    def format(self, value: T) -> str | None:
        """The text of `value`, as DescribeConfigs shows it; None if there is no value."""
        return format_value(cast(Value, value))

    def __repr__(self) -> str:
        return f"<{self.name} {self.kind.name} {self.default!r}>"


AnySetting: TypeAlias = Setting[Any]

if TYPE_CHECKING:  # the shapes of the functions that make rows: a default of None makes the value optional

    class _Number(Protocol):
        @overload
        def __call__(
            self,
            default: int,
            valid: Range | None = None,
            importance: Importance = MEDIUM,
            mode: Mode = READ_ONLY,
            *,
            internal: bool = False,
            newer: bool = False,
        ) -> Setting[int]: ...
        @overload
        def __call__(
            self,
            default: None,
            valid: Range | None = None,
            importance: Importance = MEDIUM,
            mode: Mode = READ_ONLY,
            *,
            internal: bool = False,
            newer: bool = False,
        ) -> Setting[int | None]: ...

    class _Text(Protocol):
        @overload
        def __call__(
            self,
            default: str,
            valid: Range | None = None,
            importance: Importance = MEDIUM,
            mode: Mode = READ_ONLY,
            *,
            internal: bool = False,
            newer: bool = False,
            name: str = "",
        ) -> Setting[str]: ...
        @overload
        def __call__(
            self,
            default: None,
            valid: Range | None = None,
            importance: Importance = MEDIUM,
            mode: Mode = READ_ONLY,
            *,
            internal: bool = False,
            newer: bool = False,
            name: str = "",
        ) -> Setting[str | None]: ...

    class _List(Protocol):
        @overload
        def __call__(
            self,
            default: str,
            valid: Range | None = None,
            importance: Importance = MEDIUM,
            mode: Mode = READ_ONLY,
            *,
            newer: bool = False,
        ) -> Setting[tuple[str, ...]]: ...
        @overload
        def __call__(
            self,
            default: None,
            valid: Range | None = None,
            importance: Importance = MEDIUM,
            mode: Mode = READ_ONLY,
            *,
            newer: bool = False,
        ) -> Setting[tuple[str, ...] | None]: ...


def boolean(
    default: bool,
    importance: Importance = MEDIUM,
    mode: Mode = READ_ONLY,
    *,
    internal: bool = False,
    newer: bool = False,
) -> Setting[bool]:
    return Setting(Type.BOOLEAN, default, None, importance, mode, internal=internal, newer=newer)


def _number(kind: Type) -> _Number:
    def row(
        default: Any,
        valid: Range | None = None,
        importance: Importance = MEDIUM,
        mode: Mode = READ_ONLY,
        *,
        internal: bool = False,
        newer: bool = False,
    ) -> Setting[Any]:
        return Setting(kind, default, valid, importance, mode, internal=internal, newer=newer)

    return row


integer = _number(Type.INT)
short = _number(Type.SHORT)
long = _number(Type.LONG)


def double(
    default: float,
    valid: Range | None = None,
    importance: Importance = MEDIUM,
    mode: Mode = READ_ONLY,
    *,
    internal: bool = False,
) -> Setting[float]:
    return Setting(Type.DOUBLE, default, valid, importance, mode, internal=internal)


def _text(kind: Type) -> _Text:
    def row(
        default: Any,
        valid: Range | None = None,
        importance: Importance = MEDIUM,
        mode: Mode = READ_ONLY,
        *,
        internal: bool = False,
        newer: bool = False,
        name: str = "",
    ) -> Setting[Any]:
        return Setting(kind, default, valid, importance, mode, internal=internal, newer=newer, name=name)

    return row


string = _text(Type.STRING)
class_name = _text(Type.CLASS)


def password(importance: Importance = MEDIUM, mode: Mode = READ_ONLY, *, newer: bool = False) -> Setting[str | None]:
    return Setting(Type.PASSWORD, None, None, importance, mode, newer=newer)


def _list(
    default: str | None,
    valid: Range | None = None,
    importance: Importance = MEDIUM,
    mode: Mode = READ_ONLY,
    *,
    newer: bool = False,
) -> Setting[Any]:
    parsed = None if default is None else parse_list(default)
    return Setting(Type.LIST, parsed, valid, importance, mode, newer=newer)


string_list = cast("_List", _list)


class Settings:
    """Base of a table of settings, and of the values of one who has set some of them."""

    rows: ClassVar[dict[str, AnySetting]] = {}
    """Every row of the table by its dotted name, in the table's order."""

    def __init_subclass__(cls) -> None:
        own = {row.name: row for row in vars(cls).values() if isinstance(row, Setting)}
        cls.rows = cls.rows | own

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """The values that `texts` sets. Raises `ConfigError` for an unknown name, `InvalidValue` for a bad value."""
        settings = cls()
        for name, text in texts.items():
            row = cls.rows.get(name)
            if row is None:
                raise ConfigError(f"Unknown config name: {name}")
            settings.__dict__[row.attribute] = row.parse(text)
        return settings

    def items(self) -> Iterator[tuple[AnySetting, Value]]:
        """Every row with its value here."""
        for row in self.rows.values():
            yield row, getattr(self, row.attribute)


def parse_list(text: str) -> tuple[str, ...]:
    """The elements of a comma-separated text, without the blanks around them; none for a blank text."""
    text = text.strip()
    return tuple(element.strip() for element in text.split(",")) if text else ()


def format_value(value: Value) -> str | None:
    """The text that stands for a value, in Kafka's (that is Java's) spelling."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _format_double(value)
        case tuple():
            return ",".join(value)


def _parse(name: str, kind: Type, text: str) -> Value:
    if kind is Type.PASSWORD:
        return text
    trimmed = text.strip()
    match kind:
        case Type.INT | Type.SHORT | Type.LONG:
            digits = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
            if not (digits.isascii() and digits.isdigit() and len(digits) <= 64):
                raise InvalidValue(name, text, f"Not a number of type {kind.name}")
            if not -(bound := _BOUNDS[kind]) - 1 <= (number := int(trimmed)) <= bound:
                raise InvalidValue(name, text, f"Not a number of type {kind.name}")
            return number
        case Type.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise InvalidValue(name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case Type.DOUBLE:
            if not re.fullmatch(_DOUBLE, trimmed):
                raise InvalidValue(name, text, "Not a number of type DOUBLE")
            return float(trimmed.rstrip("dDfF") if trimmed[-1] in "dDfF" else trimmed)
        case Type.LIST:
            return parse_list(text)
        case _:
            return trimmed


def _shown(value: float) -> object:
    return _format_double(value) if isinstance(value, float) else value


def _format_double(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{power}"


_DOUBLE = r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)"
_BOUNDS = {Type.SHORT: (1 << 15) - 1, Type.INT: INT_MAX, Type.LONG: LONG_MAX}
