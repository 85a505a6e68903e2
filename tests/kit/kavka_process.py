"""KavkaProcess: one `kavka up` in a process of its own, for tests, benchmarks and the demo.

It decides how a broker is started, watched and ended from the outside. It must not know how a broker works inside:
all it uses is the command line, the port and /proc.

I1  A process is ended by the pid that was started here, never by its name.
I2  A broker that this interpreter started does not outlive an exit in order (SIGKILL to the interpreter leaves it).
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import struct
import subprocess
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.kit.command_server import PROGRAM
from tests.kit.ports import free_port
from tests.kit.server_process import ForkedServer, begin

HOST = "127.0.0.1"
CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
START_S, END_S = 60.0, 60.0
"""For a machine that does much else meanwhile: alone it takes a second."""

NO_RETENTION = {"log.initial.task.delay.ms": str(7 * 86_400_000)}
"""A broker looks for old records every five minutes, and Apache Kafka half a minute after its start, too. Many tests
write records that are years old, and would lose them now and then."""

_running: weakref.WeakSet[KavkaProcess] = weakref.WeakSet()


class ProcessFailed(Exception):
    """A broker did not start, died, or did not end in time; the message carries the end of its log."""


class CpuSeconds(NamedTuple):
    """Processor time used since the process began, in user space and in the kernel."""

    user: float
    system: float

    def __sub__(self, earlier: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(self.user - earlier.user, self.system - earlier.system)


def answers_metadata(port: int, *, host: str = HOST, brokers: int = 1, timeout_s: float = 2.0) -> bool:
    """Whether a broker answers Metadata (version 4) with at least so many live brokers and a controller."""
    client_id = b"ready"
    header_and_body = struct.pack(">hhih", 3, 4, 1, len(client_id)) + client_id + struct.pack(">ib", 0, 0)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            if connection.getsockname() == connection.getpeername():
                return False  # nobody listens: the kernel connected this socket to itself
            connection.sendall(struct.pack(">i", len(header_and_body)) + header_and_body)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                body = answer.read(size)
        return _names_a_controller(body, brokers)
    except (OSError, struct.error):
        return False


def _names_a_controller(body: bytes, brokers: int) -> bool:
    """Metadata response v4: correlation id, throttle time, brokers (id, host, port, rack), cluster id, controller."""
    (broker_count,) = struct.unpack_from(">i", body, 8)
    position = 12
    for _ in range(broker_count):
        (host_length,) = struct.unpack_from(">h", body, position + 4)
        position += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", body, position)
        position += 2 + max(rack_length, 0)
    (cluster_id_length,) = struct.unpack_from(">h", body, position)
    position += 2 + max(cluster_id_length, 0)
    (controller_id,) = struct.unpack_from(">i", body, position)
    return bool(broker_count >= brokers and controller_id >= 0)


def cpu_seconds(pid: int) -> CpuSeconds:
    """Processor time of a live process. Raises FileNotFoundError when it has gone."""
    return _cpu_seconds(Path(f"/proc/{pid}/stat"))


def thread_cpu_seconds(pid: int, thread_id: int) -> CpuSeconds:
    """Processor time of one thread of a live process. Its first thread has the process's number."""
    return _cpu_seconds(Path(f"/proc/{pid}/task/{thread_id}/stat"))


def _cpu_seconds(stat: Path) -> CpuSeconds:
    fields = stat.read_text().rsplit(")", 1)[1].split()
    return CpuSeconds(int(fields[11]) / CLOCK_TICKS_PER_SECOND, int(fields[12]) / CLOCK_TICKS_PER_SECOND)


