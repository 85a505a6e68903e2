"""Predecessor: the ZooKeeper session of the process that had these log directories before, and died.

Decides nothing: it writes down which session the broker has, and finds again what was written. A broker that was
killed leaves its znode to a session that lives on for its time-out, and another process may not take the broker's place
as long as that could be alive. But whoever holds the lock of its log directory and listens where it listened knows that
it is not.

    .kavka_session    session id in hexadecimal and the place that it was held from, in each log directory

A place is where no two processes can listen on one port: a network namespace of one running system. Elsewhere (another
host or container, whatever it is called) the same address proves nothing, and a copy of the directory has its own lock.

I1  It is read only after the directory was locked, and written only by who holds the lock.
I2  A session of another place, or of one that is not known, is none that is known to be over.
I3  It is a hint, not a fact to be relied on alone (registration.py asks for more).
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.errors import StorageError
from kavka.filesystem import FileSystem
from kavka.logger import Logger

logger = Logger(__name__)

SESSION_FILE = ".kavka_session"


def former_sessions(filesystem: FileSystem, directories: Iterable[str], place: str) -> list[int]:
    """Sessions of the processes that had these directories in this place, as far as they can be read."""
    found = []
    for directory in directories:
        try:
            session, *places = filesystem.read(f"{directory}/{SESSION_FILE}").decode().split()
            session_id = int(session, 16)
        except (FileNotFoundError, StorageError, ValueError):
            continue  # Without it the former registration is waited for.
        if place and places == [place] and session_id not in found:
            found.append(session_id)
    return found


def remember_session(filesystem: FileSystem, directories: Iterable[str], session_id: int, place: str) -> None:
    """Writes down the broker's session, without waiting for the disk: after a power cut it is over anyway."""
    for directory in directories:
        try:
            content = f"{session_id:x} {place}\n".encode()
            filesystem.write_atomically(f"{directory}/{SESSION_FILE}", content, durable=False)
        except StorageError as failure:
            logger.warning("session not written down", why=str(failure))
