"""What the broker must offer so that share groups can be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kavka.broker.authorization.authorization import Authorization
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.share.room import ShareRoom
    from kavka.broker.telemetry.connected_clients import ConnectedClients
    from kavka.config.broker import BrokerConfig
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.coordinator.share_state.coordinator import ShareCoordinator
    from kavka.replication.replica_manager import ReplicaManager


class ShareBroker(Protocol):
    """The broker, as handlers of share groups see it."""

    @property
    def groups(self) -> GroupCoordinator:
        """The groups that this broker coordinates."""

    @property
    def share(self) -> ShareRoom:
        """Sessions of members, and the share-partitions that this broker leads."""

    @property
    def connected_clients(self) -> ConnectedClients:
        """Told who reads what."""

    @property
    def share_states(self) -> ShareCoordinator:
        """The states of share-partitions that this broker keeps."""

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions that have a replica here."""

    @property
    def metadata(self) -> MetadataCache:
        """Which topics and partitions exist, who leads them, and where live brokers are reached."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings in force."""

    @property
    def authorization(self) -> Authorization | None:
        """The broker's authorizer. None: everything is allowed."""

    def serves_share_groups(self) -> bool:
        """Whether share groups are served: the cluster has their feature level."""
