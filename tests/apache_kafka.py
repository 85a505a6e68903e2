"""ApacheKafka: a real Apache Kafka in processes of its own, the peer of comparisons.

It is laid out and run by the scripts in ../shared/peers/kafka beside the checkout (or in $KAVKA_PEERS); this module
only calls them. Kafka's jars come from Maven Central on first use (install.sh). Every reason why there is no Apache
Kafka here is a PeerMissing, so that a test can skip with that sentence.

I1  Stopping ends exactly the processes whose pid files lie in this object's directory.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import subprocess
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from kavka_process import HOST, CpuSeconds, ProcessFailed, answers_metadata, cpu_seconds, free_port, resident_bytes

VERSIONS = {
    "zk": os.environ.get("KAFKA_ZK_VERSION", "3.9.2"),
    "kraft": os.environ.get("KAFKA_KRAFT_VERSION", "4.3.1"),
}
# run.sh puts ZooKeeper at the base port + 100 and the KRaft controller at the base port + 200.
PORT_DISTANCES = (100, 200)

_running: weakref.WeakSet[ApacheKafka] = weakref.WeakSet()


class PeerMissing(Exception):
    """There is no Apache Kafka to run here; the message says what is missing."""


def peers_dir() -> Path:
    """The directory of the peers' scripts. Raises PeerMissing."""
    project = Path(__file__).resolve().parent.parent
    named = os.environ.get("KAVKA_PEERS")
    directory = Path(named) if named else project.parent / "shared" / "peers" / "kafka"
    if not (directory / "run.sh").exists():
        raise PeerMissing(
            f"needs the scripts that run Apache Kafka: not in {directory}; KAVKA_PEERS names another place"
        )
    return directory


