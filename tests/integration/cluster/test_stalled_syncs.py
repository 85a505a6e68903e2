"""A disk that lets no fsync end: what asks for a flush waits, and nothing else does.

The brokers' disks alone: ZooKeeper has its own, in another place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from kavka.testing import Cluster

STALL_S = 6.0
"""Longer than a follower may lag in these clusters, and than a member may be silent."""
SESSION_MS = 5_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "group.min.session.timeout.ms": SESSION_MS,
        "replica.lag.time.max.ms": SESSION_MS,
        "zookeeper.session.timeout.ms": SESSION_MS,
    }
    with Cluster(brokers=3, settings=settings) as running:
        running.create_topic("plain", 3)
        running.create_topic("flushed", 3, settings={"flush.messages": 1})
        yield running


def producer(cluster: Cluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0})


@pytest.fixture
def revoked() -> list[object]:
    """What the member lost."""
    return []


@pytest.fixture
def member(cluster: Cluster, revoked: list[object]) -> Iterator[Consumer]:
    """Of a group whose session is shorter than the stall."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"group-{time.monotonic_ns()}",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "auto.offset.reset": "earliest",
        }
    )
    take = lambda _consumer, partitions: revoked.append(partitions)  # noqa: E731
    consumer.subscribe(["plain"], on_revoke=take, on_lost=take)
    cluster.wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 3)
    yield consumer
    consumer.close()


@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_followers_heartbeats_and_the_controller_go_on_without_the_disk_of_one_broker(
    cluster: Cluster, member: Consumer, revoked: list[object], broker_id: int
) -> None:
    """One of the three is the controller, and one has the group."""
    waiting, plain = producer(cluster), producer(cluster)
    leads = [index for index in range(3) if cluster.leader("flushed", index) == broker_id]
    assert leads
    cluster.stall_syncs(broker_id)
    try:
        for index in leads:
            waiting.produce("flushed", b"value", partition=index)
        waiting.poll(0)
        began, longest_s, count = time.monotonic(), 0.0, 0
        while time.monotonic() - began < STALL_S:
            sent = time.monotonic()
            plain.produce("plain", b"value", partition=count % 3)
            assert plain.flush(30) == 0
            longest_s = max(longest_s, time.monotonic() - sent)
            count += 1
            member.poll(0.02)
        assert longest_s < SESSION_MS / 1000 - 0.5, "a record waited until somebody was given up"
        assert len(waiting) == len(leads), "acknowledged without the flush that it asks for"
        cluster.create_topic(f"made-meanwhile-{broker_id}", 3)
        assert all(len(cluster.isr("plain", index)) == 3 for index in range(3))
    finally:
        cluster.stall_syncs(broker_id, stalled=False)
    assert waiting.flush(60) == 0
    assert revoked == []
