"""Key stores: those of keytool, PEM as openssl writes it, and what is refused."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.security.certificates import read_certificate
from kavka.security.der import MalformedDer
from kavka.security.key_stores import (
    Identity,
    KeyStoreError,
    StoreSettings,
    load,
    read_authorities,
    read_identity,
    to_pem,
)

STORES = json.loads((Path(__file__).parent / "stores_by_keytool.json").read_text())
CERTIFICATE = ssl.PEM_cert_to_DER_cert(STORES["certificate_pem"])
KEY = STORES["key_pem"].encode()


def binary(name: str) -> bytes:
    return base64.b64decode(STORES[name])


def key_store(kind: str = "JKS", **more: str) -> StoreSettings:
    return StoreSettings("key", kind, "file", **more)


def pem_body(pem: bytes) -> bytes:
    return base64.b64decode(b"".join(pem.split(b"-----")[2].split()))


def test_a_jks_store_gives_its_chain_and_key() -> None:
    found = read_identity(binary("jks_key"), key_store(password="storepass", key_password="keypass"))
    assert found.chain == (CERTIFICATE,)
    assert pem_body(KEY)[-32:] in pem_body(found.key_pem)  # the private number


@pytest.mark.parametrize(
    ("password", "key_password"), [("wrong", "keypass"), ("storepass", "wrong"), ("storepass", None)]
)
def test_a_wrong_password_is_refused(password: str, key_password: str | None) -> None:
    with pytest.raises(KeyStoreError, match="password"):
        read_identity(binary("jks_key"), StoreSettings("key", "JKS", "f", password, key_password=key_password))
    with pytest.raises(KeyStoreError, match="password"):
        read_identity(binary("pkcs12_key"), key_store(password="wrong"))


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_a_pkcs12_store_is_read_by_either_name_as_java_does(kind: str) -> None:
    found = read_identity(binary("pkcs12_key"), key_store(kind, password="storepass"))
    assert found.chain == (CERTIFICATE,)
    assert found.key_pem.startswith(b"-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize("name", ["jks_trust", "pkcs12_trust"])
def test_a_trust_store_gives_its_certificates(name: str) -> None:
    assert read_authorities(binary(name), StoreSettings("trust", "JKS", "f", "storepass")) == (CERTIFICATE,)


def test_a_jks_trust_store_needs_no_password() -> None:
    assert read_authorities(binary("jks_trust"), StoreSettings("trust", "JKS", "f")) == (CERTIFICATE,)


def test_pem_may_be_one_text_or_two() -> None:
    both = (STORES["encrypted_key_pem"] + STORES["certificate_pem"]).encode()
    found = read_identity(both, key_store("PEM", key_password="pempass"))
    assert found.chain == (CERTIFICATE,)
    assert b"ENCRYPTED" in found.key_pem
    settings = StoreSettings("key", "PEM", text=STORES["certificate_pem"], key_text=STORES["key_pem"])
    assert read_identity(load(settings, lambda path: b""), settings).key_pem.strip() == KEY.strip()
    assert read_authorities(both, StoreSettings("trust", "PEM", "f")) == (CERTIFICATE,)


def test_what_is_read_is_a_certificate_of_the_names_that_keytool_was_given() -> None:
    found = read_certificate(CERTIFICATE)
    assert found.subject == found.issuer == "CN=broker,OU=kafka"
    assert found.alternative_names == {"DNS:localhost", "IP:7f000001"}
    assert found.not_after_ms - found.not_before_ms == 36500 * 86_400_000
    assert ssl.PEM_cert_to_DER_cert(to_pem(CERTIFICATE).decode()) == CERTIFICATE


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (StoreSettings("key", "JKS", "f"), "key store password is not specified"),
        (StoreSettings("key", "JKS", None, "p"), "key store is not specified"),
        (StoreSettings("key", "PEM", "f", "p"), "only key password may be specified"),
        (StoreSettings("key", "JKS", text="c", key_text="k"), "only for PEM"),
        (StoreSettings("key", "PEM", key_text="k"), "certificate chain is not specified"),
        (StoreSettings("key", "PEM", text="c"), "private key is not specified"),
        (StoreSettings("key", "PEM", "f", text="c", key_text="k"), "Both SSL key store location"),
        (StoreSettings("trust", "JKS", text="c"), "only for PEM"),
        (StoreSettings("trust", "PEM", "f", text="c"), "Both SSL trust store location"),
        (StoreSettings("trust", "PEM", "f", "p"), "cannot be specified for PEM"),
        (StoreSettings("trust", "JKS", None, "p"), "trust store is not specified"),
    ],
)
def test_combinations_that_kafka_refuses_are_refused_in_its_words(settings: StoreSettings, words: str) -> None:
    assert words in (settings.refusal() or "")


def test_what_kafka_takes_is_taken() -> None:
    for settings in (
        StoreSettings("key"),
        StoreSettings("key", "JKS", "f", "p"),
        StoreSettings("key", "PEM", "f", key_password="p"),
        StoreSettings("key", "PEM", text="c", key_text="k"),
        StoreSettings("trust", "JKS", "f"),
        StoreSettings("trust", "PEM", text="c"),
    ):
        assert settings.refusal() is None


def test_no_secret_shows_in_a_repr() -> None:
    settings = StoreSettings("key", "PEM", "f", "hush", text="hush", key_text="hush", key_password="hush")
    assert "hush" not in repr(settings)
    assert "hush" not in repr(Identity((), b"hush", "hush"))


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_a_store_or_refused(data: bytes, is_jks: bool) -> None:
    data = b"\xfe\xed\xfe\xed\0\0\0\2" + data if is_jks else data
    for kind in ("JKS", "PEM"):
        for password in ("p", None):
            for read in (read_identity, read_authorities):
                try:
                    read(data, StoreSettings("key", kind, "f", password))
                except KeyStoreError:
                    pass


@given(st.data())
def test_a_broken_jks_store_is_refused_or_read(data: st.DataObject) -> None:
    store = bytearray(binary("jks_trust"))
    store[data.draw(st.integers(4, len(store) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_authorities(bytes(store[: data.draw(st.integers(4, len(store)))]), StoreSettings("trust", "JKS", "f"))
    except KeyStoreError:
        pass


def test_a_day_that_no_calendar_has_is_malformed() -> None:
    last = CERTIFICATE.index(b"21261030022245Z")
    with pytest.raises(MalformedDer, match="no time"):
        read_certificate(CERTIFICATE[: last + 4] + b"13" + CERTIFICATE[last + 6 :])
