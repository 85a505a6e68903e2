"""The automaton of a connection that must authenticate: every request in every state."""

import itertools

import pytest

from kavka.errors import ErrorCode
from kavka.security.plain import PlainServer, client_token
from kavka.security.sasl import FailureReason
from kavka.security.sasl_server import Phase, Reaction, SaslServer
from kavka.security.scram_credentials import ScramMechanism, Shapes, stand_in
from kavka.security.scram_exchange import Found as ScramFound
from kavka.security.scram_exchange import ScramServer
from kavka.security.secret import Secret

USERS = {"alice": Secret("a"), "bob": Secret("b")}
ALICE, BOB, WRONG = client_token("alice", "a"), client_token("bob", "b"), client_token("alice", "x")


def new(lifetime_ms: int = 0) -> SaslServer:
    nobody = stand_in(ScramMechanism.SHA_256, "x", b"s", Shapes())
    return SaslServer(
        {
            "PLAIN": lambda: PlainServer(USERS),
            "SCRAM-SHA-256": lambda: ScramServer(ScramMechanism.SHA_256, lambda name: ScramFound(nobody), "nonce"),
        },
        lambda mechanism: lifetime_ms,
    )


def opened(lifetime_ms: int = 0) -> SaslServer:
    server = new(lifetime_ms)
    server.on_handshake("PLAIN", 1, 0)
    server.on_token(ALICE, 0)
    return server


def test_a_client_authenticates() -> None:
    server = new()
    assert server.on_api_versions(is_good=True) == Reaction()
    assert server.on_handshake("PLAIN", 1, 0) == Reaction()
    assert (server.phase, server.user) == (Phase.EXCHANGE, None)
    assert server.on_token(ALICE, 0) == Reaction()
    assert (server.phase, server.user, server.mechanism) == (Phase.OPEN, "alice", "PLAIN")
    assert not server.is_expired(10**12)


def test_a_refused_version_of_api_versions_may_be_followed_by_another() -> None:
    server = new()
    assert server.on_api_versions(is_good=False).failure is None
    assert server.on_api_versions(is_good=True).failure is None
    second = server.on_api_versions(is_good=True)
    assert second.failure is not None
    assert (second.answers, server.phase) == (False, Phase.ENDED)


def test_an_unknown_mechanism_is_told_with_the_known_ones() -> None:
    server = new()
    reaction = server.on_handshake("GSSAPI", 1, 0)
    assert reaction.error is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert reaction.failure is not None
    assert (server.mechanisms, server.phase) == (["PLAIN", "SCRAM-SHA-256"], Phase.ENDED)


def test_a_token_before_the_handshake_ends_the_connection_without_an_answer() -> None:
    for prepare in (lambda server: None, lambda server: server.on_api_versions(is_good=True)):
        server = new()
        prepare(server)
        reaction = server.on_token(ALICE, 0)
        assert (reaction.answers, server.phase, server.user) == (False, Phase.ENDED, None)


def test_any_other_request_before_the_exchange_ends_the_connection_without_an_answer() -> None:
    server = new()
    assert not server.on_other().answers
    assert server.phase is Phase.ENDED


@pytest.mark.parametrize("what", ["versions", "handshake", "other"])
def test_any_other_request_in_the_exchange_is_34_and_the_end(what: str) -> None:
    server = new()
    server.on_handshake("PLAIN", 1, 0)
    reaction = {
        "versions": lambda: server.on_api_versions(is_good=True),
        "handshake": lambda: server.on_handshake("PLAIN", 1, 0),
        "other": server.on_other,
    }[what]()
    assert (reaction.error, reaction.answers) == (ErrorCode.ILLEGAL_SASL_STATE, True)
    assert reaction.failure is not None
    assert reaction.failure.reason is FailureReason.OUT_OF_ORDER
    assert server.phase is Phase.ENDED


def test_a_wrong_password_is_58_with_kafkas_sentence() -> None:
    server = new()
    server.on_handshake("PLAIN", 1, 0)
    reaction = server.on_token(WRONG, 0)
    assert (reaction.error, reaction.message, reaction.answers) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Authentication failed: Invalid username or password",
        True,
    )
    assert (server.phase, server.user) == (Phase.ENDED, None)
    assert server.on_token(ALICE, 0).failure is not None
    assert server.on_handshake("PLAIN", 1, 0).failure is not None
    assert server.phase is Phase.ENDED


