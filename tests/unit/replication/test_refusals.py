"""How often a refusal is recorded, and what a record says of those that were not."""

from __future__ import annotations

from itertools import pairwise

from kavka.decisions import Decision, DecisionKind
from kavka.replication.decide.refusals import MAX_RECORD_INTERVAL_MS, RECORD_INTERVAL_MS, Refusals
from tests.unit.replication.replication_support import A

FENCED, REFUSED = DecisionKind.FENCED, DecisionKind.PRODUCE_REFUSED


class Refused:
    """Refusals of one partition. Each is about the millisecond at which it comes."""

    def __init__(self) -> None:
        self.refusals = Refusals()

    def at(self, now_ms: int, kind: DecisionKind = FENCED) -> Decision | None:
        decisions = self.refusals.decide(
            kind, now_ms, lambda: Decision(kind, now_ms, A, "no", evidence={"at_ms": now_ms})
        )
        assert len(decisions) <= 1
        return decisions[0] if decisions else None

    def recorded(self, *times_ms: int) -> list[int]:
        return [now_ms for now_ms in times_ms if self.at(now_ms) is not None]


def test_a_kind_is_recorded_once_in_its_interval() -> None:
    assert RECORD_INTERVAL_MS == 1_000
    refused = Refused()
    assert refused.recorded(5_000, 5_001, 5_999, 6_000) == [5_000, 6_000]
    assert refused.at(6_001, REFUSED) is not None, "another kind"
    assert refused.at(6_002, REFUSED) is None


def test_a_record_says_how_many_of_its_kind_were_not_recorded_since_the_one_before() -> None:
    refused = Refused()
    first = refused.at(0)
    assert first is not None
    assert first.evidence == {"at_ms": 0}
    for now_ms in (1, 2, 3):
        refused.at(now_ms)
    refused.at(3, REFUSED)
    refused.at(3, REFUSED)
    second = refused.at(1_000)
    assert second is not None
    assert second.evidence == {"at_ms": 1_000, "not_recorded_since": 3}
    third = refused.at(9_000)
    assert third is not None
    assert third.evidence == {"at_ms": 9_000}, "none since"
    other = refused.at(1_003, REFUSED)
    assert other is not None
    assert other.evidence == {"at_ms": 1_003, "not_recorded_since": 1}


def test_while_refusals_go_on_the_interval_doubles_up_to_a_minute() -> None:
    assert MAX_RECORD_INTERVAL_MS == 60_000
    refused = Refused()
    recorded = refused.recorded(*range(0, 400_000, 100))
    pauses = [after - before for before, after in pairwise(recorded)]
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000, 60_000]


def test_refusals_that_paused_are_news_again() -> None:
    for pause_ms, goes_on in ((1_999, True), (2_000, False)):
        refused = Refused()
        assert refused.recorded(0, 10, pause_ms) == [0, pause_ms]
        assert refused.recorded(pause_ms + 1_000) == ([] if goes_on else [pause_ms + 1_000])
    rare = Refused()
    assert rare.recorded(*range(0, 10_000, 1_500)) == list(range(0, 10_000, 1_500)), "none was left out between"


def test_after_the_clock_went_back_the_next_refusal_is_recorded() -> None:
    refused = Refused()
    assert refused.recorded(5_000, 4_999, 5_000) == [5_000, 4_999]
    assert Refused().recorded(5_000, 5_000) == [5_000]


def test_refusals_go_on_from_their_values() -> None:
    refused = Refused()
    refused.recorded(*range(0, 1_500, 100))
    refused.at(1_500, REFUSED)
    intervals, counts = refused.refusals.intervals(), refused.refusals.counts()
    assert intervals == ((FENCED, 1_000, 2_000), (REFUSED, 1_500, 1_000))
    assert counts == ((FENCED, 4),)
    again = Refused()
    again.at(77, DecisionKind.ISR_SHRUNK)
    again.refusals.restore(intervals, counts)
    assert (again.refusals.intervals(), again.refusals.counts()) == (intervals, counts)
    assert again.recorded(2_999) == []
    decision = again.at(3_000)
    assert decision is not None
    assert decision.evidence["not_recorded_since"] == 5
