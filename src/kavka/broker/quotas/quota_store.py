"""QuotaStore: quotas of clients in ZooKeeper, as Kafka 3.9 keeps them: found, changed, and told of.

Decides where an entity's quotas stand. What may be set is decided by `kavka.security.quota_limits`; how a change is
written, and how the other brokers hear of it, by `controller.work.config_admin`.

    /config/users/U    /config/users/U/clients/C    /config/clients/C    /config/ips/A

Names are percent-encoded (`znode_paths.sanitize`); `<default>` is not, and stands for those without quotas of their
own. A user's znode also holds its SCRAM credentials: what is no quota stays as it is. Where nothing is left, the znode
goes, with parents that only it needed.

Source: Kafka's ZkAdminManager, AdminZkClient.changeEntityConfig.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kavka.controller.work.config_admin import ConfigAdmin
from kavka.errors import ErrorCode, RequestError
from kavka.security.quota_limits import DEFAULT, Change, Entity, Filter, Name, altered, shown
from kavka.zookeeper.port import ZooKeeper
from kavka.zookeeper.znode_paths import (
    CLIENTS_ENTITY,
    DEFAULT_ENTITY,
    IPS_ENTITY,
    USERS_ENTITY,
    desanitize,
    sanitize,
)

RESOLVE_PATIENCE_S: Final = 5.0
"""How long the name of a host may take to be looked up."""

Config = Mapping[str, str]


class QuotaStore:
    """`on_changed` is called with an entity's path and all that is set for it, after it was written here; `tidy` has
    old notifications of changes deleted."""

    def __init__(
        self, zookeeper: ZooKeeper, *, tidy: Callable[[], None], on_changed: Callable[[str, Config], None]
    ) -> None:
        self._admin = ConfigAdmin(zookeeper)
        self._tidy = tidy
        self._on_changed = on_changed

    async def find(self, wanted: Filter) -> dict[Entity, dict[str, float]]:
        """The quotas of the entities that are asked for and have any. Raises RequestError, ZooKeeperError."""
        wanted.check()
        found = {}
        for path, config in (await self._admin.read_clients()).items():
            entity = entity_at(path)
            if entity is not None and wanted.takes(entity):
                quotas = shown(entity, config)
                if quotas:
                    found[entity] = quotas
        return found

    async def alter(self, entity: Entity, changes: Sequence[Change], *, validate_only: bool = False) -> None:
        """Sets and removes quotas. Raises RequestError, ZooKeeperError."""
        if isinstance(entity.ip, str) and not await _is_host(sanitize(entity.ip)):
            message = f"{sanitize(entity.ip)} is not a valid IP or resolvable host."
            raise RequestError(ErrorCode.INVALID_REQUEST, message)

        def decide(config: Config) -> Config:
            return altered(entity, config, changes)

        path = path_of(entity)
        written = await self._admin.change(path, decide, validate_only=validate_only, removes_empty=True)
        if not validate_only:
            self._tidy()
            self._on_changed(path, written.config)


def path_of(entity: Entity) -> str:
    """The entity's path below /config."""
    if entity.ip is not None:
        return f"{IPS_ENTITY}/{_component(entity.ip)}"
    parts = []
    if entity.user is not None:
        parts.append(f"{USERS_ENTITY}/{_component(entity.user)}")
    if entity.client_id is not None:
        parts.append(f"{CLIENTS_ENTITY}/{_component(entity.client_id)}")
    return "/".join(parts)


def entity_at(path: str) -> Entity | None:
    """The entity of a path below /config; None if it is a path of something else."""
    match path.split("/"):
        case ["users", user]:
            return Entity(_name(user))
        case ["users", user, "clients", client_id]:
            return Entity(_name(user), _name(client_id))
        case ["clients", client_id]:
            return Entity(None, _name(client_id))
        case ["ips", address]:
            return Entity(ip=_name(address))
    return None


def _component(name: Name) -> str:
    return DEFAULT_ENTITY if name is DEFAULT else sanitize(str(name))


def _name(component: str) -> Name:
    return DEFAULT if component == DEFAULT_ENTITY else desanitize(component)


async def _is_host(text: str) -> bool:
    """Whether it is an address, or the name of a host that somebody knows."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(await addresses_of(text))
    return True


async def addresses_of(
    host: str, lookup: Callable[..., Awaitable[Sequence[tuple[object, ...]]]] | None = None
) -> list[str]:
    """The addresses of a host that is given by its name; none where nobody knows it."""
    ask = lookup or asyncio.get_running_loop().getaddrinfo
    try:
        async with asyncio.timeout(RESOLVE_PATIENCE_S):
            found = await ask(host, None)
    except (OSError, UnicodeError, TimeoutError):
        return []
    return [str(entry[4][0]) for entry in found]  # type: ignore[index]
