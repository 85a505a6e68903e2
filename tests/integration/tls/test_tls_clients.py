"""Real clients over TLS and mutual TLS: librdkafka, and Apache Kafka's console tools."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import tests.unit.security as unit_security
from kavka.errors import ConfigError
from tests.apache_kafka import PeerMissing
from tests.apache_kafka.release import Release
from tests.kit.certificates import Authority
from tests.kit.tls_cluster import HOST, TlsCluster

RECORDS = 5_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    with TlsCluster(tmp_path_factory.mktemp("tls")) as running:
        yield running


def create(cluster: TlsCluster, topic: str, name: str | None = None) -> None:
    admin = AdminClient(cluster.librdkafka(name))
    admin.create_topics([NewTopic(topic, 1, -1)])[topic].result(30)


def round_trip(settings: dict[str, object], topic: str, values: list[bytes]) -> list[bytes]:
    """What a consumer gets of what a producer sent."""
    producer = Producer({**settings, "linger.ms": 5})
    failures: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []
    consumer = Consumer({**settings, "group.id": f"group-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    for _ in range(600):
        found += [message.value() for message in consumer.consume(1_000, 0.2) if message.error() is None]
        if len(found) >= len(values):
            break
    consumer.close()
    return found


@pytest.mark.setting("ssl.keystore.location", "ssl.keystore.type", "ssl.truststore.location", "ssl.truststore.type")
@pytest.mark.parametrize("name", [None, "alice"])
def test_records_go_in_and_out_under_tls(cluster: TlsCluster, name: str | None) -> None:
    topic = f"tls-{name}"
    create(cluster, topic, name)
    values = [b"%d" % number * 200 for number in range(RECORDS)] + [b"long" * 200_000]
    assert round_trip(cluster.librdkafka(name), topic, values) == values


def test_kafka_python_reads_and_writes_under_mutual_tls(cluster: TlsCluster) -> None:
    create(cluster, "kafka-python")
    settings = {
        "bootstrap_servers": f"{HOST}:{cluster.ports[1]}",
        "security_protocol": "SSL",
        "ssl_context": cluster.context("kafka-python"),
    }
    producer = kafka.KafkaProducer(**settings)
    values = [b"%d" % number for number in range(500)]
    for value in values:
        producer.send("kafka-python", value)
    producer.flush(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=30_000, group_id=None, **settings
    )
    assert [record.value for record in islice(consumer, len(values))] == values
    consumer.close()


def test_aiokafka_reads_and_writes_under_mutual_tls(cluster: TlsCluster) -> None:
    create(cluster, "aiokafka")
    values = [b"%d" % number for number in range(500)]

    async def run() -> list[bytes]:
        settings = {
            "bootstrap_servers": f"{HOST}:{cluster.ports[1]}",
            "security_protocol": "SSL",
            "ssl_context": cluster.context("aiokafka"),
        }
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            for value in values:
                await producer.send("aiokafka", value)
        async with aiokafka.AIOKafkaConsumer("aiokafka", auto_offset_reset="earliest", **settings) as consumer:
            return [(await consumer.getone()).value for _ in values]

    assert asyncio.run(asyncio.wait_for(run(), 280)) == values


@pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat")
def test_kcat_reads_and_writes_under_mutual_tls(cluster: TlsCluster) -> None:
    create(cluster, "kcat")
    options = [option for name, value in cluster.librdkafka("kcat").items() for option in ("-X", f"{name}={value}")]
    values = "".join(f"value {number}\n" for number in range(500))
    subprocess.run(["kcat", *options, "-P", "-t", "kcat"], input=values, text=True, check=True, timeout=200)
    read = subprocess.run(
        ["kcat", *options, "-C", "-t", "kcat", "-e", "-q"], text=True, check=True, capture_output=True, timeout=200
    )
    assert read.stdout == values


def test_a_client_that_does_not_know_the_authority_does_not_connect(cluster: TlsCluster, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority("another").certificate)
    admin = AdminClient({**cluster.librdkafka(), "ssl.ca.location": str(other), "socket.timeout.ms": 1000})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)


@pytest.mark.setting("num.network.threads")
def test_records_go_in_and_out_with_network_threads(tmp_path: Path) -> None:
    with TlsCluster(tmp_path, settings={"num.network.threads": "2", "ssl.client.auth": "required"}) as cluster:
        create(cluster, "threads", "alice")
        values = [b"%d" % number * 500 for number in range(RECORDS)]
        assert round_trip(cluster.librdkafka("alice"), "threads", values) == values


@pytest.mark.parametrize(("kind", "store"), [("JKS", "jks"), ("PKCS12", "pkcs12"), ("JKS", "pkcs12")])
def test_stores_that_keytool_made_are_served(tmp_path: Path, kind: str, store: str) -> None:
    made = json.loads((Path(unit_security.__file__).parent / "stores_by_keytool.json").read_text())
    for name in ("key", "trust"):
        (tmp_path / f"{name}.store").write_bytes(base64.b64decode(made[f"{store}_{name}"]))
    settings = {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(tmp_path / "key.store"),
        "ssl.keystore.password": "storepass",
        "ssl.key.password": "keypass" if store == "jks" else "storepass",
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(tmp_path / "trust.store"),
        "ssl.truststore.password": "storepass",
    }
    with TlsCluster(tmp_path, settings=settings) as cluster:
        cluster.authority_file.write_text(made["certificate_pem"])
        create(cluster, "stores")
        assert round_trip(cluster.librdkafka(), "stores", [b"one"]) == [b"one"]


@pytest.mark.setting("ssl.client.auth", "ssl.principal.mapping.rules")
def test_the_principal_is_the_certificates_name_as_the_rules_map_it(tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:root;User:broker 1",
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=brokers$/$1/,RULE:^CN=(.*?)$/$1/L,DEFAULT",
    }
    with TlsCluster(tmp_path, settings=settings) as cluster:
        create(cluster, "secrets", "Root")
        with pytest.raises(KafkaException, match="Authorization failed"):
            create(cluster, "more", "alice")
        nobody = AdminClient(cluster.librdkafka())
        with pytest.raises(KafkaException):
            nobody.list_topics(timeout=2)


@pytest.mark.setting("security.inter.broker.protocol", "ssl.endpoint.identification.algorithm")
def test_three_brokers_replicate_over_tls_as_super_users_by_their_names(tmp_path: Path) -> None:
    names = ";".join(f"User:CN=broker {broker_id},OU=brokers" for broker_id in (1, 2, 3))
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"{names};User:CN=admin",
        "ssl.client.auth": "required",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
    }
    with TlsCluster(tmp_path, brokers=3, settings=settings) as cluster:
        admin = AdminClient(cluster.librdkafka("admin"))
        admin.create_topics([NewTopic("replicated", 3, 3)])["replicated"].result(30)
        values = [b"%d" % number for number in range(RECORDS)]
        assert sorted(round_trip({**cluster.librdkafka("admin"), "acks": "all"}, "replicated", values)) == sorted(
            values
        )
        for partition in admin.list_topics("replicated", timeout=10).topics["replicated"].partitions.values():
            assert sorted(partition.isrs) == [1, 2, 3]


def test_brokers_and_clients_log_in_under_tls(tmp_path: Path) -> None:
    """SASL_SSL: the principal is who logged in, whatever certificate there is."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker;User:admin",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{login} username="broker" password="b" user_broker="b" '
        'user_admin="a" user_alice="c";',
    }
    with TlsCluster(tmp_path, brokers=2, settings=settings, protocol="SASL_SSL", inter_broker="SASL_SSL") as cluster:
        admin = {**cluster.librdkafka(), "sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": "a"}
        maker = AdminClient(admin)
        maker.create_topics([NewTopic("logged-in", 1, 2)])["logged-in"].result(30)
        values = [b"%d" % number for number in range(RECORDS)]
        assert round_trip({**admin, "acks": "all"}, "logged-in", values) == values
        alice = AdminClient({**admin, "sasl.username": "alice", "sasl.password": "c"})
        with pytest.raises(KafkaException, match="Authorization failed"):
            alice.create_topics([NewTopic("no", 1, 1)])["no"].result(30)
        guess = AdminClient({**admin, "sasl.password": "guess"})
        with pytest.raises(KafkaException):
            guess.list_topics(timeout=2)


