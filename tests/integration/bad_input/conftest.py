"""A raw client for requests that no client library would send, and what every such test asks in the end."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from kavka.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kavka.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kavka.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kavka.records.builder import BatchBuilder

fuzz_protocol = importlib.import_module("tools.fuzz_protocol")

_numbers = itertools.count()


class RawClient:
    """One connection to a broker on the loopback. What it sends is the caller's to get wrong."""

    def __init__(self, port: int) -> None:
        self.talk = fuzz_protocol.Talk(("127.0.0.1", port))

    def send(self, data: bytes) -> None:
        self.talk.socket.sendall(data)

    def is_closed_by_broker(self) -> bool:
        """Waits for the end of the stream; False where an answer came instead."""
        try:
            return bool(self.talk.socket.recv(1) == b"")
        except ConnectionError:
            return True

    def create_topic(self, name: str = "", **configs: str) -> str:
        """Makes a topic of one partition; its name."""
        name = name or f"bad-input-{next(_numbers)}"
        error_code = self.try_to_create_topic(name, **configs)
        assert error_code == 0, error_code
        return name

    def try_to_create_topic(self, name: str, **configs: str) -> int:
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=settings)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        response = self.talk.ask(ApiKey.CREATE_TOPICS, request, 5, CreateTopicsResponse)
        return int(response.topics[0].error_code)

    def produce(self, topic: str, records: bytes, *, version: int = 9, acks: int = -1) -> Any:
        """The partition's answer."""
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])
        response = self.talk.ask(ApiKey.PRODUCE, request, version, ProduceResponse)
        return response.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int) -> Any:
        """The partition's answer."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 24)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=[FetchTopic(topic=topic, partitions=[partition])]
        )
        return self.talk.ask(ApiKey.FETCH, request, 12, FetchResponse).responses[0].partitions[0]

    def is_served(self, topic: str) -> bool:
        """Whether a good record goes in and comes back."""
        produced = self.produce(topic, batch(b"good"))
        if produced.error_code:
            return False
        fetched = self.fetch(topic, produced.base_offset)
        return fetched.error_code == 0 and b"good" in bytes(fetched.records)


def batch(*values: bytes) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(0, b"key", value)
    return bytes(builder.build())


ConnectRaw = Callable[..., RawClient]


@pytest.fixture
def connect_raw(kavka_broker: Any) -> Iterator[ConnectRaw]:
    """connect_raw(): a new connection to the module's broker, or connect_raw(port) to another one."""
    clients: list[RawClient] = []

    def connect(port: int | None = None) -> RawClient:
        clients.append(RawClient(kavka_broker.port if port is None else port))
        return clients[-1]

    yield connect
    for client in clients:
        client.talk.close()
