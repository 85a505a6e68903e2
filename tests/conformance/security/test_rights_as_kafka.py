"""Requests with no right and with each needed right alone: kavka answers as Apache Kafka 3.9 does.

And Kafka's own tool, unmodified, adds, lists and removes access control lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.apache_kafka.cluster import run_tool
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.broker_client import BrokerClient
from tests.kit.rights_script import SETTINGS, reserve, run

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    try:
        broker = ApacheKafka(tmp_path_factory.mktemp("rights") / "zk", settings=SETTINGS, heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with broker:
        yield broker


def on_kavka(path: Path, work: Callable[[int], Any]) -> Any:
    async def scenario() -> Any:
        async with InProcessCluster(path, count=1, settings=SETTINGS) as cluster:
            ((_host, port),) = cluster.bootstrap
            return await asyncio.to_thread(work, port)

    return asyncio.run(asyncio.wait_for(scenario(), 300))


@pytest.mark.timeout(700)
def test_every_api_answers_with_the_same_codes(kafka: ApacheKafka, tmp_path: Path) -> None:
    theirs = run(int(kafka.bootstrap.rpartition(":")[2]))
    ours = on_kavka(tmp_path, run)
    different = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    assert not different, "\n".join(f"{name}:\n  kafka {a}\n  kavka {b}" for name, (a, b) in different.items())


TOOL = ("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders-", *("--group", "g"))


@pytest.mark.thorough
@pytest.mark.timeout(700)
def test_kafkas_own_tool_adds_lists_and_removes(tmp_path: Path) -> None:
    def work(port: int) -> tuple[str, str, str, str]:
        with BrokerClient(port) as admin:
            reserve(admin)
        there = ("--bootstrap-server", f"127.0.0.1:{port}")
        added = run_tool("zk", "kafka-acls", *there, *TOOL)
        producer = (
            "--producer",
            "--allow-principal",
            "User:bob",
            "--topic",
            "p",
            "--resource-pattern-type",
            "prefixed",
        )
        run_tool("zk", "kafka-acls", *there, "--add", *producer)
        listed = run_tool("zk", "kafka-acls", *there, "--list", "--principal", "User:bob")
        removed = run_tool("zk", "kafka-acls", *there, "--remove", "--force", *producer)
        after = run_tool("zk", "kafka-acls", *there, "--list", "--topic", "orders-")
        return added, listed, removed, after

    try:
        added, listed, _removed, after = on_kavka(tmp_path, work)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in added
    assert "resourceType=TOPIC, name=p, patternType=PREFIXED" in listed
    assert {"WRITE", "DESCRIBE", "CREATE"} <= {word.strip(",") for word in listed.replace("=", " ").split()}
    assert "User:alice" in after
