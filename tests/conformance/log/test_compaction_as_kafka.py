"""Compaction beside Apache Kafka's: the same log, cleaned by both, holds the same records and markers, in batches whose
headers say the same.

What differs on purpose: of a batch that lost some of its records kavka copies the bytes of the others, so that their
timestamps go on counting from the batch's first one; Kafka counts them from the first that is left.
"""

from __future__ import annotations

import random
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kavka.broker.membership.adoption import operations, plan, survey
from kavka.log.decide.checkpoint import parse_offsets
from kavka.model import BrokerId
from kavka.records.builder import ProducerStamp
from kavka.records.control import ControlType
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.znode_paths import CLUSTER_ID_PATH, PRODUCER_ID_BLOCK_PATH
from kavka.zookeeper.znodes import ClusterId, ProducerIdBlock
from tests.apache_kafka import ApacheKafka, PeerMissing, run_tool
from tests.conformance.zookeeper.jute_client import JuteClient  # needs the path above
from tests.unit.log.compaction_support import CLUSTER_ID, COMPACTED, Store
from tests.unit.log.log_support import PARTITION

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

CONFIG = replace(COMPACTED, segment_bytes=4_000, delete_retention_ms=0)
OVERRIDES = {
    "cleanup.policy": "compact",
    "segment.bytes": str(CONFIG.segment_bytes),
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
    "retention.ms": "-1",
}
ROUNDS = 3
Left = tuple[int, bytes | None, bytes | None, bool]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    try:
        broker = ApacheKafka(
            tmp_path_factory.mktemp("kafka"), heap="-Xmx512M -Xms256M", settings={"log.cleaner.backoff.ms": "100"}
        )
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with broker:
        broker.stop_node("broker-1")
        yield broker


def write(store: Store, rng: random.Random, producers: dict[int, int]) -> None:
    """Keys, tombstones, and transactions of three producers that overlap."""
    opened: list[int] = []
    for _ in range(120):
        pairs = [(b"k%d" % rng.randrange(25), rng.choice([b"v%d" % rng.randrange(99), None])) for _ in range(3)]
        producer = rng.randrange(6)
        if producer > 2:
            store.put(*pairs)
            continue
        stamp = ProducerStamp(producer, 0, producers.setdefault(producer, 0), is_transactional=True)
        store.put(*pairs, stamp=stamp)
        producers[producer] += len(pairs)
        if producer not in opened:
            opened.append(producer)
        if rng.random() < 0.5:
            opened.remove(producer)
            store.end(rng.choice([ControlType.ABORT, ControlType.COMMIT]), producer)
    for producer in opened:
        store.end(ControlType.ABORT, producer)
    # What follows is in the active segment, of which neither has anything to say.
    store.roll()
    store.put((b"active", b"segment"))


def left(store: Store) -> list[Left]:
    """Offset, key, value and whether it is a marker, of all that is in the files."""
    return [
        (record.offset, record.key, record.value, header.is_control)
        for segment in store.log.segments
        for position, header in segment.headers()
        for record in segment.batch_at(position).records()
    ]


def batches(store: Store) -> list[tuple[object, ...]]:
    """What the headers say, of batches without records too, but for the base timestamp and what depends on it."""
    return [
        header._replace(base_timestamp=0, batch_length=0, crc=0)
        for segment in store.log.segments
        for _, header in segment.headers()
    ]


def opened(path: Path) -> Store:
    store = Store(path, config=CONFIG)
    store.now_ms = int(time.time() * 1000)
    return store


@pytest.mark.thorough
def test_the_same_records_are_left_as_by_kafkas_cleaner(kafka: ApacheKafka, tmp_path: Path) -> None:
    rng, producers = random.Random(11), dict[int, int]()
    ours, theirs = tmp_path / "ours", kafka.data_dir / "node-1"
    shutil.rmtree(theirs)
    for number in range(ROUNDS):
        store = opened(ours)
        if number:
            # The same bytes behind what each of them left.
            state = rng.getstate(), dict(producers)
            write(store, rng, producers)
            rng.setstate(state[0])
            producers = state[1]
            copy = opened(theirs)
            copy.now_ms = store.now_ms
            write(copy, rng, producers)
            assert copy.log.log_end_offset == store.log.log_end_offset
            copy.logs.close(copy.now_ms)
        else:
            write(store, rng, producers)
        everything = {entry[0]: entry for entry in left(store)}
        end = store.log.segments[-1].base_offset
        store.logs.close(store.now_ms)
        if not number:
            shutil.copytree(ours, theirs)
            enrol(kafka, theirs)
        clean_with_kafka(kafka, theirs, end)
        store = opened(ours)
        store.clean()
        assert store.log.cleaned_to == end
        kept, in_batches = left(store), batches(store)
        store.logs.close(store.now_ms)
        copied = tmp_path / f"theirs-{number}"
        shutil.copytree(theirs, copied)
        by_kafka = opened(copied)
        assert kept == left(by_kafka)
        assert in_batches == batches(by_kafka)
        by_kafka.logs.release()
        assert len(kept) < len(everything)
        assert all(everything[entry[0]] == entry for entry in kept)
        dumped = run_tool("kraft", "dump-log", "--deep-iteration", "--files", str(files(ours)[0]))
        assert "isvalid: true" in dumped
        assert "isvalid: false" not in dumped


def enrol(kafka: ApacheKafka, logs: Path) -> None:
    """Tells Kafka's ZooKeeper of the directory, as kavka would do for itself."""
    planned = plan(survey(LocalFileSystem(), [str(logs)]), BrokerId(1))
    zookeeper = JuteClient(kafka.zookeeper)
    zookeeper.set(CLUSTER_ID_PATH, ClusterId(CLUSTER_ID).encode())
    zookeeper.set(PRODUCER_ID_BLOCK_PATH, ProducerIdBlock(BrokerId(1), 9_000, 9_999).encode())
    for topic in planned.topics:
        zookeeper.multi(list(operations(topic, OVERRIDES, BrokerId(1), uuid.UUID(int=0))))
    zookeeper.close()


def clean_with_kafka(kafka: ApacheKafka, logs: Path, end: int) -> None:
    kafka.start_node("broker-1")
    kafka.wait_until_ready()
    deadline = time.monotonic() + 60
    checkpoint = logs / "cleaner-offset-checkpoint"
    while not checkpoint.exists() or parse_offsets(checkpoint.read_bytes()).get(PARTITION) != end:
        assert time.monotonic() < deadline, (kafka.data_dir / "broker-1.log").read_text()[-3000:]
        time.sleep(0.1)
    kafka.stop_node("broker-1")


def files(logs: Path) -> list[Path]:
    return sorted(path for path in (logs / str(PARTITION)).glob("*.log") if path.stat().st_size)
