"""What the broker must offer so that transactions can be served: as their coordinator, as the coordinator of the groups
whose offsets they commit, and as the leader of partitions that they end in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.transactions.markers import MarkerLog
    from kavka.broker.transactions.producer_ids import ProducerIds
    from kavka.broker.transactions.verification import TransactionVerification
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.coordinator.transactions.coordinator import TransactionCoordinator
    from kavka.replication.replica_manager import ReplicaManager


class TransactionsBroker(Protocol):
    """The broker, as handlers of transactions see it."""

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactional ids that this broker coordinates."""

    @property
    def has_transactions(self) -> bool:
        """Whether `transactions` was needed so far. Who only lists transactions does not make it."""

    @property
    def producer_ids(self) -> ProducerIds:
        """Producer ids that no other producer has."""

    @property
    def groups(self) -> GroupCoordinator:
        """The groups that this broker coordinates: they keep the offsets of a transaction."""

    @property
    def verification(self) -> TransactionVerification:
        """Asks a transaction's coordinator whether a partition is part of it (KIP-890)."""

    @property
    def marker_log(self) -> MarkerLog:
        """Writes the markers that end a transaction into partitions that are led here."""

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions that have a replica here, and the producers that their logs remember."""

    @property
    def metadata(self) -> MetadataCache:
        """Which topics and partitions exist."""

    def wall_ms(self) -> int:
        """The time, in milliseconds since 1970."""

    async def ensure_internal_topic(self, name: str) -> None:
        """Returns when the coordinators' topic of that name exists. Raises RequestError (COORDINATOR_NOT_AVAILABLE)."""
