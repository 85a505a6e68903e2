"""Clients of others log in on kavka with each mechanism, produce, consume and authenticate again."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.apache_kafka import PeerMissing, Release
from tests.apache_kafka.release import VERSIONS
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.sasl_script import LISTENER, SESSION_MS, add_user, settings, wait_for_user

LOGINS = [
    ("PLAIN", "alice", "alice-secret"),
    ("PLAIN", "bob", "b;o=b"),
    ("SCRAM-SHA-256", "carol", "carol, = secret"),
    ("SCRAM-SHA-512", "carol", "carol, = secret"),
]


def on_kavka(path: Path, work: Callable[[str], Any]) -> Any:
    own = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}
    own["offsets.topic.replication.factor"] = "1"

    async def scenario() -> Any:
        async with InProcessCluster(path, count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            port, ((_host, plaintext_port),) = cluster.ports_of[LISTENER][1], cluster.bootstrap
            await asyncio.to_thread(add_user, plaintext_port, "carol", "carol, = secret")
            await asyncio.to_thread(wait_for_user, port, "carol", "carol, = secret")
            found = await asyncio.to_thread(work, f"127.0.0.1:{port}")
            gates = cluster.broker(1).gates
            assert gates is not None
            return found, gates.counts[LISTENER]

    return asyncio.run(asyncio.wait_for(scenario(), 300))


@pytest.mark.parametrize(("mechanism", "user", "password"), LOGINS)
def test_librdkafka(tmp_path: Path, mechanism: str, user: str, password: str) -> None:
    from confluent_kafka import Consumer, Producer

    def work(bootstrap: str) -> list[bytes]:
        login = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
        producer = Producer(login)
        consumer = Consumer({**login, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        found: list[bytes] = []
        try:
            # Over the end of a session, so that a client whose session ends authenticates again.
            for value in (b"one", b"two"):
                producer.produce("t", value)
                assert producer.flush(60) == 0
                deadline = time.monotonic() + 60
                while (not found or found[-1] != value) and time.monotonic() < deadline:
                    message = consumer.poll(1)
                    if message is not None and message.error() is None:
                        found.append(message.value())
                time.sleep(SESSION_MS / 1000 + 0.2)
        finally:
            consumer.close()
        return found

    found, counts = on_kavka(tmp_path, work)
    assert found == [b"one", b"two"]
    assert counts.expired == 0
    assert (counts.succeeded_again > 0) == (mechanism != "SCRAM-SHA-256")


@pytest.mark.parametrize(("mechanism", "user", "password"), LOGINS)
def test_kafka_python(tmp_path: Path, mechanism: str, user: str, password: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    def work(bootstrap: str) -> list[bytes]:
        login = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }
        producer = KafkaProducer(**login)
        producer.send("t", b"one").get(60)
        producer.close()
        consumer = KafkaConsumer("t", **login, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
        try:
            return [next(iter(consumer)).value]
        finally:
            consumer.close()

    assert on_kavka(tmp_path, work)[0] == [b"one"]


@pytest.mark.parametrize(("mechanism", "user", "password"), LOGINS)
def test_aiokafka(tmp_path: Path, mechanism: str, user: str, password: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def both(bootstrap: str) -> list[bytes]:
        login = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }
        async with AIOKafkaProducer(**login) as producer:
            await producer.send_and_wait("t", b"one")
        async with AIOKafkaConsumer("t", **login, auto_offset_reset="earliest") as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 60)).value]

    assert on_kavka(tmp_path, lambda bootstrap: asyncio.run(both(bootstrap)))[0] == [b"one"]


@pytest.mark.kafka
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [LOGINS[1], *(pytest.param(*login, marks=pytest.mark.thorough) for login in LOGINS[2:])],
)
def test_kafkas_console_tools(tmp_path: Path, mechanism: str, user: str, password: str) -> None:
    try:
        release = Release(VERSIONS["zk"])
        release.installed()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        f'username="{user}" password="{password}";\n'
    )

    def work(bootstrap: str) -> str:
        at = ("--bootstrap-server", bootstrap, "--topic", "t")
        for name, own, text in (
            ("console-producer", ("--producer.config", str(file)), "one\ntwo\n"),
            ("console-consumer", ("--consumer.config", str(file), "--from-beginning", "--max-messages", "2"), None),
        ):
            command = release.tool_command(f"kafka-{name}", *at, *own)
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=150, check=False)
            assert done.returncode == 0, done.stderr
        return done.stdout

    assert on_kavka(tmp_path / "kavka", work)[0].split() == ["one", "two"]
