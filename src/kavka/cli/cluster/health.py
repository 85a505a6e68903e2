"""`kavka health`: the console's checks, once, on the command line.

Decides what is shown and with which status it ends: 0 where no check failed that counts, 1 where one did. Must not know
what is checked (observe.health.checks). Works without the console's extra.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json, Metrics, ZooKeeper
from kavka.cli.output import FAILED, Failure, Table, counted, show, show_json, usage
from kavka.cli.session import BOOTSTRAP_NEXT, found_way
from kavka.observe.health.findings import Thresholds
from kavka.observe.health.report import Severity

if TYPE_CHECKING:
    from kavka.decisions import Decision
    from kavka.model import TopicPartition
    from kavka.observe.cluster_settings import ClusterSettings
    from kavka.observe.health.report import CheckResult, HealthReport
    from kavka.observe.snapshot import ClusterSnapshot

app = CommandLine()


FAIL_ON = ("warning", "critical", "never")
POLL_MS = 1_000
SHOWN_FINDINGS = 5


@app.command("health")
def health(
    fail_on: Annotated[
        str,
        typer.Option("--fail-on", metavar="warning|critical|never", help="Which failed checks make the exit status 1."),
    ] = "warning",
    every: Annotated[bool, typer.Option("--all", help="Include the checks that passed or are unknown.")] = False,
    zookeeper: ZooKeeper = None,
    metrics: Metrics = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Check a cluster: score, what failed, what to do.

    Each failed check names the objects that fail it, and why. The exit status is 1 if a check failed (see --fail-on).

    [bold]Examples[/bold]

    kavka health

    kavka health --json --bootstrap broker-1:9092 | jq .score
    """
    if fail_on not in FAIL_ON:
        usage(f"--fail-on {fail_on}: unknown level", "choose warning, critical or never")
    settings = cluster_settings(bootstrap, zookeeper, metrics)
    from kavka.runtime.loop import run

    gc.disable()  # What is read becomes a few objects for each partition, and the process ends with them.
    snapshot, silent, found = run(_look(settings))
    if as_json:
        show_json({**_fields(snapshot, found), "silent_brokers": silent})
    else:
        _show(snapshot, found, silent, every=every)
    if (fail_on == "warning" and found.failed) or (fail_on == "critical" and found.is_critical):
        raise Failure("", status=FAILED)


def cluster_settings(bootstrap: str | None, zookeeper: str | None, metrics: str | None) -> ClusterSettings:
    """What options say of the cluster. Raises Failure."""
    from kavka.errors import ConfigError
    from kavka.observe.cluster_settings import ClusterSettings

    way = found_way(bootstrap)
    addresses = way.addresses
    try:
        return ClusterSettings(
            "local", addresses, metrics or "", zookeeper or "", sasl=way.login.sasl, tls=way.login.tls
        )
    except ConfigError as problem:
        usage(f"-b {addresses}: {problem}", BOOTSTRAP_NEXT)


async def _look(settings: ClusterSettings) -> tuple[ClusterSnapshot, list[int], HealthReport]:
    """What was read, the registered brokers that do not answer, and what the checks found."""
    from kavka.observe.decision_tail import MAX_DECISIONS
    from kavka.observe.given_up import since_delivered
    from kavka.observe.health.checks import check_health
    from kavka.observe.watcher import Watcher

    watcher = Watcher(settings, poll_ms=POLL_MS, client_id="kavka-health")
    try:
        snapshot = await watcher.read_all()
        if snapshot.is_reachable and not snapshot.brokers:
            await asyncio.sleep(POLL_MS / 1000)
            snapshot = await watcher.read_all()
    finally:
        await watcher.close()
    decisions = [each.decision for each in watcher.decisions.recent(limit=MAX_DECISIONS)]
    snapshot = since_delivered(since_back(since_decided(snapshot, decisions), decisions), decisions)
    silent = await _silent_brokers(snapshot, settings) if snapshot.is_reachable else []
    snapshot = without(snapshot, silent)
    return snapshot, silent, check_health(snapshot, snapshot.at_ms, THRESHOLDS)


