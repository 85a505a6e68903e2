"""Incarnation: a process that had these log directories before this one: its session, and what its logs may lack.

When a broker is killed, its session keeps its znode until the time-out, and another process may not take the broker's
place while the killed one could be alive. But a process that holds the lock of the log directory and listens on the
same ports knows that the other one is dead. And a killed process loses nothing that it wrote while its system runs on:
the logs may lack unsynced records only after a power failure, or in a directory that was moved to another machine.

    .kavka_session    in each log directory: the session id in hexadecimal, the place where the process ran, the broker
                      epoch, and "whole" or "lost": whether the logs of that process may have lacked something

A place is where no two processes can listen on one port: a network namespace of one running system, SYSTEM/NAMESPACE.
On another host or in another container the same address proves nothing, and a copy of the directory has its own lock. A
system that was restarted counts as another one.

I1  The file is read only after the directory was locked, and written only by the process that holds the lock.
I2  A session of another place, or of an unknown one, is never treated as over.
I3  A session is a hint, not a fact to be relied on alone (registration.py asks for more).
I4  A possible loss is reported until the controller has acted on it, even if the broker is stopped or killed meanwhile.
    A directory that failed may lack records even if the system runs on: that is reported, too
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.errors import StorageError
from kavka.filesystem import FileSystem
from kavka.logger import Logger

logger = Logger(__name__)

SESSION_FILE = ".kavka_session"
NEVER_ACTED_ON = -1
"""A broker epoch for which no controller acts on a loss: the next process reports the loss again."""
_WHOLE, _LOST = "whole", "lost"


class Incarnation(NamedTuple):
    """What is saved about one process. `may_lack`: its logs may have lacked records of an earlier process."""

    session_id: int
    place: str
    broker_epoch: int
    may_lack: bool


def present_incarnation(
    session_id: int, place: str, broker_epoch: int, *, is_unclean: bool, has_failed_directory: bool
) -> Incarnation:
    """What this process saves about itself (I4), also when it registers again."""
    epoch = NEVER_ACTED_ON if has_failed_directory else broker_epoch
    return Incarnation(session_id, place, epoch, is_unclean or has_failed_directory)


def former_incarnations(filesystem: FileSystem, directories: Iterable[str]) -> list[Incarnation | None]:
    """For each directory the process that had it last; None if that cannot be read."""
    return [_read(filesystem, f"{directory}/{SESSION_FILE}") for directory in directories]


def _read(filesystem: FileSystem, path: str) -> Incarnation | None:
    try:
        session, place, epoch, state = filesystem.read(path).decode().split()
        if state not in (_WHOLE, _LOST):
            return None
        return Incarnation(int(session, 16), "" if place == "-" else place, int(epoch), state == _LOST)
    except (FileNotFoundError, StorageError, ValueError):
        return None


def sessions_from(former: Iterable[Incarnation | None], place: str) -> list[int]:
    """Sessions of the processes that had the directories in this place."""
    found = [one.session_id for one in former if one is not None and place and one.place == place]
    return list(dict.fromkeys(found))


def lost_nothing(former: Sequence[Incarnation | None], place: str) -> bool:
    """True if all of them ran on the system that runs now."""
    system = _system(place)
    return bool(former and system) and all(one is not None and _system(one.place) == system for one in former)


def has_unreported_loss(former: Iterable[Incarnation | None], acted_on: int) -> bool:
    """True if logs may have lacked records and no controller has acted on it (I4). `acted_on` is the broker epoch for
    which a controller acted last."""
    lacking = [one.broker_epoch for one in former if one is not None and one.may_lack]
    return any(epoch == NEVER_ACTED_ON or epoch != acted_on for epoch in lacking)


def remember(filesystem: FileSystem, directories: Iterable[str], incarnation: Incarnation) -> None:
    """Saves an incarnation. If its logs lack nothing, this does not wait for the disk: after a power cut it proves
    nothing anyway."""
    state = _LOST if incarnation.may_lack else _WHOLE
    content = f"{incarnation.session_id:x} {incarnation.place or '-'} {incarnation.broker_epoch} {state}\n".encode()
    for directory in directories:
        try:
            filesystem.write_atomically(f"{directory}/{SESSION_FILE}", content, durable=incarnation.may_lack)
        except StorageError as failure:
            logger.warning("session not saved", why=str(failure))


def _system(place: str) -> str:
    return place.partition("/")[0]
