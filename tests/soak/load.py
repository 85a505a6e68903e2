"""Load: clients of all kinds on threads of their own, each in a loop that goes on over errors until `stop`.

It counts what each did and which errors it saw, and measures how long acknowledgements took; it judges nothing.

    plain, compacted, transactions    producers: acks=1; acks=all and idempotent, few keys; transactional
    classic, consumer, share          members of groups of the three protocols, which leave and come back
    churn                             topics that are made, written to, altered and deleted
    scrape, console                   whoever reads metrics and pages
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, ShareConsumer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported in fact
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from tests.chaos.workload import CLIENT

PLAIN, COMPACTED, TRANSACTIONS = "plain", "compacted", "transactions"
PARTITIONS = 3
SEGMENT_BYTES, BATCH_BYTES = 64 << 10, 16 << 10
SEGMENT = {"segment.bytes": str(SEGMENT_BYTES), "segment.index.bytes": str(SEGMENT_BYTES)}
TOPICS = {
    PLAIN: {**SEGMENT, "retention.bytes": str(256 << 10)},
    COMPACTED: {**SEGMENT, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
    TRANSACTIONS: {**SEGMENT, "retention.bytes": str(256 << 10)},
}
KINDS = (PLAIN, COMPACTED, TRANSACTIONS, "classic", "consumer", "share", "churn", "scrape", "console")
"""What `done` counts of each."""
KEYS = 200
VALUE = b"." * 200
CALL_S = 20.0
FEWER_REPLICAS = 2
"""Of short-lived topics, which are made while a broker is down, too."""
STAYS_S = 30.0
"""A member leaves its group after that time and comes back."""


class Load:
    """`start`, and `stop`, which raises nothing: what went wrong is in `errors`, and `done` tells what went well."""

    def __init__(
        self, bootstrap: str, *, replicas: int, rate: int, metrics: Sequence[str], pages: Sequence[str]
    ) -> None:
        """rate: records a second of each producer. metrics, pages: addresses that are read again and again."""
        self._bootstrap, self._replicas, self._rate = bootstrap, replicas, rate
        self.done: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._latencies: list[float] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        work: list[tuple[str, Callable[[], None]]] = [
            ("plain", lambda: self._produce("plain", PLAIN, {"acks": "1"})),
            ("compacted", lambda: self._produce("compacted", COMPACTED, {"acks": "all", "enable.idempotence": True})),
            ("transactions", self._transact),
            *(("classic", lambda: self._consume("classic")) for _ in range(2)),
            *(("consumer", lambda: self._consume("consumer")) for _ in range(2)),
            *(("share", self._share) for _ in range(2)),
            ("churn", self._churn),
            ("scrape", lambda: self._read("scrape", metrics, 5.0)),
            ("console", lambda: self._read("console", pages, 5.0)),
        ]
        self._threads = [threading.Thread(target=self._again, args=one, daemon=True) for one in work]

    def create_topics(self) -> None:
        topics = [NewTopic(name, PARTITIONS, self._replicas, config=own) for name, own in TOPICS.items()]
        admin = self._admin()
        for future in admin.create_topics(topics, operation_timeout=30).values():
            future.result()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(2 * CALL_S)

    def latency_s(self) -> float | None:
        """The median of acknowledgements since it was asked last; None where there were none."""
        with self._lock:
            found, self._latencies = self._latencies, []
        return statistics.median(found) if found else None

    def _again(self, name: str, work: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                work()
            except (KafkaException, OSError) as error:
                with self._lock:
                    self.errors[f"{name}: {_name_of(error)}"] += 1
                self._stopping.wait(1.0)

    def _count(self, name: str, number: int = 1) -> None:
        with self._lock:
            self.done[name] += number

    # -- producers

    def _produce(self, name: str, topic: str, settings: dict[str, Any]) -> None:
        # A batch that waited for a leader must still fit into a segment.
        bounded = {"linger.ms": 5, "batch.size": BATCH_BYTES}
        producer = Producer({**CLIENT, "bootstrap.servers": self._bootstrap, **bounded, **settings})
        for number in itertools.count():
            if self._stopping.is_set() or number > self._rate * 120:
                break  # A new producer, with a new id, every two minutes.
            self._send(producer, name, topic, key=b"key %d" % (number % KEYS))
            producer.poll(0)
            self._stopping.wait(1 / self._rate)
        producer.flush(CALL_S)

    def _send(self, producer: Producer, name: str, topic: str, *, key: bytes) -> None:
        began_at = time.monotonic()

        def told(error: Any, _message: Message) -> None:
            took_s = time.monotonic() - began_at
            with self._lock:
                if error is None:
                    self.done[name] += 1
                    self._latencies.append(took_s)
                else:
                    self.errors[f"{name}: {error.name()}"] += 1

        producer.produce(topic, VALUE, key=key, on_delivery=told)

    def _transact(self) -> None:
        producer = Producer(
            {**CLIENT, "bootstrap.servers": self._bootstrap, "transactional.id": "soak", "linger.ms": 5}
        )
        producer.init_transactions(CALL_S)
        for number in range(200):
            if self._stopping.is_set():
                break
            producer.begin_transaction()
            for record in range(10):
                producer.produce(TRANSACTIONS, VALUE, key=b"key %d" % record)
            if number % 7 == 6:
                producer.abort_transaction(CALL_S)
            else:
                producer.commit_transaction(CALL_S)
            self._count("transactions")
            self._stopping.wait(10 / self._rate)

    # -- groups

    def _consume(self, protocol: str) -> None:
        own = {"session.timeout.ms": 6000, "partition.assignment.strategy": "cooperative-sticky"}
        consumer = Consumer(
            {
                **CLIENT,
                **(own if protocol == "classic" else {}),
                "bootstrap.servers": self._bootstrap,
                "group.id": f"{protocol}-group",
                "group.protocol": protocol,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([PLAIN, TRANSACTIONS])
        until = time.monotonic() + STAYS_S
        while not self._stopping.is_set() and time.monotonic() < until:
            self._count(protocol, sum(one.error() is None for one in consumer.consume(500, 0.5)))
        consumer.close()

    def _share(self) -> None:
        settings = {**CLIENT, "bootstrap.servers": self._bootstrap, "group.id": "share-group"}
        with ShareConsumer(settings) as consumer:
            consumer.subscribe([PLAIN])
            until = time.monotonic() + STAYS_S
            while not self._stopping.is_set() and time.monotonic() < until:
                self._count("share", sum(one.error() is None for one in consumer.poll(0.5)))

    # -- others

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def _churn(self) -> None:
        admin, name = self._admin(), f"short-lived-{time.monotonic_ns()}"
        for future in admin.create_topics([NewTopic(name, 2, FEWER_REPLICAS)], operation_timeout=10).values():
            future.result(CALL_S)
        try:
            producer = Producer({**CLIENT, "bootstrap.servers": self._bootstrap, "message.timeout.ms": 5000})
            for number in range(20):
                self._send(producer, "churn records", name, key=b"%d" % number)
            producer.flush(6)
            entry = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
            for future in admin.incremental_alter_configs([resource]).values():
                future.result(CALL_S)
        finally:
            for future in admin.delete_topics([name], operation_timeout=10).values():
                future.result(CALL_S)
        self._count("churn")
        self._stopping.wait(3.0)

    def _read(self, name: str, addresses: Sequence[str], every_s: float) -> None:
        for address in addresses:
            with urllib.request.urlopen(address, timeout=CALL_S) as answer:
                answer.read()
            self._count(name)
        self._stopping.wait(every_s)


def _name_of(error: BaseException) -> str:
    return str(error.args[0].name()) if isinstance(error, KafkaException) else type(error).__name__