async def _silent_brokers(snapshot: ClusterSnapshot, found: ClusterSettings) -> list[int]:
    from kavka.cli.cluster.answering_brokers import silent_brokers
    from kavka.client.cluster import Cluster, parse_bootstrap
    from kavka.client.settings import ClientSettings
    from kavka.errors import KavkaError
    from kavka.runtime.network.client_network import client_network

    registered = [each.broker_id for each in snapshot.alive_brokers]
    settings = ClientSettings(client_id="kavka-health", gives_up_early=True, sasl=found.sasl)
    try:
        async with Cluster(client_network(found.tls), parse_bootstrap(snapshot.bootstrap), settings) as cluster:
            return await silent_brokers(cluster, registered)
    except KavkaError:
        return []  # The cluster went away after the look: what was seen is shown.


def without(snapshot: ClusterSnapshot, silent: Collection[int]) -> ClusterSnapshot:
    """The snapshot in which these brokers are not alive: their sessions have not ended yet, and they do not answer."""
    brokers = {
        broker_id: replace(broker, is_alive=broker.is_alive and broker_id not in silent)
        for broker_id, broker in snapshot.brokers.items()
    }
    return replace(snapshot, brokers=brokers)


def since_decided(snapshot: ClusterSnapshot, newest_first: Iterable[Decision]) -> ClusterSnapshot:
    """The snapshot with the times since when replicas are out of sync, as the brokers' decisions date them.

    One look at a cluster cannot tell for how long. Where no decision does, as with Apache Kafka, None says so.
    """
    behind = {each.name: each for each in snapshot.partitions() if each.is_under_replicated}
    since: dict[TopicPartition, int] = {}
    for decision in newest_first:
        found = behind.get(decision.partition) if decision.partition is not None else None
        in_sync = decision.after.get("isr")
        if found is None or not isinstance(in_sync, (list, tuple)):
            continue
        if len(in_sync) < len(found.replicas):
            since[found.name] = decision.at_ms
        else:
            del behind[found.name]  # Older decisions are about an earlier time out of sync.
    topics = {}
    for name, topic in snapshot.topics.items():
        parts = [
            replace(each, out_of_sync_since_ms=since.get(each.name)) if each.is_under_replicated else each
            for each in topic.partitions
        ]
        topics[name] = replace(topic, partitions=tuple(parts))
    return replace(snapshot, topics=topics)


def since_back(snapshot: ClusterSnapshot, newest_first: Iterable[Decision]) -> ClusterSnapshot:
    """The snapshot with the times since when preferred leaders are back in sync, which the controller has yet to elect
    again: a restart moves leaders, and they come back some minutes later."""
    away = {
        each.name: each.preferred_leader
        for each in snapshot.partitions()
        if not each.is_led_by_preferred and each.preferred_leader in each.in_sync_replicas
    }
    since: dict[TopicPartition, int] = {}
    for decision in newest_first:
        place, before, after = decision.partition, decision.before.get("isr"), decision.after.get("isr")
        if place not in away or not isinstance(before, (list, tuple)) or not isinstance(after, (list, tuple)):
            continue
        if away[place] in after and away[place] not in before:
            since.setdefault(place, decision.at_ms)
    topics = {
        name: replace(
            topic,
            partitions=tuple(replace(each, preferred_back_since_ms=since.get(each.name)) for each in topic.partitions),
        )
        for name, topic in snapshot.topics.items()
    }
    return replace(snapshot, topics=topics) if since else snapshot


def _show(snapshot: ClusterSnapshot, found: HealthReport, silent: Sequence[int], *, every: bool) -> None:
    score = "unknown" if found.score is None else f"{found.score} of 100"
    kind = f"{snapshot.kind}, " if snapshot.kind else ""
    alive = counted(len(snapshot.alive_brokers), "broker")
    print(f"Health {score}: {snapshot.bootstrap} ({kind}{alive} alive)")
    for broker_id in silent:
        print(f"Broker {broker_id} is registered, and does not answer.")
    for result in found.failed:
        level = " (critical)" if result.check.severity is Severity.CRITICAL else ""
        print(f"\nFAILED {result.check.name}{level}: {what_failed(result)}")
        for finding in result.findings[:SHOWN_FINDINGS]:
            print(f"  {finding.kind} {finding.name}: {finding.why}")
        if result.failed > SHOWN_FINDINGS:
            print(f"  and {result.failed - SHOWN_FINDINGS:,} more")
        print(f"  Next: {result.check.advice}")
    if not found.failed:
        print("Every check that could be made passes.")
    if every:
        print()
        table = Table(["check", "result", "weight", "evidence"], ["weight"])
        for result in found.results:
            table.add(result.check.name, result.outcome.value, result.check.weight, result.evidence)
        show(table)
    elif found.unknown:
        checks = counted(len(found.unknown), "check")
        print(f"\n{checks} could not be made; `kavka health --all` names them, and says why.")


