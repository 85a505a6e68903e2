"""Outcome: what a lag policy did to a leader's partitions, in figures; and what a leader saw, as a trace.

Decides nothing but the form. Times are virtual milliseconds from the beginning of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kavka.decisions import Decision
from kavka.model import BrokerId, TopicPartition
from kavka.replication.decide.lag_policy import MESSAGES, TIME, LagPolicy, lag_policy


class Choice(NamedTuple):
    """A policy with its thresholds."""

    name: str
    max_ms: int
    max_messages: int = 4_000

    @property
    def policy(self) -> LagPolicy:
        return lag_policy(self.name, max_ms=self.max_ms, max_messages=self.max_messages)

    def __str__(self) -> str:
        if self.name == MESSAGES:
            return f"messages {self.max_messages:,}, {self.max_ms:,} ms"
        return f"time {self.max_ms:,} ms"


DEFAULT_CHOICES: Final = (
    Choice(TIME, 10_000),
    Choice(TIME, 30_000),
    Choice(MESSAGES, 10_000, 4_000),
    Choice(MESSAGES, 10_000, 40_000),
)


class Seen(NamedTuple):
    """One line of a trace: what a leader saw. `follower` is the leader itself for its own append of `amount` records;
    else that broker fetched at the offset `amount`."""

    at_ms: int
    partition: TopicPartition
    follower: BrokerId
    amount: int


class Span(NamedTuple):
    """A stretch of time that concerns a follower of a partition."""

    partition: TopicPartition
    follower: BrokerId
    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one workload under one policy. Times that are sums go over all partitions."""

    workload: str
    choice: Choice
    duration_ms: int
    shrinks: int
    expands: int
    removals: int
    false_alarms: int
    to_be_found: int
    detection_ms: tuple[int, ...]
    """Of those that were found; the others are overlooked."""
    isr_updates: int
    refused_ms: int
    """How long acks=all was refused for want of min.insync.replicas."""
    stalled_ms: int
    """How long a write that was accepted waited, beyond a second, for a follower in the ISR."""
    writes: int
    writes_refused: int
    commit_p50_ms: int
    commit_p99_ms: int
    commit_max_ms: int
    joined_after_ms: int | None
    """When a new follower joined."""
    out_of_isr: tuple[Span, ...]
    ailing: tuple[Span, ...]
    lags: dict[str, tuple[tuple[int, int], ...]]
    """By `partition broker`: (ms, greatest number of records behind since the point before)."""
    decisions: tuple[Decision, ...] = ()
    """The leader's why-records of its ISRs."""

    @property
    def overlooked(self) -> int:
        return self.to_be_found - len(self.detection_ms)

    @property
    def blocked_ms(self) -> int:
        return self.refused_ms + self.stalled_ms

    @property
    def worst_detection_ms(self) -> int | None:
        return max(self.detection_ms, default=None)

    def as_json(self) -> dict[str, object]:
        return {
            "workload": self.workload,
            "policy": self.choice.name,
            "max_ms": self.choice.max_ms,
            "max_messages": self.choice.max_messages if self.choice.name == MESSAGES else None,
            "shrinks": self.shrinks,
            "expands": self.expands,
            "removals": self.removals,
            "false_alarms": self.false_alarms,
            "to_be_found": self.to_be_found,
            "overlooked": self.overlooked,
            "detection_ms": list(self.detection_ms),
            "isr_updates": self.isr_updates,
            "refused_ms": self.refused_ms,
            "stalled_ms": self.stalled_ms,
            "writes": self.writes,
            "writes_refused": self.writes_refused,
            "commit_p50_ms": self.commit_p50_ms,
            "commit_p99_ms": self.commit_p99_ms,
            "commit_max_ms": self.commit_max_ms,
            "joined_after_ms": self.joined_after_ms,
        }


def percentile(ordered: Sequence[int], share: float) -> int:
    """The value that `share` of the ordered values do not exceed; 0 where there are none."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0
