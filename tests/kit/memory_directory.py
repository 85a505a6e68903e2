"""Directories for tests that sync thousands of small files and ask nothing of a real disk.

The code under test writes and syncs as always. On a disk that other programs write to, one sync may take minutes, and
a test of many examples would show how busy the machine is. In memory it takes none.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")


def memory_directory(prefix: str) -> Path:
    """A new, empty directory, in memory where the system has room there; whoever asks for it removes it."""
    in_memory = _IN_MEMORY.is_dir() and os.access(_IN_MEMORY, os.W_OK)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_IN_MEMORY if in_memory else None))


@contextmanager
def in_memory(prefix: str) -> Iterator[Path]:
    """Such a directory for as long as the block runs."""
    directory = memory_directory(prefix)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
