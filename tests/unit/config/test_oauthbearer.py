"""OAUTHBEARER of a listener: what its settings mean, and which would let anybody in."""

from __future__ import annotations

import pytest

from kavka.client.login import sasl_settings
from kavka.client.oauthbearer_tokens import RefreshRules, TokenEndpoint
from kavka.config.broker import BrokerConfig
from kavka.config.oauthbearer import HANDLERS, UNSECURED_HANDLER, VALIDATORS, OAuthBearerSettings
from kavka.config.sasl import open_secrets, own_login, sasl_listeners
from kavka.errors import ConfigError
from kavka.security.json_web_tokens import TokenRules

LISTENER = "listener.name.sasl_plaintext."
OWN = f"{LISTENER}oauthbearer."
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
GOOD = {
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "kafka, brokers",
}


def config(settings: dict[str, str], host: str = "127.0.0.1") -> BrokerConfig:
    return BrokerConfig.from_properties(
        {
            "broker.id": "1",
            "log.dirs": "/d",
            "listeners": f"PLAINTEXT://127.0.0.1:9091,SASL_PLAINTEXT://{host}:9092",
            "advertised.listeners": "PLAINTEXT://127.0.0.1:9091,SASL_PLAINTEXT://127.0.0.1:9092",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            **settings,
        }
    )


def found(settings: dict[str, str], host: str = "127.0.0.1") -> OAuthBearerSettings:
    tokens = sasl_listeners(config(settings, host))["SASL_PLAINTEXT"].tokens
    assert tokens is not None
    return tokens


def refused(settings: dict[str, str], host: str = "127.0.0.1") -> str:
    with pytest.raises(ConfigError) as error:
        found(settings, host)
    return str(error.value)


def test_kafkas_settings_say_which_tokens_count_and_where_the_keys_are() -> None:
    tokens = found(GOOD)
    assert tokens.rules == TokenRules("https://issuer.example", frozenset({"kafka", "brokers"}), 30, "sub", "scope")
    assert tokens.keys is not None
    assert (tokens.keys.url, tokens.keys.refresh_ms) == ("https://issuer.example/keys", 3_600_000)
    assert (tokens.keys.backoff_ms, tokens.keys.max_backoff_ms) == (100, 10_000)
    assert not tokens.keys.trust_store.is_set


@pytest.mark.setting(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
)
def test_those_of_a_mechanism_count_before_those_of_a_listener_and_for_all() -> None:
    tokens = found(
        {
            **GOOD,
            f"{LISTENER}sasl.oauthbearer.expected.issuer": "of the listener",
            f"{OWN}sasl.oauthbearer.expected.audience": "of the mechanism",
            f"{LISTENER}sasl.oauthbearer.expected.audience": "of the listener",
            f"{OWN}sasl.oauthbearer.clock.skew.seconds": "5",
            f"{OWN}sasl.oauthbearer.sub.claim.name": "email",
            f"{OWN}sasl.oauthbearer.scope.claim.name": "roles",
            f"{OWN}sasl.oauthbearer.jwks.endpoint.url": "file:///etc/keys.json",
            f"{OWN}sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000",
            f"{OWN}sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "7",
            f"{OWN}sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "9",
            f"{OWN}sasl.server.callback.handler.class": HANDLERS[0],
            f"{OWN}sasl.oauthbearer.jwt.validator.class": VALIDATORS[1],
            f"{OWN}sasl.jaas.config": f'{LOGIN} ssl.truststore.type="PEM" ssl.truststore.location="/etc/ca.pem";',
        }
    )
    assert tokens.rules == TokenRules("of the listener", frozenset({"of the mechanism"}), 5, "email", "roles")
    assert tokens.keys is not None
    assert (tokens.keys.url, tokens.keys.refresh_ms) == ("file:///etc/keys.json", 60_000)
    assert (tokens.keys.backoff_ms, tokens.keys.max_backoff_ms) == (7, 9)
    assert (tokens.keys.trust_store.kind, tokens.keys.trust_store.location) == ("PEM", "/etc/ca.pem")


