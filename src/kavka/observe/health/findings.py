"""What a check has found so far, and how that becomes its result.

Decides from when on something counts (`Thresholds`), how many objects are named, and how times and replicas are said.
Must not know what is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kavka.observe.health.report import MAX_FINDINGS, Check, CheckResult, Finding, Outcome, Statement
from kavka.observe.snapshot import ClusterSnapshot, Part, PartitionView


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From when on something counts."""

    under_replicated_ms: int = 60_000
    """A follower that restarts is back sooner."""
    controller_elections_per_hour: int = 3
    imbalance_percent: float = 20.0
    """Of the partitions that a broker should lead."""
    imbalance_ms: int = 360_000
    """A controller looks every leader.imbalance.check.interval.seconds (300), and moves back what a restart moved."""
    disk_free_percent: float = 15.0
    idle_percent: float = 30.0
    """Kafka's documentation: request handlers and network threads should be idle more than this."""
    request_queue: float = 400.0
    """Requests; queued.max.requests is 500."""
    rebalances_per_hour: int = 12
    stuck_ms: int = 120_000
    share_still_ms: int = 300_000
    """With a lock of 30 s and five deliveries (Kafka's defaults), a record that fails is given up after half of it."""
    certificate_warn_days: int = 30
    certificate_end_days: int = 7
    acls_stale_ms: float = 60_000.0
    zookeeper_outstanding: float = 50.0
    zookeeper_watches: float = 100_000.0
    zookeeper_connections: float = 1_000.0


@dataclass(slots=True)
class Look:
    """What a check has looked at so far."""

    looked_at: int = 0
    failed: int = 0
    findings: list[Finding] | None = None

    def found(self, kind: str, name: str, text: str, **values: object) -> None:
        self.failed += 1
        if self.findings is None:
            self.findings = []
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(kind, name, Statement(text, values)))


def result(check: Check, look: Look, evidence: Statement) -> CheckResult:
    findings = tuple(look.findings or ())
    if not findings:
        return CheckResult(check, Outcome.PASSED, evidence, (), look.looked_at, 0)
    first = findings[0]
    more = Statement(" (and {n} more)", {"n": f"{look.failed - 1:,}"}) if look.failed > 1 else ""
    said = Statement(
        "{kind} {name}: {why}{more}", {"kind": first.kind, "name": first.name, "why": first.why, "more": more}
    )
    return CheckResult(check, Outcome.FAILED, said, findings, look.looked_at, look.failed)


def of_part(snapshot: ClusterSnapshot, part: Part, check: Check, look: Look, text: str) -> CheckResult:
    reading = snapshot.reading(part)
    if not reading.is_known:
        return unknown(check, reading.unknown_because)
    return result(check, look, Statement(text, {"count": look.looked_at}))


def unknown(check: Check, why: str) -> CheckResult:
    return CheckResult(check, Outcome.UNKNOWN, Statement("{why}", {"why": why or "not read yet"}))


def for_how_long(since_ms: int | None, now_ms: int) -> str:
    """' for 12 s', or nothing where it is not known since when."""
    if since_ms is None:
        return ""
    seconds = max(now_ms - since_ms, 0) // 1000
    if seconds < 120:
        return f" for {seconds} s"
    return f" for {seconds // 60} min" if seconds < 7_200 else f" for {seconds / 3600:.1f} h"


def how_far_behind(partition: PartitionView) -> str:
    """How far the replicas that are out of sync lie behind, where that is known."""
    parts = []
    for replica in partition.out_of_sync:
        records = partition.records_behind(replica)
        if records is not None:
            parts.append(f"{replica}: {records:,} records behind")
    return f" ({', '.join(parts)})" if parts else ""


def listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
