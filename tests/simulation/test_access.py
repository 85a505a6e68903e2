"""Rules of access control break where they must: R23 and R24; and brokers without an authorizer are not looked at."""

from __future__ import annotations

import pytest

from kavka.security.acls import Entry, Operation, Pattern, Permission, ResourceType
from kavka.simulator.rules.invariants import Violation
from kavka.simulator.scenarios.access import SETTINGS
from kavka.simulator.scenarios.play import A, Play

TOPIC = Pattern(ResourceType.TOPIC, "orders")
READ_ONLY = Entry("User:ANONYMOUS", "*", Operation.READ, Permission.ALLOW)


def test_a_broker_that_keeps_other_lists_than_zookeeper_breaks_r24() -> None:
    play = Play(settings=SETTINGS)
    broker = play.world.brokers[A]
    play.world.observer.access.require_same_lists(broker)
    assert broker.broker is not None
    assert broker.broker.authorization is not None
    acls = broker.broker.authorization.acls
    assert acls is not None
    acls.index = acls.index.with_lists({TOPIC: {READ_ONLY}})
    with pytest.raises(Violation, match="R24"):
        play.world.observer.access.require_same_lists(broker)


def test_a_write_without_a_right_breaks_r23(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(settings=SETTINGS)
    broker = play.world.brokers[A].broker
    assert broker is not None
    authorization = broker.authorization
    assert authorization is not None
    assert authorization.acls is not None
    authorization.acls.index = authorization.acls.index.with_lists({TOPIC: {READ_ONLY}})
    monkeypatch.setattr(authorization, "is_allowed", lambda *_: True)
    with pytest.raises(Violation, match="R23"):
        play.write_ok()


def test_what_is_refused_though_it_was_allowed_breaks_r23(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(settings=SETTINGS)
    broker = play.world.brokers[A].broker
    assert broker is not None
    monkeypatch.setattr(broker.authorization, "is_allowed", lambda *_: False)
    with pytest.raises(Violation, match="R23"):
        play.fetch(0)


def test_brokers_without_an_authorizer_are_not_looked_at() -> None:
    play = Play()
    play.write_ok()
    play.world.observer.access.require_same_lists(play.world.brokers[A])
