"""Clusters that are compared: three brokers each, in processes of their own, with their project's default settings.

It must not know what is measured. A broker is told by its id: 0, 1, 2 at kavka and 1, 2, 3 at Apache Kafka.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient
from tests.apache_kafka import ApacheKafka, run_tool
from tests.kit.kavka_process import CpuSeconds, answers_metadata, cpu_seconds, resident_bytes
from tests.kit.ports import free_port
from tests.kit.process_cluster import ProcessCluster

from benchmarks.candidates import Kafka, Kavka

BROKERS = 3
SETTLE_S = 3.0


class ClusterCandidate(Protocol):
    """One cluster at a time."""

    name: str

    def version(self) -> str:
        """What runs, in a few words."""

    def start(self, directory: Path) -> float:
        """Start on a new directory; returns the seconds from the launch of the brokers until all of them answer."""

    def stop(self) -> None:
        """End everything and delete the directory."""

    @property
    def bootstrap(self) -> str:
        """host:port of every broker."""

    @property
    def command(self) -> str:
        """How a broker that runs was started."""

    def controller(self) -> int:
        """The controller's broker id."""

    def kill(self, broker_id: int) -> float:
        """SIGKILL; returns the time.perf_counter() of it."""

    def start_broker(self, broker_id: int) -> None:
        """Start one that was killed, without waiting."""

    def pids(self) -> list[int]:
        """The brokers' processes."""

    def in_one_process(self) -> dict[str, float]:
        """all_answer_s and resident_mb of as many brokers in one process; nothing where that is not to be had."""


def cpu_of(cluster: ClusterCandidate) -> CpuSeconds:
    each = [cpu_seconds(pid) for pid in cluster.pids()]
    return CpuSeconds(sum(one.user for one in each), sum(one.system for one in each))


def memory_of(cluster: ClusterCandidate) -> int:
    """Resident bytes of the brokers' processes together, without ZooKeeper."""
    return sum(resident_bytes(pid) for pid in cluster.pids())


class KavkaCluster:
    """Three `kavka server` on one `kavka zookeeper`."""

    name = "kavka"

    def __init__(self) -> None:
        self._cluster: ProcessCluster | None = None

    def version(self) -> str:
        return Kavka().version()

    def start(self, directory: Path) -> float:
        self._cluster = ProcessCluster(directory, brokers=BROKERS, defaults={})
        self._cluster.start_zookeeper()
        started_at = time.perf_counter()
        for server in self._cluster.brokers.values():
            server.start()
        waiting = list(self._cluster.brokers.values())
        while waiting:
            waiting = [one for one in waiting if not answers_metadata(one.port, brokers=BROKERS)]
            if time.perf_counter() - started_at > 60:
                raise RuntimeError(f"{waiting[0].name} does not answer: {waiting[0].log_tail()}")
            time.sleep(0.002)
        return time.perf_counter() - started_at

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            shutil.rmtree(self._cluster.directory, ignore_errors=True)
            self._cluster = None

    @property
    def bootstrap(self) -> str:
        return self._running.bootstrap

    @property
    def command(self) -> str:
        return " ".join(self._running.brokers[0].command)

    def controller(self) -> int:
        return self._running.controller()

    def kill(self, broker_id: int) -> float:
        killed_at = time.perf_counter()
        self._running.kill(broker_id)
        return killed_at

    def start_broker(self, broker_id: int) -> None:
        self._running.brokers[broker_id].start()

    def pids(self) -> list[int]:
        return [server.pid for server in self._running.brokers.values() if server.is_running]

    def in_one_process(self) -> dict[str, float]:
        port = free_port(following=range(1, BROKERS))
        directory = self._running.directory / "one-process"
        directory.mkdir()
        program = str(Path(sys.executable).parent / "kavka")
        options = ["--brokers", str(BROKERS), "--port", str(port), "--data", str(directory / "data")]
        launched_at = time.perf_counter()
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen([program, "up", *options], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            waiting = list(range(port, port + BROKERS))
            while waiting:
                waiting = [one for one in waiting if not answers_metadata(one, brokers=BROKERS)]
                if time.perf_counter() - launched_at > 60:
                    raise RuntimeError(f"kavka up does not answer: {(directory / 'log').read_text()[-500:]}")
                time.sleep(0.002)
            all_answer_s = time.perf_counter() - launched_at
            time.sleep(SETTLE_S)
            return {"all_answer_s": all_answer_s, "resident_mb": resident_bytes(process.pid) / 2**20}
        finally:
            process.kill()
            process.wait()

    @property
    def _running(self) -> ProcessCluster:
        if self._cluster is None:
            raise RuntimeError("kavka is not running")
        return self._cluster


class KafkaCluster:
    """Three brokers of Apache Kafka, as tests/apache_kafka starts them: heap 1 GB each."""

    def __init__(self, mode: str) -> None:
        """mode: "zk" (its ZooKeeper is not measured) or "kraft" (combined mode)."""
        self.name = mode
        self._kafka: ApacheKafka | None = None

    def version(self) -> str:
        return Kafka(self.name).version()

    def start(self, directory: Path) -> float:
        self._kafka = ApacheKafka(directory, mode=self.name, brokers=BROKERS)
        self._kafka.start()
        return self._kafka.start_times_s["brokers_all_ready_s"]

    def stop(self) -> None:
        if self._kafka is not None:
            self._kafka.stop(at_once=True)
            shutil.rmtree(self._kafka.data_dir, ignore_errors=True)
            self._kafka = None

    @property
    def bootstrap(self) -> str:
        return self._running.bootstrap

    @property
    def command(self) -> str:
        return " ".join(self._running.command)

    def controller(self) -> int:
        if self.name == "zk":
            return int(AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=10).controller_id)
        arguments = ["--bootstrap-server", self.bootstrap, "describe", "--status"]
        status = run_tool(self.name, "metadata-quorum", *arguments)
        (leader,) = [line.split()[1] for line in status.splitlines() if line.startswith("LeaderId")]
        return int(leader)

    def kill(self, broker_id: int) -> float:
        pid = int(self._pid_file(broker_id).read_text())
        killed_at = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        return killed_at

    def start_broker(self, broker_id: int) -> None:
        self._running.start_node(f"broker-{broker_id}")

    def pids(self) -> list[int]:
        pids = [int(path.read_text()) for path in self._running.data_dir.glob("broker-*.pid")]
        return [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]

    def in_one_process(self) -> dict[str, float]:
        return {}

    def _pid_file(self, broker_id: int) -> Path:
        return self._running.data_dir / f"broker-{broker_id}.pid"

    @property
    def _running(self) -> ApacheKafka:
        if self._kafka is None:
            raise RuntimeError(f"Apache Kafka ({self.name}) is not running")
        return self._kafka


def cluster_candidate(name: str) -> ClusterCandidate:
    """The cluster of a name: kavka, zk or kraft."""
    return KavkaCluster() if name == "kavka" else KafkaCluster(name)
