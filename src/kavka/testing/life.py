"""Life: whether the process that a broker plays is running, stopped (SIGSTOP) or dead (SIGKILL).

Everything through which a broker reaches the world (its disk, its network) asks its Life first. So a broker that was
killed reaches nothing any more, though its Python objects are still being taken apart, and one that is stopped does not
go on writing from a worker thread.

I1  A dead Life stays dead; a broker that is started again has another Life.
I2  `require` returns only to a life that runs: it waits while it is stopped, and raises when it is dead.
"""

from __future__ import annotations

import threading
import time


class Dead(BaseException):
    """The process has ended: nothing that follows has any effect.

    It is not an `Exception`, so that no broker handles it as a failure that it could survive.
    """


class Life:
    """Of one process that is played. Used from any thread."""

    def __init__(self) -> None:
        self._running = threading.Event()
        self._running.set()
        self._syncing = threading.Event()
        self._syncing.set()
        self.is_dead = False
        self.disk_delay_s = 0.0
        """How long each access to the disk takes, beyond what it takes anyway."""

    def stop(self) -> None:
        self._running.clear()

    def go_on(self) -> None:
        self._running.set()

    def end(self) -> None:
        self.is_dead = True
        self._running.set()
        self._syncing.set()

    def stall_syncs(self, *, stalled: bool) -> None:
        """Whether what waits for the disk itself waits until it is told otherwise."""
        if stalled:
            self._syncing.clear()
        else:
            self._syncing.set()

    def wait(self) -> None:
        """Returns when it is not stopped."""
        self._running.wait()

    def require(self) -> None:
        """Waits while it is stopped. Raises Dead."""
        if not self._running.is_set():
            self._running.wait()
        if self.is_dead:
            raise Dead

    def sync_disk(self) -> None:
        """As `use_disk`, and waits while syncs are stalled."""
        self.use_disk()
        if not self._syncing.is_set():
            self._syncing.wait()
            self.require()

    def use_disk(self) -> None:
        """As `require`, and takes the time of a slow disk."""
        self.require()
        if self.disk_delay_s:
            time.sleep(self.disk_delay_s)
            self.require()
