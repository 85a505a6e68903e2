"""Quotas of clients on brokers that run: told, enforced, followed by the other brokers, and removed."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import CreateTopicsRequest, MetadataRequest
from kavka.protocol.messages.create_topics_request import CreatableTopic
from kavka.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.broker_client import BrokerClient, batch, fetch_of, produce_of, read_records
from tests.kit.quota_script import CONNECTIONS, CONSUME, MUTATIONS, PRODUCE, alter
from tests.kit.topic_everywhere import wait_everywhere

WINDOWS = {"quota.window.num": "2", "quota.window.size.seconds": "1", "controller.quota.window.num": "2"}
CLIENT = [("client-id", "test")]
VERSION = 9


def on_cluster(path: Path, work: Callable[[int], Any], *, count: int = 1, **settings: str) -> Any:
    async def scenario() -> Any:
        given = {**WINDOWS, **{key.replace("_", "."): text for key, text in settings.items()}}
        async with InProcessCluster(path, count=count, settings=given) as cluster:
            ports = [port for _host, port in cluster.bootstrap]
            return await asyncio.to_thread(work, *ports)

    return asyncio.run(asyncio.wait_for(scenario(), 280))


def set_quota(client: BrokerClient, key: str, value: float | None, entity: Any = CLIENT) -> None:
    answers = alter(client, [(entity, [(key, value)])])
    assert [code for _entity, code, _message in answers] == [0], answers


@pytest.mark.setting("quota.window.num")
@pytest.mark.setting("quota.window.size.seconds")
def test_a_producer_over_its_quota_is_told_and_left_alone_for_so_long(tmp_path: Path) -> None:
    def work(port: int) -> None:
        with BrokerClient(port) as client, BrokerClient(port) as other:
            topic = client.create_topic()
            set_quota(client, PRODUCE, 100_000)
            began = time.monotonic()
            told = client.ask(produce_of(topic, bytes(batch(bytes(300_000)))), VERSION).throttle_time_ms
            assert 1_900 <= told <= 2_020, told
            assert time.monotonic() - began < told / 1000  # The answer itself does not wait.
            client.ask(MetadataRequest(topics=[]), VERSION)
            assert time.monotonic() - began >= told / 1000
            assert other.ask(MetadataRequest(topics=[]), VERSION).throttle_time_ms == 0
            set_quota(other, PRODUCE, None)
            assert client.ask(produce_of(topic, bytes(batch(bytes(900_000)))), VERSION).throttle_time_ms == 0

    on_cluster(tmp_path, work)


def test_a_producer_that_wants_no_answer_is_left_alone_as_well(tmp_path: Path) -> None:
    def work(port: int) -> None:
        with BrokerClient(port) as client:
            topic = client.create_topic()
            set_quota(client, PRODUCE, 100_000)
            began = time.monotonic()
            client.send(produce_of(topic, bytes(batch(bytes(150_000))), acks=0), VERSION)
            # Else it might be read together with what comes before the connection is left alone.
            with BrokerClient(port) as other:
                while not other.offset(topic, -1).offset:
                    time.sleep(0.01)
            client.ask(MetadataRequest(topics=[]), VERSION)
            assert time.monotonic() - began >= 0.4

    on_cluster(tmp_path, work)


def test_a_consumer_over_its_quota_gets_no_records_until_it_has_waited(tmp_path: Path) -> None:
    def work(port: int) -> None:
        with BrokerClient(port) as client:
            topic = client.create_topic()
            values = [bytes([number]) * 40_000 for number in range(4)]
            for value in values:
                assert client.produce(topic, bytes(batch(value))).error_code == 0
            set_quota(client, CONSUME, 100_000)
            found: list[bytes] = []
            delays = []
            while len(found) < 4:
                answer = client.ask(fetch_of(topic, len(found)), 12)
                delays.append(answer.throttle_time_ms)
                if answer.throttle_time_ms:
                    assert answer.responses == []
                    continue
                found += [value for _offset, value in read_records(answer.responses[0].partitions[0].records)]
            assert found == values
            assert any(delays)

    on_cluster(tmp_path, work)


@pytest.mark.setting("controller.quota.window.num")
@pytest.mark.setting("controller.quota.window.size.seconds")
def test_topics_beyond_the_quota_of_changes_are_refused_or_their_client_waits(tmp_path: Path) -> None:
    def topics(*names: str) -> CreateTopicsRequest:
        wanted = [CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in names]
        return CreateTopicsRequest(topics=wanted, timeout_ms=10_000)

    def work(port: int) -> None:
        with BrokerClient(port) as client, BrokerClient(port) as admin:
            set_quota(admin, MUTATIONS, 0.1)
            answer = client.ask(topics("a", "b"), 6)
            codes = {topic.name: topic.error_code for topic in answer.topics}
            # The first topic overdraws what the bucket has for half a minute.
            assert codes == {"a": 0, "b": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
            assert 0 < answer.throttle_time_ms <= 28_000
            with BrokerClient(port) as older:
                permissive = older.ask(topics("c", "d"), 5)
            assert [topic.error_code for topic in permissive.topics] == [0, 0]
            assert permissive.throttle_time_ms > answer.throttle_time_ms

    on_cluster(tmp_path, work)


def test_every_broker_follows_a_change(tmp_path: Path) -> None:
    def work(*ports: int) -> None:
        with BrokerClient(ports[0]) as admin:
            topic = "followed"
            for port in ports:  # One of them is the controller.
                with BrokerClient(port) as client:
                    client.try_to_create_topic(topic, partitions=2)
            wait_everywhere(",".join(f"127.0.0.1:{port}" for port in ports), topic, 2)
            leaders = {part.partition_index: part.leader_id for part in admin.topics(topic)[topic].partitions}
            set_quota(admin, PRODUCE, 100_000)
            for partition, leader in leaders.items():
                with BrokerClient(ports[leader - 1]) as client:
                    until = time.monotonic() + 60
                    while not client.ask(
                        produce_of(topic, bytes(batch(bytes(150_000))), partition=partition), VERSION
                    ).throttle_time_ms:
                        assert time.monotonic() < until

    on_cluster(tmp_path, work, count=2)


def test_quotas_hold_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> int:
        async with InProcessCluster(tmp_path, count=1, settings=WINDOWS) as cluster:
            ((_host, port),) = cluster.bootstrap

            def prepare() -> str:
                with BrokerClient(port) as client:
                    set_quota(client, PRODUCE, 100_000)
                    return client.create_topic()

            def produce() -> int:
                with BrokerClient(port) as client:
                    until = time.monotonic() + 60
                    while True:  # A broker that has just begun may not lead yet.
                        answer = client.ask(produce_of(topic, bytes(batch(bytes(150_000)))), VERSION)
                        if not answer.responses[0].partition_responses[0].error_code:
                            return int(answer.throttle_time_ms)
                        assert time.monotonic() < until, answer

            topic = await asyncio.to_thread(prepare)
            await cluster.stop(1)
            await cluster.start(1)
            return await asyncio.to_thread(produce)

    assert asyncio.run(asyncio.wait_for(scenario(), 280)) > 0


def test_an_address_over_its_rate_of_connections_is_turned_away(tmp_path: Path) -> None:
    def work(port: int) -> None:
        with BrokerClient(port) as admin:
            set_quota(admin, CONNECTIONS, 1, [("ip", "127.0.0.9")])
            with BrokerClient(port, source="127.0.0.9") as first:
                first.ask(MetadataRequest(topics=[]), VERSION)
                with BrokerClient(port, source="127.0.0.9") as second:
                    began = time.monotonic()
                    assert second.is_closed_by_broker()
                    assert time.monotonic() - began > 0.3  # It was held, so that it does not come again at once.
                first.ask(MetadataRequest(topics=[]), VERSION)
            with BrokerClient(port, source="127.0.0.8") as other:
                other.ask(MetadataRequest(topics=[]), VERSION)

    on_cluster(tmp_path, work)


@pytest.mark.setting("max.connection.creation.rate")
def test_connections_that_come_too_fast_wait_and_are_served(tmp_path: Path) -> None:
    def work(port: int) -> None:
        began = time.monotonic()
        clients = [BrokerClient(port) for _ in range(12)]
        for client in clients:
            client.ask(MetadataRequest(topics=[]), VERSION)
            client.close()
        assert time.monotonic() - began > 0.8

    on_cluster(tmp_path, work, max_connection_creation_rate="4")


def test_a_broker_that_stops_lets_go_of_connections_that_wait(tmp_path: Path) -> None:
    def work(port: int) -> socket.socket:
        waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(6)]
        time.sleep(0.2)
        return waiting[-1]

    last = on_cluster(tmp_path, work, max_connection_creation_rate="1")
    last.settimeout(60)
    try:
        assert last.recv(1) == b""
    except ConnectionError:
        pass


def test_names_as_long_as_the_wire_allows_are_refused_in_words_that_fit_into_an_answer(tmp_path: Path) -> None:
    longest = "\N{LATIN SMALL LETTER E WITH ACUTE}" * 16_383

    def work(port: int) -> None:
        with BrokerClient(port) as client:
            for parts, key in (([("ip", longest)], CONNECTIONS), (CLIENT, longest)):
                ((_entity, code, message),) = alter(client, [(parts, [(key, 1.0)])])
                assert code == ErrorCode.INVALID_REQUEST
                assert len(message) < 3_000
            named = DescribeUserScramCredentialsRequest(users=[UserName(name=longest), UserName(name="..")])
            answer = client.ask(named, 0)
            assert [each.error_code for each in answer.results] == [ErrorCode.RESOURCE_NOT_FOUND] * 2

    on_cluster(tmp_path, work)
