"""SetConfig: one setting of a topic or a broker, in a form made for its type.

Decides what the form asks for. What happens then is as for all settings together (actions/topics.py). Must not know
pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka.client.admin import (
    Admin,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)
from kavka.console.actions.action import ActionRefused, Field, Values, text, topic_field
from kavka.console.actions.topics import AlterConfig, is_own, own_source
from kavka.console.look.setting_rows import NONE, REFUSED, START, SettingRow, row_of

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch

_KINDS = {"int": "number", "short": "number", "long": "number", "double": "decimal"}


class SetConfig(AlterConfig):
    """Sets one setting, or takes its own value away, so that what it inherits counts again."""

    name, title, role, section = "set-config", "Change a setting", "operator", "topics"

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        if not any(values.get(name) for name in ("topic", "broker")):
            return await self._of_any(watch, values)
        resource = self._resource(values)
        if not values.get("setting"):
            return (*self._which(values), *_name_and_value(values, await self._entries(watch, resource)))
        setting = text(values, "setting", "the setting's name")
        entry = self._entry(setting, await self._entries(watch, resource))
        row = row_of(entry, own_source(resource))
        self._check(row)
        value = values.get("value", row.value if not row.is_sensitive else "")
        fields = [
            *self._which(values),
            Field("setting", "", "hidden", setting),
            Field("meaning", "", "note", row.meaning),
            Field("facts", "", "facts", choices=_facts(row)),
            _typed(row, value),
        ]
        if is_own(entry, resource):
            label = "Remove its own value, so that it inherits one again"
            fields.append(Field("reset", label, "box", values.get("reset", "")))
        return fields

    async def _of_any(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        """Which topic is typed, too; or which broker, where the address asks for one."""
        if "broker" in values:
            of = Field("broker", "Broker", "text", "", "A number, or all.", required=True, suggests="brokers")
            some = [(ResourceType.BROKER, str(broker.broker_id)) for broker in watch.snapshot.alive_brokers]
        else:
            of = topic_field(values)
            some = [(ResourceType.TOPIC, name) for name in watch.snapshot.topics]
        # All topics have settings of the same names, and so have all brokers: one tells them.
        entries = await self._entries(watch, ConfigResource(*some[0])) if some else []
        return (of, *_name_and_value(values, entries))

    def link(self, base: str, values: Values) -> str:
        return f"{super().link(base, values)}/settings" if values.get("broker") != "all" else super().link(base, values)

    async def _entries(self, watch: ClusterWatch, resource: ConfigResource) -> list[ConfigEntry]:
        found = await Admin(watch.cluster).describe_configs(
            [resource], include_synonyms=True, include_documentation=True
        )
        return found[resource]

    def _changes(self, values: Values, entries: Sequence[ConfigEntry], resource: ConfigResource) -> list[ConfigChange]:
        entry = self._entry(text(values, "setting", "the setting's name"), entries)
        self._check(row_of(entry, own_source(resource)))
        if values.get("reset"):
            return [ConfigChange(entry.name, None, ConfigOperation.DELETE)] if is_own(entry, resource) else []
        value = values.get("value", "").strip()
        if is_own(entry, resource) and not entry.is_sensitive and value == (entry.value or ""):
            return []
        return [ConfigChange(entry.name, value)]

    def _entry(self, setting: str, entries: Sequence[ConfigEntry]) -> ConfigEntry:
        found = next((entry for entry in entries if entry.name == setting), None)
        if found is None:
            raise ActionRefused(f"there is no setting {setting[:100]}")
        return found

    def _check(self, row: SettingRow) -> None:
        if row.effect == START:
            raise ActionRefused(f"{row.name} counts at start only: set it in the broker's file, and restart the broker")
        if row.effect in (NONE, REFUSED):
            raise ActionRefused(f"{row.name} has no effect here, or takes no value but its default. {row.why}".strip())


def _name_and_value(values: Values, known: Sequence[ConfigEntry]) -> Sequence[Field]:
    """For a setting that nobody has chosen yet; `known` are offered."""
    names = tuple(sorted(entry.name for entry in known if not entry.is_read_only))
    setting = values.get("setting", "")
    return (
        Field("setting", "Setting", "text", setting, choices=names, required=True, suggests="settings"),
        Field("value", "Value", "text", values.get("value", ""), required=True),
    )


def _typed(row: SettingRow, value: str) -> Field:
    if row.choices:
        known = row.choices if value in row.choices else (value, *row.choices)
        return Field("value", "Value", "choice", value, choices=known)
    return Field("value", "Value", _KINDS.get(row.type_name, "text"), value)


def _facts(row: SettingRow) -> tuple[str, ...]:
    """Names and values in turn."""
    now = f"{row.value} ({row.readable})" if row.readable else row.value
    pairs = (
        ("Setting", row.name),
        ("Now", now),
        ("From where", row.source),
        ("Default", row.default or ""),
        ("Type", row.type_name),
        ("Unit", row.unit),
        ("Allowed", row.allowed),
    )
    return tuple(word for pair in pairs if pair[1] for word in pair)
