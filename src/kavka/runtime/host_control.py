"""The socket by which `kavka host FILE --status` and `--restart` reach the host that runs on the file's directories.

Decides where it is, who may use it, and the form: one JSON object on a line asks, one answers. Must not know what is
asked for.

    DIR/kavka-host         DIR is the first directory of log.dirs; 0700: only the user that runs the host
        lock                 held (flock) while a host runs, however it ends
        control.sock         the socket; one that a killed host left is replaced
        restart.lock         held by who restarts the brokers one after the other
        broker-N.properties  written for each broker's process

I1  Two hosts never hold one directory, and two rolling restarts of one host never meet.
I2  At most MAX_CONNECTIONS are served at a time, and a line has at most MAX_LINE_BYTES.

A path of a socket has 107 bytes at most, so the directory is named by its descriptor (proc(5), unix(7)).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from kavka.config.host_layout import HostLayout
from kavka.errors import ConnectionFailed, LogDirectoryLocked, StorageError

DIRECTORY: Final = "kavka-host"
SOCKET: Final = "control.sock"
LOCK: Final = "lock"
RESTART_LOCK: Final = "restart.lock"
MAX_CONNECTIONS: Final = 8
MAX_LINE_BYTES: Final = 1 << 20

Answer = Callable[[Mapping[str, object]], Awaitable[Mapping[str, object]]]


def control_directory(layout: HostLayout) -> str:
    """Where the host of a layout is reached."""
    return os.path.join(layout.directories[0], DIRECTORY)


class HostRuns(LogDirectoryLocked):
    """Another host, or another restart of its brokers, is under way. `next_step` says what to do about it."""

    def __init__(self, directory: str, *, is_restart: bool = False) -> None:
        what = "restart of its brokers is under way" if is_restart else "`kavka host` runs on these log directories"
        super().__init__(directory, f"another {what}")
        self.next_step = (
            "wait for it: two at a time could take both replicas of a partition away"
            if is_restart
            else "`kavka host FILE --status` shows it and --restart restarts its brokers; or stop it first"
        )


class ControlServer:
    """The host's side. `lock` before anything is started, `open` when it can be asked."""

    def __init__(self, directory: str, answer: Answer) -> None:
        self._directory = directory
        self._answer = answer
        self._lock: int | None = None
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    def lock(self) -> None:
        """Takes the directory. Raises HostRuns where another host has it, StorageError."""
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            os.chmod(self._directory, 0o700)
            lock = os.open(os.path.join(self._directory, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(self._directory, error.strerror or str(error)) from error
        if not _is_ours(lock):
            os.close(lock)
            raise HostRuns(self._directory)
        self._lock = lock

    async def open(self) -> None:
        """Answers from now on. Raises StorageError."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory, SOCKET))
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short_path(self._directory) as path:
                bound.bind(path)
            bound.listen(MAX_CONNECTIONS)
            bound.setblocking(False)
        except OSError as error:
            bound.close()
            raise StorageError(self._directory, error.strerror or str(error)) from error
        self._server = await asyncio.start_unix_server(self._on_connection, sock=bound, limit=MAX_LINE_BYTES)

    def close(self) -> None:
        """No more is answered, and what is under way is given up."""
        if self._server is not None:
            self._server.close()
            self._server = None
            with suppress(OSError):
                os.unlink(os.path.join(self._directory, SOCKET))
        for task in self._serving:
            task.cancel()

    def unlock(self) -> None:
        """Another host may have the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._serving) >= MAX_CONNECTIONS:
                return
            self._serving.add(task)
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(_parsed(line))).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            pass  # Whoever asked is gone, or wrote no line.
        except asyncio.CancelledError:
            # asyncio's own callback of a connection takes a cancelled one for a failure (until Python 3.12).
            if self._server is not None:
                raise
        finally:
            self._serving.discard(task)
            writer.close()


def ask(directory: str, question: Mapping[str, object]) -> dict[str, Any]:
    """What the host of this directory answers, however long it takes. Raises ConnectionFailed where there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            with _short_path(directory) as path:
                asking.connect(path)
            asking.sendall(json.dumps(question).encode() + b"\n")
            with asking.makefile("rb") as answers:
                line = answers.readline(MAX_LINE_BYTES)
        except OSError as error:
            raise ConnectionFailed(f"no host answers in {directory}: {error.strerror or error}") from error
    if not line:
        raise ConnectionFailed(f"the host in {directory} ended before it answered")
    answer: dict[str, Any] = json.loads(line)
    return answer


@contextmanager
def only_one_restart(directory: str) -> Iterator[None]:
    """Whoever restarts brokers one after the other is alone in that. Raises HostRuns where somebody else is at it."""
    lock = os.open(os.path.join(directory, RESTART_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _is_ours(lock):
            raise HostRuns(directory, is_restart=True)
        yield
    finally:
        os.close(lock)


def _is_ours(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parsed(line: bytes) -> Mapping[str, object]:
    asked = json.loads(line)
    return asked if isinstance(asked, dict) else {}


@contextmanager
def _short_path(directory: str) -> Iterator[str]:
    """The socket's path, short however long that of the directory is."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)
