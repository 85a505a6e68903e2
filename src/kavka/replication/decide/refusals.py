"""Refusals: which of a partition's refusals are worth a why-record.

Clients and followers repeat what was refused, many times a second. Decides, for each kind, whether the refusal at hand
is recorded or only counted. Must not know what was refused or why.

    I1  at most one record of a kind in RECORD_INTERVAL_MS; while refusals go on the interval doubles, up to
        MAX_RECORD_INTERVAL_MS
    I2  a record says how many refusals of its kind were not recorded since the one before
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kavka.decisions import Decision, DecisionKind

RECORD_INTERVAL_MS: Final = 1_000
MAX_RECORD_INTERVAL_MS: Final = 60_000


class Refusals:
    """The refusals of one partition."""

    __slots__ = ("_last_recorded", "_suppressed")

    def __init__(self) -> None:
        self._last_recorded: dict[DecisionKind, tuple[int, int]] = {}
        """By kind: when one was recorded last, and how long the next one must wait."""
        self._suppressed: dict[DecisionKind, int] = {}

    def decide(self, kind: DecisionKind, now_ms: int, why_record: Callable[[], Decision]) -> tuple[Decision, ...]:
        """The why-record of this refusal. Empty if one of its kind was recorded just before."""
        last_ms, interval_ms = self._last_recorded.get(kind, (None, RECORD_INTERVAL_MS))
        since_ms = None if last_ms is None else now_ms - last_ms
        if since_ms is not None and 0 <= since_ms < interval_ms:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return ()
        goes_on = since_ms is not None and since_ms < 2 * interval_ms and kind in self._suppressed
        next_interval_ms = min(2 * interval_ms, MAX_RECORD_INTERVAL_MS) if goes_on else RECORD_INTERVAL_MS
        self._last_recorded[kind] = (now_ms, next_interval_ms)
        decision = why_record()
        more = self._suppressed.pop(kind, 0)
        if more:
            decision = decision._replace(evidence={**decision.evidence, "not_recorded_since": more})
        return (decision,)

    # -- as values, in a partition's snapshot

    def intervals(self) -> tuple[tuple[DecisionKind, int, int], ...]:
        """By kind: when one was recorded last, and how long the next one must wait."""
        return tuple((kind, at_ms, interval_ms) for kind, (at_ms, interval_ms) in self._last_recorded.items())

    def counts(self) -> tuple[tuple[DecisionKind, int], ...]:
        """By kind: how many were not recorded since the last record."""
        return tuple(self._suppressed.items())

    def restore(
        self, intervals: Iterable[tuple[DecisionKind, int, int]], counts: Iterable[tuple[DecisionKind, int]]
    ) -> None:
        self._last_recorded = {kind: (at_ms, interval_ms) for kind, at_ms, interval_ms in intervals}
        self._suppressed = dict(counts)
