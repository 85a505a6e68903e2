"""The checks of groups and of transactions: they get on, and hold nobody up.

Decides weights, evidence and advice of these; thresholds are findings.py's. Pure, as checks.py says.

Source: the checks of KnowStreaming 3.4; KIP-664 (hanging transactions).
"""

from __future__ import annotations

from kavka.observe.health.findings import Look, Thresholds, for_how_long, of_part
from kavka.observe.health.report import Check, CheckResult, Severity, Statement
from kavka.observe.snapshot import ClusterSnapshot, Part

WARNING = Severity.WARNING


def rebalances(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "rebalances",
        "Groups do not rebalance too often",
        4,
        WARNING,
        Statement("at most {limit} an hour", {"limit": limits.rebalances_per_hour}),
        "Members leave and come back. Check whether they poll in time (max.poll.interval.ms), restart, or lose their "
        "connections. With static membership (group.instance.id) a restart causes no rebalance.",
    )
    look = Look()
    for group in snapshot.groups.values():
        look.looked_at += 1
        if group.rebalances > limits.rebalances_per_hour:
            look.found("group", group.group_id, "{count} rebalances in the last hour", count=group.rebalances)
    return of_part(snapshot, Part.GROUPS, check, look, "groups checked: {count}")


def stuck_groups(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "stuck-groups",
        "No group is stuck",
        5,
        WARNING,
        Statement("with members and lag, for at most {seconds:.0f} s", {"seconds": limits.stuck_ms / 1000}),
        "Check its members: one may retry an error forever or fail on a record, or an open transaction may hold the "
        "last stable offset back.",
    )
    look = Look()
    for group in snapshot.groups.values():
        look.looked_at += 1
        since = group.stuck_since_ms
        if since is not None and group.is_stuck(now_ms, limits.stuck_ms):
            text = "members: {members}, lag: {lag}, nothing committed{since}"
            lag = "unknown" if group.lag is None else f"{group.lag:,}"
            look.found(
                "group", group.group_id, text, members=len(group.members), lag=lag, since=for_how_long(since, now_ms)
            )
    return of_part(snapshot, Part.GROUPS, check, look, "groups checked: {count}")


def hanging_transactions(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "hanging-transactions",
        "No transaction hangs",
        7,
        WARNING,
        Statement("every open transaction has a coordinator that will end it"),
        "Consumers that read committed records wait for it. End it with `kavka transactions abort`.",
    )
    look = Look()
    for each in snapshot.transactions:
        look.looked_at += 1
        if each.hangs:
            text = "producer {producer} has a transaction in {partitions} that no coordinator will end"
            partitions = ", ".join(map(str, each.partitions[:5]))
            name = each.transactional_id or f"producer {each.producer_id}"
            look.found("transaction", name, text, producer=each.producer_id, partitions=partitions)
    return of_part(snapshot, Part.TRANSACTIONS, check, look, "transactions checked: {count}")
