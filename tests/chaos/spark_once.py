"""SparkOnceRun: numbered records through Spark, exactly once, while everything that takes part is killed.

    make chaos-spark SPARK_ROWS=1000000

Three brokers, a standalone Spark cluster, and one query that reads a topic and writes another with `exactlyOnce`. After
micro-batches, at moments that the seed draws, executors and their machines come and go, and drivers, executors, Python
workers and brokers are killed with -9. A job that ended is started again on the same checkpoint. In the end librdkafka
reads the target with read_committed and counts how often each number is there: once is right.

I1  Spark always keeps a machine, and the cluster two of its three brokers, so that the job can go on.
I2  A disturbance that found nobody does not count.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.chaos.campaign import bugs_in_logs
from tests.kit.process_cluster import ProcessCluster
from tests.kit.spark_cluster import SparkCluster
from tests.kit.spark_job import SparkJob, kill_process
from tests.kit.topic_contents import create, fill

JOB: Final = Path(__file__).parents[1] / "integration" / "spark" / "relay_job.py"
SOURCE, TARGET = "numbers", "once"
PARTITIONS, MOST_WORKERS = 4, 3
FILLED_AT_ONCE = 50_000
PAUSE_S = 3.0
"""Longest time between a micro-batch's end and the disturbance: it comes amid another one."""
BATCH_S = 900.0
"""Longest time without a finished micro-batch: a driver and its executors may have to start on a busy machine."""
SETTINGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    # A job that is not started again holds up readers no longer than this.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class Plan(NamedTuple):
    """One run."""

    rows: int
    kills: int
    seed: int
    batches: int = 40
    """Of about equal size, without those that are done again."""

    def __str__(self) -> str:
        return f"spark: {self.rows:,} rows, {self.kills} disturbances, seed {self.seed}"


class Result(NamedTuple):
    """How often the numbers were found."""

    distinct: int
    doubled: int
    alien: int
    """Records that nobody wrote."""
    done: Counter[str]
    starts: int
    seconds: float
    bugs: Sequence[str]

    def lines(self, plan: Plan) -> list[str]:
        kinds = ", ".join(f"{number} x {name}" for name, number in self.done.most_common())
        return [
            f"{plan}: {self.seconds:.0f} s",
            f"  disturbances: {self.done.total()} ({kinds}); the driver was started {self.starts} times",
            f"  {self.distinct:,} distinct, {plan.rows - self.distinct:,} lost, {self.doubled:,} doubled",
        ]

    def failures(self, plan: Plan) -> list[str]:
        found = [
            f"{number:,} {what}"
            for number, what in (
                (plan.rows - self.distinct, "rows lost"),
                (self.doubled, "rows doubled"),
                (self.alien, "records that nobody wrote"),
            )
            if number
        ]
        return [*found, *self.bugs]


