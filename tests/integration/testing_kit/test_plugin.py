"""The pytest plugin, as a project meets it that has kavka installed and nothing else of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 280


def run(directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "240", "--strict-markers", "."],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_each_test_gets_a_cluster_of_its_own_as_it_is_marked(tmp_path: Path) -> None:
    program = """
import pytest

seen = []

def test_three(kavka_cluster):
    assert sorted(kavka_cluster.running) == [1, 2, 3]
    seen.append(kavka_cluster.bootstrap_servers)

@pytest.mark.kavka_cluster(brokers=1, settings={"num.partitions": 4})
def test_one(kavka_cluster):
    assert kavka_cluster.running == [1]
    assert kavka_cluster.bootstrap_servers not in seen
"""
    result = run(tmp_path, program)
    assert "2 passed" in result.stdout, result.stdout + result.stderr


def test_a_module_shares_one_cluster(tmp_path: Path) -> None:
    program = """
import pytest

pytestmark = pytest.mark.kavka_cluster(brokers=2)
seen = set()

@pytest.mark.parametrize("number", [1, 2])
def test_shared(kavka_module_cluster, number):
    assert sorted(kavka_module_cluster.running) == [1, 2]
    seen.add(kavka_module_cluster.bootstrap_servers)
    assert len(seen) == 1
"""
    result = run(tmp_path, program)
    assert "2 passed" in result.stdout, result.stdout + result.stderr


def test_a_failing_test_is_reported_with_what_its_brokers_said(tmp_path: Path) -> None:
    program = """
def test_wrong(kavka_cluster):
    kavka_cluster.create_topic("orders")
    assert kavka_cluster.leader("orders") == 99
"""
    result = run(tmp_path, program)
    assert "1 failed" in result.stdout
    assert "- kavka brokers -" in result.stdout
    assert "orders" in result.stdout.split("- kavka brokers -")[1]


def test_a_run_without_clusters_imports_no_broker(tmp_path: Path) -> None:
    program = """
import sys

def test_light():
    assert [name for name in sys.modules if name.startswith("kavka.") and not name.startswith("kavka.testing")] == []
"""
    result = run(tmp_path, program)
    assert "1 passed" in result.stdout, result.stdout + result.stderr


def test_pytest_does_not_rewrite_kavka(tmp_path: Path) -> None:
    """Brokers import in threads of their own, where a rewriter's ast.parse fails now and then (Python up to 3.12)."""
    program = """
import importlib
import pytest

@pytest.mark.parametrize("name", ["kavka.replication.decide.lag_policy", "kavka.errors", "kavka.testing.life"])
def test_light(name):
    found = importlib.import_module(name)
    assert type(found.__loader__).__name__ == "SourceFileLoader"
"""
    result = run(tmp_path, program)
    assert "3 passed" in result.stdout, result.stdout + result.stderr
