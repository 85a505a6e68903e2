"""Servers: the processes of one cluster of Apache Kafka, by name (zk, broker-1, ...), and their files.

A directory holds, for each server, NAME.command (how it is started, as JSON), NAME.log and, while it should run,
NAME.pid. It must not know what is measured or tested.

I1  Only a process whose pid file lies in this directory and whose command line names this directory is ever signalled:
    a pid that the system gave to another process is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ZOOKEEPER: Final = "zk"


class Servers:
    """The servers of one directory; another object, or another process, on the same directory has the same ones."""

    def __init__(self, directory: Path) -> None:
        """directory: absolute."""
        self.directory = directory
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def define(self, name: str, command: Sequence[str]) -> None:
        """How a server is started, from now on."""
        (self.directory / f"{name}.command").write_text(json.dumps(list(command)))

    def start(self, name: str) -> None:
        """Start a server, again after its end too, without waiting. Raises RuntimeError where it runs already."""
        if self.runs(name):
            raise RuntimeError(f"{name} of {self.directory} runs already, with pid {self.pid(name)}")
        command = json.loads((self.directory / f"{name}.command").read_text())
        with (self.directory / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[name] = child
        self._pid_file(name).write_text(str(child.pid))

    def pid(self, name: str) -> int:
        """Raises FileNotFoundError where it was never started, or was stopped."""
        return int(self._pid_file(name).read_text())

    def names(self) -> list[str]:
        """Those that were started and not stopped; a killed one is among them."""
        return sorted(path.stem for path in self.directory.glob("*.pid"))

    def runs(self, name: str) -> bool:
        """Whether its process lives."""
        if name in self._children:
            return self._children[name].poll() is None
        try:
            arguments = Path(f"/proc/{self.pid(name)}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return any(bytes(self.directory) + b"/" in argument for argument in arguments)

    def stop(self, *names: str, at_once: bool = False, timeout_s: float = 10.0) -> None:
        """End these servers (all, if none is named), brokers before ZooKeeper, to which they say goodbye.
        at_once: with SIGKILL; else with SIGTERM, and SIGKILL after timeout_s."""
        chosen = names or tuple(self.names())
        self._end([name for name in chosen if name != ZOOKEEPER], at_once, timeout_s)
        self._end([name for name in chosen if name == ZOOKEEPER], at_once, timeout_s)

    def log_tails(self, *, lines: int = 15) -> str:
        """The ends of all logs, for messages of failure."""
        logs = sorted(self.directory.glob("*.log"))
        return "\n".join(f"--- {log.stem}\n{_tail(log, lines)}" for log in logs)

    def _end(self, names: Sequence[str], at_once: bool, timeout_s: float) -> None:
        left = [name for name in names if self.runs(name)]
        self._signal(left, signal.SIGKILL if at_once else signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        while left := [name for name in left if self.runs(name)]:
            if time.monotonic() > deadline:
                self._signal(left, signal.SIGKILL)
                deadline += timeout_s
            time.sleep(0.02)
        for name in names:
            self._pid_file(name).unlink(missing_ok=True)
            self._children.pop(name, None)

    def _signal(self, names: Sequence[str], number: signal.Signals) -> None:
        for name in names:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid(name), number)

    def _pid_file(self, name: str) -> Path:
        return self.directory / f"{name}.pid"


def _tail(log: Path, lines: int) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
