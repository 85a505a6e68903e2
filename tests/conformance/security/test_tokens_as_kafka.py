"""Delegation tokens: kavka answers as Apache Kafka 3.9 does, request by request."""

from __future__ import annotations

import asyncio
import base64
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType
from kavka.security.scram_credentials import ScramMechanism
from tests.apache_kafka import ApacheKafka, PeerMissing, Release
from tests.apache_kafka.cluster import run_tool
from tests.apache_kafka.release import VERSIONS
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.kavka_process import answers_metadata
from tests.kit.ports import free_port
from tests.kit.sasl_script import Wire
from tests.kit.token_script import (
    LISTENER,
    Made,
    allow,
    by_token,
    create,
    describe,
    eventually,
    expire,
    logged_in,
    renew,
    run,
    settings,
)

pytestmark = pytest.mark.kafka


def on_kavka(path: Path, work: Callable[[int, int], Any]) -> Any:
    own = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}

    async def scenario() -> Any:
        async with InProcessCluster(path, count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            ((_host, plaintext_port),) = cluster.bootstrap
            return await asyncio.to_thread(work, cluster.ports_of[LISTENER][1], plaintext_port)

    return asyncio.run(asyncio.wait_for(scenario(), 300))


@pytest.mark.timeout(700)
def test_every_request_about_tokens_is_answered_alike(tmp_path: Path) -> None:
    try:
        broker = ApacheKafka(tmp_path / "zk", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    port = free_port()
    broker.set(settings(port, broker.port))
    with broker:
        theirs = run(port, broker.port)
    ours = on_kavka(tmp_path / "kavka", run)
    assert len(theirs) > 100
    different = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    assert not different, "\n".join(f"{name}:\n  kafka {a}\n  kavka {b}" for name, (a, b) in different.items())


def plain(path: Path, user: str) -> str:
    """A file with the settings of a Java client that logs in with its password."""
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{user}-secret";\n'
    )
    return str(path)


def with_token(path: Path, made: Made, mechanism: str) -> str:
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{made.token_id}" password="{made.password}" tokenauth="true";\n'
    )
    return str(path)


def made_by_tool(said: str) -> Made:
    found = re.search(r"^([\w-]{22}) (\S{88}) User:alice", said, re.MULTILINE)
    assert found is not None, said
    return Made(found[1], base64.b64decode(found[2]))


@pytest.mark.thorough
@pytest.mark.timeout(700)
def test_kafkas_own_tool_and_its_clients_work_with_tokens_of_kavka(tmp_path: Path) -> None:
    def work(port: int, plaintext_port: int) -> None:
        for operation in (Operation.CREATE, Operation.WRITE, Operation.READ):
            allow(plaintext_port, "alice", operation, ResourceType.TOPIC, "t")
        allow(plaintext_port, "alice", Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "kafka-cluster")
        allow(plaintext_port, "alice", Operation.READ, ResourceType.GROUP, "g")
        bootstrap = f"127.0.0.1:{port}"
        alice = ("--bootstrap-server", bootstrap, "--command-config", plain(tmp_path / "alice", "alice"))
        bob = ("--bootstrap-server", bootstrap, "--command-config", plain(tmp_path / "bob", "bob"))

        def tool(*words: str) -> str:
            return run_tool("zk", "kafka-delegation-tokens", *words)

        made = made_by_tool(tool(*alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"))
        assert "Completed renew operation" in tool(
            *bob, "--renew", "--renew-time-period", "600000", "--hmac", made.password
        )
        assert made.password in tool(*alice, "--describe", "--owner-principal", "User:alice")
        for number, mechanism in enumerate(("SCRAM-SHA-256", "SCRAM-SHA-512")):
            config = with_token(tmp_path / mechanism, made, mechanism)
            produced = ("--bootstrap-server", bootstrap, "--topic", "t", "--producer.config", config)
            run_tool("zk", "kafka-console-producer", *produced, text=f"{mechanism}\n")
            consumed = ("--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "1")
            said = run_tool(
                "zk", "kafka-console-consumer", "--bootstrap-server", bootstrap, *consumed, "--consumer.config", config
            )
            assert mechanism in said, number
        assert "Completed expire operation" in tool(
            *bob, "--expire", "--expiry-time-period", "-1", "--hmac", made.password
        )
        assert by_token(port, made)[1][0] == "SASL_AUTHENTICATION_FAILED"

    try:
        Release(VERSIONS["zk"]).installed()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    on_kavka(tmp_path / "kavka", work)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Ports of Apache Kafka, which is the controller, and of kavka, on one ZooKeeper."""
    try:
        kafka = ApacheKafka(tmp_path / "kafka", heap="-Xmx384M -Xms128M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    theirs, ours, plaintext = free_port(), free_port(), free_port()
    kafka.set(settings(theirs, kafka.port))
    own = {
        **settings(ours, plaintext),
        "broker.id": "2",
        "log.dirs": str(tmp_path / "logs"),
        "zookeeper.connect": kafka.zookeeper,
    }
    file = tmp_path / "kavka.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in own.items()))
    with kafka, (tmp_path / "kavka.log").open("w") as log:
        command = [str(Path(sys.executable).parent / "kavka"), "server", str(file)]
        broker = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            for _ in range(600):
                if answers_metadata(plaintext, brokers=2, timeout_s=1):
                    break
                assert broker.poll() is None
                try:
                    broker.wait(0.1)
                except subprocess.TimeoutExpired:
                    pass
            yield theirs, ours
        finally:
            broker.terminate()
            broker.wait(30)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_tokens_of_either_brand_are_used_renewed_and_ended_at_the_other(both: tuple[int, int]) -> None:
    for here, there in (both, both[::-1]):
        with logged_in(here, "alice") as maker, logged_in(there, "alice") as other:
            passed_on(maker, other, here, there)


def passed_on(maker: Wire, other: Wire, here: int, there: int) -> None:
    """A token that is made here, and used, renewed and ended there."""
    made, said = create(maker, renewers=["User:CN=al ice,O=ü*~"])
    assert said["error"] == "NONE"
    assert eventually(lambda: describe(other), describe(maker)) == describe(maker)
    for mechanism in ScramMechanism:
        wire, answer = by_token(there, made, mechanism)
        with wire:
            assert (answer[0], wire.is_served()) == ("NONE", "served")
    assert renew(other, made.hmac, 600_000) == ("NONE", 60)
    assert eventually(lambda: session(here, made), ("NONE", 60)) == ("NONE", 60)
    assert expire(other, made.hmac)[0] == "NONE"
    assert eventually(lambda: session(here, made)[0], "SASL_AUTHENTICATION_FAILED") == "SASL_AUTHENTICATION_FAILED"
    assert eventually(lambda: describe(maker), ("NONE", [])) == ("NONE", [])


def session(port: int, made: Made) -> Any:
    wire, answer = by_token(port, made)
    with wire:
        return answer
