"""Certificates that are replaced while the broker runs, and those that are refused then."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kavka.decisions import Decision, DecisionKind
from kavka.metrics import Gauge
from kavka.runtime.server import Server
from tests.kit.certificates import Authority
from tests.kit.tls_cluster import HOST, TlsCluster

SUBJECT = [("OU", "brokers"), ("CN", "broker 1")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TlsCluster]:
    with TlsCluster(tmp_path, settings={"kavka.ssl.reload.interval.ms": "50"}) as running:
        yield running


def shown(cluster: TlsCluster) -> str:
    """The certificate that the broker shows to a new connection, as PEM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection((HOST, cluster.ports[1]), 20) as raw, context.wrap_socket(raw) as connection:
        encoded = connection.getpeercert(binary_form=True)
        assert encoded is not None
        return ssl.DER_cert_to_PEM_cert(encoded)


def shows(cluster: TlsCluster, certificate: str) -> bool:
    deadline = time.monotonic() + 60
    while shown(cluster) != certificate:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def said(capfd: pytest.CaptureFixture[str], words: str) -> bool:
    """Whether the log says so, now or soon."""
    printed, deadline = "", time.monotonic() + 60
    while words not in printed:
        if time.monotonic() > deadline:
            return False
        out, err = capfd.readouterr()
        printed += out + err
        time.sleep(0.02)
    return True


@pytest.mark.setting("kavka.ssl.reload.interval.ms")
def test_a_replaced_file_is_used_for_new_connections_and_old_ones_stay(cluster: TlsCluster) -> None:
    with cluster.connect(cluster.context()) as before:
        new = cluster.authority.sign(SUBJECT)
        new.write(cluster.key_store())
        assert shows(cluster, new.certificate)
        before.sendall(b"\x00\x00\x00\x0e\x00\x12\x00\x00\x00\x00\x00\x07\x00\x04test")
        assert before.recv(8)[4:] == b"\x00\x00\x00\x07"


@pytest.mark.setting("ssl.allow.dn.changes", "ssl.allow.san.changes")
@pytest.mark.parametrize(
    ("subject", "names", "words"),
    [
        ([("CN", "another")], ("localhost", HOST), "DistinguishedName does not match"),
        (SUBJECT, (HOST,), "SubjectAltNames do not match"),
    ],
)
def test_a_certificate_of_another_name_is_refused(
    cluster: TlsCluster,
    capfd: pytest.CaptureFixture[str],
    subject: list[tuple[str, str]],
    names: tuple[str, ...],
    words: str,
) -> None:
    before = shown(cluster)
    recorded: list[Decision] = []
    cluster.on_loop(lambda server: server.broker.record.add(recorded.append))  # type: ignore[attr-defined]
    cluster.authority.sign(subject, names=names).write(cluster.key_store())
    assert said(capfd, words)
    assert shown(cluster) == before
    (decision,) = recorded
    assert decision.kind is DecisionKind.CERTIFICATE_REFUSED
    assert words in decision.why
    assert decision.evidence["listener"] == "SSL"
    assert decision.evidence["subject"] == "CN=broker 1,OU=brokers"


