"""Kafka's own kafka-configs, unmodified, sets, shows and removes quotas of a kavka broker (docs/quotas.md)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.apache_kafka import PeerMissing
from tests.apache_kafka.cluster import run_tool
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster

pytestmark = pytest.mark.kafka


@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_kafkas_own_tool_sets_shows_and_removes(tmp_path: Path) -> None:
    def work(port: int) -> list[str]:
        def configs(*arguments: str) -> str:
            return run_tool("zk", "kafka-configs", "--bootstrap-server", f"127.0.0.1:{port}", *arguments)

        alice = ("--entity-type", "users", "--entity-name", "alice")
        address = ("--entity-type", "ips", "--entity-name", "10.0.0.7")
        rates = "producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=50,controller_mutation_rate=1.5"
        return [
            configs("--alter", *alice, "--add-config", rates),
            configs(
                "--alter",
                *alice,
                "--entity-type",
                "clients",
                "--entity-name",
                "c 1",
                "--add-config",
                "request_percentage=5",
            ),
            configs("--alter", "--entity-type", "clients", "--entity-default", "--add-config", "producer_byte_rate=7"),
            configs("--alter", *address, "--add-config", "connection_creation_rate=10"),
            configs("--describe", *alice),
            configs("--describe", "--entity-type", "users", "--entity-type", "clients"),
            configs("--describe", "--entity-type", "clients"),
            configs("--describe", "--entity-type", "ips"),
            configs("--alter", *alice, "--delete-config", "producer_byte_rate"),
            configs("--describe", *alice),
        ]

    async def scenario() -> list[str]:
        async with InProcessCluster(tmp_path, count=1) as cluster:
            ((_host, port),) = cluster.bootstrap
            return await asyncio.to_thread(work, port)

    try:
        answers = asyncio.run(asyncio.wait_for(scenario(), 380))
    except PeerMissing as missing:
        pytest.skip(str(missing))
    for answer in (*answers[:4], answers[8]):
        assert "Completed updating" in answer
    alice, both, clients, addresses, after = *answers[4:8], answers[9]
    for rate in ("producer_byte_rate=1024.0", "consumer_byte_rate=2048.0", "request_percentage=50.0"):
        assert rate in alice
    assert "controller_mutation_rate=1.5" in alice
    assert "Quota configs for user-principal 'alice', client-id 'c 1' are request_percentage=5.0" in both
    assert "producer_byte_rate=7.0" in clients
    assert "connection_creation_rate=10.0" in addresses
    assert "producer_byte_rate" not in after
