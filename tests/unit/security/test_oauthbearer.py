"""OAUTHBEARER: what the client's messages lead to."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kavka.errors import ErrorCode
from kavka.security.oauthbearer import (
    MAX_MESSAGE_BYTES,
    MAX_TOKEN_CHARS,
    Bearer,
    FirstMessage,
    OAuthBearerServer,
    TokenRefused,
)
from kavka.security.sasl import AuthenticationFailed, FailureReason, Step
from kavka.security.sasl_server import Phase, SaslServer


def believer(token: str) -> Bearer:
    """Believes tokens that say who they name and for how long."""
    name, _, rest = token.partition(".")
    if not rest.isdecimal():
        raise TokenRefused(FailureReason.EXPIRED_TOKEN, name)
    return Bearer(name, int(rest))


def message(token: str, authzid: str = "", extensions: str = "") -> bytes:
    return f"n,{authzid and f'a={authzid}'},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


def test_a_token_says_who_the_client_is_and_for_how_long() -> None:
    assert OAuthBearerServer(believer).step(message("alice.500")) == Step(b"", "alice", 500)
    assert OAuthBearerServer(believer).step(message("alice.500", "alice")) == Step(b"", "alice", 500)


def test_nobody_acts_for_somebody_else() -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        OAuthBearerServer(believer).step(message("alice.500", "admin"))
    assert failed.value.reason is FailureReason.OTHER_IDENTITY
    assert failed.value.user == "alice"


@pytest.mark.parametrize("then", [b"\x01", b"", b"garbage", message("alice.500")])
def test_after_a_refused_token_the_exchange_ends_whatever_comes(then: bytes) -> None:
    told: list[FailureReason] = []
    server = OAuthBearerServer(believer, told.append)
    assert server.step(message("alice.never")) == Step(b'{"status":"invalid_token"}')
    assert told == [FailureReason.EXPIRED_TOKEN]
    assert server.labour(then) is None
    with pytest.raises(AuthenticationFailed) as failed:
        server.step(then)
    assert (failed.value.reason, failed.value.told) == (FailureReason.EXPIRED_TOKEN, '{"status":"invalid_token"}')
    assert told == [FailureReason.EXPIRED_TOKEN]


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer t.1\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer t.1\x01\x01",
        b"n,,\x01auth=Bearer t.1\x01",
        b"n,,\x01auth=Bearer t.1\x01\x01\x01",
        b"n,,\x01auth=Bearer t.1",
        b"n,,auth=Bearer t.1\x01\x01",
        b"n,a=,\x01auth=Bearer t.1\x01\x01",
        b"n,a=b=c,\x01auth=Bearer t.1\x01\x01",
        b"n,,\x01auth=Basic t.1\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer t.1 \x01\x01",
        b"n,,\x01auth=Bearer =\x01\x01",
        b"n,,\x01AUTH=Bearer t.1\x01\x01",
        b"n,,\x01traceId=1\x01\x01",
        b"n,,\x01auth=Bearer t.1\x01trace-id=1\x01\x01",
        b"n,,\x01auth=Bearer t.1\x01trace=\x01\x01",
        b"n,,\x01auth=Bearer t.1\x01=x\x01\x01",
        b"n,,\x01auth=Bearer t.1\x01trace=\xc3\xa4\x01\x01",
        b"n,,\x01auth=Bearer t.1\x00\x01\x01",
        b"\xff" * 50,
    ],
)
def test_other_messages_are_malformed(first: bytes) -> None:
    server = OAuthBearerServer(believer)
    assert server.labour(first) is None
    with pytest.raises(AuthenticationFailed) as failed:
        server.step(first)
    assert (failed.value.reason, failed.value.told) == (FailureReason.MALFORMED, None)


def test_extensions_have_a_form_and_no_meaning() -> None:
    found = FirstMessage.parse(message("t.1", extensions="traceId=1 2\t~\x01x==\x01x=last\x01"))
    assert found.extensions == {"traceId": "1 2\t~", "x": "last"}
    assert "t.1" not in repr(found)
    assert "last" not in repr(found)
    scheme = FirstMessage.parse(b"n,,\x01a=b\x01auth=bEaReR   t.1==\x01\x01")
    assert scheme.token == "t.1=="


def test_a_token_has_a_bound() -> None:
    asked: list[str] = []

    def verify(token: str) -> Bearer:
        asked.append(token)
        return Bearer("alice", 1)

    assert OAuthBearerServer(verify).step(message("a" * MAX_TOKEN_CHARS)).user == "alice"
    server = OAuthBearerServer(verify)
    assert server.step(message("a" * (MAX_TOKEN_CHARS + 1))).user is None
    assert len(asked) == 1
    with pytest.raises(AuthenticationFailed, match="malformed token"):
        server.step(b"\x01")


def test_a_message_has_a_bound() -> None:
    room = MAX_MESSAGE_BYTES - len(message("alice.5", extensions="x=\x01"))
    good = message("alice.5", extensions=f"x={'y' * room}\x01")
    assert OAuthBearerServer(believer).step(good).user == "alice"
    with pytest.raises(AuthenticationFailed, match="malformed message"):
        OAuthBearerServer(believer).step(message("alice.5", extensions=f"x={'y' * (room + 1)}\x01"))


def test_a_token_is_verified_once_where_it_is_verified_beside() -> None:
    asked: list[str] = []

    def verify(token: str) -> Bearer:
        asked.append(token)
        return believer(token)

    server = OAuthBearerServer(verify)
    labour = server.labour(message("alice.5"))
    assert labour is not None
    assert asked == []
    labour()
    assert server.step(message("alice.5")) == Step(b"", "alice", 5)
    assert asked == ["alice.5"]


def opened(token: str, max_ms: int = 0) -> tuple[SaslServer, int]:
    server = SaslServer({"OAUTHBEARER": lambda: OAuthBearerServer(believer)}, lambda mechanism: max_ms)
    assert server.on_handshake("OAUTHBEARER", 1, 0).error is ErrorCode.NONE
    reaction = server.on_token(message(token), 10)
    assert server.phase is Phase.OPEN
    return server, reaction.lifetime_ms


@pytest.mark.parametrize(
    ("rest_ms", "max_ms", "lifetime_ms"),
    [(5_000, 0, 5_000), (5_000, 3_000, 3_000), (5_000, 9_000, 5_000), (0, 9_000, 0)],
)
def test_a_session_ends_with_the_token_or_sooner(rest_ms: int, max_ms: int, lifetime_ms: int) -> None:
    server, told_ms = opened(f"alice.{rest_ms}", max_ms)
    assert told_ms == lifetime_ms
    assert server.is_expired(10 + lifetime_ms) == (rest_ms == 0)
    assert server.is_expired(11 + lifetime_ms)


def test_a_client_stays_who_it_is_and_its_session_begins_anew() -> None:
    server, _ = opened("alice.5000")
    server.on_handshake("OAUTHBEARER", 1, 4_000)
    again = server.on_token(message("alice.7000"), 4_000)
    assert again.lifetime_ms == 7_000
    assert not server.is_expired(11_000)
    server.on_handshake("OAUTHBEARER", 1, 8_000)
    other = server.on_token(message("bob.7000"), 8_000)
    assert other.error is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert other.failure is not None
    assert other.failure.reason is FailureReason.PRINCIPAL_CHANGED
    assert (server.phase, server.user) == (Phase.ENDED, "alice")


def test_a_refused_token_is_answered_and_then_told_as_a_failure() -> None:
    server = SaslServer({"OAUTHBEARER": lambda: OAuthBearerServer(believer)}, lambda mechanism: 0)
    server.on_handshake("OAUTHBEARER", 1, 0)
    refused = server.on_token(message("alice.never"), 0)
    assert (refused.error, refused.token, refused.failure) == (ErrorCode.NONE, b'{"status":"invalid_token"}', None)
    assert server.phase is Phase.EXCHANGE
    ended = server.on_token(b"\x01", 0)
    assert (ended.error, ended.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, '{"status":"invalid_token"}')
    assert server.phase is Phase.ENDED


def test_a_broker_without_tokens_loads_nothing_of_what_verifies_them() -> None:
    """The base installation has neither of the two packages."""
    program = (
        "import sys, kavka.runtime.server, kavka.broker.assembly.authentication, kavka.config.sasl\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('joserfc', 'cryptography')"
        " or name in ('kavka.security.json_web_tokens', 'kavka.runtime.http.documents')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
