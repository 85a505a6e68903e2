"""Clusters for tests: real brokers, sockets and replication in the test's own process, with faults on demand.

    with kavka.testing.Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.kill(cluster.leader("orders"))

    cluster           the cluster and its faults; async_cluster: the same, to await
    secure_cluster    one with TLS, users and rights; client_settings: what each client takes to log in to it
    pytest_plugin     clusters as fixtures
    broker_thread     one life of one broker, in its own thread; life: running, stopped or killed
    zookeeper_thread  the cluster's ZooKeeper, in its own thread
    cuts              which members cannot hear each other
    disk              a disk that can be slow
    line_file         the brokers' log lines
    ports             ports that a restarted broker gets back
    groups            groups of any kind; the records that share groups hold
    topics            topics, and other work of a client, done without another one

docs/testing.md is the user's page. Names are imported when they are first used: pytest imports this package in every
run of every project where kavka is installed, and most runs need no broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.testing.async_cluster import AsyncCluster
    from kavka.testing.cluster import BrokerHalted, Cluster
    from kavka.testing.secure_cluster import SecureCluster

__all__ = ["AsyncCluster", "BrokerHalted", "Cluster", "SecureCluster"]


def __getattr__(name: str) -> object:
    if name == "AsyncCluster":
        from kavka.testing.async_cluster import AsyncCluster

        return AsyncCluster
    if name == "SecureCluster":
        from kavka.testing.secure_cluster import SecureCluster

        return SecureCluster
    if name in __all__:
        from kavka.testing import cluster

        return getattr(cluster, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
