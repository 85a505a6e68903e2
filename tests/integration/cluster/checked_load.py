"""checked_load: producers and consumers at work while a test does something to the cluster, judged when it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.checker import check
from tests.chaos.workload import Workload
from tests.integration.cluster.cluster_client import FAILOVER_S, TOPIC, ClusterClient
from tests.kit.process_cluster import eventually

RATE = 100


@contextmanager
def checked_load(client: ClusterClient, *, partitions: int, topic: str = TOPIC) -> Iterator[Workload]:
    """Two idempotent acks=all producers and a consumer. At the end all has to be readable: no acknowledged record lost,
    moved, repeated or out of order, none read that is not there."""
    workload = Workload(client.cluster.bootstrap, topic, partitions, producers=2, rate=RATE)
    workload.start()
    wait_for_progress(workload, range(partitions))
    yield workload
    workload.stop_producers()
    workload.final_read(timeout_s=60)
    workload.drain(timeout_s=30)
    assert [str(anomaly) for anomaly in check(workload.history)] == []
    assert workload.fatal == []


def wait_for_progress(workload: Workload, partitions: range | set[int], *, timeout_s: float = FAILOVER_S) -> float:
    """Until records sent from now on are acknowledged on all these partitions. Returns the seconds that took."""
    now = time.monotonic()
    wanted = set(partitions)

    def all_go() -> bool:
        missing = wanted - workload.acknowledged_since(now)
        assert not missing, f"partitions {sorted(missing)} acknowledge nothing"
        return True

    eventually("acknowledgements", all_go, timeout_s=timeout_s)
    return time.monotonic() - now
