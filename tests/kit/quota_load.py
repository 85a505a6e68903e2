"""A load that exceeds quotas, one request after the other, and the delays that a broker tells: of any broker.

What is asked is always the same, and each request waits for as long as the one before was told, so that two brokers
that compute alike tell the same delays, but for the milliseconds that their answers took.
"""

from __future__ import annotations

import time

from kavka.protocol.messages import CreateTopicsRequest, MetadataRequest
from kavka.protocol.messages.create_topics_request import CreatableTopic
from tests.kit.broker_client import BrokerClient, batch, fetch_of, produce_of
from tests.kit.quota_script import CONSUME, MUTATIONS, PERCENT, PRODUCE, alter

SETTINGS = {"quota.window.num": "6", "controller.quota.window.num": "6"}
_CLIENT = (("client-id", "test"),)
_QUOTA = 50_000
_PRODUCED = (200_000, 300_000, 100_000, 20_000, 150_000)
_FETCHED_BYTES = 100_000


def run(port: int) -> dict[str, list[int]]:
    """The delays that were told, in milliseconds, by what was over its quota."""
    with BrokerClient(port) as client:
        topic = client.create_topic()
        return {
            "produce": _produce(client, topic),
            "fetch": _fetch(client, topic),
            "request": _request(client),
            "mutations": _mutate(client),
        }


def _set(client: BrokerClient, key: str, value: float | None) -> None:
    assert [code for _entity, code, _message in alter(client, [(_CLIENT, [(key, value)])])] == [0]
    time.sleep(1)  # Kafka's brokers, the asked one too, hear of it from ZooKeeper.


def _wait(told_ms: int) -> int:
    time.sleep(told_ms / 1000)
    return told_ms


def _produce(client: BrokerClient, topic: str) -> list[int]:
    _set(client, PRODUCE, _QUOTA)
    told = []
    for size in _PRODUCED:
        answer = client.ask(produce_of(topic, bytes(batch(bytes(size)))), 9)
        told.append(_wait(answer.throttle_time_ms))
    _set(client, PRODUCE, None)
    return told


def _fetch(client: BrokerClient, topic: str) -> list[int]:
    for _ in range(8):
        assert client.produce(topic, bytes(batch(bytes(_FETCHED_BYTES)))).error_code == 0
    _set(client, CONSUME, _QUOTA)
    told = []
    offset = len(_PRODUCED)
    for _ in range(8):
        request = fetch_of(topic, offset)
        request.topics[0].partitions[0].partition_max_bytes = 1
        answer = client.ask(request, 12)
        told.append(_wait(answer.throttle_time_ms))
        if not answer.throttle_time_ms:
            offset += 1
    _set(client, CONSUME, None)
    return told


def _request(client: BrokerClient) -> list[int]:
    _set(client, PERCENT, 0.000001)
    told = [_wait(client.ask(MetadataRequest(topics=[]), 9).throttle_time_ms) for _ in range(3)]
    _set(client, PERCENT, None)
    return told


def _mutate(client: BrokerClient) -> list[int]:
    """Delays as from when the quota was overdrawn, for topics take their time to be made; error codes beneath 0."""
    _set(client, MUTATIONS, 2)
    told = []
    overdrawn = 0.0
    # The first overdraws the quota of 12 at once, and the next is refused. After the wait it empties the bucket, and
    # the last overdraws it in a version that knows no refusal.
    for name, partitions, version in (("q1", 20, 6), ("q2", 1, 6), ("q2", 1, 6), ("q3", 3, 5)):
        if name == "q1" or told[-1:] != [0]:
            overdrawn = time.monotonic()
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=20_000), version)
        passed_ms = round((time.monotonic() - overdrawn) * 1000)
        delay_ms = _wait(answer.throttle_time_ms)
        told += [-answer.topics[0].error_code, delay_ms and delay_ms + passed_ms]
    _set(client, MUTATIONS, None)
    return told
