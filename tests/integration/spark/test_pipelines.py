"""Pipelines on a broker: what is new goes through once, from run to run, in either way of running, through kill -9."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from kavka_spark.pipelines.order import Order
from kavka_spark.pipelines.runner import Runner
from tests.kit.kavka_process import KavkaProcess
from tests.kit.pipeline_project import ENVIRONMENT, PipelineProject, RunFailed, environment, last_figures, problem_of
from tests.kit.ports import free_port
from tests.kit.topic_contents import contents, create, fill

pytestmark = pytest.mark.timeout(600)

PIPELINE = """
name: numbers
storage: storage
configuration:
  numbers.topic: {topic}
  numbers.copy: {copy}
kavka: {{master: "local[2]", every: 1s, trigger: 200ms, refresh: 2s}}
"""
NUMBERS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
brokers = spark.conf.get("spark.kavka.bootstrap.servers")


@dp.table(partition_cols=["parity"])
def numbers():
    records = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", spark.conf.get("numbers.topic"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "400")
        .load()
    )
    number = F.col("value").cast("string").cast("bigint")
    return records.select("partition", "offset", number.alias("number"), (number % 2).alias("parity"))


dp.create_sink(
    "copy",
    format="kavka",
    options={"kafka.bootstrap.servers": brokers, "topic": spark.conf.get("numbers.copy")},
)


@dp.append_flow(target="copy")
def even_ones():
    # withColumn, because Spark resolves its input at once: a later run must not take it for another pipeline's table.
    even = spark.readStream.table("numbers").where("parity = 0").withColumn("text", F.col("number").cast("string"))
    return even.select(F.col("text").alias("value"))
"""
LATE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.materialized_view
def by_full_name():
    return spark.read.table("default.numbers").withColumn("one", F.lit(1))


@dp.materialized_view
def by_sql():
    return spark.sql("SELECT number FROM numbers").withColumn("one", F.lit(1))
