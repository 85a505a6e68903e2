"""Following: the fetchers of this broker, which are made when the first partition is to be followed.

A broker that is alone never needs them, and does not import them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.config.broker import BrokerConfig
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from kavka.replication.decide.fetch_state import FetchState
    from kavka.replication.fetcher_manager import FetcherManager


class Following:
    """`make` makes the fetchers."""

    def __init__(self, make: Callable[[], FetcherManager]) -> None:
        self._make = make
        self._fetchers: FetcherManager | None = None

    def begin(self) -> FetcherManager:
        """The fetchers, made now."""
        self._fetchers = self._make()
        return self._fetchers

    def state(self, topic_partition: TopicPartition) -> FetchState | None:
        """How far a partition that is followed here is behind its leader. None if it is not followed."""
        return None if self._fetchers is None else self._fetchers.state(topic_partition)

    @property
    def failed_partitions(self) -> int:
        """Followed partitions that are not fetched until the controller names another leader epoch."""
        return 0 if self._fetchers is None else self._fetchers.failed_partitions

    @property
    def max_lag(self) -> int:
        """The number of records that the slowest followed partition lacks up to its leader's high watermark."""
        return 0 if self._fetchers is None else self._fetchers.max_lag

    def on_log_start_moved(self, topic_partition: TopicPartition) -> None:
        """Retention deleted records of a partition that is hosted here."""
        if self._fetchers is not None:
            self._fetchers.on_log_start_moved(topic_partition)

    def configure(self, config: BrokerConfig) -> None:
        """The broker's settings changed."""
        if self._fetchers is not None:
            from kavka.replication.fetcher_manager import fetcher_settings

            self._fetchers.configure(fetcher_settings(config))

    async def stop(self) -> None:
        if self._fetchers is not None:
            await self._fetchers.stop()

    def abort(self) -> None:
        if self._fetchers is not None:
            self._fetchers.abort()
