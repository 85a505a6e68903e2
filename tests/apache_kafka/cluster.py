"""ApacheKafka: a real Apache Kafka in processes of its own, the peer of comparisons.

Mode "zk" is one ZooKeeper and brokers of 3.9; mode "kraft" is combined brokers and controllers of 4.x. All listen on
the loopback only; every setting that is not written here is Kafka's default.

I1  Stopping ends exactly the processes whose pid files lie in this object's directory (servers.py).
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import socket
import subprocess
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.apache_kafka.release import FLAGS, SMALL_FLAGS, VERSIONS, Release
from tests.apache_kafka.servers import ZOOKEEPER, Servers
from tests.kit.kavka_process import HOST, CpuSeconds, ProcessFailed, answers_metadata, cpu_seconds, resident_bytes
from tests.kit.ports import free_port

DEFAULT_HEAP: Final = "-Xmx1G -Xms1G"
"""Kafka's own, of each broker."""
ZOOKEEPER_HEAP: Final = "-Xmx512M -Xms512M"
ZOOKEEPER_DISTANCE: Final = 100
"""From the first broker's port to ZooKeeper's."""
CONTROLLER_DISTANCE: Final = 200
"""From a broker's port to that of its KRaft controller."""
START_TIMEOUT_S: Final = 240.0
"""Ends a start that hangs: a server that ended is seen at once. A JVM's start takes ten seconds of a core, and beside
thirty other programs more than 90 s passed before it had them."""

_running: weakref.WeakSet[ApacheKafka] = weakref.WeakSet()


