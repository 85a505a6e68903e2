"""HistoryStore: how clusters were: throughput, lag, health, ISRs over time, in a SQLite file.

Decides what is kept of each number for how long, and at what resolution it is given back. Must not know how a number
was read, nor how it is drawn.

    resolution      kept for            of each bucket: mean, least, most, samples
    10 s            1 hour
    1 min           1 day
    10 min          `days`

I1  Memory and file are bounded: at most MAX_SERIES of a kind and cluster, MAX_ISR_CHANGES of a cluster, and buckets for
    as long as the table says. A series that comes when all places are taken is not kept, and `dropped` counts it.
I2  One thread runs all statements, on a connection of its own; the event loop never waits for the disk.
I3  A bucket is written when it closes, or when the console stops: an end without a stop loses the open ones, ten
    minutes at most of the coarsest. A time without samples is a gap, never a zero.

Source: round robin archives as RRDtool has them; SQLite's documentation on WAL.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from kavka.console.ledger import open_ledger, transaction
from kavka.errors import StorageError
from kavka.model import TopicPartition

Result = TypeVar("Result")

DAY_S: Final = 86_400
FINE_S, MIDDLE_S, COARSE_S = 10, 60, 600
KEPT_S: Final = {FINE_S: 3_600, MIDDLE_S: DAY_S}
MAX_SERIES: Final = 200
MAX_ISR_CHANGES: Final = 20_000
MAX_PENDING_ISR_CHANGES: Final = 10_000
"""Of a cluster whose changes come faster than they are written; the oldest are dropped."""
DEFAULT_POINTS: Final = 300
MOST_ISR_CHANGES_READ: Final = 2_000
PRUNE_EVERY_S: Final = 300


class Series(Enum):
    """What is kept. The object of a series is a topic, a broker's id, a group, `group/topic`, or '' for the cluster."""

    TOPIC_RECORDS_IN = "topic records in"
    """A second."""
    TOPIC_BYTES_IN = "topic bytes in"
    BROKER_BYTES_IN = "broker bytes in"
    CLUSTER_RECORDS_IN = "cluster records in"
    CLUSTER_BYTES_IN = "cluster bytes in"
    GROUP_LAG = "group lag"
    """Records, of all partitions together."""
    GROUP_TOPIC_LAG = "group topic lag"
    GROUP_LAG_MS = "group lag ms"
    UNDER_REPLICATED = "under-replicated partitions"
    HEALTH = "health score"


class Point(NamedTuple):
    """One bucket, from `at_ms` on."""

    at_ms: int
    value: float
    least: float
    most: float


class IsrChange(NamedTuple):
    """A partition's leader or ISR was seen to be another than before."""

    at_ms: int
    partition: TopicPartition
    replicas: tuple[int, ...]
    leader_before: int
    leader: int
    in_sync_before: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(slots=True)
class _Bucket:
    at_s: int
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0
    samples: int = 0

    def add(self, value: float) -> None:
        self.least = min(self.least, value) if self.samples else value
        self.most = max(self.most, value) if self.samples else value
        self.total += value
        self.samples += 1


_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS history_series (
    id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, kind TEXT NOT NULL, object TEXT NOT NULL,
    UNIQUE (cluster, kind, object)) STRICT;
