"""kavka's source beside Spark's own connector: `python -m benchmarks.spark [--rounds N] [--quick] [--broker kavka]`.

Both read the same topics in the same session, in turn, with CRCs checked by both, so that whatever else the machine
does falls on both. What counts is the ratio of each round; its median is compared with the target.

    1 KiB, 100 B      a whole topic of four partitions into Spark's noop sink, all seven columns
    ..., value only   the same, and kavka asked for one column (the connector cannot be)
    micro-batch       a stream of micro-batches of 400 rows: the time from trigger to trigger; kavka's four partitions
                      share two tasks, or one with KAVKA_SPARK_CORES=1
    ..., four tasks   the same, and each partition is read by a task of its own (minPartitions)
    sink, from kafka  the same micro-batches into a topic, read with the connector by both sinks
    sink, from kavka  the same, read with kavka
    live ...          each of these four, of a stream that waits for its records: from the acknowledgement of 400 that
                      are written until the commit of their micro-batch (spark_live.py)
    live ..., 10 ms   the first of them with kafka.fetch.max.wait.ms=10: by default a broker keeps a fetch at the end of
                      its log for 500 ms, and the connector's next question waits behind it

    kavka-log         a session's first query over log files beside the same query later; the connector has none

Processor time is that of the session: the JVM, and the Python workers where there are any; not the broker's.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.kavka_process import KavkaProcess, ProcessFailed
from tests.kit.official_connector import VERSION, connector_jars
from tests.kit.topic_filler import create_topic, produce

from benchmarks.render import RESULTS, render
from benchmarks.spark_live import WARMING, Writer, latency_ms
from benchmarks.spark_results import Row, keep, section
from kavka_spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARTITIONS = 4
MICRO_BATCH_ROWS = 400
LOGGED_RECORDS = 100_000
PARTS = ("triggerExecution", "addBatch", "latestOffset", "walCommit", "commitOffsets", "queryPlanning")
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
FORMATS = ("kafka", "kavka")
STREAMS = ("micro-batch", "micro-batch, four tasks", "sink, from kafka", "sink, from kavka")
SHORT_WAIT = "live micro-batch, 10 ms fetch wait"
LIVE = (*(f"live {name}" for name in STREAMS), SHORT_WAIT)
LOG = "kavka-log"


class Topic(NamedTuple):
    """One topic to be read whole."""

    name: str
    topic: str
    size: int
    records: int


class Taken(NamedTuple):
    """What one reading took."""

    wall_s: float
    cpu_s: float


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that broker and JVM are ended on the way out
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="one more is run first, and not counted")
    parser.add_argument("--quick", action="store_true", help="a quarter of the records")
    parser.add_argument("--broker", choices=("kafka", "kavka"), default="kafka")
    parser.add_argument("--micro-batches", type=int, default=30)
    parser.add_argument(
        "--unix-sockets",
        action="store_true",
        help="Spark's JVM and its Pythons over Unix sockets: over TCP Spark sets no TCP_NODELAY, so that its second "
        "small write to a worker may wait 40 ms for the acknowledgement of the first",
    )
    parser.add_argument("--rows", default="", help="only these, separated by semicolons; see above")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/spark.json")
    arguments = parser.parse_args()
    share = 4 if arguments.quick else 1
    topics = [Topic("1 KiB", "large", 1024, 1_000_000 // share), Topic("100 B", "small", 100, 4_000_000 // share)]
    wanted = [name.strip() for name in arguments.rows.split(";") if name.strip()]
    unknown = set(wanted) - {LOG, *STREAMS, *LIVE, *(topic.name for topic in topics)}
    if unknown or arguments.rounds < 1 or arguments.micro_batches < 1:
        parser.error(f"no row {', '.join(sorted(unknown))}" if unknown else "rounds and micro-batches are 1 at least")
    topics = [topic for topic in topics if not wanted or topic.name in wanted]
    streams = [name for name in (*STREAMS, *LIVE) if not wanted or name in wanted]
    try:
        run(arguments, topics, streams, with_log=not wanted or LOG in wanted)
    except (PeerMissing, ProcessFailed) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


def run(arguments: argparse.Namespace, topics: list[Topic], streams: list[str], *, with_log: bool) -> None:
    """Raises `PeerMissing`, `ProcessFailed`."""
    jars = ",".join(map(str, connector_jars()))
    kept_for = arguments.broker if arguments.keep else None
    results: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as directory, broker(arguments.broker, Path(directory)) as bootstrap:
        for topic in topics:
            create_topic(bootstrap, topic.topic, PARTITIONS)
            produce(bootstrap, topic.topic, topic.records, partitions=PARTITIONS, size=topic.size)
        spark = session(
            "bench",
            **{
                "spark.master": "local[2]",
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                "spark.jars": jars,
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "2g",
                "spark.log.level": "ERROR",
                "spark.python.unix.domain.socket.enabled": str(arguments.unix_sockets).lower(),
            },
        )
        try:
            if with_log:
                results[LOG] = first_and_warm(spark, Path(directory), arguments.rounds)
                show_and_keep(results, kept_for)
            if streams:  # The rows about sinks write to a topic that it makes.
                fill_trickle(bootstrap, arguments.micro_batches)
            for name in streams:
                measured = live if name in LIVE else micro_batches
                results[name] = measured(spark, bootstrap, name, arguments.rounds, Path(directory))
                show_and_keep(results, kept_for)
            for topic in topics:
                results[topic.name] = whole_topic(spark, bootstrap, topic, arguments.rounds)
                show_and_keep(results, kept_for)
        finally:
            spark.stop()


def show_and_keep(results: dict[str, Row], broker: str | None) -> None:
    """Prints what there is, and keeps it where the broker is named. After every row: a run may be ended early."""
    print("\n".join(section(results)), flush=True)
    if broker is not None:
        for row in results.values():
            row["machine"] |= {
                "against": {"kafka": "Apache Kafka 4", "kavka": "kavka"}[broker],
                "connector": VERSION,
                "Spark": version("pyspark"),
            }
        keep(RESULTS / "spark.json", results)
        render()


@contextmanager
def broker(kind: str, directory: Path) -> Iterator[str]:
    """Its bootstrap address."""
    if kind == "kavka":
        with KavkaProcess(directory / "kavka") as kavka:
            yield kavka.bootstrap
    else:
        with ApacheKafka(directory / "kafka", mode="kraft") as kafka:
            yield kafka.bootstrap


def whole_topic(spark: SparkSession, bootstrap: str, topic: Topic, rounds: int) -> Row:
    """Reads a topic whole, in turn; the first round, which warms both up, does not count."""

    def read(source: str, columns: str) -> Taken:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic.topic}
        if columns:
            options["columns"] = columns
        frame = spark.read.format(source).options(**options).load()
        return measure(lambda: frame.write.format("noop").mode("overwrite").save())

    candidates = {"kafka": "", "kavka": "", "kavka, value only": "value"}
    taken: dict[str, dict[str, list[float]]] = {name: {"wall_s": [], "cpu_s": []} for name in candidates}
    machine = circumstances()
    for number in range(rounds + 1):
        for name, columns in candidates.items():
            found = read(name.partition(",")[0], columns)
            print(f"  {topic.name}, {name}: {found.wall_s:.2f} s, {found.cpu_s:.2f} CPU s", flush=True)
            if number:
                taken[name]["wall_s"].append(found.wall_s)
                taken[name]["cpu_s"].append(found.cpu_s)
    return Row(what=f"{topic.records:,} records of {topic.name}", machine=machine, candidates=taken)


def first_and_warm(spark: SparkSession, directory: Path, rounds: int) -> Row:
    """A session's first query over log files beside the same query later: the candidates are those two."""
    with KavkaProcess(directory / "log") as kavka:
        create_topic(kavka.bootstrap, "logged", PARTITIONS)
        produce(kavka.bootstrap, "logged", LOGGED_RECORDS, partitions=PARTITIONS, size=100)
    machine = circumstances()

    def query() -> Taken:
        files = spark.read.format(LOG).option("topics", "logged").load(str(directory / "log" / "logs"))
        return measure(lambda: files.groupBy("partition").count().collect())

    first = query()
    print(f"  {LOG}, first: {first.wall_s:.2f} s", flush=True)
    query()
    warm = [query() for _ in range(rounds)]
    print(f"  {LOG}, warm: {statistics.median(each.wall_s for each in warm):.2f} s", flush=True)
    taken = {
        "kafka": {"wall_s": [each.wall_s for each in warm]},
        "kavka": {"wall_s": [first.wall_s] * rounds},
    }
    return Row(what=f"{LOG}: a session's first query beside the same later", machine=machine, candidates=taken)


