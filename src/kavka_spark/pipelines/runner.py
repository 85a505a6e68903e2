"""Runner: starts a driver's process, follows its journal, ends it.

Decides nothing about a run. A command (or a test, or the demo) gives it an order and receives the events as they come.

I1  One driver at a time works on a pipeline's storage on this machine: a lock file says so, which the kernel lets go of
    when its holder dies, however it dies.
I2  A driver does not outlive its runner: its standard input ends then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kavka_spark.pipelines.journal import Event, JournalReader, log_path, new_journal_path
from kavka_spark.pipelines.order import Order, encode_order
from kavka_spark.pipelines.spec import PipelineSpec, SpecError

LOOK_S: Final = 0.1
END_S: Final = 30.0
"""How long a driver may take to stop when it is asked to."""
TAIL_LINES: Final = 15
_LOCK: Final = "lock"


class Runner:
    """One driver's process, from `with` to its end."""

    def __init__(self, spec: PipelineSpec, order: Order) -> None:
        self._spec = spec
        self._order = order
        self._journal = Path(os.devnull)
        self._reader = JournalReader(self._journal)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = -1
        self._has_ended = False

    def __enter__(self) -> Runner:
        """Raises SpecError where another driver works on the storage, or nothing can be written beside it."""
        try:
            self._take_lock()
            self._journal = new_journal_path(self._spec.state)
        except OSError as problem:
            raise SpecError(
                f"{problem.filename or self._spec.state} cannot be written: {problem.strerror}",
                f"{self._spec.path.name} names another storage, or this user is allowed to write it",
            ) from problem
        self._reader = JournalReader(self._journal)
        with log_path(self._journal).open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "kavka_spark.pipelines.driver",
                    encode_order(self._order.with_journal(self._journal)),
                ],
                cwd=self._spec.root,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the teller, which then asks the driver; the JVM would die of it at once.
                start_new_session=True,
                pass_fds=(self._lock,),
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        os.close(self._lock)

    @property
    def pid(self) -> int:
        """The pid of the driver's process; its JVM is a child of it."""
        assert self._process is not None
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def events(self) -> Iterator[Event | None]:
        """What happens, as it happens, until the process is over; None whenever nothing did for a moment. A process
        that ended without a word (it was killed) is a problem event."""
        while True:
            is_alive = self.status is None
            for event in self._reader.read():
                self._has_ended |= event["event"] == "ended"
                yield event
            if not is_alive:
                break
            yield None
            time.sleep(LOOK_S)
        if not self._has_ended:
            status = self.status or 0
            ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            problem = f"Spark's driver {ended} and left no message"
            told = f"{problem}; its last ones:\n{self.log_tail()}"
            yield {"event": "problem", "at": time.time(), "problem": told}

    def ask_to_stop(self) -> None:
        """Asks the driver to end when it can; `events` goes on until then."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9 of the driver and its JVM and workers at once."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ends the driver in order, or with a kill after `END_S`."""
        assert self._process is not None
        self.ask_to_stop()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            pass
        self.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def log_tail(self) -> str:
        log = log_path(self._journal)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(lines[-TAIL_LINES:])

    def _take_lock(self) -> None:
        path = self._spec.state / _LOCK
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SpecError(
                f"another run of {self._spec.name} is under way in {self._spec.storage}",
                "wait until it ends, or give this pipeline its own storage",
            ) from None


def is_running(state: Path) -> bool:
    """Whether a driver on this machine works on this pipeline."""
    try:
        lock = os.open(state / _LOCK, os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
