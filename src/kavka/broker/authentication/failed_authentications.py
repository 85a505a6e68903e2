"""Failures: what a failed authentication leaves behind. A why-record, counted and not repeated.

Decides which failure is recorded: the first of a minute for each address, listener, mechanism and reason, and the first
that makes its address wait; the others are counted, and the next record says how many there were. Who has many
addresses makes many kinds: of all of them together MAX_RECORDS are recorded in a minute.

    I1  a name that no user has is not written anywhere: people type passwords there
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.decisions import REPEATED_INTERVAL_MS, Decision, DecisionKind, Fact, RecordDecision, Repeats
from kavka.model import BrokerId
from kavka.security.sasl import AuthenticationFailed

MAX_RECORDS: Final = 100
"""Records in REPEATED_INTERVAL_MS."""


class Attempt(NamedTuple):
    """Who tried, where and how. `mechanism` is empty if none was chosen yet."""

    host: str
    listener: str
    mechanism: str
    is_again: bool


class Failures:
    """Records them with `record`, for broker `broker_id`."""

    def __init__(self, broker_id: BrokerId, record: RecordDecision, *, wall_ms: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._record = record
        self._wall_ms = wall_ms
        self._repeats = Repeats()
        self._recorded_until_ms = 0
        self._recorded = 0
        """Records until then."""

    @property
    def kinds(self) -> int:
        """How many kinds are counted."""
        return len(self._repeats)

    def on_failed(self, attempt: Attempt, failure: AuthenticationFailed, now_ms: int, *, slowed_ms: int = 0) -> None:
        """An authentication failed. `slowed_ms`: for how long the address has to wait now."""
        kind = (attempt.host, attempt.listener, attempt.mechanism, failure.reason, slowed_ms > 0)
        unrecorded = self._repeats.since_last(kind, now_ms)
        if unrecorded is None:
            return
        if not self._may_record(now_ms):
            self._repeats.put_off(kind, self._recorded_until_ms, unrecorded)
            return
        self._repeats.record(kind, now_ms)
        sentence = _sentence(attempt, failure)
        if slowed_ms:
            sentence += f"; it failed too often, and its clients wait {slowed_ms} ms now before they may try again"
        evidence: dict[str, Fact] = {
            "host": attempt.host,
            "listener": attempt.listener,
            "mechanism": attempt.mechanism,
            "reason": failure.reason.value,
            "again": attempt.is_again,
            "slowed_ms": slowed_ms,
            "unrecorded_before": unrecorded,
        }
        if failure.user is not None:
            evidence["user"] = failure.user
        self._record(
            Decision(
                DecisionKind.AUTHENTICATION_FAILED,
                self._wall_ms(),
                self._broker_id,
                sentence,
                about_broker=self._broker_id,
                evidence=evidence,
            )
        )

    def _may_record(self, now_ms: int) -> bool:
        """Whether there is room for one record more; it is taken."""
        if now_ms >= self._recorded_until_ms:
            self._recorded_until_ms, self._recorded = now_ms + REPEATED_INTERVAL_MS, 0
        self._recorded += 1
        return self._recorded <= MAX_RECORDS


def _sentence(attempt: Attempt, failure: AuthenticationFailed) -> str:
    who = f"User:{failure.user}" if failure.user is not None else "a client"
    how = f" with {attempt.mechanism}" if attempt.mechanism else ""
    what = "re-authenticate" if attempt.is_again else "authenticate"
    return f"{who} from host {attempt.host} did not {what}{how} on listener {attempt.listener}: {failure.reason.value}"
