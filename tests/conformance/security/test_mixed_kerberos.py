"""One cluster of both brands whose brokers log in on each other with Kerberos, and the clients of both on either."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster
from kavka.client.login import client_login
from kavka.client.producer import Producer
from kavka.client.settings import ClientSettings
from kavka.runtime.network.network import SocketNetwork
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.kavka_process import HOST
from tests.kit.kerberos_realm import HOST as NAME
from tests.kit.kerberos_realm import KerberosRealm, missing
from tests.kit.ports import free_port
from tests.kit.second_broker import second_broker

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing()), reason=f"needs {missing()}: tools/setup_kerberos.sh installs it"),
]
SERVICE = f"kafka/{NAME}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


class Both(NamedTuple):
    """Apache Kafka is broker 1 and the controller, kavka broker 2. `ports` are those of the listeners with GSSAPI."""

    kafka: ApacheKafka
    ports: dict[int, int]
    login: dict[str, str]
    """A client's, as Java has it."""


def brokers_own(realm: KerberosRealm) -> dict[str, str]:
    login = f'{MODULE} keyTab="{realm.keytab(SERVICE)}" principal="{SERVICE}@{realm.realm}";'
    return {
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": login,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:kafka;User:alice",
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    tmp_path = tmp_path_factory.mktemp("both")
    with KerberosRealm(tmp_path / "realm") as realm, realm.around(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={realm.config}")
        realm.add(SERVICE, "alice")
        try:
            kafka = ApacheKafka(tmp_path / "kafka", heap="-Xmx384M -Xms128M")
        except PeerMissing as absent:
            pytest.skip(str(absent))
        ports = {1: free_port(), 2: free_port()}
        theirs = f"PLAINTEXT://{HOST}:{kafka.port},SASL_PLAINTEXT://{NAME}:{ports[1]}"
        own = brokers_own(realm)
        kafka.set({"listeners": theirs, "advertised.listeners": theirs, **own})
        plain = free_port()
        settings = {
            "listeners": f"PLAINTEXT://{HOST}:{plain},SASL_PLAINTEXT://{NAME}:{ports[2]}",
            "log.dirs": str(tmp_path / "logs"),
            "zookeeper.connect": kafka.zookeeper,
            **own,
        }
        alice = f'{MODULE} keyTab="{realm.keytab("alice")}" principal="alice@{realm.realm}";'
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": alice,
        }
        with kafka, second_broker(tmp_path, plain, settings):
            yield Both(kafka, ports, login)


@pytest.mark.parametrize("broker", [1, 2])
def test_brokers_of_both_brands_replicate_and_kavkas_client_writes_to_both(both: Both, broker: int) -> None:
    """Each leads partitions that the other follows; the client begins at either, and logs in on both."""
    sasl = client_login(both.login, read=lambda path: b"").sasl
    topic = f"by-{broker}"

    async def scenario() -> None:
        settings = ClientSettings(sasl=sasl)
        async with Cluster(SocketNetwork(), [(NAME, both.ports[broker])], settings) as cluster:
            admin = Admin(cluster)
            made = await admin.create_topics([NewTopic(topic, 4, 2, configs={"min.insync.replicas": "2"})])
            assert made == {}
            async with Producer(cluster) as producer:
                for number in range(100):
                    await producer.send(topic, b"%d" % number, partition=number % 4)
            [described] = await admin.describe_topics([topic])
            partitions = described.partitions
            assert {each.leader for each in partitions} == {1, 2}
            assert all(sorted(each.in_sync_replicas) == [1, 2] for each in partitions)

    asyncio.run(asyncio.wait_for(scenario(), 120))


@pytest.mark.parametrize("broker", [1, 2])
def test_javas_tools_log_in_on_either_brand(both: Both, tmp_path: Path, broker: int) -> None:
    file = tmp_path / "alice.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in both.login.items()))
    own = ("--bootstrap-server", f"{NAME}:{both.ports[broker]}", "--command-config", str(file))
    both.kafka.tool("kafka-topics.sh", "--create", "--topic", f"java-{broker}", *own)
    assert f"java-{broker}" in both.kafka.tool("kafka-topics.sh", "--list", *own)
