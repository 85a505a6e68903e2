"""PLAIN on the server's side."""

import pytest

from kavka.security.plain import PlainServer, client_token
from kavka.security.sasl import AuthenticationFailed, FailureReason, Step
from kavka.security.secret import Secret

USERS = {"alice": Secret("wonderland"), "bob": Secret("päss\tword"), "empty": Secret("")}


def failure(token: bytes) -> AuthenticationFailed:
    with pytest.raises(AuthenticationFailed) as caught:
        PlainServer(USERS).step(token)
    return caught.value


@pytest.mark.parametrize(("user", "password"), [("alice", "wonderland"), ("bob", "päss\tword")])
def test_the_right_password_lets_in(user: str, password: str) -> None:
    assert PlainServer(USERS).step(client_token(user, password)) == Step(b"", user)
    assert PlainServer(USERS).step(user.encode() + client_token(user, password)) == Step(b"", user)


@pytest.mark.parametrize(
    ("token", "reason", "told"),
    [
        (b"", FailureReason.MALFORMED, "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", FailureReason.MALFORMED, "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0a\0b", FailureReason.MALFORMED, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0a\0b\0c\0d\0e", FailureReason.MALFORMED, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0x", FailureReason.MALFORMED, "Authentication failed: username not specified"),
        (b"\0alice\0", FailureReason.MALFORMED, "Authentication failed: password not specified"),
        (b"\0alice\0x", FailureReason.WRONG_PASSWORD, "Authentication failed: Invalid username or password"),
        (b"\0mallory\0x", FailureReason.UNKNOWN_USER, "Authentication failed: Invalid username or password"),
        (b"\0Alice\0wonderland", FailureReason.UNKNOWN_USER, "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0wonderland",
            FailureReason.OTHER_IDENTITY,
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"bob\0alice\0x", FailureReason.WRONG_PASSWORD, "Authentication failed: Invalid username or password"),
        (b"\0alice\0\xff\xfe", FailureReason.WRONG_PASSWORD, "Authentication failed: Invalid username or password"),
    ],
)
def test_all_else_is_refused_as_kafka_says_it(token: bytes, reason: FailureReason, told: str) -> None:
    failed = failure(token)
    assert (failed.reason, failed.told) == (reason, told)
    assert failed.user == (None if reason in (FailureReason.MALFORMED, FailureReason.UNKNOWN_USER) else "alice")


def test_an_empty_password_lets_nobody_in() -> None:
    assert failure(b"\0empty\0\0").reason is FailureReason.MALFORMED
    assert failure(b"\0empty\0x").reason is FailureReason.WRONG_PASSWORD


def test_passwords_show_nowhere() -> None:
    assert "wonderland" not in f"{USERS} {USERS['alice']}"
    assert USERS["alice"] == Secret("wonderland")
    assert USERS["alice"] != Secret("wonder")
    assert USERS["alice"] != "wonderland"
