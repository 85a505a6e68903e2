"""On Spark's own cluster manager, a master and two workers: files shipped as users ship them, executors killed with -9,
topics and tables of both formats as targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

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
    """Amid a micro-batch, after another one was done. Spark gives the Python of a source ten seconds to start: on a
    machine that is too busy for that the job is started again."""
    before = job.batches
    job.wait_until("another micro-batch", lambda: job.batches > before, restarts=2)
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


def delta_table(directory: Path) -> tuple[dict[str, str], Callable[[], list[bytes | None]]]:
    """The sink's options, and what the table has."""
    path = str(directory / "table")
    return {"path": path}, lambda: DeltaTable(path).to_pyarrow_table()["value"].to_pylist()


def iceberg_table(directory: Path) -> tuple[dict[str, str], Callable[[], list[bytes | None]]]:
    settings = {
        "type": "sql",
        "uri": f"sqlite:///{directory / 'catalog.db'}",
        "warehouse": f"file://{directory / 'warehouse'}",
    }
    sink = {"table": "shop.numbers", **{f"catalog.{name}": text for name, text in settings.items()}}
    catalog = load_catalog("default", **settings)
    return sink, lambda: catalog.load_table("shop.numbers").scan().to_arrow()["value"].to_pylist()


@pytest.mark.parametrize(("made", "format"), [(delta_table, "kavka-delta"), (iceberg_table, "kavka-iceberg")])
def test_a_table_holds_every_row_once_though_executors_are_killed(
    cluster: SparkCluster,
    kavka_broker: KavkaProcess,
    tmp_path: Path,
    made: Callable[[Path], tuple[dict[str, str], Callable[[], list[bytes | None]]]],
    format: str,  # noqa: A002  # Spark's word
) -> None:
    source = f"numbers-for-{format}"
    numbered(kavka_broker.bootstrap, source, ROWS)
    sink, values = made(tmp_path)
    job = {
        "bootstrap": kavka_broker.bootstrap,
        "source": source,
        "format": format,
        "checkpoint": str(tmp_path / "checkpoint"),
        "rows_per_batch": 10_000,
        "sink": sink,
    }
    launcher, environment = cluster.submit(), cluster.drivers_environment
    with SparkJob(JOB, job, tmp_path / "job.log", launcher=launcher, environment=environment) as running:
        running.start()
        for _ in range(2):
            kill_an_executor(cluster, running)
        running.finish(restarts=1)
    check_once(values(), ROWS)
