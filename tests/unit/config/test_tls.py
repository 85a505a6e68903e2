"""TLS settings of a listener: which text counts, and what is refused."""

from __future__ import annotations

import ssl

import pytest

from kavka.config import BrokerConfig
from kavka.config.alter import Change, Operation, alter_broker_incrementally
from kavka.config.setting import InvalidValue
from kavka.config.tls import NEWEST_SUITES, TlsSettings, java_name, openssl_name, tls_settings
from kavka.errors import RequestError

STORE = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/k.pem"}
LISTENER = {
    "listeners": "OUT://:9093,PLAINTEXT://:9092",
    "listener.security.protocol.map": "OUT:SSL,PLAINTEXT:PLAINTEXT",
}


def settings(texts: dict[str, str] | None = None) -> TlsSettings:
    config = BrokerConfig.from_properties({**LISTENER, **STORE, **(texts or {})})
    return tls_settings(config, config.listener_endpoints[0])


def test_what_is_set_for_the_listener_counts_more() -> None:
    found = settings({"listener.name.out.ssl.keystore.location": "/own.pem", "ssl.client.auth": "requested"})
    assert found.key_store.location == "/own.pem"
    assert found.key_store.kind == "PEM"
    assert found.client_auth == "requested"


def test_the_defaults_are_kafkas() -> None:
    found = settings()
    assert found.versions == {"TLSv1.2", "TLSv1.3"}
    assert found.suites is None
    assert found.client_auth == "none"
    assert found.checks_host
    assert found.principal_rules == "DEFAULT"
    assert not found.allows_other_name
    assert not found.allows_fewer_alternative_names


def test_on_sasl_ssl_only_the_listeners_own_setting_asks_for_certificates() -> None:
    for texts, expected in (
        ({"ssl.client.auth": "required"}, "none"),
        ({"listener.name.out.ssl.client.auth": "required"}, "required"),
    ):
        config = BrokerConfig.from_properties({**LISTENER, **STORE, **texts})
        (endpoint, _) = config.listener_endpoints
        sasl = type(endpoint)(endpoint.listener, endpoint.host, endpoint.port, "SASL_SSL")
        assert tls_settings(config, sasl).client_auth == expected


@pytest.mark.setting("ssl.enabled.protocols", "ssl.cipher.suites", "ssl.protocol")
@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not served"),
        ({"ssl.enabled.protocols": "SSLv3"}, "not safe"),
        ({"ssl.protocol": "TLSv1"}, "must be one of TLS, TLSv1.2, TLSv1.3"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "name all three"),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.3"},
            "none of them is of TLSv1.3",
        ),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be https"),
        ({"ssl.principal.mapping.rules": "RULE:oops"}, "Invalid rule"),
        ({"ssl.keystore.type": "BCFKS"}, "must be PEM, JKS or PKCS12"),
        ({"ssl.keystore.type": "JKS"}, "key store password is not specified"),
        ({"ssl.truststore.password": "secret"}, "trust store is not specified"),
        ({"ssl.engine.factory.class": "com.example.Factory"}, "would not be called"),
        ({"ssl.provider": "BC"}, "OpenSSL"),
        ({"listener.name.out.ssl.provider": "BC"}, "OpenSSL"),
        ({"ssl.keymanager.algorithm": "PKIX"}, "OpenSSL"),
    ],
)
def test_what_cannot_be_honoured_keeps_the_broker_from_starting(texts: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidValue, match=words) as refused:
        BrokerConfig.from_properties({**LISTENER, **STORE, **texts})
    assert "secret" not in str(refused.value)


def test_suites_that_are_chosen_leave_the_versions_that_they_are_of() -> None:
    older = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    found = settings({"ssl.cipher.suites": older})
    assert (found.versions, found.suites) == ({"TLSv1.2"}, ("ECDHE-ECDSA-AES256-GCM-SHA384",))
    found = settings({"ssl.cipher.suites": ",".join([older, *NEWEST_SUITES])})
    assert (found.versions, found.suites) == ({"TLSv1.2", "TLSv1.3"}, ("ECDHE-ECDSA-AES256-GCM-SHA384",))
    found = settings({"ssl.cipher.suites": ",".join(NEWEST_SUITES)})
    assert (found.versions, found.suites) == ({"TLSv1.3"}, None)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
    ],
)
def test_suites_have_openssls_names(java: str, openssl: str) -> None:
    import ssl

    assert openssl_name(java) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(f"ALL:{openssl}")
    assert openssl in {cipher["name"] for cipher in context.get_ciphers()}


def change(name: str, value: str) -> dict[str, str]:
    config = BrokerConfig.from_properties({**LISTENER, **STORE, "broker.id": "1"})
    return alter_broker_incrementally([Change(name, Operation.SET, value)], {}, config, per_broker=True)


def test_a_key_store_is_named_anew_at_run_time_for_its_listener_only() -> None:
    name = "listener.name.out.ssl.keystore.location"
    assert change(name, "/new.pem") == {name: "/new.pem"}
    with pytest.raises(RequestError, match="only per-listener"):
        change("ssl.keystore.location", "/new.pem")
    with pytest.raises(RequestError, match="none that it would apply to"):
        change("listener.name.plaintext.ssl.keystore.location", "/new.pem")


@pytest.mark.setting(
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
)
def test_passwords_and_texts_of_stores_are_taken_from_the_file_alone() -> None:
    found = settings(
        {
            "ssl.keystore.type": "JKS",
            "ssl.keystore.password": "one",
            "ssl.key.password": "two",
            "ssl.truststore.location": "/t.jks",
            "ssl.truststore.password": "three",
        }
    )
    assert (found.key_store.password, found.key_store.key_password, found.trust_store.password) == (
        "one",
        "two",
        "three",
    )
    config = BrokerConfig.from_properties(
        {
            **LISTENER,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": "key",
            "ssl.keystore.certificate.chain": "chain",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": "trusted",
        }
    )
    found = tls_settings(config, config.listener_endpoints[0])
    assert (found.key_store.key_text, found.key_store.text, found.trust_store.text) == ("key", "chain", "trusted")
    with pytest.raises(RequestError, match="Passwords cannot be set at run time"):
        change("listener.name.out.ssl.keystore.password", "x")


def test_the_way_a_listener_speaks_tls_stays_as_it_was_at_the_start() -> None:
    with pytest.raises(RequestError, match="keeps how its listeners speak TLS"):
        change("listener.name.out.ssl.client.auth", "required")


def test_a_suite_has_javas_name_again() -> None:
    """Of all suites that a listener has: the metric of open connections tells them so, as Kafka's."""
    suites = [str(each["name"]) for each in ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()]
    assert len(suites) > 10
    for suite in suites:
        assert suite == (suite if suite.startswith("TLS_") else openssl_name(java_name(suite)))
    assert java_name("ECDHE-RSA-AES128-SHA256") == "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"
    assert java_name("ECDHE-ECDSA-CHACHA20-POLY1305") == "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    assert java_name("TLS_AES_128_GCM_SHA256") == "TLS_AES_128_GCM_SHA256"
