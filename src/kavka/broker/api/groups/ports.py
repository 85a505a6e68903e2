"""What the broker must offer so that groups can be served.

The coordinator of groups is in the room `coordinator`; handlers translate requests into its questions and its answers
into responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kavka.broker.authorization.authorization import Authorization
    from kavka.broker.metadata.metadata_cache import MetadataCache, PartitionMetadata
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.coordinator.share_state.coordinator import ShareCoordinator
    from kavka.coordinator.transactions.coordinator import TransactionCoordinator


class GroupsBroker(Protocol):
    """The broker, as handlers of groups see it."""

    @property
    def groups(self) -> GroupCoordinator:
        """The groups that this broker coordinates, their members and their committed offsets."""

    @property
    def has_groups(self) -> bool:
        """Whether `groups` was needed so far. Who only lists groups does not make it."""

    @property
    def metadata(self) -> MetadataCache:
        """Which topics and partitions exist, and where live brokers are reached."""

    @property
    def authorization(self) -> Authorization | None:
        """The broker's authorizer. None: everything is allowed."""

    def serves_consumer_groups(self) -> bool:
        """Whether groups of the newer protocol (KIP-848) are served now."""

    async def ensure_internal_topic(self, name: str) -> None:
        """Returns when the coordinators' topic of that name exists. Raises RequestError (COORDINATOR_NOT_AVAILABLE)."""

    @property
    def transactions(self) -> TransactionCoordinator:
        """Which partition of its topic keeps a transactional id."""

    @property
    def share_states(self) -> ShareCoordinator:
        """Which partition of its topic keeps a share-partition's state."""

    def coordinator_partition(self, topic: str, index: int) -> PartitionMetadata:
        """A partition of a coordinator's topic. Raises RequestError (COORDINATOR_NOT_AVAILABLE)."""

    def serves_share_groups(self) -> bool:
        """Whether share groups are served."""
