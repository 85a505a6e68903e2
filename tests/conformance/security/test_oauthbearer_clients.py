"""Clients of others log in on kavka with tokens, produce, consume and bring new tokens."""

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
from tests.conformance.clients.check_program import set_up
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.oauthbearer_script import settings, write_keys
from tests.kit.sasl_script import LISTENER
from tests.kit.token_issuer import claims, token
from tests.kit.token_server import CLIENT, SECRET, TokenServer

SHORT_S = 6


def short() -> str:
    return token(claims(exp=int(time.time()) + SHORT_S))


def on_kavka(path: Path, work: Callable[[str], Any]) -> Any:
    own = {**settings(write_keys(path / "keys.json")), "offsets.topic.replication.factor": "1"}

    async def scenario() -> Any:
        async with InProcessCluster(path / "kavka", count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            found = await asyncio.to_thread(work, f"127.0.0.1:{cluster.ports_of[LISTENER][1]}")
            gates = cluster.broker(1).gates
            assert gates is not None
            return found, gates.counts[LISTENER]

    return asyncio.run(asyncio.wait_for(scenario(), 300))


def sent_and_read(login: dict[str, Any], *, pause_s: float = 0) -> list[bytes]:
    """What librdkafka reads of what it wrote, with so long a pause after each record."""
    from confluent_kafka import Consumer, Producer

    producer = Producer(login)
    consumer = Consumer({**login, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found: list[bytes] = []
    try:
        for value in (b"one", b"two"):
            producer.produce("t", value)
            assert producer.flush(60) == 0
            deadline = time.monotonic() + 60
            while (not found or found[-1] != value) and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                producer.poll(0)
                if message is not None and message.error() is None:
                    found.append(message.value())
            until = time.monotonic() + pause_s
            while time.monotonic() < until:
                consumer.poll(0.1)
                producer.poll(0.1)
    finally:
        consumer.close()
    return found


@pytest.mark.thorough
def test_librdkafka_with_tokens_of_the_applications_own(tmp_path: Path) -> None:
    def work(bootstrap: str) -> list[bytes]:
        login = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (short(), time.time() + SHORT_S),
        }
        # Over the end of a token, so that a client brings a new one.
        return sent_and_read(login, pause_s=SHORT_S + 1)

    found, counts = on_kavka(tmp_path, work)
    assert found == [b"one", b"two"]
    assert counts.succeeded_again > 0


def test_librdkafka_with_tokens_that_it_gets_by_itself(tmp_path: Path) -> None:
    def work(bootstrap: str) -> list[bytes]:
        login = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": server.url,
        }
        return sent_and_read(login)

    with TokenServer(token) as server:
        assert on_kavka(tmp_path, work)[0] == [b"one", b"two"]
        assert server.asked >= 2


def test_aiokafka(tmp_path: Path) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token()

    async def both(bootstrap: str) -> list[bytes]:
        login = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Tokens(),
        }
        async with AIOKafkaProducer(**login) as producer:
            await producer.send_and_wait("t", b"one")
        async with AIOKafkaConsumer("t", **login, auto_offset_reset="earliest") as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 60)).value]

    assert on_kavka(tmp_path, lambda bootstrap: asyncio.run(both(bootstrap)))[0] == [b"one"]


def test_kafka_python(tmp_path: Path) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token()

    def work(bootstrap: str) -> list[bytes]:
        login = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Tokens(),
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


KAFKAJS = """
const { Kafka, logLevel } = require('kafkajs')
const [bootstrap, value] = process.argv.slice(1)
const sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value }) }
const kafka = new Kafka({ brokers: [bootstrap], sasl, logLevel: logLevel.NOTHING })
const main = async () => {
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: 't', messages: [{ value: 'one' }] })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: 'g' })
  await consumer.connect()
  await consumer.subscribe({ topics: ['t'], fromBeginning: true })
  const read = new Promise((resolve) => consumer.run({ eachMessage: async ({ message }) => resolve(message.value) }))
  console.log(String(await read))
  await consumer.disconnect()
}
main().then(() => process.exit(0), (error) => { console.error(String(error)); process.exit(1) })
"""


@pytest.mark.thorough
def test_kafkajs(tmp_path: Path) -> None:
    home = set_up("setup_kafkajs.sh")

    def run(bootstrap: str, text: str) -> subprocess.CompletedProcess[str]:
        command = ["node", "-e", KAFKAJS, bootstrap, text]
        return subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=120, check=False)

    def work(bootstrap: str) -> tuple[str, int]:
        good, bad = run(bootstrap, token()), run(bootstrap, token(claims(aud="other")))
        assert good.returncode == 0, good.stderr
        return good.stdout, bad.returncode

    # It does not look at the broker's answer: its next request ends the connection.
    (read, status), counts = on_kavka(tmp_path, work)
    assert (read.split(), status) == (["one"], 1)
    assert counts.failed > 0


@pytest.mark.kafka
@pytest.mark.thorough
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["zk", "kraft"])
def test_kafkas_console_tools(tmp_path: Path, mode: str) -> None:
    try:
        release = Release(VERSIONS[mode])
        release.installed()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    package = "org.apache.kafka.common.security.oauthbearer"
    file = tmp_path / "client.properties"

    def work(bootstrap: str) -> str:
        at = ("--bootstrap-server", bootstrap, "--topic", "t")
        for name, own, text in (
            ("console-producer", ("--producer.config", str(file)), "one\ntwo\n"),
            ("console-consumer", ("--consumer.config", str(file), "--from-beginning", "--max-messages", "2"), None),
        ):
            command = release.tool_command(f"kafka-{name}", *at, *own)
            options = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={server.url}"
            command = [command[0], options, *command[1:]] if isinstance(command, list) else command
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=150, check=False)
            assert done.returncode == 0, done.stderr
        return done.stdout

    with TokenServer(token) as server:
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.login.callback.handler.class={package}.OAuthBearerLoginCallbackHandler\n"
            f"sasl.oauthbearer.token.endpoint.url={server.url}\n"
            f"sasl.jaas.config={package}.OAuthBearerLoginModule required "
            f'clientId="{CLIENT}" clientSecret="{SECRET}";\n'
        )
        assert on_kavka(tmp_path, work)[0].splitlines()[-2:] == ["one", "two"]
        assert server.asked >= 2
