"""The load generator: builds load/load.c once against the newest librdkafka at hand, and runs it.

The library is the one inside the confluent-kafka wheel (newer than a distribution's); its header file comes from the
distribution's librdkafka-dev. librdkafka keeps its binary interface, so an older header serves a newer library.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from benchmarks import PROJECT

SOURCE = PROJECT / "benchmarks" / "load" / "load.c"
PROGRAM = PROJECT / "build" / "load"


class LoadFailed(Exception):
    """The generator could not be built, or an operation of its failed; the message says why."""


class Load(NamedTuple):
    """What one run of the generator printed. user_s and system_s are the client's, in the measured time only."""

    seconds: float
    records: int
    bytes: int
    user_s: float
    system_s: float
    librdkafka: str
    p50_us: float | None = None
    p90_us: float | None = None
    p99_us: float | None = None
    max_us: float | None = None


def build() -> Path:
    """The program, compiled when it is missing or older than its source. Raises LoadFailed."""
    library = _library()
    if PROGRAM.exists() and PROGRAM.stat().st_mtime > max(SOURCE.stat().st_mtime, library.stat().st_mtime):
        return PROGRAM
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise LoadFailed("needs a C compiler: apt-get install gcc")
    if not Path("/usr/include/librdkafka/rdkafka.h").exists():
        _install_header()
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [compiler]
    command += ["-std=gnu11", "-O2", "-Wall", "-o", PROGRAM, SOURCE, library, f"-Wl,-rpath,{library.parent}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise LoadFailed(f"could not compile {SOURCE}: {result.stderr}")
    return PROGRAM


def _library() -> Path:
    found = importlib.util.find_spec("confluent_kafka")
    if found is None or found.origin is None:
        raise LoadFailed("needs confluent-kafka: run `make setup`")
    libraries = sorted((Path(found.origin).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*"))
    if not libraries:
        raise LoadFailed("needs the confluent-kafka wheel for Linux, which carries librdkafka")
    return libraries[0]


def _install_header() -> None:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", "librdkafka-dev"], stdout=subprocess.DEVNULL, check=False)
    if not Path("/usr/include/librdkafka/rdkafka.h").exists():
        raise LoadFailed("needs librdkafka's header: apt-get install librdkafka-dev")


def run(
    what: str, bootstrap: str, topic: str, records: int, *, size: int = 100, warm: int = 0, settings: dict[str, str]
) -> Load:
    """Run the generator to its end. what: produce, consume, latency, endtoend. size: bytes of a value.

    warm: operations before the clock starts. settings: librdkafka's. Raises LoadFailed when one record failed, or when
    there is no end after 180 s."""
    command = [str(build()), what, "-b", bootstrap, "-t", topic, "-n", str(records), "-s", str(size), "-w", str(warm)]
    for name, value in settings.items():
        command += ["-X", f"{name}={value}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"no end after 180 s: {' '.join(command)}") from None
    if result.returncode != 0:
        raise LoadFailed(f"{' '.join(command)}: {result.stderr.strip()}")
    return Load(**json.loads(result.stdout))
