"""Sessions of a ZooKeeper server: who is connected, until when each session lasts, and which are over.

Decides when a session has expired. What goes with it (its ephemeral nodes, its watches) is the tree's.

    I1  a session lasts until `deadline_ms`, which each sign of life puts off by its time-out
    I2  ids rise, and none comes again after a restart: they start from the time

Source: ZooKeeper's SessionTrackerImpl, which rounds deadlines up to its tick; here they are exact.
"""

from __future__ import annotations

import hmac

from kavka.zookeeper.decide.access_control import Identity
from kavka.zookeeper.port import SessionExpired


class Session:
    """A client's session. It expires when `deadline_ms` (of a monotonic clock) passes without a `touch`."""

    __slots__ = ("deadline_ms", "ephemerals", "identities", "password", "session_id", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, password: bytes, deadline_ms: int) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.password = password
        self.deadline_ms = deadline_ms
        self.ephemerals: set[str] = set()
        self.identities: tuple[Identity, ...] = ()

    def touch(self, monotonic_ms: int) -> None:
        """It was heard of."""
        self.deadline_ms = monotonic_ms + self.timeout_ms


class Sessions(dict[int, Session]):
    """Open sessions by id, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.last_id = 0

    def new_id(self, now_ms: int) -> int:
        """The id of a session that begins now (I2)."""
        return max(self.last_id + 1, (now_ms << 16) & ((1 << 56) - 1))

    def open(self, session_id: int, timeout_ms: int, password: bytes, deadline_ms: int) -> None:
        self[session_id] = Session(session_id, timeout_ms, password, deadline_ms)
        self.last_id = max(self.last_id, session_id)

    def require(self, session_id: int) -> Session:
        """The session. Raises SessionExpired."""
        session = self.get(session_id)
        if session is None:
            raise SessionExpired(detail=f"session {session_id:#x}")
        return session

    def resume(self, session_id: int, password: bytes, monotonic_ms: int) -> int:
        """A client came back on another connection. Returns its time-out; raises SessionExpired, also for a wrong
        password."""
        session = self.require(session_id)
        if not hmac.compare_digest(session.password, password):
            raise SessionExpired(detail=f"session {session_id:#x}")
        session.touch(monotonic_ms)
        return session.timeout_ms

    def put_off(self, late_ms: int) -> None:
        """Nobody was listened to for so long: each has so much more time."""
        for session in self.values():
            session.deadline_ms += late_ms

    def overdue(self, monotonic_ms: int) -> list[int]:
        """Ids of those whose time is over, oldest first."""
        return [session.session_id for session in self.values() if session.deadline_ms <= monotonic_ms]
