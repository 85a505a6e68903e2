"""Rules of connections break where they must: R30 and R31."""

from __future__ import annotations

import pytest

from kavka.security.connection_quota import ConnectionQuota
from kavka.simulator.clients.floods import Flood, Flooder
from kavka.simulator.rules.invariants import Violation
from kavka.simulator.scenarios.floods import PLACES, SETTINGS
from kavka.simulator.scenarios.play import A, Play

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def flooded(kind: Flood = Flood.SILENT, **settings: str) -> Play:
    play = Play(settings={**SETTINGS, **settings}, secured=True)
    Flooder(play.world.clients, play.world.brokers[A].node, user="consumer", kind=kind, count=2 * PLACES)
    return play


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("max.connections", "31 connections"),
        ("listener.name.clients.max.connections", "9 connections on CLIENTS"),
        ("max.connections.per.ip", "9 connections from consumer"),
    ],
)
def test_more_connections_than_may_be_break_r30(setting: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play = flooded(**({} if setting == "max.connections" else {setting: "8"}))
    monkeypatch.setattr(ConnectionQuota, "has_room", lambda *_: True)
    monkeypatch.setattr(ConnectionQuota, "admits", lambda *_: True)
    monkeypatch.setattr(ConnectionQuota, "surplus", 0)
    with pytest.raises(Violation, match=f"R30.*{what}"):
        play.run_for(5.0)


def test_a_broker_that_waits_to_be_accepted_breaks_r31(monkeypatch: pytest.MonkeyPatch) -> None:
    play = flooded(Flood.IN)
    monkeypatch.setattr(ConnectionQuota, "is_protected", lambda *_: False)
    play.run_for(1.0)
    play.kill(2)
    play.world.brokers[2].start()
    with pytest.raises(Violation, match=r"R31.*BROKERS, which brokers have for themselves"):
        play.run_for(10.0)


def test_who_waits_for_places_of_those_who_do_not_log_in_breaks_r31(monkeypatch: pytest.MonkeyPatch) -> None:
    play = flooded()
    monkeypatch.setattr("kavka.broker.acceptor.Admission.close_unknown", lambda *_: None)
    with pytest.raises(Violation, match=r"R31.*who do not log in"):
        play.run_for(10.0)