class ApacheKafka:
    """Brokers with the ids 1, 2, ... on loopback ports."""

    def __init__(
        self,
        data_dir: Path,
        *,
        mode: str = "zk",
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        heap: str | None = None,
        port: int | None = None,
    ) -> None:
        """data_dir: gets configuration, logs, pid files and data (broker I's in node-I). settings: beyond Kafka's
        defaults. heap: JVM options such as "-Xmx512M -Xms256M", for a test: those of a quick start come with them. None
        keeps Kafka's own: 1 GB, and a JVM that compiles for speed, as a measurement wants. port: the first broker's, a
        free one if None. Raises PeerMissing."""
        self.release = Release(VERSIONS[mode])
        self.jars = self.release.installed()
        self.mode = mode
        self.version = self.release.version
        self.brokers = brokers
        self.data_dir = data_dir.resolve()
        beside = ZOOKEEPER_DISTANCE, *range(CONTROLLER_DISTANCE, CONTROLLER_DISTANCE + brokers), *range(1, brokers)
        self.port = port or free_port(following=beside)
        self.servers = Servers(self.data_dir)
        self.start_times_s: dict[str, float] = {}
        self._heap = heap or DEFAULT_HEAP
        self._flags = SMALL_FLAGS if heap else FLAGS
        self._settings = dict(settings or {})

    def set(self, settings: Mapping[str, str]) -> None:
        """Settings beyond Kafka's defaults, in place of those given before; to be called before start."""
        self._settings = dict(settings)

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, comma-separated."""
        return ",".join(f"{HOST}:{self.port + index}" for index in range(self.brokers))

    @property
    def zookeeper(self) -> str:
        """host:port of ZooKeeper (mode zk)."""
        return f"{HOST}:{self.port + ZOOKEEPER_DISTANCE}"

    @property
    def command(self) -> list[str]:
        """How to start the same by hand."""
        return [
            "python",
            "-m",
            "tests.apache_kafka",
            "start",
            self.mode,
            str(self.brokers),
            str(self.port),
            str(self.data_dir),
        ]

    @property
    def pid(self) -> int:
        """The first broker's process."""
        return self.servers.pid("broker-1")

    @property
    def pids(self) -> list[int]:
        """The processes of all brokers and of ZooKeeper."""
        return [self.servers.pid(name) for name in self.servers.names()]

    def start(self) -> float:
        """Lay out and start; returns, when every broker answers, the seconds it took. Raises ProcessFailed.

        start_times_s then has the parts: zookeeper_s or format_s, and brokers_first_metadata_s and brokers_all_ready_s,
        from the launch of the brokers to the first answer that names a controller, and to everybody's."""
        began = time.perf_counter()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if self.servers.names():
            raise ProcessFailed(f"{self.data_dir} has pid files of servers that were not stopped")
        _running.add(self)
        if self.mode == "zk":
            self._start_zookeeper()
            self.start_times_s["zookeeper_s"] = time.perf_counter() - began
        else:
            self._write_brokers(self._kraft_settings)
            self._format()
            self.start_times_s["format_s"] = time.perf_counter() - began
        launched = time.perf_counter()
        for broker in range(1, self.brokers + 1):
            self.servers.start(f"broker-{broker}")
        self._wait_for_brokers(launched)
        return time.perf_counter() - began

    def start_node(self, name: str) -> None:
        """Start one server (broker-1, zk) again after it was killed or stopped, without waiting."""
        self.servers.start(name)

    def stop_node(self, name: str, *, at_once: bool = False) -> None:
        """End one server in order; at_once: with SIGKILL."""
        self.servers.stop(name, at_once=at_once)

    def wait_until_ready(self, *, timeout_s: float = 60.0) -> float:
        """Wait for the first broker's Metadata answer; returns the time.perf_counter() at which it came."""
        self._wait(lambda: answers_metadata(self.port), timeout_s, at_start=False)
        return time.perf_counter()

    def stop(self, *, at_once: bool = False) -> None:
        """End all its servers; at_once: with SIGKILL."""
        if self.data_dir.exists():
            self.servers.stop(at_once=at_once)
        _running.discard(self)

    def tool(self, name: str, *arguments: str, timeout_s: float = 100.0) -> str:
        """Run one of Kafka's own command-line tools of this version (for example "dump-log"); returns what it printed.
        Raises subprocess.CalledProcessError."""
        return run_tool(self.mode, name, *arguments, timeout_s=timeout_s)

    def cpu_seconds(self) -> CpuSeconds:
        """Of the broker processes (not of ZooKeeper)."""
        each = [cpu_seconds(pid) for pid in self._broker_pids()]
        return CpuSeconds(sum(one.user for one in each), sum(one.system for one in each))

    def resident_bytes(self) -> int:
        """Of the broker processes (not of ZooKeeper)."""
        return sum(resident_bytes(pid) for pid in self._broker_pids())

    def _broker_pids(self) -> list[int]:
        return [self.servers.pid(name) for name in self.servers.names() if name != ZOOKEEPER]

    # ----------------------------------------------------------------------------------------------------- start

    def _start_zookeeper(self) -> None:
        port = self.port + ZOOKEEPER_DISTANCE
        lines = {
            "dataDir": self.data_dir / ZOOKEEPER,
            "clientPort": port,
            "clientPortAddress": HOST,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
        }
        file = self._write(ZOOKEEPER, lines)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        options = [*ZOOKEEPER_HEAP.split(), *self._flags, "-Dzookeeper.jmx.log4j.disable=true"]
        self.servers.define(ZOOKEEPER, self.release.server_command(main, str(file), options=options))
        self._write_brokers(self._zookeeper_settings)
        self.servers.start(ZOOKEEPER)
        self._wait(lambda: _accepts(port), START_TIMEOUT_S)

    def _write_brokers(self, settings_of: Callable[[int], dict[str, object]]) -> None:
        replicas = min(self.brokers, 3)
        for broker in range(1, self.brokers + 1):
            settings = {
                "listeners": f"PLAINTEXT://{HOST}:{self.port + broker - 1}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port + broker - 1}",
                "log.dirs": self.data_dir / f"node-{broker}",
                "offsets.topic.replication.factor": replicas,
                "transaction.state.log.replication.factor": replicas,
                "transaction.state.log.min.isr": min(replicas, 2),
                "group.initial.rebalance.delay.ms": 0,
                **settings_of(broker),
                **self._settings,
            }
            file = self._write(f"broker-{broker}", settings)
            options = [*self._heap.split(), *self._flags]
            command = self.release.server_command("kafka.Kafka", str(file), options=options)
            self.servers.define(f"broker-{broker}", command)

    def _zookeeper_settings(self, broker: int) -> dict[str, object]:
        return {"broker.id": broker, "zookeeper.connect": self.zookeeper}

    def _kraft_settings(self, broker: int) -> dict[str, object]:
        own = self.port + broker - 1
        voters = (f"{each}@{HOST}:{self.port + CONTROLLER_DISTANCE + each - 1}" for each in range(1, self.brokers + 1))
        replicas = min(self.brokers, 3)
        return {
            "process.roles": "broker,controller",
            "node.id": broker,
            "listeners": f"PLAINTEXT://{HOST}:{own},CONTROLLER://{HOST}:{own + CONTROLLER_DISTANCE}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.voters": ",".join(voters),
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": min(replicas, 2),
        }

    def _format(self) -> None:
        """KRaft wants each log directory to be formatted once, all with one cluster id."""
        cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        for broker in range(1, self.brokers + 1):
            if (self.data_dir / f"node-{broker}" / "meta.properties").exists():
                continue
            file = self.data_dir / f"broker-{broker}.properties"
            command = self.release.tool_command("storage", "format", "-t", cluster_id, "-c", str(file))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ProcessFailed(f"broker {broker}'s directory was not formatted: {done.stdout}{done.stderr}")

    def _wait_for_brokers(self, launched: float) -> None:
        waiting = set(range(self.port, self.port + self.brokers))
        self._wait(lambda: any(answers_metadata(port) for port in waiting), START_TIMEOUT_S)
        self.start_times_s["brokers_first_metadata_s"] = time.perf_counter() - launched

        def all_answer() -> bool:
            waiting.difference_update(
                [port for port in sorted(waiting) if answers_metadata(port, brokers=self.brokers)]
            )
            return not waiting

        self._wait(all_answer, START_TIMEOUT_S)
        self.start_times_s["brokers_all_ready_s"] = time.perf_counter() - launched

    def _wait(self, condition: Callable[[], bool], timeout_s: float, *, at_start: bool = True) -> None:
        """at_start: every server is expected to live. Raises ProcessFailed."""
        deadline = time.perf_counter() + timeout_s
        while not condition():
            ended = [name for name in self.servers.names() if not self.servers.runs(name)] if at_start else []
            if ended or time.perf_counter() > deadline:
                what = f"{ended[0]} ended" if ended else f"not ready on port {self.port} in {timeout_s} s"
                raise ProcessFailed(f"Apache Kafka {self.version}: {what}\n{self.servers.log_tails()}")
            time.sleep(0.005)

    def _write(self, name: str, settings: Mapping[str, object]) -> Path:
        file = self.data_dir / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file

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


def run_tool(mode: str, name: str, *arguments: str, text: str | None = None, timeout_s: float = 100.0) -> str:
    """Run a command-line tool of Kafka's without a broker of ours (for example dump-log on kavka's segments), with
    `text` on its standard input. Returns standard output and error. Raises PeerMissing, UnknownTool, and
    subprocess.CalledProcessError with the output."""
    release = Release.named(mode)
    release.installed()
    result = subprocess.run(
        release.tool_command(name, *arguments),
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=True,
    )
    return result.stdout


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1.0):
        return True
    return False


@atexit.register
def _stop_what_still_runs() -> None:
    for kafka in list(_running):
        kafka.stop(at_once=True)
