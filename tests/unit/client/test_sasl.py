"""SASL's messages: SCRAM against the exchange that RFC 7677 prints, and brokers that are not to be believed."""

from __future__ import annotations

import pytest

from kavka.client import sasl
from kavka.client.security import SaslMechanism, SaslSettings, TlsSettings
from kavka.errors import ConfigError, ErrorCode, RequestError

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(username: str = "user", password: str = "pencil") -> SaslSettings:
    return SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_256, username=username, password=password)


def begin(settings: SaslSettings) -> sasl.Exchange:
    return sasl.exchange(settings, NONCE)


def test_scram_says_what_the_rfc_prints() -> None:
    messages = begin(scram())
    assert next(messages) == b"n,,n=user,r=" + NONCE.encode()
    assert messages.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        messages.send(SERVER_FINAL)


def test_a_delegation_token_is_told_as_one() -> None:
    settings = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_256, username="user", password="pencil", is_by_token=True)
    messages = begin(settings)
    assert next(messages) == b"n,,n=user,r=" + NONCE.encode() + b",tokenauth=true"
    assert messages.send(SERVER_FIRST) != CLIENT_FINAL, "the extension is part of what is proved"


def test_a_broker_with_another_signature_is_not_believed() -> None:
    messages = begin(scram())
    next(messages)
    messages.send(SERVER_FIRST)
    with pytest.raises(RequestError, match="signature is wrong") as caught:
        messages.send(SERVER_FINAL.replace(b"6rri", b"7rri"))
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"e=unknown-user", "not a SCRAM challenge"),
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not continue"),
        (b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not continue"),
        (b"r=" + NONCE.encode() + b"x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999", "iterations"),
        (b"r=" + NONCE.encode() + b"x,s=???,i=4096", "not a SCRAM challenge"),
        (b"\xff\xff", "not a SCRAM challenge"),
    ],
)
def test_a_challenge_that_is_none_ends_the_exchange(challenge: bytes, why: str) -> None:
    messages = begin(scram())
    next(messages)
    with pytest.raises(RequestError, match=why):
        messages.send(challenge)


def test_signs_that_mean_something_in_scram_are_escaped_in_a_user_name() -> None:
    assert next(begin(scram(username="a=b,c"))).startswith(b"n,,n=a=3Db=2Cc,r=")


def test_plain_sends_name_and_password_once() -> None:
    messages = sasl.exchange(SaslSettings(mechanism=SaslMechanism.PLAIN, username="u", password="p"), NONCE)
    assert next(messages) == b"\0u\0p"
    with pytest.raises(StopIteration):
        messages.send(b"")


def test_a_password_shows_in_no_repr() -> None:
    assert "pencil" not in repr(scram())
    assert "-----BEGIN" not in repr(TlsSettings(key="-----BEGIN PRIVATE KEY-----"))


def test_certificates_that_are_none_are_said_to_be_none(tmp_path) -> None:  # type: ignore[no-untyped-def]
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate")
    for authorities in (str(broken), str(tmp_path / "missing.pem"), "-----BEGIN CERTIFICATE-----\nxx\n"):
        with pytest.raises(ConfigError, match="expected PEM"):
            TlsSettings(authorities=authorities).context()
