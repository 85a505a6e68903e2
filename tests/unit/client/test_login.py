"""Kafka's client settings about security, as kavka's own client takes them: all that they ask for, or a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.client.login import client_login
from kavka.client.security import SaslMechanism
from kavka.config.properties import parse_properties
from kavka.errors import ConfigError
from tests.kit.certificates import Authority

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="pass\\"word";'


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def test_no_setting_means_plaintext_without_a_login() -> None:
    login = client_login({"bootstrap.servers": "a:1", "acks": "all"}, read=read)
    assert (login.bootstrap, login.tls, login.sasl) == ("a:1", None, None)


def test_a_login_of_javas() -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}
    login = client_login(settings, read=read)
    assert login.sasl is not None
    assert (login.sasl.mechanism, login.sasl.username, login.sasl.password) == (
        SaslMechanism.SCRAM_SHA_512,
        "ada",
        'pass"word',
    )
    assert "word" not in repr(login)


def test_a_login_of_javas_with_a_delegation_token() -> None:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    for text, is_by_token in ((JAAS, False), (JAAS.replace(";", ' tokenauth="true";'), True)):
        login = client_login({**settings, "sasl.jaas.config": text}, read=read)
        assert login.sasl is not None
        assert login.sasl.is_by_token is is_by_token


def test_a_login_of_librdkafkas() -> None:
    settings = {
        "metadata.broker.list": "a:1",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "ada",
        "sasl.password": "x",
    }
    login = client_login(settings, read=read)
    assert login.bootstrap == "a:1"
    assert login.sasl is not None
    assert login.sasl.username == "ada"


def test_authorities_in_the_text_in_a_pem_file_and_by_librdkafkas_name(tmp_path: Path) -> None:
    authority = Authority()
    file = tmp_path / "ca.pem"
    file.write_text(authority.certificate)
    in_place = "ssl.truststore.certificates=" + authority.certificate.replace("\n", "\\n")
    found = [
        client_login({"security.protocol": "SSL", **settings}, read=read).tls
        for settings in (
            {"ssl.truststore.type": "PEM", **parse_properties(in_place)},
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)},
            {"ssl.ca.location": str(file)},
        )
    ]
    for tls in found:
        assert tls is not None
        assert tls.authorities is not None
        assert tls.authorities.startswith("-----BEGIN CERTIFICATE-----")
        assert tls.check_hostname
        assert tls.context().cert_store_stats()["x509_ca"] == 1


def test_a_certificate_of_the_clients_own(tmp_path: Path) -> None:
    authority = Authority()
    own = authority.sign("ada").write(tmp_path / "ada.pem")
    for settings in (
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own)},
        {"ssl.certificate.location": str(own), "ssl.key.location": str(own)},
    ):
        tls = client_login({"security.protocol": "SSL", **settings}, read=read).tls
        assert tls is not None
        tls.context()  # OpenSSL takes both.
        assert "PRIVATE" not in repr(tls)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "names TLSv1: kavka's client has TLSv1.2"),
        ({"security.protocol": "SSL", "ssl.protocol": "SSLv3"}, "ssl.protocol is 'SSLv3'"),
        ({"ssl.provider": "x"}, "no setting ssl.provider"),
        ({"sasl.login.class": "x"}, "no setting sasl.login.class"),
        ({"enable.ssl.certificate.verification": "false"}, "no setting enable.ssl"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "DIGEST-MD5"}, "OAUTHBEARER, GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}, "login module"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "user name and a password"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "http"}, "expected https"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.password": "x"}, "PEM"),
    ],
)
def test_what_would_not_be_honoured_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        client_login(settings, read=read)


def test_a_store_that_holds_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    with pytest.raises(ConfigError, match="TLS"):
        client_login({"security.protocol": "SSL", "ssl.ca.location": str(file)}, read=read)
