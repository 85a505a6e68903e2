"""`kavka container` with the variables of the example files of apache/kafka and of Testcontainers, as processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kit.command_line import PROGRAM
from tests.kit.ports import free_port

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
RUNNING = "Transitioning from RECOVERY to RUNNING"
END_S = 60


@contextmanager
def container(directory: Path, variables: Mapping[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command with these variables, which serves."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("KAFKA_")}
    options = ["--mounted", str(directory / "config"), "--secrets", str(directory / "secrets")]
    with open(directory / "log", "a") as log:
        command = [PROGRAM, "container", *options, *words]
        process = subprocess.Popen(command, env={**own, **variables}, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if RUNNING in line:
                break
        assert RUNNING in "".join(said), f"{said}\n{(directory / 'log').read_text()}"
        yield process
    finally:
        process.kill()
        process.wait()


def write_and_read(bootstrap: str, topic: str) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, b"one")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        return [message.value()]
    finally:
        consumer.close()


def single_node(directory: Path, port: int) -> dict[str, str]:
    inside, controller = free_port(), free_port()
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT_HOST://localhost:{port},PLAINTEXT://broker:{inside}",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@broker:{controller}",
        "KAFKA_LISTENERS": f"CONTROLLER://:{controller},PLAINTEXT_HOST://:{port},PLAINTEXT://:{inside}",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "CLUSTER_ID": CLUSTER_ID,
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_LOG_DIRS": str(directory / "logs"),
    }


def test_a_single_node_goes_on_after_a_stop_with_the_id_that_it_was_given(tmp_path: Path) -> None:
    port = free_port()
    variables = single_node(tmp_path, port)
    for number in range(2):
        with container(tmp_path, variables) as process:
            bootstrap = f"localhost:{port}"
            assert write_and_read(bootstrap, f"topic-{number}") == [b"one"]
            admin = AdminClient({"bootstrap.servers": bootstrap})
            assert admin.describe_cluster().result(30).cluster_id == CLUSTER_ID
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == 0
    assert (tmp_path / "logs" / "topic-0-0").is_dir()
    # A volume holds all of it: what stood elsewhere would go with the container.
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "log"}


def test_a_single_node_goes_on_with_a_zookeeper_that_an_earlier_version_kept_beside_its_logs(tmp_path: Path) -> None:
    port = free_port()
    variables = single_node(tmp_path, port)
    with container(tmp_path, variables, f"KAFKA_KAVKA_ZOOKEEPER_DATA_DIR={tmp_path}/kavka-zookeeper") as process:
        assert write_and_read(f"localhost:{port}", "orders") == [b"one"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0
    with container(tmp_path, variables):
        assert "orders" in AdminClient({"bootstrap.servers": f"localhost:{port}"}).list_topics(timeout=30).topics


def test_testcontainers_starts_one(tmp_path: Path) -> None:
    """Its module sets the listeners first, and the advertised ones in a script that it writes into the container."""
    port, inside, controller = free_port(), free_port(), free_port()
    variables = {
        "CLUSTER_ID": CLUSTER_ID,
        "KAFKA_LISTENERS": f"PLAINTEXT://0.0.0.0:{port}, BROKER://0.0.0.0:{inside}, CONTROLLER://0.0.0.0:{controller}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_NODE_ID": "1",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{controller}",
        "KAFKA_BROKER_ID": "1",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": str(2**63 - 1),
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_LOG_DIRS": str(tmp_path / "logs"),
    }
    advertised = f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port},BROKER://localhost:{inside}"
    with container(tmp_path, variables, advertised):
        assert write_and_read(f"localhost:{port}", "orders") == [b"one"]


def test_three_nodes_of_a_quorum_are_a_cluster(tmp_path: Path) -> None:
    controllers = {node: free_port() for node in (1, 2, 3)}
    ports = {node: (free_port(), free_port()) for node in controllers}
    voters = ",".join(f"{node}@localhost:{port}" for node, port in controllers.items())
    with ExitStack() as stack:
        processes = []
        for node, (inside, outside) in ports.items():
            directory = tmp_path / str(node)
            directory.mkdir()
            variables = single_node(directory, outside) | {
                "KAFKA_NODE_ID": str(node),
                "KAFKA_CONTROLLER_QUORUM_VOTERS": voters,
                "KAFKA_LISTENERS": f"PLAINTEXT://:{inside},CONTROLLER://:{controllers[node]},PLAINTEXT_HOST://:{outside}",
                "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{inside},PLAINTEXT_HOST://localhost:{outside}",
            }
            processes.append(stack.enter_context(container(directory, variables)))
            assert "node 1 serves it" in (directory / "log").read_text()
        bootstrap = f"localhost:{ports[3][1]}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in admin.create_topics([NewTopic("orders", 3, 3)]).values():
            made.result(30)
        assert write_and_read(bootstrap, "orders") == [b"one"]
        assert sorted(admin.list_topics(timeout=30).brokers) == [1, 2, 3]
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == 0


def test_what_cannot_be_read_or_followed_is_said_with_what_to_do(tmp_path: Path) -> None:
    def refused(variables: Mapping[str, str]) -> str:
        own = {name: text for name, text in os.environ.items() if not name.startswith("KAFKA_")}
        words = [PROGRAM, "container", "--secrets", str(tmp_path), "--mounted", str(tmp_path)]
        done = subprocess.run(words, env={**own, **variables}, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 1
        return done.stderr

    assert "keys.jks cannot be read" in refused({"KAFKA_SSL_KEYSTORE_FILENAME": "keys.jks"})
    assert "docs/containers.md" in refused({"KAFKA_PROCESS_ROLES": "leader"})
    logs = str(tmp_path / "logs")
    assert "num.partitions" in refused({"KAFKA_NUM_PARTITIONS": "none", "KAFKA_LOG_DIRS": logs})
