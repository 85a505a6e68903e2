"""Certificates that Apache Kafka's Java takes and kavka does not, and what the log says then."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kavka.config import BrokerConfig
from kavka.config.tls import tls_settings
from kavka.runtime.tls.tls_channel import TlsSession
from kavka.runtime.tls.tls_connection import failure_text
from kavka.runtime.tls.tls_contexts import tls_contexts
from tests.kit.certificates import Authority, Signed


def server_of(directory: Path, authority: Authority) -> ssl.SSLContext:
    """A listener's that asks clients for certificates of this authority."""
    trusted = directory / "authority.pem"
    trusted.write_text(authority.certificate)
    config = BrokerConfig.from_properties(
        {
            "listeners": "SSL://127.0.0.1:9093",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(Authority().sign("broker").write(directory / "broker.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
            "ssl.client.auth": "required",
        }
    )
    [endpoint] = config.listener_endpoints
    return tls_contexts(tls_settings(config, endpoint)).server


def refusal(directory: Path, authority: Authority, client: Signed) -> str:
    """Why the listener refuses the client's certificate; empty: it does not. The client itself is not choosy."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(client.write(directory / "client.pem"))
    one = TlsSession(server_of(directory, authority), server_side=True)
    other = TlsSession(context, server_side=False)
    to_other = b""
    try:
        for _ in range(10):
            _, to_one = other.step(to_other)
            is_over, to_other = one.step(to_one)
            if is_over:
                return ""
    except ssl.SSLError as failure:
        return failure_text(failure)
    raise AssertionError("the handshake does not end")


@pytest.mark.setting("ssl.client.auth", "ssl.truststore.location")
def test_a_key_of_rsa_needs_2048_bits(tmp_path: Path) -> None:
    authority = Authority()
    assert refusal(tmp_path, authority, authority.sign("alice", rsa_bits=2048)) == ""
    assert "its key is too short: RSA needs 2,048 bits" in refusal(
        tmp_path, authority, authority.sign("alice", rsa_bits=1024)
    )


def test_an_authority_that_has_expired_is_not_believed_and_the_log_says_that_it_may_be_that(tmp_path: Path) -> None:
    authority = Authority(days=-1)
    why = refusal(tmp_path, authority, authority.sign("alice"))
    assert "or that of the authority that signed it, which ssl.truststore.location may have" in why