def test_brokers_that_would_not_trust_each_other_do_not_start(tmp_path: Path) -> None:
    cluster = TlsCluster(tmp_path)
    stranger = Authority("another").sign([("OU", "brokers"), ("CN", "broker 1")])
    stranger.write(cluster.key_store())
    with pytest.raises(ConfigError, match="brokers could not connect to each other"), cluster:
        pass


@pytest.mark.kafka
@pytest.mark.parametrize("release", [pytest.param("zk", marks=pytest.mark.thorough), "kraft"])
def test_javas_console_tools_read_and_write_under_mutual_tls(cluster: TlsCluster, tmp_path: Path, release: str) -> None:
    tools = Release.named(release)
    try:
        tools.installed()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    topic = f"java-{release}"
    create(cluster, topic)
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
        f"ssl.keystore.location={cluster.client_file('java')}\nssl.truststore.location={cluster.authority_file}\n"
    )
    bootstrap = ["--bootstrap-server", f"{HOST}:{cluster.ports[1]}", "--topic", topic]
    values = [f"value {number}" for number in range(100)]
    options = "--producer.config", "--consumer.config"
    written = tools.tool_command("console-producer", *bootstrap, options[0], str(settings))
    subprocess.run(written, input="\n".join(values) + "\n", text=True, check=True, capture_output=True, timeout=100)
    read = tools.tool_command(
        "console-consumer", *bootstrap, "--from-beginning", "--max-messages", "100", options[1], str(settings)
    )
    found = subprocess.run(read, text=True, check=True, capture_output=True, timeout=100).stdout.splitlines()
    # 4.3 says first that the option has another name now.
    assert [line for line in found if not line.startswith("Option ")] == values
