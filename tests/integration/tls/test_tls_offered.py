"""What a listener offers whoever calls: versions, suites, and nothing of what made TLS weak.

As scanners of TLS look: each version and each suite alone. Apache Kafka 3.9.2 on Java 17, with the same kind of key,
takes these five suites and ECDHE_ECDSA with AES 128 and 256, CBC and SHA-1 (seen with sslyze 6.3).
"""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from struct import pack

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.kit.tls_cluster import HOST, TlsCluster

SUITES = {
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES128-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES256-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
}
ALERT, FATAL, HANDSHAKE_FAILURE, PROTOCOL_VERSION = 21, 2, 40, 70


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    with TlsCluster(tmp_path_factory.mktemp("offered"), settings={"ssl.client.auth": "none"}) as running:
        yield running


@pytest.fixture(scope="module")
def rsa_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    """With a key of RSA, with which there are old suites that keep no secret."""
    directory = tmp_path_factory.mktemp("offered-rsa")
    key = rsa.generate_private_key(65537, 2048)
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    store = directory / "rsa.pem"
    store.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    settings = {"ssl.client.auth": "none", "ssl.keystore.location": str(store)}
    with TlsCluster(directory, inter_broker="PLAINTEXT", settings=settings) as running:
        yield running


def accepted(cluster: TlsCluster, suite: str) -> bool:
    """Whether a client that has this suite of TLS 1.2 alone gets in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"{suite}:@SECLEVEL=0")
    try:
        with cluster.connect(context) as connection:
            assert isinstance(connection, ssl.SSLSocket)
            return connection.cipher() is not None
    except (ssl.SSLError, ConnectionResetError):
        return False


def all_suites() -> list[str]:
    """Of TLS 1.2 and before, weak ones and such without encryption included, as far as OpenSSL has them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    names = [str(cipher["name"]) for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    return [name for name in names if not any(part in name for part in ("PSK", "SRP"))]


def test_of_all_suites_those_with_forward_secrecy_are_taken(cluster: TlsCluster) -> None:
    tried = all_suites()
    assert {"ECDHE-ECDSA-AES256-SHA", "ECDHE-ECDSA-AES128-SHA"} <= set(tried), "weak ones are among them"
    assert {suite for suite in tried if accepted(cluster, suite)} == SUITES


def test_with_a_key_of_rsa_no_suite_is_taken_that_keeps_no_secret_later(rsa_cluster: TlsCluster) -> None:
    tried = all_suites()
    assert {"AES128-SHA", "AES256-GCM-SHA384"} <= set(tried), "such that keep none are among them"
    found = {suite for suite in tried if accepted(rsa_cluster, suite)}
    assert found
    assert all(suite.startswith(("ECDHE-RSA-", "DHE-RSA-")) and not suite.endswith("-SHA") for suite in found), found


@pytest.mark.parametrize(
    ("version", "alert"), [(0x0300, HANDSHAKE_FAILURE), (0x0301, PROTOCOL_VERSION), (0x0302, PROTOCOL_VERSION)]
)
def test_a_hello_of_an_old_version_gets_an_alert(cluster: TlsCluster, version: int, alert: int) -> None:
    """SSL 3.0, TLS 1.0 and 1.1."""
    suites = pack(">HHHHH", 0xC009, 0xC00A, 0x002F, 0x0035, 0x00FF)
    body = pack(">H", version) + bytes(32) + b"\0" + pack(">H", len(suites)) + suites + b"\1\0"
    handshake = b"\1" + len(body).to_bytes(3, "big") + body
    with cluster.connect() as connection:
        connection.sendall(pack(">BHH", 22, version, len(handshake)) + handshake)
        answer = connection.recv(64)
        assert answer[:1] == bytes([ALERT])
        assert answer[5:7] == bytes([FATAL, alert])
        assert connection.recv(64) == b""


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_nothing_is_compressed(cluster: TlsCluster, version: ssl.TLSVersion) -> None:
    context = cluster.context()
    context.minimum_version = context.maximum_version = version
    context.options &= ~ssl.OP_NO_COMPRESSION
    with cluster.connect(context) as connection:
        assert isinstance(connection, ssl.SSLSocket)
        assert connection.compression() is None


def test_a_client_that_wants_to_renegotiate_is_refused(cluster: TlsCluster) -> None:
    """The handshake's work again and again on one connection: `R` has OpenSSL's client ask for it."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("there is no openssl")
    command = [openssl, "s_client", "-connect", f"{HOST}:{cluster.ports[1]}", "-tls1_2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        said = b""
        while b"Extended master secret" not in said:  # The handshake is over.
            piece = client.stdout.readline()
            assert piece, said
            said += piece
        client.stdin.write(b"R\n")
        client.stdin.flush()
        said, _ = client.communicate(timeout=60)
    assert b"RENEGOTIATING" in said
    assert b"no renegotiation" in said


def test_a_hello_that_says_it_fell_back_is_refused(cluster: TlsCluster) -> None:
    """RFC 7507: somebody between makes clients try older versions."""
    suites = pack(">HHH", 0xC02B, 0x5600, 0x00FF)
    groups = pack(">HHHH", 10, 4, 2, 23)
    schemes = pack(">HHHH", 13, 4, 2, 0x0403)
    extensions = groups + schemes
    body = (
        pack(">H", 0x0303) + bytes(32) + b"\0" + pack(">H", len(suites)) + suites + b"\1\0"
        + pack(">H", len(extensions)) + extensions
    )  # fmt: skip
    handshake = b"\1" + len(body).to_bytes(3, "big") + body
    with socket.create_connection((HOST, cluster.ports[1]), 20) as connection:
        connection.sendall(pack(">BHH", 22, 0x0303, len(handshake)) + handshake)
        assert connection.recv(64)[5:7] == bytes([FATAL, 86])  # inappropriate_fallback
