"""Others that speak Kafka's protocol, measured on the same rows: kfake, tansu, and the floor; one process each.

Decides how each is had and started. It must not know what is measured. None does what a broker of Kafka does: what they
lack stands in `PEERS`, and on the page. The floor is no broker but a C program of ours that does the least that can be
done (`load/floor.c`). Each is built once, by its own language's tool; what is not ours comes from its public registry.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.apache_kafka import PeerMissing
from tests.apache_kafka.release import peers_home
from tests.kit.kavka_process import HOST, CpuSeconds, ProcessFailed, answers_metadata, cpu_seconds, resident_bytes
from tests.kit.ports import free_port

from benchmarks import PROJECT
from benchmarks.tls_listener import TlsListener

FLOOR_SOURCE: Final = PROJECT / "benchmarks" / "load" / "floor.c"
KFAKE_SOURCE: Final = PROJECT / "benchmarks" / "load" / "kfake"
TANSU_VERSION: Final = "0.6.0"
READY_S: Final = 30.0
BUILD_S: Final = 3_600.0


class Peer(NamedTuple):
    """`about` says for the page what it is and lacks; `command` takes its program, a port and a directory."""

    about: str
    version: Callable[[], str]
    build: Callable[[], Path]
    command: Callable[[Path, int, Path], list[str]]


def _build_floor() -> Path:
    program = PROJECT / "build" / "floor"
    if not program.exists() or program.stat().st_mtime < FLOOR_SOURCE.stat().st_mtime:
        program.parent.mkdir(exist_ok=True)
        _run("cc", "-O2", "-msse4.2", "-o", str(program), str(FLOOR_SOURCE), directory=PROJECT)
    return program


def _build_kfake() -> Path:
    program = PROJECT / "build" / "kfake"
    if not program.exists():
        _run("go", "build", "-o", str(program), ".", directory=KFAKE_SOURCE)
    return program


def _kfake_version() -> str:
    lines = (KFAKE_SOURCE / "go.mod").read_text().splitlines()
    return next(" ".join(line.removeprefix("require").split()) for line in lines if "/pkg/kfake v" in line)


def _build_tansu() -> Path:
    home = peers_home() / f"tansu-{TANSU_VERSION}"
    program = home / "bin" / "tansu"
    if not program.exists():
        options = ["--version", TANSU_VERSION, "--features", "dynostore", "--locked", "--no-track", "--root", str(home)]
        _run("cargo", "install", "tansu", *options, directory=PROJECT)
    return program


def _run(tool: str, *arguments: str, directory: Path) -> None:
    if shutil.which(tool) is None:
        raise PeerMissing(f"needs {tool}, to build a broker that is compared with")
    done = subprocess.run(
        [tool, *arguments], cwd=directory, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode:
        raise PeerMissing(f"{tool} {arguments[0]} failed: {done.stderr[-2_000:]}")


PEERS: Final[Mapping[str, Peer]] = {
    "floor": Peer(
        "The floor is a program in C that receives a batch, checks its CRC, writes it to a file, sends it from there, "
        "and does nothing else. The ratio is the share of what this machine can do.",
        lambda: "floor.c",
        _build_floor,
        lambda program, port, directory: [str(program), str(port), str(directory)],
    ),
    "kfake": Peer(
        "kfake is franz-go's fake of a cluster, for tests: it keeps all in memory, and replicates nothing.",
        _kfake_version,
        _build_kfake,
        lambda program, port, directory: [str(program), str(port)],
    ),
    "tansu": Peer(
        "tansu is a broker in Rust over a storage of others; here that is memory. It replicates nothing.",
        lambda: f"tansu {TANSU_VERSION}, memory://",
        _build_tansu,
        lambda program, port, directory: [
            *(str(program), "broker", "--kafka-cluster-id", "measured", "--storage-engine", "memory://measured/"),
            *(
                "--kafka-listener-url",
                f"tcp://{HOST}:{port}",
                "--kafka-advertised-listener-url",
                f"tcp://{HOST}:{port}",
            ),
        ],
    ),
}
WITHOUT: Final = dict.fromkeys(PEERS, ("tls", "share")) | {
    "floor": ("tls", "share", "partitions", "java"),
    "tansu": ("tls", "share", "latency"),
}
"""Groups of rows that they cannot serve as they are measured. With tansu 0.6.0 a record written and read at a time does
not come to an end in two minutes."""


class OtherBroker:
    """One broker at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._peer = PEERS[name]
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._directory = Path()
        self.command: list[str] = []

    def version(self) -> str:
        return self._peer.version()

    def start(self, directory: Path, tls: TlsListener | None = None) -> float:
        assert tls is None, f"{self.name} is measured without TLS"
        program = self._peer.build()
        directory.mkdir(parents=True, exist_ok=True)
        self._port, self._directory = free_port(), directory
        self.command = self._peer.command(program, self._port, directory)
        log = directory / "log"
        with log.open("wb") as output:
            launched_at = time.perf_counter()
            self._process = subprocess.Popen(
                self.command, cwd=directory, stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )
        while not answers_metadata(self._port):
            if self._process.poll() is not None or time.perf_counter() > launched_at + READY_S:
                raise ProcessFailed(f"{self.name} does not answer: {log.read_text(errors='replace')[-2_000:]}")
            time.sleep(0.001)
        return time.perf_counter() - launched_at

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    def cpu_seconds(self) -> CpuSeconds:
        return cpu_seconds(self._running.pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self._running.pid)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process