def test_a_pair_that_is_half_written_changes_nothing_until_it_is_whole(
    cluster: TlsCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    before, new = shown(cluster), cluster.authority.sign(SUBJECT)
    old_key = cluster.key_store().read_text().split("-----BEGIN CERTIFICATE-----")[0]
    cluster.key_store().write_text(old_key + new.certificate)
    assert said(capfd, "the key does not belong to the certificate")
    assert shown(cluster) == before
    new.write(cluster.key_store())
    assert shows(cluster, new.certificate)


def test_stores_that_cannot_be_read_at_all_are_refused_and_looked_at_again(
    cluster: TlsCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not even a name that nobody writes to holds the broker up."""
    before, new = shown(cluster), cluster.authority.sign(SUBJECT)
    cluster.authority_file.write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    assert said(capfd, "Empty certificate data")
    cluster.authority_file.write_text(cluster.authority.certificate)
    cluster.key_store().unlink()
    os.mkfifo(cluster.key_store())
    assert said(capfd, "is not a regular file")
    cluster.key_store().unlink()
    cluster.key_store().symlink_to("/dev/zero")
    assert said(capfd, "is not a regular file")
    cluster.key_store().unlink()
    with cluster.key_store().open("wb") as file:
        file.truncate(2**30)
    assert said(capfd, "larger than")
    assert shown(cluster) == before
    cluster.key_store().unlink()
    new.write(cluster.key_store())
    assert shows(cluster, new.certificate)


def test_a_certificate_that_other_brokers_would_not_trust_is_refused(
    cluster: TlsCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    before = shown(cluster)
    Authority("another").sign(SUBJECT).write(cluster.key_store())
    assert said(capfd, "brokers could not connect to each other")
    assert shown(cluster) == before


@pytest.mark.setting("ssl.keystore.location", "ssl.keystore.type", "ssl.truststore.location", "ssl.truststore.type")
def test_another_key_store_is_used_when_it_is_named_at_run_time(tmp_path: Path) -> None:
    with TlsCluster(tmp_path, settings={"kavka.ssl.reload.interval.ms": "0"}) as cluster:
        new = cluster.authority.sign(SUBJECT)
        store = new.write(tmp_path / "new.pem")
        trusted = tmp_path / "trusted.pem"
        trusted.write_text(cluster.authority.certificate)
        admin = AdminClient(cluster.librdkafka("admin"))
        for name, value in (
            ("truststore.type", "PEM"),
            ("truststore.location", str(trusted)),
            ("keystore.type", "PEM"),
            ("keystore.location", str(store)),
        ):
            setting = f"listener.name.ssl.ssl.{name}"
            entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(60)
        assert shows(cluster, new.certificate)


def test_a_gauge_tells_when_the_certificate_expires(cluster: TlsCluster) -> None:
    def read(server: Server) -> float:
        gauge = server.metrics.get("kafka.server", "socket-server-metrics", "certificate-expiry-ms", listener="SSL")
        assert isinstance(gauge, Gauge)
        return gauge.read()

    assert 29 < cluster.on_loop(read) / 86_400_000 <= 30


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_an_authority_signed_that_has_left_stays_and_does_not_come_in_again(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """Nor with the session of the connection that is open."""
    another = Authority("another")
    mine = another.sign("ada", names=()).write(tmp_path / "client-ada.pem")
    settings = {"kavka.ssl.reload.interval.ms": "50", "ssl.client.auth": "required"}
    cluster = TlsCluster(tmp_path, settings=settings)
    trusted = cluster.authority_file
    trusted.write_text(cluster.authority.certificate + another.certificate)
    context = ssl.create_default_context(cadata=cluster.authority.certificate)
    context.load_cert_chain(mine)
    context.minimum_version = context.maximum_version = version

    def is_let_in(session: ssl.SSLSession | None) -> bool:
        try:
            raw = socket.create_connection((HOST, cluster.ports[1]), 20)
            with context.wrap_socket(raw, server_hostname=HOST, session=session) as connected:
                return is_served(connected)
        except OSError:
            return False

    with cluster, cluster.connect(context) as before:
        assert is_served(before)
        assert is_let_in(before.session)
        trusted.write_text(cluster.authority.certificate)
        deadline = time.monotonic() + 60
        while is_let_in(None):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert not is_let_in(before.session)
        assert is_served(before)


def is_served(connection: ssl.SSLSocket) -> bool:
    connection.sendall(b"\x00\x00\x00\x0e\x00\x12\x00\x00\x00\x00\x00\x07\x00\x04test")
    head = connection.recv(4)
    if len(head) < 4:
        return False
    size, answer = int.from_bytes(head, "big"), b""
    while len(answer) < size:
        answer += connection.recv(size - len(answer))
    return answer[:4] == b"\x00\x00\x00\x07"
