"""Ports for brokers that are killed and come back on the same one.

They lie below the kernel's range for outgoing connections. A client that reconnects while a broker is down would else
now and then be given the broker's own port as its source port, connect to itself, and keep the broker out.
"""

from __future__ import annotations

import random
import socket

LOWEST, HIGHEST = 12_000, 31_000
ATTEMPTS = 1_000


def free_ports(host: str, count: int) -> list[int]:
    """This many ports on which nobody listens at the moment. Raises OSError."""
    found: list[int] = []
    for _ in range(ATTEMPTS):
        port = random.randrange(LOWEST, HIGHEST)
        if port not in found and _is_free(host, port):
            found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"found no {count} free ports between {LOWEST} and {HIGHEST}")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
