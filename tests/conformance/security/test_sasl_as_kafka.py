"""SASL exchanges, right and wrong: kavka answers as Apache Kafka 3.9 and 4.3 do. And Kafka's own tool keeps users."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client.cluster import Cluster
from kavka.client.security import SaslMechanism, SaslSettings
from kavka.client.settings import ClientSettings
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages import MetadataRequest, MetadataResponse
from kavka.runtime.network.network import SocketNetwork
from kavka.security.scram_credentials import ScramCredential, ScramMechanism, credential_of, salted
from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.znodes import ConfigEntity
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.apache_kafka.cluster import CONTROLLER_DISTANCE, run_tool
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.ports import free_port
from tests.kit.sasl_script import LISTENER, SESSION_MS, add_user, run, settings, wait_for_user

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApacheKafka, int]]:
    try:
        broker = ApacheKafka(tmp_path_factory.mktemp("sasl") / "zk", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    port = free_port()
    broker.set(settings(port, broker.port))
    with broker:
        yield broker, port


@pytest.fixture(scope="module")
def newest_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApacheKafka, int]]:
    try:
        broker = ApacheKafka(tmp_path_factory.mktemp("sasl") / "kraft", mode="kraft", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    port = free_port()
    own = settings(port, broker.port)
    own["listeners"] += f",CONTROLLER://127.0.0.1:{broker.port + CONTROLLER_DISTANCE}"
    own["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    broker.set(own)
    with broker:
        yield broker, port


def on_kavka(path: Path, work: Callable[[int, int], Any]) -> Any:
    own = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}

    async def scenario() -> Any:
        async with InProcessCluster(path, count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            ((_host, plaintext_port),) = cluster.bootstrap
            return await asyncio.to_thread(work, cluster.ports_of[LISTENER][1], plaintext_port)

    return asyncio.run(asyncio.wait_for(scenario(), 300))


@pytest.mark.timeout(700)
def test_every_exchange_is_answered_alike(kafka: tuple[ApacheKafka, int], tmp_path: Path) -> None:
    broker, port = kafka
    theirs = run(port, broker.port)
    ours = on_kavka(tmp_path, run)
    different = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    assert not different, "\n".join(f"{name}:\n  kafka {a}\n  kavka {b}" for name, (a, b) in different.items())


@pytest.mark.thorough
@pytest.mark.timeout(700)
def test_kafka_4_answers_alike_and_takes_kavkas_users(newest_kafka: tuple[ApacheKafka, int], tmp_path: Path) -> None:
    """Its controller takes one credential of a user in a request: `kavka users add` asks for one after the other."""
    broker, port = newest_kafka
    command = [str(Path(sys.executable).with_name("kavka")), "users", "add", "bob", "-b", broker.bootstrap]
    added = subprocess.run(
        [*command, "--password-file", "-"],
        input="bob-secret\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "bob can log in with SCRAM-SHA-256 and SCRAM-SHA-512" in added.stderr
    wait_for_user(port, "bob", "bob-secret")
    theirs = run(port, broker.port)
    ours = on_kavka(tmp_path, run)
    different = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    assert not different, "\n".join(f"{name}:\n  kafka {a}\n  kavka {b}" for name, (a, b) in different.items())


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_kavkas_client_renews_its_session_on_apache_kafka(kafka: tuple[ApacheKafka, int]) -> None:
    """Kafka closes the connection at the first request after the end, unless the client has logged in again."""
    broker, port = kafka

    async def work(mechanism: SaslMechanism) -> None:
        login = SaslSettings(mechanism=mechanism, username="alice", password="alice-secret")
        async with Cluster(SocketNetwork(), [("127.0.0.1", port)], ClientSettings(sasl=login)) as client:
            connection = await client.any_connection()
            for _ in range(2):
                await asyncio.sleep(SESSION_MS / 1000 + 0.1)
                asked = (
                    connection.request(ApiKey.METADATA, MetadataRequest(topics=[]), MetadataResponse) for _ in range(4)
                )
                assert all(answer.brokers for answer in await asyncio.gather(*asked))
            assert connection.is_open

    async def scenario() -> None:
        await asyncio.gather(work(SaslMechanism.PLAIN), work(SaslMechanism.SCRAM_SHA_512))

    assert add_user(broker.port, "alice", "alice-secret") == {"alice": 0}
    wait_for_user(port, "alice", "alice-secret")
    asyncio.run(asyncio.wait_for(scenario(), 120))


@pytest.mark.thorough
@pytest.mark.timeout(700)
def test_kafkas_own_tool_adds_lists_and_removes_users(tmp_path: Path) -> None:
    def work(port: int, plaintext_port: int) -> tuple[str, str, str]:
        there = ("--bootstrap-server", f"127.0.0.1:{plaintext_port}", "--entity-type", "users")
        credentials = "SCRAM-SHA-256=[iterations=8192,password=dave-secret],SCRAM-SHA-512=[password=dave-secret]"
        added = run_tool("zk", "kafka-configs", *there, "--alter", "--entity-name", "dave", "--add-config", credentials)
        wait_for_user(port, "dave", "dave-secret")
        listed = run_tool("zk", "kafka-configs", *there, "--describe")
        run_tool("zk", "kafka-configs", *there, "--alter", "--entity-name", "dave", "--delete-config", "SCRAM-SHA-256")
        return added, listed, run_tool("zk", "kafka-configs", *there, "--describe", "--entity-name", "dave")

    try:
        added, listed, after = on_kavka(tmp_path, work)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    assert "Completed updating config for user dave." in added
    assert "SCRAM credential configs for user-principal 'dave' are SCRAM-SHA-256=iterations=8192" in listed
    assert "SCRAM-SHA-512=iterations=4096" in listed
    assert "SCRAM-SHA-256" not in after
    assert "SCRAM-SHA-512=iterations=4096" in after


@pytest.mark.timeout(300)
def test_kafkas_own_tool_adds_a_user_before_any_broker_runs(tmp_path: Path) -> None:
    port = free_port()
    command = [str(Path(sys.executable).with_name("kavka")), "zookeeper", "--port", str(port), "--data", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert "ready" in server.stdout.readline()
        there = ("--zookeeper", f"127.0.0.1:{port}", "--entity-type", "users", "--entity-name", "al ice")
        try:
            said = run_tool("zk", "kafka-configs", *there, "--alter", "--add-config", "SCRAM-SHA-512=[password=pw-1]")
        except PeerMissing as missing:
            pytest.skip(str(missing))
        assert "Completed updating config for entity: user-principal 'al ice'" in said

        async def stored() -> bytes | None:
            session = await ZooKeeperClient.connect(
                SocketNetwork(),
                f"127.0.0.1:{port}",
                session_timeout_ms=6000,
                connection_timeout_ms=6000,
                rng=random.Random(),
            )
            data, _stat = await session.get("/config/users/al%20ice")
            await session.close()
            return data

        data = asyncio.run(stored())
        entity = ConfigEntity.decode("users/al%20ice", data)
        assert entity.encode() == data
        text = entity.config["SCRAM-SHA-512"]
        read = ScramCredential.decode(text)
        made = salted(ScramMechanism.SHA_512, "pw-1", read.salt, read.iterations)
        assert credential_of(ScramMechanism.SHA_512, read.salt, made, read.iterations).encode() == text
    finally:
        server.terminate()
        server.wait(20)
