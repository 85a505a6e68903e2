"""kafka-reassign-partitions and kafka-leader-election of Kafka 3.9 and 4.3 against a cluster."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kavka.client.admin import Admin, ConfigResource, ConfigSource, NewTopic, ResourceType
from tests.apache_kafka import PeerMissing, installed, run_tool
from tests.kit.three_brokers import Brokers

# A dozen JVMs one after another, on two cores that other tests share.
pytestmark = pytest.mark.timeout(400)

Tool = Callable[..., str]
THROTTLE = "20000000"
CRAWL = "1000"
"""Bytes per second: a move that does not end by itself in a test."""


@pytest.fixture(scope="module", params=["zk", pytest.param("kraft", marks=pytest.mark.thorough)])
def tool(request: pytest.FixtureRequest, brokers: Brokers) -> Tool:
    """Runs a tool of Kafka 3.9 or 4.3 against the brokers; returns what it printed."""
    try:
        installed(request.param)
    except PeerMissing as missing:
        pytest.skip(str(missing))

    def run(name: str, *arguments: str) -> str:
        try:
            return run_tool(request.param, name, "--bootstrap-server", brokers.bootstrap, *arguments)
        except subprocess.CalledProcessError as failed:
            return f"exit {failed.returncode}\n{failed.stdout}"

    return run


@pytest.fixture
def topic(request: pytest.FixtureRequest, brokers: Brokers) -> str:
    """Two partitions on brokers 1 and 2. The first holds ten megabytes: a throttle lets a fetch of one through, and the
    next when that is forgotten, after eleven seconds."""
    name = f"tools-{abs(hash(request.node.name)) % 1_000_000}-{time.time_ns() % 1_000_000}"

    async def create(admin: Admin) -> None:
        assert await admin.create_topics([NewTopic(name, assignments=[(1, 2), (2, 1)])]) == {}

    brokers.ask(create)
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all"})
    for number in range(100):
        producer.produce(name, random.Random(number).randbytes(100_000), partition=0)
    assert producer.flush(30) == 0
    return name


def plan(path: Path, topic: str, *replicas: tuple[int, ...]) -> str:
    partitions = [{"topic": topic, "partition": number, "replicas": list(each)} for number, each in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def replicas_of(brokers: Brokers, topic: str) -> list[tuple[int, ...]]:
    async def describe(admin: Admin) -> list[tuple[int, ...]]:
        (found,) = await admin.describe_topics([topic])
        return [each.replicas for each in found.partitions]

    return brokers.ask(describe)


def throttles(brokers: Brokers, topic: str) -> set[str]:
    """Names of the throttles that are set anywhere."""

    async def describe(admin: Admin) -> set[str]:
        resources = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in (1, 2, 3)]
        found = await admin.describe_configs([*resources, ConfigResource(ResourceType.TOPIC, topic)])
        return {
            entry.name
            for entries in found.values()
            for entry in entries
            if "throttled" in entry.name and entry.source in (ConfigSource.DYNAMIC_BROKER, ConfigSource.TOPIC)
        }

    return brokers.ask(describe)


def test_execute_list_and_verify(brokers: Brokers, tool: Tool, topic: str, tmp_path: Path) -> None:
    file = plan(tmp_path / "move.json", topic, (3, 1), (2, 3))
    printed = tool("reassign-partitions", "--execute", "--reassignment-json-file", file, "--throttle", THROTTLE)
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in printed
    assert "Current partition replica assignment" in printed
    deadline = time.monotonic() + 60
    while "is still in progress" in (
        printed := tool("reassign-partitions", "--verify", "--reassignment-json-file", file)
    ):
        assert time.monotonic() < deadline, printed
    for number in (0, 1):
        assert f"Reassignment of partition {topic}-{number} is completed." in printed
    assert "Clearing broker-level throttles on brokers 1,2,3" in printed
    assert f"Clearing topic-level throttles on topic {topic}" in printed
    assert throttles(brokers, topic) == set()
    assert replicas_of(brokers, topic) == [(3, 1), (2, 3)]
    assert "No partition reassignments found." in tool("reassign-partitions", "--list")


@pytest.mark.thorough
def test_cancel_a_move_that_crawls(brokers: Brokers, tool: Tool, topic: str, tmp_path: Path) -> None:
    file = plan(tmp_path / "move.json", topic, (3, 1), (2, 1))
    printed = tool("reassign-partitions", "--execute", "--reassignment-json-file", file, "--throttle", CRAWL)
    assert "Successfully started partition reassignment" in printed
    assert len(throttles(brokers, topic)) == 4
    printed = tool("reassign-partitions", "--list")
    assert f"{topic}-0: replicas: 3,1,2. adding: 3. removing: 2." in printed
    printed = tool("reassign-partitions", "--execute", "--reassignment-json-file", file)
    assert "Cannot execute because there is an existing partition assignment" in printed
    printed = tool("reassign-partitions", "--cancel", "--reassignment-json-file", file)
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in printed
    assert throttles(brokers, topic) == set()
    assert [sorted(each) for each in replicas_of(brokers, topic)] == [[1, 2], [1, 2]]
    printed = tool("reassign-partitions", "--cancel", "--reassignment-json-file", file)
    assert "None of the specified partition reassignments are active." in printed


@pytest.mark.thorough
def test_preferred_and_unclean_elections(brokers: Brokers, tool: Tool, topic: str, tmp_path: Path) -> None:
    file = plan(tmp_path / "turn.json", topic, (2, 1), (2, 1))
    assert "Successfully started" in tool("reassign-partitions", "--execute", "--reassignment-json-file", file)
    one = ("--topic", topic, "--partition", "0")
    printed = tool("leader-election", "--election-type", "preferred", *one)
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in printed
    printed = tool("leader-election", "--election-type", "preferred", *one)
    assert f"Valid replica already elected for partitions {topic}-0" in printed
    printed = tool("leader-election", "--election-type", "unclean", *one)
    assert f"Valid replica already elected for partitions {topic}-0" in printed
    printed = tool("leader-election", "--election-type", "preferred", "--all-topic-partitions")
    assert "exit" not in printed
    printed = tool("leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "9")
    assert "exit 1" in printed
    assert "does not exist" in printed
