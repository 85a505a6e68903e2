"""Processes: the demo's three brokers and their ZooKeeper, each a process that the demo may kill, stop and bring back.

It decides how they are started and ended from the outside, with the command line alone: `kavka up --brokers 3
--processes` for all of them, `kavka server FILE` for one that comes back.

I1  A process is ended by the pid that was told at its start, never by its name.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.kit.kavka_process import ProcessFailed, answers_metadata
from tests.kit.ports import free_port

BROKERS = 3
READY_S = 60.0
SETTINGS = {
    # A follower that is stopped leaves the in-sync replicas after this time (Kafka's 30 s would make a long demo).
    "replica.lag.time.max.ms": "3000",
}


class Processes:
    """Three brokers from `start` to `stop`. Their ids are 1, 2 and 3."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self.log_file = directory / "kavka.log"
        self.port = free_port(following=range(1, BROKERS))
        self.pids: dict[int, int] = {}
        """Of the brokers, by id."""
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._parent: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + number}" for number in range(BROKERS))

    @property
    def command(self) -> str:
        return f"kavka up --brokers {BROKERS} --processes --port {self.port}"

    def start(self) -> float:
        """Returns the seconds until all brokers knew each other. Raises ProcessFailed."""
        settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        words = [*self.command.split()[1:], "--data", str(self.data), "--json", *settings]
        began = time.perf_counter()
        self._parent = self._run(words, stdout=subprocess.PIPE)
        assert self._parent.stdout is not None
        readable, _, _ = select.select([self._parent.stdout], [], [], READY_S)
        line = self._parent.stdout.readline() if readable else b""
        if not line:
            raise ProcessFailed(f"the cluster was not ready: {self.log_tail()}")
        self.pids = {broker["broker_id"]: broker["pid"] for broker in json.loads(line)["brokers"]}
        return time.perf_counter() - began

    def kill(self, broker_id: int) -> None:
        """kill -9."""
        os.kill(self.pids[broker_id], signal.SIGKILL)

    def pause(self, broker_id: int) -> None:
        os.kill(self.pids[broker_id], signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        os.kill(self.pids[broker_id], signal.SIGCONT)

    def restart(self, broker_id: int) -> float:
        """Starts a broker that was killed, on its disk. Returns the seconds until it answers. Raises ProcessFailed."""
        began = time.perf_counter()
        child = self._run(["server", str(self.data / f"broker-{broker_id}" / "server.properties")])
        self._children[broker_id] = child
        self.pids[broker_id] = child.pid
        while not answers_metadata(self.port + broker_id - 1):
            if child.poll() is not None or time.perf_counter() - began > READY_S:
                raise ProcessFailed(f"broker {broker_id} did not come back: {self.log_tail()}")
            time.sleep(0.005)
        return time.perf_counter() - began

    def stop(self) -> None:
        """Ends all in order. Raises ProcessFailed where one does not end so."""
        for process in (*self._children.values(), self._parent):
            if process is None:
                continue
            process.terminate()
            try:
                status = process.wait(READY_S)
            except subprocess.TimeoutExpired:
                raise ProcessFailed(f"process {process.pid} did not stop: {self.log_tail()}") from None
            if status != 0:
                raise ProcessFailed(f"process {process.pid} ended with {status}: {self.log_tail()}")
        self._children.clear()
        self._parent = None

    def kill_all(self) -> None:
        """Whatever still runs; nothing is left behind."""
        for process in (*self._children.values(), self._parent):
            if process is not None and process.poll() is None:
                process.kill()  # The kernel kills the parent's children with it.
                process.wait()

    def log_tail(self) -> str:
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else "(no log)"
        return "\n" + "\n".join(text.splitlines()[-20:])

    def _run(self, words: list[str], *, stdout: int | None = None) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).parent / "kavka"
        if not program.exists():
            raise ProcessFailed(f"{program} is missing: lay the virtual environment first with `make setup`")
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                [str(program), *words],
                stdin=subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
                start_new_session=True,
            )
