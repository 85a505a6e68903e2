"""One cluster of both brands whose brokers call each other over TLS, with certificates and an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.certificates import Authority
from tests.kit.kavka_process import HOST
from tests.kit.ports import free_port
from tests.kit.second_broker import second_broker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:CN=kafka;User:CN=kavka;User:CN=admin",
}


def tls(directory: Path, name: str, authority: Authority) -> dict[str, str]:
    (directory / "authority.pem").write_text(authority.certificate)
    return {
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "requested",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign(name).write(directory / f"{name}.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "authority.pem"),
        **AUTHORIZER,
    }


@pytest.fixture
def client(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a client sets that is `admin`. Apache Kafka is broker 1 and the controller, kavka broker 2."""
    authority = Authority()
    try:
        kafka = ApacheKafka(tmp_path / "kafka", heap="-Xmx384M -Xms128M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    theirs = f"PLAINTEXT://{HOST}:{kafka.port},SSL://{HOST}:{free_port()}"
    kafka.set({"listeners": theirs, "advertised.listeners": theirs, **tls(tmp_path, "kafka", authority)})
    plain, secured = free_port(), free_port()
    own = str(authority.sign("admin", names=()).write(tmp_path / "admin.pem"))
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{plain},SSL://{HOST}:{secured}",
        "log.dirs": str(tmp_path / "logs"),
        "zookeeper.connect": kafka.zookeeper,
        **tls(tmp_path, "kavka", authority),
    }
    with kafka, second_broker(tmp_path, plain, settings):
        yield {
            "bootstrap.servers": f"{HOST}:{secured}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "authority.pem"),
            "ssl.certificate.location": own,
            "ssl.key.location": own,
        }


def test_brokers_of_both_brands_replicate_to_each_other_over_tls(client: dict[str, str]) -> None:
    """Each leads partitions that the other follows, and the controller reaches both."""
    admin = AdminClient(client)
    topic = NewTopic("both", 4, 2, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["both"].result(60)
    producer = Producer({**client, "acks": "all", "message.timeout.ms": "60000"})
    failures: list[object] = []
    for number in range(400):
        producer.produce(
            "both", b"%d" % number, partition=number % 4, on_delivery=lambda error, _: failures.append(error)
        )
    assert producer.flush(90) == 0
    assert failures == [None] * 400
    found = admin.list_topics("both", timeout=20).topics["both"].partitions.values()
    assert {each.leader for each in found} == {1, 2}
    assert all(sorted(each.isrs) == [1, 2] for each in found)
