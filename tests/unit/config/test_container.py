"""Variables of the image apache/kafka, as its scripts and Kafka's wrapper read them: what settings they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.config.container import DEFAULTS, ContainerPlan, container_plan, setting_name
from kavka.errors import ConfigError

COMBINED = {
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "2@kafka-2:9093,1@kafka-1:9093,3@kafka-3:9093",
    "KAFKA_LISTENERS": "PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka-1:19092,PLAINTEXT_HOST://localhost:29092",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
}


def plan(environment: dict[str, str], mounted: dict[str, str] | None = None) -> ContainerPlan:
    def read(name: str) -> tuple[str, str]:
        return f"/secrets/{name}", f"content of {name}\n"

    return container_plan(environment, mounted or {}, read)


def broker(environment: dict[str, str], mounted: dict[str, str] | None = None) -> dict[str, str]:
    found = plan(environment, mounted).broker
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG", "listener.name.sasl_ssl.plain.sasl.jaas.config"),
        ("KAFKA_LISTENER_NAME_SSL___INTERNAL_SSL_CLIENT_AUTH", "listener.name.ssl-internal.ssl.client.auth"),
    ],
)
def test_a_variable_names_a_setting(variable: str, name: str) -> None:
    assert setting_name(variable) == name


def test_nothing_said_is_one_broker_on_localhost() -> None:
    assert broker({"PATH": "/bin", "KAFKA_VERSION": "4.3.1"}) == DEFAULTS


def test_variables_count_before_the_mounted_file() -> None:
    found = broker({"KAFKA_NUM_PARTITIONS": "3"}, {"num.partitions": "2", "log.dirs": "/data", "node.id": "4"})
    assert found == {"num.partitions": "3", "log.dirs": "/data", "node.id": "4"}


def test_who_says_what_is_advertised_listens_there_on_all_addresses() -> None:
    found = broker({"KAFKA_ADVERTISED_LISTENERS": "A://kafka.example.com:9092,B://[::1]:9093"})
    assert found["listeners"] == "A://0.0.0.0:9092,B://0.0.0.0:9093"
    found = broker({"KAFKA_ADVERTISED_LISTENERS": "A://localhost:9092", "KAFKA_LISTENERS": "A://:19092"})
    assert found["listeners"] == "A://:19092"


def test_a_node_that_is_all_the_quorum_is_a_broker_alone() -> None:
    found = plan({**COMBINED, "KAFKA_NODE_ID": "1", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093"})
    assert found.broker == {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "listeners": "PLAINTEXT://:19092,PLAINTEXT_HOST://:9092",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://kafka-1:19092,PLAINTEXT_HOST://localhost:29092",
        "log.dirs": "/tmp/kraft-combined-logs",
        "node.id": "1",
    }
    assert (found.zookeeper_port, found.notes) == (None, ())


def test_of_several_nodes_the_lowest_id_serves_zookeeper_and_the_others_use_it() -> None:
    first, second = plan({**COMBINED, "KAFKA_NODE_ID": "1"}), plan({**COMBINED, "KAFKA_NODE_ID": "2"})
    assert first.broker is not None
    assert second.broker is not None
    assert (first.zookeeper_port, first.broker["zookeeper.connect"]) == (9093, "127.0.0.1:9093")
    assert (second.zookeeper_port, second.broker["zookeeper.connect"]) == (None, "kafka-1:9093")
    assert "no controller is elected" in second.notes[0]
    own = plan({**COMBINED, "KAFKA_NODE_ID": "1", "KAFKA_ZOOKEEPER_CONNECT": "z:2181"})
    assert own.broker is not None
    assert (own.zookeeper_port, own.broker["zookeeper.connect"], own.notes) == (None, "z:2181", ())


def test_a_controller_without_a_broker_serves_zookeeper_or_has_nothing_to_do() -> None:
    isolated = {"KAFKA_PROCESS_ROLES": "controller", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@c1:9093,2@c2:9093"}
    first = plan({**isolated, "KAFKA_NODE_ID": "1", "KAFKA_LOG_DIRS": "/a,/b"})
    assert (first.broker, first.zookeeper_port, first.log_directory) == (None, 9093, "/a")
    second = plan({**isolated, "KAFKA_NODE_ID": "2"})
    assert (second.broker, second.zookeeper_port) == (None, None)
    assert "nothing to do here" in second.notes[-1]
    other = broker({**isolated, "KAFKA_PROCESS_ROLES": "broker", "KAFKA_NODE_ID": "4"})
    assert other["zookeeper.connect"] == "c1:9093"


def test_keys_and_their_passwords_are_files_among_the_secrets() -> None:
    found = broker(
        {
            "KAFKA_SSL_KEYSTORE_FILENAME": "kafka01.keystore.jks",
            "KAFKA_SSL_KEYSTORE_CREDENTIALS": "store_creds",
            "KAFKA_SSL_KEY_CREDENTIALS": "key_creds",
            "KAFKA_SSL_TRUSTSTORE_FILENAME": "kafka.truststore.jks",
            "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "trust_creds",
        }
    )
    assert {name: text for name, text in found.items() if name.startswith("ssl.")} == {
        "ssl.keystore.location": "/secrets/kafka01.keystore.jks",
        "ssl.keystore.password": "content of store_creds",
        "ssl.key.password": "content of key_creds",
        "ssl.truststore.location": "/secrets/kafka.truststore.jks",
        "ssl.truststore.password": "content of trust_creds",
    }


def test_what_is_for_a_jvm_is_said_to_have_no_effect() -> None:
    found = plan({"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_JMX_PORT": "9999", "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN"})
    assert [each.partition(" ")[0] for each in found.notes] == ["KAFKA_HEAP_OPTS", "KAFKA_JMX_PORT"]
    assert found.log_level == "warning"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"KAFKA_PROCESS_ROLES": "broker,leader"}, "the roles are broker and controller"),
        ({"KAFKA_CONTROLLER_QUORUM_VOTERS": "kafka-1:9093"}, "is not as in 1@host:port"),
        ({"KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "a:1,b:2"}, "KAFKA_CONTROLLER_QUORUM_VOTERS"),
        ({"KAFKA_OPTS": "-Djava.security.auth.login.config=/jaas.conf"}, "JAAS"),
        ({"KAFKA_LOG4J_ROOT_LOGLEVEL": "LOUD"}, "the levels are"),
        (
            {
                "KAFKA_NODE_ID": "one",
                "KAFKA_PROCESS_ROLES": "broker,controller",
                "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:1",
            },
            "not a number",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused(environment: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan(environment)


def test_the_files_of_the_image_name_what_there_is() -> None:
    directory = Path(__file__).parents[3] / "deploy" / "container"
    assert "exec kavka container" in (directory / "run").read_text()
    assert (directory / "run").stat().st_mode & 0o111
    assert "COPY deploy/container/run /etc/kafka/docker/run" in (directory / "Dockerfile").read_text()
