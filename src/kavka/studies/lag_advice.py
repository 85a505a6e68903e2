"""Advice: which lag policy, with which thresholds, and why.

Decides by what an operator loses, in this order: a follower that lags and that nobody notices (its data is older than
anybody thinks, and acks=all waits for it), a healthy follower thrown out (every ISR write and every missing replica is
for nothing), time in which acks=all writes were blocked, ISR updates. Must not know how the figures came about.

    I1  the reason names the figures that decided, and what the others did instead

Source: article 003; KIP-16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.replication.decide.lag_policy import MESSAGES, TIME
from kavka.studies.isr_history import IsrHistory, Judgement
from kavka.studies.lag_outcome import Choice, Outcome
from kavka.studies.lag_workload import AilmentKind, Workload


class Advice(NamedTuple):
    """`reasons` are sentences, the deciding one first."""

    choice: Choice
    reasons: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "policy": self.choice.name,
            "max_ms": self.choice.max_ms,
            "max_messages": self.choice.max_messages if self.choice.name == MESSAGES else None,
            "reasons": list(self.reasons),
        }


class _Sum(NamedTuple):
    """All workloads under one policy, in the order in which it counts; smaller is better."""

    overlooked: int
    false_alarms: int
    blocked_ms: int
    isr_updates: int
    to_be_found: int
    worst_detection_ms: int


def advise(outcomes: Sequence[Outcome], workloads: Sequence[Workload] = ()) -> Advice:
    """The policy that did best over all `outcomes`."""
    choices = list(dict.fromkeys(outcome.choice for outcome in outcomes))
    sums = {choice: _sum([each for each in outcomes if each.choice == choice]) for choice in choices}
    best = min(choices, key=lambda choice: sums[choice])
    reasons = [f"{best} {_did(sums[best])}"]
    reasons += [f"{choice} {_did(sums[choice])}" for choice in choices if choice != best]
    reasons += _why_no_number_fits(workloads)
    return Advice(best, tuple(reasons))


def _sum(outcomes: Sequence[Outcome]) -> _Sum:
    return _Sum(
        sum(each.overlooked for each in outcomes),
        sum(each.false_alarms for each in outcomes),
        sum(each.blocked_ms for each in outcomes),
        sum(each.isr_updates for each in outcomes),
        sum(each.to_be_found for each in outcomes),
        max((each.worst_detection_ms or 0 for each in outcomes), default=0),
    )


def _did(figures: _Sum) -> str:
    found = figures.to_be_found - figures.overlooked
    sick = f"found {found} of {figures.to_be_found} lagging followers"
    if not figures.to_be_found:
        sick = "had no lagging follower to find"
    if found:
        sick += f" (the last after {figures.worst_detection_ms / 1000:.1f} s)"
    alarms = {0: "threw no healthy one out", 1: "threw a healthy one out once"}.get(
        figures.false_alarms, f"threw healthy ones out {figures.false_alarms:,} times"
    )
    return (
        f"{sick}, {alarms}; acks=all was blocked for {figures.blocked_ms / 1000:,.1f} s, "
        f"with {figures.isr_updates:,} ISR updates"
    )


def _why_no_number_fits(workloads: Sequence[Workload]) -> list[str]:
    """The article's point, where a workload has both: the same limit holds for all topics."""
    reasons = []
    for workload in workloads:
        largest = max(workload.traffic, key=lambda traffic: traffic.records)
        for ailment in workload.ailments:
            slow = next((each for each in workload.traffic if each.topic == ailment.topic), None)
            if ailment.kind is not AilmentKind.SLOW or slow is None or slow is largest:
                continue
            growth = slow.records_per_s - ailment.records_per_s
            if growth > 0:
                minutes = largest.records / growth / 60
                reasons.append(
                    f"no number of messages serves both topics of {workload.name}: above the {largest.records:,} that "
                    f"come at once on {largest.topic}, a follower of {slow.topic} that takes in "
                    f"{ailment.records_per_s:,} of {slow.records_per_s:,.0f} records/s is noticed after "
                    f"{minutes:,.0f} min at the earliest"
                )
    return reasons


def advise_from_history(history: IsrHistory, judgements: Sequence[Judgement]) -> Advice | None:
    """What the removals of a history speak for; None where no policy's answer is known for any of them."""
    known = [each for each in judgements if each.out + each.stays]
    if not known:
        return None
    best = min(known, key=lambda each: (each.needless + each.late + each.unknown, each.choice.name != TIME))
    removals = history.removals()
    needless = sum(each.was_needless for each in removals)
    reasons = [f"{len(removals):,} followers were thrown out, {needless:,} of them were back within 10 s"]
    reasons += [
        f"{each.choice} would have thrown out {each.out:,} of them ({each.needless:,} needlessly), kept {each.stays:,} "
        f"then ({each.late:,} of which stayed away for longer: noticed later, or never); {each.unknown:,} cannot "
        "be told"
        for each in (best, *(other for other in judgements if other is not best))
    ]
    return Advice(best.choice, tuple(reasons))
