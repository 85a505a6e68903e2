"""Acquisition locks: how long a member holds the records that it was given, and which locks are over.

Decides from spans, the length that the group's settings give to a lock (share.record.lock.duration.ms, held within its
bounds by `broker.share.group_settings`), and the time. Must not know timers, nor what becomes of records whose lock is
over (`share_partition`).

    I1  a lock holds from the delivery of a record, or its last renewal, for one length; what is being written has none

Source: KIP-932, KIP-1222 (renewals); Kafka's AcquisitionLockTimerTask.
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.share.decide.spans import Span


def lock_end_ms(now_ms: int, lock_ms: int) -> int:
    """When a lock ends that is taken or renewed now."""
    return now_ms + lock_ms


def locks_over(spans: Iterable[Span], now_ms: int) -> list[Span]:
    """The records that are held no longer, although nobody acknowledged them."""
    return [span for span in spans if span.is_held and span.deadline_ms <= now_ms]


def first_lock_end_ms(spans: Iterable[Span]) -> int | None:
    """When the next lock ends; None where there is none."""
    return min((span.deadline_ms for span in spans if span.is_held), default=None)


def last_lock_end_ms(spans: Iterable[Span]) -> int | None:
    """When all of them have."""
    return max((span.deadline_ms for span in spans if span.is_held), default=None)
