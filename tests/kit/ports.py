"""Ports for servers that tests, benchmarks and the demo start: each is handed out once.

It decides which port a server gets. It must not know what listens there.

I1  Ports lie below the kernel's range for outgoing connections. A client that reconnects while the broker is down would
    else now and then be given the broker's own port as its source port, connect to itself, and keep the broker out.
I2  A port is handed out once in a process, and by one process at a time, also where several runs of the tests share a
    machine: between the answer "nobody listens there" and the server's own bind another test would else take it.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

LOOPBACK = "127.0.0.1"
LOWEST_PORT, HIGHEST_PORT = 12000, 31000


class NoFreePort(Exception):
    """A thousand picks found no port that is free and not handed out."""


class _HandedOut:
    """The ports that this process has handed out. Byte n of a file that all runs share is locked while port n is ours.

    The kernel frees a process's locks when it ends, however it ends; a forked child holds none of its parent's.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._ports: set[int] = set()

    def claim(self, ports: Sequence[int]) -> bool:
        """Whether all of them are ours now; else none of them is."""
        if not self._ports.isdisjoint(ports):
            return False
        for count, port in enumerate(ports):
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            except OSError:
                self._give_back(ports[:count])
                return False
        self._ports.update(ports)
        return True

    def _give_back(self, ports: Sequence[int]) -> None:
        for port in ports:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, port)


_handed_out = _HandedOut(Path(tempfile.gettempdir()) / f"kavka-test-ports-{os.getuid()}")


def free_port(*, following: Sequence[int] = ()) -> int:
    """A port on the loopback that nobody listens on, with those at the given distances above it free as well."""
    for _ in range(1000):
        port = random.randrange(LOWEST_PORT, HIGHEST_PORT)
        ports = [port + distance for distance in (0, *following)]
        if _handed_out.claim(ports) and all(_is_free(each) for each in ports):
            return port
    raise NoFreePort(f"found no free port between {LOWEST_PORT} and {HIGHEST_PORT}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
