"""Workload: idempotent acks=all producers, and consumers that read all along; all that they see goes to a History.

The clients are librdkafka's. Producers never give a record up: what was sent is acknowledged sooner or later, or its
outcome stays open when the run ends. Consumers are assigned every partition from offset 0 and never seek.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.history import UNKNOWN_OFFSET, History, Value
from tests.chaos.history import Producer as ProducerHistory
from tests.chaos.renumbering import ClientsNotes

PADDING = b"." * 60

# Back within half a second of a fault's end; librdkafka's own default may wait ten.
CLIENT = {
    "log_level": 0,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 2000,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "socket.timeout.ms": 6000,
    "socket.connection.setup.timeout.ms": 2000,
    "socket.nagle.disable": True,
}
PRODUCER = {
    **CLIENT,
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "request.timeout.ms": 5000,
    "message.timeout.ms": 0,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 300,
    "queue.buffering.max.messages": 200_000,
    "debug": "eos",  # its account of a new producer epoch; see renumbering.py
}
CONSUMER = {
    **CLIENT,
    "group.id": "chaos",  # asked for by the library; nothing is committed and no group is joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 200,
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 100,
}


class WorkloadFailed(Exception):
    """A client got stuck or could not go on; the message says which and where."""


def encoded(value: Value) -> bytes:
    body = b"%d:%d:" % value + PADDING
    return body + b":%08x" % zlib.crc32(body)


def decoded(data: bytes | None) -> Value | None:
    """None for what no producer of a run sends."""
    body, _, checksum = (data or b"").rpartition(b":")
    if not body or checksum != b"%08x" % zlib.crc32(body):
        return None
    producer, number, _padding = body.split(b":", 2)
    return Value(int(producer), int(number))


class Workload:
    """Runs from `start` to `stop`; then `final_read` on a quiet cluster completes the history."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        producers: int,
        rate: int,
        racks: tuple[str, ...] = ("",),
        login: Mapping[str, str] | None = None,
        topic_may_seem_unknown: bool = False,
    ) -> None:
        """rate: records a second of each producer. racks: one consumer for each, "" for one that reads from leaders.
        login: settings of clients with which they get in. topic_may_seem_unknown: brokers of Apache Kafka 3.9 that have
        just started answer so, before their controller told them of topics; kavka's wait for that."""
        self.history = History(partitions)
        self.bootstrap, self.topic = bootstrap, topic
        self._login = dict(login or {})
        self._topic_may_seem_unknown = topic_may_seem_unknown
        self.errors: Counter[str] = Counter()
        self.fatal: list[str] = []
        self.notes = ClientsNotes()
        self._rate = rate
        self._lock = threading.Lock()
        self._producing, self._consuming = threading.Event(), threading.Event()
        self._producers = [threading.Thread(target=self._produce, daemon=True) for _ in range(producers)]
        self._consumers = [
            threading.Thread(target=self._consume, args=(f"consumer-{index}", rack), daemon=True)
            for index, rack in enumerate(racks)
        ]
        self._racks = racks

    def start(self) -> None:
        self._producing.set()
        self._consuming.set()
        for thread in (*self._producers, *self._consumers):
            thread.start()

    # -- producers

    def _produce(self) -> None:
        while self._producing.is_set():
            with self._lock:
                history = self.history.producer()
            self._produce_as(history)

    def _produce_as(self, history: ProducerHistory) -> None:
        """Until the end of the run, or a fatal error, after which another producer takes over."""
        settings = {**PRODUCER, **self._login, "bootstrap.servers": self.bootstrap, "error_cb": self._note}
        producer = Producer(settings, logger=self.notes.logger())
        doomed = threading.Event()

        def on_delivery(error: KafkaError | None, message: Message, number: int) -> None:
            if error is None:
                offset = message.offset()
                known = offset is not None and offset >= 0
                history.acknowledge(number, offset if known else UNKNOWN_OFFSET, at=time.monotonic())
                return
            self._note(error)
            if error.fatal():
                doomed.set()

        started_at, sent = time.monotonic(), 0
        while self._producing.is_set() and not doomed.is_set():
            due = int((time.monotonic() - started_at) * self._rate) - sent
            for _ in range(min(due, 100)):
                partition = sent % self.history.partitions
                value = history.send(partition, at=time.monotonic())
                try:
                    producer.produce(
                        self.topic,
                        encoded(value),
                        partition=partition,
                        on_delivery=lambda error, message, number=value.number: on_delivery(error, message, number),
                    )
                except BufferError:
                    # Never handed over: its outcome is open for ever, which is allowed.
                    time.sleep(0.05)
                except KafkaException as error:
                    self._note(error.args[0])
                    if self._topic_may_seem_unknown and error.args[0].code() == KafkaError._UNKNOWN_TOPIC:
                        time.sleep(0.05)  # As above: it was not handed over.
                        continue
                    doomed.set()
                    break
                sent += 1
            producer.poll(0.01)
            if due > 10 * self._rate:  # it was held up; it does not catch up in one burst
                started_at, sent = time.monotonic(), 0
        producer.flush(60)
        fatal = doomed.is_set()
        if fatal:
            with self._lock:
                self.fatal.append(f"producer {history.number} could not go on after {len(history)} records")

    def _note(self, error: KafkaError) -> None:
        with self._lock:
            self.errors[error.name()] += 1
            if error.fatal():
                self.fatal.append(str(error))

    def stop_producers(self) -> None:
        """Waits for what is in flight. What has no outcome after a minute stays open."""
        self._producing.clear()
        for thread in self._producers:
            thread.join(90)

    def acknowledged_since(self, moment: float) -> set[int]:
        """The partitions with a record that was sent after a moment of time.monotonic() and acknowledged."""
        found: set[int] = set()
        for producer in list(self.history.producers):
            for number in range(len(producer) - 1, -1, -1):
                if producer.sent_at[number] <= moment:
                    break
                if producer.is_acknowledged(number):
                    found.add(producer.partitions[number])
        return found

    # -- consumers

    def _consumer(self, rack: str, *, settings: Mapping[str, object] | None = None) -> Consumer:
        own = {"client.rack": rack} if rack else {}
        return Consumer({**CONSUMER, **self._login, **own, **(settings or {}), "bootstrap.servers": self.bootstrap})

    def _all_from_start(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, index, OFFSET_BEGINNING) for index in range(self.history.partitions)]

    def _consume(self, name: str, rack: str) -> None:
        consumer = self._consumer(rack)
        consumer.assign(self._all_from_start())
        for partition in range(self.history.partitions):
            with self._lock:
                self.history.reads_of(name, partition)
        while self._consuming.is_set():
            for message in consumer.consume(1000, 0.2):
                partition = message.partition()
                assert partition is not None
                self._take(name, message)
        consumer.close()

    def _take(self, name: str, message: Message) -> None:
        error = message.error()
        if error is not None:
            self._note(error)
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                where = f"{message.partition()}@{message.offset()}"
                self.history.alien.append(f"{name} was sent away from {where}: {error.str()}")
            return
        partition, offset, value = message.partition(), message.offset(), decoded(message.value())
        assert partition is not None
        assert offset is not None
        if value is None:
            self.history.alien.append(f"{name}, {partition}@{offset}: {message.value()!r}")
        else:
            self.history.reads_of(name, partition).read(offset, value, at=time.monotonic())

    def drain(self, *, timeout_s: float) -> None:
        """Waits until every consumer has been given the last record that the final read found, and ends them.
        Raises WorkloadFailed."""
        deadline = time.monotonic() + timeout_s
        try:
            for (name, partition), reads in sorted(self.history.reads.items()):
                final = self.history.final_of(partition).offsets
                while final and (not reads.offsets or reads.offsets[-1] < final[-1]):
                    if time.monotonic() > deadline:
                        at = reads.offsets[-1] if reads.offsets else -1
                        raise WorkloadFailed(f"{name} is stuck at {partition}@{at}, the end is {final[-1]}")
                    time.sleep(0.05)
        finally:
            self._consuming.clear()
            for thread in self._consumers:
                thread.join(30)

    # -- the end

    def final_read(self, *, timeout_s: float) -> dict[int, int]:
        """A fresh consumer reads everything. Returns the high watermarks by partition. Raises WorkloadFailed."""
        consumer = self._consumer("", settings={"enable.partition.eof": True})
        deadline = time.monotonic() + timeout_s
        ended: dict[int, int] = {}
        consumer.assign(self._all_from_start())
        while len(ended) < self.history.partitions:
            if time.monotonic() > deadline:
                missing = sorted(set(range(self.history.partitions)) - ended.keys())
                raise WorkloadFailed(f"partitions {missing} could not be read to their ends in {timeout_s} s")
            for message in consumer.consume(2000, 0.5):
                error, partition, offset = message.error(), message.partition(), message.offset()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF and partition is not None and offset is not None:
                        ended[partition] = offset
                    continue
                value = decoded(message.value())
                assert partition is not None
                assert offset is not None
                if value is None:
                    self.history.alien.append(f"final read, {partition}@{offset}: {message.value()!r}")
                else:
                    self.history.final_of(partition).read(offset, value)
        consumer.close()
        return ended