"""
SUMS = """
CREATE MATERIALIZED VIEW sums AS
SELECT parity, count(*) AS n, sum(number) AS total FROM numbers GROUP BY parity;
"""


@pytest.fixture
def project(kavka_broker: KavkaProcess, tmp_path: Path, request: pytest.FixtureRequest) -> PipelineProject:
    """The pipeline of numbers with topics of its own."""
    name = request.node.name.replace("_", "-")[:60]
    create(kavka_broker.bootstrap, name, 3)
    create(kavka_broker.bootstrap, f"{name}-copy", 1)
    files = {
        "pipeline.yml": PIPELINE.format(topic=name, copy=f"{name}-copy"),
        "transformations/numbers.py": NUMBERS,
        "transformations/sums.sql": SUMS,
    }
    directory = tmp_path / "nümbers+1"  # A path that must reach Spark as it is.
    return PipelineProject.of_files(directory, kavka_broker.bootstrap, files, topic=name)


def _produce(project: PipelineProject, numbers: range) -> None:
    for partition in range(3):
        values = [b"%d" % number for number in numbers if number % 3 == partition]
        fill(project.bootstrap, project.topic, partition, values)


def _copied(project: PipelineProject) -> list[int]:
    return sorted(int(record.value or b"") for record in contents(project.bootstrap, f"{project.topic}-copy"))


@pytest.mark.thorough  # Two minutes of two cores: `make demo` runs a pipeline, too.
def test_a_second_run_takes_what_is_new_and_nothing_else(project: PipelineProject) -> None:
    (project.directory / "transformations" / "late.py").write_text(LATE)
    _produce(project, range(1_000))
    events = project.run()
    numbers = last_figures(events, "numbers")
    assert (numbers["rows_in"], numbers["rows_out"], numbers["lag"]) == (1_000, 1_000, 0)
    assert last_figures(events, "even_ones")["rows_out"] == 500
    _produce(project, range(1_000, 1_200))
    events = project.run()
    assert last_figures(events, "numbers")["rows_in"] == 200
    assert last_figures(events, "even_ones")["rows_in"] == 200
    assert sorted(row["number"] for row in project.rows("numbers")) == list(range(1_200))
    assert {row["parity"]: row["n"] for row in project.rows("sums")} == {0: 600, 1: 600}
    for view in ("by_full_name", "by_sql"):
        assert sorted(row["number"] for row in project.rows(view)) == list(range(1_200))
    assert _copied(project) == list(range(0, 1_200, 2))
    told = project.command("status", str(project.directory)).stdout
    assert told.count("completed") >= 2
    assert "numbers\t200\t200\t0" in told
    numbers = last_figures(project.run("--full-refresh", "numbers"), "numbers")
    assert (numbers["rows_in"], numbers["rows_out"], numbers["lag"]) == (1_200, 1_200, 0), "all was read again"
    assert sorted(row["number"] for row in project.rows("numbers")) == list(range(1_200))


def test_a_run_without_brokers_is_over_in_seconds_and_starts_no_spark(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    files = {"pipeline.yml": PIPELINE.format(topic="t", copy="c"), "transformations/numbers.py": NUMBERS}
    project = PipelineProject.of_files(tmp_path / "numbers", address, files)
    began = time.monotonic()
    told = project.command("run", str(project.directory), "-b", address, status=1)
    assert time.monotonic() - began < 60  # Some 11 s where the machine is free; it was 216.
    assert told.stdout == ""
    assert f"Error: no broker answers: {address} refused the connection\n" in told.stderr
    assert "-b HOST:PORT" in told.stderr
    assert "no broker answers" in project.command("status", str(project.directory)).stdout
    assert "SparkContext" not in project.spark_log()


@pytest.mark.thorough
def test_brokers_that_only_a_definition_names_are_told_with_its_line_within_seconds(project: PipelineProject) -> None:
    """Those of pipeline.yml answer."""
    address = f"127.0.0.1:{free_port()}"
    option = '.option("kafka.bootstrap.servers", '
    path = project.directory / "transformations" / "numbers.py"
    path.write_text(NUMBERS.replace(f"{option}brokers)", f'{option}"{address}")'))
    for way in ((), ("--continuous",)):
        events = project.run(*way, status=1)
        problem = problem_of(events)
        assert (problem["flow"], problem["file"]) == ("numbers", "transformations/numbers.py")
        assert f"{address} refused the connection" in problem["problem"]
        began, ended = (
            next(each["at"] for each in events if each["event"] == name) for name in ("defined", "run ended")
        )
        assert ended - began < 50  # 10 s, and the machine's; a query would wait for 60 s, three times.


@pytest.mark.thorough
def test_a_check_asks_for_topics_and_a_syntax_error_starts_no_spark(project: PipelineProject) -> None:
    spec = project.directory / "pipeline.yml"
    text = spec.read_text()
    assert project.run(verb="check")[-1]["status"] == 0
    spec.write_text(text.replace(project.topic, "no-such-topic", 1))
    problem = problem_of(project.run(verb="check", status=1))
    assert (problem["flow"], problem["problem"]) == ("numbers", "there is no topic 'no-such-topic'")
    assert problem["next_step"] == "kavka topics create no-such-topic"

    runs = sorted(project.directory.glob("storage/_kavka/runs/*"))
    path = project.directory / "transformations" / "numbers.py"
    path.write_text(NUMBERS + "\ndef broken(:\n")
    problem = problem_of(project.run(status=1))
    assert (problem["file"], problem["line"]) == ("transformations/numbers.py", NUMBERS.count("\n") + 2)
    assert sorted(project.directory.glob("storage/_kavka/runs/*")) == runs


@pytest.mark.thorough
def test_a_column_that_is_not_there_is_told_with_flow_file_and_line(project: PipelineProject) -> None:
    broken = SUMS.replace("sum(number)", "sum(numbr)")
    (project.directory / "transformations" / "sums.sql").write_text(broken)
    problem = problem_of(project.run(verb="check", status=1))
    assert (problem["flow"], problem["file"], problem["line"]) == ("sums", "transformations/sums.sql", 2)
    assert "numbr" in problem["problem"]
    assert not project.rows("numbers"), "a check runs nothing"


@pytest.mark.thorough
def test_a_python_error_is_told_with_its_line_and_the_command_fails(project: PipelineProject) -> None:
    path = project.directory / "transformations" / "numbers.py"
    path.write_text(NUMBERS.replace('.cast("bigint")', '.cast("bigint").no_such()'))
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "no_such" in text)
    with pytest.raises(RunFailed, match=rf"transformations/numbers\.py:{line}"):
        project.command("check", str(project.directory), "-b", project.bootstrap)


@pytest.mark.thorough
def test_records_that_aged_out_between_two_runs_are_told_with_their_offsets(project: PipelineProject) -> None:
    _produce(project, range(300))
    project.run()
    _produce(project, range(300, 600))
    admin = AdminClient({"bootstrap.servers": project.bootstrap})
    for done in admin.delete_records([Position(project.topic, 1, 150)]).values():
        done.result(30)
    problem = problem_of(project.run(status=1))
    assert (problem["flow"], problem["file"]) == ("numbers", "transformations/numbers.py")
    assert problem["problem"].startswith("DataLossError: ")
    lost = f"{project.topic}-1: offset 100 is wanted, but the log holds 150 to before 200: retention or a deletion"
    assert lost in problem["problem"]
    assert "failOnDataLoss=false" in problem["problem"]
    assert "Traceback" not in problem["problem"]


@pytest.mark.thorough
def test_the_two_ways_of_running_take_turns_through_kill_9_and_each_row_is_there_once(project: PipelineProject) -> None:
    _produce(project, range(2_000))
    spec = Order(str(project.directory), "", "continuous", project.bootstrap).spec()
    order = Order(str(spec.path), "", "continuous", project.bootstrap)
    for rows in (400, 800):
        with environment(), Runner(spec, order) as runner:
            _wait_for_rows(runner, rows)
            runner.kill()
    _produce(project, range(2_000, 2_300))
    events = project.run()
    assert last_figures(events, "numbers")["lag"] == 0
    assert sorted(row["number"] for row in project.rows("numbers")) == list(range(2_300))
    assert {row["parity"]: row["n"] for row in project.rows("sums")} == {0: 1_150, 1: 1_150}
    # A sink that is not exactlyOnce may have some twice after a kill, and none missing.
    assert set(_copied(project)) == set(range(0, 2_300, 2))


@pytest.mark.thorough
def test_a_view_of_a_view_has_its_rows_in_a_session_that_finds_both_tables(project: PipelineProject) -> None:
    """It is defined before the other one, and computed after it."""
    query = "SELECT sum(n) AS n, (SELECT sum(n) FROM sums) AS again FROM sums"
    (project.directory / "transformations/a_first.sql").write_text(f"CREATE MATERIALIZED VIEW a_first AS {query}")
    file = project.directory / "pipeline.yml"
    file.write_text(file.read_text().replace("refresh: 2s", "refresh: 1h"))
    _produce(project, range(300))
    project.run()
    spec = Order(str(project.directory), "", "continuous", project.bootstrap).spec()
    with environment(), Runner(spec, Order(str(spec.path), "", "continuous", project.bootstrap)) as runner:
        computed: set[str] = set()
        for event in runner.events():
            computed |= {event["flow"]} if event is not None and event["event"] == "progress" else set()
            if computed >= {"a_first", "sums"}:
                break
        _produce(project, range(300, 600))
        _wait_for_rows(runner, 300)
    assert project.rows("a_first") == [{"n": 600, "again": 600}]


TABLES_PLANS = "spark_catalog/default/numbers/numbers/0/offsets"
SINKS_PLANS = "copy/even_ones/0/offsets", "out/copy/even_ones/0/offsets"  # The other is of a sink named out.copy.
UNFINISHED = ".0.400d4df3-1ec4-43a8-b719-7b9af71571a4.tmp"


def test_what_a_kill_left_of_first_plans_is_removed_and_told(project: PipelineProject) -> None:
    """Spark refuses to start with it: STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY."""
    (project.directory / "transformations/sums.sql").unlink()  # A batch query has no plans to leave.
    left = [project.directory / "storage/_checkpoints" / plans / UNFINISHED for plans in (TABLES_PLANS, *SINKS_PLANS)]
    for path in left:
        path.parent.mkdir(parents=True)
        path.write_text("v1")
    _produce(project, range(300))
    spec = Order(str(project.directory), "", "continuous", project.bootstrap).spec()
    with environment(), Runner(spec, Order(str(spec.path), "", "continuous", project.bootstrap)) as runner:
        _wait_for_rows(runner, 300)
    [journal] = project.directory.glob("storage/_kavka/runs/*.jsonl")
    told = " ".join(event.get("text", "") for event in map(json.loads, journal.read_text().splitlines()))
    assert not any(path.exists() for path in left)
    assert all(f"{path} was removed: a driver was killed" in told for path in left)


@pytest.mark.thorough
def test_a_driver_that_is_killed_while_it_plans_its_first_batch_can_be_started_again(project: PipelineProject) -> None:
    _produce(project, range(1_000))
    spec = Order(str(project.directory), "", "continuous", project.bootstrap).spec()
    checkpoints = project.directory / "storage/_checkpoints"
    found: list[str] = []
    for _ in range(5):  # A look may come too late.
        with environment(), Runner(spec, Order(str(spec.path), "", "continuous", project.bootstrap)) as runner:
            deadline = time.monotonic() + 240
            while not (found := _names(checkpoints / TABLES_PLANS)):
                assert time.monotonic() < deadline, runner.log_tail()
            runner.kill()
        found = _names(checkpoints / TABLES_PLANS)
        if "0" not in found:
            break
        shutil.rmtree(project.directory / "storage")
    assert [name for name in found if name.startswith(".0.") and name.endswith(".tmp")]
    project.run()
    assert sorted(row["number"] for row in project.rows("numbers")) == list(range(1_000))
    assert set(_names(checkpoints / TABLES_PLANS)).isdisjoint(found)
    # Beside plans Spark itself passes over it, and nobody need touch it.
    beside = checkpoints / TABLES_PLANS / UNFINISHED
    beside.write_text("v1")
    _produce(project, range(1_000, 1_200))
    project.run()
    assert sorted(row["number"] for row in project.rows("numbers")) == list(range(1_200))
    assert beside.exists()


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []


@pytest.mark.thorough
def test_watching_runs_again_and_again_in_one_session(project: PipelineProject) -> None:
    _produce(project, range(100))
    words = [sys.executable, "-m", "kavka.cli.main", "pipeline", "watch", str(project.directory)]
    with subprocess.Popen(
        [*words, "-b", project.bootstrap, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENVIRONMENT},
    ) as watching:
        assert watching.stdout is not None
        told: Counter[str] = Counter()
        for line in watching.stdout:
            event = json.loads(line)
            told[event["event"]] += 1
            if event["event"] == "run ended":
                assert event["outcome"] == "completed"
                if event["run"] == 1:
                    _produce(project, range(100, 150))
                elif event["run"] == 3:
                    watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0
    assert told["session"] == 1
    assert sorted(row["number"] for row in project.rows("numbers")) == list(range(150))


def _wait_for_rows(runner: Runner, rows: int) -> None:
    deadline = time.monotonic() + 240
    for event in runner.events():
        if event is not None and event["event"] == "problem":
            raise AssertionError(event["problem"])
        if (
            event is not None
            and event["event"] == "progress"
            and event["flow"] == "numbers"
            and event["rows_in"] >= rows
        ):
            return
        assert time.monotonic() < deadline, runner.log_tail()