def fill_trickle(bootstrap: str, count: int) -> None:
    """The topic of all micro-batches, for so many that count."""
    create_topic(bootstrap, "trickle", PARTITIONS)
    create_topic(bootstrap, "trickled", PARTITIONS)
    produce(bootstrap, "trickle", MICRO_BATCH_ROWS * (count + WARMING), partitions=PARTITIONS, size=100)


def micro_batches(spark: SparkSession, bootstrap: str, row: str, rounds: int, directory: Path) -> Row:
    """Streams of small micro-batches of a topic that is full; of each the median, without its first ones."""

    def run_one(name: str, number: int) -> float:
        checkpoint = directory / f"{row}-{name}-{number}"
        query = stream(spark, bootstrap, row, name).option("checkpointLocation", str(checkpoint)).start()
        query.awaitTermination()
        durations = [p.durationMs for p in query.recentProgress if p.numInputRows][WARMING:]
        parts = {part: statistics.median(each.get(part, 0) for each in durations) for part in PARTS}
        print(f"  {row}, {name}: {parts}", flush=True)
        return parts["triggerExecution"]

    return in_turn(row, rounds, "wall_ms", run_one)


def live(spark: SparkSession, bootstrap: str, row: str, rounds: int, directory: Path) -> Row:
    """Streams that wait for records; of each the median wait for a micro-batch."""

    def run_one(name: str, number: int) -> float:
        topic = f"{row}-{name}-{number}".replace(" ", "-").replace(",", "")
        create_topic(bootstrap, topic, PARTITIONS)
        checkpoint = directory / topic
        query = stream(spark, bootstrap, row, name, topic=topic)
        writer = query.option("checkpointLocation", str(checkpoint))
        waits = latency_ms(writer.start, checkpoint, Writer(bootstrap, topic, PARTITIONS), rows=MICRO_BATCH_ROWS)
        print(f"  {row}, {name}: median {statistics.median(waits):.0f}, longest {max(waits):.0f} ms", flush=True)
        return statistics.median(waits)

    return in_turn(row, rounds, "wait_ms", run_one)


