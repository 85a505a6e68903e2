"""What SQL files define, what Spark's reports and messages come to, and what is kept of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ConfigError
from kavka_spark.pipelines.definitions import DefinitionProblem, Definitions, Place, Registry, SqlFlow, load_definitions
from kavka_spark.pipelines.event_log import EventLog
from kavka_spark.pipelines.journal import KEPT, Journal, JournalReader, journals, new_journal_path
from kavka_spark.pipelines.problems import plain, problem_of
from kavka_spark.pipelines.progress import Figures, defined_name, source_lag
from kavka_spark.pipelines.spec import SpecError, parse_spec, read_spec
from kavka_spark.pipelines.sql_definitions import SqlProblem, sql_definitions
from kavka_spark.stream_plans import require_frame

SQL = """-- a comment; with a semicolon
CREATE STREAMING TABLE raw USING parquet PARTITIONED BY (day, `hour`) AS
SELECT *, ';' AS x FROM STREAM(events);

/* two
   lines */
CREATE OR REFRESH MATERIALIZED VIEW `per day` COMMENT 'as it is'
AS SELECT day, count(*) AS n FROM raw GROUP BY day;
CREATE TEMPORARY VIEW v AS SELECT CAST(a AS INT) FROM raw;
CREATE STREAMING TABLE filled;
CREATE FLOW more AS INSERT INTO filled BY NAME SELECT 1 FROM STREAM raw
"""


def test_sql_statements_have_kinds_names_lines_and_queries() -> None:
    raw, view, temporary, filled, flow = sql_definitions(SQL)
    assert (raw.kind, raw.name, raw.line, raw.format, raw.partitioned_by) == (
        "streaming table",
        "raw",
        2,
        "parquet",
        ("day", "hour"),
    )
    assert raw.query.startswith("SELECT *, ';' AS x")
    assert (view.kind, view.name, view.line) == ("materialized view", "`per day`", 7)
    assert view.query.startswith("SELECT day")
    assert (temporary.kind, temporary.query) == ("temporary view", "SELECT CAST(a AS INT) FROM raw")
    assert (filled.kind, filled.query, filled.line) == ("streaming table", "", 10)
    assert (flow.kind, flow.name, flow.target) == ("flow", "more", "filled")


def test_a_statement_that_defines_nothing_is_told_with_its_line() -> None:
    with pytest.raises(SqlProblem, match="DROP TABLE raw") as problem:
        sql_definitions("\n\nDROP TABLE raw;")
    assert problem.value.line == 3


def _progress(batch: int, rows: int, out: int = -1, end: int = 0, latest: int = 0) -> dict[str, object]:
    return {
        "id": "q",
        "name": "spark_catalog.default.raw",
        "batchId": batch,
        "durationMs": {"addBatch": 300, "triggerExecution": 500},
        "sources": [
            {
                "numInputRows": rows,
                "endOffset": {"t": {"0": end}, "topic ids": {"t": "2f4c7c0e-0000"}},
                "latestOffset": json.dumps({"t": {"0": latest, "1": 2}}),
            }
        ],
        "sink": {"numOutputRows": out},
    }


def test_rows_are_summed_and_a_batch_counts_once() -> None:
    figures = Figures("raw")
    assert figures.add_batch(_progress(0, 10, end=10, latest=25))
    assert not figures.add_batch(_progress(0, 10, end=10, latest=25))
    assert figures.add_batch(_progress(1, 5, end=15, latest=25))
    assert (figures.rows_in, figures.batches, figures.seconds, figures.lag) == (15, 2, 1.0, 12)
    assert figures.rows_out is None
    figures.add_written(7)
    assert figures.rows_out == 7
    figures.add_batch(_progress(2, 1, out=3))
    assert figures.rows_out == 3, "what a sink reports goes over what its tasks wrote"


def test_an_idle_report_has_the_next_batchs_number_and_takes_nothing_from_it() -> None:
    """Spark reports a query that looked and found nothing with the number of the batch to come."""
    look = {"durationMs": {"latestOffset": 5, "triggerExecution": 500}}
    first = {**_progress(1, 0, end=10, latest=25), **look, "timestamp": "2026-11-29T14:09:08.100Z"}
    second = {**_progress(1, 0, end=10, latest=26), **look, "timestamp": "2026-11-29T14:09:18.100Z"}
    figures = Figures("raw")
    assert figures.add_batch(_progress(0, 10, end=10, latest=10))
    assert figures.add_batch(first)
    assert (figures.rows_in, figures.batches, figures.seconds, figures.lag) == (10, 1, 0.5, 17)
    assert figures.add_batch(second)
    assert not any(map(figures.add_batch, (first, second))), "Spark's list has them again and again"
    assert figures.lag == 18
    assert figures.add_batch(_progress(1, 15, end=25, latest=25))
    assert not any(map(figures.add_batch, (first, second))), "a report of before says nothing of now"
    assert (figures.rows_in, figures.batches, figures.seconds, figures.lag) == (25, 2, 1.0, 2)


def test_a_batch_without_rows_is_a_batch() -> None:
    figures = Figures("raw")
    assert figures.add_batch(_progress(0, 0))
    assert not figures.add_batch(_progress(0, 0))
    assert figures.batches == 1


def test_a_source_without_offsets_of_partitions_has_no_lag() -> None:
    assert source_lag({"endOffset": '{"logOffset":0}', "latestOffset": None}) is None
    assert source_lag({"endOffset": "17", "latestOffset": "18"}) is None


def _line(**event: object) -> str:
    return json.dumps(event) + "\n"


def _task(stage: int, written: int, read: int = 0, reason: str = "Success") -> str:
    return _line(
        Event="SparkListenerTaskEnd",
        **{
            "Stage ID": stage,
            "Task End Reason": {"Reason": reason},
            "Task Metrics": {
                "Output Metrics": {"Records Written": written},
                "Input Metrics": {"Records Read": read},
                "Executor Run Time": 250,
            },
        },
    )


def test_the_event_log_tells_queries_and_views_and_goes_on_to_its_next_file(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    listener = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
    view = "Execute SaveAsV1TableCommand (1)\n\n(2) SaveAsV1TableCommand\nArguments: `default`.`by`, Append, ..."
    first = folder / "events_1_app"
    whole = (
        _line(Event=f"{listener}StartedEvent", id="q", runId="r", name="spark_catalog.default.raw")
        + _line(Event="SparkListenerJobStart", Properties={"sql.streaming.queryId": "q"}, **{"Stage IDs": [0]})
        + _task(0, written=4)
        + _task(0, written=9, reason="ExceptionFailure")
        + _line(Event=f"{listener}ProgressEvent", progress=_progress(0, 6))
    )
    first.write_text(whole + '{"Event":"Spark')
    log = EventLog(tmp_path)
    assert log.take() == {"raw"}
    assert not log.is_settled
    assert (log.figures["raw"].rows_in, log.figures["raw"].rows_out) == (6, 4)
    first.write_text(whole)
    (folder / "events_2_app").write_text(
        _line(
            Event="org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
            executionId=7,
            physicalPlanDescription=view,
        )
        + _line(Event="SparkListenerJobStart", Properties={"spark.sql.execution.root.id": "7"}, **{"Stage IDs": [3]})
        + _task(3, written=2, read=5)
        + _line(Event=f"{listener}TerminatedEvent", id="q", runId="r", exception="it broke")
    )
    log.take()
    assert log.is_settled
    assert not first.exists(), "what was read is deleted"
    assert (log.figures["by"].rows_in, log.figures["by"].rows_out) == (5, 2)
    assert log.failures == {"raw": "it broke"}


def test_reports_have_the_names_of_the_definitions_whatever_the_pipelines_database(tmp_path: Path) -> None:
    for number, (home, reported) in enumerate(
        [(("spark_catalog", "shop"), "spark_catalog.shop.raw"), (("lake", "shop"), "lake.shop.raw")]
    ):
        folder = tmp_path / str(number) / "eventlog_v2_app"
        folder.mkdir(parents=True)
        listener = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
        begun = _line(Event=f"{listener}StartedEvent", id="q", runId="r", name=reported)
        (folder / "events_1_app").write_text(begun)
        assert EventLog(folder.parent, home).take() == {"raw"}
    assert defined_name("`spark_catalog`.`other`.`raw`", ("spark_catalog", "shop")) == "other.raw"


def test_a_torn_line_of_a_journal_is_none_and_old_journals_go(tmp_path: Path) -> None:
    path = new_journal_path(tmp_path)
    journal, reader = Journal(path), JournalReader(path)
    journal.write("run began", run=1)
    with path.open("a") as file:
        file.write('{"event":"to')
    assert [event["event"] for event in reader.read()] == ["run began"]
    with path.open("a") as file:
        file.write('rn"}\n')
    assert [event["event"] for event in reader.read()] == ["torn"]
    for _ in range(KEPT + 5):
        new_journal_path(tmp_path)
    assert len(journals(tmp_path)) == KEPT


def test_a_message_of_sparks_is_cut_where_java_begins() -> None:
    text = (
        "(org.apache.spark.X) pkg.SomeException: [CODE] it is so.\n\nJVM stacktrace:\norg.apache\n\tat a.b(C.scala:1)"
    )
    assert plain(text) == "[CODE] it is so."


def test_an_error_in_a_definition_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "transformations" / "a.py"
    file.parent.mkdir()
    file.write_text("x = 1\nraise ValueError('no such topic')\n")
    spec = parse_spec(tmp_path / "pipeline.yml", {"name": "n", "storage": "s"})
    try:
        exec(compile(file.read_text(), str(file), "exec"))
    except ValueError as error:
        problem = problem_of(error, spec)
    assert problem.sentence == "transformations/a.py:2: ValueError: no such topic"


def _two_flows(table: str) -> Definitions:
    """Two flows into what a statement of SQL defines, the second of them in Python."""
    definitions = Definitions()
    for number, defined in enumerate(sql_definitions(f"{table}; CREATE FLOW a AS INSERT INTO t BY NAME SELECT 1"), 1):
        definitions.sql.append(SqlFlow(defined, Path("t.sql")))
        if defined.query:
            definitions.note(defined.name, defined.target, Place("t.sql", number))
    definitions.note("b", "t", Place("b.py", 7))
    return definitions


@pytest.mark.parametrize("using", ["", " USING parquet", " USING json"])
def test_two_flows_into_the_same_files_are_refused_because_spark_would_lose_rows(using: str) -> None:
    with pytest.raises(DefinitionProblem, match="a and b both write to t, whose files") as refused:
        _two_flows(f"CREATE STREAMING TABLE t{using}").refuse_shared_files()
    assert refused.value.place == Place("b.py", 7)


def test_a_table_with_transactions_of_its_own_takes_several_flows() -> None:
    _two_flows("CREATE STREAMING TABLE t USING delta").refuse_shared_files()


def test_a_table_to_refresh_that_is_not_defined_is_refused_with_the_near_one_and_all_others() -> None:
    definitions = _two_flows("CREATE STREAMING TABLE t; CREATE MATERIALIZED VIEW per_day AS SELECT 1")
    definitions.check_tables(["t", "PER_DAY", "spark_catalog.default.t", "`per_day`"])
    with pytest.raises(SpecError, match="there is no table per_dya") as refused:
        definitions.check_tables(["t", "per_dya"])
    assert refused.value.next_step == "did you mean per_day? The tables are per_day, t"
    with pytest.raises(SpecError, match="there is no table a"):
        definitions.check_tables(["a"])  # A flow.


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, r"the function of orders returned None, no DataFrame: does it end with `return"),
        (type("DataStreamReader", (), {})(), r"returned a DataStreamReader, no DataFrame: does it end with \.load"),
        ("SELECT 1", "returned a str, no DataFrame"),
    ],
)
def test_a_function_that_returns_no_frame_is_told(made: object, said: str) -> None:
    """Spark said that a NoneType has no attribute _jdf."""
    with pytest.raises(ConfigError, match=said):
        require_frame(made, "orders")


def test_a_definition_that_ends_the_program_is_told_with_its_line(tmp_path: Path) -> None:
    """The command ended with a traceback of its own."""
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "a.py").write_text("import sys\n\nsys.exit(3)\n")
    (tmp_path / "pipeline.yml").write_text("name: n\nstorage: s\n")
    session: Any = None
    with pytest.raises(DefinitionProblem, match=r"ended the program \(sys\.exit\(3\)\)") as told:
        load_definitions(read_spec(tmp_path), Registry(), session)
    assert told.value.place.line == 3
