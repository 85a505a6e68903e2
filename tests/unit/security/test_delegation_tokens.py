"""Delegation tokens: lifetimes, who may do what, passwords."""

from __future__ import annotations

import hashlib
import hmac as reference
from base64 import b64decode
from dataclasses import replace

import pytest

from kavka.errors import ErrorCode, RequestError
from kavka.security.delegation_tokens import (
    MAX_NAMES_CHARS,
    MAX_RENEWERS,
    Lifetimes,
    Token,
    TokenKey,
    Wish,
    ended,
    new_token,
    password,
    renewed,
)
from kavka.security.principals import Principal
from kavka.security.scram_credentials import ScramMechanism, salted
from kavka.security.scram_exchange import client_exchange
from kavka.security.secret import Secret

ALICE, BOB, CAROL, DAVE = (Principal("User", name) for name in ("alice", "bob", "carol", "dave"))
LIMITS = Lifetimes(max_ms=1000, renewal_ms=100)
NOW = 50_000
BY_KAFKA = (
    "aZqNkIqhR0OogxunHXPW8Q",
    "BgNU4U4WI3LwSDQ0jDQv8vXpDglXTryAr5r8l5oJiNaiF5GA0VZ1abHRuGl8izRys0jfj6XZh958lWOaRP/w1w==",
)
"""An id, and what Apache Kafka 3.9.2 made of it with the secret token-secret-1."""


def token(**changes: object) -> Token:
    made = Token("id", ALICE, CAROL, (BOB,), NOW, NOW + 100, NOW + 1000)
    return replace(made, **changes)  # type: ignore[arg-type]


def refusal(work: object) -> ErrorCode:
    with pytest.raises(RequestError) as refused:
        work()  # type: ignore[operator]
    return refused.value.code


@pytest.mark.parametrize(
    ("asked_ms", "expires_ms", "max_ms"),
    [(-1, 100, 1000), (0, 100, 1000), (1, 1, 1), (500, 100, 500), (2**63 - 1, 100, 1000)],
)
def test_a_token_lives_no_longer_than_the_broker_allows(asked_ms: int, expires_ms: int, max_ms: int) -> None:
    made = new_token("id", Wish(ALICE, CAROL, (BOB,), asked_ms), NOW, LIMITS)
    assert made == Token("id", ALICE, CAROL, (BOB,), NOW, NOW + expires_ms, NOW + max_ms)


def test_a_token_beyond_the_end_of_time_is_good_for_ever() -> None:
    """The protocol's times have 64 bits: the answer to who asked for it could not be written."""
    most = 2**63 - 1
    made = new_token("id", Wish(ALICE, CAROL, (BOB,), -1), NOW, Lifetimes(most, most))
    assert (made.expires_ms, made.max_ms) == (most, most)
    assert not made.is_expired(NOW)
    assert renewed(made, BOB, most, NOW, Lifetimes(most, most)).expires_ms == most


@pytest.mark.parametrize(
    ("period_ms", "after_ms"), [(-1, 150), (-5, 150), (0, 50), (7, 57), (5000, 1000), (2**63 - 1, 1000)]
)
def test_a_renewal_counts_from_now_and_ends_at_the_last_moment(period_ms: int, after_ms: int) -> None:
    for by in (ALICE, BOB):
        assert renewed(token(), by, period_ms, NOW + 50, LIMITS) == token(expires_ms=NOW + after_ms)


def test_a_token_can_be_shortened_and_prolonged_and_ended_at_once() -> None:
    assert ended(token(), BOB, 7, NOW + 50) == token(expires_ms=NOW + 57)
    assert ended(token(), ALICE, 2**62, NOW) == token(expires_ms=NOW + 1000)
    assert ended(token(), ALICE, -1, NOW) is None


