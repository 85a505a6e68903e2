"""TLS handshakes count among the authentications in Kafka's metrics: all of SSL listeners, failed ones of SASL_SSL."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest

from kavka.metrics import Family, Gauge
from kavka.runtime.server import Server
from tests.kit.certificates import Authority
from tests.kit.tls_cluster import TlsCluster

API_VERSIONS = b"\0\0\0\x0e" + b"\0\x12\0\0\0\0\0\x07\0\x04test"


def total(cluster: TlsCluster, name: str) -> float:
    def read(server: Server) -> float:
        tags = {"listener": cluster.protocol, "networkProcessor": "0"}
        gauge = server.metrics.get("kafka.server", "socket-server-metrics", f"{name}-authentication-total", **tags)
        assert isinstance(gauge, Gauge)
        return gauge.read()

    return cluster.on_loop(read)


def becomes(cluster: TlsCluster, name: str, expected: float) -> bool:
    """A client knows earlier than its broker that a handshake failed."""
    until = time.monotonic() + 60
    while total(cluster, name) != expected and time.monotonic() < until:
        time.sleep(0.02)
    return total(cluster, name) == expected


def greet(cluster: TlsCluster, context: ssl.SSLContext) -> None:
    with cluster.connect(context) as connection:
        connection.sendall(API_VERSIONS)
        assert connection.recv(8)[4:] == b"\0\0\0\x07"


def fail_in_three_ways(cluster: TlsCluster, tmp_path: Path) -> None:
    """HTTP, a client that does not believe the broker, and a version that is not spoken."""
    with cluster.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(64) == b""
    with pytest.raises(ssl.SSLError):
        greet(cluster, ssl.create_default_context())
    with cluster.connect() as connection:
        connection.sendall(b"\x16\x03\x01\0\x2d\x01\0\0\x29\x03\x01" + bytes(32) + b"\0\0\x02\0\x2f\x01\0")
        connection.recv(64)


def test_handshakes_of_an_ssl_listener_are_counted(tmp_path: Path) -> None:
    with TlsCluster(tmp_path, inter_broker="PLAINTEXT") as cluster:
        good, bad = total(cluster, "successful"), total(cluster, "failed")
        for _ in range(3):
            greet(cluster, cluster.context("alice"))
        assert becomes(cluster, "successful", good + 3)
        fail_in_three_ways(cluster, tmp_path)
        assert becomes(cluster, "failed", bad + 3)
        stranger = ssl.create_default_context(cafile=str(cluster.authority_file))
        stranger.load_cert_chain(Authority("another").sign("mallory").write(tmp_path / "mallory.pem"))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            greet(cluster, stranger)
        assert becomes(cluster, "failed", bad + 4)
        assert total(cluster, "successful") == good + 3


def test_open_connections_are_told_by_suite_and_version(tmp_path: Path) -> None:
    """As Kafka tells them: who still speaks TLS 1.2 can be seen before it is switched off."""
    with TlsCluster(tmp_path, inter_broker="PLAINTEXT") as cluster:

        def spoken() -> dict[str, float]:
            def read(server: Server) -> dict[str, float]:
                [family] = [found for name, found in server.metrics.families() if name.name == "connections"]
                assert isinstance(family, Family)
                return {f"{dict(tags)['protocol']} {dict(tags)['cipher']}": count for tags, count in family.read()}

            return cluster.on_loop(read)

        older = cluster.context("alice")
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        older.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with cluster.connect(older) as one, cluster.connect(cluster.context("bob")) as other:
            for connection in (one, other):
                connection.sendall(API_VERSIONS)
                assert connection.recv(8)[4:] == b"\0\0\0\x07"
            assert spoken() == {
                "TLSv1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": 1,
                "TLSv1.3 TLS_AES_256_GCM_SHA384": 1,
            }
        until = time.monotonic() + 60
        while spoken() and time.monotonic() < until:
            time.sleep(0.02)
        assert spoken() == {}


def test_failed_handshakes_of_a_sasl_ssl_listener_are_counted_with_the_logins(tmp_path: Path) -> None:
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": "PlainLoginModule required user_alice='a';",
    }
    with TlsCluster(tmp_path, inter_broker="PLAINTEXT", protocol="SASL_SSL", settings=settings) as cluster:
        good, bad = total(cluster, "successful"), total(cluster, "failed")
        fail_in_three_ways(cluster, tmp_path)
        assert becomes(cluster, "failed", bad + 3)
        with cluster.connect(cluster.context()) as connection:
            connection.sendall(b"\0\0\0\x0a" + b"\0\x03\0\0\0\0\0\x07\0\0")  # Metadata before the login
            assert connection.recv(8) == b""
        assert becomes(cluster, "failed", bad + 4)
        assert total(cluster, "successful") == good
