"""DynamicConfigs: settings that change at run time, of topics, brokers, groups and client metrics, as in ZooKeeper.

Keeps the overrides and makes the effective settings of them. Must not decide what may be changed (`config.alter`), how
a change is written (`controller.work.config_admin`), nor what follows from it (`on_topic_change`, `on_broker_change`).

    I1  what is remembered here was read from ZooKeeper or written to it first
    I2  a topic's settings are made anew when its overrides or the broker's own settings change
    I3  changes are listened to before anything is read, so that none falls in between
    I4  where changes may have been missed, all settings are read again. Kafka reads what is left of the notifications
        only: a broker that was away for longer than they live (15 minutes) never hears of the others

Source: Kafka's AdminZkClient and DynamicConfigManager: the settings in /config, and a notification in /config/changes
by which the other brokers learn of a change. Those of groups and of subscriptions to clients' metrics, which Kafka has
in KRaft only, lie in /config/groups and /config/client-metrics, in the same form. Unlike a topic's, their names may
have any characters, and are escaped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kavka.broker.late import Late
from kavka.config.broker import BrokerConfig
from kavka.config.topic import TopicConfig, unusable_overrides
from kavka.controller.work.config_admin import ConfigAdmin, ConfigChanges
from kavka.errors import ConfigError, ZooKeeperError
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.zookeeper.port import Stat, ZooKeeper
from kavka.zookeeper.znode_paths import (
    BROKERS_ENTITY,
    CLIENT_METRICS_ENTITY,
    CLIENTS_ENTITY,
    CONFIG_CHANGES_PATH,
    DEFAULT_ENTITY,
    GROUPS_ENTITY,
    IPS_ENTITY,
    TOPICS_ENTITY,
    USERS_ENTITY,
    broker_config_path,
    delete_topic_path,
    desanitize,
    entity_config_path,
    escape,
    sanitize,
    topic_config_path,
    topic_path,
    unescape,
)
from kavka.zookeeper.znodes import ConfigEntity, MalformedZNode, TopicAssignment

if TYPE_CHECKING:
    from kavka.zookeeper.old_changes import OldChanges

logger = Logger(__name__)

RETRY_S: Final = 1.0
"""How long after ZooKeeper could not be asked it is asked again."""
ANY_PARTITION: Final = 1 << 31
"""The number of partitions of a topic that cannot be read: more than any has."""

SETTINGS_PATIENCE_S: Final = 2.0
"""How long a partition waits for its topic's settings before it takes up its role with the defaults, and a client that
asks for settings for those that were changed a moment ago."""

_OTHER_ENTITIES: Final = (GROUPS_ENTITY, CLIENT_METRICS_ENTITY)
_CLIENT_ENTITIES: Final = (USERS_ENTITY, CLIENTS_ENTITY, IPS_ENTITY)

Decide: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From what is set now to what is to be set; raises RequestError to refuse."""


class ConfigListeners(NamedTuple):
    """`on_topic_change` and `on_broker_change` are called after a change is in force here, `on_topic_read` with what a
    topic sets itself, whenever that is read. `on_client_entity` is called with an entity's path ("users/U") and all
    that is set for it, whenever that is read, for users, client ids and addresses."""

    on_topic_change: Callable[[str], None]
    on_broker_change: Callable[[BrokerConfig], None]
    on_topic_read: Callable[[str, Mapping[str, str]], None]
    on_client_entity: Callable[[str, Mapping[str, str]], None] = lambda path, config: None


