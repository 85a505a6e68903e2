"""A full refresh empties a table and reads its sources again, whether the table has partitions or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.kavka_process import KavkaProcess
from tests.kit.pipeline_project import PipelineProject, last_figures
from tests.kit.topic_contents import create, fill

pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]

PIPELINE = """
name: numbers
storage: storage
configuration: {{numbers.topic: {topic}, numbers.at-once: "100"}}
kavka: {{master: "local[2]"}}
"""
TABLES = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


def read():
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", spark.conf.get("spark.kavka.bootstrap.servers"))
        .option("subscribe", spark.conf.get("numbers.topic"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", spark.conf.get("numbers.at-once"))
        .load()
    )
    number = F.col("value").cast("string").cast("bigint")
    return records.select(number.alias("number"), (number % 2).alias("parity"))


@dp.table(partition_cols=["parity"])
def divided():
    return read()


@dp.table
def whole():
    return read()


@dp.materialized_view(partition_cols=["parity"])
def view():
    return spark.read.table("divided")
"""


@pytest.fixture
def project(kavka_broker: KavkaProcess, tmp_path: Path, request: pytest.FixtureRequest) -> PipelineProject:
    topic = request.node.name.replace("_", "-")[:60]
    create(kavka_broker.bootstrap, topic, 1)
    files = {"pipeline.yml": PIPELINE.format(topic=topic), "transformations/tables.py": TABLES}
    return PipelineProject.of_files(tmp_path / "zähler+1", kavka_broker.bootstrap, files, topic=topic)


def _produce(project: PipelineProject, numbers: range) -> None:
    fill(project.bootstrap, project.topic, 0, [b"%d" % number for number in numbers])


def _hold(project: PipelineProject, numbers: range) -> None:
    for table in ("divided", "whole", "view"):
        assert sorted(row["number"] for row in project.rows(table)) == list(numbers), table


def test_each_table_is_read_again_and_has_each_row_once_also_in_fewer_batches(project: PipelineProject) -> None:
    _produce(project, range(300))
    project.run()
    _hold(project, range(300))
    project.run()  # Another process, which has to empty the view that the first one wrote.
    _hold(project, range(300))
    events = project.run("--full-refresh-all", "--set", "numbers.at-once=1000")
    for table in ("divided", "whole"):
        figures = last_figures(events, table)
        assert (figures["rows_in"], figures["rows_out"], figures["batches"]) == (300, 300, 1), table
    _hold(project, range(300))
    _produce(project, range(300, 400))
    events = project.run()
    assert [last_figures(events, table)["rows_in"] for table in ("divided", "whole")] == [100, 100]
    _hold(project, range(400))
