"""EarlierBuild: kavka as it was at a commit of this repository, run by this checkout's interpreter and libraries.

No release was published yet. What stands for 0.1.0 is the first state of the repository that had all of a cluster:
replication, groups of both protocols, transactions, compaction, decisions, flight recordings.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
BUILDS = PROJECT / ".cache" / "builds"


class NoEarlierBuild(Exception):
    """The repository's history is not here; the message says what is missing."""


class EarlierBuild(NamedTuple):
    """name: of the directory of its fixtures."""

    name: str
    commit: str

    def program(self) -> list[str]:
        """What begins its commands, as `kavka` begins those of this checkout. Raises NoEarlierBuild."""
        return ["env", f"PYTHONPATH={self._unpacked() / 'src'}", sys.executable, "-m", "kavka.cli.main"]

    def _unpacked(self) -> Path:
        place = BUILDS / self.commit
        if place.exists():
            return place
        done = subprocess.run(["git", "-C", str(PROJECT), "archive", self.commit, "src"], capture_output=True)
        if done.returncode:
            raise NoEarlierBuild(f"{self.name} is not in this history: {done.stderr.decode().strip()}")
        unfinished = BUILDS / f"{self.commit}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(unfinished, filter="data")
        unfinished.rename(place)
        return place


FIRST = EarlierBuild("0.1.0", "15841f2dd5f10ae4b2ccde7301a53cd45ac5dbc8")
EVERY = (FIRST,)
