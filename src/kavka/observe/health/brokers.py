"""The checks of a cluster as a whole and of its brokers: they answer, one is the controller, they keep up.

Decides weights, evidence and advice of these; thresholds are findings.py's. Pure, as checks.py says.

Source: the checks of KnowStreaming 3.4; Kafka's monitoring documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kavka.observe.health.findings import Look, Thresholds, result, unknown
from kavka.observe.health.report import Check, CheckResult, Severity, Statement
from kavka.observe.snapshot import ClusterSnapshot, ClusterState, Part

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING
LEAST_WATCHED_MS: Final = 60_000
"""Before that nobody can say that the controller stays."""
QUORUM_SILENT_MS: Final = 15_000
"""A broker that is restarted takes an answer or two with it."""


def reachable(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "reachable",
        "The cluster answers",
        10,
        CRITICAL,
        Statement("at least one broker answers"),
        "Check that the brokers are running and listen at these addresses, and that the network allows connections.",
    )
    if snapshot.state is ClusterState.CONNECTING and not snapshot.why:
        return unknown(check, "it was not asked yet")
    look = Look(1)
    if snapshot.state is not ClusterState.REACHABLE:
        since_s = (now_ms - snapshot.state_since_ms) // 1000
        look.found(
            "cluster", snapshot.name, "no broker has answered for {seconds} s: {why}", seconds=since_s, why=snapshot.why
        )
    return result(check, look, Statement("brokers that answer: {count}", {"count": len(snapshot.alive_brokers)}))


def controller(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "controller",
        "There is a controller",
        10,
        CRITICAL,
        Statement("one broker is the controller"),
        "Without a controller no leader is elected and no topic is created. See why no broker becomes the controller "
        "(kavka why controller), and whether ZooKeeper or the controller quorum answers.",
    )
    reading, quorum, look = snapshot.reading(Part.CONTROLLER), snapshot.quorum, Look(1)
    if not reading.is_known:
        return unknown(check, reading.unknown_because)
    if quorum is not None:
        if not reading.is_current and now_ms - reading.read_at_ms > QUORUM_SILENT_MS:
            look.found(
                "cluster", snapshot.name, "the controller quorum does not answer: {why}", why=reading.unknown_because
            )
        elif quorum.leader < 0:
            look.found("cluster", snapshot.name, "the controller quorum has no leader")
        said = Statement("node {node} leads {count} controllers", {"node": quorum.leader, "count": len(quorum.voters)})
        return result(check, look, said)
    if snapshot.controller is None or not snapshot.controller.is_alive:
        look.found("cluster", snapshot.name, "no live broker is the controller")
    return result(check, look, Statement("broker {broker} is the controller", {"broker": snapshot.controller_id}))


def controller_changes(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "controller-changes",
        "The controller is stable",
        5,
        WARNING,
        Statement("at most {limit} elections an hour", {"limit": limits.controller_elections_per_hour}),
        "While the controller changes, no leader is elected. See why it stopped being the controller (kavka why "
        "controller; the log of the broker or of the quorum). The usual reasons are long pauses of its process, a "
        "slow disk or network, and restarts.",
    )
    reading, seen, look = snapshot.reading(Part.CONTROLLER), snapshot.controllers, Look(1)
    if not reading.is_known:
        return unknown(check, reading.unknown_because)
    if seen.elections > limits.controller_elections_per_hour:
        text = "{count} controllers were elected within the last hour"
        look.found("cluster", snapshot.name, text, count=seen.elections)
    elif not seen.is_recorded and now_ms - seen.watched_since_ms < LEAST_WATCHED_MS:
        return unknown(check, "the cluster does not record its elections, and was watched for less than a minute")
    return result(check, look, Statement("elections seen in the last hour: {count}", {"count": seen.elections}))


def brokers_alive(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "brokers-alive",
        "All brokers that hold replicas are alive",
        8,
        WARNING,
        Statement("no broker is missing"),
        "Start it again; if it will not come back, move its replicas to others (decommission).",
    )
    look = Look(len(snapshot.brokers))
    for broker in snapshot.brokers.values():
        if not broker.is_alive:
            text = "it is not alive; replicas assigned to it: {replicas}"
            look.found("broker", str(broker.broker_id), text, replicas=broker.replicas)
    return result(check, look, Statement("brokers alive: {count}", {"count": len(snapshot.alive_brokers)}))


def request_queue(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "request-queue",
        "Request queues are not full",
        5,
        WARNING,
        Statement("at most {limit:.0f} requests waiting", {"limit": limits.request_queue}),
        "The broker does not keep up. See which API takes the time (on the broker's page), and add request handlers "
        "or brokers.",
    )
    return _by_metric(
        snapshot,
        check,
        lambda metrics: metrics.request_queue_size,
        lambda value: value > limits.request_queue,
        "{value:.0f} requests wait in its queue",
    )


def handler_idle(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "request-handlers",
        "Request handlers have idle time",
        5,
        WARNING,
        Statement("idle more than {limit:.0f} % of the time", {"limit": limits.idle_percent}),
        "Raise num.io.threads, or move leaders to other brokers.",
    )
    return _by_metric(
        snapshot,
        check,
        lambda metrics: metrics.handler_idle_percent,
        lambda value: value <= limits.idle_percent,
        "its request handlers are idle only {value:.1f} % of the time",
    )


def network_idle(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "network-processors",
        "Network processors have idle time",
        5,
        WARNING,
        Statement("idle more than {limit:.0f} % of the time", {"limit": limits.idle_percent}),
        "Raise num.network.threads, or spread the connections over more brokers.",
    )
    return _by_metric(
        snapshot,
        check,
        lambda metrics: metrics.network_idle_percent,
        lambda value: value <= limits.idle_percent,
        "its network processors are idle only {value:.1f} % of the time",
    )


def _by_metric(
    snapshot: ClusterSnapshot,
    check: Check,
    value_of: Callable[..., float | None],
    fails: Callable[[float], bool],
    text: str,
) -> CheckResult:
    look = Look()
    for broker in snapshot.alive_brokers:
        value = None if broker.metrics is None else value_of(broker.metrics)
        if value is None or not broker.metrics_reading.is_current:
            continue
        look.looked_at += 1
        if fails(value):
            look.found("broker", str(broker.broker_id), text, value=value)
    if not look.looked_at:
        why = snapshot.reading(Part.BROKER_METRICS).unknown_because
        return unknown(check, why or "no broker exposes this metric")
    return result(check, look, Statement("brokers checked: {count}", {"count": look.looked_at}))
