"""What a worker has from Spark's JVM is acknowledged at once.

Spark's JVM reaches its Python workers over TCP and sets no TCP_NODELAY. It sends a task in two small writes, the
function and then its input, and its kernel holds the second one back until the first is acknowledged. The worker's
kernel waits 40 ms with that, for an answer that could carry it: each task of a micro-batch stood still for so long. A
function that is unpickled has been read, and its input is awaited next: that is the moment to acknowledge. Decides on
which sockets: those to this machine. Must not know Spark. Without Linux, or over Unix sockets
(`spark.python.unix.domain.socket.enabled`), there is nothing to do.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from kavka_spark.worker_garbage import freeze_what_is_loaded

_DESCRIPTORS: Final = Path("/proc/self/fd")


class Acknowledging:
    """A reader or writer whose arrival at a worker acknowledges what brought it. With it, all code of a task is
    loaded that is loaded before there are rows."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge()
        freeze_what_is_loaded()


def acknowledge() -> None:
    """Acknowledges what has arrived, and lets small writes leave at once."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for each in _sockets(os.getpid()):
        _with_socket(each)


@cache
def _sockets(process: int) -> list[int]:
    """Descriptors of this process's sockets to the JVM. A worker has them for as long as it lives; of those that stand
    for one socket, which PySpark duplicates for each task, it is the lowest."""
    try:
        descriptors = sorted(int(each.name) for each in _DESCRIPTORS.iterdir())
    except OSError:
        return []
    found: dict[int, int] = {}
    for each in descriptors:
        if _with_socket(each):
            with suppress(OSError):  # Another thread may have closed it.
                found.setdefault(os.fstat(each).st_ino, each)
    return list(found.values())


def _with_socket(descriptor: int) -> bool:
    """Whether it is a TCP connection to this machine; then it is prompt from now on."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return False
    try:
        connection = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return False
    with connection, suppress(OSError):
        return _is_local(connection) and _made_prompt(connection)
    return False


def _is_local(connection: socket.socket) -> bool:
    """Raises OSError where it is connected to nobody."""
    if connection.type != socket.SOCK_STREAM or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    peer = ip_address(connection.getpeername()[0])
    return (getattr(peer, "ipv4_mapped", None) or peer).is_loopback


def _made_prompt(connection: socket.socket) -> bool:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    return True
