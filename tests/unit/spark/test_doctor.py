"""The doctor's decisions, and that it says something where nothing is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kavka_spark.doctor import (
    PythonAnswer,
    Verdict,
    ask_python,
    examine,
    is_well,
    java_finding,
    package_finding,
    worker_problem,
)

DRIVER = PythonAnswer("python", "3.11.7", {"pyspark": "4.3.0", "pyarrow": "20.0.0", "numpy": "2.0.0"}, has_kavka=True)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ('openjdk version "17.0.15" 2025-04-15\n', Verdict.WELL),
        ('java version "21" 2023-09-19 LTS', Verdict.WELL),
        ('openjdk version "1.8.0_402"', Verdict.WRONG),
        ('openjdk version "11.0.2" 2019-01-15', Verdict.WRONG),
        ('openjdk version "25.0.1" 2025-10-21', Verdict.DOUBTFUL),
        ("No Java runtime present", Verdict.WRONG),
        ("", Verdict.WRONG),
    ],
)
def test_java_is_judged_by_its_major_version(said: str, verdict: Verdict) -> None:
    finding = java_finding("/usr/bin/java", said)
    assert finding.verdict is verdict
    assert bool(finding.mend) == (verdict is not Verdict.WELL)


@pytest.mark.parametrize(
    ("name", "version", "verdict"),
    [
        ("pyspark", "4.3.0", Verdict.WELL),
        ("pyspark", "4.1.1", Verdict.WRONG),
        ("pyspark", "4.4.0", Verdict.WRONG),
        ("pandas", "3.0.0", Verdict.WRONG),
        ("pandas", "2.2.3", Verdict.WELL),
        ("pyarrow", None, Verdict.WRONG),
    ],
)
def test_a_package_is_judged_by_the_versions_of_the_extra(name: str, version: str | None, verdict: Verdict) -> None:
    finding = package_finding(name, name, version)
    assert finding.verdict is verdict
    if verdict is Verdict.WRONG:
        assert finding.mend.startswith("pip install")


def test_a_worker_of_another_minor_version_or_without_packages_is_named() -> None:
    assert worker_problem(DRIVER, DRIVER) == ""
    other = PythonAnswer("python3", "3.12.1", DRIVER.packages, has_kavka=True)
    assert "same minor version" in worker_problem(other, DRIVER)
    bare = PythonAnswer("python3", "3.11.2", {"pyspark": "4.3.0"})
    assert worker_problem(bare, DRIVER) == "it lacks pyarrow, numpy, kavka"


def test_this_python_answers_for_itself() -> None:
    answer = ask_python(sys.executable)
    assert answer.version == sys.version.split()[0]
    assert answer.has_kavka
    assert ask_python("/no/such/python").problem


def test_without_java_and_with_a_wrong_spark_home_both_are_said(tmp_path: Path) -> None:
    findings = examine({"PATH": str(tmp_path), "SPARK_HOME": str(tmp_path), "PYSPARK_PYTHON": sys.executable})
    wrong = {finding.part: finding for finding in findings if finding.verdict is Verdict.WRONG}
    assert set(wrong) >= {"java", "SPARK_HOME"}
    assert "JAVA_HOME" in wrong["java"].mend
    assert not is_well(findings)


def test_another_spark_in_spark_home_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    environment = {**os.environ, "SPARK_HOME": str(tmp_path)}
    [finding] = [each for each in examine(environment) if each.part == "SPARK_HOME"]
    assert finding.verdict is Verdict.WRONG
    assert "3.5.1" in finding.found


def test_the_command_prints_json_and_fails_where_something_is_wrong() -> None:
    words = [sys.executable, "-m", "kavka.cli.main", "spark", "doctor", "--json"]
    environment = {**os.environ, "JAVA_HOME": "/no/such/java"}
    told = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert told.returncode == 1, told.stderr
    report = json.loads(told.stdout)
    assert report["well"] is False
    [java] = [each for each in report["findings"] if each["part"] == "java"]
    assert java["verdict"] == Verdict.WRONG.value
    assert java["mend"]
