"""Ports: sockets bound to an address, and why one cannot be.

Decides why an address cannot be listened on, and which process has it. A port may be taken for a moment only: the
kernel gives clients' outgoing connections ports of its own choice, a broker's among them, so that binding is tried
again for PATIENCE_S. Must not know what listens.

Source: proc(5) for /proc/net/tcp: local address (hexadecimal, each word in the machine's order), state, user, inode.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

from kavka.errors import AddressProblem, AddressUnavailable

PATIENCE_S: Final = 1.0
"""How long a port that is taken is tried again."""
RETRY_S: Final = 0.05
SHOWN_COMMAND: Final = 60
"""Signs of a process's command line that are shown."""
_TIME_WAIT, _LISTEN = "06", "0A"
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_ANY: Final = ("0.0.0.0", "::")

Result = TypeVar("Result")


def listen(
    host: str, port: int, *, backlog: int, what: str = "", prepare: Callable[[socket.socket], None] | None = None
) -> socket.socket:
    """A socket that listens on `host` (a name or address; empty for all addresses) and `port` (0 for a free one).

    What `prepare` sets on it, connections inherit. `what` listens there says the error. Raises AddressUnavailable.
    """
    try:
        bound = _bound(host, port)
        try:
            if prepare is not None:
                prepare(bound)
            bound.listen(backlog)  # Where another socket was bound as well, this is what fails.
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
    except (socket.gaierror, UnicodeError) as error:  # the latter for a name with an empty or too long part
        why = str(getattr(error, "strerror", "no name of a host"))
        raise AddressUnavailable(AddressProblem.UNRESOLVED, host, port, why, what=what) from error
    except OSError as error:
        problem = _PROBLEMS.get(error.errno or 0, AddressProblem.OTHER)
        raise AddressUnavailable(problem, host, port, error.strerror or str(error), what=what) from error
    return bound


_PROBLEMS: Final = {
    errno.EADDRINUSE: AddressProblem.TAKEN,
    errno.EADDRNOTAVAIL: AddressProblem.NOT_OURS,
    errno.EACCES: AddressProblem.FORBIDDEN,
}


async def patiently(attempt: Callable[[], Result]) -> Result:
    """What `attempt` returns; tried again while a port is taken. Raises AddressUnavailable, with who has the port."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return attempt()
        except AddressUnavailable as refused:
            _raise_at_the_end(refused, until)
        await asyncio.sleep(RETRY_S)


def require_free(host: str, port: int, *, what: str = "") -> None:
    """Raises AddressUnavailable, with who has the port, unless it can be bound within PATIENCE_S. Blocks."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            listen(host, port, backlog=1, what=what).close()
            return
        except AddressUnavailable as refused:
            _raise_at_the_end(refused, until)
        time.sleep(RETRY_S)


def reserve(host: str) -> socket.socket:
    """A socket that keeps a free port: it is bound and does not listen. While it is open the kernel gives the port to
    nobody of its own choice, neither for port 0 nor for an outgoing connection. Whoever binds it by its number and with
    SO_REUSEADDR, as `listen` does, may listen there. Raises AddressUnavailable."""
    try:
        return _bound(host, 0)
    except OSError as error:
        problem = _PROBLEMS.get(error.errno or 0, AddressProblem.OTHER)
        raise AddressUnavailable(problem, host, 0, error.strerror or str(error)) from error


def listen_or_elsewhere(host: str, port: int, *, elsewhere: bool, backlog: int, what: str) -> socket.socket:
    """A socket that listens there; with `elsewhere` on any port where that one is taken. Raises AddressUnavailable."""
    if not elsewhere:
        require_free(host, port, what=what)
    try:
        return listen(host, port, backlog=backlog, what=what)
    except AddressUnavailable as refused:
        if not elsewhere or refused.problem is not AddressProblem.TAKEN:
            raise
        return listen(host, 0, backlog=backlog, what=what)


def _raise_at_the_end(refused: AddressUnavailable, until: float) -> None:
    if refused.problem is not AddressProblem.TAKEN:
        raise refused
    if time.monotonic() >= until:
        raise refused.held_by(holder(refused.host, refused.port)) from refused


def _bound(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        try:
            return _bind(socket.AF_INET6, "::", port, both=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
            # The kernel knows IPv6 but has no address of it.
    if not host:
        return _bind(socket.AF_INET, "0.0.0.0", port)
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return _bind(family, str(address[0]), port)


def _bind(family: socket.AddressFamily, host: str, port: int, *, both: bool = False) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


# -- who has a port


class _Socket(NamedTuple):
    address: str
    peer: str
    state: str
    user: int
    inode: str


def holder(host: str, port: int) -> str:
    """Who has the port, as words that go on after "port N is taken: "; empty where the system does not tell."""
    found = [each for each in _sockets_on(port) if each.state != _TIME_WAIT and _meet(each.address, host)]
    if not found:
        return ""
    listening = next((each for each in found if each.state == _LISTEN), None)
    taken = listening or found[0]
    who = _process_of(taken.inode) or f"a process of {_user(taken.user)}"
    if listening is not None:
        return f"{who} listens there"
    return f"{who} has a connection to {taken.peer} from it"


def _sockets_on(port: int) -> Iterator[_Socket]:
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            address, local_port = fields[1].split(":")
            if int(local_port, 16) == port:
                peer, peer_port = fields[2].split(":")
                yield _Socket(
                    _address(address), f"{_address(peer)}:{int(peer_port, 16)}", fields[3], int(fields[7]), fields[9]
                )


def _address(text: str) -> str:
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    packed = b"".join(words)
    shown = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
    return shown.removeprefix("::ffff:")


def _meet(address: str, host: str) -> bool:
    """Whether a socket on `address` keeps another one from `host`."""
    if address in _ANY or host in ("", *_ANY):
        return True
    try:
        return address in {found[4][0] for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return False


def _process_of(inode: str) -> str:
    """`process 4711 (kavka up)`; empty where it is not ours to see."""
    wanted = f"socket:[{inode}]"
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            for descriptor in os.scandir(f"/proc/{name}/fd"):
                if os.readlink(descriptor.path) == wanted:
                    return f"process {name} ({_command(name)})"
        except OSError:
            continue  # Another user's, or it has just ended.
    return ""


def _command(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return "ended"
    if os.path.basename(words[0]).startswith("python") and len(words) > 1:
        if words[1] == "-m":
            words = words[2:]
        elif not words[1].startswith("-"):
            words = words[1:]
    words[0] = os.path.basename(words[0])
    text = " ".join(words)
    return text if len(text) <= SHOWN_COMMAND else f"{text[:SHOWN_COMMAND]}..."


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
