"""SettingRow: a setting as a page shows it: value, default, source, meaning, effect; and two beside each other.

Decides what a broker's answer to DescribeConfigs says in a reader's terms, and when two values are the same. Must not
know requests or HTML.

    effect    in force    a change at run time takes effect
              start       only the broker's file says it, and it counts from the next start on
              none        kavka takes it and does nothing with it
              refused     kavka takes nothing but the default

I1  The effect is what the broker itself says of the setting, of its own version: the console's own tables give
    types and ranges, and the default where the broker has no word on it (of retention.ms, beside log.retention.hours).
I2  The value of a sensitive setting is nowhere in a row.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.admin import ConfigSource
from kavka.config.broker import setting_named
from kavka.config.documentation import effect_said, unit
from kavka.config.effect import Effect
from kavka.config.properties import parse_properties
from kavka.config.setting import OneOf, Type
from kavka.config.topic import TopicSettings
from kavka.console.look.format import duration, size
from kavka.errors import ConfigError

if TYPE_CHECKING:
    from kavka.client.admin import ConfigEntry
    from kavka.config.setting import AnySetting

IN_FORCE, START, NONE, REFUSED = "in force", "start", "none", "refused"
HIDDEN: Final = "(hidden)"
SOURCES: Final[Mapping[ConfigSource, str]] = {
    ConfigSource.TOPIC: "this topic",
    ConfigSource.DYNAMIC_BROKER: "this broker, at run time",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers, at run time",
    ConfigSource.STATIC_BROKER: "the broker's file",
    ConfigSource.DEFAULT: "default",
}
_EFFECTS: Final = {Effect.NONE: NONE, Effect.REFUSED: REFUSED, Effect.AT_START: START, Effect.IN_FORCE: IN_FORCE}
_THROTTLES: Final = (".throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second")
"""Brokers call them read-only, although they can be set at run time, and nothing else sets them."""
_TAGS: Final = re.compile(r"<[^<>]{1,200}>")
_MS: Final = {"milliseconds": 1, "seconds": 1_000, "minutes": 60_000, "hours": 3_600_000}
_NO_LIMIT: Final = 2**63 - 1
LONGEST_FILE: Final = 200_000
"""Characters of a file that a topic is compared with."""


class Inherited(NamedTuple):
    """A value that would hold without those before it. `name`: brokers may have another for it, with another unit."""

    name: str
    value: str
    source: str


class SettingRow(NamedTuple):
    """`readable` is the value in the units of people, '' where that says no more. `default` is Kafka's, None where the
    broker does not say."""

    name: str
    value: str
    readable: str
    default: str | None
    source: str
    is_own: bool
    """Set at run time for just this topic or this broker."""
    is_default: bool
    is_sensitive: bool
    can_change: bool
    effect: str
    why: str
    """Of the effect, where the broker gives a reason."""
    meaning: str
    chain: tuple[Inherited, ...]
    type_name: str
    unit: str
    allowed: str
    choices: tuple[str, ...]
    """All values that there are, where they are few."""


class Difference(NamedTuple):
    """One setting on two sides; '' for what a side does not have. how: same, differs, left or right (only there)."""

    name: str
    left: str
    right: str
    how: str
    meaning: str
    source_left: str = ""
    source_right: str = ""


def row_of(entry: ConfigEntry, own: ConfigSource) -> SettingRow:
    """own: the source of what was set for just this topic or this broker."""
    meaning, said = effect_said(_plain(entry.documentation or ""))
    is_throttle = entry.name.endswith(_THROTTLES)
    effect = START if entry.is_read_only and not is_throttle else IN_FORCE
    if said is not None:
        effect = _EFFECTS[said.effect]
    table = _table_row(entry.name)
    value = HIDDEN if entry.is_sensitive else entry.value or ""
    kinds = unit(entry.name)
    chain = tuple(
        Inherited(
            each.name,
            HIDDEN if entry.is_sensitive else each.value or "",
            SOURCES.get(each.source, each.source.name.lower()),
        )
        for each in entry.synonyms
    )
    last = next((each for each in entry.synonyms if each.source is ConfigSource.DEFAULT), None)
    default = None if last is None or entry.is_sensitive else _converted(last.value or "", unit(last.name), kinds)
    if default is None and entry.source is ConfigSource.DEFAULT and not entry.is_sensitive:
        default = value
    if default is None and table is not None and not entry.is_sensitive:
        default = table.format(table.default)
    return SettingRow(
        entry.name,
        value,
        "" if entry.is_sensitive else readable(value, kinds),
        default,
        SOURCES.get(entry.source, entry.source.name.lower()),
        entry.source is own,
        entry.source is ConfigSource.DEFAULT,
        entry.is_sensitive,
        effect == IN_FORCE,
        effect,
        "" if said is None else said.why,
        meaning,
        chain,
        _type_name(entry, table),
        kinds,
        "" if table is None or table.valid is None else str(table.valid),
        _choices(table),
    )


def _converted(value: str, unit_of_value: str, wanted: str) -> str:
    """log.retention.hours=168 is what retention.ms has for a default."""
    if unit_of_value == wanted or wanted not in _MS or unit_of_value not in _MS:
        return value
    if not value.isdecimal() or len(value) > 19:
        return value
    return str(int(value) * _MS[unit_of_value] // _MS[wanted])


def readable(value: str, kind: str) -> str:
    """604800000 of milliseconds is 7 d; '' where the number is as short."""
    if not value.removeprefix("-").isdecimal() or len(value) > 19 or int(value) < 0:
        return ""
    number = int(value)
    if number == _NO_LIMIT:
        return "no limit"
    if kind in _MS and number * _MS[kind] >= 1_000:
        return duration(number * _MS[kind])
    if kind.startswith("bytes") and number >= 1_024:
        return size(number) + ("/s" if kind.endswith("second") else "")
    return ""


def compared(left: Sequence[SettingRow], right: Sequence[SettingRow]) -> list[Difference]:
    """What each setting is on two topics or two brokers; those that differ come first."""
    ours, theirs = {row.name: row for row in left}, {row.name: row for row in right}
    found = []
    for name in sorted({*ours, *theirs}):
        one, other = ours.get(name), theirs.get(name)
        if one is None or other is None:
            how = "right" if one is None else "left"
        elif one.is_sensitive or other.is_sensitive:
            how = "hidden"
        else:
            how = "same" if is_same(name, one.value, other.value) else "differs"
        known = one or other
        assert known is not None
        found.append(
            Difference(
                name,
                "" if one is None else one.value,
                "" if other is None else other.value,
                how,
                known.meaning,
                "" if one is None else one.source,
                "" if other is None else other.source,
            )
        )
    return sorted(found, key=lambda each: each.how in ("same", "hidden"))


def compared_with_file(rows: Sequence[SettingRow], wanted: Mapping[str, str]) -> list[Difference]:
    """A topic's own settings beside those of a file. A setting that the file has and the topic inherits with the same
    value is the same. Raises ConfigError for names that the topic does not have."""
    known = {row.name: row for row in rows}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ConfigError(f"topics have no setting {', '.join(unknown[:5])}")
    found = []
    for row in rows:
        if row.name not in wanted:
            if row.is_own and not row.is_sensitive:
                found.append(Difference(row.name, row.value, "", "left", row.meaning, row.source))
            continue
        how = "same" if is_same(row.name, row.value, wanted[row.name]) else "differs"
        found.append(Difference(row.name, row.value, wanted[row.name], how, row.meaning, row.source))
    return sorted(found, key=lambda each: each.how == "same")


def is_same(name: str, one: str, other: str) -> bool:
    """Whether two texts are the same value of this setting: `a, b` and `a,b` are, `TRUE` and `true`, too."""
    if one == other:
        return True
    row = _table_row(name)
    if row is None:
        return False
    try:
        return bool(row.parse(one) == row.parse(other))
    except ConfigError:
        return False


def settings_of_file(text: str) -> dict[str, str]:
    """The settings of a file that a team keeps: lines name=value or name: value, or JSON, in which they may be inside
    `config` or `configs`, and these inside `spec`. Raises ConfigError."""
    if len(text) > LONGEST_FILE:
        raise ConfigError(f"the file has {len(text):,} characters; at most {LONGEST_FILE:,} are read")
    if not text.lstrip().startswith("{"):
        found = parse_properties(text)
        return {name: _unquoted(value.strip()) for name, value in found.items()}
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise ConfigError(f"this is not JSON: {wrong}") from None
    for inner in ("spec", "config", "configs"):
        if isinstance(told, dict) and isinstance(told.get(inner), dict):
            told = told[inner]
    if not isinstance(told, dict) or not all(map(_is_flat, told.values())):
        raise ConfigError('JSON of settings looks like {"retention.ms": 86400000}')
    return {name: _as_text(value) for name, value in told.items()}


def _is_flat(value: object) -> bool:
    """Whether it is a value, or a list of values."""
    inner = value if isinstance(value, list) else [value]
    return not any(isinstance(each, (dict, list)) for each in inner)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(_as_text, value))
    return "" if value is None else str(value)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _table_row(name: str) -> AnySetting | None:
    """The console's own knowledge of the setting: its type and its range."""
    return TopicSettings.rows.get(name) or setting_named(name)


