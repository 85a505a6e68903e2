"""kavka.testing.SecureCluster: who gets in, who may do what, and that faults reach connections under TLS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from kavka.errors import ConfigError
from kavka.security.acls import Binding, Entry, Operation, Permission
from kavka.security.resource_patterns import Pattern, PatternType, ResourceType
from kavka.security.right_words import NoRight
from kavka.testing import Cluster, SecureCluster
from kavka.testing.client_settings import CLIENTS
from kavka.testing.secure_cluster import SSL
from tests.kit.patience import PATIENT

WAY_IN = ("SCRAM-SHA-512", "SCRAM-SHA-256", SSL)
PATIENCE_S = 30


@pytest.fixture(scope="module")
def shared() -> Iterator[SecureCluster]:
    with SecureCluster(brokers=1, settings=PATIENT) as cluster:
        yield cluster


def write(settings: dict[str, Any], topic: str, *values: str) -> list[int]:
    """The codes of the errors; -1 for a record that was not answered."""
    producer = Producer({**settings, "message.timeout.ms": PATIENCE_S * 1000, "log_level": 0})
    codes: list[int] = []
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: codes.append(0 if error is None else error.code())
        )
    return codes + [-1] * producer.flush(PATIENCE_S)


def read(settings: dict[str, Any], topic: str, group: str) -> bytes | int:
    """The first value, or the error's code."""
    consumer = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        error = message.error()
        return int(error.code()) if error is not None else bytes(message.value())
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", WAY_IN)
def test_a_user_does_what_it_may_and_no_more_however_it_logs_in(shared: SecureCluster, mechanism: str) -> None:
    topic, user = f"orders-{mechanism}", f"alice-{mechanism}"
    shared.create_topic(topic)
    shared.create_topic(f"other-{mechanism}")
    shared.add_user(user, allow=["write:orders-*", "read:orders-*"], groups=["billing"])
    settings = shared.client_config(user, mechanism=mechanism)
    assert write(settings, topic, "one") == [0]
    assert read(settings, topic, "billing") == b"one"
    assert write(settings, f"other-{mechanism}", "two") == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    assert read(settings, topic, "another") == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_pythons_clients_get_in_with_what_they_are_given(shared: SecureCluster) -> None:
    shared.create_topic("python")
    shared.add_user("guido", allow=["write:python"])
    for mechanism in WAY_IN:
        producer = KafkaProducer(**shared.client_config("guido", mechanism=mechanism, client="kafka-python"))
        assert producer.send("python", b"kafka-python").get(PATIENCE_S).topic == "python"
        producer.close()

    async def scenario() -> None:
        for mechanism in WAY_IN:
            settings = shared.client_config("guido", mechanism=mechanism, client="aiokafka")
            async with AIOKafkaProducer(**settings) as producer:
                await producer.send_and_wait("python", b"aiokafka")

    asyncio.run(scenario())
    assert shared.high_watermark("python") == 2 * len(WAY_IN)


def test_who_is_not_known_or_has_another_password_stays_out(shared: SecureCluster) -> None:
    shared.add_user("bob", "first")
    old = shared.client_config("bob")
    assert shared.add_user("bob", "second") == "second"
    for settings in (old, {**old, "sasl.username": "nobody"}):
        failures: list[KafkaError] = []
        admin = AdminClient({**settings, "error_cb": failures.append, "log_level": 0})
        deadline = time.monotonic() + PATIENCE_S
        while not failures and time.monotonic() < deadline:
            admin.poll(0.1)
        assert failures[0].code() == KafkaError._AUTHENTICATION
    assert AdminClient(shared.client_config("bob")).list_topics(timeout=PATIENCE_S).topics == {}


def test_without_a_certificate_nobody_gets_in_where_certificates_are_asked_for(shared: SecureCluster) -> None:
    settings = shared.client_config(mechanism=SSL)
    for name in ("ssl.certificate.location", "ssl.key.location"):
        del settings[name]
    with pytest.raises(KafkaException):
        AdminClient({**settings, "log_level": 0}).list_topics(timeout=1)


