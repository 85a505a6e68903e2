"""Settings of connections to ZooKeeper: which mean something, and which are refused."""

from __future__ import annotations

import pytest

from kavka.config import BrokerConfig
from kavka.config.setting import InvalidValue
from kavka.config.zookeeper import ZooKeeperTlsSettings, zookeeper_login, zookeeper_tls
from kavka.security.kerberos_login import KerberosLogin
from kavka.security.secret import Secret

ON = {"zookeeper.ssl.client.enable": "true"}


def settings(**texts: str) -> ZooKeeperTlsSettings:
    found = zookeeper_tls(BrokerConfig.from_properties({**ON, **{k.replace("_", "."): v for k, v in texts.items()}}))
    assert found is not None
    return found


def test_without_the_switch_there_is_no_tls() -> None:
    assert zookeeper_tls(BrokerConfig.from_properties({"zookeeper.ssl.truststore.location": "/a.pem"})) is None


def test_what_holds_by_default_is_tls_1_2_with_the_host_checked() -> None:
    found = settings()
    assert (found.versions, found.suites, found.checks_host) == (frozenset({"TLSv1.2"}), None, True)
    assert not found.key_store.is_set
    assert not found.trust_store.is_set


@pytest.mark.parametrize(("file", "kind"), [("/k.pem", "PEM"), ("/k.jks", "JKS"), ("/k.p12", "PKCS12")])
def test_the_kind_of_a_store_is_guessed_from_its_name(file: str, kind: str) -> None:
    found = settings(zookeeper_ssl_keystore_location=file, zookeeper_ssl_truststore_location=file)
    assert (found.key_store.kind, found.trust_store.kind) == (kind, kind)
    assert found.files == (file, file)


@pytest.mark.setting("zookeeper.ssl.keystore.type", "zookeeper.ssl.truststore.type")
def test_the_kind_of_a_store_may_be_said() -> None:
    found = settings(
        zookeeper_ssl_keystore_location="/k",
        zookeeper_ssl_keystore_type="pkcs12",
        zookeeper_ssl_truststore_location="/k.jks",
        zookeeper_ssl_truststore_type="PEM",
    )
    assert (found.key_store.kind, found.trust_store.kind) == ("PKCS12", "PEM")


def test_the_password_of_a_pem_store_is_that_of_its_key() -> None:
    pem = settings(zookeeper_ssl_keystore_location="/k.pem", zookeeper_ssl_keystore_password="secret").key_store
    assert (pem.key_password, pem.password) == ("secret", None)
    jks = settings(zookeeper_ssl_keystore_location="/k.jks", zookeeper_ssl_keystore_password="secret").key_store
    assert (jks.key_password, jks.password) == (None, "secret")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("zookeeper.clientCnxnSocket", "com.example.Socket"),
        ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNIO"),
        ("zookeeper.ssl.keystore.location", "/k"),
        ("zookeeper.ssl.keystore.password", "canary"),
        ("zookeeper.ssl.truststore.password", "canary"),
        ("zookeeper.ssl.protocol", "TLSv1.1"),
        ("zookeeper.ssl.protocol", "TLS"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1.2,TLSv1.1"),
        ("zookeeper.ssl.cipher.suites", "TLS_AES_128_GCM_SHA256"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "LDAPS"),
        ("zookeeper.ssl.crl.enable", "true"),
        ("zookeeper.ssl.ocsp.enable", "true"),
    ],
)
def test_what_cannot_be_honoured_keeps_a_broker_from_starting(name: str, value: str) -> None:
    with pytest.raises(InvalidValue, match=name.replace(".", r"\.")) as refused:
        BrokerConfig.from_properties({**ON, name: value})
    assert "canary" not in str(refused.value)


def test_a_store_of_an_unknown_kind_is_refused() -> None:
    for store in ("keystore", "truststore"):
        with pytest.raises(InvalidValue, match="PEM, JKS or PKCS12"):
            BrokerConfig.from_properties(
                {**ON, f"zookeeper.ssl.{store}.location": "/k.bcfks", f"zookeeper.ssl.{store}.type": "BCFKS"}
            )


def test_javas_plain_socket_is_no_contradiction_without_tls() -> None:
    BrokerConfig.from_properties({"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"})


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"zookeeper.connect": "h:2181"},
        {"zookeeper.connect": "h:2182", "zookeeper.ssl.client.enable": "true"},
        {"zookeeper.connect": "h:2182", "zookeeper.ssl.keystore.location": "/k.pem"},
        {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.location": "/k.pem"},
    ],
)
def test_lists_are_refused_to_a_broker_that_zookeeper_does_not_know(others: dict[str, str]) -> None:
    with pytest.raises(InvalidValue, match=r"zookeeper\.set\.acl"):
        BrokerConfig.from_properties({"zookeeper.set.acl": "true", **others})


def test_a_certificate_is_enough_for_lists() -> None:
    config = BrokerConfig.from_properties(
        {
            "zookeeper.set.acl": "true",
            "zookeeper.connect": "h:2182",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": "/k.pem",
        }
    )
    assert config.zookeeper_set_acl


JAAS = "kavka.zookeeper.sasl.jaas.config"
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"


def test_a_login_is_a_name_and_a_password_and_enough_for_lists() -> None:
    config = BrokerConfig.from_properties(
        {"zookeeper.connect": "h", "zookeeper.set.acl": "true", JAAS: f'{MODULE} username="k" password="p";'}
    )
    assert zookeeper_login(config) == ("k", Secret("p"))
    assert zookeeper_login(BrokerConfig.from_properties({})) is None


KERBEROS = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="kafka/h@R"'


def test_a_login_with_kerberos_is_enough_for_lists_and_names_the_service_as_zookeeper_does() -> None:
    config = BrokerConfig.from_properties({"zookeeper.connect": "h", "zookeeper.set.acl": "true", JAAS: f"{KERBEROS};"})
    found = zookeeper_login(config)
    assert isinstance(found, KerberosLogin)
    assert (found.service_name, found.principal, found.keytab) == ("zookeeper", "kafka/h@R", "/k")
    other = zookeeper_login(BrokerConfig.from_properties({JAAS: f'{KERBEROS} serviceName="zk";'}))
    assert isinstance(other, KerberosLogin)
    assert other.service_name == "zk"


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{MODULE};",
        f'{MODULE} username="k";',
        f'{MODULE} username="k" password="";',
        f'{MODULE} username="k" password="canary" user_k="p";',
        f'{MODULE} username="k" password="canaryä";',
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="k" password="canary";',
        'com.sun.security.auth.module.Krb5LoginModule required useTicketCache="canary";',
    ],
)
def test_a_login_that_zookeeper_could_not_take_keeps_a_broker_from_starting(text: str) -> None:
    with pytest.raises(InvalidValue, match=JAAS.replace(".", r"\.")) as refused:
        BrokerConfig.from_properties({JAAS: text})
    assert "canary" not in str(refused.value)
