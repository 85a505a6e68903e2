"""Requests by API over all brokers, and single requests out of why-records."""

from __future__ import annotations

import pytest

from kavka.console.look.request_times import ApiTimes, by_api, causes, slow_request, throttling
from kavka.decisions import Decision, DecisionKind, Facts, RecordedDecision
from kavka.model import BrokerId
from kavka.observe.snapshot import BrokerMetrics, BrokerView, RequestTimes


def broker(broker_id: int, *times: RequestTimes) -> BrokerView:
    return BrokerView(broker_id, "h", 9092, None, True, False, metrics=BrokerMetrics(times))


def times(
    api: str, count: int, *, remote_ms: float = 0.0, per_second: float | None = 1.0, p99: float | None = None
) -> RequestTimes:
    return RequestTimes(api, count, per_second, 1.0, 2.0, remote_ms, 0.5, 0.5, 4.0 + remote_ms, p99, 0.25)


def recorded(kind: DecisionKind, evidence: Facts, about: int = 3) -> RecordedDecision:
    return RecordedDecision(
        "d1", Decision(kind, 5, BrokerId(1), "why", about_broker=BrokerId(about), evidence=evidence)
    )


def test_a_mean_over_brokers_counts_each_by_its_requests() -> None:
    (found,) = by_api(
        [broker(1, times("Produce", 30, remote_ms=10.0, p99=50.0)), broker(2, times("Produce", 10, p99=70.0))]
    )
    assert found == ApiTimes("Produce", 40, 2.0, (1.0, 2.0, 7.5, 0.25, 0.5, 0.5), 11.5, 70.0, 2)
    assert found.longest == "remote"


def test_the_api_that_took_most_time_comes_first_and_what_was_not_measured_is_none() -> None:
    found = by_api([broker(1, times("Metadata", 1_000), times("Produce", 10, remote_ms=900.0, per_second=None))])
    assert [(each.api, each.per_second, each.worst_p99_ms) for each in found] == [
        ("Produce", None, None),
        ("Metadata", 1.0, None),
    ]
    assert by_api([BrokerView(1, "h", 9092, None, True, False)]) == []


def test_a_slow_request_is_what_its_evidence_says_and_what_is_strange_there_is_not_known() -> None:
    evidence: Facts = {"api": "Produce", "stage": "remote", "total_ms": 1200, "topic": "t", "partition": 3, "offset": 9}
    found = slow_request(recorded(DecisionKind.REQUEST_SLOW, evidence))
    assert (found.api, found.stage, found.waited_for, found.total_ms) == ("Produce", "remote", 3, 1200)
    assert (found.topic, found.partition, found.offset, found.client_id) == ("t", 3, 9, None)
    odd = slow_request(recorded(DecisionKind.REQUEST_SLOW, {"api": 5, "total_ms": "many", "partition": True}))
    assert (odd.api, odd.total_ms, odd.partition) == (None, None, None)


def test_causes_count_what_was_not_recorded_one_by_one() -> None:
    def slow(stage: str, about: int, before: int) -> RecordedDecision:
        return recorded(
            DecisionKind.REQUEST_SLOW, {"api": "Produce", "stage": stage, "unrecorded_before": before}, about
        )

    found = [slow_request(each) for each in (slow("remote", 2, 4), slow("remote", 2, 0), slow("local", 1, 1))]
    assert causes(found) == [("Produce", "remote", 2, 6), ("Produce", "local", 1, 2)]


@pytest.mark.parametrize(("limit", "known"), [(1000, 1000.0), (0.5, 0.5), ("x", None), (True, None)])
def test_a_throttled_client_has_its_quota(limit: float | str, known: float | None) -> None:
    evidence: Facts = {"quota": "producer_byte_rate", "rule": "user a", "limit": limit, "throttle_ms": 40}
    found = throttling(recorded(DecisionKind.THROTTLED, evidence))
    assert (found.quota, found.rule, found.limit, found.throttle_ms) == ("producer_byte_rate", "user a", known, 40)


@pytest.mark.parametrize("strange", [10**400, -(10**400), 2**63, float("nan"), float("inf"), True])
def test_a_number_that_nothing_can_measure_is_not_known(strange: float) -> None:
    """One record in the topic of decisions made the page an error, for as long as it was kept."""
    evidence: Facts = {"rate": strange, "limit": strange, "throttle_ms": strange, "total_ms": strange}
    found = throttling(recorded(DecisionKind.THROTTLED, evidence))
    assert (found.rate, found.limit, found.throttle_ms) == (None, None, None)
    assert slow_request(recorded(DecisionKind.REQUEST_SLOW, evidence)).total_ms is None
