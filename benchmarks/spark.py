"""kavka's source beside Spark's own connector: `python -m benchmarks.spark [--rounds N] [--quick] [--broker kavka]`.

Both read the same topics in the same session, in turn, with CRCs checked by both, so that whatever else the machine
does falls on both. What counts is the ratio of each round; its median is compared with the target.

    1 KiB, 100 B      a whole topic of four partitions into Spark's noop sink, all seven columns
    ..., value only   the same, and kavka asked for one column (the connector cannot be)
    micro-batch       a stream of micro-batches of 400 rows: the time from trigger to trigger

Processor time is that of the session: the JVM, and the Python workers where there are any; not the broker's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from apache_kafka import ApacheKafka
from kavka_process import KavkaProcess
from kavka_spark import session
from official_connector import VERSION, connector_jars
from topic_filler import create_topic, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
MICRO_BATCH_ROWS = 400
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
FORMATS = ("kafka", "kavka")
RESULTS = Path(__file__).resolve().parent / "results" / "spark.json"


class Row(NamedTuple):
    """One topic to be read whole."""

    name: str
    topic: str
    size: int
    records: int
    wall_target: float
    """kavka's wall time over the connector's, at most."""


class Taken(NamedTuple):
    """What one reading took."""

    wall_s: float
    cpu_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="one more is run first, and not counted")
    parser.add_argument("--quick", action="store_true", help="a quarter of the records")
    parser.add_argument("--broker", choices=("kafka", "kavka"), default="kafka")
    parser.add_argument("--micro-batches", type=int, default=30)
    parser.add_argument("--rows", default="", help="only these, of: 1 KiB, 100 B, micro-batch")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/spark.json")
    arguments = parser.parse_args()
    share = 4 if arguments.quick else 1
    rows = [
        Row("1 KiB", "large", 1024, 1_000_000 // share, 1.0),
        Row("100 B", "small", 100, 4_000_000 // share, 0.75),
    ]
    wanted = [name.strip() for name in arguments.rows.split(",") if name.strip()]
    rows = [row for row in rows if not wanted or row.name in wanted]
    results: dict[str, object] = {"broker": arguments.broker, "connector": VERSION, "rounds": arguments.rounds}
    with tempfile.TemporaryDirectory() as directory, broker(arguments.broker, Path(directory)) as bootstrap:
        for row in rows:
            create_topic(bootstrap, row.topic, PARTITIONS)
            produce(bootstrap, row.topic, row.records, partitions=PARTITIONS, size=row.size)
        spark = session(
            "bench",
            **{
                "spark.master": "local[2]",
                "spark.ui.enabled": "false",
                "spark.jars": ",".join(map(str, connector_jars())),
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "2g",
                "spark.log.level": "ERROR",
            },
        )
        try:
            for row in rows:
                results |= whole_topic(spark, bootstrap, row, arguments.rounds)
            if not wanted or "micro-batch" in wanted:
                results |= micro_batches(spark, bootstrap, arguments.micro_batches, arguments.rounds, Path(directory))
        finally:
            spark.stop()
    if arguments.keep:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


@contextmanager
def broker(kind: str, directory: Path) -> Iterator[str]:
    """Its bootstrap address."""
    if kind == "kavka":
        with KavkaProcess(directory / "kavka") as kavka:
            yield kavka.bootstrap
    else:
        with ApacheKafka(directory / "kafka", mode="kraft") as kafka:
            yield kafka.bootstrap


def whole_topic(spark: SparkSession, bootstrap: str, row: Row, rounds: int) -> dict[str, object]:
    """Reads a topic whole, in turn; the first round, which warms both up, does not count."""

    def read(source: str, *, columns: str = "") -> Taken:
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": row.topic,
            **({"columns": columns} if columns else {}),
        }
        frame = spark.read.format(source).options(**options).load()
        return measure(lambda: frame.write.format("noop").mode("overwrite").save())

    taken: dict[str, list[Taken]] = {"kafka": [], "kavka": [], "kavka, value only": []}
    for number in range(rounds + 1):
        for name, figures in taken.items():
            found = read(name.split(",")[0], columns="value" if "value" in name else "")
            if number:
                figures.append(found)
    print(f"\n{row.name}: {row.records:,} records, wall and CPU seconds")
    for name, figures in taken.items():
        walls, cpus = [one.wall_s for one in figures], [one.cpu_s for one in figures]
        rate = row.records / statistics.median(walls)
        print(f"  {name:20} wall {spread(walls)}   CPU {spread(cpus)}   {rate:,.0f} rows/s")
    for what, pick, target in (("wall", 0, row.wall_target), ("CPU", 1, 1.0)):
        ratios = [mine[pick] / theirs[pick] for mine, theirs in zip(taken["kavka"], taken["kafka"], strict=True)]
        print(f"  kavka / kafka {what:5} {spread(ratios)}   target {target}")
    return {row.name: {name: [one._asdict() for one in figures] for name, figures in taken.items()}}


def micro_batches(spark: SparkSession, bootstrap: str, count: int, rounds: int, directory: Path) -> dict[str, object]:
    """Streams of small micro-batches, in turn; of each the median, without its first three."""
    create_topic(bootstrap, "trickle", PARTITIONS)
    produce(bootstrap, "trickle", MICRO_BATCH_ROWS * (count + 3), partitions=PARTITIONS, size=100)
    taken: dict[str, list[float]] = {name: [] for name in FORMATS}
    for number in range(rounds + 1):
        for name, figures in taken.items():
            stream = spark.readStream.format(name).options(
                **{
                    "kafka.bootstrap.servers": bootstrap,
                    "subscribe": "trickle",
                    "startingOffsets": "earliest",
                    "maxOffsetsPerTrigger": str(MICRO_BATCH_ROWS),
                }
            )
            query = (
                stream.load()
                .writeStream.format("noop")
                .option("checkpointLocation", str(directory / f"{name}-{number}"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            millis = [p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows]
            parts = {
                part: statistics.median(p.durationMs.get(part, 0) for p in query.recentProgress[3:] if p.numInputRows)
                for part in ("addBatch", "latestOffset", "walCommit", "commitOffsets", "queryPlanning")
            }
            print(f"  {name:20} {statistics.median(millis[3:]):.0f} ms, of it {parts}", flush=True)
            if number:
                figures.append(statistics.median(millis[3:]))
    ratios = [mine / theirs for mine, theirs in zip(taken["kavka"], taken["kafka"], strict=True)]
    print(f"\nmicro-batch of {MICRO_BATCH_ROWS} rows, ms from trigger to trigger")
    for name, figures in taken.items():
        print(f"  {name:20} {spread(figures)}")
    print(f"  kavka / kafka        {spread(ratios)}   target 1.5")
    return {"micro-batch": taken}


def measure(work: Callable[[], None]) -> Taken:
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


def spread(figures: list[float]) -> str:
    low, middle, high = min(figures), statistics.median(figures), max(figures)
    return f"{low:.2f}/{middle:.2f}/{high:.2f}" if high < 100 else f"{low:.0f}/{middle:.0f}/{high:.0f}"


if __name__ == "__main__":
    main()
