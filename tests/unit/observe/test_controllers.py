"""Who the controller is, and how often another one was elected: as Metadata, a quorum or the brokers' records tell."""

from __future__ import annotations

import pytest

from kavka.decisions import Decision, DecisionKind, RecordedDecision
from kavka.model import BrokerId
from kavka.observe.controllers import HOUR_MS, MAX_ELECTIONS, Controllers
from kavka.observe.decision_tail import DecisionTail
from kavka.observe.snapshot import QuorumView, Reading

NOW_MS = 10 * HOUR_MS


def nothing_recorded() -> DecisionTail:
    return DecisionTail(lambda: NOW_MS)


def recorded(*at_ms: int) -> DecisionTail:
    tail = DecisionTail(lambda: NOW_MS)
    tail.reading = Reading(NOW_MS, 1, "")
    for number, each in enumerate(at_ms):
        decision = Decision(DecisionKind.CONTROLLER_ELECTED, each, BrokerId(1), "there was no controller")
        tail.take(RecordedDecision(str(number), decision))
    return tail


def quorum(epoch: int, leader: int = 1) -> QuorumView:
    return QuorumView(leader, epoch, (1, 2, 3))


def elections(controllers: Controllers, tail: DecisionTail | None = None, now_ms: int = NOW_MS) -> int:
    return controllers.view(tail or nothing_recorded(), now_ms).elections


def test_another_id_is_an_election_and_an_empty_seat_is_none() -> None:
    controllers = Controllers()
    for at_ms, controller in enumerate((1, 1, -1, 1, -1, 2, 2, 3)):
        controllers.take(controller, None, NOW_MS + at_ms)
    assert elections(controllers) == 2


def test_the_epoch_of_a_quorum_tells_elections_between_two_looks() -> None:
    controllers = Controllers()
    controllers.take(1, quorum(7), NOW_MS)
    controllers.take(1, quorum(7), NOW_MS + 1)
    assert elections(controllers) == 0
    controllers.take(1, quorum(10), NOW_MS + 2)
    assert elections(controllers) == 3


def test_what_is_seen_and_recorded_counts_once() -> None:
    controllers = Controllers()
    controllers.take(1, None, NOW_MS - 9)
    controllers.take(2, None, NOW_MS - 5)
    found = controllers.view(recorded(NOW_MS - 7, NOW_MS - 6), NOW_MS)
    assert (found.elections, found.is_recorded) == (2, True)


def test_after_an_hour_an_election_is_forgotten() -> None:
    controllers = Controllers()
    controllers.take(1, None, NOW_MS)
    controllers.take(2, None, NOW_MS + 1)
    assert elections(controllers, now_ms=NOW_MS + HOUR_MS) == 1
    assert elections(controllers, now_ms=NOW_MS + HOUR_MS + 2) == 0
    assert elections(Controllers(), recorded(NOW_MS - HOUR_MS - 1)) == 0


@pytest.mark.parametrize("epochs", [(0, 10**9), range(0, 5_000, 7)])
def test_a_bounded_number_is_remembered(epochs: tuple[int, ...]) -> None:
    controllers = Controllers()
    for epoch in epochs:
        controllers.take(1, quorum(epoch), NOW_MS)
    assert elections(controllers) == MAX_ELECTIONS
