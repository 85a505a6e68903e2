"""Snapshots of clusters that never were, for tests of what is made of snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.observe.snapshot import (
    BrokerView,
    ClusterSnapshot,
    ClusterState,
    ControllerView,
    GroupView,
    LogDirectoryView,
    Part,
    PartitionView,
    QuorumView,
    Reading,
    TopicView,
    TransactionView,
    ZooKeeperView,
    count,
)

NOW_MS = 1_000_000_000
READ = Reading(NOW_MS, 1, "")


def partition(
    number: int = 0,
    *,
    topic: str = "orders",
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    in_sync: tuple[int, ...] | None = None,
    least: int | None = 2,
    behind_since_ms: int | None = None,
    log_ends: Mapping[int, int] | None = None,
) -> PartitionView:
    return PartitionView(
        topic,
        number,
        leader,
        0,
        replicas,
        replicas if in_sync is None else in_sync,
        log_ends=log_ends or {},
        min_insync_replicas=least,
        out_of_sync_since_ms=behind_since_ms,
    )


def topic(*partitions: PartitionView, configs: dict[str, str] | None = None) -> TopicView:
    return TopicView(partitions[0].topic, "id", False, partitions, {} if configs is None else configs)


def broker(
    broker_id: int = 1,
    *,
    is_alive: bool = True,
    directories: tuple[LogDirectoryView, ...] = (),
    preferred: int = 0,
    replicas: int = 0,
) -> BrokerView:
    return BrokerView(
        broker_id,
        "host",
        9092,
        None,
        is_alive,
        broker_id == 1,
        preferred=preferred,
        replicas=replicas,
        log_directories=directories,
    )


def snapshot(
    *,
    brokers: Iterable[BrokerView] | None = None,
    topics: Iterable[TopicView] = (),
    groups: Iterable[GroupView] = (),
    transactions: tuple[TransactionView, ...] = (),
    zookeeper: tuple[ZooKeeperView, ...] = (),
    controller_id: int = 1,
    quorum: QuorumView | None = None,
    controllers: ControllerView = ControllerView(1, 1, is_recorded=True),  # noqa: B008 - a value
    state: ClusterState = ClusterState.REACHABLE,
    why: str = "",
    readings: Mapping[Part, Reading] | None = None,
) -> ClusterSnapshot:
    """All parts are read, but for those of `readings`."""
    alive = [broker(1), broker(2), broker(3)] if brokers is None else list(brokers)
    named = {each.name: each for each in topics}
    return ClusterSnapshot(
        "test",
        "host:9092",
        1,
        NOW_MS,
        state,
        NOW_MS - 5_000,
        why,
        controller_id=controller_id,
        quorum=quorum,
        controllers=controllers,
        brokers={each.broker_id: each for each in alive},
        topics=named,
        groups={each.group_id: each for each in groups},
        transactions=transactions,
        zookeeper=zookeeper,
        readings={**dict.fromkeys(Part, READ), **(readings or {})},
        counts=count(named.values()),
    )
