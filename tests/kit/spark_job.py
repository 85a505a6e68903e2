"""SparkJob: a driver in a process of its own, with its JVM and Python workers, to be killed with -9.

It decides how the processes of a job are found and ended; what the job has to do is the tests' affair.

I1  Only processes that descend from the driver that was started here are killed, each looked at once more before (pid
    and start time).
I2  None is left when the test ends, not even a worker that lost its parents.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

PATIENCE_S = 600.0
"""For what takes seconds where the machine is free: under load a driver with its JVM needs minutes to start."""


SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.authenticate.socketTimeout": "180s",
}
"""Settings of a Spark that starts quickly, and waits for a Python that does not."""


class Found(NamedTuple):
    """A process, told from a later one with the same pid by when it began."""

    pid: int
    began: str
    command: str

    @property
    def is_jvm(self) -> bool:
        return "java" in self.command.split("\0", 1)[0]

    @property
    def is_executor(self) -> bool:
        return self.is_jvm and "ExecutorBackend" in self.command

    @property
    def is_worker(self) -> bool:
        return "pyspark.daemon" in self.command or "pyspark.worker" in self.command


class JobFailed(AssertionError):
    """A job ended with an error, or did not get on in time; the message has the end of its log."""


class SparkJob:
    """One job that is started again after it was killed."""

    def __init__(
        self,
        script: Path,
        job: Mapping[str, Any],
        log: Path,
        *,
        launcher: Sequence[str] = (sys.executable,),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`launcher` runs the script: a Python, or spark-submit with its arguments."""
        self._command = [*launcher, str(script), json.dumps(job)]
        self._environment = {"PYSPARK_PYTHON": sys.executable} if environment is None else environment
        self._job = job
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: dict[int, Found] = {}
        self.starts = 0
        """How often it was begun."""

    def __enter__(self) -> SparkJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill(lambda found: True)
        for found in self._seen.values():
            kill_process(found)

    def start(self) -> None:
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self._environment},
            )

    @property
    def batches(self) -> int:
        """Micro-batches that Spark has written down as done."""
        commits = Path(self._job["checkpoint"]) / "commits"
        return sum(entry.name.isdigit() for entry in commits.iterdir()) if commits.exists() else 0

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def has_succeeded(self) -> bool:
        return self._process is not None and self._process.poll() == 0

    def processes(self) -> list[Found]:
        """The driver and all that descends from it, as they are now."""
        found = [] if self._process is None else descendants(self._process.pid)
        self._seen.update((one.pid, one) for one in found)
        return found

    def kill(self, chosen: Callable[[Found], bool]) -> int:
        """kill -9 to those of the job's processes; how many there were. The driver is reaped if it was one."""
        victims = [found for found in self.processes() if chosen(found)]
        for found in victims:
            kill_process(found)
        if self._process is not None and any(found.pid == self._process.pid for found in victims):
            self._process.wait(10)
        return len(victims)

    def is_driver(self, found: Found) -> bool:
        """Whether it is the driver's Python, or its JVM."""
        return self._process is not None and (
            found.pid == self._process.pid or (found.is_jvm and not found.is_executor)
        )

    def wait_until(
        self, what: str, probe: Callable[[], Any], *, timeout_s: float = PATIENCE_S, restarts: int = 0
    ) -> None:
        """Until `probe` is true. A job that ended before is started again, so often."""
        deadline = time.monotonic() + timeout_s
        while not probe():
            if self.has_ended:
                if not restarts:
                    raise JobFailed(f"the job ended before {what}\n{self.log_tail()}")
                restarts -= 1
                self.start()
            if time.monotonic() > deadline:
                raise JobFailed(f"no {what} within {timeout_s} s\n{self.log_tail()}")
            time.sleep(0.02)

    def finish(self, *, timeout_s: float = PATIENCE_S, restarts: int = 0) -> None:
        """Until it has ended well; as `wait_until`."""
        self.wait_until("its end", lambda: self.has_succeeded, timeout_s=timeout_s, restarts=restarts)

    def log_tail(self, lines: int = 60) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])


def descendants(pid: int) -> list[Found]:
    """A process and all that descends from it, as they are now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))) is not None:
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        chosen = todo.pop()
        todo += children.get(chosen, [])
        if (one := _look(chosen)) is not None:
            found.append(one)
    return found


def _stat(pid: int) -> list[str] | None:
    """State, parent, ... of /proc/PID/stat, behind the name."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _look(pid: int) -> Found | None:
    stat = _stat(pid)
    if stat is None or stat[0] == "Z":
        return None
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return None
    return Found(pid, stat[19], command)


def kill_process(found: Found) -> None:
    """kill -9, unless another process has the pid by now."""
    now = _look(found.pid)
    if now is not None and now.began == found.began:
        try:
            os.kill(found.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
