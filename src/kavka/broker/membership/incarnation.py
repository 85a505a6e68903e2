"""Incarnation: a process that had these log directories before this one: its session, and what its logs may lack.

A broker that was killed leaves its znode to a session that lives on for its time-out, and another process may not take
the broker's place as long as the killed one could be alive. But a process that holds the lock of the log directory and
listens on the same ports knows that the other one is dead. And what a killed process wrote is not lost as long as the
system runs on which it wrote: only where the power failed, or the directory was moved to another machine, may the logs
lack what was not synced.

    .kavka_session    in each log directory: the session id in hexadecimal, the place where the process ran, the broker
                      epoch, and "whole" or "lost": whether the logs of that process may have lacked something

A place is where no two processes can listen on one port: a network namespace of one running system, SYSTEM/NAMESPACE.
Elsewhere (another host or container, whatever it is called) the same address proves nothing, and a copy of the
directory has its own lock. The same system after its restart is another one.

I1  The file is read only after the directory was locked, and written only by the process that holds the lock.
I2  A session of another place, or of an unknown one, is never treated as over.
I3  A session is a hint, not a fact to be relied on alone (registration.py asks for more).
I4  A possible loss is reported until the controller has acted on it, however often the broker is stopped or killed
    meanwhile. A directory that failed may lack what was written to it, whether the system runs on or not: that is
    reported, too
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
    """What is written down of one process. `may_lack`: its logs may have lacked what an earlier process had written."""

    session_id: int
    place: str
    broker_epoch: int
    may_lack: bool


def present_incarnation(
    session_id: int, place: str, broker_epoch: int, *, is_unclean: bool, has_failed_directory: bool
) -> Incarnation:
    """What this process writes down of itself (I4), however often it registers anew."""
    epoch = NEVER_ACTED_ON if has_failed_directory else broker_epoch
    return Incarnation(session_id, place, epoch, is_unclean or has_failed_directory)


def former_incarnations(filesystem: FileSystem, directories: Iterable[str]) -> list[Incarnation | None]:
    """For each directory the process that had it last; None where that cannot be read."""
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
    """Whether all of them wrote on the system that runs now."""
    system = _system(place)
    return bool(former and system) and all(one is not None and _system(one.place) == system for one in former)


def has_unreported_loss(former: Iterable[Incarnation | None], acted_on: int) -> bool:
    """Whether logs may have lacked something on which no controller has acted (I4). `acted_on` is the broker epoch for
    which a controller acted last."""
    lacking = [one.broker_epoch for one in former if one is not None and one.may_lack]
    return any(epoch == NEVER_ACTED_ON or epoch != acted_on for epoch in lacking)


def remember(filesystem: FileSystem, directories: Iterable[str], incarnation: Incarnation) -> None:
    """Writes an incarnation down. One whose logs lack nothing does not wait for the disk: after a power cut it proves
    nothing anyway."""
    state = _LOST if incarnation.may_lack else _WHOLE
    content = f"{incarnation.session_id:x} {incarnation.place or '-'} {incarnation.broker_epoch} {state}\n".encode()
    for directory in directories:
        try:
            filesystem.write_atomically(f"{directory}/{SESSION_FILE}", content, durable=incarnation.may_lack)
        except StorageError as failure:
            logger.warning("session not written down", why=str(failure))


def _system(place: str) -> str:
    return place.partition("/")[0]
