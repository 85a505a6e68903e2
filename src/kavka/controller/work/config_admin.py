"""ConfigAdmin: reads and changes configurations in ZooKeeper, and watches for changes.

A flow on the ZooKeeper port; any broker may run it, it needs no controller. It must not know which settings there are:
what the new configuration is comes from the caller's function, which checks it.

A change writes the entity's znode compare-and-set together with a sequential notification; every broker watches the
notifications and reads the entities that they name. Two changes at once: the second is rejected, reads what the first
wrote, and is decided anew. Where settings cannot be read, none is in force: a change begins with none, and writes what
can be read: otherwise it could not be corrected.

Source: Kafka's AdminZkClient.changeConfigs and ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.zookeeper.port import (
    BadVersion,
    Create,
    CreateMode,
    Delete,
    Event,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OutcomeUnknown,
    SessionEvent,
    SessionState,
    SetData,
    WatchEvent,
    ZooKeeper,
)
from kavka.zookeeper.znode_paths import (
    CLIENTS_ENTITY,
    CONFIG_CHANGE_PREFIX,
    CONFIG_CHANGES_PATH,
    CONFIG_PATH,
    IPS_ENTITY,
    USERS_ENTITY,
    entity_config_path,
)
from kavka.zookeeper.znodes import ConfigChange, ConfigEntity, MalformedZNode, numbered

MAX_CHANGE_ATTEMPTS: Final = 10
"""How often a change is decided anew because another one came first, before the client is asked to try again."""


class ConfigAdmin:
    """Configurations of topics, brokers, users, client ids and addresses, by entity path ("topics/T")."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    async def read(self, entity_path: str) -> ConfigEntity:
        """An entity's settings; none where it has no znode. Raises ZooKeeperError."""
        found = (await self._zookeeper.get_many([entity_config_path(entity_path)]))[0]
        return ConfigEntity.decode(entity_path, found[0] if found is not None else None)

    async def read_all(self, entity_type: str) -> dict[str, ConfigEntity]:
        """Settings of all entities of a type, by name, sorted. A znode that cannot be read has none."""
        try:
            names = await self._zookeeper.children(f"{CONFIG_PATH}/{entity_type}")
        except NoNode:
            return {}
        entities = {}
        nodes = await self._zookeeper.get_many([f"{CONFIG_PATH}/{entity_type}/{name}" for name in names])
        for name, node in zip(names, nodes, strict=True):
            try:
                entities[name] = ConfigEntity.decode(f"{entity_type}/{name}", node[0] if node is not None else None)
            except MalformedZNode:
                entities[name] = ConfigEntity({})
        return entities

    async def change(
        self,
        entity_path: str,
        decide: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool = False,
        removes_empty: bool = False,
    ) -> ConfigEntity:
        """Replaces an entity's settings by what `decide` makes of them; returns the new ones. `removes_empty`: where
        nothing is set any more, the znode goes, as those of quotas do.

        `decide` may raise what it likes (RequestError, ConfigError): nothing is written then. Raises RequestError with
        REQUEST_TIMED_OUT after MAX_CHANGE_ATTEMPTS, and ZooKeeperError.
        """
        path = entity_config_path(entity_path)
        notification = Create(
            CONFIG_CHANGE_PREFIX, ConfigChange(entity_path).encode(), CreateMode.PERSISTENT_SEQUENTIAL
        )
        for _ in range(MAX_CHANGE_ATTEMPTS):
            found = (await self._zookeeper.get_many([path]))[0]
            wanted = ConfigEntity(dict(decide(_settings(entity_path, None if found is None else found[0]))))
            if validate_only:
                return wanted
            operations: list[Operation] = []
            if removes_empty and not wanted.config and (found is None or not found[1].num_children):
                operations += [] if found is None else await self._removal(entity_path, found[1].version)
            elif found is None:
                operations += [*await self._missing_parents(entity_path), Create(path, wanted.encode())]
            else:
                operations.append(SetData(path, wanted.encode(), found[1].version))
            try:
                await self._zookeeper.multi([*operations, notification])
            except (BadVersion, NodeExists, NoNode, NotEmpty, OutcomeUnknown):
                # After an unknown outcome the same decision on what is there now writes the same once more at worst.
                continue
            return wanted
        raise RequestError(
            ErrorCode.REQUEST_TIMED_OUT, f"{entity_path} was changed by others {MAX_CHANGE_ATTEMPTS} times meanwhile"
        )

    async def _missing_parents(self, entity_path: str) -> list[Operation]:
        """Of "users/U/clients/C": the nodes of "users", "users/U" and "users/U/clients", if they are not there."""
        parts = entity_path.split("/")
        parents = [entity_config_path("/".join(parts[:depth])) for depth in range(1, len(parts))]
        found = await self._zookeeper.get_many(parents)
        return [Create(parent) for parent, node in zip(parents, found, strict=True) if node is None]

    async def _removal(self, entity_path: str, version: int) -> list[Operation]:
        """Deletes an entity without children. Of "users/U/clients/C" also its "clients", where it is the only one, and
        then "users/U", where nothing is set there."""
        operations: list[Operation] = [Delete(entity_config_path(entity_path), version)]
        user_path, separator, _ = entity_path.partition(f"/{CLIENTS_ENTITY}/")
        if not separator:
            return operations
        clients, user = await self._zookeeper.get_many(
            [entity_config_path(f"{user_path}/{CLIENTS_ENTITY}"), entity_config_path(user_path)]
        )
        if clients is not None and clients[1].num_children == 1:
            operations.append(Delete(entity_config_path(f"{user_path}/{CLIENTS_ENTITY}"), clients[1].version))
            if user is not None and user[1].num_children == 1 and not _settings(user_path, user[0]):
                operations.append(Delete(entity_config_path(user_path), user[1].version))
        return operations

    async def read_clients(self) -> dict[str, Mapping[str, str]]:
        """What is set for users, client ids, both, and addresses, by entity path. What cannot be read is left out."""
        found: dict[str, Mapping[str, str]] = {}
        for kind in (USERS_ENTITY, CLIENTS_ENTITY, IPS_ENTITY):
            entities = await self.read_all(kind)
            if kind == USERS_ENTITY:
                for parent in await self._parents_of_clients(list(entities)):
                    clients = await self.read_all(f"{USERS_ENTITY}/{parent}")
                    entities |= {f"{parent}/{name}": entity for name, entity in clients.items()}
            found |= {f"{kind}/{name}": entity.config for name, entity in entities.items() if entity.config}
        return found

    async def _parents_of_clients(self, users: Sequence[str]) -> list[str]:
        """Of these users those that set something for single client ids, as "U/clients"."""
        parents = [f"{user}/{CLIENTS_ENTITY}" for user in users]
        nodes = await self._zookeeper.get_many([entity_config_path(f"{USERS_ENTITY}/{path}") for path in parents])
        return [path for path, node in zip(parents, nodes, strict=True) if node is not None]


