"""ProcessCluster: brokers and ZooKeeper servers as real processes, to be killed, paused, cut off and starved of disk.

The brokers are kavka's or Apache Kafka 3.9's, or some of both, the ZooKeeper is `kavka zookeeper`, one of Apache's or
an ensemble of three of Apache's: the same test against either shows that it asks the right thing. With a NetworkLab
every process has a host of its own; without one they share the loopback. With `disk_mb` every broker has a small file
system of its own. With `secured` brokers talk to each other, and clients to them, over TLS with a login.

It decides how processes start and end; what a cluster has to do is the tests' affair.

I1  A process is ended by the pid that was started here. None outlives this interpreter, not even its kill -9: each asks
    the kernel for SIGKILL when its parent dies (and is therefore started on the main thread).
I2  What ZooKeeper holds is read with kazoo, never with kavka's own client.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import KafkaException
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from tests.apache_kafka import Release
from tests.kit.bad_cable import Quality
from tests.kit.command_server import PROGRAM
from tests.kit.kavka_process import HOST, NO_RETENTION, ProcessFailed, answers_metadata
from tests.kit.network_lab import CLIENT, NetworkLab
from tests.kit.ports import free_port
from tests.kit.process_faults import ProcessFaults
from tests.kit.secured_brokers import SecuredBrokers
from tests.kit.server_process import ForkedServer, begin

BROKER_PORT, SECURE_PORT, ZOOKEEPER_PORT, QUORUM_PORT, ELECTION_PORT = 9092, 9093, 2181, 2888, 3888
TICK_MS = 500
SESSION_TIMEOUT_MS = 4000
KAZOO_RETRY = {"max_tries": -1, "delay": 0.05, "max_delay": 0.5}
"""How kazoo connects again. By itself it waits twice as long after each attempt, up to a minute: a ZooKeeper that began
to listen after 13 s, on a busy machine, was found after 26, and one that came back later still."""
MEMBERS = {"kavka": 1, "apache": 1, "ensemble": 3}
SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true"
BROKER_JVM = f"-Xmx256M -Xms128M {SMALL_JVM}"
ZOOKEEPER_JVM = f"-Xmx128M -Xms48M {SMALL_JVM} -Dzookeeper.jmx.log4j.disable=true"
BALLAST = "ballast"
FILL_BLOCK = b"\1" * 65536

BROKER_SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "zookeeper.connection.timeout.ms": "20000",
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    **NO_RETENTION,
}

logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it logs every refused connection, which tests cause

Answer = TypeVar("Answer")


class PartitionState(NamedTuple):
    """A partition's state znode, with the version of the znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int


def eventually(what: str, probe: Callable[[], Answer], *, timeout_s: float = 60.0, every_s: float = 0.02) -> Answer:
    """The probe's first true answer. An exception of the probe's is "not yet", also one of librdkafka's: a coordinator
    that is being made refuses for a moment. A probe that takes long is asked less often, so that what it waits for has
    half of the processor. Raises AssertionError after the time."""
    deadline = time.monotonic() + timeout_s
    last: object = None
    while True:
        began = time.monotonic()
        try:
            answer = probe()
            if answer:
                return answer
            last = answer
        except (AssertionError, OSError, KafkaException, KazooException, ValueError, LookupError) as error:
            last = repr(error)
        now = time.monotonic()
        assert now < deadline, f"{what}: not in {timeout_s} s; last: {last}"
        time.sleep(max(every_s, min(now - began, 1.0)))