@pytest.mark.parametrize("name", GOOD)
def test_without_issuer_audience_or_keys_a_listener_does_not_start(name: str) -> None:
    for text in (None, "", " ", " , "):
        settings = {each: value for each, value in GOOD.items() if each != name}
        if text is not None:
            settings[name] = text
        if text == " , " and "audience" not in name:
            continue
        assert f"does not say which tokens it believes: set {OWN}{name}" in refused(settings)


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/keys",
        "HTTP://127.0.0.1/keys",
        "ftp://issuer.example/keys",
        "jar:file:/x!/y",
        "issuer.example/keys",
        "https:///keys",
        "https://",
        "https://issuer.example:99999/keys",
        "https://issuer.example/a b",
        "https://issuer.example/\tb",
        "file://other.host/keys",
        "file:",
        "https://issu\u0435r.example/keys",
        "https://[::1/keys",
    ],
)
def test_keys_come_from_https_or_a_file(url: str) -> None:
    assert "Value must be https://HOST/PATH or file:///PATH" in refused(
        {**GOOD, "sasl.oauthbearer.jwks.endpoint.url": url}
    )


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    url = "https://user:canary@issuer.example/keys"
    assert "canary" not in refused({**GOOD, "sasl.oauthbearer.jwks.endpoint.url": url})


@pytest.mark.setting("kavka.oauthbearer.allowed.urls")
def test_only_allowed_addresses_count_where_some_are_named() -> None:
    keys = found({**GOOD, "kavka.oauthbearer.allowed.urls": "https://x,https://issuer.example/keys"}).keys
    assert keys is not None
    for allowed in ("https://issuer.example", "https://issuer.example/keys/", "https://ISSUER.example/keys"):
        assert "kavka.oauthbearer.allowed.urls does not name it" in refused(
            {**GOOD, "kavka.oauthbearer.allowed.urls": allowed}
        )


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("sasl.oauthbearer.clock.skew.seconds", "-1", "Value must be between 0 and 3600"),
        ("sasl.oauthbearer.clock.skew.seconds", "3601", "Value must be between 0 and 3600"),
        ("sasl.oauthbearer.jwks.endpoint.refresh.ms", "0", "Value must be at least 1"),
        ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "0", "Value must be at least 1"),
        ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "-5", "Value must be at least 1"),
        ("sasl.oauthbearer.sub.claim.name", " ", "Value must name a claim"),
        ("sasl.oauthbearer.scope.claim.name", "", "Value must name a claim"),
        ("sasl.oauthbearer.jwt.validator.class", "com.example.V", "this is a Java class"),
        ("sasl.server.callback.handler.class", "com.example.H", "this is a Java class"),
        ("sasl.server.callback.handler.class", UNSECURED_HANDLER, "anybody could log in as anybody"),
        ("sasl.login.callback.handler.class", "com.example.H", "this is a Java class"),
        ("sasl.login.class", "com.example.H", "this is a Java class"),
        ("sasl.jaas.config", f'{LOGIN} clientId="x";', "option 'clientId' has no meaning"),
        ("sasl.jaas.config", f'{LOGIN} unsecuredLoginStringClaim_sub="x";', "has no meaning"),
        ("sasl.jaas.config", f'{LOGIN} username="x";', "option 'username' has no meaning"),
        ("sasl.jaas.config", f'{LOGIN} ssl.keystore.location="x";', "has no meaning"),
        ("sasl.jaas.config", f'{LOGIN} ssl.truststore.password="x";', "trust store password is specified"),
        ("sasl.jaas.config", "ScramLoginModule required;", "login module of SCRAM, which is not for OAUTHBEARER"),
    ],
)
def test_what_cannot_be_honoured_is_refused(name: str, text: str, why: str) -> None:
    assert why in refused({**GOOD, f"{OWN}{name}": text})


@pytest.mark.setting("sasl.server.callback.handler.class", "sasl.oauthbearer.jwt.validator.class")
def test_kafkas_own_classes_are_words() -> None:
    for handler in HANDLERS:
        assert found({**GOOD, f"{OWN}sasl.server.callback.handler.class": handler}).keys is not None
    for validator in VALIDATORS:
        assert found({**GOOD, "sasl.oauthbearer.jwt.validator.class": validator}).keys is not None
    other = {f"{OWN}sasl.server.callback.handler.class": "com.example.H"}
    assert "this is a Java class" in refused({**GOOD, **other})


@pytest.mark.setting("kavka.oauthbearer.unsecured")
def test_tokens_without_signature_count_only_where_two_things_say_so() -> None:
    unsecured = {"kavka.oauthbearer.unsecured": "true"}
    assert found(unsecured) == OAuthBearerSettings(TokenRules("", frozenset()), None)
    assert found({**unsecured, f"{OWN}sasl.server.callback.handler.class": UNSECURED_HANDLER}).keys is None
    for host in ("0.0.0.0", "", "10.0.0.1", "127.0.0.2.example"):
        assert "would let anybody who reaches" in refused(unsecured, host)
    for name, text in GOOD.items():
        assert f"{name} would have no effect" in refused({**unsecured, name: text})
    handler = {f"{OWN}sasl.server.callback.handler.class": HANDLERS[0]}
    assert "names" in refused({**unsecured, **handler})


