"""The folders of recipes/, copied as docs/recipes.md has its readers do it, pass their own tests with this kavka."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.documentation.page import blocks
from tests.kit.command_line import PROGRAM
from tests.kit.process_cluster import eventually

ROOT = Path(__file__).resolve().parents[3]
RECIPES = ROOT / "recipes"
PAGE = ROOT / "docs" / "recipes.md"
PATIENCE_S = 600
COMMANDS = {
    "pytest": "python -m pytest -q",
    "junit": "mvn -q -B test",
    "jest": "npm test",
    "go": "go test ./...",
}
"""By folder, as the page has them."""


def run_in(folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """With the kavka of this environment on the path, and nothing of this run's own pytest."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "KAVKA"))}
    environment["PATH"] = f"{PROGRAM.parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def copied(name: str, directory: Path) -> Path:
    return Path(shutil.copytree(RECIPES / name, directory / name))


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def test_the_page_shows_the_command_of_each_folder() -> None:
    shown = {line for block in blocks(PAGE) if block.language == "sh" for line in block.lines}
    assert {folder.name for folder in RECIPES.iterdir()} == set(COMMANDS)
    assert set(COMMANDS.values()) <= shown


def test_pytest(tmp_path: Path) -> None:
    """In a checkout there are settings above the folder which are not the recipe's."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\nan_option_of_a_plugin_that_is_not_installed = 1\n'
    )
    done = run_in(
        copied("pytest", tmp_path), [sys.executable, *COMMANDS["pytest"].split()[1:], "-p", "no:cacheprovider"]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.thorough
@pytest.mark.timeout(PATIENCE_S + 20)
def test_go(tmp_path: Path) -> None:
    needs("go")
    done = run_in(copied("go", tmp_path), [*COMMANDS["go"].split(), "-v"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("--- PASS") == 2


@pytest.mark.thorough
@pytest.mark.timeout(2 * PATIENCE_S)
def test_jest(tmp_path: Path) -> None:
    needs("npm")
    folder = copied("jest", tmp_path)
    installed = run_in(folder, ["npm", "install", "--no-audit", "--no-fund"])
    assert installed.returncode == 0, installed.stderr
    done = run_in(folder, COMMANDS["jest"].split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 total" in done.stderr


@pytest.mark.thorough
@pytest.mark.timeout(PATIENCE_S + 20)
def test_junit_without_docker(tmp_path: Path) -> None:
    """The test in a container is tests/integration/deploy/test_image.py's."""
    needs("mvn")
    folder = copied("junit", tmp_path)
    done = run_in(folder, [*COMMANDS["junit"].split(), "-Dtest=ShopTest"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        'tests="1" errors="0" skipped="0" failures="0"'
        in (folder / "target" / "surefire-reports" / "TEST-shop.ShopTest.xml").read_text()
    )


@pytest.mark.thorough
@pytest.mark.timeout(PATIENCE_S + 20)
def test_a_killed_test_leaves_no_cluster_behind(tmp_path: Path) -> None:
    """Go's own time-out ends a test's process at once, without its cleanup."""
    needs("go")
    folder = copied("go", tmp_path)
    (folder / "shop_test.go").unlink()
    (folder / "endless_test.go").write_text(
        'package shop\n\nimport ("fmt"; "os"; "testing"; "time")\n\nfunc TestEndless(t *testing.T) {\n'
        "\tcluster := StartKavka(t)\n"
        '\t_ = os.WriteFile("pids", []byte(fmt.Sprint(cluster.pids[1])), 0o644)\n\ttime.Sleep(time.Hour)\n}\n'
    )
    done = run_in(folder, ["go", "test", "-timeout", "30s", "."])
    assert done.returncode != 0
    assert "panic: test timed out" in done.stdout
    pid = int((folder / "pids").read_text())
    eventually("the brokers end", lambda: not Path(f"/proc/{pid}").exists(), timeout_s=60)
