"""Load: records that are written all along with acks=all, and what must be there at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kavka.testing import Cluster
from tests.kit.command_line import run_alone

TIMEOUT_S = 90.0


class Load:
    """An idempotent producer that numbers its records, partition by partition, until the block ends."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._bootstrap = cluster.bootstrap_servers
        self._acked: list[list[int]] = [[] for _ in range(partitions)]
        self.failed: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self._acked))

    def go_on(self, records: int = 200) -> None:
        """Returns when so many more records were acknowledged."""
        goal = self.acknowledged + records
        until(lambda: self.acknowledged >= goal, f"{records} more records acknowledged")

    def check(self) -> None:
        """Every acknowledged record is there once, in order."""
        assert self.failed == []
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "check", "auto.offset.reset": "earliest"}
        )
        try:
            for partition, acked in enumerate(self._acked):
                assert acked == sorted(set(acked))
                consumer.assign([TopicPartition(self._topic, partition, 0)])
                end = self._end(consumer, partition)
                found: list[int] = []
                while len(found) < end:
                    message = consumer.poll(60)
                    assert message is not None, f"{len(found)} of {end} records read"
                    assert message.error() is None, message.error()
                    found.append(int(message.value() or b""))
                assert found == sorted(set(found)), "once, and in order"
                assert set(acked) <= set(found), "nothing acknowledged is lost"
        finally:
            consumer.close()

    def _end(self, consumer: Consumer, partition: int) -> int:
        """The client may know the leader of before the last move still; it asks anew only when it is told so."""
        ends: list[int] = []

        def is_told() -> bool:
            try:
                ends.append(consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=60)[1])
            except KafkaException as refused:
                if refused.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                    raise
            return bool(ends)

        until(is_told, f"the end of partition {partition}")
        return ends[0]

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(60)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            for partition in range(self._partitions):
                self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=self._on_delivery)
            number += 1
            self._producer.poll(0.005)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self._acked[message.partition() or 0].append(int(message.value() or b""))


def until(probe: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not probe():
        assert time.monotonic() < deadline, f"not in {TIMEOUT_S:g} s: {what}"
        time.sleep(0.02)


def kavka(cluster: Cluster, *words: str, text: str = "", status: int = 0) -> str:
    """What a command of kavka prints on standard output."""
    done = run_alone(*words, "-b", cluster.bootstrap_servers, given=text.encode())
    assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}"
    return done.stdout.decode()


def holders(cluster: Cluster, topic: str, partition: int) -> list[int]:
    """Brokers on whose disks the partition lies, deleted ones that wait for their end left out."""
    name = f"{topic}-{partition}"
    return [
        broker_id
        for broker_id in cluster.broker_ids
        if any(path.name == name for path in (cluster.directory / f"broker-{broker_id}").rglob(name))
    ]


def replicas(cluster: Cluster, topic: str, partition: int) -> tuple[int, ...]:
    return tuple(cluster.partition(topic, partition).replicas)