def _type_name(entry: ConfigEntry, table: AnySetting | None) -> str:
    kind = entry.kind or (table.kind if table is not None else 0)
    return next((each.name.lower() for each in Type if each == kind), "")


def _choices(table: AnySetting | None) -> tuple[str, ...]:
    if table is None:
        return ()
    if table.kind is Type.BOOLEAN:
        return ("true", "false")
    if isinstance(table.valid, OneOf) and table.kind is not Type.LIST:
        return tuple(table.valid.names)
    return ()


def _plain(text: str) -> str:
    """Apache Kafka's documentation is HTML."""
    return " ".join(html.unescape(_TAGS.sub("", text)).split()) if "<" in text or "&" in text else text


def matching(rows: Iterable[SettingRow], wanted: str, only: str) -> list[SettingRow]:
    """Those whose name or meaning has the words, of the kind that `only` names: set, own, start, none."""
    words = wanted.lower().split()
    return [
        row
        for row in rows
        if all(word in row.name.lower() or word in row.meaning.lower() for word in words) and _is_of(row, only)
    ]


def _is_of(row: SettingRow, only: str) -> bool:
    match only:
        case "set":
            return not row.is_default
        case "own":
            return row.is_own
        case "start":
            return row.effect == START
        case "none":
            return row.effect in (NONE, REFUSED)
    return True