def test_what_a_removed_user_asks_for_is_refused_on_its_open_connection(shared: SecureCluster) -> None:
    shared.create_topic("left")
    shared.add_user("carol", allow=["write:left"])
    producer = Producer({**shared.client_config("carol"), "log_level": 0})
    codes: list[int] = []
    for _ in range(2):
        producer.produce("left", "x", on_delivery=lambda error, _: codes.append(0 if error is None else error.code()))
        assert producer.flush(PATIENCE_S) == 0
        with contextlib.suppress(KeyError):
            shared.remove_user("carol")
    assert codes == [0, KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KeyError, match="add_user"):
        shared.client_config("carol")


def test_other_resources_are_given_as_kafka_has_them(shared: SecureCluster) -> None:
    anything = Pattern(ResourceType.TRANSACTIONAL_ID, "orders", PatternType.LITERAL)
    shared.create_topic("transactions")
    shared.add_user(
        "dora",
        allow=["write:transactions", Binding(anything, Entry("User:dora", "*", Operation.ALL, Permission.ALLOW))],
    )
    producer = Producer({**shared.client_config("dora"), "transactional.id": "orders"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("transactions", "x")
    producer.commit_transaction(PATIENCE_S)
    # A commit is answered when it is decided: its marker follows.
    shared.wait_until(lambda: shared.high_watermark("transactions") == 2)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_family_has_the_brokers_and_no_key_of_another_way_in(shared: SecureCluster, client: str) -> None:
    shared.add_user("erin", "a secret of hers")
    by_password = repr(shared.client_config("erin", client=client))
    by_certificate = repr(shared.client_config("erin", mechanism=SSL, client=client))
    assert "a secret of hers" in by_password
    assert "a secret of hers" not in by_certificate
    assert "PRIVATE KEY" not in by_password
    assert shared.address(1) in by_password
    assert shared.address(1) not in by_certificate


def test_what_cannot_be_meant_is_refused(shared: SecureCluster) -> None:
    with pytest.raises(ValueError, match="PLAIN"):
        shared.client_config(mechanism="PLAIN")
    with pytest.raises(ValueError, match="kafka-ruby"):
        shared.client_config(client="kafka-ruby")
    with pytest.raises(NoRight, match="WORD:TOPIC"):
        shared.add_user("frank", allow=["eat:orders"])
    with pytest.raises(ValueError, match="administrator"):
        shared.add_user("admin")
    with pytest.raises(ConfigError, match=r"super\.users"):
        SecureCluster(settings={"super.users": "User:me"})


def test_cuts_kills_and_pauses_reach_brokers_that_speak_tls() -> None:
    with SecureCluster(brokers=3) as cluster:
        cluster.create_topic("orders", settings={"min.insync.replicas": 1})
        settings = cluster.client_config()
        assert write(settings, "orders", "before") == [0]
        leader = cluster.leader("orders")
        # The leader asks the controller to take the follower out of the in-sync replicas.
        follower = next(each for each in cluster.broker_ids if each not in (leader, cluster.controller()))
        cluster.cut(follower, leader)
        assert write(settings, "orders", "while cut") == [0]
        assert follower not in cluster.isr("orders")
        assert cluster.log_end_offset(follower, "orders") == 1
        cluster.heal()
        cluster.wait_in_sync("orders")
        assert cluster.log_end_offset(follower, "orders") == 2
        cluster.pause(follower)
        assert write(settings, "orders", "while paused") == [0]
        cluster.resume(follower)
        cluster.kill(leader)
        cluster.wait_for_leader("orders", other_than=leader)
        assert write(settings, "orders", "without the leader") == [0]
        cluster.restore()
        assert {cluster.log_end_offset(each, "orders") for each in cluster.broker_ids} == {4}


def test_nothing_goes_between_brokers_in_clear_and_a_plain_cluster_is_as_it_was(shared: SecureCluster) -> None:
    for port in shared._ports[1]:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connected:
            connected.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
            connected.settimeout(PATIENCE_S)
            assert connected.recv(1) == b""
    with Cluster(brokers=1) as plain:
        plain.create_topic("open")
        assert write({"bootstrap.servers": plain.bootstrap_servers}, "open", "x") == [0]


def test_on_an_event_loop() -> None:
    async def scenario() -> None:
        async with SecureCluster(brokers=1) as cluster:
            await cluster.create_topic("orders")
            await cluster.add_user("alice", allow=["write:orders"])
            async with AIOKafkaProducer(**cluster.client_config("alice", client="aiokafka")) as producer:
                await producer.send_and_wait("orders", b"x")
            await cluster.remove_user("alice")
            assert await cluster.high_watermark("orders") == 1

    asyncio.run(scenario())
