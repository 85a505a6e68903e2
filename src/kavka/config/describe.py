"""What DescribeConfigs answers: every setting of a topic, a broker or a group, with its value and where it comes from.

Decides values, sources, synonyms and their order. Must not know requests or znodes: whether a topic exists is for the
caller. Documentation is looked up only when asked (`topic_documentation`, ...).

I1. An entry's source is that of its first synonym, DEFAULT_CONFIG where there is none.
I2. A password's value never leaves, neither as value nor in a synonym.

Synonyms stand in the order of power: the resource's own override, then for each of the broker's settings of the same
purpose what was set at run time for this broker, at run time for all, in the file, and the default. All before the
setting's own name are left out, as Kafka does: so `log.roll.ms` that nobody set shows no synonyms although
`log.roll.hours` decides.

Where kavka differs from 3.9 on purpose: a setting in the file keeps its value in the answer while a stronger synonym is
set at run time (Kafka answers null for `log.retention.minutes` once `log.retention.ms` is set at run time).

Source: Kafka's ConfigHelper of 3.9, asked of a running broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import NamedTuple

from kavka.config.broker import BrokerConfig, setting_named, synonyms
from kavka.config.broker_settings import BrokerSettings
from kavka.config.group import ClientMetricsSettings, GroupSettings
from kavka.config.setting import UNKNOWN_TYPE, AnySetting, Settings
from kavka.config.topic import TopicSetting, TopicSettings, effective_values


class ConfigSource(IntEnum):
    """Where a value comes from, with Kafka's codes."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """A setting that could decide a value, and what it is set to; the value is None where it is a password."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting of a described resource, as DescribeConfigs answers it."""

    name: str
    value: str | None
    """None where there is none, and where it is a password."""
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type_code: int
    """Kafka's code of the type, 0 for a name that no table has."""
    synonyms: tuple[Synonym, ...]

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


def describe_topic(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Settings of a topic with these overrides; only those in `names`, where there are any."""
    values = effective_values(overrides, broker)
    entries: list[ConfigEntry] = []
    for name, row in TopicSettings.rows.items():
        if names and name not in names:
            continue
        value = row.format(values[name])
        chain = _own(name, value, overrides, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        if isinstance(row, TopicSetting) and row.broker_setting:
            chain += broker_synonyms(row.broker_setting, broker)
        entries.append(_entry(name, value, row, chain, read_only=False))
    return entries


def describe_broker(broker: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Settings of a broker, those of no table that its file or a change at run time holds included."""
    entries: list[ConfigEntry] = []
    given = {**broker.static, **broker.dynamic_default, **broker.dynamic}
    for row, value in broker.items():
        if (not names or row.name in names) and (row.name in given or not row.internal):
            entries.append(_broker_entry(row.name, row.format(value), broker_synonyms(row.name, broker)))
    for name, text in given.items():
        if (not names or name in names) and name not in broker.rows:
            entries.append(_broker_entry(name, text, broker_synonyms(name, broker)))
    return entries


def describe_broker_default(broker: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """What is set at run time as the default of all brokers: the answer for the broker resource without a name."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    entries: list[ConfigEntry] = []
    for name, text in broker.dynamic_default.items():
        if not names or name in names:
            chain = tuple(synonym for synonym in broker_synonyms(name, broker) if synonym.source is source)
            entries.append(_broker_entry(name, text, chain))
    return entries


def describe_group(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Settings of a group: its overrides, else the broker's `group.` settings."""
    entries: list[ConfigEntry] = []
    for name, row in GroupSettings.rows.items():
        if not names or name in names:
            chain = _own(name, overrides.get(name), overrides, ConfigSource.DYNAMIC_GROUP_CONFIG)
            if f"group.{name}" in broker.rows:
                chain += broker_synonyms(f"group.{name}", broker)
            else:
                chain += (Synonym(name, row.format(row.default), ConfigSource.DEFAULT_CONFIG),)
            value = chain[0].value if chain else row.format(row.default)
            entries.append(_entry(name, value, row, chain, read_only=False))
    return entries


def describe_client_metrics(overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Settings of a subscription to clients' metrics."""
    entries: list[ConfigEntry] = []
    for name, row in ClientMetricsSettings.rows.items():
        if not names or name in names:
            value = overrides.get(name, row.format(row.default))
            chain = _own(name, value, overrides, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)
            entries.append(_entry(name, value, row, chain, read_only=False))
    return entries


def broker_synonyms(name: str, broker: BrokerConfig) -> tuple[Synonym, ...]:
    """What can decide the broker's setting `name`, the strongest first."""
    names = synonyms(name)
    row = setting_named(name)
    hidden = row is None or row.sensitive
    layers = (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, broker.dynamic),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, broker.dynamic_default),
        (ConfigSource.STATIC_BROKER_CONFIG, broker.static),
        (ConfigSource.DEFAULT_CONFIG, _defaults(names, broker)),
    )
    chain = [
        Synonym(each, None if hidden else texts[each], source)
        for source, texts in layers
        for each in names
        if each in texts
    ]
    first = next((index for index, synonym in enumerate(chain) if synonym.name == name), len(chain))
    return tuple(chain[first:])


def topic_documentation(name: str) -> str | None:
    """What a topic's setting is for, in a sentence or two; None where no table has it."""
    return _documentation(name, TopicSettings)


def broker_documentation(name: str) -> str | None:
    """What a broker's setting is for, also one given for a single listener; None where no table has it."""
    return _documentation(synonyms(name)[-1] if name.startswith("listener.name.") else name, BrokerSettings)


def group_documentation(name: str) -> str | None:
    """What a group's setting is for; None where no table has it."""
    return _documentation(name, GroupSettings)


def client_metrics_documentation(name: str) -> str | None:
    """What a setting of a metrics subscription is for; None where no table has it."""
    return _documentation(name, ClientMetricsSettings)


def _documentation(name: str, table: type[Settings]) -> str | None:
    # late: 40 KB that a broker needs only when it is asked
    from kavka.config.documentation import documentation, in_force

    text = documentation(name, table)
    return f"{text} {in_force(name, table)}".rstrip() or None


def _defaults(names: Collection[str], broker: BrokerConfig) -> dict[str, str]:
    texts = ((name, row.format(row.default)) for name in names if (row := broker.rows.get(name)))
    return {name: text for name, text in texts if text is not None}


def _own(name: str, value: str | None, overrides: Mapping[str, str], source: ConfigSource) -> tuple[Synonym, ...]:
    return (Synonym(name, value, source),) if name in overrides else ()


def _broker_entry(name: str, value: str | None, chain: tuple[Synonym, ...]) -> ConfigEntry:
    row = setting_named(name)
    read_only = row is None or row.read_only or row.name != name
    return _entry(name, value, row, chain, read_only=read_only or name.startswith(_THROTTLES))


def _entry(
    name: str, value: str | None, row: AnySetting | None, chain: tuple[Synonym, ...], *, read_only: bool
) -> ConfigEntry:
    hidden = row is None or row.sensitive
    source = chain[0].source if chain else ConfigSource.DEFAULT_CONFIG
    text = None if hidden else value
    return ConfigEntry(name, text, source, read_only, hidden, row.kind if row else UNKNOWN_TYPE, chain)


_THROTTLES = ("leader.replication.", "follower.replication.", "replica.alter.log.dirs.io.")
"""Kafka calls a reassignment's throttles read-only, although nothing but a change at run time can set them."""
