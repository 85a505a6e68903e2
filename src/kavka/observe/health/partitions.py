"""The checks of partitions: they have leaders, take writes, are replicated, and are led where they should be.

Decides weights, evidence and advice of these; thresholds are findings.py's. Pure, as checks.py says.

Source: the checks of KnowStreaming 3.4; Kafka's monitoring documentation; KIP-966 for ISRs of one.
"""

from __future__ import annotations

from kavka.observe.health.findings import Look, Thresholds, for_how_long, how_far_behind, listed, result, unknown
from kavka.observe.health.report import Check, CheckResult, Severity, Statement
from kavka.observe.snapshot import ClusterSnapshot, Part

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING


def offline(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "offline-partitions",
        "Every partition has a leader",
        10,
        CRITICAL,
        Statement("no partition is without a leader"),
        "Start the brokers of its ISR. Only if they are lost for good, run an unclean election: it loses records.",
    )
    look = Look(snapshot.counts.partitions)
    for each in snapshot.partitions() if snapshot.counts.offline else ():
        if each.is_offline:
            text = "no leader{since}: its in-sync replicas {in_sync} are not alive"
            since = for_how_long(each.offline_since_ms, now_ms)
            look.found("partition", str(each.name), text, since=since, in_sync=listed(each.in_sync_replicas))
    return result(check, look, Statement("partitions with a leader: {count}", {"count": look.looked_at}))


def below_min_isr(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "below-min-isr",
        "No partition refuses acks=all",
        9,
        CRITICAL,
        Statement("ISR of at least min.insync.replicas"),
        "Bring the out-of-sync replicas back. See why they left the ISR: kavka why TOPIC-PARTITION.",
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
                least=each.needed_in_sync,
                since=for_how_long(each.out_of_sync_since_ms, now_ms),
            )
    return result(check, look, Statement("partitions checked: {count}", {"count": look.looked_at}))


def under_replicated(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "under-replicated",
        "No partition stays under-replicated",
        7,
        WARNING,
        Statement("for at most {seconds:.0f} s", {"seconds": max(limits.under_replicated_ms, 0) / 1000}),
        "Check whether one broker is out of sync everywhere (it is slow or gone), and why: kavka why TOPIC-PARTITION.",
    )
    look = Look(snapshot.counts.partitions)
    for each in snapshot.partitions() if snapshot.counts.under_replicated else ():
        since = each.out_of_sync_since_ms
        if not each.is_under_replicated or each.is_offline or each.is_reassigning:
            continue
        # Since when it is not known: it may be for long.
        if since is None or now_ms - since > limits.under_replicated_ms:
            text = "out of sync{since}: {missing}{behind}"
            look.found(
                "partition",
                str(each.name),
                text,
                missing=listed(each.out_of_sync),
                since=for_how_long(since, now_ms),
                behind=how_far_behind(each),
            )
    count = snapshot.counts.under_replicated
    return result(check, look, Statement("partitions under-replicated now: {count}", {"count": count}))


def last_replica(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "last-replica",
        "No partition is down to its last replica",
        8,
        CRITICAL,
        Statement("at least two in sync, of two or more replicas"),
        "Do not restart that broker: it has the only copy that is in sync. Bring another replica back first.",
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
    return result(check, look, Statement("replicated partitions checked: {count}", {"count": look.looked_at}))


def _led_by_others(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> dict[int, int]:
    """By broker, how many partitions others lead that it should lead and could, and not only for a moment."""
    elsewhere: dict[int, int] = {}
    for each in snapshot.partitions() if snapshot.counts.not_led_by_preferred else ():
        back_since_ms = each.preferred_back_since_ms
        if back_since_ms is not None and now_ms - back_since_ms <= limits.imbalance_ms:
            continue
        if not each.is_led_by_preferred and each.preferred_leader in each.in_sync_replicas:
            elsewhere[each.preferred_leader] = elsewhere.get(each.preferred_leader, 0) + 1
    return elsewhere


def leader_imbalance(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "leader-imbalance",
        "Preferred replicas lead their partitions",
        3,
        WARNING,
        Statement("at most {limit:.0f} % of a broker's partitions led by others", {"limit": limits.imbalance_percent}),
        "Elect them (kavka elect --all), or wait: the controller does, unless auto.leader.rebalance.enable=false.",
    )
    look = Look()
    elsewhere = _led_by_others(snapshot, limits, now_ms)
    for broker in snapshot.alive_brokers:
        look.looked_at += 1
        missing = elsewhere.get(broker.broker_id, 0)
        percent = 100 * missing / broker.preferred if broker.preferred else 0.0
        if percent > limits.imbalance_percent:
            text = (
                "other brokers lead {missing} of {preferred} partitions that it should lead and could ({percent:.0f} %)"
            )
            values = {"missing": missing, "preferred": broker.preferred, "percent": percent}
            look.found("broker", str(broker.broker_id), text, **values)
    return result(check, look, Statement("brokers checked: {count}", {"count": look.looked_at}))
