"""begin: a program that serves, such as a broker, in a process of its own.

A broker's process spends 0.4 s of processor time on imports, and a run of the tests starts a thousand. After
`fork_servers()` kavka's own are forked off the process of tests/kit/command_server.py, which has imported everything;
each has its own session, memory, descriptors and settings, and can be paused and killed like any other. What belongs
to a start from nothing (imports, memory, the program file, the time it takes) is for those who begin it so: programs
of others, benchmarks, `make conformance`, and tests of the start itself (`from_nothing`).

I1  A forked server does not outlive the process that forked it, nor that process its interpreter.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tests.kit.command_server import HEADER_BYTES, PROGRAM, running_server

DIES_WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")

_forks = False


def fork_servers() -> None:
    """From now on this interpreter's servers of kavka are forked."""
    global _forks
    _forks = True


class ForkedServer:
    """What subprocess.Popen is for a process that somebody else forked."""

    def __init__(self, pid: int, status: int, command: Sequence[str]) -> None:
        """status: the descriptor from which its exit status is read once it has ended; taken over."""
        self.pid = pid
        self.args = list(command)
        self.returncode: int | None = None
        self._status = os.fdopen(status, "rb")

    def poll(self) -> int | None:
        """Its exit status, negative for a signal's number; None while it runs."""
        return self._ended_in(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status once it has ended. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        code = self._ended_in(timeout)
        if code is None:
            assert timeout is not None, "without a limit it waits for the end"
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        """To a process that has just ended, too: whoever forked it may have seen the end before this one asks."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended_in(self, seconds: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._status, seconds):
            told = self._status.read()
            self._status.close()
            # Nothing was told: the process that forked it has gone, and took it along.
            self.returncode = int.from_bytes(told, "big", signed=True) if len(told) == HEADER_BYTES else -signal.SIGKILL
        return self.returncode


def _is_readable(file: BinaryIO, seconds: float | None) -> bool:
    """Also where this process has more descriptors than select takes."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def begin(
    command: Sequence[str],
    output: BinaryIO,
    *,
    environment: Mapping[str, str] | None = None,
    from_nothing: bool = False,
    dies_with_parent: bool = False,
) -> ForkedServer | subprocess.Popen[bytes]:
    """Starts it in a session of its own, so that Ctrl-C on a test run is for the test run, with `output` as its
    standard output and error. environment: all its variables; None for this process's own. dies_with_parent: the
    kernel kills it when this process has gone; of what is forked that is always so."""
    variables = os.environ if environment is None else environment
    # A library that is loaded before all others, a hash seed: what a process is told before it begins.
    is_told_before = "LD_PRELOAD" in variables or "PYTHONHASHSEED" in variables
    if _forks and not from_nothing and not is_told_before and command[0] == str(PROGRAM):
        return _forked(command, output, variables)
    return subprocess.Popen(
        [*(DIES_WITH_ITS_PARENT if dies_with_parent else ()), *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environment,
    )


def _forked(command: Sequence[str], output: BinaryIO, environment: Mapping[str, str]) -> ForkedServer:
    request = {
        "words": list(command),
        "directory": str(Path.cwd()),
        "environment": dict(environment),
        "is_server": True,
    }
    with open(os.devnull, "rb") as nothing:
        pid, status = running_server().begin(request, [nothing.fileno(), output.fileno(), output.fileno()])
    return ForkedServer(pid, status, command)
