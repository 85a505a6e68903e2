"""Clusters: all clusters of a console, each with its watcher, its history and its health.

Decides what is kept of each snapshot. Must not know how a cluster is read, nor any page.

    I1  A bug of ours in what one cluster's answers are made into ends its watch, which begins again; the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kavka.console.history import History, HistoryStore, IsrChange, Series
from kavka.errors import StorageError
from kavka.logger import Logger
from kavka.observe.changes import Changes
from kavka.observe.health.checks import check_health
from kavka.observe.watcher import Watcher, now_ms

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.console.settings import ConsoleSettings
    from kavka.network import Network
    from kavka.observe.cluster_settings import ClusterSettings
    from kavka.observe.decision_tail import DecisionTail
    from kavka.observe.health.findings import Thresholds
    from kavka.observe.health.report import HealthReport
    from kavka.observe.snapshot import ClusterSnapshot

RESTART_S: Final = 5.0
WRITE_EVERY_S: Final = 5.0
SAMPLE_EVERY_MS: Final = 5_000
logger = Logger(__name__)


class ClusterWatch:
    """One cluster as pages see it."""

    def __init__(self, watcher: Watcher, store: HistoryStore, thresholds: Thresholds) -> None:
        self.name = watcher.settings.name
        self.settings: ClusterSettings = watcher.settings
        self.history: History = store.of(self.name)
        self.changes: Changes = watcher.changes
        self._watcher = watcher
        self._store = store
        self._thresholds = thresholds
        self._sampled_ms = 0
        self._health: tuple[int, HealthReport] | None = None
        watcher.on_snapshot.append(self._keep)

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The newest. Take it once for a page: the next access may be a newer one."""
        return self._watcher.snapshot

    @property
    def cluster(self) -> Cluster:
        """The client that the cluster is watched with; pages and actions share its connections."""
        return self._watcher.cluster

    @property
    def decisions(self) -> DecisionTail:
        return self._watcher.decisions

    @property
    def health(self) -> HealthReport:
        """Of the newest snapshot; each snapshot is checked at most once."""
        snapshot = self.snapshot
        if self._health is None or self._health[0] != snapshot.number:
            self._health = snapshot.number, check_health(snapshot, snapshot.at_ms or now_ms(), self._thresholds)
        return self._health[1]

    def refresh(self) -> None:
        """Something was changed: have it read again soon."""
        self._watcher.refresh()

    def _keep(self, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        """Takes note of what the history shows."""
        self._keep_isr(before, after)
        if after.state is not before.state:
            tell = logger.info if after.is_reachable else logger.warning
            tell("cluster " + after.state.value, cluster=self.name, brokers=len(after.alive_brokers), why=after.why)
        if not after.is_reachable or after.at_ms - self._sampled_ms < SAMPLE_EVERY_MS:
            return
        self._sampled_ms = after.at_ms
        add = self._store.add
        numbers: list[tuple[Series, str, float | None]] = [
            (Series.CLUSTER_RECORDS_IN, "", after.in_records_per_s),
            (Series.CLUSTER_BYTES_IN, "", after.in_bytes_per_s),
            (Series.UNDER_REPLICATED, "", after.counts.under_replicated),
            (Series.HEALTH, "", self.health.score),
        ]
        numbers += [(Series.BROKER_BYTES_IN, str(each.broker_id), each.in_bytes_per_s) for each in after.alive_brokers]
        for topic in after.topics.values():
            # A topic that nobody writes to takes no series from those that somebody does.
            if topic.in_records_per_s or self._store.has(self.name, Series.TOPIC_RECORDS_IN, topic.name):
                numbers.append((Series.TOPIC_RECORDS_IN, topic.name, topic.in_records_per_s))
                numbers.append((Series.TOPIC_BYTES_IN, topic.name, topic.in_bytes_per_s))
        for group in after.groups.values():
            numbers.append((Series.GROUP_LAG, group.group_id, group.lag))
            if len(group.topics) > 1:
                numbers += [
                    (Series.GROUP_TOPIC_LAG, f"{group.group_id}/{topic}", group.lag_of(topic)) for topic in group.topics
                ]
            numbers.append(
                (
                    Series.GROUP_LAG_MS,
                    group.group_id,
                    max((o.lag_ms for o in group.offsets if o.lag_ms is not None), default=None),
                )
            )
        for kind, of, value in numbers:
            if value is not None:
                add(self.name, kind, of, float(value), after.at_ms)

    def _keep_isr(self, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        if before.topics is after.topics:
            return
        changes = []
        for name, topic in after.topics.items():
            known = before.topics.get(name)
            if known is None or known is topic or known.topic_id != topic.topic_id:
                continue
            for old, new in zip(known.partitions, topic.partitions, strict=False):
                if old is not new and (old.in_sync_replicas != new.in_sync_replicas or old.leader != new.leader):
                    changes.append(
                        IsrChange(
                            after.at_ms,
                            new.name,
                            new.replicas,
                            old.leader,
                            new.leader,
                            old.in_sync_replicas,
                            new.in_sync_replicas,
                        )
                    )
        if changes:
            self._store.add_isr_changes(self.name, changes)


class Clusters:
    """All of them, by name. `start` in the event loop that serves the pages."""

    def __init__(self, settings: ConsoleSettings, network: Network | None = None) -> None:
        self.changes = Changes()
        """Of any of them."""
        self.store = HistoryStore(settings.history_file, days=settings.history_days)
        self._watchers = {
            each.name: Watcher(each, poll_ms=settings.poll_ms, network=network) for each in settings.clusters
        }
        self._watches = {
            name: ClusterWatch(watcher, self.store, settings.thresholds) for name, watcher in self._watchers.items()
        }
        for watcher in self._watchers.values():
            watcher.on_snapshot.append(lambda before, after: self.changes.publish(after.at_ms, after.state.value))
        self._tasks: list[asyncio.Task[None]] = []

    def get(self, name: str) -> ClusterWatch | None:
        return self._watches.get(name)

    def __iter__(self) -> Iterator[ClusterWatch]:
        return iter(self._watches.values())

    def __len__(self) -> int:
        return len(self._watches)

    async def start(self) -> None:
        """Begins to watch all of them. Raises StorageError."""
        await self.store.open()
        self._tasks = [
            asyncio.create_task(self._watch(watcher), name=f"watch {name}") for name, watcher in self._watchers.items()
        ]
        self._tasks.append(asyncio.create_task(self._write(), name="history"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for watcher in self._watchers.values():
            await watcher.close()
        await self.store.close()

    async def _watch(self, watcher: Watcher) -> None:
        while True:
            try:
                await watcher.run()
            except* Exception as failed:  # noqa: BLE001  # a boundary between clusters, see below
                # Named boundary: a bug in what one cluster's answers are made into must not take the others down.
                cause = repr(failed.exceptions[0])
                logger.error(
                    "watch failed", cluster=watcher.settings.name, error=cause, next="this is a bug: report it"
                )
            await asyncio.sleep(RESTART_S)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            try:
                await self.store.write(now_ms() // 1000)
            except StorageError as problem:
                logger.warning("history not written", why=str(problem), next="free space on its disk; then it goes on")
