"""How many tasks Spark runs for small partitions: as many as there are cores, however few records there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.kit.kavka_process import KavkaProcess
from tests.kit.pipeline_project import ENVIRONMENT
from tests.kit.topic_contents import create, fill

JOB = Path(__file__).with_name("tasks_job.py")
PARTITIONS = 8
PATIENCE_S = 240


def test_small_partitions_share_tasks_only_where_there_would_be_more_than_cores(tmp_path: Path) -> None:
    with KavkaProcess(tmp_path / "kavka") as broker:
        create(broker.bootstrap, "few", PARTITIONS)
        for partition in range(PARTITIONS):
            fill(broker.bootstrap, "few", partition, [b"%d" % number for number in range(3)])
        # A process of its own: a JVM tells its planning processes the cores of the session that started it.
        job = subprocess.run(
            [sys.executable, str(JOB), broker.bootstrap, "few", "local[4]"],
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert job.returncode == 0, job.stderr
    assert [line for line in job.stdout.splitlines() if line] == ["table 4", "stream 4"]
