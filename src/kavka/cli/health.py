"""`kavka health`: the console's checks, once, on the command line.

Decides what is shown and with which status it ends: 0 where no check failed that counts, 1 where one did. Must not know
what is checked (console.health_checks). Works without the console's extra.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kavka.cli.output import FAILED, Failure, Table, show, show_json, usage
from kavka.cli.session import bootstrap_of

if TYPE_CHECKING:
    from kavka.console.health import CheckResult, HealthReport
    from kavka.console.settings import ClusterSettings
    from kavka.console.snapshot import ClusterSnapshot

FAIL_ON = ("warning", "critical", "never")
POLL_MS = 1_000
SHOWN_FINDINGS = 5


def health(
    bootstrap: str | None, *, zookeeper: str | None, metrics: str | None, fail_on: str, every: bool, as_json: bool
) -> None:
    """Prints score, failed checks and advice; with `every` the others, too. Raises Failure with status 1 as `fail_on`
    says."""
    if fail_on not in FAIL_ON:
        usage(f"--fail-on {fail_on}: expected {', '.join(FAIL_ON)}")
    settings = cluster_settings(bootstrap, zookeeper, metrics)
    from kavka.runtime.loop import run

    snapshot, found = run(_look(settings))
    if as_json:
        show_json(_fields(snapshot, found))
    else:
        _show(snapshot, found, every=every)
    if (fail_on == "warning" and found.failed) or (fail_on == "critical" and found.is_critical):
        raise Failure("", status=FAILED)


def cluster_settings(bootstrap: str | None, zookeeper: str | None, metrics: str | None) -> ClusterSettings:
    """What options say of the cluster. Raises Failure."""
    from kavka.console.settings import ClusterSettings
    from kavka.errors import ConfigError

    addresses = bootstrap_of(bootstrap)
    try:
        return ClusterSettings("local", addresses, metrics or "", zookeeper or "")
    except ConfigError as problem:
        usage(f"-b {addresses}: {problem}", "write it as host:port,host:port")


async def _look(settings: ClusterSettings) -> tuple[ClusterSnapshot, HealthReport]:
    from kavka.console.health_checks import check_health
    from kavka.console.health_look import Thresholds
    from kavka.console.watcher import Watcher

    watcher = Watcher(settings, poll_ms=POLL_MS, client_id="kavka-health")
    try:
        snapshot = await watcher.read_all()
        if snapshot.is_reachable and not snapshot.brokers:
            await asyncio.sleep(POLL_MS / 1000)
            snapshot = await watcher.read_all()
    finally:
        await watcher.close()
    # One look cannot tell for how long: what is under-replicated now counts.
    return snapshot, check_health(snapshot, snapshot.at_ms, Thresholds(under_replicated_ms=-1))


def _show(snapshot: ClusterSnapshot, found: HealthReport, *, every: bool) -> None:
    score = "unknown" if found.score is None else f"{found.score} of 100"
    kind = f"{snapshot.kind}, " if snapshot.kind else ""
    print(f"Health {score}: {snapshot.bootstrap} ({kind}{len(snapshot.alive_brokers)} brokers alive)")
    for result in found.failed:
        print(f"\n{result.check.severity.value}: {result.check.title}? No. Fails unless {result.check.threshold}.")
        for finding in result.findings[:SHOWN_FINDINGS]:
            print(f"  {finding.kind} {finding.name}: {finding.why}")
        if result.failed > SHOWN_FINDINGS:
            print(f"  and {result.failed - SHOWN_FINDINGS:,} more")
        print(f"  Next: {result.check.advice}")
    if not found.failed:
        print("Every check passes that could be made.")
    if every:
        print()
        table = Table(["check", "result", "weight", "evidence"], ["weight"])
        for result in found.results:
            table.add(result.check.name, result.outcome.value, result.check.weight, result.evidence)
        show(table)
    elif found.unknown:
        print(f"\nNot known: {', '.join(result.check.name for result in found.unknown)} (--all says why).")


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
