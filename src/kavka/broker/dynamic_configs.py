"""DynamicConfigs: settings that change at run time, of topics and of brokers, as they are in ZooKeeper.

Keeps the overrides, makes the effective settings of them, and writes changes. Must not decide what may be changed
(`config.alter`), nor what follows from a change (`on_change`).

    I1  what is remembered here was read from ZooKeeper or written to it first
    I2  a topic's settings are made anew when its overrides or the broker's own settings change

Source: Kafka's AdminZkClient and DynamicConfigManager: the settings in /config, and a notification in /config/changes
by which the other brokers learn of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kavka.config.broker import BrokerConfig
from kavka.config.topic import TopicConfig
from kavka.errors import ConfigError
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.zookeeper.port import Create, CreateMode, NodeExists, Operation, SetData, ZooKeeper
from kavka.zookeeper.znodes import (
    BROKERS_ENTITY,
    CONFIG_CHANGE_PREFIX,
    DEFAULT_ENTITY,
    TOPICS_ENTITY,
    ConfigChange,
    ConfigEntity,
    broker_config_path,
    topic_config_path,
)

logger = Logger(__name__)


class DynamicConfigs:
    """`on_topic_change` and `on_broker_change` are called after a change is in force here."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        static: BrokerConfig,
        broker_id: BrokerId,
        *,
        on_topic_change: Callable[[str], None],
        on_broker_change: Callable[[BrokerConfig], None],
    ) -> None:
        self.broker = static
        self._zookeeper = zookeeper
        self._broker_id = broker_id
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._topics: dict[str, TopicConfig] = {}
        self._on_topic_change = on_topic_change
        self._on_broker_change = on_broker_change

    # -- reading

    async def load_broker(self) -> None:
        """Reads what is set at run time for this broker and for all. What cannot be used any more is left out."""
        own, default = await self._zookeeper.get_many([broker_config_path(self._broker_id), broker_config_path(None)])
        try:
            self.broker = self.broker.with_dynamic(
                dynamic=_config(BROKERS_ENTITY, str(self._broker_id), own),
                dynamic_default=_config(BROKERS_ENTITY, DEFAULT_ENTITY, default),
            )
        except ConfigError as refusal:
            logger.error(
                "dynamic broker settings ignored",
                why=str(refusal),
                next_step="correct them with `kavka configs set --broker`",
            )

    async def load_topics(self, names: Iterable[str]) -> None:
        """Reads the overrides of these topics."""
        listed = list(names)
        found = await self._zookeeper.get_many([topic_config_path(name) for name in listed])
        for name, node in zip(listed, found, strict=True):
            overrides = _config(TOPICS_ENTITY, name, node)
            if overrides:
                self._overrides[name] = overrides
            else:
                self._overrides.pop(name, None)
            self._topics.pop(name, None)

    def overrides(self, topic: str) -> Mapping[str, str]:
        """What the topic sets itself."""
        return self._overrides.get(topic, {})

    def topic(self, name: str) -> TopicConfig:
        """The topic's effective settings. An override that cannot be used any more is left out."""
        known = self._topics.get(name)
        if known is None:
            try:
                known = TopicConfig(self.overrides(name), self.broker)
            except ConfigError as refusal:
                logger.error("topic settings ignored", topic=name, why=str(refusal))
                known = TopicConfig({}, self.broker)
            self._topics[name] = known
        return known

    def forget_topic(self, name: str) -> None:
        """The topic was deleted."""
        self._overrides.pop(name, None)
        self._topics.pop(name, None)

    # -- writing

    async def store_topic(self, name: str, overrides: Mapping[str, str]) -> None:
        """Makes `overrides` all that the topic sets itself. Raises ZooKeeperError: then nothing is known of it here."""
        await self._store(topic_config_path(name), f"{TOPICS_ENTITY}/{name}", overrides)
        await self.load_topics([name])
        self._on_topic_change(name)

    async def store_broker(self, texts: Mapping[str, str], *, per_broker: bool) -> None:
        """Makes `texts` all that is set at run time, here or as the default of all brokers. Raises ZooKeeperError."""
        entity = str(self._broker_id) if per_broker else DEFAULT_ENTITY
        path = broker_config_path(self._broker_id if per_broker else None)
        await self._store(path, f"{BROKERS_ENTITY}/{entity}", texts)
        await self.load_broker()
        self._topics.clear()
        self._on_broker_change(self.broker)

    async def _store(self, path: str, entity_path: str, config: Mapping[str, str]) -> None:
        data = ConfigEntity(config).encode()
        notification = Create(
            CONFIG_CHANGE_PREFIX, ConfigChange(entity_path).encode(), CreateMode.PERSISTENT_SEQUENTIAL
        )
        exists = await self._zookeeper.exists(path) is not None
        write: Operation = SetData(path, data) if exists else Create(path, data)
        try:
            await self._zookeeper.multi([write, notification])
        except NodeExists:
            # Another broker made it between the look and the write.
            await self._zookeeper.multi([SetData(path, data), notification])


def _config(entity_type: str, entity: str, node: tuple[bytes | None, object] | None) -> Mapping[str, str]:
    return {} if node is None else ConfigEntity.decode(f"{entity_type}/{entity}", node[0]).config