class Server:
    """One process that can be started again on the same place after it was killed."""

    def __init__(self, name: str, command: Sequence[str], *, host: str, port: int, directory: Path) -> None:
        self.name = name
        self.host, self.port = host, port
        self.directory = directory
        self.log_file = directory / f"{name}.log"
        self.command = list(command)
        self.is_paused = False
        self._process: ForkedServer | subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ProcessFailed(f"{self.name} was never started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        """Without waiting for it to serve."""
        if self.is_running:
            raise ProcessFailed(f"{self.name} runs already as process {self.pid}")
        with self.log_file.open("ab") as log:
            self._process = begin(self.command, log, dies_with_parent=True)
        self.is_paused = False

    def accepts(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 0.5) as connection:
            return connection.getsockname() != connection.getpeername()
        return False

    def send_signal(self, number: int) -> None:
        """Without waiting; nothing where it has ended or was never started."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; also while it is paused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self.send_signal(signal.SIGTERM)

    def stop(self, *, timeout_s: float = 60.0) -> int:
        """SIGTERM, and wait. Returns the exit status. Raises ProcessFailed, having killed it."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessFailed(f"{self.name} did not stop in {timeout_s} s: {self.log_tail()}") from None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.is_paused = False

    def wait_until_ended(self, *, timeout_s: float = 60.0) -> int:
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"{self.name} did not end in {timeout_s} s: {self.log_tail()}") from None

    def log_tail(self, *, lines: int = 30) -> str:
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else "(no log)"
        return "\n" + "\n".join(text.splitlines()[-lines:])


class ProcessCluster:
    """Brokers have the ids 0, 1, 2, ...; `brokers[id]` is the process, `zookeepers` are ZooKeeper's members."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        kind: str = "kavka",
        zookeeper: str = "kavka",
        lab: NetworkLab | None = None,
        defaults: Mapping[str, str] = BROKER_SETTINGS,
        settings: Mapping[str, str] | None = None,
        own_settings: Mapping[int, Mapping[str, str]] | None = None,
        own_kinds: Mapping[int, str] | None = None,
        disk_mb: int = 0,
        process_faults: bool = False,
        program: Sequence[str] | None = None,
        secured: SecuredBrokers | None = None,
    ) -> None:
        """kind: "kavka" or "kafka" (Apache Kafka 3.9 in ZooKeeper mode); own_kinds: of single brokers. zookeeper:
        "kavka", "apache" or "ensemble". settings: for all brokers, beyond the defaults; own_settings: for single ones.
        disk_mb: of each broker's own file system; 0 for a directory. process_faults: disks and clocks of brokers can be
        disturbed by `faults`. program: what begins kavka's servers; None for that of this checkout. Raises PeerMissing
        where Apache's jars are needed and cannot be had, NoProcessFaults."""
        self.directory = directory.resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.kind = kind
        self._own_kinds = own_kinds or {}
        self.lab = lab
        self._disk_mb = disk_mb
        self._defaults = defaults
        self._program = [kavka_command()] if program is None else list(program)
        self._around_program: dict[str, tuple[list[str], list[str]]] = {}
        self.faults: dict[int, ProcessFaults] = {}
        self._has_faults = process_faults
        self._kazoo: KazooClient | None = None
        self._secured = secured
        self._secure_ports: dict[int, int] = {}
        self.zookeepers = self._lay_zookeepers(zookeeper)
        self.brokers = {
            number: self._lay_broker(number, {**(settings or {}), **(own_settings or {}).get(number, {})})
            for number in range(brokers)
        }

    # -- places

    @property
    def bootstrap(self) -> str:
        """Where clients go."""
        return ",".join(
            f"{server.host}:{self._secure_ports.get(number, server.port)}" for number, server in self.brokers.items()
        )

    @property
    def client_settings(self) -> dict[str, str]:
        """What a client of librdkafka's sets beside the addresses."""
        return {} if self._secured is None else self._secured.client

    def kind_of(self, broker_id: int) -> str:
        """ "kavka" or "kafka"."""
        return self._own_kinds.get(broker_id, self.kind)

    @property
    def zookeeper_connect(self) -> str:
        return ",".join(f"{server.host}:{server.port}" for server in self.zookeepers)

    def address(self, broker_id: int) -> tuple[str, int]:
        """Host and port."""
        server = self.brokers[broker_id]
        return server.host, server.port

    def data_dir(self, broker_id: int) -> Path:
        return self.directory / f"broker-{broker_id}" / "data"

    def log_dir(self, broker_id: int, topic: str, partition: int) -> Path:
        return self.data_dir(broker_id) / f"{topic}-{partition}"

    @staticmethod
    def broker_host(broker_id: int) -> str:
        """The broker's name in the lab."""
        return f"b{broker_id}"

    @staticmethod
    def zookeeper_host(index: int) -> str:
        """The member's name in the lab."""
        return f"z{index}"

    # -- laying out

    def _lay_zookeepers(self, flavour: str) -> list[Server]:
        count = MEMBERS[flavour]
        hosts = [self._host(self.zookeeper_host(index)) for index in range(count)]
        ports = [ZOOKEEPER_PORT if self.lab else free_port() for _ in hosts]
        quorum = [(QUORUM_PORT, ELECTION_PORT) if self.lab else (free_port(), free_port()) for _ in hosts]
        servers = []
        for index, (host, port) in enumerate(zip(hosts, ports, strict=True)):
            directory = self.directory / f"zookeeper-{index}"
            directory.mkdir(parents=True, exist_ok=True)
            if flavour == "kavka":
                words = ["zookeeper", "--host", host, "--port", str(port), "--data", str(directory / "data")]
                words += ["--tick-time", str(TICK_MS), "--max-connections", "0", "--four-letter-words", "*"]
                if self.lab is not None:
                    words += ["--insecure"]  # Its hosts have addresses of their own.
                self._around_program[f"zookeeper-{index}"] = self._on(self.zookeeper_host(index), []), words
                command = [*self._program, *words]
            else:
                lines = [
                    f"tickTime={TICK_MS}",
                    "initLimit=20",
                    "syncLimit=6",
                    f"dataDir={directory / 'data'}",
                    f"clientPort={port}",
                    f"clientPortAddress={host}",
                    "maxClientCnxns=0",
                    "admin.enableServer=false",
                    "4lw.commands.whitelist=*",
                ]
                (directory / "data").mkdir(exist_ok=True)
                if count > 1:
                    (directory / "data" / "myid").write_text(f"{index + 1}\n")
                    for number, (other, (peer, election)) in enumerate(zip(hosts, quorum, strict=True), 1):
                        lines.append(f"server.{number}={other}:{peer}:{election}")
                (directory / "zookeeper.properties").write_text("\n".join(lines) + "\n")
                main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
                command = self._java(ZOOKEEPER_JVM, main, directory / "zookeeper.properties")
            command = self._on(self.zookeeper_host(index), command)
            servers.append(Server(f"zookeeper-{index}", command, host=host, port=port, directory=directory))
        return servers

    def _lay_broker(self, number: int, settings: Mapping[str, str]) -> Server:
        host = self._host(self.broker_host(number))
        port = BROKER_PORT if self.lab else free_port()
        directory = self.directory / f"broker-{number}"
        self.data_dir(number).mkdir(parents=True, exist_ok=True)
        if self._disk_mb:
            options = f"size={self._disk_mb}m,mode=0755"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", self.data_dir(number)], check=True)
        properties = {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{host}:{port}",
            "advertised.listeners": f"PLAINTEXT://{host}:{port}",
            "zookeeper.connect": self.zookeeper_connect,
            "log.dirs": str(self.data_dir(number)),
            **self._defaults,
            **settings,
        }
        if self._secured is not None:
            self._secure_ports[number] = SECURE_PORT if self.lab else free_port()
            properties |= self._secured.settings(number, host, port, self._secure_ports[number])
        path = directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        before = self._on(self.broker_host(number), [])
        if self._has_faults:
            self.faults[number] = ProcessFaults(directory / "faults", self.data_dir(number))
            before += self.faults[number].prefix
        if self.kind_of(number) == "kavka":
            command = [*self._program, "server", str(path)]
            self._around_program[f"broker-{number}"] = before, ["server", str(path)]
        else:
            command = self._java(BROKER_JVM, "kafka.Kafka", path)
        return Server(f"broker-{number}", [*before, *command], host=host, port=port, directory=directory)

    def _java(self, options: str, main_class: str, properties: Path) -> list[str]:
        release = Release.named("zk")
        release.installed()
        # A lab's hosts reach no name server, and Apache Kafka asks for the name of each client that logs in, on the
        # thread that serves its network: where nobody answers, all clients of that thread wait for 10 to 20 seconds.
        names = [f"-Djdk.net.hosts.file={self._hosts_file}"] if self.lab else []
        return release.server_command(main_class, str(properties), options=[*options.split(), *names])

    @property
    def _hosts_file(self) -> Path:
        return self.directory / "hosts"

    def _host(self, name: str) -> str:
        if self.lab is None:
            return HOST
        address = self.lab.add(name)
        with self._hosts_file.open("a") as names:
            names.write(f"{address} {name}\n")
        return address

    def _on(self, host: str, command: list[str]) -> list[str]:
        return [*self.lab.command(host), *command] if self.lab else command

    def set_program(self, server: Server, program: Sequence[str]) -> None:
        """What begins one of kavka's servers from its next start on."""
        before, after = self._around_program[server.name]
        server.command = [*before, *program, *after]

    # -- life

    def start(self, *, timeout_s: float = 90.0) -> None:
        """All of it; returns when ZooKeeper knows all brokers, and each tells clients of all."""
        self.start_zookeeper(timeout_s=timeout_s)
        for server in self.brokers.values():
            server.start()
        self.wait_for_brokers(timeout_s=timeout_s)
        self.wait_until_all_know(timeout_s=timeout_s)

    def wait_until_all_know(self, *, timeout_s: float = 60.0) -> None:
        """Until each broker tells clients of all: a controller that has not heard of one refuses replicas there."""
        for server in self.brokers.values():
            eventually(
                f"{server.name} knows all brokers",
                lambda: answers_metadata(server.port, host=server.host, brokers=len(self.brokers)),  # noqa: B023
                timeout_s=timeout_s,
            )

    def start_zookeeper(self, *, timeout_s: float = 60.0) -> None:
        for server in self.zookeepers:
            server.start()
        # A member of an ensemble listens before it serves; a session means that it serves.
        eventually("ZooKeeper serves", lambda: self.zookeeper.exists("/") is not None, timeout_s=timeout_s)
        for path, data in (self._secured.znodes() if self._secured else {}).items():
            if self.zookeeper.exists(path) is None:
                self.zookeeper.create(path, data, makepath=True)

    def wait_for_brokers(self, *broker_ids: int, timeout_s: float = 60.0) -> None:
        """Until they, or all, answer Metadata and are registered."""
        for broker_id in broker_ids or tuple(self.brokers):
            self.wait_for_broker(broker_id, timeout_s=timeout_s)

    def wait_for_broker(self, broker_id: int, *, timeout_s: float = 60.0) -> None:
        server = self.brokers[broker_id]

        def serves() -> bool:
            if not server.is_running:
                raise ProcessFailed(f"{server.name} ended with {server.returncode}: {server.log_tail()}")
            return answers_metadata(server.port, host=server.host) and broker_id in self.registered()

        eventually(f"{server.name} answers and is registered", serves, timeout_s=timeout_s)

    def start_broker(self, broker_id: int, *, timeout_s: float = 60.0) -> None:
        """Start one that is down; returns when it serves."""
        self.brokers[broker_id].start()
        self.wait_for_broker(broker_id, timeout_s=timeout_s)

    def kill(self, *broker_ids: int) -> None:
        """SIGKILL to all of them, before any is waited for."""
        for broker_id in broker_ids:
            self.brokers[broker_id].send_signal(signal.SIGKILL)
        for broker_id in broker_ids:
            self.brokers[broker_id].kill()

    def close(self) -> None:
        """SIGKILL to everything, file systems unmounted. The files stay where they are no tmpfs."""
        for server in (*self.brokers.values(), *self.zookeepers):
            server.kill()
        if self._kazoo is not None:
            with contextlib.suppress(KazooException, OSError):
                self._kazoo.stop()
                self._kazoo.close()
        if self._disk_mb:
            for number in self.brokers:
                subprocess.run(["umount", "-l", self.data_dir(number)], check=False, capture_output=True)

    def __enter__(self) -> ProcessCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what ZooKeeper holds

    @property
    def zookeeper(self) -> KazooClient:
        """A session of the test's own."""
        if self._kazoo is None:
            self._kazoo = KazooClient(
                self.zookeeper_connect, timeout=20.0, read_only=False, connection_retry=dict(KAZOO_RETRY)
            )
            self._kazoo.start(timeout=60)
        return self._kazoo

    def znode(self, path: str) -> dict[str, Any]:
        """The JSON object in a znode. Raises NoNodeError."""
        found: dict[str, Any] = json.loads(self.zookeeper.get(path)[0])
        return found

    def registered(self) -> set[int]:
        try:
            return {int(name) for name in self.zookeeper.get_children("/brokers/ids")}
        except NoNodeError:
            return set()

    def controller(self) -> int:
        """The controller's broker id; -1 where there is none."""
        try:
            return int(self.znode("/controller")["brokerid"])
        except NoNodeError:
            return -1

    def controller_epoch(self) -> int:
        return int(self.zookeeper.get("/controller_epoch")[0])

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """Raises NoNodeError."""
        data, stat = self.zookeeper.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        fields = json.loads(data)
        return PartitionState(
            fields["leader"], fields["leader_epoch"], tuple(fields["isr"]), fields["controller_epoch"], stat.version
        )

    # -- faults of the disk

    def fill_disk(self, broker_id: int) -> None:
        """Until nothing more fits (disk_mb)."""
        with (self.data_dir(broker_id).parent / "data" / BALLAST).open("ab", buffering=0) as file:
            for size in (len(FILL_BLOCK), 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(FILL_BLOCK[:size]):
                        pass

    def free_disk(self, broker_id: int) -> None:
        (self.data_dir(broker_id) / BALLAST).unlink(missing_ok=True)

    # -- faults of the network (with a lab)

    def cut(self, source: int, target: int, *, both_ways: bool = True) -> None:
        """Between two brokers."""
        self._lab.cut(self.broker_host(source), self.broker_host(target), both_ways=both_ways)

    def heal(self, source: int, target: int) -> None:
        self._lab.heal(self.broker_host(source), self.broker_host(target))

    def cut_from_zookeeper(self, broker_id: int, *, both_ways: bool = True) -> None:
        for index in range(len(self.zookeepers)):
            self._lab.cut(self.broker_host(broker_id), self.zookeeper_host(index), both_ways=both_ways)

    def heal_from_zookeeper(self, broker_id: int) -> None:
        for index in range(len(self.zookeepers)):
            self._lab.heal(self.broker_host(broker_id), self.zookeeper_host(index))

    def cut_from_brokers(self, broker_id: int, *, both_ways: bool = True) -> None:
        """From all its peers; neither from ZooKeeper nor from clients."""
        for other in self.brokers:
            if other != broker_id:
                self.cut(broker_id, other, both_ways=both_ways)

    def heal_from_brokers(self, broker_id: int) -> None:
        for other in self.brokers:
            if other != broker_id:
                self.heal(broker_id, other)

    def cut_from_clients(self, broker_id: int) -> None:
        """From the test itself."""
        self._lab.cut(self.broker_host(broker_id), CLIENT)

    def heal_from_clients(self, broker_id: int) -> None:
        self._lab.heal(self.broker_host(broker_id), CLIENT)

    def spoil_network(self, broker_id: int, quality: Quality) -> None:
        """Between a broker and everybody else: brokers, ZooKeeper, clients."""
        for host in self._others(broker_id):
            self._lab.spoil(self.broker_host(broker_id), host, quality)

    def heal_network(self, broker_id: int) -> None:
        for host in self._others(broker_id):
            self._lab.heal(self.broker_host(broker_id), host)

    def _others(self, broker_id: int) -> list[str]:
        brokers = [self.broker_host(other) for other in self.brokers if other != broker_id]
        return [*brokers, *(self.zookeeper_host(index) for index in range(len(self.zookeepers))), CLIENT]

    @property
    def _lab(self) -> NetworkLab:
        if self.lab is None:
            raise ValueError("faults of the network need a NetworkLab")
        return self.lab


def kavka_command() -> str:
    return str(PROGRAM)