def test_a_failure_that_must_not_be_told_has_kafkas_general_sentence() -> None:
    server = new()
    server.on_handshake("SCRAM-SHA-256", 1, 0)
    assert server.on_token(b"garbage", 0).message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


def test_bare_tokens_have_no_answer_that_could_tell_of_a_failure() -> None:
    server = new()
    server.on_handshake("PLAIN", 0, 0)
    assert not server.has_headers
    assert not server.on_token(WRONG, 0).answers


def test_the_session_ends_when_it_was_told_to() -> None:
    server = new(5000)
    server.on_handshake("PLAIN", 1, 100)
    assert server.on_token(ALICE, 200).lifetime_ms == 5000
    assert not server.is_expired(5200)
    assert server.is_expired(5201)


def test_without_an_end_of_the_session_there_is_no_re_authentication() -> None:
    server = opened()
    assert server.on_handshake("PLAIN", 1, 10_000) == Reaction(ErrorCode.ILLEGAL_SASL_STATE)
    assert server.on_token(ALICE, 0) == Reaction(
        ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
    )
    assert server.phase is Phase.OPEN


def test_re_authentication_prolongs_the_session() -> None:
    server = opened(5000)
    assert server.on_handshake("PLAIN", 1, 6000) == Reaction()
    assert server.phase is Phase.EXCHANGE
    assert server.on_token(ALICE, 6100).lifetime_ms == 5000
    assert (server.phase, server.user, server.is_again, server.began_ms) == (Phase.OPEN, "alice", True, 6000)
    assert not server.is_expired(11_100)
    assert server.is_expired(11_101)


def test_re_authentication_within_a_second_is_34_and_changes_nothing() -> None:
    server = opened(5000)
    server.on_handshake("PLAIN", 1, 100)
    server.on_token(ALICE, 100)
    assert server.on_handshake("PLAIN", 1, 1099).error is ErrorCode.ILLEGAL_SASL_STATE
    assert server.phase is Phase.OPEN
    assert server.on_handshake("PLAIN", 1, 1100).error is ErrorCode.NONE


def test_nobody_becomes_somebody_else() -> None:
    server = opened(5000)
    server.on_handshake("PLAIN", 1, 2000)
    reaction = server.on_token(BOB, 2000)
    assert (reaction.error, reaction.message) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Cannot change principals during re-authentication from User.alice: User.bob",
    )
    assert (server.phase, server.user) == (Phase.ENDED, "alice")


def test_another_mechanism_is_accepted_and_ends_at_the_next_message() -> None:
    server = opened(5000)
    assert server.on_handshake("SCRAM-SHA-256", 1, 2000) == Reaction()
    reaction = server.on_token(b"n,,n=alice,r=x", 2000)
    assert reaction.failure is not None
    assert (reaction.answers, reaction.failure.reason) == (False, FailureReason.MECHANISM_CHANGED)


def test_a_request_while_re_authenticating_is_34_and_the_end() -> None:
    server = opened(5000)
    server.on_handshake("PLAIN", 1, 2000)
    assert (server.on_other().error, server.phase) == (ErrorCode.ILLEGAL_SASL_STATE, Phase.ENDED)


def test_no_sequence_of_requests_opens_a_connection_but_the_right_one() -> None:
    """All sequences of up to five requests: only a handshake and then the right password open it, for that user."""
    requests = {
        "versions": lambda server: server.on_api_versions(is_good=True),
        "old versions": lambda server: server.on_api_versions(is_good=False),
        "handshake": lambda server: server.on_handshake("PLAIN", 1, 0),
        "scram": lambda server: server.on_handshake("SCRAM-SHA-256", 1, 0),
        "alice": lambda server: server.on_token(ALICE, 0),
        "wrong": lambda server: server.on_token(WRONG, 0),
        "other": lambda server: server.on_other(),
    }
    for names in itertools.product(requests, repeat=5):
        server = new()
        for at, name in enumerate(names):
            before = server.phase
            requests[name](server)
            if server.phase is Phase.OPEN and before is not Phase.OPEN:
                assert (name, names[at - 1]) == ("alice", "handshake")
            if before is Phase.ENDED:
                assert server.phase is Phase.ENDED
        assert (server.user is None) == (server.phase is not Phase.OPEN) or server.user == "alice"
