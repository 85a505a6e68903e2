"""What the broker must offer so that topics can be listed, created, enlarged and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kavka.broker.metadata.first_metadata import FirstMetadata
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.settings.dynamic_configs import DynamicConfigs
    from kavka.broker.topics.auto_creation import AutoCreation
    from kavka.config.broker import BrokerConfig
    from kavka.controller.work.topic_admin import TopicAdmin
    from kavka.errors import ErrorCode
    from kavka.model import TopicPartition
    from kavka.zookeeper.znodes import PartitionState


class TopicsBroker(Protocol):
    """The broker, as handlers of topics see it."""

    @property
    def metadata(self) -> MetadataCache:
        """The topics, partitions and live brokers that clients are shown."""

    @property
    def topics(self) -> TopicAdmin:
        """Creates, enlarges and deletes topics; calls raise NotController unless this broker is the controller."""

    @property
    def auto_creation(self) -> AutoCreation:
        """Creates topics that a client's Metadata names, in the background."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings in force: automatic creation, eligible leader replicas, page size."""

    @property
    def configs(self) -> DynamicConfigs:
        """The broker's settings, from which a new topic has those that it does not set itself."""

    @property
    def first_metadata(self) -> FirstMetadata:
        """Whether this broker knows the cluster: the controller has sent it."""

    async def read_partition_states(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionState]:
        """The states of those partitions in ZooKeeper, where they have one. Raises ZooKeeperError."""

    def invalid_topic_name(self, name: str) -> ErrorCode | None:
        """INVALID_TOPIC_EXCEPTION where no topic can have this name, else None."""
