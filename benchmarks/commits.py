"""Commits: kavka's code of another commit, to be measured beside this checkout's.

The code of the commit runs in this virtual environment, so that only kavka differs and not what it depends on.
"""

from __future__ import annotations

import compileall
import io
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks import PROJECT

CODE = PROJECT / ".cache" / "commits"


class UnknownCommit(Exception):
    """The name leads to no commit here; the message is git's."""


class Commit(NamedTuple):
    """A commit whose src/ is laid out here."""

    described: str
    source: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables under which the virtual environment's `kavka` runs this code: these paths come first."""
        return {"PYTHONPATH": str(self.source)}


def laid_out(name: str) -> Commit:
    """The code of a commit, by any name that git knows. Compiled, as the checkout's is by `make setup`."""
    found = _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if found.returncode:
        raise UnknownCommit(f"{name}: git knows no such commit here")
    commit = found.stdout.decode().strip()
    source = CODE / commit / "src"
    if not source.exists():
        with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "src").stdout)) as archive:
            archive.extractall(CODE / commit, filter="data")
    compileall.compile_dir(source, quiet=2)
    return Commit(described("--abbrev=8", commit), source)


def compile_checkout() -> None:
    """Compiles this checkout's code, as an installed package is. Else a module that was edited since costs each start
    its compilation, where Python may not write what it compiled: 18 of them took 0.1 s and a megabyte."""
    compileall.compile_dir(PROJECT / "src", quiet=2)


def described(*arguments: str) -> str:
    """What git calls this checkout, or the commit among the arguments."""
    return _git("describe", "--always", *arguments).stdout.decode().strip() or "an unknown commit"


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", PROJECT, *arguments], capture_output=True, check=False)
