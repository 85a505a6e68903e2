"""What Spark's Python processes have loaded is not looked through for garbage after each task, plan and commit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WORKER = {"SPARK_PYTHON_RUNTIME": "PYTHON_WORKER"}

SINK = """
import gc
from pyspark.sql.types import StringType, StructType
from kavka_spark.source import KavkaSource

options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "orders"}
for _ in range(2):  # as Spark does for each micro-batch, in this process and in another that commits
    KavkaSource(options).streamWriter(StructType().add("value", StringType()), False)
print(gc.get_freeze_count())
"""
READER = """
import gc, pickle
from pyspark.sql.types import BinaryType, StructType
from kavka_spark.source import KavkaSource

source = KavkaSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"})
pickle.loads(pickle.dumps(source.streamReader(StructType().add("value", BinaryType()))))
print(gc.get_freeze_count())
"""
LOADED_LATER = """
import gc
from kavka_spark.worker_garbage import freeze_what_is_loaded

freeze_what_is_loaded()
before = gc.get_freeze_count()
kept = [[] for _ in range(1000)]
freeze_what_is_loaded()
assert gc.get_freeze_count() <= before, "what a task makes is frozen"
import decimal, tomllib
freeze_what_is_loaded()
assert gc.get_freeze_count() > before + 1000
print("done")
"""
LOADED = 30_000
"""Fewer objects than Python, pyarrow and PySpark bring along."""


def shown_by(program: str, environment: dict[str, str]) -> str:
    found = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


@pytest.mark.parametrize("program", [SINK, READER], ids=["a sink is planned", "a reader arrives"])
def test_a_worker_freezes_what_it_has_loaded(program: str) -> None:
    assert int(shown_by(program, WORKER)) > LOADED


@pytest.mark.parametrize("program", [SINK, READER], ids=["a sink is planned", "a reader arrives"])
def test_the_drivers_own_python_freezes_nothing(program: str) -> None:
    assert shown_by(program, {"SPARK_PYTHON_RUNTIME": ""}) == "0"


def test_what_is_loaded_later_is_frozen_too_and_what_a_task_makes_is_not() -> None:
    assert shown_by(LOADED_LATER, WORKER) == "done"