def resident_bytes(pid: int) -> int:
    """Resident memory of a live process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessFailed(f"process {pid} has ended and holds no memory")


class KavkaProcess:
    """A broker started with `kavka up` on a loopback port, with its data and its log where the caller wants them.

    As a context manager it starts on entry and is stopped on exit (killed if it does not stop).
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        log_file: Path | None = None,
        environment: Mapping[str, str] | None = None,
        from_nothing: bool = False,
        brokers: int = 1,
    ) -> None:
        """data_dir: where the broker keeps its topics; made when missing. port: None takes a free one.
        settings: Kafka's names to values, passed as `--set`, beside NO_RETENTION. log_file: gets what it prints, of
        every start. environment: variables for it beside those of this process. from_nothing: never forked
        (tests/kit/server_process.py). brokers: so many in the process, on this port and those behind it."""
        self.data_dir = data_dir
        self.brokers = brokers
        self.port = free_port(following=range(1, brokers)) if port is None else port
        self.settings = {**NO_RETENTION, **(settings or {})}
        self.log_file = log_file or data_dir.parent / f"{data_dir.name}.log"
        self._environment = {**os.environ, **environment} if environment else None
        self._from_nothing = from_nothing
        self._process: ForkedServer | subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """host:port, as clients want it in bootstrap.servers."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ProcessFailed(f"the broker on port {self.port} was never started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def command(self) -> list[str]:
        if not PROGRAM.exists():
            raise ProcessFailed(f"{PROGRAM} is missing: lay the virtual environment first with `make setup`")
        options = [option for name, value in self.settings.items() for option in ("--set", f"{name}={value}")]
        # What a test asks the log about is of the level that `kavka server` logs by itself.
        options += ["--log-level", "info"]
        if self.brokers > 1:
            options += ["--brokers", str(self.brokers)]
        return [str(PROGRAM), "up", "--port", str(self.port), "--data", str(self.data_dir), *options]

    def start(self, *, timeout_s: float = START_S) -> float:
        """Start and wait for the first Metadata answer. Returns the seconds that took. Raises ProcessFailed."""
        started_at = self.launch()
        return self.wait_until_ready(timeout_s=timeout_s) - started_at

    def launch(self) -> float:
        """Start without waiting. Returns the time.perf_counter() of the moment before the launch."""
        if self.is_running:
            raise ProcessFailed(f"the broker on port {self.port} runs already as process {self.pid}")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = self.command
        with self.log_file.open("ab") as log:
            launched_at = time.perf_counter()
            self._process = begin(command, log, environment=self._environment, from_nothing=self._from_nothing)
        _running.add(self)
        return launched_at

    def wait_until_ready(self, *, timeout_s: float = START_S) -> float:
        """Wait for the first Metadata answer; returns the time.perf_counter() at which it came."""
        deadline = time.perf_counter() + timeout_s
        while not answers_metadata(self.port, brokers=self.brokers):
            if not self.is_running:
                raise ProcessFailed(f"kavka ended with {self._returncode()} before it was ready: {self.log_tail()}")
            if time.perf_counter() > deadline:
                self.kill()
                raise ProcessFailed(f"kavka was not ready on port {self.port} in {timeout_s} s: {self.log_tail()}")
            time.sleep(0.001)
        return time.perf_counter()

    def stop(self, *, timeout_s: float = END_S) -> int:
        """Ask it to end (SIGTERM) and wait. Returns its exit code. Raises ProcessFailed, having killed it."""
        if self._process is None:
            return 0
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessFailed(f"kavka did not stop in {timeout_s} s: {self.log_tail()}") from None

    def wait_until_ended(self, *, timeout_s: float = END_S) -> int:
        """Wait until it ends by itself. Returns its exit code. Raises ProcessFailed, having killed it."""
        if self._process is None:
            raise ProcessFailed(f"the broker on port {self.port} was never started")
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessFailed(f"kavka did not end in {timeout_s} s: {self.log_tail()}") from None

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self, *, timeout_s: float = START_S) -> float:
        """Stop if it runs, then start on the same port and data. Returns the seconds to the first answer."""
        if self.is_running:
            self.stop()
        return self.start(timeout_s=timeout_s)

    def cpu_seconds(self) -> CpuSeconds:
        return cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def log_tail(self, *, lines: int = 30) -> str:
        """The end of its log file, for messages of failure."""
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else "(no log)"
        return "\n" + "\n".join(text.splitlines()[-lines:])

    def _returncode(self) -> int | None:
        return self._process.returncode if self._process is not None else None

    def __enter__(self) -> KavkaProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()  # the first failure is the one to report


@atexit.register
def _kill_what_still_runs() -> None:
    for process in list(_running):
        if process.is_running:
            process.kill()
