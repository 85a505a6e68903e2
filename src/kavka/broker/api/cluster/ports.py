"""What the broker must offer so that operators see the cluster, its versions and disks, and say where replicas lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kavka.broker.coordinators.group_census import GroupCensus
    from kavka.broker.late import Late
    from kavka.broker.metadata.features import Features
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.settings.dynamic_configs import DynamicConfigs
    from kavka.broker.telemetry.client_telemetry import ClientTelemetry
    from kavka.broker.telemetry.connected_clients import ConnectedClients
    from kavka.broker.upkeep.log_moves import LogMoves
    from kavka.config.broker import BrokerConfig
    from kavka.controller.controller import Controller
    from kavka.log.log_manager import LogManager
    from kavka.replication.replica_manager import ReplicaManager


class ClusterBroker(Protocol):
    """The broker, as handlers of cluster requests see it."""

    @property
    def metadata(self) -> MetadataCache:
        """The cluster id, the controller, the live brokers and the partitions."""

    @property
    def controller(self) -> Controller:
        """This broker's part in controlling the cluster: elections, reassignments, feature levels. Raises
        NotController unless it is the controller."""

    @property
    def features(self) -> Features:
        """The feature levels in force."""

    @property
    def telemetry(self) -> Late[ClientTelemetry]:
        """Clients' metrics: who is to push which, and what was pushed."""

    @property
    def connected_clients(self) -> ConnectedClients:
        """Who writes and reads here."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings in force: the largest push of metrics."""

    @property
    def configs(self) -> DynamicConfigs:
        """Which groups have a dead-letter topic."""

    @property
    def logs(self) -> LogManager:
        """The log directories and the logs in them."""

    @property
    def moves(self) -> LogMoves:
        """Moves logs to other directories of this broker."""

    @property
    def replicas(self) -> ReplicaManager:
        """Its clock: clients' metrics are due by it."""

    @property
    def group_census(self) -> GroupCensus:
        """Which groups the cluster has."""

    def serves_consumer_groups(self) -> bool:
        """Whether groups of the newer protocol (KIP-848) are served now."""

    def serves_share_groups(self) -> bool:
        """Whether share groups (KIP-932) are served now."""

    def serves_streams_groups(self) -> bool:
        """Whether streams groups (KIP-1071) are served now."""
