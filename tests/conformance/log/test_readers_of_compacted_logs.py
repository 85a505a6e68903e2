"""A compacted topic is read to its end by consumers that learn nothing from an answer without records.

kafka-go's Reader, and sarama up to 1.45.1, ask again for the same offset where a fetch brings batches without a record,
so that such batches may not be all that an answer holds while others follow. Apache Kafka leaves one only for the last
batch of a live producer; there these clients stop with it, and with kavka they go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.errors import ErrorCode
from kavka.log.decide.checkpoint import parse_offsets
from kavka.model import TopicPartition
from kavka.records.batch import iterate_batches
from kavka.records.builder import NO_STAMP, BatchBuilder, ProducerStamp
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.conformance.clients.check_program import run_checks, set_up  # needs the path above
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

PROMPT = {"log.cleaner.backoff.ms": "100"}
WAIT_S = 60.0
SEGMENT_BYTES = 2_000
CLIENTS = ("kafka-go", "sarama 1.45.1")


class Broker:
    """A broker whose cleaner is prompt, and where its logs lie."""

    def __init__(self, port: int, logs: Path) -> None:
        self.client = BrokerClient(port)
        self.bootstrap = f"127.0.0.1:{port}"
        self._logs = logs

    def make_topic(self, name: str) -> str:
        return self.client.create_topic(
            name,
            cleanup_policy="compact",
            segment_bytes=str(SEGMENT_BYTES),
            min_cleanable_dirty_ratio="0.01",
        )

    def produce(self, topic: str, data: bytes) -> int:
        """The offset of the batch; a partition may not have a leader yet."""
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = self.client.produce(topic, data)
            if answer.error_code == ErrorCode.NONE:
                return int(answer.base_offset)
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)

    def emptied(self, topic: str) -> list[int]:
        """The last offsets of the batches without records, as they lie in the files."""
        return [
            batch.header.last_offset
            for path in sorted((self._logs / f"{topic}-0").glob("*.log"))
            for batch in iterate_batches(memoryview(path.read_bytes()))
            if not batch.header.record_count
        ]

    def wait_until_clean(self, topic: str) -> int:
        """Until all segments but the active one have been compacted; where that begins."""
        deadline = time.monotonic() + WAIT_S
        partition = TopicPartition(topic, 0)
        while True:
            bases = sorted(int(path.stem) for path in (self._logs / str(partition)).glob("*.log"))
            checkpoint = self._logs / "cleaner-offset-checkpoint"
            cleaned = parse_offsets(checkpoint.read_bytes()).get(partition) if checkpoint.exists() else None
            if cleaned == bases[-1]:
                return cleaned
            assert time.monotonic() < deadline, f"clean up to {cleaned}, segments {bases}"
            time.sleep(0.05)


@pytest.fixture(
    scope="module",
    params=[pytest.param("kavka", id="kavka"), pytest.param("kafka-3.9", id="kafka-3.9", marks=pytest.mark.kafka)],
)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    # Apache Kafka 4 allows no segments below 1 MB, which takes long to fill.
    directory = tmp_path_factory.mktemp("compacted")
    if request.param == "kavka":
        with KavkaProcess(directory / "data", settings=PROMPT) as kavka:
            yield Broker(kavka.port, directory / "data" / "logs")
        return
    try:
        kafka = ApacheKafka(directory, heap="-Xmx512M -Xms256M", settings=PROMPT)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield Broker(kafka.port, directory / "node-1")


def pairs(*keys: str, stamp: ProducerStamp = NO_STAMP) -> bytes:
    builder = BatchBuilder()
    for key in keys:
        builder.append(int(time.time() * 1000), key.encode(), b"x" * 100)
    return builder.build(stamp)


def read_by_both(broker: Broker, topic: str, count: int, last: int) -> dict[str, str]:
    program = set_up("setup_go_client.sh", "compacted")
    return run_checks([program, broker.bootstrap, topic, str(count), str(last)])


def test_segments_that_lost_their_last_batches_stop_no_consumer(broker: Broker) -> None:
    topic = broker.make_topic("plain")
    for number in range(40):
        broker.produce(topic, pairs(f"kept-{number}"))
        for _ in range(10):
            broker.produce(topic, pairs("again", "again"))
    last = broker.produce(topic, pairs("last"))
    start = broker.wait_until_clean(topic)
    assert broker.emptied(topic) == []
    active = broker.client.fetch(topic, start)
    in_active = sum(batch.header.record_count for batch in iterate_batches(memoryview(bytes(active.records))))
    kept = [number for number in range(40) if number * 21 < start]
    again_below = int(start > 1)
    assert read_by_both(broker, topic, len(kept) + again_below + in_active, last) == dict.fromkeys(CLIENTS, "")


def test_the_headers_of_live_producers_stop_no_consumer(broker: Broker, request: pytest.FixtureRequest) -> None:
    if "kafka-3.9" in request.node.name:
        pytest.skip("Apache Kafka answers with the header alone, and these clients stop there")
    topic = broker.make_topic("idempotent")
    broker.produce(topic, pairs("kept"))
    for sequence in range(30):
        broker.produce(topic, pairs("again", stamp=ProducerStamp(1_000_000, 0, sequence)))
    for _ in range(60):
        broker.produce(topic, pairs("again"))
    last = broker.produce(topic, pairs("last"))
    start = broker.wait_until_clean(topic)
    assert broker.emptied(topic) == [30]
    count = 1 + int(start > 1) + last + 1 - start
    assert read_by_both(broker, topic, count, last) == dict.fromkeys(CLIENTS, "")
