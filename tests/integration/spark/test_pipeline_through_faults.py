"""A pipeline as somebody operates it: a webhook that refuses or is slow, backfills that come twice and are killed with
-9, and tables of Delta and Iceberg as its sinks. Each row is there once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from kavka_spark.pipelines.order import Order
from kavka_spark.pipelines.runner import Runner
from tests.kit.busy_spark import ATTEMPTS, TOO_BUSY, completed
from tests.kit.http_receiver import HttpReceiver
from tests.kit.kavka_process import KavkaProcess
from tests.kit.pipeline_project import PipelineProject, environment, problem_of
from tests.kit.topic_contents import create, fill

pytestmark = [pytest.mark.timeout(2_400), pytest.mark.thorough]

ROWS, BEGAN, PARTITIONS = 1_200, 250, 2
PIPELINE = """
name: readings
storage: storage
configuration:
  spark.python.authenticate.socketTimeout: 180s
kavka:
  master: local[2]
  alerts: {{webhook: "{webhook}"}}
"""
READINGS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


def records(starting):
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", spark.conf.get("spark.kavka.bootstrap.servers"))
        .option("subscribe", "TOPIC")
        .option("startingOffsets", starting)
        .option("maxOffsetsPerTrigger", "100")
        .load()
    )
    return records.select("partition", "offset", F.col("value").cast("string").cast("bigint").alias("number"))
"""
TABLE = """

@dp.table
def readings():
    return records('{"TOPIC": {"0": 250, "1": 250}}')
"""
SINK = """

dp.create_sink("lake", format="FORMAT", options=OPTIONS)


@dp.append_flow(target="lake")
def into_lake():
    return records('{"TOPIC": {"0": 250, "1": 250}}')
"""


def _project(broker: KavkaProcess, directory: Path, topic: str, webhook: str, definitions: str) -> PipelineProject:
    create(broker.bootstrap, topic, PARTITIONS)
    _produce(broker, topic, range(ROWS))
    files = {
        "pipeline.yml": PIPELINE.format(webhook=webhook),
        "transformations/readings.py": (READINGS + definitions).replace("TOPIC", topic),
    }
    return PipelineProject.of_files(directory / "readings", broker.bootstrap, files, topic=topic)


def _produce(broker: KavkaProcess, topic: str, numbers: range) -> None:
    for partition in range(PARTITIONS):
        fill(broker.bootstrap, topic, partition, [b"%d" % number for number in numbers[partition::PARTITIONS]])


def _kill_after(project: PipelineProject, enough: Callable[[dict[str, Any]], bool], **order: Any) -> None:
    """Starts a run, and kills its driver with all that it started when it has told enough."""
    given = Order(str(project.directory), "", "run", project.bootstrap, **order)
    given = replace(given, spec_file=str(given.spec().path))
    for _ in range(ATTEMPTS):
        deadline = time.monotonic() + 900
        with environment(), Runner(given.spec(), given) as runner:
            for event in runner.events():
                if event is not None and event["event"] == "problem":
                    assert TOO_BUSY in event["problem"], event
                if event is not None and enough(event):
                    runner.kill()
                    return
                assert time.monotonic() < deadline, runner.log_tail()
    raise AssertionError("the run ended first")


def _refused(project: PipelineProject, *words: str) -> str:
    """Why a backfill failed, which has to."""
    for _ in range(ATTEMPTS):
        problem = str(problem_of(project.run(*words, verb="backfill", status=1))["problem"])
        if TOO_BUSY not in problem:
            return problem
    raise AssertionError(problem)


def _has_read(rows: int) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["event"] == "progress" and event["rows_in"] >= rows


def _check_once(rows: list[dict[str, Any]], numbers: Sequence[int]) -> None:
    found = Counter(row["number"] for row in rows)
    assert [number for number, times in found.items() if times > 1] == []
    assert sorted(found) == list(numbers)


def test_backfills_by_offsets_and_times_come_twice_and_through_kill_9_and_a_webhook_is_slow_or_refuses(
    kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    with HttpReceiver(503) as receiver:
        project = _project(kavka_broker, tmp_path, "filled-in", f"{receiver.address}/hook", TABLE)
        completed(project)
        _check_once(project.rows("readings"), range(PARTITIONS * BEGAN, ROWS))

        _kill_after(project, _has_read(100), backfill=("readings", _offsets(100), _offsets(200)))
        for _ in range(2):
            completed(project, "readings", "--from", _offsets(100), "--to", _offsets(200), verb="backfill")
            _check_once(project.rows("readings"), [*range(200, 400), *range(PARTITIONS * BEGAN, ROWS)])

        receiver.pause_s = 30.0  # Longer than it is waited for.
        receiver.asked, receiver.bodies = 0, []
        assert "100 to before 200 was filled in already" in _refused(project, "readings")
        assert (receiver.asked > 0, receiver.bodies) == (True, [])
        receiver.pause_s = 2.0
        completed(project, "readings", "--from", _offsets(0), "--to", _offsets(100), verb="backfill")
        told = [(body["status"], body["rule"]) for body in receiver.bodies]
        # What came too late for the pipeline is told again, and the receiver has it twice.
        assert told[-2:] == [("firing", "failed"), ("resolved", "failed")]
        assert set(told[:-2]) <= {("firing", "failed")}
        in_a_minute = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 60))
        for _ in range(2):
            completed(project, "readings", "--from", _offsets(200), "--to", in_a_minute, verb="backfill")
        _check_once(project.rows("readings"), range(ROWS))


def _offsets(number: int) -> str:
    return json.dumps({"filled-in": {str(partition): number for partition in range(PARTITIONS)}})


@pytest.mark.parametrize("form", ["kavka-delta", "kavka-iceberg"])
def test_a_pipeline_fills_a_table_of_delta_or_iceberg_through_kill_9(
    kavka_broker: KavkaProcess, tmp_path: Path, form: str
) -> None:
    catalog = {
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
        "catalog.warehouse": f"file://{tmp_path}/warehouse",
    }
    options = {"path": str(tmp_path / "table")} if form == "kavka-delta" else {**catalog, "table": "shop.readings"}
    definitions = SINK.replace("FORMAT", form).replace("OPTIONS", repr(options))
    project = _project(kavka_broker, tmp_path, form, "http://127.0.0.1:1/hook", definitions)

    def rows() -> list[dict[str, Any]]:
        if form == "kavka-delta":
            return DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
        settings = {name.removeprefix("catalog."): text for name, text in catalog.items()}
        return load_catalog("default", **settings).load_table("shop.readings").scan().to_arrow().to_pylist()

    began = PARTITIONS * BEGAN
    _kill_after(project, _has_read(300))
    completed(project)
    _check_once(rows(), range(began, ROWS))
    _produce(kavka_broker, form, range(ROWS, ROWS + 100))
    offsets = [json.dumps({form: dict.fromkeys("01", number)}) for number in (100, 200)]
    _kill_after(project, _has_read(100), backfill=("into_lake", *offsets))
    for _ in range(2):
        completed(project, "into_lake", "--from", offsets[0], "--to", offsets[1], verb="backfill")
        _check_once(rows(), [*range(200, 400), *range(began, ROWS + 100)])
    in_a_minute = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 60))
    completed(project, "into_lake", "--to", offsets[0], verb="backfill")
    completed(project, "into_lake", "--from", offsets[1], "--to", in_a_minute, verb="backfill")
    _check_once(rows(), range(ROWS + 100))
