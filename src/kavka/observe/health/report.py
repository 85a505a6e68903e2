"""HealthReport: named checks, what each found, and the score that follows from them.

Decides how results make a score. Must not know what is checked (checks.py), nor the console's extra: the command
line and the metrics use it as well.

    I1  A score below 100 has a failed check, which names its objects and says why.
    I2  What could not be looked at is UNKNOWN, with the reason; it neither helps nor hurts the score.

    score = 100 * (1 - sum(weight * share) / sum(weight))      over the checks that are known
            at most CRITICAL_CAP where a critical check failed, WARNING_CAP where any did

`share` is the part of the objects that fail, at least LEAST_SHARE: one offline partition of a thousand is not nothing.

Source: KnowStreaming's health score, and the complaint about it that it moves without saying why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

CRITICAL_CAP: Final = 40
WARNING_CAP: Final = 95
LEAST_SHARE: Final = 0.5
MAX_FINDINGS: Final = 100
"""Objects that a result names; `failed` counts all."""


class Severity(Enum):
    """What a failure means: records or writes are in danger now, or something is to be looked at."""

    CRITICAL = "critical"
    WARNING = "warning"


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence with its values apart from it, so that it can be said in another language."""

    text: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text.format(**self.values) if self.values else self.text


@dataclass(frozen=True, slots=True)
class Check:
    """A question that is always asked the same way. `name` is for machines: metrics, JSON, addresses of pages."""

    name: str
    title: str
    weight: int
    """1 to 10."""
    severity: Severity
    threshold: Statement
    advice: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One object that fails: its kind (broker, partition, topic, group, transaction, zookeeper, cluster), name, why."""

    kind: str
    name: str
    why: Statement


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found. `looked_at` objects, of which `failed` fail; `findings` names the first MAX_FINDINGS."""

    check: Check
    outcome: Outcome
    evidence: Statement
    findings: tuple[Finding, ...] = ()
    looked_at: int = 0
    failed: int = 0

    @property
    def share(self) -> float:
        """How much of the weight is lost."""
        if self.outcome is not Outcome.FAILED:
            return 0.0
        return max(LEAST_SHARE, self.failed / self.looked_at if self.looked_at else 1.0)


@dataclass(frozen=True, slots=True)
class HealthReport:
    """All results, the failed ones first, the heaviest first. `score` is None where nothing is known."""

    at_ms: int
    score: int | None
    results: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return tuple(each for each in self.results if each.outcome is Outcome.FAILED)

    @property
    def unknown(self) -> tuple[CheckResult, ...]:
        return tuple(each for each in self.results if each.outcome is Outcome.UNKNOWN)

    @property
    def is_critical(self) -> bool:
        return any(each.check.severity is Severity.CRITICAL for each in self.failed)


def report(results: Sequence[CheckResult], at_ms: int) -> HealthReport:
    """The report of these results."""
    order = [Outcome.FAILED, Outcome.UNKNOWN, Outcome.PASSED]
    ordered = sorted(results, key=lambda each: (order.index(each.outcome), -each.check.weight, each.check.name))
    return HealthReport(at_ms, score_of(results), tuple(ordered))


def score_of(results: Sequence[CheckResult]) -> int | None:
    """0 to 100; None where nothing is known."""
    known = [each for each in results if each.outcome is not Outcome.UNKNOWN]
    weight = sum(each.check.weight for each in known)
    if not weight:
        return None
    score = 100 * (1 - sum(each.check.weight * each.share for each in known) / weight)
    failed = [each.check.severity for each in known if each.outcome is Outcome.FAILED]
    cap = CRITICAL_CAP if Severity.CRITICAL in failed else WARNING_CAP if failed else 100
    return max(min(int(score), cap), 0)
