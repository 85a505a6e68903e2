"""Each of Kafka's settings about security, for all listeners, for one, and for one mechanism of one: it changes what
holds there, or it is refused, or the broker says at its start that it has no effect. None is taken and forgotten."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from kavka.config.broker import BrokerConfig
from kavka.config.broker_settings import BrokerSettings
from kavka.config.sasl import own_login, sasl_listeners
from kavka.config.setting import AnySetting, Type
from kavka.config.tls import tls_settings
from kavka.errors import ConfigError

LISTENER = "listener.name.sasl_ssl."
MECHANISMS = ("plain", "scram-sha-512", "oauthbearer")
FORMS = ("", LISTENER, *(f"{LISTENER}{mechanism}." for mechanism in MECHANISMS))
ABOUT_SECURITY = ("authorizer.", "principal.", "sasl.", "security.", "ssl.")
AND = ("allow.everyone.if.no.acl.found", "connections.max.reauth.ms", "super.users")
NAMES = [name for name in BrokerSettings.rows if name.startswith(ABOUT_SECURITY) or name in AND]
BASE = {
    "broker.id": "1",
    "log.dirs": "/d",
    "listeners": "PLAINTEXT://127.0.0.1:9091,SASL_SSL://127.0.0.1:9092",
    "inter.broker.listener.name": "SASL_SSL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys",
    "sasl.oauthbearer.expected.issuer": "issuer",
    "sasl.oauthbearer.expected.audience": "kafka",
    f"{LISTENER}plain.sasl.jaas.config": 'PlainLoginModule required username="broker" password="p" user_broker="p";',
    f"{LISTENER}scram-sha-512.sasl.jaas.config": 'ScramLoginModule required username="broker" password="secret";',
    f"{LISTENER}ssl.keystore.location": "/keys.jks",
    f"{LISTENER}ssl.keystore.password": "secret",
    f"{LISTENER}ssl.truststore.location": "/trusted.jks",
    f"{LISTENER}ssl.truststore.password": "secret",
}
OTHER = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.jaas.config": 'ScramLoginModule required username="other" password="secret";',
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/others",
    "security.inter.broker.protocol": "SASL_SSL",
    "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ssl.client.auth": "required",
    "ssl.enabled.protocols": "TLSv1.3",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.keystore.type": "PKCS12",
    "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
    "ssl.protocol": "TLSv1.2",
    "ssl.truststore.type": "PKCS12",
}
"""Where "another value" is one of few."""
VERSIONS = "tests/unit/config/test_tls.py: a version below 1.2 is refused; ssl.enabled.protocols says the rest"
ELSEWHERE = {
    "allow.everyone.if.no.acl.found": "tests/integration/security/test_rights.py",
    "super.users": "tests/integration/security/test_secured_cluster.py",
    "sasl.server.max.receive.size": "tests/integration/security/test_sasl.py",
    "ssl.protocol": VERSIONS,
    f"{LISTENER}ssl.protocol": VERSIONS,
}
"""What is read, and not by what is looked at here."""


def another(row: AnySetting) -> str:
    """A value that is not the default, and of the right type."""
    match row.kind:
        case Type.BOOLEAN:
            return str(not row.default).lower()
        case Type.INT | Type.LONG | Type.SHORT:
            return str(int(str(row.default or 0)) + 1)
        case Type.DOUBLE:
            return str(float(str(row.default)) / 2)
        case _:
            return OTHER.get(row.name, "other")


def holding(config: BrokerConfig) -> Any:
    """What holds on the listener, with its secrets."""
    (endpoint,) = (each for each in config.listener_endpoints if each.listener == "SASL_SSL")
    login = own_login(config, "SASL_SSL")
    return told((sasl_listeners(config)["SASL_SSL"], tls_settings(config, endpoint), login))


def told(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: told(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "reveal"):
        return value.reveal()
    if isinstance(value, Mapping):
        return {name: told(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [told(each) for each in value]
    return repr(value)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_honoured_refused_or_said_to_have_no_effect(name: str, form: str) -> None:
    texts = {each: text for each, text in BASE.items() if form or each != f"{LISTENER}{name}"}
    try:
        before = holding(BrokerConfig.from_properties(texts))
    except ConfigError:
        before = None  # Without what this setting overrides nothing holds.
    texts[f"{form}{name}"] = OTHER.get(name) or another(BrokerSettings.rows[name])
    try:
        config = BrokerConfig.from_properties(texts)
        after = holding(config)
    except ConfigError:
        return
    given = f"{form}{name}"
    assert after != before or given in ELSEWHERE or config.why_without_effect(given) is not None


@pytest.mark.parametrize("name", ["security.providers", "principal.builder.class", "ssl.engine.factory.class"])
@pytest.mark.parametrize("form", ["", LISTENER])
def test_classes_that_would_decide_about_security_and_cannot_be_called_are_refused(name: str, form: str) -> None:
    with pytest.raises(ConfigError):
        holding(BrokerConfig.from_properties({**BASE, f"{form}{name}": "com.example.Mine"}))


def test_certificates_of_clients_are_asked_for_per_listener_with_sasl() -> None:
    """As in Apache Kafka, where the setting for all listeners counts for SSL alone."""
    config = BrokerConfig.from_properties({**BASE, "ssl.client.auth": "required"})
    assert "listener.name.L.ssl.client.auth" in str(config.why_without_effect("ssl.client.auth"))
    with_ssl = BASE["listeners"] + ",SSL://127.0.0.1:9093"
    assert (
        BrokerConfig.from_properties({**BASE, "listeners": with_ssl, "ssl.client.auth": "required"}).without_effect
        == ()
    )
