"""What to do about a setting that a broker refuses, in words of this program.

Decides what is added to the broker's own message, which is Kafka's and names types of Java. Must not know commands.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kavka.config.setting import AnySetting

NAMES = (
    "`kavka configs describe --all`, with --topic NAME, --group NAME or --broker ID, shows names, values and meanings"
)


class Hint(NamedTuple):
    """What went wrong, and the next step."""

    problem: str
    next_step: str


def setting_hint(message: str) -> Hint | None:
    """For a message of a broker, kavka's or Apache Kafka's, about a setting; None where it is about something else."""
    if found := re.search(r"Cannot update these configs dynamically: (?:Set|HashSet|List)\((.+?)\)", message):
        names = found[1]
        verb = "cannot" if "," not in names else "cannot all"
        return Hint(
            f"{names} {verb} be changed while the broker runs",
            "set it in the broker's file, or with --set where it is started, and start it again",
        )
    if re.match(r"Logger \S+ does not exist|Cannot set the log level of ", message):
        return Hint(message, "`kavka configs describe --broker-logger ID` shows all loggers; levels are TRACE to FATAL")
    if found := re.search(r"Unknown topic config name: (\S+)", message):
        return Hint(f"there is no setting {found[1]} of topics", _elsewhere(found[1]) or _meant(found[1]))
    if found := re.search(r"Unknown group config name: (\S+)", message):
        return Hint(f"there is no setting {found[1]} of groups", _group_setting_meant(found[1]))
    if re.search(
        r"(?:Unexpected|Unknown|Unsupported) resource type:? (?:GROUP|UNKNOWN|32)\b"
        r"|^configuration of group '.*': This most likely occurs because of a request being malformed",  # 3.9.2
        message,
    ):
        return Hint("this cluster has no settings of groups", "kavka has them, and Apache Kafka from 4.0 on")
    if found := re.search(r"Invalid value (.*) for configuration (\S+?)(?:: (.*))?$", message, re.DOTALL):
        return _value_hint(found[2], found[1], found[3] or "not allowed")
    return None


def _value_hint(name: str, value: str, why: str) -> Hint | None:
    """For a setting that was given a value it does not take; None where the setting is not known here."""
    row = _row(name)
    if row is None:
        return None
    if (bounds := _bounds(name)) and why.startswith("Value must be at least") and " and at most " in why:
        return Hint(f"{name}={value}: {why}", f"the brokers' {bounds}")
    if why.startswith("Not a number of type"):
        why = "out of range" if re.fullmatch(r"[+-]?\d+", value.strip()) else "not a number"
    return Hint(f"{name}={value}: {why}", f"{name} takes {_takes(row)}")


def unknown_note(name: str) -> str | None:
    """What to say of a broker's setting that kavka does not know; None of one that it knows."""
    from kavka.config.broker import setting_named

    if setting_named(name) is not None:
        return None
    if _is_of_groups(name):
        return f"{name} is a setting of groups: name one with --group."
    close = _similar(name)
    return f"kavka knows no setting {name}" + (f"; did you mean {close}?" if close else ".")


def _elsewhere(name: str) -> str | None:
    """Where a setting that topics do not have belongs; None for one that neither groups nor brokers have."""
    from kavka.config.broker import setting_named
    from kavka.config.topic import TopicSetting, TopicSettings

    for row in TopicSettings.rows.values():
        if isinstance(row, TopicSetting) and row.broker_setting == name:
            return f"it is the brokers' default for {row.name}, which topics have"
    if _is_of_groups(name):
        return "it is a setting of groups: name one with --group"
    return None if setting_named(name) is None else "it is a setting of brokers: name one with --broker"


def _group_setting_meant(name: str) -> str:
    """The next step for a setting that groups do not have."""
    from kavka.config.broker import setting_named
    from kavka.config.group import GroupSettings
    from kavka.config.similar import similar_name
    from kavka.config.topic import TopicSettings

    if _is_of_groups(name.removeprefix("group.")):
        return f"the brokers' default is {name}; a group's own is {name.removeprefix('group.')}"
    if name in TopicSettings.rows:
        return "it is a setting of topics: name one with --topic"
    if setting_named(name) is not None:
        return "it is a setting of brokers: name one with --broker"
    close = similar_name(name, GroupSettings.rows)
    return f"did you mean {close}? {NAMES}" if close else NAMES


def _is_of_groups(name: str) -> bool:
    from kavka.config.group import GroupSettings

    return name in GroupSettings.rows


def _bounds(name: str) -> str:
    """What bounds a setting of groups in the brokers' files; "" for one that they do not bound."""
    from kavka.config.broker_settings import BrokerSettings

    kind, _, rest = name.partition(".")
    low, high = (f"group.{kind}.{end}.{rest.removeprefix('num.')}" for end in ("min", "max"))
    found = [each for each in (low, high) if _is_of_groups(name) and each in BrokerSettings.rows]
    return f"{' and '.join(found)} {'set these bounds' if len(found) > 1 else 'sets this bound'}" if found else ""


def _meant(name: str) -> str:
    close = _similar(name)
    return f"did you mean {close}? {NAMES}" if close else NAMES


def _similar(name: str) -> str | None:
    from kavka.config.broker_settings import BrokerSettings
    from kavka.config.similar import similar_name
    from kavka.config.topic import TopicSettings

    return similar_name(name, [*TopicSettings.rows, *BrokerSettings.rows])


def _row(name: str) -> AnySetting | None:
    from kavka.config.broker import setting_named
    from kavka.config.group import GroupSettings
    from kavka.config.topic import TopicSettings

    return TopicSettings.rows.get(name) or GroupSettings.rows.get(name) or setting_named(name)


def _takes(row: AnySetting) -> str:
    from kavka.config.setting import Between, OneOf, Type

    valid = row.valid
    if row.kind in _BITS:
        span = 1 << (_BITS[row.kind] - 1)
        low, high, extra = -span, span - 1, ""
        if isinstance(valid, Between):
            low, high = (
                int(valid.low if valid.low is not None else low),
                int(valid.high if valid.high is not None else high),
            )
            extra = f", or {valid.extra}" if valid.extra is not None else ""
        return f"a whole number from {low} to {high}{extra}"
    if isinstance(row.valid, OneOf):
        return f"{'some' if row.kind is Type.LIST else 'one'} of {', '.join(row.valid.names)}"
    kind = {Type.DOUBLE: "a number", Type.BOOLEAN: "true or false", Type.LIST: "a list, separated by commas"}
    return kind.get(row.kind, "text") + (f", in {row.valid}" if row.valid is not None else "")


_BITS = {3: 32, 5: 64, 4: 16}
"""Of Kafka's INT, LONG and SHORT."""
