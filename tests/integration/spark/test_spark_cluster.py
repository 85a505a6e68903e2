"""On Spark's own cluster manager, a master and two workers: files shipped as users ship them, executors killed with -9,
topics and a Delta table as targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.integration.spark.test_kill_spark import JOB, PARTITIONS, check_once, numbered, values_of
from tests.kit.kavka_process import KavkaProcess
from tests.kit.spark_cluster import SparkCluster
from tests.kit.spark_job import SparkJob, kill_process
from tests.kit.topic_contents import create

ROWS = 60_000

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark-cluster")) as found:
        yield found


def kill_an_executor(cluster: SparkCluster, job: SparkJob) -> None:
    """Amid a micro-batch, after another one was done."""
    before = job.batches
    job.wait_until("another micro-batch", lambda: job.batches > before)
    job.wait_until("an executor", lambda: bool(cluster.executors()))
    kill_process(cluster.executors()[0])


def test_rows_are_written_once_though_executors_are_killed(
    cluster: SparkCluster, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    numbered(kavka_broker.bootstrap, "numbers", ROWS)
    create(kavka_broker.bootstrap, "once", PARTITIONS)
    job = {
        "bootstrap": kavka_broker.bootstrap,
        "source": "numbers",
        "target": "once",
        "format": "kavka",
        "checkpoint": str(tmp_path / "checkpoint"),
        "rows_per_batch": 6_000,
        "sink": {"exactlyOnce": "true"},
    }
    launcher, environment = cluster.submit(), cluster.drivers_environment
    with SparkJob(JOB, job, tmp_path / "job.log", launcher=launcher, environment=environment) as running:
        running.start()
        for _ in range(3):
            kill_an_executor(cluster, running)
        running.finish(restarts=1)
    check_once(values_of(kavka_broker.bootstrap, "once"), ROWS)


def test_a_delta_table_holds_every_row_once_though_an_executor_is_killed(
    cluster: SparkCluster, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    numbered(kavka_broker.bootstrap, "table-numbers", ROWS)
    job = {
        "bootstrap": kavka_broker.bootstrap,
        "source": "table-numbers",
        "target": str(tmp_path / "table"),
        "format": "kavka-delta",
        "checkpoint": str(tmp_path / "checkpoint"),
        "rows_per_batch": 10_000,
    }
    launcher, environment = cluster.submit(), cluster.drivers_environment
    with SparkJob(JOB, job, tmp_path / "job.log", launcher=launcher, environment=environment) as running:
        running.start()
        kill_an_executor(cluster, running)
        running.finish(restarts=1)
    check_once(DeltaTable(tmp_path / "table").to_pyarrow_table()["value"].to_pylist(), ROWS)