def test_a_token_is_good_in_its_last_millisecond_and_not_after_it() -> None:
    assert not token().is_expired(NOW + 100)
    assert token().is_expired(NOW + 101)
    assert token(expires_ms=NOW + 5000, max_ms=NOW + 10).is_expired(NOW + 11)
    assert token(expires_ms=NOW + 5000, max_ms=NOW + 10).rest_ms(NOW) == 10


def test_a_token_whose_time_is_over_is_not_renewed_but_may_be_removed() -> None:
    assert refusal(lambda: renewed(token(), ALICE, -1, NOW + 101, LIMITS)) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert refusal(lambda: ended(token(), ALICE, 5, NOW + 101)) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert ended(token(), ALICE, -1, NOW + 101) is None


def test_nobody_but_the_owner_and_the_renewers_renews_or_ends_it_whether_it_is_over_or_not() -> None:
    for by in (CAROL, DAVE, Principal("Group", "alice"), Principal("User", "Alice")):
        for now_ms in (NOW, NOW + 5000):
            for work in (lambda: renewed(token(), by, -1, now_ms, LIMITS), lambda: ended(token(), by, -1, now_ms)):  # noqa: B023
                assert refusal(work) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_a_token_concerns_its_owner_its_renewers_and_who_asked_for_it() -> None:
    assert [each in token().concerned for each in (ALICE, BOB, CAROL, DAVE)] == [True, True, True, False]


def test_renewers_are_users_and_not_too_many() -> None:
    Wish(ALICE, ALICE, (BOB,) * MAX_RENEWERS, 0).check()
    wrong = Wish(ALICE, ALICE, (BOB, Principal("Group", "x")), 0)
    assert refusal(wrong.check) is ErrorCode.INVALID_PRINCIPAL_TYPE
    assert refusal(Wish(Principal("", "x"), ALICE, (), 0).check) is ErrorCode.INVALID_PRINCIPAL_TYPE
    assert refusal(Wish(ALICE, ALICE, (BOB,) * (MAX_RENEWERS + 1), 0).check) is ErrorCode.INVALID_REQUEST
    long_named = Principal("User", "b" * (MAX_NAMES_CHARS // 4))
    Wish(ALICE, ALICE, (long_named,) * 3, 0).check()
    assert refusal(Wish(ALICE, ALICE, (long_named,) * 4, 0).check) is ErrorCode.INVALID_REQUEST


def test_only_users_log_in_with_tokens() -> None:
    assert token().can_log_in
    assert not token(owner=Principal("Group", "alice")).can_log_in


def test_hmacs_are_those_of_kafka() -> None:
    key = TokenKey(Secret("token-secret-1"))
    assert password(key.hmac(BY_KAFKA[0])) == BY_KAFKA[1]


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_the_password_of_a_token_fits_its_credential(mechanism: ScramMechanism) -> None:
    key = TokenKey(Secret("token-secret-1"))
    credential = key.credential(mechanism, BY_KAFKA[0])
    made = salted(mechanism, BY_KAFKA[1], credential.salt, 4096)
    client_key = reference.digest(made, b"Client Key", mechanism.hash_name)
    assert hashlib.new(mechanism.hash_name, client_key).digest() == credential.stored_key
    assert (credential.iterations, credential.salt) == (4096, key.salt(mechanism, BY_KAFKA[0]))
    assert next(client_exchange(mechanism, BY_KAFKA[0], BY_KAFKA[1], "n"))


def test_a_salt_is_nobodys_hmac_and_shows_nothing_of_the_key() -> None:
    key = TokenKey(Secret("canary"))
    salts = {key.salt(mechanism, name) for mechanism in ScramMechanism for name in ("a", "b", "")}
    assert len(salts) == 6
    assert key.salt(ScramMechanism.SHA_256, "a") == TokenKey(Secret("canary")).salt(ScramMechanism.SHA_256, "a")
    assert key.salt(ScramMechanism.SHA_256, "a") != TokenKey(Secret("other")).salt(ScramMechanism.SHA_256, "a")
    assert "canary" not in repr(key)
    assert repr(b64decode(BY_KAFKA[1])) not in repr(key)
