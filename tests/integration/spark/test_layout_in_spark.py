"""A query that goes on with other cores than before: Spark cuts the same files into another number of tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.spark.test_kill_spark import check_once
from tests.kit.kavka_process import KavkaProcess
from tests.kit.spark_job import JobFailed, SparkJob
from tests.kit.topic_contents import contents, create

JOB = Path(__file__).with_name("files_job.py")
LINES = 32_000
AT_THE_SERVICE = (0, 12_000)
TARGET = "lines"


def lines_in(source: Path) -> None:
    source.mkdir()
    filler = "x" * 1000
    with (source / "lines.txt").open("w") as lines:
        for line in range(LINES):
            lines.write(f"{'P' if line in AT_THE_SERVICE else 'A'}{line}-{filler}\n")


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_rows_are_there_once_though_the_query_goes_on_with_two_cores_in_place_of_four(
    kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    create(kavka_broker.bootstrap, TARGET, 2)
    lines_in(tmp_path / "source")
    away = tmp_path / "away"
    away.touch()

    def query(*, cores: int, tasks: int | None) -> SparkJob:
        job = {
            "bootstrap": kavka_broker.bootstrap,
            "target": TARGET,
            "source": str(tmp_path / "source"),
            "checkpoint": str(tmp_path / "checkpoint"),
            "away": str(away),
            "cores": cores,
            "tasks": tasks,
        }
        running = SparkJob(JOB, job, tmp_path / f"{cores}-{tasks}.log")
        running.start()
        return running

    def committed() -> list[bytes]:
        return [(record.value or b"").partition(b"-")[0][1:] for record in contents(kavka_broker.bootstrap, TARGET)]

    with query(cores=4, tasks=None) as job, pytest.raises(JobFailed, match=r"stable\(df, 4\) in place of df"):
        job.finish()
    with query(cores=4, tasks=6) as job:
        job.wait_until("the first rows", committed)
    begun = len(committed())
    assert 0 < begun < LINES
    away.unlink()
    with (
        query(cores=2, tasks=2) as job,
        pytest.raises(JobFailed, match=r"stable\(df, 6\) until this batch is through"),
    ):
        job.finish()
    assert len(committed()) == begun
    with query(cores=2, tasks=6) as job:
        job.finish()
    check_once(committed(), LINES)