class DynamicConfigs:
    """The settings of this broker and of all topics, as they are now."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        static: BrokerConfig,
        broker_id: BrokerId,
        listeners: ConfigListeners,
        *,
        wall_ms: Callable[[], int],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self.broker = static
        self._zookeeper = zookeeper
        self._admin = ConfigAdmin(zookeeper)
        self._wall_ms = wall_ms
        self._old_changes = Late(self._new_old_changes)
        self._broker_id = broker_id
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._topics: dict[str, TopicConfig] = {}
        """Of topics that override something."""
        self._plain: TopicConfig | None = None
        """Of every other topic: there may be a hundred thousand of them."""
        self._on_topic_change = listeners.on_topic_change
        self._on_broker_change = listeners.on_broker_change
        self._on_topic_read = listeners.on_topic_read
        self._on_client_entity = listeners.on_client_entity
        self._clients: set[str] = set()
        """Paths of the users, client ids and addresses for which something is set."""
        self._spawn = spawn
        self._others: dict[str, dict[str, Mapping[str, str]]] = {kind: {} for kind in _OTHER_ENTITIES}
        self._refused: dict[str, str] = {}
        """Settings of brokers that were found and cannot be used, with the reason."""
        self.changes_of_client_metrics = 0
        """How often the subscriptions changed: what was made of them before is to be made anew."""
        self._read: set[str] = set()
        self._reading_later: set[str] = set()
        self._changes = ConfigChanges(zookeeper, self._apply, read_all=self._read_all_again, on_failure=_log_unread)

    async def start(self) -> None:
        """Listens to changes that are made through other brokers (I3). Raises ZooKeeperError."""
        await self._changes.start()
        async with self._changes.lock:
            await self._load_others()

    async def stop(self) -> None:
        await self._changes.stop()

    def abort(self) -> None:
        """Listens no more, at once."""
        self._changes.abort()

    async def _apply(self, entity_path: str, entity: ConfigEntity) -> None:
        """A change was notified, and this is what is set now; it may be one that was made here."""
        entity_type, _, name = entity_path.partition("/")
        if entity_type == TOPICS_ENTITY:
            self._set_overrides(name, entity.config)
            self._on_topic_change(name)
        elif entity_type == BROKERS_ENTITY and name in (str(self._broker_id), DEFAULT_ENTITY):
            await self._renew_broker()
        elif entity_type in self._others:
            self._set_other(entity_type, unescape(name), entity.config)
        elif entity_type in _CLIENT_ENTITIES:
            self.on_client_entity(entity_path, entity.config)

    async def _read_all_again(self) -> None:
        """Changes may have been missed (I4). Takes a reading of each topic that is known here, of the broker's own
        settings, and of all groups, subscriptions, users, client ids and addresses. Raises ZooKeeperError."""
        logger.info("settings read again", why="changes were made while this broker was away from ZooKeeper")
        try:
            await self._renew_broker()
        except MalformedZNode as garbage:
            _log_unread(garbage.path, garbage)
        known = sorted(self._read)
        before = {name: self.overrides(name) for name in known}
        await self.load_topics(known)
        for name in known:
            if self.overrides(name) != before[name]:
                self._on_topic_change(name)
        await self._load_others()
        self.changes_of_client_metrics += 1
        found = await self._admin.read_clients()
        for path in sorted(self._clients - found.keys()):
            self.on_client_entity(path, {})
        for path, config in found.items():
            self.on_client_entity(path, config)

    async def _renew_broker(self) -> None:
        await self.load_broker()
        self._topics.clear()
        self._plain = None
        self._on_broker_change(self.broker)

    async def _load_others(self) -> None:
        for kind in _OTHER_ENTITIES:
            found = await self._admin.read_all(kind)
            self._others[kind] = {unescape(name): entity.config for name, entity in found.items() if entity.config}

    # -- reading

    async def catch_up(self) -> None:
        """Takes in what was changed through other brokers before this call, so that whoever changed a setting reads it
        back from any broker. While ZooKeeper cannot be asked, what is known here has to do after SETTINGS_PATIENCE_S.
        """
        try:
            async with asyncio.timeout(SETTINGS_PATIENCE_S):
                await self._changes.catch_up()
        except TimeoutError:
            logger.warning("settings described as they were last read", why="ZooKeeper does not answer")

    async def load_broker(self) -> None:
        """Reads what is set at run time for this broker and for all. Leaves out settings that cannot be used, and logs
        each once."""
        own, default = await self._zookeeper.get_many([broker_config_path(self._broker_id), broker_config_path(None)])
        dynamic, not_for_one = _usable(_config(BROKERS_ENTITY, str(self._broker_id), own), per_broker=True)
        for_all, not_for_all = _usable(_config(BROKERS_ENTITY, DEFAULT_ENTITY, default), per_broker=False)
        refused = {**not_for_all, **not_for_one}
        for name, why in refused.items():
            if name not in self._refused:
                logger.error(
                    "dynamic broker setting ignored",
                    name=name,
                    why=why,
                    next_step="remove it with `kavka configs unset --broker` or `--all-brokers`",
                )
        self._refused = refused
        try:
            self.broker = self.broker.with_dynamic(dynamic=dynamic, dynamic_default=for_all)
        except ConfigError as refusal:
            logger.error(
                "dynamic broker settings ignored",
                why=str(refusal),
                next_step="correct them with `kavka configs set --broker`",
            )

    async def load_clients(self, stats: Mapping[str, Stat]) -> None:
        """Reads what is set for users, client ids and addresses: quotas, credentials. Raises ZooKeeperError.

        `stats` are of nodes as they were before changes were listened to. Most clusters have no such settings, and are
        not asked for them: unless `stats` shows some, or a change was notified between the two.
        """
        changes = stats.get(CONFIG_CHANGES_PATH)
        # Of the children that were ever made each has a number, from 0 on.
        made = 0 if changes is None else (changes.cversion + changes.num_children) // 2
        parents = [stats.get(entity_config_path(kind)) for kind in _CLIENT_ENTITIES]
        if self._changes.last_sequence >= made or any(stat is None or stat.num_children for stat in parents):
            async with self._changes.lock:
                for path, config in (await self._admin.read_clients()).items():
                    self.on_client_entity(path, config)

    def on_client_entity(self, path: str, config: Mapping[str, str]) -> None:
        """What is set for a user, client id or address was read, or written from here."""
        if config:
            self._clients.add(path)
        else:
            self._clients.discard(path)
        self._on_client_entity(path, config)

    async def load_topics(self, names: Iterable[str]) -> None:
        """Reads the overrides of these topics. Leaves out and logs what cannot be read as settings."""
        listed = list(names)
        found = await self._zookeeper.get_many([topic_config_path(name) for name in listed])
        for name, node in zip(listed, found, strict=True):
            try:
                overrides = _config(TOPICS_ENTITY, name, node)
            except MalformedZNode as garbage:
                logger.error(
                    "topic settings ignored",
                    topic=name,
                    why=str(garbage),
                    next_step="set them again with `kavka configs set --topic`",
                )
                overrides = {}
            self._set_overrides(name, overrides)

    def _set_overrides(self, name: str, overrides: Mapping[str, str]) -> None:
        if overrides != self._overrides.get(name, {}):
            for setting, why in unusable_overrides(overrides).items():
                logger.error(
                    "topic setting not in force",
                    topic=name,
                    setting=setting,
                    why=why,
                    next_step=f"take it away with `kavka configs unset --topic {name} {setting}`",
                )
        self._read.add(name)
        if overrides:
            self._overrides[name] = overrides
        else:
            self._overrides.pop(name, None)
        self._topics.pop(name, None)
        self._on_topic_read(name, overrides)

    async def require_topics(self, names: Iterable[str]) -> None:
        """Reads the overrides of those topics that were not read yet.

        While ZooKeeper cannot be asked the defaults hold, and the reading follows.
        """
        missing = [name for name in names if name not in self._read]
        if not missing:
            return
        try:
            async with asyncio.timeout(SETTINGS_PATIENCE_S):
                await self.load_topics(missing)
        except (ZooKeeperError, TimeoutError) as failure:
            logger.warning("topic settings not read yet", topics=missing, why=str(failure))
            later = [name for name in missing if name not in self._reading_later]
            if later:
                self._reading_later.update(later)
                self._spawn(self._read_later(later))

    async def _read_later(self, names: list[str]) -> None:
        while True:
            await asyncio.sleep(RETRY_S)
            try:
                await self.load_topics(names)
            except ZooKeeperError:
                continue
            self._reading_later.difference_update(names)
            for name in names:
                self._on_topic_change(name)
            return

    async def partition_count(self, topic: str) -> int:
        """How many partitions the topic has in ZooKeeper, 0 where it is not there. Asks until it is answered."""
        try:
            return await self._count(topic, [topic_path(topic)])
        except MalformedZNode:
            return 0

    async def lasting_partition_count(self, topic: str) -> int:
        """As `partition_count`, but 0 also where the topic is marked for deletion: what is left of it then stays for as
        long as a broker with a replica is away. Where the topic cannot be read it may have any partition."""
        try:
            return await self._count(topic, [topic_path(topic), delete_topic_path(topic)])
        except MalformedZNode:
            return ANY_PARTITION

    async def _count(self, topic: str, paths: Sequence[str]) -> int:
        """Raises MalformedZNode."""
        while True:
            try:
                node, *marks = await self._zookeeper.get_many(paths)
                # Of a topic that the controller cannot read either it removes the mark.
                count = 0 if node is None else len(TopicAssignment.decode(topic, node[0]).partitions)
                return 0 if any(mark is not None for mark in marks) else count
            except MalformedZNode:
                raise
            except ZooKeeperError:
                await asyncio.sleep(RETRY_S)

    def overrides(self, topic: str) -> Mapping[str, str]:
        """What the topic sets itself."""
        return self._overrides.get(topic, {})

    def topic(self, name: str) -> TopicConfig:
        """The topic's effective settings, without those that cannot be used; these were logged when they were read."""
        overrides = self._overrides.get(name)
        if not overrides:
            if self._plain is None:
                self._plain = TopicConfig({}, self.broker)
            return self._plain
        known = self._topics.get(name)
        if known is None:
            try:
                known = TopicConfig(overrides, self.broker)
            except ConfigError:
                unusable = unusable_overrides(overrides)
                usable = {setting: text for setting, text in overrides.items() if setting not in unusable}
                known = TopicConfig(usable, self.broker)
            self._topics[name] = known
        return known

    def group(self, group_id: str) -> Mapping[str, str]:
        """What a group sets itself."""
        return self._others[GROUPS_ENTITY].get(group_id, {})

    def client_metrics(self, name: str) -> Mapping[str, str]:
        """What a subscription to clients' metrics sets."""
        return self._others[CLIENT_METRICS_ENTITY].get(name, {})

    def named(self, entity_type: str) -> list[str]:
        """The groups (GROUPS_ENTITY) or subscriptions (CLIENT_METRICS_ENTITY) that set something, by name."""
        return sorted(self._others[entity_type])

    def _set_other(self, entity_type: str, name: str, config: Mapping[str, str]) -> None:
        if config:
            self._others[entity_type][name] = config
        else:
            self._others[entity_type].pop(name, None)
        if entity_type == CLIENT_METRICS_ENTITY:
            self.changes_of_client_metrics += 1

    def forget_topic(self, name: str) -> None:
        """The topic was deleted."""
        self._read.discard(name)
        self._overrides.pop(name, None)
        self._topics.pop(name, None)
        self._on_topic_read(name, {})

    # -- writing

    async def change_topic(self, name: str, decide: Decide, *, validate_only: bool = False) -> None:
        """Replaces what the topic sets itself by what `decide` makes of it.

        Raises what `decide` raises, RequestError after too many changes by others meanwhile, and ZooKeeperError.
        """
        await self._change(f"{TOPICS_ENTITY}/{name}", decide, validate_only=validate_only)
        if not validate_only:
            await self.load_topics([name])
            self._on_topic_change(name)

    async def change_broker(self, decide: Decide, *, per_broker: bool, validate_only: bool = False) -> None:
        """Replaces what is set at run time, here or as the default of all brokers. Raises as `change_topic`."""
        entity = str(self._broker_id) if per_broker else DEFAULT_ENTITY
        await self._change(f"{BROKERS_ENTITY}/{entity}", decide, validate_only=validate_only)
        if not validate_only:
            await self._renew_broker()

    async def change_other(self, entity_type: str, name: str, decide: Decide, *, validate_only: bool = False) -> None:
        """Replaces what a group or a subscription sets, whose name is not empty. Raises as `change_topic`."""
        wanted = await self._admin.change(f"{entity_type}/{escape(name)}", decide, validate_only=validate_only)
        if not validate_only:
            self.tidy()
            self._set_other(entity_type, name, wanted.config)

    async def read_users(self, names: Iterable[str] | None = None) -> dict[str, Mapping[str, str]]:
        """What is kept of users in ZooKeeper, their credentials among it: of those named, or of all. Raises
        ZooKeeperError."""
        if names is None:
            found = await self._admin.read_all(USERS_ENTITY)
            return {desanitize(name): entity.config for name, entity in found.items() if name != DEFAULT_ENTITY}
        return {name: (await self._admin.read(f"{USERS_ENTITY}/{sanitize(name)}")).config for name in names}

    async def change_user(self, name: str, decide: Decide) -> None:
        """Replaces what is kept of a user, whose name is not empty; its znode goes when nothing is. Raises as
        `change_topic`."""
        await self._change(f"{USERS_ENTITY}/{sanitize(name)}", decide, validate_only=False, removes_empty=True)

    async def _change(
        self, entity_path: str, decide: Decide, *, validate_only: bool, removes_empty: bool = False
    ) -> None:
        await self._admin.change(entity_path, decide, validate_only=validate_only, removes_empty=removes_empty)
        if not validate_only:
            self.tidy()

    def tidy(self) -> None:
        """Something was changed: notifications of changes that are old are deleted beside."""
        self._old_changes().begin()

    def _new_old_changes(self) -> OldChanges:
        from kavka.zookeeper.old_changes import OldChanges  # late: most brokers' settings are changed through others

        return OldChanges(self._zookeeper, [CONFIG_CHANGES_PATH], wall_ms=self._wall_ms, spawn=self._spawn)


def _log_unread(path: str, failure: ZooKeeperError) -> None:
    logger.warning("change of settings not read", path=path, why=str(failure))


def _usable(texts: Mapping[str, str], *, per_broker: bool) -> tuple[dict[str, str], dict[str, str]]:
    if not texts:
        return {}, {}
    from kavka.config.alter import usable_at_run_time  # late: most brokers find nothing that was set at run time

    return usable_at_run_time(texts, per_broker=per_broker)


def _config(entity_type: str, entity: str, node: tuple[bytes | None, object] | None) -> Mapping[str, str]:
    return {} if node is None else ConfigEntity.decode(f"{entity_type}/{entity}", node[0]).config
