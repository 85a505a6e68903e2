"""benchmarks.commits: the code of another commit, as the harness runs it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import PROJECT, commits

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None or not (PROJECT / ".git").exists(), reason="needs git and its checkout"
)


def test_the_commits_code_comes_before_the_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "CODE", tmp_path)
    monkeypatch.setattr(commits.compileall, "compile_dir", lambda *_arguments, **_options: True)  # takes seconds
    commit = commits.laid_out("HEAD")
    found = subprocess.run(
        [sys.executable, "-c", "import kavka; print(kavka.__file__)"],
        env={**os.environ, **commit.environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()).is_relative_to(tmp_path)
    assert commit.described == commits.described("--abbrev=8")


def test_the_checkouts_code_is_compiled_before_it_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "PROJECT", tmp_path)
    module = tmp_path / "src" / "edited.py"
    module.parent.mkdir()
    module.write_text("x = 1\n")

    commits.compile_checkout()

    assert Path(importlib.util.cache_from_source(str(module))).exists()


def test_a_name_that_git_does_not_know_is_refused() -> None:
    with pytest.raises(commits.UnknownCommit, match="no such commit"):
        commits.laid_out("no-such-name")