CREATE TABLE IF NOT EXISTS history_points (
    series INTEGER NOT NULL, resolution_s INTEGER NOT NULL, at_s INTEGER NOT NULL,
    total REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL, samples INTEGER NOT NULL,
    PRIMARY KEY (series, resolution_s, at_s)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history_isr (
    number INTEGER PRIMARY KEY, cluster TEXT NOT NULL, at_ms INTEGER NOT NULL, topic TEXT NOT NULL,
    partition INTEGER NOT NULL, replicas TEXT NOT NULL, leader_before INTEGER NOT NULL, leader INTEGER NOT NULL,
    in_sync_before TEXT NOT NULL, in_sync TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS history_isr_by_time ON history_isr (cluster, at_ms);
CREATE INDEX IF NOT EXISTS history_isr_by_partition ON history_isr (cluster, topic, partition, at_ms);
"""


class HistoryStore:
    """The history of all clusters of one console. `open` before, `close` after."""

    def __init__(self, path: Path, *, days: int) -> None:
        self.dropped = 0
        """Samples of series that had no place."""
        self._path = path
        self._kept_s = {**KEPT_S, COARSE_S: days * DAY_S}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="console history")
        self._connection: sqlite3.Connection | None = None
        self._ids: dict[tuple[str, Series, str], int] = {}
        self._open_buckets: dict[tuple[int, int], _Bucket] = {}
        self._closed_buckets: list[tuple[int, int, _Bucket]] = []
        self._isr_changes: list[tuple[str, IsrChange]] = []
        self._pruned_s = 0

    async def open(self) -> None:
        """Raises StorageError."""
        await self._run(self._open)

    async def close(self) -> None:
        """Writes what is still open."""
        if self._connection is None:
            return
        for (series, resolution), bucket in self._open_buckets.items():
            self._closed_buckets.append((series, resolution, bucket))
        self._open_buckets = {}
        await self.write(self._pruned_s)
        await self._run(self._connection.close)
        self._connection = None
        self._thread.shutdown(wait=False)

    def of(self, cluster: str) -> History:
        return History(self, cluster)

    def has(self, cluster: str, kind: Series, of: str) -> bool:
        """Whether there is such a series."""
        return (cluster, kind, of) in self._ids

    def add(self, cluster: str, kind: Series, of: str, value: float, now_ms: int) -> None:
        """Takes note of a number; it is written by a later `write`."""
        series = self._id(cluster, kind, of)
        if series is None:
            self.dropped += 1
            return
        for resolution in self._kept_s:
            at_s = now_ms // 1000 // resolution * resolution
            bucket = self._open_buckets.get((series, resolution))
            if bucket is None or bucket.at_s != at_s:
                if bucket is not None:
                    self._closed_buckets.append((series, resolution, bucket))
                bucket = self._open_buckets[series, resolution] = _Bucket(at_s)
            bucket.add(value)

    def add_isr_changes(self, cluster: str, changes: Iterable[IsrChange]) -> None:
        self._isr_changes += [(cluster, change) for change in changes]
        del self._isr_changes[:-MAX_PENDING_ISR_CHANGES]

    async def write(self, now_s: int) -> None:
        """Writes the buckets that have closed, and now and then forgets what is too old. Raises StorageError."""
        buckets, self._closed_buckets = self._closed_buckets, []
        changes, self._isr_changes = self._isr_changes, []
        is_due = now_s - self._pruned_s >= PRUNE_EVERY_S
        if buckets or changes or is_due:
            if is_due:
                self._pruned_s = now_s
            await self._run(lambda: self._write(buckets, changes, now_s if is_due else None))

    def _id(self, cluster: str, kind: Series, of: str) -> int | None:
        key = (cluster, kind, of)
        found = self._ids.get(key)
        if found is None:
            if sum(each[:2] == key[:2] for each in self._ids) >= MAX_SERIES:
                return None
            found = self._ids[key] = max(self._ids.values(), default=0) + 1
        return found

    # -- on the thread

    async def _run(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.DatabaseError, OSError) as problem:
            raise StorageError(str(self._path), str(problem)) from problem

    def _open(self) -> None:
        connection = open_ledger(self._path)
        # A power cut may take the last minutes of a history; the ledger's own file is synced with each commit.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(_SCHEMA)
        for row in connection.execute("SELECT id, cluster, kind, object FROM history_series"):
            try:
                self._ids[row["cluster"], Series(row["kind"]), row["object"]] = row["id"]
            except ValueError:
                continue  # A kind of another version of the console.
        self._connection = connection

    def _write(
        self, buckets: Sequence[tuple[int, int, _Bucket]], changes: Sequence[tuple[str, IsrChange]], prune_s: int | None
    ) -> None:
        assert self._connection is not None
        connection = self._connection
        with transaction(connection):
            connection.executemany(
                "INSERT OR IGNORE INTO history_series VALUES (?, ?, ?, ?)",
                [(number, cluster, kind.value, of) for (cluster, kind, of), number in list(self._ids.items())],
            )
            # A bucket that a console wrote when it stopped goes on when it is started again.
            connection.executemany(
                "INSERT INTO history_points VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "total = total + excluded.total, least = min(least, excluded.least), "
                "most = max(most, excluded.most), samples = samples + excluded.samples",
                [(series, step, b.at_s, b.total, b.least, b.most, b.samples) for series, step, b in buckets],
            )
            connection.executemany(
                "INSERT INTO history_isr (cluster, at_ms, topic, partition, replicas, leader_before, leader, "
                "in_sync_before, in_sync) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        cluster,
                        change.at_ms,
                        *change.partition,
                        _ids(change.replicas),
                        change.leader_before,
                        change.leader,
                        _ids(change.in_sync_before),
                        _ids(change.in_sync),
                    )
                    for cluster, change in changes
                ],
            )
            if prune_s is not None:
                self._prune(connection, prune_s)

    def _prune(self, connection: sqlite3.Connection, now_s: int) -> None:
        for resolution, kept_s in self._kept_s.items():
            connection.execute(
                "DELETE FROM history_points WHERE resolution_s = ? AND at_s < ?", (resolution, now_s - kept_s)
            )
        oldest_ms = (now_s - self._kept_s[COARSE_S]) * 1000
        connection.execute("DELETE FROM history_isr WHERE at_ms < ?", (oldest_ms,))
        for row in connection.execute("SELECT DISTINCT cluster FROM history_isr").fetchall():
            connection.execute(
                "DELETE FROM history_isr WHERE cluster = ? AND number <= (SELECT number FROM history_isr "
                "WHERE cluster = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (row["cluster"], row["cluster"], MAX_ISR_CHANGES),
            )
        gone = connection.execute(
            "SELECT id, cluster, kind, object FROM history_series "
            "WHERE NOT EXISTS (SELECT 1 FROM history_points WHERE series = id)"
        ).fetchall()
        live = {series for series, _ in self._open_buckets}
        for row in gone:
            if row["id"] not in live:
                connection.execute("DELETE FROM history_series WHERE id = ?", (row["id"],))
                self._ids.pop((row["cluster"], Series(row["kind"]), row["object"]), None)

    def _read(self, series: int, resolution: int, since_s: int, until_s: int) -> list[_Bucket]:
        assert self._connection is not None
        rows = self._connection.execute(
            "SELECT at_s, total, least, most, samples FROM history_points "
            "WHERE series = ? AND resolution_s = ? AND at_s >= ? AND at_s <= ? ORDER BY at_s",
            (series, resolution, since_s, until_s),
        )
        found = {row["at_s"]: _Bucket(*row) for row in rows}
        for number, step, bucket in [
            *self._closed_buckets,
            *((number, step, bucket) for (number, step), bucket in self._open_buckets.items()),
        ]:
            if number == series and step == resolution and since_s <= bucket.at_s <= until_s:
                known = found.get(bucket.at_s)
                found[bucket.at_s] = bucket if known is None else _merged([known, bucket])
        return [found[at_s] for at_s in sorted(found)]

    def _read_isr(self, cluster: str, where: str, values: Sequence[object], limit: int) -> list[IsrChange]:
        assert self._connection is not None
        rows = self._connection.execute(
            f"SELECT * FROM history_isr WHERE cluster = ? AND {where} ORDER BY at_ms DESC, number DESC LIMIT ?",
            (cluster, *values, limit),
        ).fetchall()
        return [
            IsrChange(
                row["at_ms"],
                TopicPartition(row["topic"], row["partition"]),
                _parsed(row["replicas"]),
                row["leader_before"],
                row["leader"],
                _parsed(row["in_sync_before"]),
                _parsed(row["in_sync"]),
            )
            for row in reversed(rows)
        ]


class History:
    """One cluster's history, to be read."""

    def __init__(self, store: HistoryStore, cluster: str) -> None:
        self._store = store
        self._cluster = cluster

    async def series(
        self, kind: Series, of: str = "", *, since_ms: int, until_ms: int, points: int = DEFAULT_POINTS
    ) -> list[Point]:
        """At most `points` buckets of that time, the oldest first; none where nothing was kept. Raises StorageError."""
        store = self._store
        series = store._ids.get((self._cluster, kind, of))
        if series is None or until_ms <= since_ms:
            return []
        since_s, until_s = since_ms // 1000, until_ms // 1000
        resolution = store_resolution(until_s - since_s, store._kept_s)
        buckets = await store._run(lambda: store._read(series, resolution, since_s, until_s))
        # Whole multiples of the resolution, so that a bucket never moves between two readings.
        step = max(-(-(until_s - since_s) // max(points, 1) // resolution), 1) * resolution
        merged: dict[int, list[_Bucket]] = {}
        for bucket in buckets:
            merged.setdefault(bucket.at_s // step * step, []).append(bucket)
        return [
            Point(at_s * 1000, b.total / b.samples, b.least, b.most)
            for at_s, parts in merged.items()
            for b in [_merged(parts)]
        ]

    async def isr_changes(
        self,
        partition: TopicPartition | None = None,
        *,
        topic: str | None = None,
        since_ms: int,
        until_ms: int,
        limit: int = MOST_ISR_CHANGES_READ,
    ) -> list[IsrChange]:
        """The last changes of that time, of a partition, a topic or all, the oldest first. Raises StorageError."""
        where, values = "at_ms >= ? AND at_ms <= ?", list[object]([since_ms, until_ms])
        if partition is not None:
            where, values = where + " AND topic = ? AND partition = ?", [*values, *partition]
        elif topic is not None:
            where, values = where + " AND topic = ?", [*values, topic]
        store = self._store
        pending = [
            change
            for cluster, change in store._isr_changes
            if cluster == self._cluster
            and since_ms <= change.at_ms <= until_ms
            and (partition is None or change.partition == partition)
            and (topic is None or change.partition.topic == topic)
        ]
        found = await store._run(lambda: store._read_isr(self._cluster, where, values, limit))
        return [*found, *pending][-limit:]


def store_resolution(span_s: int, kept_s: dict[int, int]) -> int:
    """The finest that is kept for so long."""
    return next((step for step, kept in sorted(kept_s.items()) if span_s <= kept), COARSE_S)


def _merged(parts: Sequence[_Bucket]) -> _Bucket:
    return _Bucket(
        parts[0].at_s,
        sum(each.total for each in parts),
        min(each.least for each in parts),
        max(each.most for each in parts),
        sum(each.samples for each in parts),
    )


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _parsed(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)
