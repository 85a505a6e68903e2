"""The checks of ZooKeeper: one leader, no queue, few watches and connections.

Decides what is looked at in the servers' own words (zookeeper_readings.py). Where no ZooKeeper is known all
of them are unknown, with that reason.

Source: KnowStreaming's checks of ZooKeeper; ZooKeeper's administrator's guide.
"""

from __future__ import annotations

from kavka.observe.health.findings import Look, Thresholds, result, unknown
from kavka.observe.health.report import Check, CheckResult, Severity, Statement
from kavka.observe.snapshot import ClusterSnapshot, Part

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING


def zookeeper_brain(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "zookeeper-leader",
        "ZooKeeper has one leader",
        10,
        CRITICAL,
        Statement("one server leads the ensemble, or stands alone"),
        "More than one leader is a split brain; none means no quorum. Check that all servers have the same ensemble "
        "in their configuration and can reach each other.",
    )
    answered = [server for server in snapshot.zookeeper if server.reading.is_current]
    if not answered:
        return unknown(check, snapshot.reading(Part.ZOOKEEPER).unknown_because)
    leaders = [server.address for server in answered if server.mode in ("leader", "standalone")]
    look = Look(1)
    if len(leaders) > 1:
        look.found("zookeeper", ", ".join(leaders), "servers that say they lead: {count}", count=len(leaders))
    elif not leaders and len(answered) == len(snapshot.zookeeper):
        look.found("zookeeper", snapshot.zookeeper[0].address, "no server leads")
    for server in snapshot.zookeeper:
        if not server.reading.is_current:
            look.looked_at += 1
            look.found("zookeeper", server.address, "it does not answer: {why}", why=server.reading.unknown_because)
    return result(check, look, Statement("{leader} leads", {"leader": leaders[0] if leaders else "nobody"}))


def zookeeper_outstanding(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "zookeeper-outstanding",
        "ZooKeeper requests do not queue up",
        5,
        WARNING,
        Statement("at most {limit:.0f} requests outstanding", {"limit": limits.zookeeper_outstanding}),
        "Its disk is slow or overloaded: give its log a disk of its own.",
    )
    return _by_server(
        snapshot, check, "zk_outstanding_requests", limits.zookeeper_outstanding, "{value:.0f} requests wait"
    )


def zookeeper_watches(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "zookeeper-watches",
        "ZooKeeper has not too many watches",
        2,
        WARNING,
        Statement("at most {limit:.0f}", {"limit": limits.zookeeper_watches}),
        "Check which client sets them. Kafka itself needs some for each topic and broker.",
    )
    return _by_server(snapshot, check, "zk_watch_count", limits.zookeeper_watches, "{value:.0f} watches")


def zookeeper_connections(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "zookeeper-connections",
        "ZooKeeper has not too many connections",
        2,
        WARNING,
        Statement("at most {limit:.0f}", {"limit": limits.zookeeper_connections}),
        "Check who connects (the command `cons`). Most often a client does not close its sessions.",
    )
    return _by_server(
        snapshot, check, "zk_num_alive_connections", limits.zookeeper_connections, "{value:.0f} connections"
    )


def _by_server(snapshot: ClusterSnapshot, check: Check, metric: str, limit: float, text: str) -> CheckResult:
    look = Look()
    for server in snapshot.zookeeper:
        value = server.number(metric)
        if value is None or not server.reading.is_current:
            continue
        look.looked_at += 1
        if value > limit:
            look.found("zookeeper", server.address, text, value=value)
    if not look.looked_at:
        return unknown(check, snapshot.reading(Part.ZOOKEEPER).unknown_because or "no server reports it")
    return result(check, look, Statement("servers checked: {count}", {"count": look.looked_at}))
