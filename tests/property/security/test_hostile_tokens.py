"""Tokens and messages that hostile clients make: refused for a reason, and nobody gets in."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.security.json_web_tokens import KeySet, MalformedKeySet, TokenRules, read_key_set, verify
from kavka.security.oauthbearer import Bearer, OAuthBearerServer, TokenRefused
from kavka.security.sasl import AuthenticationFailed, FailureReason
from tests.kit.token_issuer import AUDIENCE, ISSUER, claims, encoded, key_set, token

NOW_S = 1_800_000_000
RULES = TokenRules(ISSUER, frozenset({AUDIENCE}))
KEYS = read_key_set(key_set("ES256-1", "EdDSA-1"))
GOOD = token(claims(NOW_S), kid="ES256-1", algorithm="ES256")
values: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [None, True, [], {}, ["x"], [AUDIENCE], {"a": [1]}, 0, -1, 1e300, NOW_S, NOW_S + 10**6, "", " ", "x"]
    ),
    st.text(max_size=8),
    st.integers(),
)
header_names = st.sampled_from(["alg", "kid", "typ", "jku", "jwk", "x5u", "x5c", "crit", "b64", "zip", "enc"])
claim_names = st.sampled_from(["iss", "aud", "sub", "exp", "iat", "nbf", "scope", "jti"])
names_of_algorithms = st.sampled_from(["none", "HS256", "RS256", "ES256", "ES384", "EdDSA", "PS512", "ES256K", "dir"])
headers = st.builds(
    lambda some, alg: {**some, "alg": alg},
    st.dictionaries(header_names, values, max_size=4),
    names_of_algorithms | values,
)


def refusal(text: str, keys: KeySet = KEYS) -> TokenRefused | None:
    try:
        assert isinstance(verify(text, keys, RULES, NOW_S * 1000), Bearer)
    except TokenRefused as refused:
        return refused
    return None


@settings(max_examples=200)
@given(headers, st.dictionaries(claim_names, values, max_size=8), st.binary(max_size=80))
def test_whoever_has_no_key_gets_no_token_believed(
    header: dict[str, Any], content: dict[str, Any], sign: bytes
) -> None:
    text = f"{encoded(header)}.{encoded({**claims(NOW_S), **content})}.{encoded(sign)}"
    assert refusal(text) is not None


@settings(max_examples=150)
@given(st.dictionaries(claim_names, values, min_size=1, max_size=8))
def test_a_signed_token_is_believed_only_if_it_says_what_it_must(content: dict[str, Any]) -> None:
    """What must hold of a believed token, said independently of how it is checked."""
    full = {**claims(NOW_S), **content}
    if refusal(token(full, kid="EdDSA-1", algorithm="EdDSA")) is None:
        assert full["iss"] == ISSUER
        assert full["aud"] == AUDIENCE or AUDIENCE in full["aud"]
        assert isinstance(full["sub"], str)
        assert full["sub"].strip()
        assert int(full["exp"]) > NOW_S - 30
        assert int(full["iat"]) <= NOW_S + 30
        assert int(full.get("nbf") or 0) <= NOW_S + 30


@settings(max_examples=200)
@given(st.data())
def test_a_token_with_a_character_changed_or_cut_off_is_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(GOOD) - 1))
    # Of a signature's last character two bits count for nothing.
    other = data.draw(st.sampled_from("Aaz09-_.=+/ \n") if at < len(GOOD) - 1 else st.just("."))
    changed = GOOD[:at] + other + GOOD[at + 1 :]
    assert changed == GOOD or refusal(changed) is not None
    assert refusal(GOOD[:at]) is not None
    assert refusal(GOOD[at + 1 :]) is not None


@settings(max_examples=200)
@given(st.text(max_size=200))
def test_any_text_is_refused_for_a_reason(text: str) -> None:
    refused = refusal(text)
    assert refused is not None
    assert isinstance(refused.reason, FailureReason)
    assert refused.user is None


key_entries = st.dictionaries(
    st.sampled_from(["kty", "kid", "alg", "use", "key_ops", "crv", "x", "y", "n", "e", "k", "d", "x5c"]),
    st.sampled_from(["RSA", "EC", "OKP", "oct", "P-256", "Ed25519", "AQAB", "AA", "", "sig", "!"]) | values,
    max_size=8,
)


@settings(max_examples=200)
@given(st.lists(key_entries | values, max_size=4))
def test_a_set_of_keys_is_read_or_refused(entries: list[Any]) -> None:
    keys = read_key_set(json.dumps({"keys": entries}).encode())
    assert len(keys.keys) <= len(entries)
    assert refusal(GOOD, keys) is not None


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_a_document_is_read_or_refused(document: bytes) -> None:
    try:
        assert read_key_set(document).keys == ()
    except MalformedKeySet:
        pass


def nobody(text: str) -> Bearer:
    raise TokenRefused(FailureReason.UNKNOWN_KEY)


pieces = st.sampled_from(
    [
        b"n,",
        b"y,",
        b"a=alice",
        b",",
        b"\x01",
        b"auth=",
        b"Bearer ",
        b"bearer",
        b"t.t.t",
        b"x=",
        b"y",
        b" ",
        b"=2C",
        b"\0",
        b"\xff",
    ]
)


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=60) | st.lists(pieces, max_size=12).map(b"".join), max_size=4))
def test_no_message_gets_anybody_in_without_a_token(sequence: list[bytes]) -> None:
    server = OAuthBearerServer(nobody)
    for message in sequence:
        labour = server.labour(message)
        if labour is not None:
            labour()
        try:
            step = server.step(message)
        except AuthenticationFailed:
            return
        assert step.user is None
        assert step.answer == b'{"status":"invalid_token"}'