def test_tokens_without_tls_are_told_of_where_others_reach_them() -> None:
    assert open_secrets(config(GOOD)) == []
    assert open_secrets(config(GOOD, "10.0.0.1")) == [("SASL_PLAINTEXT://10.0.0.1:9092", "OAUTHBEARER")]


BETWEEN_BROKERS = {
    **GOOD,
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
    f"{OWN}sasl.jaas.config": f'{LOGIN} clientId="brokers" clientSecret="canary" scope="kafka" extension_a="b";',
}
"""Brokers that log in on each other with tokens."""


@pytest.mark.setting(
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.buffer.seconds",
)
def test_brokers_have_tokens_of_their_own_from_where_the_settings_say() -> None:
    jaas = f"{OWN}sasl.jaas.config"
    settings = {
        **{name: text for name, text in BETWEEN_BROKERS.items() if name != jaas},
        "sasl.oauthbearer.client.credentials.client.id": "brokers",
        f"{OWN}sasl.oauthbearer.client.credentials.client.secret": "canary",
        f"{LISTENER}sasl.oauthbearer.scope": "replicate",
        "sasl.login.connect.timeout.ms": "1001",
        "sasl.login.read.timeout.ms": "1002",
        "sasl.login.retry.backoff.ms": "103",
        f"{OWN}sasl.login.retry.backoff.max.ms": "1004",
        "sasl.login.refresh.window.factor": "0.5",
        "sasl.login.refresh.window.jitter": "0.1",
        "sasl.login.refresh.min.period.seconds": "6",
        "sasl.login.refresh.buffer.seconds": "7",
    }
    broker = config(settings)
    login = own_login(broker, "SASL_PLAINTEXT")
    assert (login.mechanism, login.username) == ("OAUTHBEARER", None)
    assert "canary" not in repr(login)
    tokens = sasl_settings(login.tokens, lambda path: b"").tokens
    assert tokens is not None
    assert tokens.origin == TokenEndpoint(
        url="https://issuer.example/token",
        client_id="brokers",
        client_secret="canary",
        scope="replicate",
        connect_timeout_ms=1001,
        read_timeout_ms=1002,
        backoff_ms=103,
        max_backoff_ms=1004,
    )
    assert tokens._rules == RefreshRules(window_factor=0.5, window_jitter=0.1, min_period_s=6, buffer_s=7)
    assert broker.without_effect == ()


def test_the_login_of_a_listener_says_whom_brokers_are_and_whom_to_believe() -> None:
    login = own_login(config(BETWEEN_BROKERS), "SASL_PLAINTEXT")
    tokens = sasl_settings(login.tokens, lambda path: b"").tokens
    assert tokens is not None
    assert isinstance(tokens.origin, TokenEndpoint)
    assert (tokens.origin.client_id, tokens.origin.scope, tokens.extensions) == ("brokers", "kafka", {"a": "b"})
    # On a listener of clients alone the same options have no meaning, and are refused.
    of_clients = {**BETWEEN_BROKERS, "security.inter.broker.protocol": "PLAINTEXT"}
    assert "has no meaning for OAUTHBEARER here" in refused(of_clients)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "does not say where their tokens come from"),
        (
            {"kavka.oauthbearer.allowed.urls": "https://issuer.example/keys"},
            "kavka.oauthbearer.allowed.urls does not name it",
        ),
        ({"sasl.login.class": "a.B"}, "this is a Java class"),
        ({f"{OWN}sasl.oauthbearer.assertion.file": "/a.jwt"}, "with an id and a secret"),
        ({"sasl.oauthbearer.jwt.retriever.class": "org.example.JwtBearerJwtRetriever"}, "with an id and a secret"),
    ],
)
def test_a_login_with_tokens_that_cannot_be_carried_out_is_refused(own: dict[str, str], why: str) -> None:
    assert why in refused({**BETWEEN_BROKERS, **own})


def test_where_tokens_come_from_has_no_effect_on_brokers_that_have_none() -> None:
    settings = {**GOOD, "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token"}
    assert config(settings).without_effect == ("sasl.oauthbearer.token.endpoint.url",)


def test_what_governs_tokens_has_no_effect_on_a_broker_that_takes_none() -> None:
    settings = {**GOOD, "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    assert set(GOOD) <= set(config(settings).without_effect)
    assert config(GOOD).without_effect == ()
