"""The commands of kavka on a cluster with TLS: they take a client's file, and get in by nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.kit.command_line import run_alone
from tests.kit.tls_cluster import TlsCluster


def test_commands_get_in_with_a_clients_file(tmp_path: Path) -> None:
    with TlsCluster(tmp_path, settings={"listener.name.ssl.ssl.client.auth": "required"}) as cluster:
        own = cluster.client_file("ada")
        file = tmp_path / "ada.properties"
        address = f"127.0.0.1:{cluster.ports[1]}"
        file.write_text(
            f"bootstrap.servers={address}\nsecurity.protocol=SSL\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={cluster.authority_file}\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={own}\n"
        )
        chosen = ("--client-config", str(file))
        made = run_alone("topics", "create", "orders", *chosen)
        assert made.returncode == 0, made.stderr
        sent = run_alone("produce", "orders", "--command-config", str(file), given=b"one\n")
        assert sent.returncode == 0, sent.stderr
        read = run_alone("consume", "orders", "-o", "beginning", "-e", KAVKA_CLIENT_CONFIG=str(file))
        assert read.stdout == b"one\n", read.stderr
        health = run_alone("health", "--json", "--fail-on", "never", *chosen)
        assert health.returncode == 0, health.stderr
        assert b'"score"' in health.stdout
        for words in (("topics", "list"), ("why", "orders")):
            refused = run_alone(*words, "-b", address)
            assert refused.returncode == 1, refused
            assert b"Error" in refused.stderr
        unknown = run_alone("health", "-b", address)
        assert unknown.returncode == 1, unknown
        assert b"no broker answers" in unknown.stdout
