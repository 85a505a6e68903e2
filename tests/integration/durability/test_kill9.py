"""kill -9 under load, again and again on one directory: nothing acknowledged is lost, and the log is a valid prefix.

A SIGKILL takes the process and leaves the page cache, so whatever was written is still there: acks=1 must survive it as
well as acks=all. What was sent and not acknowledged may be there or not, but only as a prefix of what was sent, in
order, once.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import crc32c
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported in fact

from tests.kit.kavka_process import KavkaProcess

CRASHES = int(os.environ.get("KAVKA_KILLS", "20"))
PARTITIONS = 3
TOPIC = "crashes"
# Small enough that every crash finds several segments, with their indexes and snapshots, and often one just rolled.
SETTINGS = {"log.segment.bytes": str(2**20)}
QUIET = {"log_level": 2}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
READ_TIMEOUT_S, GIVE_UP_S = 60.0, 60.0


@dataclass
class Sent:
    """What one producer sent to each partition, in order, and how far that was acknowledged."""

    values: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def send(self, producer: Producer, partition: int, value: bytes) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                self.acknowledged[partition, offset] = value
            elif error is not None and error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
                self.errors.append(str(error))

        producer.produce(TOPIC, value, partition=partition, on_delivery=on_delivery)
        self.values[partition].append(value)


class Survivor:
    """A broker that is killed time and again on one directory, with what its partitions have to hold."""

    def __init__(self, broker: KavkaProcess) -> None:
        self.broker = broker
        self.held: list[list[bytes]] = [[] for _ in range(PARTITIONS)]

    def read(self, first_offsets: list[int]) -> list[list[bytes]]:
        """Every partition from an offset to its end, checksums verified by the client."""
        consumer = Consumer(
            {**QUIET, "bootstrap.servers": self.broker.bootstrap, "group.id": "reader", "check.crcs": True,
             "enable.auto.commit": False, "enable.partition.eof": False, "fetch.wait.max.ms": 50}
        )  # fmt: skip
        try:
            starts = [TopicPartition(TOPIC, number, first_offsets[number]) for number in range(PARTITIONS)]
            ends = [consumer.get_watermark_offsets(start, 10)[1] for start in starts]
            consumer.assign(starts)
            found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
            missing = sum(ends) - sum(first_offsets)
            deadline = time.monotonic() + READ_TIMEOUT_S
            while missing > 0:
                assert time.monotonic() < deadline, f"{missing} records up to the end offsets {ends} did not come"
                for message in consumer.consume(10_000, 0.2):
                    assert message.error() is None, message.error()
                    partition, offset, value = message.partition(), message.offset(), message.value()
                    assert partition is not None
                    assert value is not None
                    assert offset == first_offsets[partition] + len(found[partition])
                    found[partition].append(value)
                    missing -= 1
            return found
        finally:
            consumer.close()

    def end_offsets(self) -> list[int]:
        return [len(values) for values in self.held]


@pytest.fixture(scope="module")
def survivor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivor]:
    with KavkaProcess(tmp_path_factory.mktemp("kill9") / "data", settings=SETTINGS) as broker:
        create_topic(broker)
        yield Survivor(broker)


def create_topic(broker: KavkaProcess) -> None:
    admin = AdminClient({**QUIET, "bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], operation_timeout=60)[TOPIC].result()


@pytest.mark.parametrize("crash", range(CRASHES))
def test_nothing_acknowledged_is_lost_by_kill_9(survivor: Survivor, crash: int) -> None:
    rng = random.Random(crash)
    before = survivor.end_offsets()
    sent = load_until_killed(survivor.broker, rng, producer_settings(crash), name=f"crash {crash}")
    assert not sent.errors
    assert sent.acknowledged, "the load was killed before anything was acknowledged: no test"

    survivor.broker.start()
    assert_log_files_are_valid(survivor.broker.data_dir)
    after = survivor.read(before)

    for (partition, offset), value in sent.acknowledged.items():
        assert after[partition][offset - before[partition]] == value
    for partition in range(PARTITIONS):
        assert after[partition] == sent.values[partition][: len(after[partition])], "not a prefix of what was sent"
        survivor.held[partition] += after[partition]
    if crash % 10 == 9:
        assert survivor.read([0] * PARTITIONS) == survivor.held


def producer_settings(crash: int) -> dict[str, str | int | bool]:
    """Turn about: an idempotent producer with acks=all, and a plain one with acks=1; every codec."""
    always: dict[str, str | int | bool] = {"linger.ms": 1, "compression.type": CODECS[crash % len(CODECS)]}
    if crash % 2 == 0:
        return {**always, "acks": "all", "enable.idempotence": True}
    # Without idempotence a retry may write a batch twice, but there is no broker to retry with before the purge.
    return {**always, "acks": "1", "max.in.flight.requests.per.connection": 1}


def load_until_killed(
    broker: KavkaProcess, rng: random.Random, settings: dict[str, str | int | bool], *, name: str
) -> Sent:
    """Send without a pause, kill the broker at a random moment, and give up what was not acknowledged by then."""
    producer = Producer({**QUIET, "bootstrap.servers": broker.bootstrap, "batch.num.messages": 500, **settings})
    sent = Sent()
    padding = rng.randbytes(2000)
    kill_at: float | None = None
    number = 0
    while kill_at is None or time.monotonic() < kill_at:
        for partition in range(PARTITIONS):
            start = rng.randrange(1000)
            value = b"%s %d " % (name.encode(), number) + padding[start : start + rng.randrange(1000)]
            try:
                sent.send(producer, partition, value)
            except BufferError:
                producer.poll(0.01)
        number += 1
        if number % 50 == 0:
            producer.poll(0)
            if kill_at is None and sent.acknowledged:  # the clock runs from the first acknowledgement
                kill_at = time.monotonic() + rng.uniform(0.0, 0.4)
    broker.kill()
    producer.poll(0.05)  # acknowledgements that had arrived already
    deadline = time.monotonic() + GIVE_UP_S
    while len(producer):  # One purge now and then leaves some: they would be waited for in vain.
        assert time.monotonic() < deadline, f"{len(producer)} records are not given up"
        producer.purge()
        producer.flush(0.5)
    return sent


def test_an_idempotent_producer_that_lives_through_crashes_writes_each_record_once(survivor: Survivor) -> None:
    before = survivor.end_offsets()
    producer = Producer(
        {**QUIET, "bootstrap.servers": survivor.broker.bootstrap, "enable.idempotence": True, "acks": "all",
         "linger.ms": 1, "batch.num.messages": 100, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}
    )  # fmt: skip
    sent = Sent()
    for crash in range(4):
        acknowledged = len(sent.acknowledged)
        for number in range(6000):
            sent.send(producer, number % PARTITIONS, b"through crash %d: %d" % (crash, number))
        while len(sent.acknowledged) < acknowledged + 2000:
            producer.poll(0.001)
        survivor.broker.kill()
        survivor.broker.start()
    assert producer.flush(60) == 0
    assert not sent.errors
    assert len(sent.acknowledged) == 4 * 6000

    after = survivor.read(before)
    assert after == sent.values
    for partition in range(PARTITIONS):
        survivor.held[partition] += after[partition]


def test_half_a_batch_at_the_end_of_the_log_is_cut_off_on_restart(survivor: Survivor) -> None:
    add_records(survivor, b"before the tear")
    survivor.broker.kill()
    directory = survivor.broker.data_dir
    for partition, path in enumerate(partition_directories(directory)):
        segments = sorted(path.glob("*.log"))
        batch = bytearray(first_batch(next(segment for segment in segments if segment.stat().st_size > 0)))
        batch[0:8] = len(survivor.held[partition]).to_bytes(8)
        # A whole header and a part of the records, as a machine that lost power leaves them.
        with segments[-1].open("ab") as file:
            file.write(batch[:-7])
    survivor.broker.start()
    assert_log_files_are_valid(directory)
    add_records(survivor, b"after the tear")
    assert survivor.read([0] * PARTITIONS) == survivor.held


def test_a_stop_in_order_needs_no_recovery_and_keeps_everything(survivor: Survivor) -> None:
    add_records(survivor, b"before the stop")
    assert survivor.broker.stop() == 0
    survivor.broker.start()
    assert survivor.read([0] * PARTITIONS) == survivor.held


def add_records(survivor: Survivor, name: bytes) -> None:
    """Some records to every partition, acknowledged and noted."""
    producer = Producer({**QUIET, "bootstrap.servers": survivor.broker.bootstrap, "acks": "all"})
    sent = Sent()
    for number in range(100 * PARTITIONS):
        sent.send(producer, number % PARTITIONS, b"%s %d" % (name, number))
    assert producer.flush(60) == 0
    assert not sent.errors
    for partition in range(PARTITIONS):
        survivor.held[partition] += sent.values[partition]


def partition_directories(data_dir: Path) -> list[Path]:
    """The directories of the topic's partitions, wherever below the data directory they lie."""
    return sorted(path for path in data_dir.rglob(f"{TOPIC}-*") if path.is_dir() and any(path.glob("*.log")))


def first_batch(segment: Path) -> bytes:
    data = segment.read_bytes()
    return data[: 12 + int.from_bytes(data[8:12])]


def assert_log_files_are_valid(data_dir: Path) -> None:
    """Every segment of the topic is whole batches with right checksums; offsets go on without a gap from file to file.

    Bytes of a batch, big-endian: base offset 0:8, length of what follows 8:12, CRC-32C of 21: at 17:21, last offset
    delta 23:27.
    """
    directories = partition_directories(data_dir)
    assert len(directories) == PARTITIONS
    for directory in directories:
        next_offset = 0
        for segment in sorted(directory.glob("*.log")):
            assert int(segment.stem) == next_offset
            data, position = segment.read_bytes(), 0
            while position < len(data):
                end = position + 12 + int.from_bytes(data[position + 8 : position + 12])
                assert end <= len(data), f"{segment}: the batch at {position} goes past the end"
                assert int.from_bytes(data[position : position + 8]) == next_offset
                assert int.from_bytes(data[position + 17 : position + 21]) == crc32c.crc32c(data[position + 21 : end])
                next_offset += int.from_bytes(data[position + 23 : position + 27]) + 1
                position = end
