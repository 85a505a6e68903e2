"""Rules of sessions break where they must: R27 to R29."""

from __future__ import annotations

import pytest

from kavka.simulator.host.wire import Exchange
from kavka.simulator.rules.invariants import Violation
from kavka.simulator.rules.session_rules import SessionRules
from kavka.simulator.scenarios.play import Play
from kavka.simulator.scenarios.sessions import SETTLED_S

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_a_request_after_the_end_of_its_session_breaks_r27(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(settings={"connections.max.reauth.ms": "2000"}, secured=True)
    play.log_in("producer", once=True)
    play.write_ok()
    monkeypatch.setattr("kavka.security.sasl_server.SaslServer.is_expired", lambda *_: False)
    play.run_for(2.1)
    with pytest.raises(Violation, match="R27"):
        play.fetch(0)


def test_a_request_without_a_login_breaks_r27() -> None:
    play = Play(secured=True)
    play.log_in("producer", once=True)
    play.write_ok()
    play.world.sessions._sessions.clear()
    with pytest.raises(Violation, match=r"R27.*not logged in"):
        play.fetch(0)


def test_a_login_of_who_is_not_stored_breaks_r28() -> None:
    play = Play(secured=True)
    play.run_for(SETTLED_S)
    tree = play.world.zookeeper.embedded.database.tree
    tree._nodes.pop("/config/users/producer")
    play.log_in("producer")
    with pytest.raises(Violation, match="R28"):
        play.fetch(0)


def test_a_client_that_is_heard_too_early_breaks_r29(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(secured=True)
    play.log_in("producer", once=True)
    play.write_ok()
    usual = SessionRules.on_answer

    def tell_to_wait(rules: SessionRules, exchange: Exchange) -> None:
        exchange.answer.throttle_time_ms = 1_000
        usual(rules, exchange)

    monkeypatch.setattr(SessionRules, "on_answer", tell_to_wait)
    with pytest.raises(Violation, match="R29"):
        play.write(2)
