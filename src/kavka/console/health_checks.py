"""The checks: what is looked at in a snapshot, when it fails, and what to do then.

Decides weights, evidence and advice; thresholds are health_look.py's, ZooKeeper's checks health_zookeeper.py's. Pure: a
snapshot and the time in, results out. Must not import the console's extra: `kavka health` runs them without it.

    I1  Each check gives one result, always; where its part of the snapshot is unknown, UNKNOWN with that reason.
    I2  A finding names an object and says why it fails, with the numbers.

Source: the checks of KnowStreaming 3.4; Kafka's monitoring documentation; KIP-966 for ISRs of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kavka.console import health_zookeeper
from kavka.console.health import Check, CheckResult, HealthReport, Outcome, Severity, Statement, report
from kavka.console.health_look import Look, Thresholds, for_how_long, how_far_behind, listed, of_part, result, unknown
from kavka.console.snapshot import ClusterSnapshot, ClusterState, Part

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING


_Ask = Callable[[ClusterSnapshot, Thresholds, int], CheckResult]


def check_health(snapshot: ClusterSnapshot, now_ms: int, thresholds: Thresholds | None = None) -> HealthReport:
    """All checks of a snapshot. A cluster that does not answer fails the first one; the others are unknown then."""
    limits = thresholds or Thresholds()
    reachable = _reachable(snapshot, limits, now_ms)
    if reachable.outcome is not Outcome.PASSED:
        why = Statement("the cluster does not answer")
        others = [CheckResult(each(snapshot, limits, now_ms).check, Outcome.UNKNOWN, why) for each in _OTHERS]
        return report([reachable, *others], now_ms)
    return report([reachable, *(each(snapshot, limits, now_ms) for each in _OTHERS)], now_ms)


# -- the cluster, its brokers


def _reachable(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "reachable",
        "The cluster answers",
        10,
        CRITICAL,
        Statement("one broker answers"),
        "See whether the brokers run and listen where the console looks for them, and whether the network lets it in.",
    )
    if snapshot.state is ClusterState.CONNECTING and not snapshot.why:
        return unknown(check, "it was not asked yet")
    look = Look(1)
    if snapshot.state is not ClusterState.REACHABLE:
        since_s = (now_ms - snapshot.state_since_ms) // 1000
        look.found(
            "cluster", snapshot.name, "no broker has answered for {seconds} s: {why}", seconds=since_s, why=snapshot.why
        )
    return result(check, look, Statement("{count} brokers answer", {"count": len(snapshot.alive_brokers)}))


def _controller(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "controller",
        "There is a controller",
        10,
        CRITICAL,
        Statement("one broker is it"),
        "Without one nobody is elected and nothing is created: see why its successor cannot take the seat "
        "(kavka why controller), and whether ZooKeeper or the controller quorum answers.",
    )
    look = Look(1)
    if snapshot.controller is None or not snapshot.controller.is_alive:
        look.found("cluster", snapshot.name, "no live broker is the controller")
    return result(check, look, Statement("broker {broker} is the controller", {"broker": snapshot.controller_id}))


def _brokers(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "brokers-alive",
        "All brokers that hold replicas are alive",
        8,
        WARNING,
        Statement("none is missing"),
        "Start it again; if it will not come back, move its replicas to others (decommission).",
    )
    look = Look(len(snapshot.brokers))
    for broker in snapshot.brokers.values():
        if not broker.is_alive:
            text = "it is not alive, and {replicas} replicas are assigned to it"
            look.found("broker", str(broker.broker_id), text, replicas=broker.replicas)
    return result(check, look, Statement("{count} brokers are alive", {"count": len(snapshot.alive_brokers)}))


def _request_queue(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "request-queue",
        "Request queues are not full",
        5,
        WARNING,
        Statement("at most {limit:.0f} requests wait", {"limit": limits.request_queue}),
        "The broker does not keep up: see which API takes its time (the broker's page), and add request handlers or "
        "brokers.",
    )
    return _by_metric(
        snapshot,
        check,
        lambda metrics: metrics.request_queue_size,
        lambda value: value > limits.request_queue,
        "{value:.0f} requests wait in its queue",
    )


def _handler_idle(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "request-handlers",
        "Request handlers have time left",
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


def _network_idle(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "network-processors",
        "Network processors have time left",
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
        return unknown(check, why or "no broker shows this metric")
    return result(check, look, Statement("{count} brokers looked at", {"count": look.looked_at}))


def _log_directories(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "log-directories",
        "All log directories are online",
        9,
        CRITICAL,
        Statement("none is offline"),
        "Look at the disk and the broker's log; once it is repaired restart the broker, or move its replicas.",
    )
    look = Look()
    for broker in snapshot.alive_brokers:
        for directory in broker.log_directories:
            look.looked_at += 1
            if directory.error:
                look.found(
                    "broker", str(broker.broker_id), "{path}: {error}", path=directory.path, error=directory.error
                )
    return of_part(snapshot, Part.LOG_DIRECTORIES, check, look, "{count} log directories are online")


def _disk_space(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "disk-space",
        "Disks have room",
        7,
        WARNING,
        Statement("more than {limit:.0f} % free", {"limit": limits.disk_free_percent}),
        "Shorten the retention of the largest topics, move replicas away, or make the disk larger.",
    )
    look = Look()
    for broker in snapshot.alive_brokers:
        for directory in broker.log_directories:
            if directory.used_percent is None:
                continue
            look.looked_at += 1
            free = 100 - directory.used_percent
            if free < limits.disk_free_percent:
                text = "{path}: {free:.1f} % free, {usable:,} of {total:,} bytes"
                values = {"usable": directory.usable_bytes, "total": directory.total_bytes}
                look.found("broker", str(broker.broker_id), text, path=directory.path, free=free, **values)
    if not look.looked_at and snapshot.reading(Part.LOG_DIRECTORIES).is_known:
        return unknown(check, "the brokers do not tell how large their disks are (before Kafka 3.3)")
    return of_part(snapshot, Part.LOG_DIRECTORIES, check, look, "{count} log directories looked at")


# -- partitions


def _offline(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "offline-partitions",
        "Every partition has a leader",
        10,
        CRITICAL,
        Statement("none is without"),
        "Start the brokers of its ISR. Only if they are lost for good: an unclean election, which loses records.",
    )
    look = Look(snapshot.counts.partitions)
    for each in snapshot.partitions() if snapshot.counts.offline else ():
        if each.is_offline:
            text = "no leader{since}: its in-sync replicas {in_sync} are not alive"
            since = for_how_long(each.offline_since_ms, now_ms)
            look.found("partition", str(each.name), text, since=since, in_sync=listed(each.in_sync_replicas))
    return result(check, look, Statement("{count} partitions have a leader", {"count": look.looked_at}))


def _below_min_isr(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "below-min-isr",
        "No partition refuses acks=all",
        9,
        CRITICAL,
        Statement("ISR of at least min.insync.replicas"),
        "Bring the replicas that are out of sync back: see why they left the ISR (kavka why TOPIC-PARTITION).",
    )
    if not snapshot.reading(Part.TOPIC_CONFIGS).is_known:
        return unknown(check, snapshot.reading(Part.TOPIC_CONFIGS).unknown_because)
    look = Look(snapshot.counts.partitions)
    for each in snapshot.partitions() if snapshot.counts.under_min_isr else ():
        if each.is_under_min_isr and not each.is_offline:
            text = "{count} in sync ({in_sync}), {least} needed{since}: producers with acks=all are refused"
            look.found(
                "partition",
                str(each.name),
                text,
                count=len(each.in_sync_replicas),
                in_sync=listed(each.in_sync_replicas),
                least=each.min_insync_replicas,
                since=for_how_long(each.out_of_sync_since_ms, now_ms),
            )
    return result(check, look, Statement("{count} partitions looked at", {"count": look.looked_at}))


def _under_replicated(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "under-replicated",
        "No partition is under-replicated for long",
        7,
        WARNING,
        Statement("for at most {seconds:.0f} s", {"seconds": limits.under_replicated_ms / 1000}),
        "See which broker is out of sync everywhere (it is slow or gone), and why (kavka why TOPIC-PARTITION).",
    )
    look = Look(snapshot.counts.partitions)
    for each in snapshot.partitions() if snapshot.counts.under_replicated else ():
        since = each.out_of_sync_since_ms
        if not each.is_under_replicated or each.is_offline or each.is_reassigning or since is None:
            continue
        if now_ms - since > limits.under_replicated_ms:
            text = "replicas {missing} have been out of sync{since}{behind}"
            look.found(
                "partition",
                str(each.name),
                text,
                missing=listed(each.out_of_sync),
                since=for_how_long(since, now_ms),
                behind=how_far_behind(each),
            )
    count = snapshot.counts.under_replicated
    return result(check, look, Statement("{count} partitions are under-replicated just now", {"count": count}))


def _last_replica(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "last-replica",
        "No partition is down to its last replica",
        8,
        CRITICAL,
        Statement("at least two in sync, of two or more replicas"),
        "Do not restart that broker: what it alone has would be out of reach. Bring another replica back first.",
    )
    look = Look()
    for each in snapshot.partitions():
        if len(each.replicas) < 2:
            continue
        look.looked_at += 1
        if each.is_under_replicated and len(each.in_sync_replicas) == 1 and not each.is_offline:
            since = for_how_long(each.out_of_sync_since_ms, now_ms)
            text = "only broker {broker} of {replicas} is in sync{since}"
            look.found(
                "partition",
                str(each.name),
                text,
                broker=each.in_sync_replicas[0],
                replicas=listed(each.replicas),
                since=since,
            )
    return result(check, look, Statement("{count} replicated partitions looked at", {"count": look.looked_at}))


def _imbalance(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "leader-imbalance",
        "Leaders are where they are preferred",
        3,
        WARNING,
        Statement("at most {limit:.0f} % of a broker's elsewhere", {"limit": limits.imbalance_percent}),
        "Have the preferred replicas elected (kavka elect), or let auto.leader.rebalance.enable do it.",
    )
    look = Look()
    elsewhere: dict[int, int] = {}
    for each in snapshot.partitions() if snapshot.counts.not_led_by_preferred else ():
        if not each.is_led_by_preferred and each.preferred_leader in each.in_sync_replicas:
            elsewhere[each.preferred_leader] = elsewhere.get(each.preferred_leader, 0) + 1
    for broker in snapshot.alive_brokers:
        look.looked_at += 1
        missing = elsewhere.get(broker.broker_id, 0)
        percent = 100 * missing / broker.preferred if broker.preferred else 0.0
        if percent > limits.imbalance_percent:
            text = "others lead {missing} of {preferred} partitions that it should lead, and could ({percent:.0f} %)"
            values = {"missing": missing, "preferred": broker.preferred, "percent": percent}
            look.found("broker", str(broker.broker_id), text, **values)
    return result(check, look, Statement("{count} brokers looked at", {"count": look.looked_at}))


# -- topics


def _single_replica(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "single-replica",
        "Topics have more than one replica",
        2,
        WARNING,
        Statement("replication factor of at least 2, where there are several brokers"),
        "Raise the replication factor (kavka reassign), unless losing the topic with a disk is acceptable.",
    )
    look = Look()
    if len(snapshot.brokers) < 2:
        return result(check, look, Statement("there is one broker only"))
    for topic in snapshot.topics.values():
        look.looked_at += 1
        if topic.replication_factor == 1:
            look.found(
                "topic",
                topic.name,
                "one replica: with its broker all {count} partitions are gone",
                count=topic.partition_count,
            )
    return result(check, look, Statement("{count} topics looked at", {"count": look.looked_at}))


def _no_room_for_failure(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "min-isr-settings",
        "One broker may be restarted without refusing writes",
        3,
        WARNING,
        Statement("min.insync.replicas below the replication factor"),
        "Lower min.insync.replicas or raise the replication factor: 2 of 3 is usual.",
    )
    look = Look()
    for topic in snapshot.topics.values():
        least = next((each.min_insync_replicas for each in topic.partitions), None)
        if least is None or topic.replication_factor < 2:
            continue
        look.looked_at += 1
        if least >= topic.replication_factor:
            text = "min.insync.replicas is {least}, of {replicas} replicas: with any of them down acks=all is refused"
            look.found("topic", topic.name, text, least=least, replicas=topic.replication_factor)
    return of_part(snapshot, Part.TOPIC_CONFIGS, check, look, "{count} topics looked at")


def _unclean(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "unclean-elections",
        "No unclean elections are allowed",
        3,
        WARNING,
        Statement("unclean.leader.election.enable is false"),
        "Set unclean.leader.election.enable=false: with it a replica that lacks acknowledged records may lead.",
    )
    look = Look()
    name = "unclean.leader.election.enable"
    for topic in snapshot.topics.values():
        if topic.configs is None:
            continue
        look.looked_at += 1
        if topic.configs.get(name) == "true":
            look.found("topic", topic.name, "it allows unclean elections")
    for broker in snapshot.alive_brokers:
        if broker.configs.get(name) == "true":
            look.looked_at += 1
            look.found("broker", str(broker.broker_id), "it allows unclean elections by default")
    return of_part(snapshot, Part.TOPIC_CONFIGS, check, look, "{count} topics and brokers looked at")


# -- groups, transactions


def _rebalances(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "rebalances",
        "Groups do not rebalance all the time",
        4,
        WARNING,
        Statement("at most {limit} an hour", {"limit": limits.rebalances_per_hour}),
        "Members leave and come back: see whether they poll in time (max.poll.interval.ms), are restarted, or lose "
        "their connections; static membership (group.instance.id) keeps restarts from counting.",
    )
    look = Look()
    for group in snapshot.groups.values():
        look.looked_at += 1
        if group.rebalances > limits.rebalances_per_hour:
            look.found("group", group.group_id, "{count} rebalances in the last hour", count=group.rebalances)
    return of_part(snapshot, Part.GROUPS, check, look, "{count} groups looked at")


def _stuck(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "stuck-groups",
        "No group stands still",
        5,
        WARNING,
        Statement("with members and lag, for at most {seconds:.0f} s", {"seconds": limits.stuck_ms / 1000}),
        "See what its members do: an error that is tried again for ever, a record that cannot be read, an open "
        "transaction that holds the last stable offset back.",
    )
    look = Look()
    for group in snapshot.groups.values():
        look.looked_at += 1
        since = group.stuck_since_ms
        if since is not None and now_ms - since > limits.stuck_ms:
            text = "{members} members, lag {lag}, nothing committed{since}"
            lag = "unknown" if group.lag is None else f"{group.lag:,}"
            look.found(
                "group", group.group_id, text, members=len(group.members), lag=lag, since=for_how_long(since, now_ms)
            )
    return of_part(snapshot, Part.GROUPS, check, look, "{count} groups looked at")


def _hanging(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "hanging-transactions",
        "No transaction hangs",
        7,
        WARNING,
        Statement("every open transaction has a coordinator that will end it"),
        "Readers of committed data wait for it: end it with `kavka transactions abort`.",
    )
    look = Look()
    for each in snapshot.transactions:
        look.looked_at += 1
        if each.hangs:
            text = "producer {producer} has a transaction in {partitions} that nobody will end"
            partitions = ", ".join(map(str, each.partitions[:5]))
            name = each.transactional_id or f"producer {each.producer_id}"
            look.found("transaction", name, text, producer=each.producer_id, partitions=partitions)
    return of_part(snapshot, Part.TRANSACTIONS, check, look, "{count} transactions looked at")


_OTHERS: Final[tuple[_Ask, ...]] = (
    _controller,
    _brokers,
    _offline,
    _below_min_isr,
    _last_replica,
    _under_replicated,
    _imbalance,
    _log_directories,
    _disk_space,
    _request_queue,
    _handler_idle,
    _network_idle,
    _single_replica,
    _no_room_for_failure,
    _unclean,
    _rebalances,
    _stuck,
    _hanging,
    health_zookeeper.zookeeper_brain,
    health_zookeeper.zookeeper_outstanding,
    health_zookeeper.zookeeper_watches,
    health_zookeeper.zookeeper_connections,
)


def all_checks() -> tuple[Check, ...]:
    """Every check there is, for documentation."""
    nothing, limits = ClusterSnapshot("", ""), Thresholds()
    return tuple(each(nothing, limits, 0).check for each in (_reachable, *_OTHERS))
