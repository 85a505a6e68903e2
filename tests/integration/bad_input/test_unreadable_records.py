"""Records that nobody can read, accepted because their batch is too large to be inflated at the door: whoever asks for
them gets an error for their partition, and nobody else notices."""

from __future__ import annotations

import gzip
import random
import time
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import ListOffsetsRequest
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from kavka.records.batch import read_header
from kavka.records.builder import seal
from kavka.records.compression import Compression
from kavka.records.validation import INFLATED_RECORDS_BYTES
from tests.kit.broker_client import BrokerClient, batch, read_records
from tests.kit.kavka_process import KavkaProcess

HOUR_MS = 3_600_000
COUNT = 5_000
LATEST, LARGEST = -1, -3


def unreadable() -> bytes:
    """A batch with a right checksum whose records inflate to noise."""
    header = read_header(batch(b"v"))
    piece = random.Random(7).randbytes(30_000)
    noise = piece * (INFLATED_RECORDS_BYTES // len(piece) + 1)
    fields = {"attributes": int(Compression.GZIP), "record_count": COUNT, "last_offset_delta": COUNT - 1}
    return seal(header._replace(**fields), gzip.compress(noise))


def by_time(topic: str, *times: int) -> ListOffsetsRequest:
    """Asks each partition for a time of its own."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=time) for index, time in enumerate(times)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])


def answers(response: Any) -> list[tuple[ErrorCode, int]]:
    return [(ErrorCode(answer.error_code), answer.offset) for answer in response.topics[0].partitions]


@pytest.fixture
def client(kavka_broker: KavkaProcess) -> Any:
    with BrokerClient(kavka_broker.port) as connected:
        yield connected


def test_a_look_up_by_time_fails_in_the_partition_of_the_records_alone(
    kavka_broker: KavkaProcess, client: BrokerClient
) -> None:
    topic = client.create_topic("unreadable", partitions=2)
    now_ms = int(time.time() * 1000)
    for partition in range(2):
        assert client.produce(topic, bytes(batch(b"first")), partition=partition).error_code == 0
    assert client.produce(topic, unreadable()).error_code == 0
    assert client.produce(topic, bytes(batch(b"last"))).error_code == 0
    request = by_time(topic, now_ms, now_ms)
    others = by_time(topic, LATEST, LATEST), by_time(topic, now_ms - HOUR_MS, LARGEST), by_time(topic, LARGEST, LATEST)
    for asked in (request, *others, request):
        client.send(asked, 7)
    first, ends, found, largest, again = [answers(client.receive(request, 7)) for _ in range(5)]
    assert first == again == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]
    assert ends == [(ErrorCode.NONE, COUNT + 2), (ErrorCode.NONE, 1)]
    assert found == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]
    assert largest[1] == (ErrorCode.NONE, 1)
    assert largest[0][0] in (ErrorCode.NONE, ErrorCode.INVALID_RECORD), "which batch is the youngest is a race of ms"
    stored = read_records(client.fetch(topic, COUNT + 1).records)
    assert stored == [(COUNT + 1, b"last")]


def test_the_records_themselves_are_an_error_each_time_and_one_line_in_the_log(
    kavka_broker: KavkaProcess, client: BrokerClient
) -> None:
    topic = client.create_topic("unreadable-first", partitions=2)
    assert client.produce(topic, unreadable()).error_code == 0
    assert client.produce(topic, bytes(batch(b"good")), partition=1).error_code == 0
    for _ in range(3):
        response = client.ask(by_time(topic, 0, 0), 7)
        assert answers(response) == [(ErrorCode.INVALID_RECORD, -1), (ErrorCode.NONE, 0)]
    with BrokerClient(kavka_broker.port) as another:
        assert answers(another.ask(by_time(topic, 0, 0), 7))[1] == (ErrorCode.NONE, 0)
    said = kavka_broker.log_tail(lines=1_000)
    assert said.count("records cannot be read") == 1
    assert f"partition={topic}-0" in said