class SparkOnceRun:
    """One run in a directory of its own."""

    def __init__(self, plan: Plan, directory: Path, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._directory = directory
        self._say = say
        self._chance = random.Random(plan.seed)
        self._done: Counter[str] = Counter()
        self._down: list[int] = []
        self._due: list[Callable[[SparkOnceRun], str]] = []

    def run(self) -> Result:
        """Raises JobFailed where the job does not come to its end."""
        began_at = time.monotonic()
        with (
            ProcessCluster(self._directory / "cluster", settings=SETTINGS) as self._cluster,
            SparkCluster(self._directory / "spark") as self._spark,
        ):
            self._cluster.start()
            self._fill()
            with self._job() as self._running:
                self._running.start()
                self._disturb()
                self._running.finish(timeout_s=BATCH_S + self._plan.rows / 100, restarts=12)
            self._heal()
            found, alien = self._count()
            bugs = list(bugs_in_logs(self._cluster))
        distinct = sum(map(bool, found))
        seconds = time.monotonic() - began_at
        return Result(distinct, sum(found) - distinct, alien, self._done, self._running.starts, seconds, bugs)

    def _fill(self) -> None:
        bootstrap = self._cluster.bootstrap
        for topic in (SOURCE, TARGET):
            create(bootstrap, topic, PARTITIONS, replicas=3)
        for first in range(0, self._plan.rows, FILLED_AT_ONCE):
            numbers = range(first, min(first + FILLED_AT_ONCE, self._plan.rows))
            for partition in range(PARTITIONS):
                fill(bootstrap, SOURCE, partition, [b"%d" % number for number in numbers[partition::PARTITIONS]])
        self._say(f"{self._plan.rows:,} rows are in the source")

    def _job(self) -> SparkJob:
        job = {
            "bootstrap": self._cluster.bootstrap,
            "source": SOURCE,
            "target": TARGET,
            "format": "kavka",
            "checkpoint": str(self._directory / "checkpoint"),
            "rows_per_batch": max(1, self._plan.rows // self._plan.batches),
            "sink": {"exactlyOnce": "true"},
        }
        log = self._directory / "job.log"
        return SparkJob(JOB, job, log, launcher=self._spark.submit(), environment=self._spark.drivers_environment)

    def _disturb(self) -> None:
        job = self._running
        while self._done.total() < self._plan.kills:
            job.wait_until("another micro-batch", _another_batch(job), timeout_s=BATCH_S, restarts=12)
            if job.has_succeeded:
                self._say("the job came to its end first")
                return
            time.sleep(self._chance.uniform(0.0, PAUSE_S))
            name, found = self._next_disturbance()
            self._done[name] += 1
            self._say(f"batch {job.batches}: {name} ({found})")

    def _next_disturbance(self) -> tuple[str, str]:
        """Each kind comes once before one comes again; those that find nobody wait for their next turn (I2)."""
        while True:
            if not self._due:
                self._due = list(DISTURBANCES)
                self._chance.shuffle(self._due)
            kind = self._due.pop()
            if found := kind(self):
                return kind.__name__.strip("_").replace("_", " "), found

    # -- disturbances; each returns whom it found, or nothing

    def _add_a_machine(self) -> str:
        return self._spark.add_worker() if len(self._spark.workers) < MOST_WORKERS else ""

    def _stop_a_machine(self) -> str:
        return self._leave(self._spark.stop_worker)

    def _lose_a_machine(self) -> str:
        return self._leave(self._spark.lose)

    def _leave(self, leave: Callable[[str], None]) -> str:
        workers = self._spark.workers
        if len(workers) < 2:  # I1
            return ""
        leave(name := self._chance.choice(workers))
        return name

    def _kill_an_executor(self) -> str:
        executors = self._spark.executors()
        if not executors:
            return ""
        kill_process(chosen := self._chance.choice(executors))
        return f"pid {chosen.pid}"

    def _kill_python_workers(self) -> str:
        workers = [found for found in self._spark.processes() if found.is_worker]
        for found in workers:
            kill_process(found)
        return f"{len(workers)} processes" if workers else ""

    def _kill_the_driver(self) -> str:
        """Its executors live on for a while: zombies, with transactions open."""
        count = self._running.kill(lambda found: True)
        return f"{count} processes" if count else ""

    def _kill_driver_and_executors(self) -> str:
        found = self._spark.executors()
        count = self._running.kill(lambda found: True)
        for one in found:
            kill_process(one)
        return f"{count + len(found)} processes" if count else ""

    def _kill_a_broker(self) -> str:
        """It comes back when the next one is killed, or in the end."""
        self._heal()
        broker = self._chance.randrange(len(self._cluster.brokers))
        self._cluster.kill(broker)
        self._down.append(broker)
        return f"broker {broker}"

    def _heal(self) -> None:
        while self._down:
            self._cluster.start_broker(self._down.pop(), timeout_s=120)

    # -- the audit

    def _count(self) -> tuple[array[int], int]:
        """How often each number is there for readers of committed records, and how many records are none of them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": "audit",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TARGET, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        found = array("H", bytes(2 * self._plan.rows))
        alien = 0
        ended: set[int] = set()
        deadline = time.monotonic() + BATCH_S
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"the target could not be read to its ends: only {sorted(ended)}"
            for message in consumer.consume(5_000, 1.0):
                error, value, partition = message.error(), message.value(), message.partition()
                assert partition is not None
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        ended.add(partition)
                elif value is not None and value.isdigit() and int(value) < self._plan.rows:
                    found[int(value)] += 1
                else:
                    alien += 1
        consumer.close()
        return found, alien


def _another_batch(job: SparkJob) -> Callable[[], bool]:
    """Whether one more is done since now, or all."""
    before = job.batches
    return lambda: job.batches > before or job.has_succeeded


DISTURBANCES: Final[Sequence[Callable[[SparkOnceRun], str]]] = (
    SparkOnceRun._add_a_machine,
    SparkOnceRun._add_a_machine,
    SparkOnceRun._stop_a_machine,
    SparkOnceRun._lose_a_machine,
    SparkOnceRun._kill_an_executor,
    SparkOnceRun._kill_python_workers,
    SparkOnceRun._kill_the_driver,
    SparkOnceRun._kill_driver_and_executors,
    SparkOnceRun._kill_a_broker,
)
"""Two of the ways in which machines go have their like among the ways in which they come."""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="chaos.spark_once", description="Rows through Spark, exactly once, while all that takes part is killed."
    )
    parser.add_argument("--rows", type=int, default=100_000, help="numbered records (100000)")
    parser.add_argument("--kills", type=int, default=20, help="disturbances, each after another micro-batch (20)")
    parser.add_argument("--batches", type=int, default=40, help="micro-batches for all rows (40)")
    parser.add_argument("--seed", type=int, default=7, help="of the disturbances (7)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs and data in a directory")
    return parser.parse_args(arguments)


def main() -> int:
    given = parse(sys.argv[1:])
    plan = Plan(given.rows, given.kills, given.seed, given.batches)
    place = given.keep or Path(tempfile.mkdtemp(prefix="kavka-chaos-spark-"))
    began_at = time.monotonic()
    try:
        result = SparkOnceRun(
            plan, place, lambda text: print(f"{time.monotonic() - began_at:7.1f}  {text}", flush=True)
        ).run()
    finally:
        if not given.keep:
            shutil.rmtree(place, ignore_errors=True)
    failures = result.failures(plan)
    print("\n".join([*result.lines(plan), *(f"FAILED  {text}" for text in failures)]), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
