"""MemoryPressure: a process that gets hardly more memory than it has, for a while, in a control group of its own.

Its part of the page cache goes first: it reads from disk what it had read before, and its writes wait for the disk. If
it needs more for itself, or writes more to files in memory, the kernel kills it. Kernels since 6.13 leave what it has
with its former group.

Control groups of version 1 only, as root: version 2 wants processes at the leaves of a tree that somebody else owns.

I1  After `lift` the process is where it was, and its group is gone.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup/memory")
MARGIN_BYTES = 32 << 20
"""More than it has, so that not each allocation is its last."""
ALL_CHARGES = "3"
"""Pages that it has already move with it: its own and those of files."""
GONE_S = 2.0


def why_not() -> str:
    """Why memory cannot be pressed here; empty if it can."""
    if not (ROOT / "memory.limit_in_bytes").exists():
        return f"{ROOT} has no memory control groups of version 1"
    return "" if os.access(ROOT, os.W_OK) else f"{ROOT} cannot be written"


class MemoryPressure:
    """Of one process at a time."""

    def __init__(self, pid: int) -> None:
        """Raises OSError: the process has gone, or groups cannot be made."""
        self._pid = pid
        self._before = ROOT / _group_of(pid).lstrip("/")
        self._group = ROOT / f"kavka-pressure-{os.getpid()}-{pid}"
        self._group.mkdir()
        try:
            with suppress(OSError):
                (self._group / "memory.move_charge_at_immigrate").write_text(ALL_CHARGES)
            (self._group / "cgroup.procs").write_text(str(pid))
            self.limit_bytes = self._own_bytes() + MARGIN_BYTES
            (self._group / "memory.limit_in_bytes").write_text(str(self.limit_bytes))
        except OSError:
            self.lift()
            raise

    @property
    def used_bytes(self) -> int:
        """Its own memory and its part of the page cache."""
        return int((self._group / "memory.usage_in_bytes").read_text())

    def lift(self) -> None:
        """Ends it, whether or not the process lives."""
        (self._group / "memory.limit_in_bytes").write_text("-1")
        deadline = time.monotonic() + GONE_S
        while True:
            for pid in (self._group / "cgroup.procs").read_text().split():
                try:
                    (self._before / "cgroup.procs").write_text(pid)
                except ProcessLookupError:
                    continue  # It ends just now.
            try:
                self._group.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def _own_bytes(self) -> int:
        for line in (self._group / "memory.stat").read_text().splitlines():
            name, number = line.split()
            if name == "rss":
                return int(number)
        raise OSError(f"{self._group} does not say how much its processes have")


def _group_of(pid: int) -> str:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return path
    raise OSError(f"process {pid} is in no memory control group")
