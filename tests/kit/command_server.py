"""run_forked: one command line of kavka in a process of its own that begins with everything imported. A broker is such
a command line, too: tests/kit/server_process.py.

A command's process spends 0.3 s of processor time on imports, and tests run a thousand commands. A server without
threads imports them once and forks for each command: the command has its own memory, descriptors, directory and
variables, and ends as its own process does. What a start from nothing does (imports, hash seed, the program file) is
shown by tests that start `kavka` itself.

I1  The server ends with the interpreter that started it: its end of the socket closes.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from kavka.cli.main import main

PROGRAM = Path(sys.executable).parent / "kavka"
COMMANDS = "kavka.cli.app"
ROOMS = (
    *("kavka.client", "kavka.protocol", "kavka.records"),
    *("kavka.broker", "kavka.controller", "kavka.coordinator", "kavka.flight", "kavka.log"),
    *("kavka.replication", "kavka.runtime", "kavka.security", "kavka.zookeeper"),
    "kavka.console",
)
HEADER_BYTES = 4
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Server:
    """The server's process and this end of the socket to it."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kit.command_server", str(there.fileno())],
                pass_fds=[there.fileno()],
                cwd=Path(__file__).parents[2],
            )
        self.lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def begin(self, request: Mapping[str, object], descriptors: Sequence[int]) -> tuple[int, int]:
        """Forks a command that has these as standard input, output and error. Returns its process id, and a
        descriptor from which its exit status is read once it has ended."""
        status, theirs = os.pipe()
        body = json.dumps(request).encode()
        try:
            with self.lock:
                socket.send_fds(self._here, [len(body).to_bytes(HEADER_BYTES, "big")], [*descriptors, theirs])
                self._here.sendall(body)
                pid = int.from_bytes(_exactly(self._here, HEADER_BYTES), "big")
        finally:
            os.close(theirs)
        return pid, status


_server: _Server | None = None


def running_server() -> _Server:
    """This interpreter's server, started when it is first asked for."""
    global _server
    if _server is None or not _server.is_running:
        _server = _Server()
    return _server


def run_forked(
    words: Sequence[str], *, given: bytes, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """Runs `kavka WORDS` to its end. Raises subprocess.TimeoutExpired, as subprocess.run does, and kills it then."""
    command = [str(PROGRAM), *words]
    request = {"words": command, "directory": os.getcwd(), "environment": dict(environment)}
    its_input, given_to = os.pipe()
    said, its_output = os.pipe()
    complained, its_errors = os.pipe()
    try:
        pid, status = running_server().begin(request, [its_input, its_output, its_errors])
    finally:
        for each in (its_input, its_output, its_errors):
            os.close(each)
    with ThreadPoolExecutor(3) as threads:
        threads.submit(_give, given_to, given)
        out, err = threads.submit(_read_all, said), threads.submit(_read_all, complained)
        with os.fdopen(status, "rb") as ended:
            has_ended = bool(select.select([ended], [], [], timeout_s)[0])
            if not has_ended:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            code = int.from_bytes(ended.read(), "big", signed=True)
    if not has_ended:
        raise subprocess.TimeoutExpired(command, timeout_s, out.result(), err.result())
    return subprocess.CompletedProcess(command, code, out.result(), err.result())


def _give(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the server of commands has ended")
        data += more
    return data


# What the server does


def serve(connection: socket.socket) -> None:
    """Forks a command for each request until the other end closes, and tells how each ended."""
    import_all()
    running: dict[int, int] = {}
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([connection, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(running)
        if connection not in ready:
            continue
        size, descriptors, _, _ = socket.recv_fds(connection, HEADER_BYTES, 4)
        if not size:
            return
        request = json.loads(_exactly(connection, int.from_bytes(size, "big")))
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (connection.detach(), woken, wakes, *running.values()):
                os.close(each)
            be_the_command(request, descriptors)
        running[pid] = descriptors.pop()
        for each in descriptors:
            os.close(each)
        connection.sendall(pid.to_bytes(HEADER_BYTES, "big"))


def import_all() -> None:
    """What commands and brokers import, at once or later; here, so that whoever only uses the server does not."""
    for entry in import_module(COMMANDS).TABLE:
        import_module(f"kavka.cli.{entry.module}")
    for room in ROOMS:
        for module in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
            import_module(module.name)
    import_module("rich.table")
    gc.collect()
    gc.freeze()


def be_the_command(request: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """In the forked process: becomes the command, and ends with it."""
    if request.get("is_server"):
        os.setsid()
        _die_with_the_parent()
    for descriptor, standard in zip(descriptors, range(3), strict=False):
        os.dup2(descriptor, standard)
    for descriptor in descriptors:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["directory"])
    sys.argv[:] = request["words"]
    status = 1
    try:
        status = main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
        with suppress(BaseException):
            sys.stderr.flush()
        os._exit(status)


def _die_with_the_parent() -> None:
    """Linux sends SIGKILL to this process when the one that forked it has gone."""
    if _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _tell_ends(running: dict[int, int]) -> None:
    """The status is told before the process is reaped: until then its id is nobody else's, and a signal finds it."""
    while running:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        with suppress(BrokenPipeError), os.fdopen(running.pop(ended.si_pid), "wb") as file:
            file.write(code.to_bytes(HEADER_BYTES, "big", signed=True))
        os.waitpid(ended.si_pid, 0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
