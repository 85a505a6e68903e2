"""Rules of sessions break where they must: R27 to R29, R33."""

from __future__ import annotations

import pytest

from kavka.broker.authentication.delegation_token_logins import TokenLogins
from kavka.client.delegation_token_admin import TokenAdmin
from kavka.simulator.host.wire import Exchange
from kavka.simulator.rules.invariants import Violation
from kavka.simulator.rules.session_rules import SessionRules
from kavka.simulator.scenarios.play import Play
from kavka.simulator.scenarios.sessions import SETTLED_S, _ask, _token, _with

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


def test_a_good_token_that_is_refused_breaks_r33(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(secured=True)
    token = _token(play, "producer", 60.0)
    play.run_for(SETTLED_S)
    play.log_in("producer", sasl=_with(token), once=True)
    play.write_ok()
    monkeypatch.setattr(TokenLogins, "_rest_ms", lambda *_: -1)
    play.log_in("producer", sasl=_with(token), once=True)
    with pytest.raises(Violation, match=r"R33.*which is good for"):
        play.fetch(0)


def test_who_goes_by_an_end_that_a_token_had_before_breaks_r27(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(secured=True)
    token = _token(play, "admin", 60.0)
    _ask(play, lambda cluster: TokenAdmin(cluster).expire(token, 20_000))
    play.run_for(SETTLED_S)
    monkeypatch.setattr(TokenLogins, "_rest_ms", lambda *_: 40_000)
    play.log_in("admin", sasl=_with(token), once=True)
    play.write_ok()
    play.run_for(10.0)
    with pytest.raises(Violation, match="R27"):
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
