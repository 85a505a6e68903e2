"""Candidates: what is compared. Each starts one broker in a fresh directory, says what it used, and ends it.

It must not know what is measured. All candidates run with the default settings of their project.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Protocol

from tests.apache_kafka import VERSIONS, ApacheKafka
from tests.apache_kafka.cluster import CONTROLLER_DISTANCE
from tests.kit.kavka_process import CpuSeconds, KavkaProcess

from benchmarks import commits
from benchmarks.commits import Commit
from benchmarks.other_brokers import PEERS as OTHER_BROKERS
from benchmarks.other_brokers import OtherBroker
from benchmarks.tls_listener import TlsListener

BEFORE = "before"
"""The name of kavka at the commit that is compared with."""


class Candidate(Protocol):
    """One broker at a time. start() on a candidate that runs is an error of the caller's."""

    name: str

    def version(self) -> str:
        """What runs, in a few words."""

    def start(self, directory: Path, tls: TlsListener | None = None) -> float:
        """Start on a new directory, with a listener for TLS besides if there is one; returns the seconds from launch to
        the first Metadata answer."""

    def stop(self) -> None:
        """End the broker and delete its directory."""

    @property
    def bootstrap(self) -> str:
        """host:port."""

    @property
    def command(self) -> list[str]:
        """How the broker that runs was started."""

    def cpu_seconds(self) -> CpuSeconds:
        """Processor time of the broker's process since it began."""

    def resident_bytes(self) -> int:
        """Resident memory of the broker's process."""


class Kavka:
    """`kavka up` of the virtual environment that runs this, with this checkout's code or another commit's."""

    def __init__(self, name: str = "kavka", commit: Commit | None = None) -> None:
        """commit: whose code runs; None is the checkout's as it lies there."""
        self.name = name
        self._commit = commit
        self._process: KavkaProcess | None = None

    def version(self) -> str:
        at = self._commit.described if self._commit else commits.described("--dirty")
        return f"kavka at {at}, Python {'.'.join(map(str, sys.version_info[:3]))}"

    def start(self, directory: Path, tls: TlsListener | None = None) -> float:
        directory.mkdir(parents=True, exist_ok=True)
        self._process = KavkaProcess(
            directory / "data",
            log_file=directory / "kavka.log",
            environment=self._commit.environment if self._commit else None,
        )
        if tls is not None:
            self._process.settings.update(tls.of_broker(self._process.port))
        return self._process.start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            shutil.rmtree(self._process.data_dir.parent, ignore_errors=True)
            self._process = None

    @property
    def bootstrap(self) -> str:
        return self._running.bootstrap

    @property
    def command(self) -> list[str]:
        return self._running.command

    def cpu_seconds(self) -> CpuSeconds:
        return self._running.cpu_seconds()

    def resident_bytes(self) -> int:
        return self._running.resident_bytes()

    @property
    def _running(self) -> KavkaProcess:
        if self._process is None:
            raise RuntimeError("kavka is not running")
        return self._process


class Kafka:
    """Apache Kafka, as tests/apache_kafka starts it: heap 1 GB, otherwise default settings."""

    def __init__(self, mode: str) -> None:
        """mode: "zk" (the broker is measured, its ZooKeeper is not) or "kraft" (combined mode)."""
        self.name = mode
        self._kafka: ApacheKafka | None = None

    def version(self) -> str:
        kind = {"zk": "ZooKeeper mode", "kraft": "KRaft, combined mode"}[self.name]
        return f"Apache Kafka {VERSIONS[self.name]}, {kind}"

    def start(self, directory: Path, tls: TlsListener | None = None) -> float:
        self._kafka = ApacheKafka(directory, mode=self.name)
        if tls is not None:
            controller = self._kafka.port + CONTROLLER_DISTANCE if self.name == "kraft" else None
            self._kafka.set(tls.of_broker(self._kafka.port, controller_port=controller))
        self._kafka.start()
        # Neither ZooKeeper's start nor KRaft's formatting of the directory: both are said to cost 0.5 to 1 s more.
        return self._kafka.start_times_s["brokers_first_metadata_s"]

    def stop(self) -> None:
        if self._kafka is not None:
            self._kafka.stop(at_once=True)
            shutil.rmtree(self._kafka.data_dir, ignore_errors=True)
            self._kafka = None

    @property
    def bootstrap(self) -> str:
        return self._running.bootstrap

    @property
    def command(self) -> list[str]:
        return self._running.command

    def cpu_seconds(self) -> CpuSeconds:
        return self._running.cpu_seconds()

    def resident_bytes(self) -> int:
        return self._running.resident_bytes()

    @property
    def _running(self) -> ApacheKafka:
        if self._kafka is None:
            raise RuntimeError(f"Apache Kafka ({self.name}) is not running")
        return self._kafka


def candidate(name: str, commit: Commit | None = None) -> Candidate:
    """The candidate of a name: kavka, before (kavka of the commit), zk or kraft, or one of another project's."""
    if name == "kavka":
        return Kavka()
    if name == BEFORE:
        return Kavka(BEFORE, commit)
    if name in OTHER_BROKERS:
        return OtherBroker(name)
    return Kafka(name)
