"""Settings of brokers that are changed on a running broker: connections, producers, transactions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from kavka.protocol.messages import (
    AlterConfigsRequest,
    IncrementalAlterConfigsRequest,
    alter_configs_request,
    incremental_alter_configs_request,
)
from kavka.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kavka.records.builder import ProducerStamp
from kavka.traces import RING_FILES, RequestTrace, decode_trace
from tests.integration.settings.running_broker import RunningBroker, eventually, records
from tests.kit.broker_client import BrokerClient, produce_of

TRANSACTION = 1
TOPIC = 2
INVALID_REQUEST, INVALID_TXN_STATE = 42, 48


@pytest.fixture(scope="module")
def static_settings() -> Mapping[str, str]:
    return {
        "producer.id.expiration.check.interval.ms": "100",
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


def producer(client: BrokerClient, transactional_id: str | None = None, *, timeout_ms: int = 60_000) -> ProducerStamp:
    """A new producer's id and epoch; `timeout_ms` bounds its transactions."""
    if transactional_id is not None:
        where = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
        eventually("the coordinator", lambda: client.ask(where, 2).error_code == 0)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

    def answer() -> Any:
        given = client.ask(request, 4)
        return given if given.error_code == 0 else None

    given = eventually("a producer id", answer)
    return ProducerStamp(given.producer_id, given.producer_epoch, 0, is_transactional=transactional_id is not None)


def known_producers(client: BrokerClient, topic: str) -> list[int]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    (partition,) = client.ask(request, 0).topics[0].partitions
    assert partition.error_code == 0
    return [active.producer_id for active in partition.active_producers]


@pytest.mark.setting("producer.id.expiration.ms", "producer.id.expiration.check.interval.ms")
def test_silent_producers_are_forgotten(broker: RunningBroker) -> None:
    topic, stamp = broker.topic(), producer(broker.client)
    assert broker.error(topic, records(b"v", stamp=stamp)) == 0
    assert known_producers(broker.client, topic) == [stamp.producer_id]
    broker.set(producer_id_expiration_ms=100)
    eventually("the expiration", lambda: known_producers(broker.client, topic) == [])


@pytest.mark.setting("transaction.partition.verification.enable")
def test_transactions_are_asked_about_or_not(broker: RunningBroker) -> None:
    topic, name = broker.topic(), f"transaction-{uuid.uuid4()}"
    # Nobody told the coordinator that the partition takes part.
    request = produce_of(topic, records(b"v", stamp=producer(broker.client, name)))
    request.transactional_id = name

    def error() -> int:
        return int(broker.client.ask(request, 9).responses[0].partition_responses[0].error_code)

    assert error() == INVALID_TXN_STATE
    broker.set(transaction_partition_verification_enable="false")
    assert error() == 0


@pytest.mark.setting("max.connections.per.ip")
def test_connections_of_one_address(broker: RunningBroker) -> None:
    assert broker.serves_another_connection()
    broker.set(max_connections_per_ip=1)
    assert not broker.serves_another_connection()
    broker.undo()
    eventually("room for more", broker.serves_another_connection)


@pytest.mark.setting("max.connection.creation.rate")
def test_connections_that_come_faster_than_they_may(broker: RunningBroker) -> None:
    broker.set(max_connection_creation_rate=1)
    began = time.monotonic()
    for _ in range(13):
        with BrokerClient(broker.port) as client:
            client.topics()
    # Ten are the burst of an idle broker; each further one waits for a window.
    assert time.monotonic() - began > 1


@pytest.mark.setting("max.connections.per.ip.overrides")
def test_connections_of_a_named_address(broker: RunningBroker) -> None:
    broker.set(max_connections_per_ip_overrides="127.0.0.1:1")
    assert not broker.serves_another_connection()
    broker.set(max_connections_per_ip_overrides="127.0.0.1:5")
    eventually("room for more", broker.serves_another_connection)


@pytest.mark.setting("max.connections.per.ip.overrides")
def test_connections_of_an_address_given_by_its_name(broker: RunningBroker) -> None:
    broker.set(max_connections_per_ip_overrides="localhost:1")
    eventually("no room for more", lambda: not broker.serves_another_connection())
    broker.set(max_connections_per_ip_overrides="localhost:5")
    eventually("room for more", broker.serves_another_connection)


@pytest.mark.parametrize("api", [alter_configs_request, incremental_alter_configs_request])
def test_a_resource_that_is_named_twice_is_refused_each_time_and_the_others_change(
    broker: RunningBroker, api: Any
) -> None:
    """Nobody can tell which of the changes is meant."""
    twice, once = broker.topic(), broker.topic()

    def resource(name: str, value: str) -> Any:
        setting = api.AlterableConfig(name="retention.ms", value=value)
        return api.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[setting])

    changes = [resource(twice, "1000"), resource(once, "2000"), resource(twice, "3000")]
    incremental = api is incremental_alter_configs_request
    request = (IncrementalAlterConfigsRequest if incremental else AlterConfigsRequest)(resources=changes)
    answer = broker.client.ask(request, 1)
    assert [(one.resource_name, one.error_code) for one in answer.responses] == [
        (twice, INVALID_REQUEST),
        (once, 0),
        (twice, INVALID_REQUEST),
    ]


def traces(broker: RunningBroker) -> list[RequestTrace]:
    """What the broker has kept of requests."""
    lines = [line for name in RING_FILES if (file := broker.directory / name).exists() for line in file.open("rb")]
    return [decode_trace(line) for line in lines if line.endswith(b"\n")]


@pytest.mark.setting("kavka.request.trace.sample")
def test_requests_are_sampled_from_when_they_shall_be(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert not any(trace.sampled for trace in traces(broker))
    broker.set(kavka_request_trace_sample=2)
    for _ in range(20):
        assert broker.error(topic, records(b"v")) == 0

    def sampled() -> list[RequestTrace]:
        return [
            trace
            for trace in traces(broker)
            if trace.sampled and trace.api == "Produce" and trace.partitions[0].topic == topic
        ]

    found = eventually("ten of twenty", lambda: found if len(found := sampled()) == 10 else None)
    assert found is not None
    assert all(trace.partitions[0].end_offset == trace.partitions[0].first_offset + 1 for trace in found)


@pytest.mark.setting("kavka.slow.request.ms")
def test_requests_are_slow_from_the_time_that_they_shall_be(broker: RunningBroker) -> None:
    topic = broker.topic()

    def kept() -> int:
        return sum(not trace.sampled and trace.api == "Produce" for trace in traces(broker))

    before = kept()
    broker.set(kavka_slow_request_ms=0)  # All of them.
    assert broker.error(topic, records(b"v")) == 0
    eventually("the trace", lambda: kept() == before + 1)
    broker.set(kavka_slow_request_ms=-1)
    after = kept()
    assert broker.error(topic, records(b"v")) == 0
    time.sleep(0.2)  # Four times as long as a trace takes to the disk.
    assert kept() == after
