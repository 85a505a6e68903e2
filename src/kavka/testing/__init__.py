"""Clusters for tests: real brokers, sockets and replication in the test's own process, and faults at its wish.

    with kavka.testing.Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.kill(cluster.leader("orders"))

docs/testing.md has the whole of it. Names are imported when they are first used: pytest imports this package in every
run of every project where kavka is installed, and most of them do not want a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.testing.async_cluster import AsyncCluster
    from kavka.testing.cluster import BrokerHalted, Cluster

__all__ = ["AsyncCluster", "BrokerHalted", "Cluster"]


def __getattr__(name: str) -> object:
    if name == "AsyncCluster":
        from kavka.testing.async_cluster import AsyncCluster

        return AsyncCluster
    if name in __all__:
        from kavka.testing import cluster

        return getattr(cluster, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
