"""Expectations on a broker: each row is in its table or in the quarantine, once, through kill -9; what was counted."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka_spark.pipelines.order import Order
from kavka_spark.pipelines.runner import Runner
from tests.kit.http_receiver import HttpReceiver
from tests.kit.kavka_process import KavkaProcess
from tests.kit.pipeline_project import PipelineProject, environment, last_figures, problem_of
from tests.kit.topic_contents import contents, create, fill

pytestmark = [pytest.mark.timeout(2_400), pytest.mark.thorough]

PIPELINE = """
name: orders
storage: storage
configuration:
  orders.topic: {topic}
  spark.python.authenticate.socketTimeout: 180s
  spark.sql.pipelines.execution.maxConcurrentFlows: "1"
kavka:
  master: local[2]
  metrics: ./orders.prom
  lineage: {receiver}
  alerts: {{webhook: "{receiver}/hook"}}
"""
PARSED = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


def records():
    return (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", spark.conf.get("spark.kavka.bootstrap.servers"))
        .option("subscribe", spark.conf.get("orders.topic"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "150")
        .load()
    )


def parsed():
    order = F.from_json(F.col("value").cast("string"), "id BIGINT, amount DOUBLE, currency STRING, test BOOLEAN")
    return records().withColumn("o", order).select("key", "value", "topic", "partition", "offset", "o.*")
"""
PAGE = Path(__file__).resolve().parents[3] / "docs" / "pipelines.md"


def _definitions(dead_letters: str) -> str:
    """The definitions of the section on expectations in pipelines.md, as they stand there."""
    section = PAGE.read_text(encoding="utf-8").partition("## Expectations")[2].partition("\n## ")[0]
    shown = re.findall(r"```python\n(.*?)```", section, re.S)
    assert len(shown) == 2
    return "\n".join([PARSED, *shown]).replace('"orders-dead"', f'"{dead_letters}"')


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as started:
        yield started


@pytest.fixture
def project(
    kavka_broker: KavkaProcess, receiver: HttpReceiver, tmp_path: Path, request: pytest.FixtureRequest
) -> PipelineProject:
    name = request.node.name.replace("_", "-")[:60]
    create(kavka_broker.bootstrap, name, 2)
    create(kavka_broker.bootstrap, f"{name}-dead", 1)
    files = {
        "pipeline.yml": PIPELINE.format(topic=name, receiver=receiver.address),
        "transformations/orders.py": _definitions(f"{name}-dead"),
    }
    return PipelineProject.of_files(tmp_path / "orders", kavka_broker.bootstrap, files, topic=name)


def _value(number: int) -> bytes:
    """Every tenth has no id, every seventh no amount above zero, every fifth a strange currency; every third of those
    that hundred divides is a test."""
    if number % 10 == 0:
        return b"no order %d" % number
    order: dict[str, Any] = {"id": number, "amount": -1 if number % 7 == 0 else number}
    order["currency"] = "XYZ" if number % 5 == 1 else "EUR"
    if number % 11 == 0:
        order["test"] = True
    return json.dumps(order).encode()


def _produce(project: PipelineProject, numbers: range) -> None:
    for partition in range(2):
        fill(project.bootstrap, project.topic, partition, [_value(n) for n in numbers if n % 2 == partition])


def _places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


def test_each_row_is_kept_or_quarantined_once_through_kill_9_and_counted(
    project: PipelineProject, receiver: HttpReceiver
) -> None:
    total = 400
    _produce(project, range(300))
    spec = Order(str(project.directory), "", "run", project.bootstrap).spec()
    order = Order(str(spec.path), "", "run", project.bootstrap)
    with environment(), Runner(spec, order) as runner:
        deadline = time.monotonic() + 900
        for event in runner.events():
            assert time.monotonic() < deadline, runner.log_tail()
            if event is not None and event["event"] == "progress" and event["rows_in"]:
                break
        runner.kill()
    _produce(project, range(300, total))
    events = project.run()

    numbers = range(total)
    aside = [n for n in numbers if n % 10 == 0 or n % 7 == 0]
    tests = [n for n in numbers if n % 11 == 0 and n not in aside]
    kept, quarantined = project.rows("orders"), project.rows("orders_quarantine")
    assert sorted(row["id"] for row in kept) == [n for n in numbers if n not in aside and n not in tests]
    assert sorted(kept[0]) == ["amount", "currency", "id", "offset", "partition", "test", "topic"]
    assert len(quarantined) == len(aside)
    assert len(set(_places(kept)) | set(_places(quarantined))) == len(kept) + len(quarantined) == total - len(tests)
    strange = next(row for row in quarantined if row["value"] == b"no order 10")
    assert (strange["topic"], strange["partition"], strange["offset"]) == (project.topic, 0, 5)
    assert strange["reasons"] == ["known currency", "has an id", "positive amount"]

    dead = contents(project.bootstrap, f"{project.topic}-dead")
    assert sorted(record.value or b"" for record in dead) == sorted(_value(n) for n in numbers if n % 10 == 0)
    told = [dict(record.headers) for record in dead if record.value == b"no order 10"]
    assert told == [
        {
            "deadletter.flow": b"letters",
            "deadletter.reasons": b"has an id",
            "deadletter.topic": project.topic.encode(),
            "deadletter.partition": b"0",
            "deadletter.offset": b"5",
        }
    ]

    figures = last_figures(events, "orders")
    assert figures["checked"] == figures["rows_in"] > 0
    broken = {each["expectation"]: each["broken"] for each in figures["expectations"]}
    batches = [event for event in events if event["event"] == "checked" and event["flow"] == "orders"]
    assert broken["has an id"] == sum(each["broken"].get("quarantine: has an id", 0) for each in batches) > 0
    status = project.command("status", str(project.directory)).stdout
    assert f"orders\thas an id\tquarantine\t{figures['checked']:,}\t{broken['has an id']}" in status

    metrics = (project.directory / "orders.prom").read_text()
    tags = 'pipeline="orders",flow="orders",expectation="has an id",otherwise="quarantine"'
    assert f"kavka_pipeline_broken_expectations_total{{{tags}}} {broken['has an id']}" in metrics
    topic, table = f"kafka://{project.bootstrap}", f"{project.directory}/storage/warehouse/orders"
    [done] = [
        body
        for body in receiver.bodies
        if body.get("eventType") == "COMPLETE" and body["job"]["name"] == "orders.orders"
    ]
    assert [(each["namespace"], each["name"]) for each in done["inputs"]] == [(topic, project.topic)]
    assert [(each["namespace"], each["name"]) for each in done["outputs"]] == [("file", table)]


def test_a_row_that_must_not_come_fails_the_run_with_its_place_and_nothing_is_committed(
    project: PipelineProject, receiver: HttpReceiver
) -> None:
    fill(project.bootstrap, project.topic, 0, [_value(1), b'{"id": 5, "amount": 2000000}'])
    problem = problem_of(project.run(status=1))
    assert f"flow orders: the record at {project.topic}-0, offset 1 breaks small amount" in problem["problem"]
    assert project.rows("orders") == project.rows("orders_quarantine") == []
    told = [body for path, body in zip(receiver.paths, receiver.bodies, strict=True) if path == "/hook"]
    assert [(body["status"], body["rule"]) for body in told] == [("firing", "failed")]
    assert "breaks small amount" in told[0]["text"]
