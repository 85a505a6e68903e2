"""Which broker the clients talk to.

Each test runs against kavka; with KAVKA_ALL_CLIENTS=1 it runs against Apache Kafka 3.9 (ZooKeeper) and
4.x (KRaft), so that what a test expects is known to be what Kafka does, and against three brokers of kavka, each in a
process of its own, where every topic of the tests has three replicas. KAVKA_TEST_BOOTSTRAP=host:port names a running
broker to take in the place of kavka's own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.clients.waiting import wait_until
from tests.kit.kavka_process import NO_RETENTION
from tests.kit.process_cluster import ProcessCluster

TopicFactory = Callable[..., str]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("kavka_broker", id="kavka"),
        pytest.param("kavka_three_brokers", id="kavka-three-brokers", marks=pytest.mark.thorough),
        pytest.param("apache_kafka", id="kafka-zk", marks=pytest.mark.kafka),
        pytest.param("apache_kafka_kraft", id="kafka-kraft", marks=pytest.mark.kafka),
    ],
)
def bootstrap(request: pytest.FixtureRequest) -> str:
    """host:port of each broker under test, comma-separated."""
    if request.param == "kavka_broker" and "KAVKA_TEST_BOOTSTRAP" in os.environ:
        return os.environ["KAVKA_TEST_BOOTSTRAP"]
    return str(request.getfixturevalue(request.param).bootstrap)


@pytest.fixture(scope="session")
def kavka_three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Three running brokers of kavka with default settings, and their ZooKeeper, for the whole run.

    They never look for old records: those of the checks are years old."""
    with ProcessCluster(tmp_path_factory.mktemp("kavka-three"), defaults=NO_RETENTION) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture(scope="module")
def replication_factor(bootstrap: str) -> int:
    """Of topics: as many as there are brokers under test."""
    return bootstrap.count(",") + 1


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    """An administrator of the broker under test, for tests whose subject is something else."""
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def make_topic(request: pytest.FixtureRequest, admin: AdminClient, replication_factor: int) -> TopicFactory:
    """make_topic(partitions=1, **config) creates a topic with a fresh name; config names have _ for the dots.

    In KRaft mode the answer is the controller's, and the broker that clients ask hears of the topic a moment later,
    which is waited for. kavka's brokers know it when the answer comes."""
    is_kraft = request.node.callspec.params["bootstrap"] == "apache_kafka_kraft"

    def make(partitions: int = 1, **config: object) -> str:
        name = fresh_name("topic")
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        for future in admin.create_topics([NewTopic(name, partitions, replication_factor, config=settings)]).values():
            future.result(timeout=30)
        if is_kraft:
            wait_until(lambda: name in admin.list_topics(timeout=30).topics)
        return name

    return make


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """fresh(prefix) is a name that nothing else has."""
    return fresh_name


def fresh_name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"
