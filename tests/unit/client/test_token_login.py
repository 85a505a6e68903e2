"""What the settings of a client say about where its tokens come from, and when a token is taken anew."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode

import pytest

from kavka.client.login import client_login
from kavka.client.oauthbearer_tokens import RefreshRules, TokenEndpoint
from kavka.client.security import SaslSettings
from kavka.errors import ConfigError

URL = "sasl.oauthbearer.token.endpoint.url"


def login(options: str = "", **settings: str) -> SaslSettings:
    named = {name.replace("_", "."): text for name, text in settings.items()}
    jaas = {"sasl.jaas.config": f"OAuthBearerLoginModule required {options};"} if options else {}
    base = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    found = client_login({**base, **jaas, **named}, read=lambda path: b"").sasl
    assert found is not None
    return found


def test_settings_of_kafka_4_1_say_as_much_as_the_jaas_text() -> None:
    settings = {
        "sasl_oauthbearer_token_endpoint_url": "https://issuer.example/token",
        "sasl_oauthbearer_client_credentials_client_id": "me",
        "sasl_oauthbearer_client_credentials_client_secret": "canary",
        "sasl_oauthbearer_scope": "kafka",
    }
    for found in (
        login(**settings),
        login(
            'clientId="me" clientSecret="canary" scope="kafka"',
            sasl_oauthbearer_token_endpoint_url="https://issuer.example/token",
        ),
    ):
        assert found.tokens is not None
        origin = found.tokens.origin
        assert isinstance(origin, TokenEndpoint)
        assert (origin.client_id, origin.client_secret, origin.scope) == ("me", "canary", "kafka")
        assert "canary" not in repr(found)


def test_a_token_for_tests_has_the_claims_that_the_options_name() -> None:
    found = login(
        'unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_n="7" unsecuredLoginListClaim_l=",a,b" '
        'unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_trace="x"'
    )
    assert found.tokens is not None
    head, body, signature = found.tokens.current().split(".")
    assert (json.loads(urlsafe_b64decode(head + "==")), signature) == ({"alg": "none"}, "")
    claims = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert (claims["sub"], claims["n"], claims["l"]) == ("alice", 7, ["a", "b"])
    assert claims["exp"] - claims["iat"] == 60
    assert found.tokens.extensions == {"trace": "x"}


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        ("", {}, "needs sasl.oauthbearer.token.endpoint.url"),
        ('clientId="a" clientSecret="canary"', {URL: "http://issuer.example/t"}, "must be https"),
        ('clientId="a" clientSecret="canary"', {URL: "https://a:canary@issuer.example/t"}, "a login before it"),
        ('clientId="a"', {URL: "https://issuer.example/t"}, "id and secret"),
        ('clientId="a" clientSecret="canary"', {URL: "file://elsewhere/t"}, "file:///PATH"),
        ('unsecuredLoginStringClaim_sub="a"', {URL: "https://issuer.example/t"}, "two origins"),
        ('unsecuredLoginStringClaim_sub="a" unsecuredLoginOther="1"', {}, "unsecuredLoginOther has no meaning"),
        ('unsecuredLoginStringClaim_sub="a" unsecuredLoginNumberClaim_n="x"', {}, "is not a number"),
        ('unsecuredLoginStringClaim_sub="a" extension_auth="x"', {}, "RFC 7628"),
        ('unsecuredLoginStringClaim_sub="a"', {"sasl.login.callback.handler.class": "x.Y"}, "may be org.apache"),
        ('unsecuredLoginStringClaim_sub="a"', {"sasl.login.refresh.window.factor": "0.1"}, "from 0.5 to 1.0"),
    ],
)
def test_what_would_not_be_honoured_is_refused(options: str, settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        login(options, **{name.replace(".", "_"): text for name, text in settings.items()})
    assert "canary" not in str(refused.value)


def test_a_token_is_taken_anew_when_kafkas_rules_say_so() -> None:
    rules = RefreshRules(window_factor=0.8, window_jitter=0.1)
    hour = 3_600_000
    assert rules.refresh_ms(0, 0, hour, 0.0) == int(hour * 0.8)
    assert rules.refresh_ms(0, 0, hour, 0.5) == int(hour * 0.85)
    assert rules.refresh_ms(0, 0, 1_200_000, 0.0) == 900_000  # The buffer before its end counts.
    assert rules.refresh_ms(0, -hour, 500_000, 0.0) == 60_000  # Not at once, though it is late.
    assert rules.refresh_ms(0, 0, 100_000, 0.0) == 80_000  # Too short for both bounds.
