"""What the broker must offer so that streams groups can be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kavka.broker.authorization.authorization import Authorization
    from kavka.broker.topics.streams_topics import StreamsTopics
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.errors import ErrorCode


class StreamsBroker(Protocol):
    """The broker, as handlers of streams groups see it."""

    @property
    def groups(self) -> GroupCoordinator:
        """The groups that this broker coordinates."""

    @property
    def streams_topics(self) -> StreamsTopics:
        """Creates internal topics of applications."""

    @property
    def authorization(self) -> Authorization | None:
        """The broker's authorizer. None: everything is allowed."""

    def invalid_topic_name(self, name: str) -> ErrorCode | None:
        """INVALID_TOPIC_EXCEPTION where no topic can have this name."""

    def serves_streams_groups(self) -> bool:
        """Whether streams groups are served: the cluster has their feature level, and the settings allow it."""
