"""Writes the fixtures of earlier builds: `python -m tests.upgrade.make_fixtures [NAME]`.

A cluster of three brokers of that build gets everything that has a form on disk or in ZooKeeper. Then one broker is
paused, so that it is out of every ISR and a committed transaction waits for its marker; and all of it is copied as
kill -9 would leave it (`killed.tar.xz`). The broker goes on, and all end in order (`stopped.tar.xz`). What clients read
in between is `contents.json`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from kavka.client.admin import Admin
from kavka.errors import ErrorCode
from kavka.model import TopicPartition as Partition
from kavka.protocol.messages import DescribeTransactionsRequest, InitProducerIdRequest, ProduceRequest
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from tests.integration.cluster.cluster_client import ClusterClient
from tests.kit.broker_client import produce_of
from tests.kit.process_cluster import ProcessCluster, Server, eventually
from tests.kit.three_brokers import Brokers
from tests.upgrade.contents import GROUPS, contents, decisions, records, replayed
from tests.upgrade.earlier_build import EVERY, EarlierBuild

FIXTURES = Path(__file__).parent / "fixtures"
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "log.index.size.max.bytes": "4096",
    # Members of groups that were killed are not waited for longer.
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "log.cleaner.backoff.ms": "200",
    "log.retention.ms": "-1",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "kavka.flight.recorder.bytes": "1048576",
    "kavka.decisions.ring.bytes": "131072",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BEGAN_MS = 1_700_000_000_000
"""The timestamps that producers choose."""
KEYS, VERSIONS = 10, 60
SEQUENCED_BATCHES, BATCH_RECORDS = 5, 3
PREPARED = "prepared-0"


def sequenced(producer_id: int, epoch: int, index: int) -> bytes:
    """The batch of that number of an idempotent producer."""
    stamp = ProducerStamp(producer_id, epoch, index * BATCH_RECORDS)
    builder = BatchBuilder(Compression.NONE)
    for number in range(BATCH_RECORDS):
        builder.append(time.time_ns() // 1_000_000, b"key", b"%d:%d" % (index, number))
    return bytes(builder.build(stamp))


def send_sequenced(client: ClusterClient, producer: tuple[int, int], index: int) -> tuple[ErrorCode, int]:
    """The code and the offset in the answer. producer: its id and epoch."""
    leader = client.cluster.state("sequenced").leader
    request: ProduceRequest = produce_of("sequenced", sequenced(*producer, index))
    answer = client.ask(leader, request, 9).responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.base_offset


class _Maker:
    def __init__(self, build: EarlierBuild, place: Path, stack: ExitStack) -> None:
        self._program, self._place = build.program(), place
        self.cluster = stack.enter_context(ProcessCluster(place / "cluster", settings=SETTINGS, program=self._program))
        self._client = ClusterClient(self.cluster)
        self._open: list[object] = []
        """Clients that must not end before the brokers do."""
        self.facts: dict[str, Any] = {}

    def make(self, results: Path) -> None:
        self.cluster.start()
        self._fill_plain()
        self._fill_compacted()
        self._fill_trimmed()
        self._fill_transactions()
        self._fill_sequenced()
        self._join_groups()
        stopped = self._stop_one_before_its_marker()
        self._fill("plain", 1, [b"while one is out %d" % number for number in range(20)])
        self.facts["states"] = {
            f"{topic}-{partition}": self.cluster.state(topic, partition)
            for topic, count in (("plain", 2), ("compacted", 1), ("transactions", 2), ("__consumer_offsets", 2))
            for partition in range(count)
        }
        eventually("the shrinks are told", lambda: any(one["kind"] == "isr shrunk" for one in self._decisions()))
        self._copy(results / "killed.tar.xz")
        self.cluster.brokers[stopped].resume()
        self._client.wait_for_isr(0, 1, 2, topic="plain")
        eventually("the marker is written", lambda: self._read("prepared"), timeout_s=60)
        self.facts["contents"] = contents(self.cluster)
        self.facts["decisions"] = self._decisions()
        self.facts["controller_epoch"] = self.cluster.controller_epoch()
        for server in self.cluster.brokers.values():
            assert server.stop() == 0, server.log_tail()
        self.cluster.zookeepers[0].stop()
        pack(self.cluster.directory, _parts(self.cluster), results / "stopped.tar.xz")
        self.facts["replayed"] = replayed(self.cluster, self._program)
        self.facts["made_at_s"] = time.time()
        (results / "contents.json").write_text(json.dumps(self.facts, indent=0, ensure_ascii=True) + "\n")

    # -- what there is to be

    def _fill_plain(self) -> None:
        self._client.create_topic(
            "plain", replicas=((0, 1, 2), (1, 2, 0)), min_insync_replicas="2", segment_bytes="2048"
        )
        for index, codec in enumerate(CODECS):
            producer = self._producer({"compression.type": codec, "linger.ms": 50})
            for number in range(30):
                producer.produce(
                    *("plain", b"%s %d" % (codec.encode(), number) * 5),
                    key=None if number % 7 == 0 else b"key %d" % number,
                    partition=number % 2,
                    headers=[("codec", codec.encode()), ("nothing", None)] if number % 3 == 0 else [],
                    timestamp=BEGAN_MS + index * 1000 + number,
                )
            assert producer.flush(30) == 0

    def _fill_compacted(self) -> None:
        self._client.create_topic(
            "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_bytes="4096"
        )
        producer = self._producer({})
        for version in range(VERSIONS):
            for key in range(KEYS):
                is_deleted = key == KEYS - 1 and version == VERSIONS // 2
                value = None if is_deleted else b"version %d" % version
                if key < KEYS - 1 or version <= VERSIONS // 2:
                    producer.produce("compacted", value, key=b"key %d" % key, timestamp=BEGAN_MS + version)
            producer.flush(30)

        def is_clean() -> bool:
            return len(self._read("compacted")) < KEYS * VERSIONS // 4

        eventually("the log is compacted", is_clean, timeout_s=60, every_s=0.2)
        time.sleep(2)  # A pass may be under way that began before the last records.

    def _fill_trimmed(self) -> None:
        self._client.create_topic("trimmed")
        self._fill("trimmed", 0, [b"record %d" % number for number in range(20)])
        Brokers(self.cluster.bootstrap).ask(self._delete_records)

    @staticmethod
    async def _delete_records(admin: Admin) -> object:
        return await admin.delete_records({Partition("trimmed", 0): 7})

    def _fill_transactions(self) -> None:
        self._client.create_topic("transactions", replicas=((0, 1, 2), (2, 0, 1)))
        self._client.create_topic("open")
        done = self._producer({"transactional.id": "done"})
        done.init_transactions(30)
        for number in range(6):
            done.begin_transaction()
            for partition in range(2):
                for record in range(4):
                    done.produce("transactions", b"%d of transaction %d" % (record, number), partition=partition)
            done.flush(30)
            if number % 3 == 2:
                done.abort_transaction(30)
            else:
                done.commit_transaction(30)
        left_open = self._producer({"transactional.id": "open", "transaction.timeout.ms": 600_000})
        left_open.init_transactions(30)
        for number in range(2):
            left_open.begin_transaction()
            left_open.produce("open", b"of transaction %d" % number)
            left_open.flush(30)
            if not number:
                left_open.commit_transaction(30)

    def _fill_sequenced(self) -> None:
        self._client.create_topic("sequenced")
        answer = self._client.ask(0, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        producer = answer.producer_id, answer.producer_epoch
        for index in range(SEQUENCED_BATCHES):
            code, _offset = send_sequenced(self._client, producer, index)
            assert code is ErrorCode.NONE, code
        self.facts["producer"] = producer

    def _join_groups(self) -> None:
        for group, protocol in zip(GROUPS, ("classic", "consumer"), strict=True):
            consumer = Consumer(
                {
                    "bootstrap.servers": self.cluster.bootstrap,
                    "log_level": 0,
                    "group.id": group,
                    "group.protocol": protocol,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    **({"session.timeout.ms": 6000} if protocol == "classic" else {}),
                }
            )
            consumer.subscribe(["plain"])
            assert len(consumer.consume(40, 30)) == 40
            places = [TopicPartition("plain", partition, 10 + partition, f"of {group}") for partition in range(2)]
            consumer.commit(offsets=places, asynchronous=False)
            self._open.append(consumer)

    def _stop_one_before_its_marker(self) -> int:
        """The broker. It alone has `prepared`, in which a transaction is committed: its coordinator knows, its log not
        yet."""
        producer = self._producer({"transactional.id": PREPARED})
        producer.init_transactions(30)
        coordinator = self.cluster.state("__transaction_state").leader
        broker = next(one for one in self.cluster.brokers if one not in (coordinator, self.cluster.controller()))
        self._client.create_topic("prepared", replicas=((broker,),))
        producer.begin_transaction()
        producer.produce("prepared", b"committed, and its marker is still to be written")
        assert producer.flush(30) == 0
        self.cluster.brokers[broker].pause()
        for topic, partition in (("__transaction_state", 0), ("plain", 0), ("plain", 1)):
            self._client.wait_for_state(
                "it is out", lambda state: broker not in state.isr, topic=topic, partition=partition
            )
        committing = threading.Thread(target=lambda: producer.commit_transaction(120), daemon=True)
        committing.start()
        self._open.append(committing)
        eventually("the outcome is stored", lambda: self._is_prepared(coordinator))
        return broker

    def _is_prepared(self, coordinator: int) -> bool:
        request = DescribeTransactionsRequest(transactional_ids=[PREPARED])
        found = self._client.ask(coordinator, request, 0).transaction_states[0]
        return bool(found.transaction_state == "PrepareCommit")

    # -- pieces

    def _producer(self, settings: dict[str, object]) -> Producer:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0, "acks": "all", **settings})
        self._open.append(producer)
        return producer

    def _fill(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        producer = self._producer({})
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=partition, timestamp=BEGAN_MS + number)
        assert producer.flush(30) == 0

    def _read(self, topic: str) -> list[list[Any]]:
        return records(self.cluster.bootstrap, topic)

    def _decisions(self) -> list[dict[str, Any]]:
        return decisions(self.cluster.bootstrap, self._program)

    def _copy(self, archive: Path) -> None:
        """As kill -9 would leave it: all processes stand still meanwhile."""
        servers: list[Server] = [*self.cluster.brokers.values(), *self.cluster.zookeepers]
        running = [server for server in servers if not server.is_paused]
        for server in running:
            server.pause()
        pack(self.cluster.directory, _parts(self.cluster), archive)
        for server in running:
            server.resume()


def _parts(cluster: ProcessCluster) -> list[str]:
    return [*(f"broker-{number}/data" for number in cluster.brokers), "zookeeper-0/data"]


def pack(directory: Path, parts: Sequence[str], archive: Path) -> None:
    """Without names of users, which are those of whoever makes it."""

    def nameless(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for part in parts:
            packed.add(directory / part, part, filter=nameless)


def unpack(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")


def make(build: EarlierBuild) -> None:
    results = FIXTURES / build.name
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    place = Path(tempfile.mkdtemp(prefix="kavka-fixtures-"))
    try:
        with ExitStack() as stack:
            _Maker(build, place, stack).make(results)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    for path in sorted(results.iterdir()):
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    for each in EVERY:
        if each.name in sys.argv[1:] or not sys.argv[1:]:
            make(each)