def what_failed(result: CheckResult) -> str:
    """A failed check in a sentence, with how many objects fail it."""
    noun = {"cluster": "cluster", "zookeeper": "ZooKeeper server"}.get(kind := result.findings[0].kind, kind)
    return FAILING[result.check.name].format(n=counted(result.failed, noun), limit=THRESHOLDS)


THRESHOLDS: Final = Thresholds()
FAILING: Final = {
    "reachable": "the cluster does not answer",
    "controller": "the cluster has no controller",
    "controller-changes": "more than {limit.controller_elections_per_hour} controller elections within an hour",
    "brokers-alive": "{n} with replicas not alive",
    "offline-partitions": "{n} without a leader",
    "below-min-isr": "{n} with fewer replicas in sync than min.insync.replicas: acks=all is refused",
    "last-replica": "{n} with only one replica in sync",
    "under-replicated": f"{{n}} out of sync for more than {THRESHOLDS.under_replicated_ms // 1000} s",
    "leader-imbalance": "{n} without more than {limit.imbalance_percent:.0f} % of its preferred leaderships",
    "log-directories": "{n} with an offline log directory",
    "disk-space": "{n} with less than {limit.disk_free_percent:.0f} % of a disk free",
    "request-queue": "{n} with more than {limit.request_queue:.0f} requests waiting",
    "request-handlers": "{n} with request handlers idle less than {limit.idle_percent:.0f} % of the time",
    "network-processors": "{n} with network processors idle less than {limit.idle_percent:.0f} % of the time",
    "open-listeners": "{n} that other machines reach in clear",
    "open-passwords": "{n} that other machines send passwords to in clear",
    "certificates-end": "{n} with a certificate that ends within {limit.certificate_end_days} days",
    "certificates-end-soon": "{n} with a certificate that ends within {limit.certificate_warn_days} days",
    "acls-stale": f"{{n}} with access control lists older than {THRESHOLDS.acls_stale_ms / 1000:.0f} s",
    "single-replica": "{n} with a single replica",
    "min-isr-settings": "{n} that would refuse acks=all with one broker down",
    "unclean-elections": "{n} with unclean.leader.election.enable=true",
    "rebalances": "{n} with more than {limit.rebalances_per_hour} rebalances within an hour",
    "stuck-groups": f"{{n}} with lag and no progress for more than {THRESHOLDS.stuck_ms // 1000} s",
    "share-groups-still": f"{{n}} at the same record for more than {THRESHOLDS.share_still_ms // 60_000} min",
    "share-records-given-up": "{n} with records that were delivered as often as they may be",
    "dead-letters": "{n} with records that are archived without a dead letter",
    "hanging-transactions": "{n} hanging",
    "zookeeper-leader": "ZooKeeper has not exactly one leader, or a server does not answer",
    "zookeeper-outstanding": "{n} with more than {limit.zookeeper_outstanding:.0f} requests outstanding",
    "zookeeper-watches": "{n} with more than {limit.zookeeper_watches:.0f} watches",
    "zookeeper-connections": "{n} with more than {limit.zookeeper_connections:.0f} connections",
}
"""What a failed check means, by its name; `n` counts the objects that fail it."""


def _fields(snapshot: ClusterSnapshot, found: HealthReport) -> dict[str, object]:
    return {
        "bootstrap": snapshot.bootstrap,
        "cluster_id": snapshot.cluster_id,
        "state": snapshot.state.value,
        "score": found.score,
        "at_ms": found.at_ms,
        "checks": [_check_fields(result) for result in found.results],
    }


def _check_fields(result: CheckResult) -> dict[str, object]:
    return {
        "name": result.check.name,
        "title": result.check.title,
        "outcome": result.outcome.value,
        "severity": result.check.severity.value,
        "weight": result.check.weight,
        "threshold": str(result.check.threshold),
        "evidence": str(result.evidence),
        "looked_at": result.looked_at,
        "failed": result.failed,
        "findings": [{"kind": each.kind, "name": each.name, "why": str(each.why)} for each in result.findings],
        "advice": result.check.advice,
    }
