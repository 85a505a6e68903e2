"""Of Spark's long messages a sentence is left: what was raised, without the stacks of two languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_spark.pipelines.problems import LONGEST, plain, told
from kavka_spark.pipelines.spec import PipelineSpec

LOST = "orders-1: offset 100 is wanted, but the log holds 150 to before 200: retention has removed it. Do this or that"
QUERY_FAILED = "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: "
FAILED = f"more than 2 times and will not be restarted.\nError: {QUERY_FAILED}"
TRACEBACK = """Traceback (most recent call last):
  File "/lib/pyspark.zip/runner.py", line 281, in main
  File "/src/kavka_spark/stream_source.py", line 84, in latestOffset
    return self._json(opened.run(self._next(opened)))
                      ^^^^^^^^^^
"""
QUERY = "\n=== Streaming Query ===\nIdentifier: numbers [id = 1-2]\nCurrent Committed Offsets: {}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"{FAILED}[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform "
            f"latestOffset: {TRACEBACK}kavka_spark.errors.DataLossError: {LOST}\n SQLSTATE: 38000{QUERY}",
            f"DataLossError: {LOST}",
        ),
        (
            f"{FAILED}[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform "
            f"latestOffset: kavka_spark.errors.DataLossError: {LOST}\n SQLSTATE: 38000{QUERY}",
            f"DataLossError: {LOST}",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source reader: kavka.errors.ConfigError: the "
            "kavka source has no option 'subscribed'; did you mean 'subscribe'?\n SQLSTATE: 38000",
            "ConfigError: the kavka source has no option 'subscribed'; did you mean 'subscribe'?",
        ),
        (
            f"[PYTHON_EXCEPTION] An exception was thrown.\n{TRACEBACK}KeyError: 1\n\nDuring handling of the above "
            f"exception, another exception occurred:\n\n{TRACEBACK}ValueError: two\nlines\n\tat a.b.Main(Main.java:1)",
            "ValueError: two\nlines",
        ),
        (
            f"{FAILED}[FAILED_READ_FILE] Encountered error. SQLSTATE: KD001{QUERY}",
            "[FAILED_READ_FILE] Encountered error. SQLSTATE: KD001",
        ),
        (
            "(org.apache.spark.AnalysisException) [UNRESOLVED_COLUMN] `x` cannot be resolved.\n\nJVM stacktrace:\nat a",
            "[UNRESOLVED_COLUMN] `x` cannot be resolved.",
        ),
        (
            "[UNRESOLVED_COLUMN] `numbr` cannot be resolved. SQLSTATE: 42703; line 3 pos 34;\n'Aggregate [p#2L]\n+- x",
            "[UNRESOLVED_COLUMN] `numbr` cannot be resolved. SQLSTATE: 42703; line 3 pos 34",
        ),
        ("Error: org.apache.spark.SparkException: it is so", "it is so"),
    ],
)
def test_what_was_raised_is_told_and_nothing_around_it(text: str, sentence: str) -> None:
    assert plain(text) == sentence


def test_a_python_that_did_not_start_in_time_is_told_with_what_to_do(tmp_path: Path) -> None:
    spec = PipelineSpec(path=tmp_path / "pipeline.yml", name="orders", storage="file:///s")
    problem = told(f"{FAILED}Python worker failed to connect back. SQLSTATE: XXKST{QUERY}", spec, None, "orders")
    assert problem.sentence == "flow orders: Python worker failed to connect back. SQLSTATE: XXKST"
    assert problem.next_step.startswith("Spark gives a Python ten seconds to start")


@pytest.mark.parametrize(
    ("text", "next_step"),
    [
        ("[CAST_INVALID_INPUT] The value 'abc' cannot be cast. SQLSTATE: 22018", "with try_cast it is NULL"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", "kavka spark doctor"),
        ('Cannot run program "/nope": error=2, No such file or directory', "PYSPARK_PYTHON"),
        ("Failed to read log file file:/s/offsets/0. Incomplete log file SQLSTATE: XXKST", "a backup"),
        ("Failed to read log file offsets/0. [MALFORMED_LOG_FILE] Log file was malformed. SQLSTATE: KD002", "a backup"),
    ],
)
def test_what_a_user_can_mend_is_told_with_the_way(tmp_path: Path, text: str, next_step: str) -> None:
    spec = PipelineSpec(path=tmp_path / "pipeline.yml", name="orders", storage="file:///s")
    assert next_step in told(f"{FAILED}{text}", spec, None, "orders").next_step


def test_what_is_told_is_no_longer_than_a_screen() -> None:
    assert len(plain("x" * 10_000)) < LONGEST + 10
