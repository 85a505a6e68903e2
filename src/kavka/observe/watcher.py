"""Watcher: one cluster, looked at again and again: when each part is read, and what is published.

Decides how often a part is due and that none takes more than its share of time. Must not know pages.

    loop of leadership   Metadata every `poll_ms`: a broker that dies, a leader that moves
    loop of details      everything else, one part after another, each when it is due
    decisions            as they are written (decision_tail.py)

    I1  A part that took much is due later: it is given at most one part in SHARE of a core, so that ten thousand
        partitions cost the cluster and the observer no more than that. Waiting costs next to nothing: a broker that
        does not answer, or a machine that is busy, hides what becomes of a cluster for a few seconds only.
    I2  A failure is a reading with its reason, never the end of a loop. A cluster that goes away is shown as it was,
        with the time of that; when it is back the loops go on.
    I3  At most one snapshot is published in LEAST_PAUSE_S by details; what leadership changed is published at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.client.admin import Admin
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.settings import ClientSettings
from kavka.decisions import DECISIONS_TOPIC
from kavka.errors import KavkaError
from kavka.observe.broker_metrics import MetricsScraper
from kavka.observe.changes import Changes
from kavka.observe.controllers import Controllers, read_quorum
from kavka.observe.decision_tail import DecisionTail
from kavka.observe.given_up import GivenUpRecords
from kavka.observe.group_assembly import GroupAssembly
from kavka.observe.group_readings import list_groups, read_groups
from kavka.observe.readings import (
    BROKER_PATIENCE_S,
    ByBroker,
    read_broker_configs,
    read_high_watermarks,
    read_log_directories,
    read_log_ends,
    read_log_starts,
    read_metadata,
    read_topic_configs,
)
from kavka.observe.snapshot import ClusterSnapshot, ClusterState, Part, Reading, TransactionView, ZooKeeperView
from kavka.observe.snapshot_assembly import SnapshotAssembly
from kavka.observe.transaction_readings import TransactionReader
from kavka.observe.zookeeper_readings import read_zookeeper
from kavka.runtime.network.client_network import client_network

if TYPE_CHECKING:
    from kavka.network import Network
    from kavka.observe.cluster_settings import ClusterSettings

SHARE: Final = 10
"""A part of a core: what a reading costs here is near to what it costs the brokers together."""
WAITING_SHARE: Final = 3
"""A part of the time, for readings that wait more than they work."""
LEAST_PAUSE_S: Final = 1.0
REQUEST_TIMEOUT_MS: Final = 5_000
CONNECT_TIMEOUT_MS: Final = 2_000
API_TIMEOUT_MS: Final = 8_000
DECODE_IN_THREAD_BYTES: Final = 64 * 1024
"""Metadata of some 1,500 partitions, which take 10 ms to decode: no page shall wait for larger ones."""


@dataclass(slots=True)
class _Task:
    """A part and when it is read: every `every` polls."""

    part: Part
    every: int
    read: Callable[[], Awaitable[None]]
    due_s: float = 0.0


class Watcher:
    """One cluster. `run` until it is cancelled; `snapshot` is the newest."""

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        poll_ms: int,
        network: Network | None = None,
        client_id: str = "kavka-console",
    ) -> None:
        self.settings = settings
        self.changes = Changes()
        self.cluster = Cluster(
            network or client_network(settings.tls, connect_timeout_s=CONNECT_TIMEOUT_MS / 1000),
            parse_bootstrap(settings.bootstrap),
            ClientSettings(
                client_id=client_id,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                api_timeout_ms=API_TIMEOUT_MS,
                decode_in_thread_bytes=DECODE_IN_THREAD_BYTES,
                sasl=settings.sasl,
            ),
        )
        self.decisions = DecisionTail(now_ms)
        self.snapshot = ClusterSnapshot(settings.name, settings.bootstrap)
        self.on_snapshot: list[Callable[[ClusterSnapshot, ClusterSnapshot], None]] = []
        """Called with the snapshot before and the new one, at once; must not block."""
        self._poll_s = poll_ms / 1000
        self._assembly = SnapshotAssembly()
        self._groups = GroupAssembly()
        self._controllers = Controllers()
        self._given_up = GivenUpRecords()
        self._transactions = TransactionReader(self.cluster)
        self._metrics = MetricsScraper(settings.metrics)
        self._shown_transactions: tuple[TransactionView, ...] = ()
        self._zookeeper: tuple[ZooKeeperView, ...] = ()
        self._readings: dict[Part, Reading] = {}
        self._state = ClusterState.CONNECTING
        self._state_since_ms = now_ms()
        self._why = ""
        self._wanted = asyncio.Event()
        self._refreshes = 0
        self._published_s = 0.0
        self._tasks = [
            _Task(Part.CONTROLLER, 1, self._read_controller),
            _Task(Part.OFFSETS, 2, self._read_offsets),
            _Task(Part.TOPIC_CONFIGS, 30, self._read_topic_configs),
            _Task(Part.GROUPS, 3, self._read_groups),
            _Task(Part.LOG_DIRECTORIES, 5, self._read_log_directories),
            _Task(Part.REPLICA_ENDS, 5, self._read_replica_ends),
            _Task(Part.REASSIGNMENTS, 2, self._read_reassignments),
            _Task(Part.BROKER_CONFIGS, 30, self._read_broker_configs),
            _Task(Part.BROKER_METRICS, 5, self._read_broker_metrics),
            _Task(Part.TRANSACTIONS, 15, self._read_transactions),
            _Task(Part.ZOOKEEPER, 5, self._read_zookeeper),
        ]

    async def run(self) -> None:
        """Looks until it is cancelled."""
        name = self.settings.name
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._leadership(), name=f"{name}: leadership")
            tasks.create_task(self._details(), name=f"{name}: details")
            follow = self.decisions.follow(self.cluster, self._has_decisions, self._publish_soon)
            tasks.create_task(follow, name=f"{name}: decisions")

    async def close(self) -> None:
        """Closes the connections; `run` has ended before."""
        await self.cluster.close()

    def refresh(self) -> None:
        """Has everything read again as soon as possible: somebody has just changed something."""
        self._refreshes += 1
        for task in self._tasks:
            task.due_s = 0.0
        self._wanted.set()

    async def read_all(self) -> ClusterSnapshot:
        """Reads each part once, and returns what there is then: for commands that look once."""
        await self._read_leadership()
        if self._state is ClusterState.REACHABLE:
            for task in self._tasks:
                await self._attempt(task)
            if self._has_decisions():
                await self.decisions.catch_up(self.cluster)
        self._publish()
        return self.snapshot

    # -- leadership

    async def _leadership(self) -> None:
        while True:
            cost = _Cost()
            await self._read_leadership()
            self._wanted.clear()
            try:
                async with asyncio.timeout(cost.pause_s(self._poll_s)):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _read_leadership(self) -> None:
        began = time.monotonic()
        try:
            described = await read_metadata(self.cluster)
        except (KavkaError, TimeoutError) as problem:
            why = str(problem) or f"no answer within {BROKER_PATIENCE_S:.0f} s"
            self._note(Part.METADATA, began, why)
            if self._state is ClusterState.REACHABLE:
                self._enter(ClusterState.UNREACHABLE)
            self._why = why
        else:
            self._assembly.take_metadata(described, now_ms())
            self._note(Part.METADATA, began)
            if self._state is not ClusterState.REACHABLE:
                self._enter(ClusterState.REACHABLE)
                for task in self._tasks:
                    task.due_s = 0.0
            self._why = ""
        self._publish()

    def _enter(self, state: ClusterState) -> None:
        self._state = state
        self._state_since_ms = now_ms()

    # -- details

    async def _details(self) -> None:
        while True:
            if self._state is not ClusterState.REACHABLE:
                await self.changes.after(self.changes.number)
                continue
            now_s = time.monotonic()
            due = [task for task in self._tasks if task.due_s <= now_s]
            for task in due:
                if self._state is not ClusterState.REACHABLE:
                    break
                cost, refreshes = _Cost(), self._refreshes
                await self._attempt(task)
                # A reading that was under way when somebody asked for all anew may be of the time before: once more.
                if refreshes == self._refreshes:
                    task.due_s = time.monotonic() + cost.pause_s(task.every * self._poll_s)
                for _ in self._assembly.prepare():
                    await asyncio.sleep(0)
                self._publish_soon()
            # The least that a poll takes, so that parts that are due one after another are read together.
            await asyncio.sleep(self._poll_s / 4)

    async def _attempt(self, task: _Task) -> None:
        began = time.monotonic()
        try:
            await task.read()
        except (KavkaError, TimeoutError, OSError) as problem:
            self._note(task.part, began, str(problem) or "no answer in time")
        else:
            self._note(task.part, began)

    def _note(self, part: Part, began: float, why: str = "") -> None:
        before = self._readings.get(part, Reading())
        took_ms = int((time.monotonic() - began) * 1000)
        if why:
            self._readings[part] = Reading(before.read_at_ms, took_ms, why)
        else:
            self._readings[part] = Reading(now_ms(), took_ms, "")

    async def _read_controller(self) -> None:
        quorum = await read_quorum(self.cluster)
        self._assembly.take_controller(quorum, self.cluster.controller_id)
        self._controllers.take(self._assembly.controller_id, quorum, now_ms())

    async def _read_offsets(self) -> None:
        by_leader = self._assembly.by_leader()
        self._assembly.take_high_watermarks(await read_high_watermarks(self.cluster, by_leader), now_ms())
        self._groups.sample(self._assembly, now_ms())

    async def _read_replica_ends(self) -> None:
        ends = await read_log_ends(self.cluster, self._assembly.by_replica())
        for broker, found in ends.found.items():
            self._assembly.take_log_ends(ByBroker({broker: found}))
            await asyncio.sleep(0)  # Ten thousand of one broker take 30 ms; a page may come between two brokers.
        self._assembly.take_log_ends(ByBroker({}, ends.silent))
        self._assembly.take_log_starts(await read_log_starts(self.cluster, self._assembly.by_leader()))

    async def _read_topic_configs(self) -> None:
        self._assembly.take_topic_configs(await read_topic_configs(self.cluster, self._assembly.topic_names))

    async def _read_broker_configs(self) -> None:
        found = await read_broker_configs(self.cluster, self._assembly.broker_ids)
        self._assembly.take_broker_configs(found, now_ms())

    async def _read_log_directories(self) -> None:
        found = await read_log_directories(self.cluster, self._assembly.broker_ids)
        self._assembly.take_log_directories(found, now_ms())
        if found.silent and not found.found:
            raise KavkaError("; ".join(found.silent.values()))

    async def _read_reassignments(self) -> None:
        async with asyncio.timeout(BROKER_PATIENCE_S):
            self._assembly.take_reassignments(await Admin(self.cluster).list_partition_reassignments())

    async def _read_groups(self) -> None:
        listed = await list_groups(self.cluster)
        readings = await read_groups(self.cluster, listed, self._groups.readings, now_ms=now_ms())
        self._groups.take(readings, self._assembly)

    async def _read_transactions(self) -> None:
        self._shown_transactions = await self._transactions.read(self._assembly.by_leader(), now_ms())

    async def _read_broker_metrics(self) -> None:
        addresses = {
            broker.broker_id: (broker.host, self._assembly.configs_of(broker.broker_id))
            for broker in self.snapshot.alive_brokers
        }
        self._assembly.take_broker_metrics(await self._metrics.read(addresses), now_ms())
        if not any(self._metrics.address_of(each, *place) for each, place in addresses.items()):
            raise KavkaError(
                "no broker exposes its metrics: start brokers with --metrics-port (kavka), or set the address of "
                "their exporter in the console's settings (metrics)"
            )

    async def _read_zookeeper(self) -> None:
        if not self.settings.zookeeper:
            raise KavkaError("the console's settings name no ZooKeeper for this cluster")
        self._zookeeper = await read_zookeeper(self.settings.zookeeper, now_ms)

    # -- publishing

    def _has_decisions(self) -> bool:
        return DECISIONS_TOPIC in self.snapshot.topics and self._state is ClusterState.REACHABLE

    def _publish_soon(self) -> None:
        if time.monotonic() - self._published_s >= LEAST_PAUSE_S:
            self._publish()

    def _publish(self) -> None:
        before, at_ms, assembly = self.snapshot, now_ms(), self._assembly
        topics, brokers, counts = assembly.views()
        self._readings[Part.DECISIONS] = self.decisions.reading
        self.snapshot = ClusterSnapshot(
            name=self.settings.name,
            bootstrap=self.settings.bootstrap,
            number=before.number + 1,
            at_ms=at_ms,
            state=self._state,
            state_since_ms=self._state_since_ms,
            why=self._why,
            kind=self._kind(),
            cluster_id=assembly.cluster_id,
            controller_id=assembly.controller_id,
            quorum=assembly.quorum,
            controllers=self._controllers.view(self.decisions, at_ms),
            brokers=brokers,
            topics=topics,
            groups=self._groups.views(assembly, at_ms),
            reassignments=assembly.reassignments,
            transactions=self._shown_transactions,
            given_up=self._given_up.view(self.decisions, at_ms),
            zookeeper=self._zookeeper,
            in_records_per_s=assembly.records_per_s,
            in_bytes_per_s=assembly.bytes_per_s,
            readings=dict(self._readings),
            counts=counts,
        )
        self._published_s = time.monotonic()
        for tell in self.on_snapshot:
            tell(before, self.snapshot)
        self.changes.publish(at_ms, self._state.value)

    def _kind(self) -> str:
        """kavka's brokers have settings that begin with its name."""
        for broker in self._assembly.broker_ids:
            configs = self._assembly.configs_of(broker)
            if configs:
                return "kavka" if any(name.startswith("kavka.") for name in configs) else "Apache Kafka"
        return ""


class _Cost:
    """What a reading that begins now takes. The processor's time is that of the whole process: other watches and pages
    count in it, so that it is never too little."""

    def __init__(self) -> None:
        self._began_s, self._worked_s = time.monotonic(), time.process_time()

    def pause_s(self, every_s: float) -> float:
        """How long the reading that has just ended is not made again."""
        return pause_s(every_s, time.monotonic() - self._began_s, time.process_time() - self._worked_s)


def pause_s(every_s: float, took_s: float, worked_s: float) -> float:
    """How long a part is not read again that is due every `every_s`, and took so long, and so much of a core (I1)."""
    return max(every_s, (SHARE - 1) * worked_s, (WAITING_SHARE - 1) * took_s)


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000
