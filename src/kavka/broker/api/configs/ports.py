"""What the broker must offer so that settings can be shown and changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kavka.broker.metadata.features import Features
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.quotas.quota_store import QuotaStore
    from kavka.broker.settings.dynamic_configs import DynamicConfigs
    from kavka.errors import ErrorCode
    from kavka.logger import LogLevels
    from kavka.model import BrokerId


class ConfigsBroker(Protocol):
    """The broker, as handlers of settings see it."""

    @property
    def configs(self) -> DynamicConfigs:
        """All settings that can change at run time, and the way to change them in ZooKeeper."""

    @property
    def metadata(self) -> MetadataCache:
        """Which topics and live brokers exist."""

    @property
    def features(self) -> Features:
        """The levels of the cluster's features."""

    @property
    def quota_store(self) -> QuotaStore:
        """The quotas of clients in ZooKeeper, and the way to change them."""

    @property
    def broker_id(self) -> BrokerId:
        """The id under which requests name this broker."""

    @property
    def log_levels(self) -> LogLevels:
        """The levels of this broker's loggers."""

    def invalid_topic_name(self, name: str) -> ErrorCode | None:
        """INVALID_TOPIC_EXCEPTION where no topic can have this name, else None."""
