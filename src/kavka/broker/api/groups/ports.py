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


class GroupsBroker(Protocol):
    """The broker, as handlers of groups see it."""

    @property
    def groups(self) -> GroupCoordinator:
        """The groups that this broker coordinates, their members and their committed offsets."""

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

    def offsets_partition(self, group_id: str) -> PartitionMetadata:
        """The partition of `__consumer_offsets` that keeps a group. Raises RequestError (COORDINATOR_NOT_AVAILABLE)."""

    def transactions_partition(self, transactional_id: str) -> PartitionMetadata:
        """The partition of `__transaction_state` that keeps a transactional id. Raises RequestError likewise."""

    def share_states_partition(self, key: str) -> PartitionMetadata:
        """The partition of `__share_group_state` that keeps a share-partition. Raises RequestError likewise."""

    def serves_share_groups(self) -> bool:
        """Whether share groups are served."""