def _settings(entity_path: str, data: bytes | None) -> Mapping[str, str]:
    try:
        return ConfigEntity.decode(entity_path, data).config
    except MalformedZNode:
        return {}


class ConfigChanges:
    """Calls `apply(entity_path, entity)` for every change, in order, one at a time; `read_all()` where changes may have
    been missed, because their notifications have gone or cannot be read.

    Notifications are numbered without gaps: a number that is missing, or that ZooKeeper has given since and no longer
    shows, is a change that nobody told of here. Kafka reads what is left of the notifications only.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        apply: Callable[[str, ConfigEntity], Awaitable[None]],
        *,
        read_all: Callable[[], Awaitable[None]],
        on_failure: Callable[[str, ZooKeeperError], None] = lambda path, failure: None,
    ) -> None:
        """`read_all` raises ZooKeeperError; it is called again then. `on_failure` is called for a notification or
        entity that could not be read."""
        self.lock = asyncio.Lock()
        """Held while changes are taken in. Whoever reads many entities by itself holds it, too: else what it read first
        could replace a change that was made, and taken in, while it read the rest."""
        self._zookeeper = zookeeper
        self._config = ConfigAdmin(zookeeper)
        self._apply = apply
        self._read_all = read_all
        self._on_failure = on_failure
        self.last_sequence = -1
        """The number of the last change that was notified; -1 where none was seen."""
        self._was_away = False
        """Whether the connection was lost since ZooKeeper was asked how many notifications there were."""
        self._must_read_all = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        """Whoever waits until the list of notifications was read once more."""
        self._running: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Begins to listen; changes that were notified before are not applied: read all configurations after this."""
        names = await self._zookeeper.children(CONFIG_CHANGES_PATH, watch=True)
        self.last_sequence = max((sequence for sequence, _ in numbered(names)), default=-1)
        self._unsubscribe = self._zookeeper.subscribe(self._on_event)
        self._idle.set()
        self._running = asyncio.get_running_loop().create_task(self._run())
        self._running.add_done_callback(self._on_ended)

    async def stop(self) -> None:
        self.abort()
        if self._running is not None:
            await asyncio.wait([self._running])

    def abort(self) -> None:
        """Listens no more, at once."""
        self._unsubscribe()
        if self._running is not None:
            self._running.cancel()

    async def settled(self) -> None:
        """Returns when every change notified so far has been applied."""
        await self._idle.wait()

    async def catch_up(self) -> None:
        """Looks for notifications without waiting for ZooKeeper's word that there are some: a change that was answered
        before the call is applied when this returns, or could not be read. All who wait at once share one look."""
        if self._running is None or self._running.done():
            return
        looked = asyncio.get_running_loop().create_future()
        self._waiting.append(looked)
        self._idle.clear()
        self._wake.set()
        await looked

    def _on_ended(self, running: asyncio.Task[None]) -> None:
        """Only a bug in `apply` ends it before `stop` does."""
        self._idle.set()
        _let_go(self._waiting)
        if not running.cancelled() and (failure := running.exception()) is not None:
            running.get_loop().call_exception_handler(
                {"message": "changes of settings are applied no more", "exception": failure, "task": running}
            )

    def _on_event(self, event: Event) -> None:
        is_back = event == SessionEvent(SessionState.CONNECTED)
        if is_back or (isinstance(event, WatchEvent) and event.path == CONFIG_CHANGES_PATH):
            self._was_away = self._was_away or is_back
            self._idle.clear()
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                async with self.lock:
                    waiting, self._waiting = self._waiting, []
                    try:
                        await self._take_in()
                    finally:
                        _let_go(waiting)
            except ZooKeeperError as failure:
                self._on_failure(CONFIG_CHANGES_PATH, failure)
            if not self._wake.is_set():
                self._idle.set()

    async def _take_in(self) -> None:
        was_away, self._was_away = self._was_away, False
        try:
            next_sequence = await self._next_sequence() if was_away else 0
            changes = numbered(await self._zookeeper.children(CONFIG_CHANGES_PATH, watch=True))
        except ZooKeeperError:
            self._was_away = self._was_away or was_away
            raise
        unseen = [change for change in changes if change[0] > self.last_sequence]
        if self._misses_some([sequence for sequence, _ in unseen], next_sequence):
            self._must_read_all = True
        for sequence, name in unseen:
            await self._take_in_one(f"{CONFIG_CHANGES_PATH}/{name}")
            self.last_sequence = sequence
        if self._must_read_all:
            await self._read_all()
            self._must_read_all = False
            self.last_sequence = max([next_sequence - 1, *(sequence for sequence, _ in changes)])

    async def _take_in_one(self, path: str) -> None:
        try:
            data, _ = await self._zookeeper.get(path)
            entity_path = ConfigChange.decode(path, data).entity_path
        except (NoNode, MalformedZNode) as failure:
            self._must_read_all = True  # Nobody knows what it was about.
            self._on_failure(path, failure)
            return
        try:
            await self._apply(entity_path, await self._config.read(entity_path))
        except (NoNode, MalformedZNode) as failure:
            self._on_failure(path, failure)

    async def _next_sequence(self) -> int:
        """The number that the next notification gets: as many as were ever made."""
        stat = await self._zookeeper.exists(CONFIG_CHANGES_PATH)
        return 0 if stat is None else (stat.cversion + stat.num_children) // 2

    def _misses_some(self, unseen: Sequence[int], next_sequence: int) -> bool:
        """Whether some of the changes after the last one that was seen are not among the unseen ones. next_sequence: as
        ZooKeeper told it after it was away, before the notifications were listed; else 0."""
        if 0 < next_sequence <= self.last_sequence:
            return True  # This ZooKeeper does not know the changes that were seen: it was restored, or is another one.
        expected = self.last_sequence + 1
        if expected == 0 and not next_sequence:
            return False  # None was seen since the start, when there may have been more than what was left.
        last = max([*unseen, next_sequence - 1])
        return len(unseen) != last - expected + 1


def _let_go(waiting: Iterable[asyncio.Future[None]]) -> None:
    for each in waiting:
        if not each.done():
            each.set_result(None)
