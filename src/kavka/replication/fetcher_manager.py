"""FetcherManager: which fetcher follows which partition.

Decides how partitions are shared among the fetchers of a leader broker, when a fetcher begins, and when it ends. Must
not know what an answer means, or who says that a partition is to be followed.

    I1  a partition is followed by one fetcher at most: it leaves the one before it comes to the next
    I2  the same partition goes to the same fetcher number on every broker and in every run: no `hash`
    I3  a fetcher without partitions ends, and its connection with it

Source: Kafka's AbstractFetcherManager and ReplicaFetcherManager, 3.9.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kavka.model import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition
from kavka.replication.decide.fetch_state import FetchState, Followed, Stage
from kavka.replication.decide.followed_partitions import FetcherCounts, FetcherSettings, LocalPorts
from kavka.replication.decide.partition import Partition
from kavka.replication.fetcher import Endpoint, FetcherPorts, ReplicaFetcher

if TYPE_CHECKING:
    from kavka.config.broker import BrokerConfig

__all__ = [
    "Endpoint",
    "FetcherManager",
    "FetcherPorts",
    "FetcherSettings",
    "Followed",
    "LocalPorts",
    "fetcher_settings",
]

_FetcherKey = tuple[BrokerId, int]


def fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    """What of a broker's settings its fetchers follow."""
    return FetcherSettings(
        num_replica_fetchers=config.num_replica_fetchers,
        wait_max_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_max_bytes,
        response_max_bytes=config.replica_fetch_response_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
        socket_timeout_ms=config.replica_socket_timeout_ms,
        inter_broker_protocol_version=config.inter_broker_protocol_version,
    )


class FetcherManager:
    """All fetchers of a broker."""

    def __init__(self, ports: FetcherPorts, settings: FetcherSettings) -> None:
        self.counts = FetcherCounts()
        self._ports = ports
        self._settings = settings
        self._endpoints: dict[BrokerId, Endpoint] = {}
        self._fetchers: dict[_FetcherKey, ReplicaFetcher] = {}
        self._fetcher_of: dict[TopicPartition, ReplicaFetcher] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._has_ended = False
        self._is_sharing = False
        """While partitions are given out no fetcher ends: a disk that fails just then unfollows in between."""

    def __len__(self) -> int:
        """How many fetchers run."""
        return len(self._fetchers)

    # -- what the controller says

    def follow(self, items: Sequence[Followed]) -> None:
        """Fetches each of the partitions from its leader from now on. One that is followed in the same leader epoch
        goes on as it is; one that nobody leads (-1) is not fetched. After `stop` and `abort` none is: the controller,
        which may be this very broker, gives orders while logs are closed and marked as whole."""
        if self._has_ended:
            return
        self._is_sharing = True
        try:
            self._share(items)
        finally:
            self._is_sharing = False
        self._end_idle()

    def _share(self, items: Sequence[Followed]) -> None:
        shares: dict[_FetcherKey, list[tuple[Partition, LeaderEpoch]]] = {}
        for item in items:
            topic_partition = item.partition.topic_partition
            key = (item.leader, self._fetcher_number(topic_partition))
            fetcher = self._fetcher_of.get(topic_partition)
            if fetcher is not None and fetcher is not self._fetchers.get(key):
                del self._fetcher_of[topic_partition]
                fetcher.unfollow(topic_partition)
            if item.leader != NO_LEADER:
                shares.setdefault(key, []).append((item.partition, item.leader_epoch))
        for key, share in shares.items():
            fetcher = self._fetchers.get(key)
            if fetcher is None:
                leader_id, number = key
                fetcher = self._fetchers[key] = ReplicaFetcher(
                    leader_id, number, self._endpoints.get(leader_id), self._ports, self._settings, self.counts
                )
            for partition, _leader_epoch in share:
                self._fetcher_of[partition.topic_partition] = fetcher
            fetcher.follow(share)

    def unfollow(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stops appending to the partitions. Nothing is appended after this returns."""
        for topic_partition in topic_partitions:
            fetcher = self._fetcher_of.pop(topic_partition, None)
            if fetcher is not None:
                fetcher.unfollow(topic_partition)
        self._end_idle()

    def on_log_start_moved(self, topic_partition: TopicPartition) -> None:
        """This broker deleted records of a partition by itself: its leader hears of it with the next fetch."""
        fetcher = self._fetcher_of.get(topic_partition)
        if fetcher is not None:
            fetcher.partitions.on_log_start_moved(topic_partition)

    def set_endpoints(self, endpoints: Mapping[BrokerId, Endpoint]) -> None:
        """Where the live brokers are reached. A leader that is not among them is looked for where it was last."""
        before = self._endpoints
        self._endpoints = dict(endpoints)
        for fetcher in self._fetchers.values():
            endpoint = self._endpoints.get(fetcher.leader_id)
            if endpoint is not None:
                known = before.get(fetcher.leader_id)
                if known != endpoint:
                    fetcher.set_endpoint(endpoint, is_new=known is not None)

    # -- settings

    def configure(self, settings: FetcherSettings) -> None:
        """Obeys other settings from the next request on; partitions move if there are more or fewer fetchers."""
        before, self._settings = self._settings, settings
        for fetcher in self._fetchers.values():
            fetcher.partitions.settings = settings
        if settings.num_replica_fetchers != before.num_replica_fetchers:
            self.follow(
                [
                    Followed(state.partition, fetcher.leader_id, state.leader_epoch)
                    for fetcher in self._fetchers.values()
                    for state in fetcher.partitions
                ]
            )

    def _fetcher_number(self, topic_partition: TopicPartition) -> int:
        topic, partition = topic_partition
        return (31 * zlib.crc32(topic.encode()) + partition) % self._settings.num_replica_fetchers

    # -- questions

    def state(self, topic_partition: TopicPartition) -> FetchState | None:
        """How far a partition is behind its leader. None if it is not followed."""
        fetcher = self._fetcher_of.get(topic_partition)
        return None if fetcher is None else fetcher.partitions.get(topic_partition)

    def states(self) -> list[FetchState]:
        return [state for fetcher in self._fetchers.values() for state in fetcher.partitions]

    @property
    def max_lag(self) -> int:
        """The number of records that the slowest followed partition lacks up to its leader's high watermark."""
        return max((state.lag or 0 for state in self.states()), default=0)

    @property
    def failed_partitions(self) -> int:
        """Followed partitions that are not fetched until the controller names another leader epoch."""
        return sum(state.stage is Stage.FAILED for state in self.states())

    # -- the end

    async def stop(self) -> None:
        """Ends all fetchers. Returns when nothing of them runs."""
        self.abort()
        while self._ending:
            await asyncio.wait(self._ending)

    def abort(self) -> None:
        """Ends all fetchers without waiting. They append nothing after this."""
        self._has_ended = True
        for fetcher in self._fetchers.values():
            self._end(fetcher)
        self._fetchers.clear()
        self._fetcher_of.clear()

    def _end_idle(self) -> None:
        if self._is_sharing:
            return
        for key in [key for key, fetcher in self._fetchers.items() if not len(fetcher.partitions)]:
            self._end(self._fetchers.pop(key))

    def _end(self, fetcher: ReplicaFetcher) -> None:
        task = fetcher.close()
        if task is not None and not task.done():
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
