"""Each metric of a kavka broker has the name and the labels of one of Apache Kafka's, as its MBeans have them.

Kafka 3.9 with ZooKeeper and 4 in KRaft, each asked over JMX after the same traffic; a name that only one of them has is
Kafka's all the same. What only kavka has is listed here.
"""

from __future__ import annotations

import http.client
import re
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.kavka_process import KavkaProcess
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually
from tests.kit.share_group import ShareGroup
from tests.kit.share_member import ACCEPT, ShareMember

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("ListBeans.java")
JMX = (
    "-Dcom.sun.management.jmxremote.port={port} -Dcom.sun.management.jmxremote.rmi.port={port} "
    "-Dcom.sun.management.jmxremote.host=127.0.0.1 -Djava.rmi.server.hostname=127.0.0.1 "
    "-Dcom.sun.management.jmxremote.authenticate=false -Dcom.sun.management.jmxremote.ssl=false"
)
SUFFIXES = ("_total", "_count", "_sum")
"""What Prometheus' form adds to counters and summaries."""

OWN_LABELS = {
    "kafka_network_requestmetrics_errorspersec": "requests that failed are counted together, whatever their error",
    "kafka_server_brokertopicmetrics_replicationbytesoutpersec": "of each topic as well as of all",
    "kafka_server_brokertopicmetrics_failedfetchrequestspersec": "Kafka shows a topic's with its first failure",
    "kafka_server_brokertopicmetrics_failedproducerequestspersec": "Kafka shows a topic's with its first failure",
    "kafka_server_socket_server_metrics_connection_count": "of all listeners; there are no network processors",
    "kafka_server_client_metrics_unknown_subscription_request_count": "of all clients together",
}
"""Metrics with labels of our own, and why."""

WITH_CLIENTS = {
    "kafka_server_client_metrics_throttle_count",
    "kafka_server_client_metrics_plugin_export_count",
    "kafka_server_client_metrics_plugin_error_count",
}
"""What Kafka shows once a client has pushed metrics to a plugin (ClientMetricsManager.ClientMetricsStats of 4.3.1), of
each client; kavka always, of all of them."""

Names = dict[str, set[frozenset[str]]]
"""A metric's name in Prometheus' form to the sets of labels that it comes with."""


def traffic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"value")
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    eventually("a record", lambda: consumer.poll(1) is not None, timeout_s=60)
    consumer.commit(asynchronous=False)
    consumer.close()


def share_traffic(port: int) -> ShareMember:
    """A member that holds records: with its session the metrics of its partition would go."""
    group = ShareGroup(port)
    member = ShareMember(port, group.name)
    member.join_assigned(group.name)
    assert eventually("records come", lambda: member.fetch(group.topic_id))
    assert member.acknowledge(group.topic_id, (0, 2, [ACCEPT])) == 0
    return member


def prometheus(*parts: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", "_".join(parts).lower())


def names_of_kafka(mode: str, directory: Path) -> Names:
    port = free_port()
    settings = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}
    heap = f"-Xmx384M -Xms128M {JMX.format(port=port)}"
    try:
        kafka = ApacheKafka(directory, mode=mode, settings=settings, heap=heap)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        traffic(kafka.bootstrap)
        holder = share_traffic(int(kafka.bootstrap.rpartition(":")[2])) if mode == "kraft" else None
        listed = subprocess.run(
            ["java", str(PROGRAM), str(port)], capture_output=True, text=True, check=True, timeout=100
        )
        if holder is not None:
            holder.close()
    found: Names = {}
    for line in listed.stdout.splitlines():
        domain, kind, name, keys = line.split("\t")
        labels = frozenset(key.lower().replace("-", "_") for key in keys.split(",") if key)
        found.setdefault(prometheus(domain, kind, name), set()).add(labels)
    return found


@pytest.fixture(scope="module")
def of_kafka(tmp_path_factory: pytest.TempPathFactory) -> Names:
    both: Names = {}
    for mode in ("zk", "kraft"):
        for name, labels in names_of_kafka(mode, tmp_path_factory.mktemp("names") / mode).items():
            both.setdefault(name, set()).update(labels)
    return both


@pytest.fixture(scope="module")
def of_kavka(tmp_path_factory: pytest.TempPathFactory) -> Names:
    port = free_port()
    settings = {"kavka.metrics.port": str(port), "offsets.topic.num.partitions": "1"}
    with KavkaProcess(tmp_path_factory.mktemp("names") / "kavka", settings=settings) as broker:
        traffic(broker.bootstrap)
        holder = share_traffic(broker.port)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        holder.close()
    found: Names = {}
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        shown, _, labels = line.rpartition(" ")[0].partition("{")
        name = next(
            (each for each in (shown, *(shown.removesuffix(suffix) for suffix in SUFFIXES)) if each in kinds), ""
        )
        assert name, line
        if kinds[name] == "counter":
            name = name.removesuffix("_total")
        found.setdefault(name, set()).add(frozenset(re.findall(r'(\w+)="', labels)) - {"quantile"})
    return found


def test_every_name_is_one_of_kafkas(of_kafka: Names, of_kavka: Names) -> None:
    assert len(of_kavka) > 40
    known = of_kafka.keys() | WITH_CLIENTS
    others = [name for name in sorted(of_kavka) if name.startswith("kafka_") and name not in known]
    assert not others, "\n".join(others)


def test_it_has_the_labels_that_kafkas_has(of_kafka: Names, of_kavka: Names) -> None:
    different = [
        f"{name}: {sorted(map(sorted, labels - of_kafka[name]))}, Kafka's {sorted(map(sorted, of_kafka[name]))}"
        for name, labels in of_kavka.items()
        if name in of_kafka and name not in OWN_LABELS and labels - of_kafka[name]
    ]
    assert not different, "\n".join(different)
