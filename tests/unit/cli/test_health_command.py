"""`kavka health`: since when something counts, and how a failed check reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.cli.cluster.health import FAILING, THRESHOLDS, since_back, since_decided, what_failed, without
from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId, TopicPartition
from kavka.observe.health.checks import check_health
from kavka.observe.health.report import Outcome
from kavka.observe.snapshot import ClusterSnapshot
from tests.unit.observe import snapshots as make

NOW_MS = make.NOW_MS
ORDERS_0 = TopicPartition("orders", 0)


def behind() -> ClusterSnapshot:
    return make.snapshot(topics=[make.topic(make.partition(in_sync=(1, 2), behind_since_ms=NOW_MS))])


def shrunk(ago_ms: int, *isr: int) -> Decision:
    kind = DecisionKind.ISR_SHRUNK if len(isr) < 3 else DecisionKind.ISR_EXPANDED
    return Decision(kind, NOW_MS - ago_ms, BrokerId(1), "", partition=ORDERS_0, after={"isr": list(isr)})


@pytest.mark.parametrize(
    ("decisions", "outcome"),
    [
        ([shrunk(59_000, 1, 2)], Outcome.PASSED),
        ([shrunk(61_000, 1, 2)], Outcome.FAILED),
        ([shrunk(10_000, 1, 2), shrunk(70_000, 1)], Outcome.FAILED),
        ([shrunk(10_000, 1, 2), shrunk(20_000, 1, 2, 3), shrunk(70_000, 1)], Outcome.PASSED),
        ([], Outcome.FAILED),
    ],
    ids=["just now", "for long", "since an earlier one", "in full between", "nobody knows"],
)
def test_how_long_a_partition_is_out_of_sync_is_read_from_decisions(
    decisions: list[Decision], outcome: Outcome
) -> None:
    report = check_health(since_decided(behind(), decisions), NOW_MS, THRESHOLDS)
    (found,) = [each for each in report.results if each.check.name == "under-replicated"]
    assert found.outcome is outcome


@pytest.mark.parametrize(
    ("ago_ms", "outcome"), [(350_000, Outcome.PASSED), (370_000, Outcome.FAILED), (None, Outcome.FAILED)]
)
def test_leaders_that_a_restart_moved_are_no_finding_before_the_controller_could_move_them_back(
    ago_ms: int | None, outcome: Outcome
) -> None:
    back = Decision(
        DecisionKind.ISR_EXPANDED, NOW_MS - (ago_ms or 0), BrokerId(2), "", partition=ORDERS_0,
        before={"isr": [2, 3]}, after={"isr": [2, 3, 1]},
    )  # fmt: skip
    older = back._replace(at_ms=NOW_MS - 900_000)
    away = make.snapshot(topics=[make.topic(make.partition(leader=2))])
    brokers = {each: replace(broker, preferred=1 if each == 1 else 0) for each, broker in away.brokers.items()}
    seen = since_back(replace(away, brokers=brokers), [] if ago_ms is None else [back, older])
    (found,) = [
        each for each in check_health(seen, NOW_MS, THRESHOLDS).results if each.check.name == "leader-imbalance"
    ]
    assert found.outcome is outcome


def test_a_failed_check_says_what_how_many_and_for_how_long() -> None:
    late = [make.partition(number, in_sync=(1, 2), behind_since_ms=0) for number in range(7)]
    report = check_health(make.snapshot(topics=[make.topic(*late)]), NOW_MS, THRESHOLDS)
    (found,) = [each for each in report.failed if each.check.name == "under-replicated"]
    assert what_failed(found) == "7 partitions out of sync for more than 60 s"


def test_every_check_has_its_sentence() -> None:
    names = {each.check.name for each in check_health(make.snapshot(), NOW_MS).results}
    assert set(FAILING) == names
    for text in FAILING.values():
        assert text.format(n="1 broker", limit=THRESHOLDS)


def test_a_broker_that_does_not_answer_is_not_counted_as_alive() -> None:
    snapshot = make.snapshot()
    first, *others = sorted(snapshot.brokers)
    seen = without(snapshot, [first])
    assert [each.broker_id for each in seen.alive_brokers] == others
    (found,) = [each for each in check_health(seen, NOW_MS, THRESHOLDS).failed if each.check.name == "brokers-alive"]
    assert [each.name for each in found.findings] == [str(first)]
