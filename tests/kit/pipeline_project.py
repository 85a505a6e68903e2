"""PipelineProject: a pipeline in a folder of a test, run by the command line in processes of their own.

It decides how a run is started and what it tells; what a pipeline has to do is the tests' affair.

I1  Of a table that streams wrote, only files count that a micro-batch committed (_spark_metadata): what a killed one
    left is no row of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

RUN_S = 900
# A JVM that compiles little is up sooner, which is most of what a test of a few rows takes.
ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class RunFailed(AssertionError):
    """A run ended with another status than it should; the message has what it said."""


class PipelineProject:
    """One pipeline, laid by `kavka pipeline init` or out of texts."""

    def __init__(self, directory: Path, bootstrap: str, topic: str = "") -> None:
        self.directory = directory
        self.bootstrap = bootstrap
        self.topic = topic

    @classmethod
    def of_example(cls, example: str, directory: Path, bootstrap: str) -> PipelineProject:
        project = cls(directory, bootstrap)
        project.command("init", str(directory), "--example", example)
        return project

    @classmethod
    def of_files(cls, directory: Path, bootstrap: str, files: dict[str, str], *, topic: str = "") -> PipelineProject:
        for name, text in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return cls(directory, bootstrap, topic)

    def command(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """`kavka pipeline WORDS`. Raises RunFailed."""
        told = subprocess.run(
            [sys.executable, "-m", "kavka.cli.main", "pipeline", *words],
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
            env={**os.environ, **ENVIRONMENT},
        )
        if told.returncode != status:
            raise RunFailed(
                f"status {told.returncode}\n{told.stdout[-4000:]}\n{told.stderr[-4000:]}\n{self.spark_log()}"
            )
        return told

    def run(self, *words: str, verb: str = "run", status: int = 0) -> list[dict[str, Any]]:
        """A run of the pipeline on two cores of this machine; its events."""
        told = self.command(verb, str(self.directory), "-b", self.bootstrap, "--json", *words, status=status)
        return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]

    def spark_log(self) -> str:
        logs = sorted(self.directory.glob("storage/_kavka/runs/*.log"))
        return logs[-1].read_text(errors="replace")[-6000:] if logs else "(no log)"

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What a table holds."""
        return self.read(table).to_pylist()

    def read(self, table: str) -> pa.Table:
        folder = self.directory / "storage" / "warehouse" / table
        tables = [pq.ParquetFile(path).read() for path in _committed(folder)]
        return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


@contextmanager
def environment() -> Iterator[None]:
    """The environment of test runs, for the block."""
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    yield
    os.environ.clear()
    os.environ.update(before)


def last_figures(events: Iterable[dict[str, Any]], flow: str) -> dict[str, Any]:
    """What was told last of a flow."""
    told = [event for event in events if event["event"] == "progress" and event["flow"] == flow]
    assert told, f"nothing was told of {flow}"
    return told[-1]


def problem_of(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return next(event for event in events if event["event"] == "problem")


def _committed(folder: Path) -> list[Path]:
    """Files of a file sink, by its log; of a table that was written at once, all. A compacted entry repeats the earlier
    ones."""
    log = folder / "_spark_metadata"
    if not log.is_dir():
        return sorted(folder.rglob("*.parquet"))
    paths: set[str] = set()
    for entry in sorted(path for path in log.iterdir() if not path.name.startswith(".")):
        lines = entry.read_text(encoding="utf-8").splitlines()[1:]
        paths |= {json.loads(line)["path"].removeprefix("file://") for line in lines}
    return sorted(Path(path) for path in paths if Path(path).stat().st_size)
