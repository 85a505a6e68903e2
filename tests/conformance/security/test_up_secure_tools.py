"""Kafka 3.9's own tools on `kavka up --secure`, with the files of the administrator and of a user as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apache_kafka import PeerMissing
from tests.apache_kafka.cluster import run_tool
from tests.integration.security.test_up_secure import up
from tests.kit.command_line import run_alone

pytestmark = pytest.mark.kafka

ROWS = "".join(f"{number}\n" for number in range(50))


@pytest.mark.thorough
@pytest.mark.timeout(500)
@pytest.mark.parametrize("words", [("--brokers", "3"), ("--mtls",)], ids=["passwords", "certificates"])
def test_tools_of_kafka_get_in_with_the_files_as_they_are(tmp_path: Path, words: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    with up(data, "--secure", *words) as ready:
        admin = str(data / "security" / "admin.properties")
        servers = ready.get("bootstrap") or ",".join(ready["listeners"].values())
        at = ("--bootstrap-server", servers)
        try:
            run_tool("zk", "topics", *at, "--command-config", admin, "--create", "--topic", "orders")
        except PeerMissing as missing:
            pytest.skip(str(missing))
        assert "orders" in run_tool("zk", "topics", *at, "--command-config", admin, "--list")
        made = run_alone(
            *("users", "add", "alice", "--allow", "all:orders", "--group", "*", "--files", str(tmp_path / "hers")),
            KAVKA_CLIENT_CONFIG=admin,
        )
        assert made.returncode == 0, made.stderr
        for who, offset in (admin, 0), (str(tmp_path / "hers" / "alice.properties"), 50):
            run_tool("zk", "console-producer", *at, "--topic", "orders", "--producer.config", who, text=ROWS)
            shown = run_tool(
                *("zk", "console-consumer", *at, "--topic", "orders", "--consumer.config", who),
                *("--from-beginning", "--max-messages", str(offset + 50), "--timeout-ms", "60000"),
            )
            assert shown.count("\n") >= offset + 50, shown
        acls = run_tool("zk", "acls", *at, "--command-config", admin, "--list")
        assert "User:alice" in acls
