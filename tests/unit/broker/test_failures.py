"""Which failed authentications are recorded, and which only counted."""

from __future__ import annotations

from kavka.broker.authentication.failed_authentications import MAX_RECORDS, Attempt, Failures
from kavka.decisions import MOST_KINDS, REPEATED_INTERVAL_MS, Decision
from kavka.model import BrokerId
from kavka.security.sasl import AuthenticationFailed, FailureReason

WRONG = AuthenticationFailed(FailureReason.WRONG_PASSWORD, user="alice")


def attempt(host: str = "10.0.0.1") -> Attempt:
    return Attempt(host, "SASL", "PLAIN", is_again=False)


def new() -> tuple[Failures, list[Decision]]:
    recorded: list[Decision] = []
    return Failures(BrokerId(1), recorded.append, wall_ms=lambda: 7), recorded


def test_the_first_of_a_minute_is_recorded_and_the_next_record_counts_the_others() -> None:
    failed, recorded = new()
    for now_ms in (1_000, 1_001, 60_999, 61_000):
        failed.on_failed(attempt(), WRONG, now_ms)
    assert [each.evidence["unrecorded_before"] for each in recorded] == [0, 2]


def test_who_has_many_addresses_leaves_no_flood_of_records() -> None:
    failed, recorded = new()
    for number in range(MAX_RECORDS + 50):
        failed.on_failed(attempt(f"10.0.0.{number}"), WRONG, 1_000 + number)
    assert len(recorded) == MAX_RECORDS
    failed.on_failed(attempt("10.0.0.149"), WRONG, 1_000 + REPEATED_INTERVAL_MS)
    assert recorded[-1].evidence["host"] == "10.0.0.149"
    assert recorded[-1].evidence["unrecorded_before"] == 1


def test_kinds_are_bounded() -> None:
    failed, _recorded = new()
    for number in range(MOST_KINDS + 10):
        failed.on_failed(attempt(str(number)), WRONG, 1_000)
    assert failed.kinds <= MOST_KINDS
