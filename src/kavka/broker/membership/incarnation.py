"""Predecessor: the process that had these log directories before, and died: its session, and what its logs may lack.

A broker that was killed leaves its znode to a session that lives on for its time-out, and another process may not take
the broker's place as long as that could be alive. But whoever holds the lock of its log directory and listens where it
listened knows that it is not. And what a killed process wrote is not lost as long as the system runs on which it wrote:
only where the power failed, or the directory was moved to another machine, may the logs lack what was not synced.

    .kavka_session    in each log directory: the session id in hexadecimal, the place that it was held from, the broker
                      epoch, and "whole" or "lost": whether that life's logs may have lacked something

A place is where no two processes can listen on one port: a network namespace of one running system, SYSTEM/NAMESPACE.
Elsewhere (another host or container, whatever it is called) the same address proves nothing, and a copy of the
directory has its own lock. The same system after a restart of it is another one.

I1  It is read only after the directory was locked, and written only by who holds the lock.
I2  A session of another place, or of one that is not known, is none that is known to be over.
I3  A session is a hint, not a fact to be relied on alone (registration.py asks for more).
I4  What may be lost is said until the controller acted on it, however often the broker is stopped or killed meanwhile.
    A directory that failed may lack what it was given, whether the system runs on or not: that is said, too
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
"""A broker epoch for which no controller acts on a loss: it is said again in the next life."""
_WHOLE, _LOST = "whole", "lost"


class FormerLife(NamedTuple):
    """What was written down of a process. `may_lack`: its logs may have lacked what an earlier one had written."""

    session_id: int
    place: str
    broker_epoch: int
    may_lack: bool


def present_life(
    session_id: int, place: str, broker_epoch: int, *, is_unclean: bool, has_failed_directory: bool
) -> FormerLife:
    """What is to be written down of this process (I4), however often it registers anew."""
    epoch = NEVER_ACTED_ON if has_failed_directory else broker_epoch
    return FormerLife(session_id, place, epoch, is_unclean or has_failed_directory)


def former_lives(filesystem: FileSystem, directories: Iterable[str]) -> list[FormerLife | None]:
    """For each directory the process that had it; None where that cannot be read."""
    return [_read(filesystem, f"{directory}/{SESSION_FILE}") for directory in directories]


def _read(filesystem: FileSystem, path: str) -> FormerLife | None:
    try:
        session, place, epoch, state = filesystem.read(path).decode().split()
        if state not in (_WHOLE, _LOST):
            return None
        return FormerLife(int(session, 16), "" if place == "-" else place, int(epoch), state == _LOST)
    except (FileNotFoundError, StorageError, ValueError):
        return None


def sessions_from(lives: Iterable[FormerLife | None], place: str) -> list[int]:
    """Sessions of the processes that had the directories in this place."""
    found = [life.session_id for life in lives if life is not None and place and life.place == place]
    return list(dict.fromkeys(found))


def lost_nothing(lives: Sequence[FormerLife | None], place: str) -> bool:
    """Whether all of them wrote on the system that runs now."""
    system = _system(place)
    return bool(lives and system) and all(life is not None and _system(life.place) == system for life in lives)


def has_untold_loss(lives: Iterable[FormerLife | None], acted_on: int) -> bool:
    """Whether one may have lacked something, and no controller acted on that (I4). `acted_on` is the broker epoch for
    which one did last."""
    lacking = [life.broker_epoch for life in lives if life is not None and life.may_lack]
    return any(epoch == NEVER_ACTED_ON or epoch != acted_on for epoch in lacking)


def remember_life(filesystem: FileSystem, directories: Iterable[str], life: FormerLife) -> None:
    """Writes the broker's life down. One that lacks nothing does not wait for the disk: after a power cut it says
    nothing anyway."""
    state = _LOST if life.may_lack else _WHOLE
    content = f"{life.session_id:x} {life.place or '-'} {life.broker_epoch} {state}\n".encode()
    for directory in directories:
        try:
            filesystem.write_atomically(f"{directory}/{SESSION_FILE}", content, durable=life.may_lack)
        except StorageError as failure:
            logger.warning("session not written down", why=str(failure))


def _system(place: str) -> str:
    return place.partition("/")[0]
