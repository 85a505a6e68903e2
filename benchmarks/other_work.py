"""What processes that do not belong to a run took of the processor meanwhile: whether the machine was quiet.

The load average does not tell: two candidates with their clients keep both cores busy by themselves.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path


class OtherWork:
    """Counts from its making. A child of the run counts as its own once it has ended and was waited for."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()
        self._others_s = _of_all_s() - _of_this_run_s()

    def percent_of_a_core(self) -> float:
        """The mean since the start; to be asked when the run's children have ended."""
        return max(0.0, 100 * self.others_s() / (time.monotonic() - self._started_at))

    def others_s(self) -> float:
        """Seconds of processor time since the start."""
        return _of_all_s() - _of_this_run_s() - self._others_s


def _of_all_s() -> float:
    """User, nice and system time of the machine. Time in interrupts belongs to nobody, and is left out."""
    ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _of_this_run_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
