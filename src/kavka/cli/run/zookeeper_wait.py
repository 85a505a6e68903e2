"""What a start says while it waits for ZooKeeper: where, and how to go on. A broker asks for as long as
zookeeper.connection.timeout.ms (18 s) before it gives up.

Decides after how long it is said: FIRST_LOOK_S. A quick start says nothing. A broker whose ZooKeeper was started beside
it (STARTED_BESIDE) does not, either: whoever started both says what fails. Must not know the session: it looks whether
anything takes connections there.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kavka.cli.output import note

FIRST_LOOK_S = 1.0
CONNECT_S = 0.5
DEFAULT_PORT = 2181
STARTED_BESIDE = "KAVKA_ZOOKEEPER_STARTED_BESIDE"
"""The variable that `kavka up --processes` sets for its brokers."""


@contextmanager
def said_while_waiting(connect: str) -> Iterator[None]:
    """Within, says once that ZooKeeper does not answer at `connect` (the setting zookeeper.connect)."""
    if STARTED_BESIDE in os.environ:
        yield
        return
    is_over = threading.Event()
    threading.Thread(target=_look, args=(connect, is_over), name="zookeeper-wait", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def _look(connect: str, is_over: threading.Event) -> None:
    if is_over.wait(FIRST_LOOK_S):
        return
    hosts = connect.partition("/")[0]
    if not any(_answers(each.strip()) for each in hosts.split(",")) and not is_over.is_set():
        note(f"Waiting for ZooKeeper at {hosts} (zookeeper.connect): nothing takes connections there.")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not host:
        host, port = address, str(DEFAULT_PORT)
    with suppress(OSError, ValueError):
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        return True
    return False
