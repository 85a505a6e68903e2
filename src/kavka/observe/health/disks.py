"""The checks of the brokers' disks: log directories that work, room on them.

Decides weights, evidence and advice of these; thresholds are findings.py's. Pure, as checks.py says.

Source: KIP-113 (log directories), KIP-827 (their sizes).
"""

from __future__ import annotations

from kavka.observe.health.findings import Look, Thresholds, of_part, unknown
from kavka.observe.health.report import Check, CheckResult, Severity, Statement
from kavka.observe.snapshot import ClusterSnapshot, Part

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING


def log_directories(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "log-directories",
        "All log directories are online",
        9,
        CRITICAL,
        Statement("no directory is offline"),
        "Check the disk and the broker's log. Repair the disk and restart the broker, or move its replicas.",
    )
    look = Look()
    for broker in snapshot.alive_brokers:
        for directory in broker.log_directories:
            look.looked_at += 1
            if directory.error:
                look.found(
                    "broker", str(broker.broker_id), "{path}: {error}", path=directory.path, error=directory.error
                )
    return of_part(snapshot, Part.LOG_DIRECTORIES, check, look, "log directories online: {count}")


def disk_space(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "disk-space",
        "Disks have free space",
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
        return unknown(check, "the brokers do not report the sizes of their disks (before Kafka 3.3)")
    return of_part(snapshot, Part.LOG_DIRECTORIES, check, look, "log directories checked: {count}")
