"""Records through source and sink while the driver, its JVM, executors, workers and brokers are killed with -9.

test_kill_sink_tasks.py, which belongs to every change, does it to the sink's tasks without a JVM. The records are
numbered, so a plain client's read_committed can tell which are missing and which are there twice.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq
import pytest

from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import ProcessCluster
from tests.kit.spark_job import SMALL, SparkJob
from tests.kit.topic_contents import contents, create, fill

JOB = Path(__file__).with_name("relay_job.py")
PARTITIONS = 4
LOCAL = {**SMALL, "spark.master": "local[2,4]"}


class Kill(Protocol):
    """Kills something of a job; how much it was."""

    __name__: str

    def __call__(self, job: SparkJob, /) -> int: ...


def numbered(bootstrap: str, topic: str, rows: int, *, replicas: int = 1) -> None:
    create(bootstrap, topic, PARTITIONS, replicas=replicas)
    for partition in range(PARTITIONS):
        fill(bootstrap, topic, partition, [b"%d" % number for number in range(partition, rows, PARTITIONS)])


def moments(count: int, seed: int) -> Iterator[float]:
    """Seconds to let pass before a kill."""
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.uniform(0.0, 1.5)


def run_with_kills(job: SparkJob, kills: Sequence[Kill], *, seed: int) -> None:
    """Runs the job to its end; each kill comes at a random moment after another micro-batch was done.

    A job that ends because of a kill is started again, as whoever keeps a query running does.
    """
    job.start()
    for kill, pause_s in zip(kills, moments(len(kills), seed), strict=True):
        before = job.batches
        job.wait_until("another micro-batch", lambda before=before: job.batches > before, restarts=2)
        time.sleep(pause_s)
        assert kill(job), f"nobody to kill with {kill.__name__}"
    job.finish(restarts=2)


def check_once(values: list[bytes | None], rows: int) -> None:
    counted = Counter(int(value or b"-1") for value in values)
    missing = [number for number in range(rows) if number not in counted]
    doubled = [number for number, count in counted.items() if count > 1]
    assert (len(missing), len(doubled), len(counted)) == (0, 0, rows), (missing[:5], doubled[:5])


def the_job(job: SparkJob) -> int:
    """Driver, JVMs and workers, all at once."""
    return job.kill(lambda found: True)


def the_driver(job: SparkJob) -> int:
    """Its Python and its JVM. Executors and workers live on for a while: zombies, with transactions open."""
    return job.kill(job.is_driver)


def the_drivers_python(job: SparkJob) -> int:
    """Its JVM ends by itself, a moment later, while the next driver is starting."""
    return job.kill(lambda found: job.is_driver(found) and not found.is_jvm)


def the_workers(job: SparkJob) -> int:
    """The Python that runs the tasks: Spark runs them again."""
    return job.kill(lambda found: found.is_worker)


def relay(broker: str, target: str, tmp_path: Path, **job: Any) -> SparkJob:
    given = {
        "bootstrap": broker,
        "source": "numbers",
        "target": target,
        "format": "kavka",
        "checkpoint": str(tmp_path / "checkpoint"),
        "conf": LOCAL,
    }
    return SparkJob(JOB, {**given, **job}, tmp_path / "job.log")


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_rows_are_written_once_though_the_driver_is_killed_and_its_workers_live_on(
    kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    rows = 20_000
    numbered(kavka_broker.bootstrap, "numbers", rows)
    create(kavka_broker.bootstrap, "once", PARTITIONS)
    once = {"sink": {"exactlyOnce": "true"}, "rows_per_batch": 2_500}
    with relay(kavka_broker.bootstrap, "once", tmp_path, **once) as job:
        run_with_kills(job, [the_driver], seed=7)
    check_once(values_of(kavka_broker.bootstrap, "once"), rows)


@pytest.mark.thorough
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("target", ["once", "often", "parquet"])
def test_400000_rows_and_ten_kills(kavka_broker: KavkaProcess, tmp_path: Path, target: str) -> None:
    rows = 400_000
    source = f"numbers-{target}"
    numbered(kavka_broker.bootstrap, source, rows)
    create(kavka_broker.bootstrap, target, PARTITIONS)
    kills = [
        the_job,
        the_job,
        the_job,
        the_driver,
        the_driver,
        the_driver,
        *[the_workers] * 2,
        *[the_drivers_python] * 2,
    ]
    random.Random(target).shuffle(kills)
    job = relay(
        kavka_broker.bootstrap,
        str(tmp_path / "parquet") if target == "parquet" else target,
        tmp_path,
        source=source,
        format="parquet" if target == "parquet" else "kavka",
        sink={"exactlyOnce": "true"} if target == "once" else {},
        rows_per_batch=25_000,
    )
    with job:
        run_with_kills(job, kills, seed=len(target))
    if target == "once":
        check_once(values_of(kavka_broker.bootstrap, target), rows)
    elif target == "often":
        assert {int(value or b"") for value in values_of(kavka_broker.bootstrap, target)} == set(range(rows))
    else:
        check_once(values_in_parquet(tmp_path / "parquet"), rows)


@pytest.mark.thorough
@pytest.mark.timeout(2000)
def test_rows_are_written_once_though_brokers_are_killed_while_they_are_read_and_written(tmp_path: Path) -> None:
    rows = 200_000
    settings = {"default.replication.factor": "3", "min.insync.replicas": "2"}
    with ProcessCluster(tmp_path / "cluster", settings=settings) as cluster:
        cluster.start()
        numbered(cluster.bootstrap, "numbers", rows, replicas=3)
        create(cluster.bootstrap, "once", PARTITIONS, replicas=3)
        turn = count()

        def a_broker(job: SparkJob) -> int:
            broker = next(turn) % 3
            cluster.kill(broker)
            before = job.batches
            job.wait_until("a micro-batch without the broker", lambda: job.batches > before, timeout_s=180)
            cluster.start_broker(broker)
            return 1

        once = {"sink": {"exactlyOnce": "true"}, "rows_per_batch": 10_000}
        with relay(cluster.bootstrap, "once", tmp_path, **once) as job:
            run_with_kills(job, [a_broker, a_broker, the_driver, a_broker, the_workers], seed=3)
        check_once(values_of(cluster.bootstrap, "once"), rows)


def values_of(bootstrap: str, topic: str) -> list[bytes | None]:
    return [record.value for record in contents(bootstrap, topic)]


def values_in_parquet(directory: Path) -> list[bytes | None]:
    """What a reader sees that keeps to Spark's list of committed files. Every tenth list holds those before it."""
    lists = {}
    for entry in (directory / "_spark_metadata").iterdir():
        number, _, compacted = entry.name.partition(".")
        if number.isdigit():
            lists[int(number), bool(compacted)] = entry
    files = {
        json.loads(line)["path"].removeprefix("file://")
        for entry in lists.values()
        for line in entry.read_text().splitlines()[1:]
    }
    return [value for path in sorted(files) for value in pq.read_table(path, partitioning=None)["value"].to_pylist()]
