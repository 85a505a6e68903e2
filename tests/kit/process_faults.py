"""ProcessFaults: a disk that fails now and then or is slow, and a wall clock that steps, for one process only.

A library of a few functions stands before the C library (process_faults.c, compiled at the first use). It touches
reads, writes, syncs and truncations of files below one directory, and the wall clock; monotonic time goes on. The
orders lie in a file that the process maps, so that they change while it runs, and are kept over its restarts.

Needs a C compiler; without one NoProcessFaults says so in a sentence.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import mmap
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
BUILDS = Path(__file__).parents[2] / ".cache" / "process_faults"
MILLION = 1_000_000


class NoProcessFaults(Exception):
    """They cannot be had here; the message says why."""


class _Orders(ctypes.Structure):
    """As `struct orders` of the library."""

    _fields_ = [
        ("clock_offset_ns", ctypes.c_int64),
        ("error_per_million", ctypes.c_uint32),
        ("delay_per_million", ctypes.c_uint32),
        ("delay_us", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
        ("errors", ctypes.c_uint64),
        ("delays", ctypes.c_uint64),
    ]


def library() -> Path:
    """The compiled library. Raises NoProcessFaults."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    built = BUILDS / f"{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if built.exists():
        return built
    if compiler is None:
        raise NoProcessFaults("faults of single processes need a C compiler (cc)")
    BUILDS.mkdir(parents=True, exist_ok=True)
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            unfinished = built.with_suffix(f".{os.getpid()}")
            command = [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(unfinished), str(SOURCE), "-ldl"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NoProcessFaults(f"{SOURCE.name} cannot be compiled here: {done.stderr.strip()}")
            unfinished.replace(built)
    return built


class ProcessFaults:
    """None to begin with. `prefix` is put before the command of the process."""

    def __init__(self, file: Path, place: Path) -> None:
        """file: where the orders lie; made anew. place: the directory whose files are touched. Raises
        NoProcessFaults."""
        self._library = library()
        self._file, self._place = file.resolve(), place.resolve()
        self._file.write_bytes(bytes(ctypes.sizeof(_Orders)))
        with self._file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), ctypes.sizeof(_Orders))
        self._orders = _Orders.from_buffer(self._memory)

    @property
    def prefix(self) -> list[str]:
        return [
            "env",
            f"LD_PRELOAD={self._library}",
            f"PROCESS_FAULTS={self._file}",
            f"PROCESS_FAULTS_PLACE={self._place}",
        ]

    @property
    def errors(self) -> int:
        """Calls that failed with EIO so far."""
        return int(self._orders.errors)

    @property
    def delays(self) -> int:
        """Calls that were held up so far."""
        return int(self._orders.delays)

    def fail_disk(self, share: float) -> None:
        """That share of all calls on files of the place fails with EIO from now on."""
        self._orders.error_per_million = round(share * MILLION)

    def slow_disk(self, share: float, delay_s: float) -> None:
        """That share of all calls on files of the place takes so much longer from now on."""
        self._orders.delay_us = round(delay_s * MILLION)
        self._orders.delay_per_million = round(share * MILLION)

    def set_clock(self, offset_s: float) -> None:
        """The wall clock is so far ahead of the machine's, or behind it (negative), from now on."""
        self._orders.clock_offset_ns = round(offset_s * 1e9)

    def heal_disk(self) -> None:
        self.fail_disk(0)
        self.slow_disk(0, 0)
