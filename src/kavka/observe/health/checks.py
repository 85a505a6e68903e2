"""The checks: all of them, in one report.

Decides the order in which a snapshot is looked at, and what is not known of a cluster that does not answer. Each check
with its weight, evidence and advice is where its subject is: brokers.py, disks.py, partitions.py, topics.py, groups.py,
share_groups.py, security.py, zookeeper.py; thresholds are findings.py's. Pure: a snapshot and the time in, results out.
Must not import the console's extra: `kavka health` runs them without it.

    I1  Each check gives one result, always; where its part of the snapshot is unknown, UNKNOWN with that reason.
    I2  A finding names an object and says why it fails, with the numbers.

Source: the checks of KnowStreaming 3.4; Kafka's monitoring documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kavka.observe.health import brokers, disks, groups, partitions, security, share_groups, topics, zookeeper
from kavka.observe.health.findings import Thresholds
from kavka.observe.health.report import Check, CheckResult, HealthReport, Outcome, Statement, report
from kavka.observe.snapshot import ClusterSnapshot

_Ask = Callable[[ClusterSnapshot, Thresholds, int], CheckResult]


def check_health(snapshot: ClusterSnapshot, now_ms: int, thresholds: Thresholds | None = None) -> HealthReport:
    """All checks of a snapshot. A cluster that does not answer fails the first one; the others are unknown then."""
    limits = thresholds or Thresholds()
    reachable = brokers.reachable(snapshot, limits, now_ms)
    if reachable.outcome is not Outcome.PASSED:
        why = Statement("the cluster does not answer")
        others = [CheckResult(each(snapshot, limits, now_ms).check, Outcome.UNKNOWN, why) for each in _OTHERS]
        return report([reachable, *others], now_ms)
    return report([reachable, *(each(snapshot, limits, now_ms) for each in _OTHERS)], now_ms)


_OTHERS: Final[tuple[_Ask, ...]] = (
    brokers.controller,
    brokers.controller_changes,
    brokers.brokers_alive,
    partitions.offline,
    partitions.below_min_isr,
    partitions.last_replica,
    partitions.under_replicated,
    partitions.leader_imbalance,
    disks.log_directories,
    disks.disk_space,
    brokers.request_queue,
    brokers.handler_idle,
    brokers.network_idle,
    security.open_listeners,
    security.open_passwords,
    security.certificates_end,
    security.certificates_end_soon,
    security.acls_stale,
    topics.single_replica,
    topics.min_isr_settings,
    topics.unclean_elections,
    groups.rebalances,
    groups.stuck_groups,
    share_groups.share_groups_still,
    share_groups.share_records_given_up,
    share_groups.dead_letters,
    groups.hanging_transactions,
    zookeeper.zookeeper_brain,
    zookeeper.zookeeper_outstanding,
    zookeeper.zookeeper_watches,
    zookeeper.zookeeper_connections,
)


def all_checks() -> tuple[Check, ...]:
    """Every check there is, for documentation."""
    nothing, limits = ClusterSnapshot("", ""), Thresholds()
    return tuple(each(nothing, limits, 0).check for each in (brokers.reachable, *_OTHERS))
