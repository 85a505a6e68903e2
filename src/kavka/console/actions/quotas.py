"""SetQuota: how much a user, a client id, both, or an address may have.

Decides which limits a form means. Whose limit holds for a client is decided in `kavka.security.quota_limits`. Must not
know pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kavka.client.quota_admin import QuotaAdmin
from kavka.console.actions.action import Action, ActionRefused, Change, Field, Preview, Values, Warned, quoted
from kavka.errors import RequestError
from kavka.observe.health.report import Statement
from kavka.security import quota_limits
from kavka.security.quota_limits import DEFAULT, Entity, Filter, Match, Name

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch

DEFAULT_WORD: Final = "(default)"
"""What a form says for the default of all. A client id of just this name cannot be named here; `kavka quotas` can."""
LIMITS: Final[Mapping[str, str]] = {
    quota_limits.PRODUCER_BYTE_RATE: "Bytes written each second",
    quota_limits.CONSUMER_BYTE_RATE: "Bytes read each second",
    quota_limits.REQUEST_PERCENTAGE: "Percent of a request thread",
    quota_limits.CONTROLLER_MUTATION_RATE: "Partitions created or deleted each second",
    quota_limits.CONNECTION_CREATION_RATE: "Connections made each second",
}
_OPTIONS: Final = {
    quota_limits.PRODUCER_BYTE_RATE: "--produce",
    quota_limits.CONSUMER_BYTE_RATE: "--consume",
    quota_limits.REQUEST_PERCENTAGE: "--request",
    quota_limits.CONTROLLER_MUTATION_RATE: "--mutations",
    quota_limits.CONNECTION_CREATION_RATE: "--connections",
}
_KAFKAS: Final = {quota_limits.USER: "users", quota_limits.CLIENT_ID: "clients", quota_limits.IP: "ips"}


class SetQuota(Action):
    name, title, role, section = "set-quota", "Set quotas", "operator", "access"

    def topics(self, values: Values) -> None:
        return None

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        known: Mapping[str, float] = {}
        if any(values.get(field) for field in ("user", "client", "ip")):
            known = await self._now(watch, entity_named(values))
        hint = "(default): all that have none of their own."
        return (
            Field("user", "User", value=values.get("user", ""), hint=hint),
            Field("client", "Client id", value=values.get("client", ""), hint=hint),
            Field("ip", "Or an address", value=values.get("ip", ""), hint=hint),
            *(
                Field(key, label, "decimal", values.get(key, number_text(known.get(key))), "Empty: no limit.")
                for key, label in LIMITS.items()
            ),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        entity = entity_named(values)
        now = await self._now(watch, entity)
        changes = changes_wanted(values, entity, now)
        if not changes:
            raise ActionRefused("nothing changes: these are the quotas that it has")
        try:
            await QuotaAdmin(watch.cluster).alter(entity, changes, validate_only=True)
        except RequestError as refused:
            raise ActionRefused(f"{refused.code.name}: {refused}") from refused
        rows = [
            Change(LIMITS[key], number_text(now.get(key)), number_text(value) if value is not None else "")
            for key, value in changes
        ]
        warnings = []
        if any(value == 0 for _key, value in changes):
            warnings.append(Warned("bad", Statement("A limit of 0 lets nothing through.")))
        back = [quota_limits.Change(key, now.get(key)) for key, _value in changes]
        return Preview(
            f"quotas of {entity}",
            Statement("Quotas of {entity} that change: {n}.", {"entity": str(entity), "n": len(rows)}),
            tuple(rows),
            tuple(warnings),
            (*_own_commands(watch, entity, changes), _kafkas_command(watch, entity, changes)),
            before="\n".join(f"{key}={number_text(value)}" for key, value in sorted(now.items())),
            wanted="\n".join(f"{key}={number_text(value) or 'no limit'}" for key, value in changes),
            button="Set them",
            undo=tuple(_own_commands(watch, entity, back)),
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        entity = entity_named(values)
        now = await self._now(watch, entity)
        await QuotaAdmin(watch.cluster).alter(entity, changes_wanted(values, entity, now))

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        now = await self._now(watch, entity_named(values))
        return "\n".join(f"{key}={number_text(value)}" for key, value in sorted(now.items())) or "no limit"

    def link(self, base: str, values: Values) -> str:
        return f"{base}/access/quotas"

    async def _now(self, watch: ClusterWatch, entity: Entity) -> Mapping[str, float]:
        exactly = Filter(tuple(Match(kind, name) for kind, name in entity.parts()), strict=True)
        return (await QuotaAdmin(watch.cluster).find(exactly)).get(entity, {})


def entity_named(values: Values) -> Entity:
    """Raises ActionRefused where the form names nobody, or what cannot have a quota together."""

    def name(field: str) -> Name | None:
        given = values.get(field, "").strip()
        return DEFAULT if given == DEFAULT_WORD else given or None

    entity = Entity(name("user"), name("client"), name("ip"))
    if not entity.parts():
        raise ActionRefused("name a user, a client id, or an address")
    if entity.ip is not None and (entity.user is not None or entity.client_id is not None):
        raise ActionRefused("an address has a quota of its own: name no user and no client id with it")
    return entity


def changes_wanted(values: Values, entity: Entity, now: Mapping[str, float]) -> list[quota_limits.Change]:
    """What differs from what is set; a field left empty takes a limit away. Raises ActionRefused."""
    found = []
    for key, label in LIMITS.items():
        given = values.get(key, "").strip()
        if key not in entity.keys:
            if given:
                raise ActionRefused(f"{entity} cannot have a limit of this kind: {label.lower()}")
            continue
        if not given:
            if key in now:
                found.append(quota_limits.Change(key, None))
            continue
        value = _number(given, label)
        if now.get(key) != value:
            found.append(quota_limits.Change(key, value))
    return found


def _number(given: str, label: str) -> float:
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or len(given) > 40:
        raise ActionRefused(f"{label}: {given[:40]!r} is no limit; a number from 0 on is needed")
    return value


def number_text(value: float | None) -> str:
    """Without .0, and without an exponent below 1e15."""
    if value is None:
        return ""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _own_commands(watch: ClusterWatch, entity: Entity, changes: Sequence[quota_limits.Change]) -> list[str]:
    who = " ".join(
        f"--default-{kind}" if name is DEFAULT else f"--{kind} {quoted(str(name))}" for kind, name in entity.parts()
    )
    put = " ".join(f"{_OPTIONS[key]} {number_text(value)}" for key, value in changes if value is not None)
    gone = " ".join(_OPTIONS[key] for key, value in changes if value is None)
    found = [f"kavka quotas set {who} {put} -b {watch.settings.bootstrap}"] if put else []
    return found + ([f"kavka quotas remove {who} {gone} -b {watch.settings.bootstrap}"] if gone else [])


def _kafkas_command(watch: ClusterWatch, entity: Entity, changes: Sequence[quota_limits.Change]) -> str:
    who = " ".join(
        f"--entity-type {_KAFKAS[kind]} "
        + ("--entity-default" if name is DEFAULT else f"--entity-name {quoted(str(name))}")
        for kind, name in entity.parts()
    )
    line = f"kafka-configs.sh --bootstrap-server {watch.settings.bootstrap} --alter {who}"
    put = ",".join(f"{key}={number_text(value)}" for key, value in changes if value is not None)
    gone = ",".join(key for key, value in changes if value is None)
    return line + (f" --add-config {quoted(put)}" if put else "") + (f" --delete-config {quoted(gone)}" if gone else "")
