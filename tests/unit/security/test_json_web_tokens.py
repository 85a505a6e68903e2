"""JSON web tokens: which are believed, and why the others are not."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from kavka.security.json_web_tokens import (
    ALGORITHMS,
    MAX_KEYS,
    KeySet,
    MalformedKeySet,
    TokenRules,
    believe,
    read_key_set,
    verify,
)
from kavka.security.oauthbearer import Bearer, TokenRefused
from tests.kit.token_issuer import AUDIENCE, ISSUER, claims, encoded, key_set, private_key, public_key, token

NOW_S = 1_800_000_000
RULES = TokenRules(ISSUER, frozenset({AUDIENCE, "other"}))
KEYS = read_key_set(key_set("RS256-1", "RS256-2", "ES256-1", "ES384-1", "ES512-1", "EdDSA-1"))
KEY_OF = {"RS": "RS256-1", "PS": "RS256-1", "ES256": "ES256-1", "ES384": "ES384-1", "ES512": "ES512-1", "Ed": "EdDSA-1"}


def made(content: Mapping[str, Any] | bytes | None = None, **how: Any) -> str:
    return token(claims(NOW_S) if content is None else content, **how)


def found(text: str, *, keys: KeySet = KEYS, rules: TokenRules = RULES) -> Bearer | str:
    """Whom a token names, or why it is refused."""
    try:
        return verify(text, keys, rules, NOW_S * 1000)
    except TokenRefused as refused:
        return refused.reason.name


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_signed_with_each_algorithm_is_believed(algorithm: str) -> None:
    kid = KEY_OF.get(algorithm) or KEY_OF[algorithm[:2]]
    good = made(kid=kid, algorithm=algorithm)
    assert found(good) == Bearer("alice", 600_000)
    head, body, sign = good.split(".")
    other = encoded(claims(NOW_S, sub="admin"))
    assert found(f"{head}.{other}.{sign}") == "WRONG_SIGNATURE"
    assert found(f"{head}.{body}.") == "WRONG_SIGNATURE"
    assert found(f"{head}.{body}.{sign[:-8]}") == "WRONG_SIGNATURE"
    assert found(f"{head}.{body}.{sign}{sign}") == "WRONG_SIGNATURE"


def test_the_ed448_curve_is_believed_as_well() -> None:
    head, body = encoded({"alg": "EdDSA", "kid": "Ed448-1"}), encoded(claims(NOW_S))
    sign = private_key("Ed448-1").sign(f"{head}.{body}".encode())
    assert found(f"{head}.{body}.{encoded(sign)}", keys=read_key_set(key_set("Ed448-1"))) == Bearer("alice", 600_000)


def test_a_token_that_is_not_signed_is_refused_however_it_says_so() -> None:
    body = encoded(claims(NOW_S))
    for none in ("none", "None", "NONE", "", None, 7, ["RS256"], {"x": 1}):
        for sign in ("", "AAAA"):
            assert found(f"{encoded({'alg': none, 'kid': 'RS256-1'})}.{body}.{sign}") == "REFUSED_ALGORITHM"
    assert found(f"{encoded({'kid': 'RS256-1'})}.{body}.") == "REFUSED_ALGORITHM"


@pytest.mark.parametrize(("algorithm", "digest"), [("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")])
def test_a_public_key_is_no_shared_secret(algorithm: str, digest: str) -> None:
    """The classic attack: the attacker signs with what everybody may know."""
    public = private_key("RS256-1").public_key()
    encodings = [
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
        public_key("RS256-1")["n"].encode(),
        b"",
    ]
    head, body = encoded({"alg": algorithm, "kid": "RS256-1"}), encoded(claims(NOW_S))
    for secret in encodings:
        sign = hmac.new(secret, f"{head}.{body}".encode(), digest).digest()
        assert found(f"{head}.{body}.{encoded(sign)}") == "REFUSED_ALGORITHM"
        # Nor where the set has a key for it.
        keys = read_key_set(json.dumps({"keys": [{"kty": "oct", "kid": "RS256-1", "k": encoded(secret)}]}).encode())
        assert keys.keys == ()


@pytest.mark.parametrize(
    "header",
    [
        {"jku": "https://evil.example/keys"},
        {"jwk": public_key("RS256-evil")},
        {"x5u": "https://evil.example/cert"},
        {"crit": ["exp"]},
        {"crit": []},
        {"b64": False, "crit": ["b64"]},
    ],
)
def test_a_header_that_brings_a_key_or_a_demand_is_refused(header: dict[str, Any]) -> None:
    assert found(made(header=header)) == "REFUSED_HEADER"
    assert found(made(kid="RS256-evil", header={"kid": "RS256-1", **header})) == "REFUSED_HEADER"


def test_the_key_is_the_one_that_the_token_names_and_of_its_kind() -> None:
    assert found(made(kid="RS256-2")) == Bearer("alice", 600_000)
    assert found(made(header={"kid": "RS256-2"})) == "WRONG_SIGNATURE"
    assert found(made(kid="RS256-unknown")) == "UNKNOWN_KEY"
    assert found(made(header={"kid": "ES256-1"})) == "UNKNOWN_KEY"
    assert found(made(header={"kid": ""})) == "UNKNOWN_KEY"
    assert found(made(header={"kid": 7})) == "MALFORMED_TOKEN"
    assert found(made(), keys=KeySet()) == "NO_KEYS"
    # Without a name only where there is no choice.
    assert found(made(header={"kid": None})) == "UNKNOWN_KEY"
    assert found(made(header={"kid": None}), keys=read_key_set(key_set("RS256-1"))) == Bearer("alice", 600_000)
    # A curve of its own for each size.
    assert found(made(kid="ES384-1", algorithm="ES384", header={"alg": "ES256"})) == "UNKNOWN_KEY"


def test_a_key_is_for_what_its_set_says() -> None:
    def with_key(**more: Any) -> Bearer | str:
        return found(made(), keys=read_key_set(json.dumps({"keys": [public_key("RS256-1", **more)]}).encode()))

    for good in ({}, {"use": "sig"}, {"alg": "RS256"}, {"key_ops": ["verify"]}, {"x5c": ["AAAA"], "other": 1}):
        assert with_key(**good) == Bearer("alice", 600_000)
    for other in ({"use": "enc"}, {"key_ops": ["sign"]}, {"key_ops": "verify"}, {"kty": "oct"}, {"alg": 7}, {"n": 7}):
        assert with_key(**other) == "NO_KEYS"
    for other in ({"alg": "RS512"}, {"alg": "HS256"}, {"kid": "x"}):
        assert with_key(**other) == "UNKNOWN_KEY"


@pytest.mark.filterwarnings("ignore")  # The library warns of short keys, and takes them.
def test_a_set_may_have_keys_that_nobody_can_use() -> None:
    odd = [7, None, {}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, {"kty": "RSA", "n": "AQ", "e": "AQAB"}]
    odd += [
        public_key("RS256-bits1024"),
        {"kty": "OKP", "crv": "X25519", "x": "AAAA"},
        {"kty": "RSA", "n": "!", "e": "!"},
    ]
    odd += [{"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}, {"kty": ["RSA"]}, {"kty": "PQ"}]
    keys = read_key_set(json.dumps({"keys": [*odd, public_key("RS256-1")]}).encode())
    assert [key.kid for key in keys.keys] == ["RS256-1"]
    assert public_key("RS256-1")["n"] not in repr(keys.keys)


def test_private_parts_of_a_set_are_not_read() -> None:
    keys = read_key_set(json.dumps({"keys": [public_key("RS256-1", d="AAAA", p="AAAA", q="AAAA")]}).encode())
    assert found(made(), keys=keys) == Bearer("alice", 600_000)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": [], "keys": []}',
        b"\xff",
        b"<html>",
        b'{"keys": NaN}',
        b"[" * 10_000,
    ],
)
def test_a_document_that_is_no_set_is_refused(document: bytes) -> None:
    with pytest.raises(MalformedKeySet):
        read_key_set(document)


def test_a_set_has_a_bound() -> None:
    with pytest.raises(MalformedKeySet, match="expected at most"):
        read_key_set(json.dumps({"keys": [{}] * (MAX_KEYS + 1)}).encode())


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"iss": None}, "WRONG_ISSUER"),
        ({"iss": "https://evil.example"}, "WRONG_ISSUER"),
        ({"iss": ISSUER + "/"}, "WRONG_ISSUER"),
        ({"iss": [ISSUER]}, "WRONG_ISSUER"),
        ({"aud": None}, "WRONG_AUDIENCE"),
        ({"aud": "kafka"}, "WRONG_AUDIENCE"),
        ({"aud": []}, "WRONG_AUDIENCE"),
        ({"aud": ["x", AUDIENCE.upper()]}, "WRONG_AUDIENCE"),
        ({"aud": {AUDIENCE: 1}}, "WRONG_CLAIM"),
        ({"aud": [AUDIENCE, 7]}, "WRONG_CLAIM"),
        ({"exp": None}, "WRONG_CLAIM"),
        ({"exp": str(NOW_S + 600)}, "WRONG_CLAIM"),
        ({"exp": True}, "WRONG_CLAIM"),
        ({"exp": -1}, "WRONG_CLAIM"),
        ({"exp": 1e300}, "WRONG_CLAIM"),
        ({"exp": NOW_S - 30}, "EXPIRED_TOKEN"),
        ({"exp": 0}, "EXPIRED_TOKEN"),
        ({"iat": None}, "WRONG_CLAIM"),
        ({"iat": "now"}, "WRONG_CLAIM"),
        ({"iat": NOW_S + 31}, "EARLY_TOKEN"),
        ({"iat": NOW_S + 700}, "WRONG_CLAIM"),
        ({"nbf": NOW_S + 31}, "EARLY_TOKEN"),
        ({"nbf": NOW_S + 700}, "WRONG_CLAIM"),
        ({"nbf": "now"}, "WRONG_CLAIM"),
        ({"sub": None}, "WRONG_CLAIM"),
        ({"sub": ""}, "WRONG_CLAIM"),
        ({"sub": " \t"}, "WRONG_CLAIM"),
        ({"sub": 7}, "WRONG_CLAIM"),
        ({"sub": ["alice"]}, "WRONG_CLAIM"),
        ({"sub": "a\nb"}, "WRONG_CLAIM"),
        ({"sub": "\ud800"}, "WRONG_CLAIM"),
        ({"sub": "a" * 1_025}, "WRONG_CLAIM"),
        ({"scope": ""}, "WRONG_CLAIM"),
        ({"scope": ["a", "a"]}, "WRONG_CLAIM"),
        ({"scope": ["a", 7]}, "WRONG_CLAIM"),
    ],
)
def test_what_a_token_must_say(other: dict[str, Any], why: str) -> None:
    assert found(made(claims(NOW_S, **other))) == why


@pytest.mark.parametrize(
    "other",
    [
        {"aud": ["x", "other"]},
        {"exp": NOW_S - 29, "iat": NOW_S - 100},
        {"iat": NOW_S + 30},
        {"nbf": NOW_S + 30},
        {"nbf": NOW_S - 3},
        {"exp": NOW_S + 600.7},
        {"scope": None},
        {"scope": ["a", "b"]},
        {"scope": 7},
        {"more": {"deep": [1, 2, {"x": None}]}},
    ],
)
def test_what_a_token_may_say(other: dict[str, Any]) -> None:
    rest_ms = 0 if other.get("exp", NOW_S) < NOW_S else 600_000
    assert found(made(claims(NOW_S, **other))) == Bearer("alice", rest_ms)


def test_the_settings_say_which_claims_count() -> None:
    rules = TokenRules(ISSUER, frozenset({AUDIENCE}), 0, "email", "roles")
    good = claims(NOW_S, email=" al@example.org ", sub=None)
    assert found(made(good), rules=rules) == Bearer("al@example.org", 600_000)
    assert found(made(claims(NOW_S)), rules=rules) == "WRONG_CLAIM"
    assert found(made({**good, "roles": ["x", "x"]}), rules=rules) == "WRONG_CLAIM"
    assert found(made({**good, "iat": NOW_S + 1}), rules=rules) == "EARLY_TOKEN"


def test_whose_token_was_refused_is_known_only_if_its_issuer_has_signed_it() -> None:
    for text, user in (
        (made(claims(NOW_S, aud="x")), "alice"),
        (made(claims(NOW_S, exp=NOW_S - 99, iat=NOW_S - 100)), "alice"),
        (made(kid="RS256-evil", header={"kid": "RS256-1"}), None),
        (made(claims(NOW_S, aud="x"), kid="RS256-evil", header={"kid": "RS256-1"}), None),
    ):
        with pytest.raises(TokenRefused) as refused:
            verify(text, KEYS, RULES, NOW_S * 1000)
        assert refused.value.user == user
        assert text not in repr(refused.value)


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "...", "a.b.c", "e30.e30.e30", "=.=.=", "W10.e30.AA", "e30", "a" * 50_000],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    assert found(text) in ("MALFORMED_TOKEN", "REFUSED_ALGORITHM")


def test_json_that_two_readers_would_read_differently_is_refused() -> None:
    twice = json.dumps(claims(NOW_S)).encode()[:-1] + b', "sub": "admin"}'
    for content in (twice, b"[1]", b"null", b"{", b"\xff", b'{"exp": NaN}', b"[" * 20_000, b'{"a":' * 20_000):
        assert found(made(content)) == "MALFORMED_TOKEN"
    # A form of base64 that other readers take for the same bytes.
    head, body, sign = made().split(".")
    for odd in (f"{head}=.{body}.{sign}", f"{head}.{body} .{sign}", f"{head}.{body}.{sign}=", f"{head}.{body}.{sign}/"):
        # The claims are looked at last.
        assert found(odd) == ("WRONG_SIGNATURE" if " " in odd else "MALFORMED_TOKEN")


def test_an_unsigned_token_is_believed_only_where_that_is_asked_for() -> None:
    def unsigned(content: dict[str, Any], sign: str = "", **header: Any) -> Bearer | str:
        try:
            return believe(f"{encoded({'alg': 'none', **header})}.{encoded(content)}.{sign}", RULES, NOW_S * 1000)
        except TokenRefused as refused:
            return refused.reason.name

    assert unsigned({"sub": "alice", "exp": NOW_S + 10}) == Bearer("alice", 10_000)
    assert unsigned({"sub": "alice"}) == "WRONG_CLAIM"
    assert unsigned({"exp": NOW_S + 10}) == "WRONG_CLAIM"
    assert unsigned({"sub": "alice", "exp": NOW_S - 100}) == "EXPIRED_TOKEN"
    assert unsigned({"sub": "alice", "exp": NOW_S + 10}, "AAAA") == "REFUSED_ALGORITHM"
    assert unsigned({"sub": "alice", "exp": NOW_S + 10}, alg="RS256") == "REFUSED_ALGORITHM"


def test_a_good_token_is_good_now() -> None:
    assert verify(token(), KEYS, RULES, int(time.time() * 1000)).principal == "alice"
