"""Suite: tests that a client's authors wrote, where their sources come from, and which of their failures are explained.

Decides nothing about a single suite; those are in python_suites.py, go_suites.py and librdkafka.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.apache_kafka import ApacheKafka
from tests.kit.kavka_process import KavkaProcess

PROJECT: Final = Path(__file__).resolve().parents[3]
BOTH: Final = ("kavka", "kafka")
"""What a suite may be run against: kavka, and Apache Kafka 3.9 with ZooKeeper."""


class Outcome(NamedTuple):
    """One test. `status` is passed, failed or skipped."""

    name: str
    status: str
    detail: str = ""


class Suite(NamedTuple):
    """`explained` has patterns of names of tests that fail on kavka, each with the reason; `everywhere` those that fail
    on Apache Kafka 3.9 as well. `now_and_then`: of either, those that may pass too."""

    lay: Callable[[Path], None]
    """Brings the sources to a directory that does not exist yet."""
    run: Callable[[Path, str], list[Outcome]]
    """Of the directory, against "kavka" or "kafka"."""
    explained: Mapping[str, str]
    everywhere: Mapping[str, str] = {}
    now_and_then: tuple[str, ...] = ()
    against: tuple[str, ...] = ("kavka",)
    sources: str = ""
    """The name of its sources, where it shares them with another suite."""
    own_network: bool = False
    """Whether it wants the machine's ports for itself, such as 9092: it is run in a network namespace of its own."""

    def reasons(self, against: str) -> Mapping[str, str]:
        return self.everywhere if against == "kafka" else {**self.everywhere, **self.explained}


def cloned(repository: str) -> Callable[[Path], None]:
    """The newest sources of a repository."""

    def lay(directory: Path) -> None:
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", repository, directory], check=True)

    return lay


def go_module(
    path: str, version: str, *test_arguments: str, finish: Callable[[Path], None] = lambda _directory: None
) -> Callable[[Path], None]:
    """A release of a Go module, with all that its tests are compiled from: they can then be run without a network.
    finish: lays or compiles what else is needed there."""

    def lay(directory: Path) -> None:
        said = subprocess.run(
            ["go", "mod", "download", "-json", f"{path}@{version}"],
            stdout=subprocess.PIPE,
            env={**os.environ, "GOFLAGS": "-mod=mod"},
            check=True,
        )
        with _whole(directory) as unfinished:
            shutil.copytree(json.loads(said.stdout)["Dir"], unfinished)
            for place in (unfinished, *unfinished.rglob("*")):
                place.chmod(place.stat().st_mode | 0o200)  # Go keeps its modules read-only
            command = ["go", "test", "-mod=mod", "-exec", "true", *test_arguments]  # compiles only
            subprocess.run(command, cwd=unfinished, stdout=subprocess.DEVNULL, check=True)
            finish(unfinished)

    return lay


def crate(name: str, version: str, *, folder: str, finish: Callable[[Path], None]) -> Callable[[Path], None]:
    """A folder of a Rust package of this very version. Cargo brings it, and checks its sum. finish: compiles it."""

    def lay(directory: Path) -> None:
        with _whole(directory) as unfinished, tempfile.TemporaryDirectory() as place:
            package = Path(place)
            (package / "src").mkdir()
            (package / "src" / "lib.rs").touch()
            wanted = f'[package]\nname = "sources"\nversion = "0.0.0"\n\n[dependencies]\n{name} = "={version}"\n'
            (package / "Cargo.toml").write_text(wanted)
            subprocess.run(["cargo", "vendor", "--quiet"], cwd=package, stdout=subprocess.DEVNULL, check=True)
            shutil.move(package / "vendor" / name / folder, unfinished)
            finish(unfinished)

    return lay


@contextlib.contextmanager
def _whole(directory: Path) -> Iterator[Path]:
    """A place beside the directory that becomes it at the end, so that what was broken off is not taken for whole."""
    unfinished = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    yield unfinished
    unfinished.rename(directory)


def one_broker(against: str, place: Path, *, port: int, settings: Mapping[str, str]) -> KavkaProcess | ApacheKafka:
    """A broker to be used in a `with`; its id is 1, its address localhost:port."""
    known = {"broker.id": "1", "advertised.listeners": f"PLAINTEXT://localhost:{port}", **settings}
    if against == "kavka":
        return KavkaProcess(place / "data", port=port, settings=known)
    return ApacheKafka(place / "data", port=port, settings=known, heap="-Xmx512M -Xms256M")
