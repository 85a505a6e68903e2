"""Certificates towards ZooKeeper: which are taken, and what happens when their files change."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from kavka.config import BrokerConfig
from kavka.config.zookeeper import ZooKeeperTlsSettings, zookeeper_tls
from kavka.errors import ConfigError
from kavka.runtime.tls.tls_contexts import zookeeper_context
from kavka.runtime.zookeeper.zookeeper_tls import ZooKeeperTls
from tests.kit.certificates import Authority

STORES = json.loads((Path(__file__).resolve().parents[1] / "security" / "stores_by_keytool.json").read_text())


def settings(**texts: str) -> ZooKeeperTlsSettings:
    named = {f"zookeeper.ssl.{name.replace('_', '.')}": text for name, text in texts.items()}
    found = zookeeper_tls(BrokerConfig.from_properties({"zookeeper.ssl.client.enable": "true", **named}))
    assert found is not None
    return found


def test_new_files_are_used_by_the_next_connection_and_bad_ones_are_not(tmp_path: Path) -> None:
    authority = Authority()
    file = authority.sign("one").write(tmp_path / "key.pem")
    tls = ZooKeeperTls(settings(keystore_location=str(file)))
    first = tls.context()
    assert tls.context() is first
    file.write_text(authority.sign("two").key)
    assert tls.context() is first, "a key without its certificate"
    assert tls.context() is first
    authority.sign("two").write(file)
    second = tls.context()
    assert second is not first
    file.unlink()
    assert tls.context() is second


def test_certificates_that_cannot_be_used_keep_a_broker_from_starting(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    for name in ("keystore_location", "truststore_location"):
        with pytest.raises(ConfigError, match="TLS to ZooKeeper"):
            ZooKeeperTls(settings(**{name: str(nothing)}))
    nothing.write_text("no PEM at all")
    for name in ("keystore_location", "truststore_location"):
        with pytest.raises(ConfigError, match="TLS to ZooKeeper"):
            ZooKeeperTls(settings(**{name: str(nothing)}))


@pytest.mark.setting("zookeeper.ssl.keystore.password", "zookeeper.ssl.truststore.password")
def test_stores_of_each_kind_are_opened_with_their_password_and_not_without(tmp_path: Path) -> None:
    keys, trusted, pem = tmp_path / "keys.p12", tmp_path / "trusted.jks", tmp_path / "encrypted.pem"
    keys.write_bytes(base64.b64decode(STORES["pkcs12_key"]))
    trusted.write_bytes(base64.b64decode(STORES["jks_trust"]))
    pem.write_text(STORES["encrypted_key_pem"] + STORES["certificate_pem"])
    for file, password in ((keys, "storepass"), (pem, "pempass")):
        context = zookeeper_context(
            settings(
                keystore_location=str(file),
                keystore_password=password,
                truststore_location=str(trusted),
                truststore_password="storepass",
            )
        )
        assert context.cert_store_stats()["x509"] == 1
        with pytest.raises(ConfigError, match="password") as refused:
            zookeeper_context(settings(keystore_location=str(file), keystore_password="canary"))
        assert "canary" not in str(refused.value)
    with pytest.raises(ConfigError, match="password"):
        zookeeper_context(settings(truststore_location=str(trusted), truststore_password="canary"))
