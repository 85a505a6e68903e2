"""`kavka security check`: nothing is found on a secured cluster, and each door that is open is."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kavka.cli.app import run
from kavka.client.acl_admin import AclAdmin
from kavka.client.cluster import Cluster
from kavka.client.settings import ClientSettings
from kavka.client.user_admin import UserAdmin
from kavka.runtime.tls.tls_network import TlsNetwork
from kavka.security.acls import Binding, Entry, Operation, Permission
from kavka.security.resource_patterns import Pattern, ResourceType
from kavka.security.scram_credentials import ScramMechanism
from kavka.security.secret import Secret
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.certificates import Authority
from tests.kit.command_line import run_alone
from tests.kit.ports import free_port
from tests.kit.tls_cluster import HOST, TlsCluster


def checked(*words: str) -> tuple[int, dict[str, Any]]:
    """The exit status and what was found."""
    done = run_alone("security", "check", *words, "--json")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def found(answer: dict[str, Any]) -> list[str]:
    return [each["name"] for each in answer["findings"]]


class Secured:
    """One broker: SCRAM over TLS for clients, certificates between brokers, an authorizer, ZooKeeper without a port."""

    def __init__(self, directory: Path) -> None:
        self.clients, self.brokers = free_port(), free_port()
        settings = {
            "listeners": f"SASL_SSL://{HOST}:{self.clients},SSL://{HOST}:{self.brokers}",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "ssl.client.auth": "none",
            "listener.name.ssl.ssl.client.auth": "required",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:CN=broker 1,OU=brokers;User:admin",
        }
        self.cluster = TlsCluster(directory, settings=settings, protocol="SASL_SSL", inter_broker="SSL")
        self.cluster.authority = Authority(days=365)
        self.cluster.authority_file.write_text(self.cluster.authority.certificate)
        long = self.cluster.authority.sign([("OU", "brokers"), ("CN", "broker 1")], days=90)
        long.write(self.cluster.key_store())
        self.authority = str(self.cluster.authority_file)

    async def administer(self, work: Any) -> None:
        """As the broker itself."""
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.cluster.key_store())
        async with Cluster(TlsNetwork(context), [(HOST, self.brokers)], ClientSettings()) as cluster:
            await work(cluster)

    def client_file(self, path: Path) -> str:
        path.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=admin\nsasl.password=a b c\n"
            f"ssl.ca.location={self.authority}\n"
        )
        return str(path)


def test_nothing_is_found_on_a_secured_cluster_from_outside_and_from_inside(tmp_path: Path) -> None:
    secured = Secured(tmp_path)

    async def add_admin(cluster: Cluster) -> None:
        await UserAdmin(cluster).set("admin", Secret("a b c"), [ScramMechanism.SHA_512], 4096)

    async def open_topics(cluster: Cluster) -> None:
        entry = Entry("User:*", "*", Operation.READ, Permission.ALLOW)
        await AclAdmin(cluster).add([Binding(Pattern(ResourceType.TOPIC, "*"), entry)])

    with secured.cluster:
        asyncio.run(secured.administer(add_admin))
        address, trust = f"{HOST}:{secured.clients}", ("--ca", secured.authority)

        status, outside = checked(address, *trust, "--try-passwords")
        assert (status, outside["findings"], outside["could_not_tell"]) == (0, [], [])
        assert outside["sasl_mechanisms"] == ["SCRAM-SHA-512"]
        assert set(outside["tls"]["suites"]) == {"TLSv1.2", "TLSv1.3"}
        assert outside["tls"]["client_auth"] == "none"
        assert outside["tls"]["believed"] is True
        (leaf,) = outside["tls"]["chain"]
        assert leaf["subject"] == "CN=broker 1,OU=brokers"
        assert leaf["names"] == ["DNS:localhost", "IP:127.0.0.1"]
        assert leaf["days_left"] in (89, 90)

        login = ("--client-config", secured.client_file(tmp_path / "admin.properties"))
        status, inside = checked(address, *login)
        assert (status, inside["findings"], inside["could_not_tell"]) == (0, [], [])
        assert not any("access control" in each["question"] for each in inside["not_looked_at"])

        status, between = checked(f"{HOST}:{secured.brokers}", *trust)
        assert (status, between["findings"], between["could_not_tell"]) == (0, [], [])
        assert between["tls"]["client_auth"] == "required"

        status, strange = checked(address)  # Nobody on this machine believes the test's authority.
        assert (status, found(strange)) == (1, ["certificate-not-believed"])

        asyncio.run(secured.administer(open_topics))
        status, opened = checked(address, *login)
        assert (status, found(opened)) == (1, ["acl-for-everybody"])


def test_an_open_listener_gives_each_of_its_findings(tmp_path: Path) -> None:
    async def scenario() -> tuple[int, dict[str, Any]]:
        async with InProcessCluster(tmp_path, count=1) as cluster:
            ((host, port),) = cluster.bootstrap
            return await asyncio.to_thread(checked, f"{host}:{port}")

    status, answer = asyncio.run(asyncio.wait_for(scenario(), 280))
    assert status == 1
    assert {
        "no-encryption",
        "no-authentication",
        "metadata-for-anybody",
        "settings-for-anybody",
        "broker-requests-for-anybody",
        "administration-for-anybody",
        "no-authorizer",
        "brokers-in-clear",
    } <= set(found(answer))
    assert all(each["why"] and each["mend"] for each in answer["findings"])


@contextmanager
def tls_server(context: ssl.SSLContext) -> Iterator[int]:
    """A server that shakes hands, hears one request, and closes."""
    listening = socket.create_server((HOST, 0), backlog=64)

    def serve() -> None:
        while True:
            try:
                raw, _ = listening.accept()
            except OSError:
                return
            raw.settimeout(10)
            try:
                with context.wrap_socket(raw, server_side=True) as connected:
                    connected.recv(1000)
            except OSError:
                raw.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_bad_suites_and_a_certificate_that_ends_are_found(tmp_path: Path) -> None:
    authority = Authority()
    store = authority.sign("server", names=("elsewhere",), days=3).write(tmp_path / "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(store)
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ECDHE-ECDSA-AES128-SHA:AECDH-AES128-SHA:ECDHE-ECDSA-AES256-GCM-SHA384:@SECLEVEL=0")
    (tmp_path / "authority.pem").write_text(authority.certificate)
    with tls_server(context) as port:
        status, answer = checked(f"{HOST}:{port}", "--ca", str(tmp_path / "authority.pem"))
    assert status == 1
    assert found(answer) == ["old-tls", "weak-suites", "certificate-not-believed", "certificate-ends"]
    assert "TLSv1" in answer["tls"]["suites"]
    assert "mismatch" in answer["findings"][2]["what"]
    assert answer["could_not_tell"], "a server that is no Kafka says nothing of SASL"


def test_what_cannot_be_reached_or_says_nothing_is_not_called_well() -> None:
    status, answer = checked(f"{HOST}:{free_port()}")
    assert (status, answer["findings"]) == (2, [])
    assert "refused" in answer["could_not_tell"][0]["why"]
    with socket.create_server((HOST, 0), backlog=8) as silent:
        status, answer = checked(f"{HOST}:{silent.getsockname()[1]}", "--timeout", "1")
    assert (status, answer["findings"]) == (2, [])
    assert answer["could_not_tell"]


@pytest.mark.parametrize(
    "words", [["a:1,b:2"], ["PLAINTEXT://a:1"], ["a:1", "--ca", "/nowhere.pem"], ["a:1", "--client-config", "/no"]]
)
def test_a_wrong_command_line_is_refused(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["security", "check", *words]) == 2
    out, err = capfd.readouterr()
    assert not out
    assert "Next:" in err
