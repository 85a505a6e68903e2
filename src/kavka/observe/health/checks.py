"""The checks: all of them, in one report.

Decides the order in which a snapshot is looked at, and what is not known of a cluster that does not answer. Each check
with its weight, evidence and advice is where its subject is: health_brokers.py, health_disks.py, health_partitions.py,
health_topics.py, health_groups.py, health_zookeeper.py; thresholds are health_look.py's. Pure: a snapshot and the time
in, results out. Must not import the console's extra: `kavka health` runs them without it.

    I1  Each check gives one result, always; where its part of the snapshot is unknown, UNKNOWN with that reason.
    I2  A finding names an object and says why it fails, with the numbers.

Source: the checks of KnowStreaming 3.4; Kafka's monitoring documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kavka.observe.health import brokers as health_brokers
from kavka.observe.health import disks as health_disks
from kavka.observe.health import groups as health_groups
from kavka.observe.health import partitions as health_partitions
from kavka.observe.health import topics as health_topics
from kavka.observe.health import zookeeper as health_zookeeper
from kavka.observe.health.findings import Thresholds
from kavka.observe.health.report import Check, CheckResult, HealthReport, Outcome, Statement, report
from kavka.observe.snapshot import ClusterSnapshot

_Ask = Callable[[ClusterSnapshot, Thresholds, int], CheckResult]


def check_health(snapshot: ClusterSnapshot, now_ms: int, thresholds: Thresholds | None = None) -> HealthReport:
    """All checks of a snapshot. A cluster that does not answer fails the first one; the others are unknown then."""
    limits = thresholds or Thresholds()
    reachable = health_brokers.reachable(snapshot, limits, now_ms)
    if reachable.outcome is not Outcome.PASSED:
        why = Statement("the cluster does not answer")
        others = [CheckResult(each(snapshot, limits, now_ms).check, Outcome.UNKNOWN, why) for each in _OTHERS]
        return report([reachable, *others], now_ms)
    return report([reachable, *(each(snapshot, limits, now_ms) for each in _OTHERS)], now_ms)


_OTHERS: Final[tuple[_Ask, ...]] = (
    health_brokers.controller,
    health_brokers.controller_changes,
    health_brokers.brokers_alive,
    health_partitions.offline,
    health_partitions.below_min_isr,
    health_partitions.last_replica,
    health_partitions.under_replicated,
    health_partitions.leader_imbalance,
    health_disks.log_directories,
    health_disks.disk_space,
    health_brokers.request_queue,
    health_brokers.handler_idle,
    health_brokers.network_idle,
    health_topics.single_replica,
    health_topics.min_isr_settings,
    health_topics.unclean_elections,
    health_groups.rebalances,
    health_groups.stuck_groups,
    health_groups.hanging_transactions,
    health_zookeeper.zookeeper_brain,
    health_zookeeper.zookeeper_outstanding,
    health_zookeeper.zookeeper_watches,
    health_zookeeper.zookeeper_connections,
)


def all_checks() -> tuple[Check, ...]:
    """Every check there is, for documentation."""
    nothing, limits = ClusterSnapshot("", ""), Thresholds()
    return tuple(each(nothing, limits, 0).check for each in (health_brokers.reachable, *_OTHERS))
