"""Clients of other languages get in over TLS with what `kavka.testing` gives them, each way in.

They write, read and ask, and log in again when their sessions end.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.testing import SecureCluster
from tests.apache_kafka import PeerMissing
from tests.apache_kafka.cluster import run_tool
from tests.conformance.clients.check_program import set_up

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]

WAYS_IN = ("SCRAM-SHA-512", "SCRAM-SHA-256", "SSL")
SESSION_MS = 4_000
"""franz-go and kafkajs ask for a second and more: with shorter sessions they log in again before each request."""
PAUSE_S = 4.5
KAFKAJS = """
const { Kafka, logLevel } = require('kafkajs')
const [topic, pause] = process.argv.slice(1)
const login = JSON.parse(require('fs').readFileSync(0))
const kafka = new Kafka({ ...login, logLevel: logLevel.NOTHING, reauthenticationThreshold: 1000 })
const main = async () => {
  const producer = kafka.producer()
  await producer.connect()
  for (const value of ['one', 'two']) {
    await producer.send({ topic, messages: [{ value }] })
    await new Promise((resolve) => setTimeout(resolve, Number(pause)))
  }
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: 'kafkajs' })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  let left = 2
  await new Promise((resolve) => consumer.run({
    eachMessage: async ({ message }) => { console.log(String(message.value)); if (!--left) resolve() },
  }))
  await consumer.disconnect()
  const admin = kafka.admin()
  await admin.connect()
  console.log((await admin.listTopics()).length)
  await admin.disconnect()
}
main().then(() => process.exit(0), (error) => { console.error(String(error)); process.exit(1) })
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecureCluster]:
    with SecureCluster(brokers=1, settings={"connections.max.reauth.ms": SESSION_MS}) as running:
        yield running


def user_with_topic(cluster: SecureCluster, client: str, mechanism: str) -> str:
    """A user that may use a topic of the same name, and nothing else."""
    name = f"{client}-{mechanism}"
    cluster.create_topic(name)
    cluster.add_user(name, allow=[f"all:{name}"], groups=[client])
    return name


def run(command: list[str], login: object, directory: str | None = None) -> list[str]:
    found = subprocess.run(
        command, cwd=directory, input=json.dumps(login), capture_output=True, text=True, timeout=200, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def logged_in_again(cluster: SecureCluster) -> int:
    """How often somebody did, on the connection that he had."""
    gates = cluster._running(1).ask(lambda server: server.broker.gates)
    assert gates is not None
    return gates.counts["SASL_SSL"].succeeded_again


@pytest.mark.parametrize("mechanism", WAYS_IN)
def test_franz_go(cluster: SecureCluster, mechanism: str) -> None:
    program = set_up("setup_go_client.sh", "franz-go")
    name = user_with_topic(cluster, "franz-go", mechanism)
    login = cluster.client_config(name, mechanism=mechanism, client="franz-go")
    # It sees the one topic that it may describe.
    before = logged_in_again(cluster)
    assert run([program, "secured", name, f"{PAUSE_S}s"], login) == ["one", "two", "1"]
    assert (logged_in_again(cluster) > before) == (mechanism != "SSL")


@pytest.mark.parametrize("mechanism", WAYS_IN)
def test_kafkajs(cluster: SecureCluster, mechanism: str) -> None:
    home = set_up("setup_kafkajs.sh")
    name = user_with_topic(cluster, "kafkajs", mechanism)
    login = cluster.client_config(name, mechanism=mechanism, client="kafkajs")
    before = logged_in_again(cluster)
    assert run(["node", "-e", KAFKAJS, name, str(PAUSE_S * 1000)], login, home) == ["one", "two", "1"]
    assert (logged_in_again(cluster) > before) == (mechanism != "SSL")


@pytest.mark.kafka
@pytest.mark.parametrize("release", ["zk", "kraft"])
@pytest.mark.parametrize("mechanism", WAYS_IN)
def test_java(cluster: SecureCluster, tmp_path: Path, release: str, mechanism: str) -> None:
    name = user_with_topic(cluster, f"java-{release}", mechanism)
    login = cluster.client_config(name, mechanism=mechanism, client="java")
    at = ("--bootstrap-server", login.pop("bootstrap.servers"))
    file = tmp_path / "client.properties"
    lines = [f"{key}={value}".replace("\\", "\\\\").replace("\n", "\\n") for key, value in login.items()]
    file.write_text("\n".join(lines))
    try:
        run_tool(release, "console-producer", *at, "--topic", name, "--producer.config", str(file), text="one\ntwo\n")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    read = run_tool(
        *(release, "console-consumer", *at, "--topic", name, "--consumer.config", str(file)),
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000", "--group", f"java-{release}"),
    )
    assert [line for line in read.splitlines() if line in ("one", "two")] == ["one", "two"]
    assert run_tool(release, "topics", *at, "--command-config", str(file), "--list").split() == [name]