def installed(mode: str) -> Path:
    """The directory of Kafka's jars for a mode ("zk", "kraft"), fetched with Maven at first. Raises PeerMissing."""
    scripts, version = peers_dir(), VERSIONS[mode]
    if shutil.which(os.environ.get("JAVA", "java")) is None:
        raise PeerMissing("needs java (17 or newer) to run Apache Kafka")
    home = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache" / "kavka-peers"))
    jars = home / f"kafka-{version}"
    if (jars / ".complete").exists():
        return jars
    if shutil.which("mvn") is None:
        raise PeerMissing(f"needs Apache Kafka {version} in {jars}, or mvn to fetch it")
    home.mkdir(parents=True, exist_ok=True)
    with _only_one_at_a_time(home / ".install.lock"):
        result = subprocess.run([scripts / "install.sh", version], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise PeerMissing(f"could not fetch Apache Kafka {version}: {(result.stderr or result.stdout)[-400:]}")
    return jars


@contextlib.contextmanager
def _only_one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class ApacheKafka:
    """Brokers of Apache Kafka on loopback ports: mode "zk" (3.9 with a ZooKeeper) or "kraft" (4.x, combined mode)."""

    def __init__(
        self,
        data_dir: Path,
        *,
        mode: str = "zk",
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        heap: str | None = None,
    ) -> None:
        """data_dir: absolute; gets configuration, logs, pid files and data. settings: beyond Kafka's defaults.
        heap: JVM options such as "-Xmx512M -Xms256M"; None keeps Kafka's own 1 GB. Raises PeerMissing."""
        self.jars = installed(mode)
        self.scripts = peers_dir()
        self.mode = mode
        self.version = VERSIONS[mode]
        self.brokers = brokers
        self.data_dir = data_dir.resolve()
        self.port = free_port(following=[*PORT_DISTANCES, *range(1, brokers)])
        self.start_times_s: dict[str, float] = {}
        self._environment = dict(os.environ)
        self.set(settings or {})
        if heap:
            self._environment["KAFKA_HEAP_OPTS"] = heap

    def set(self, settings: Mapping[str, str]) -> None:
        """Settings beyond Kafka's defaults, in place of those given before; to be called before start."""
        self._environment["KAFKA_EXTRA"] = ";".join(f"{name}={value}" for name, value in settings.items())

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, comma-separated."""
        return ",".join(f"{HOST}:{self.port + index}" for index in range(self.brokers))

    @property
    def zookeeper(self) -> str:
        """host:port of ZooKeeper (mode zk)."""
        return f"{HOST}:{self.port + 100}"

    @property
    def command(self) -> list[str]:
        return [str(self.scripts / "run.sh"), self.mode, str(self.brokers), str(self.port), str(self.data_dir)]

    @property
    def pid(self) -> int:
        """The first broker's process."""
        return int((self.data_dir / "broker-1.pid").read_text())

    @property
    def pids(self) -> list[int]:
        """The processes of all brokers and of ZooKeeper."""
        return [int(path.read_text()) for path in sorted(self.data_dir.glob("*.pid"))]

    def start(self) -> float:
        """Lay out and start; waits until every broker answers. Returns the seconds it took. Raises ProcessFailed.

        start_times_s then has run.sh's own times, for example brokers_first_metadata_s: from the launch of the broker,
        after ZooKeeper's start or KRaft's formatting, to its first answer."""
        started_at = time.perf_counter()
        _running.add(self)
        result = subprocess.run(self.command, capture_output=True, text=True, check=False, env=self._environment)
        if result.returncode != 0:
            raise ProcessFailed(f"Apache Kafka {self.version} did not start: {result.stderr[-3000:]}")
        printed = (line.partition("=") for line in result.stdout.splitlines())
        self.start_times_s = {name: float(value) for name, _, value in printed if name.endswith("_s")}
        return time.perf_counter() - started_at

    def start_node(self, name: str) -> None:
        """Start one server (broker-1, zk) again after it was killed or stopped, without waiting."""
        subprocess.run([self.scripts / "start-node.sh", self.data_dir, name], check=True)

    def wait_until_ready(self, *, timeout_s: float = 60.0) -> float:
        """Wait for the first broker's Metadata answer; returns the time.perf_counter() at which it came."""
        deadline = time.perf_counter() + timeout_s
        while not answers_metadata(self.port):
            if time.perf_counter() > deadline:
                raise ProcessFailed(f"Apache Kafka {self.version} was not ready on port {self.port} in {timeout_s} s")
            time.sleep(0.001)
        return time.perf_counter()

    def stop(self, *, at_once: bool = False) -> None:
        """End all its servers; at_once: with SIGKILL."""
        if self.data_dir.exists():
            subprocess.run([self.scripts / "stop.sh", self.data_dir, *(["-9"] if at_once else [])], check=False)
        _running.discard(self)

    def tool(self, name: str, *arguments: str, timeout_s: float = 100.0) -> str:
        """Run one of Kafka's own command-line tools of this version (for example "dump-log"); returns what it printed.
        Raises subprocess.CalledProcessError."""
        return run_tool(self.mode, name, *arguments, timeout_s=timeout_s)

    def cpu_seconds(self) -> CpuSeconds:
        """Of the broker processes (not of ZooKeeper)."""
        each = [cpu_seconds(int(path.read_text())) for path in self.data_dir.glob("broker-*.pid")]
        return CpuSeconds(sum(one.user for one in each), sum(one.system for one in each))

    def resident_bytes(self) -> int:
        """Of the broker processes (not of ZooKeeper)."""
        return sum(resident_bytes(int(path.read_text())) for path in self.data_dir.glob("broker-*.pid"))

    def __enter__(self) -> ApacheKafka:
        try:
            self.start()
        except BaseException:
            self.stop(at_once=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(at_once=True)


def run_tool(mode: str, name: str, *arguments: str, timeout_s: float = 100.0) -> str:
    """Run a command-line tool of Kafka's without a broker of ours (for example dump-log on kavka's segments).
    Returns standard output and error. Raises PeerMissing, subprocess.CalledProcessError with the output."""
    installed(mode)
    result = subprocess.run(
        [peers_dir() / "tool.sh", mode, name, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=True,
    )
    return result.stdout


@atexit.register
def _stop_what_still_runs() -> None:
    for kafka in list(_running):
        kafka.stop(at_once=True)