def in_turn(row: str, rounds: int, figure: str, run_one: Callable[[str, int], float]) -> Row:
    """Streams of both formats, in turn: `run_one` gives the figure of the stream of a format in a round."""
    taken: dict[str, dict[str, list[float]]] = {name: {figure: []} for name in FORMATS}
    machine = circumstances()
    for number in range(rounds + 1):
        for name in FORMATS:
            found = run_one(name, number)
            if number:
                taken[name][figure].append(found)
    what = row.replace("live ", "live: ").replace("micro-batch", f"a micro-batch of {MICRO_BATCH_ROWS} rows")
    return Row(what=what, machine=machine, candidates=taken)


def stream(spark: SparkSession, bootstrap: str, row: str, name: str, *, topic: str = "") -> DataStreamWriter:
    """`name` is the source's format, or the sink's in the rows about sinks. Without `topic` it reads the one that is
    full, and ends with it."""
    servers = {"kafka.bootstrap.servers": bootstrap}
    to_sink = "sink" in row
    source = row.rpartition(" ")[2] if to_sink else name
    options = {"subscribe": topic or "trickle", "startingOffsets": "earliest"}
    if not topic:
        options["maxOffsetsPerTrigger"] = str(MICRO_BATCH_ROWS)
    if row == SHORT_WAIT:
        options["kafka.fetch.max.wait.ms"] = "10"
    if row.endswith("four tasks"):
        options["minPartitions"] = str(PARTITIONS)
    rows = spark.readStream.format(source).options(**servers, **options).load()
    if to_sink:
        writer = rows.select("key", "value").writeStream.format(name).options(**servers, topic="trickled")
    else:
        writer = rows.writeStream.format("noop")
    return writer if topic else writer.trigger(availableNow=True)


def circumstances() -> dict[str, str]:
    return {"cores": str(os.cpu_count()), "load at the start": f"{os.getloadavg()[0]:.1f}"}


def measure(work: Callable[[], object]) -> Taken:
    cpu_before, began = cpu_seconds(), time.perf_counter()
    work()
    return Taken(time.perf_counter() - began, cpu_seconds() - cpu_before)


def cpu_seconds() -> float:
    """Of this process and all below it, with those that have ended."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        used[int(entry.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [os.getpid()]
    while waiting:
        found = waiting.pop()
        total += used.get(found, 0)
        waiting += children.get(found, [])
    return total / CLOCK_TICKS_PER_SECOND


if __name__ == "__main__":
    sys.exit(main())
