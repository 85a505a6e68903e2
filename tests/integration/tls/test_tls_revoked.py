"""Certificates that were revoked, key files that others may read, and SIGHUP."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.errors import ConfigError
from tests.kit.certificates import Authority, Signed
from tests.kit.kavka_process import answers_metadata
from tests.kit.ports import free_port
from tests.kit.tls_cluster import HOST, TlsCluster

VERSIONS = b"\x00\x00\x00\x0f\x00\x12\x00\x00\x00\x00\x00\x01\x00\x05kavka"
"""ApiVersions 0, whole."""


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


def lets_in(cluster: TlsCluster, name: str) -> bool:
    """Whether a client with this certificate is answered."""
    try:
        with cluster.connect(cluster.context(name)) as connected:
            connected.sendall(VERSIONS)
            return bool(connected.recv(1))
    except OSError:
        return False


@pytest.mark.setting("kavka.ssl.crl.location")
def test_who_is_on_the_list_does_not_get_in_and_a_new_list_counts_without_a_restart(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lists = tmp_path / "revoked.pem"
    settings = {
        "kavka.ssl.crl.location": str(lists),
        "kavka.ssl.reload.interval.ms": "50",
        "ssl.client.auth": "required",
    }
    cluster = TlsCluster(tmp_path, settings=settings)
    signed = {name: cluster.sign(name) for name in ("ada", "bob")}
    for name, each in signed.items():
        each.write(tmp_path / f"client-{name}.pem")
    lists.write_text(cluster.authority.revoke(signed["ada"]))
    with cluster:
        assert not lets_in(cluster, "ada")
        assert lets_in(cluster, "bob")
        _replace(lists, cluster.authority.revoke(signed["bob"]))
        wait(lambda: not lets_in(cluster, "bob"))
        assert lets_in(cluster, "ada")
        _replace(lists, "nonsense")  # The list before stays in force.
        said = ""

        def is_refused() -> bool:
            nonlocal said
            said += "".join(capfd.readouterr())
            return "certificate refused" in said

        wait(is_refused)
        assert not lets_in(cluster, "bob")
        assert lets_in(cluster, "ada")


@pytest.mark.parametrize("kind", ["of another authority", "expired", "the broker's own", "no list", "not there"])
def test_a_broker_without_a_list_that_counts_does_not_start(kind: str, tmp_path: Path) -> None:
    lists = tmp_path / "revoked.pem"
    cluster = TlsCluster(tmp_path, settings={"kavka.ssl.crl.location": str(lists), "ssl.client.auth": "required"})
    own = Signed(cluster.key_store().read_text(), "")
    authority = cluster.authority
    texts = {
        "of another authority": Authority("another").revoke(),
        "expired": authority.revoke(days=-1),
        "the broker's own": authority.revoke(own),
        "no list": authority.certificate,
    }
    if kind in texts:
        lists.write_text(texts[kind])
    with pytest.raises(ConfigError), cluster:
        pass


@pytest.mark.setting("kavka.strict.key.permissions")
@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_key_that_others_may_read_is_refused_where_that_is_asked_for(strict: str, tmp_path: Path) -> None:
    cluster = TlsCluster(tmp_path, settings={"kavka.strict.key.permissions": strict})
    cluster.key_store().chmod(0o644)
    if strict == "true":
        with pytest.raises(ConfigError, match="chmod o-r"), cluster:
            pass
        return
    with cluster:
        assert lets_in(cluster, "ada")


def _replace(path: Path, text: str) -> None:
    """In one step: a list that is half written would be refused, and looked at again."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_at_sighup_a_broker_looks_at_its_certificates_at_once(tmp_path: Path) -> None:
    cluster = TlsCluster(tmp_path)  # Only its files and ports are used: the broker has a process of its own.
    port, plain = free_port(), free_port()
    file = tmp_path / "server.properties"
    file.write_text(
        f"listeners=SSL://{HOST}:{port},PLAINTEXT://{HOST}:{plain}\nbroker.id=1\n"
        f"log.dirs={tmp_path}/logs\nssl.keystore.type=PEM\nssl.keystore.location={cluster.key_store()}\n"
        "kavka.ssl.reload.interval.ms=0\n"
    )
    command = [str(Path(sys.executable).parent / "kavka"), "server", str(file)]
    with (tmp_path / "log").open("w") as log:
        broker = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait(lambda: answers_metadata(plain, timeout_s=1))
        new = cluster.authority.sign([("OU", "brokers"), ("CN", "broker 1")])
        new.write(cluster.key_store())
        assert not _shows(port, new)
        broker.send_signal(signal.SIGHUP)
        wait(lambda: _shows(port, new))
        assert broker.poll() is None
    finally:
        broker.terminate()
        assert broker.wait(60) == 0, (tmp_path / "log").read_text()


def _shows(port: int, signed: Signed) -> bool:
    return ssl.get_server_certificate((HOST, port), timeout=60).strip() == signed.certificate.strip()


@pytest.mark.thorough
def test_sighup_ends_no_process_of_a_cluster_with_processes(tmp_path: Path) -> None:
    port = free_port()
    command = [str(Path(sys.executable).parent / "kavka"), "up", "--processes", "--no-console", "--brokers", "1"]
    with (tmp_path / "log").open("w") as log:
        up = subprocess.Popen(
            [*command, "--port", str(port), "--data", str(tmp_path / "data")],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait(lambda: "ready" in (tmp_path / "log").read_text())
        children = [int(pid) for pid in Path(f"/proc/{up.pid}/task/{up.pid}/children").read_text().split()]
        assert len(children) == 2
        for pid in (up.pid, *children):
            os.kill(pid, signal.SIGHUP)
        wait(lambda: answers_metadata(port, timeout_s=1))
        assert up.poll() is None
        assert all(Path(f"/proc/{pid}").exists() for pid in children)
    finally:
        up.terminate()
        assert up.wait(60) == 0, (tmp_path / "log").read_text()
