"""The event loop of a broker, and the room for its descriptors.

What it decides: which loop runs (uvloop where it is installed, else asyncio's) and how many files the process may open.
It must not know what runs on the loop.

For the broker's sockets both loops do the same work, since they only watch descriptors: 1.9 and 2.1 us of CPU for each
of many small requests in flight, 12 and 11 us for one at a time, 17 to 19 us there and back (medians of
benchmarks/network_micro.py, CPython 3.11 on 2 shared cores). uvloop is cheaper in timers and tasks.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")

MOST_OPEN_SEGMENTS = 8192
"""Segments whose files are kept open; what lies behind the page cache is read no faster with more."""
OTHER_FILES = 64
"""Descriptors for listeners, locks, checkpoints, snapshots, the embedded ZooKeeper and the interpreter itself."""

_UNLIMITED = 2**31 - 1
LOOP_VARIABLE = "KAVKA_LOOP"
"""Environment variable: `asyncio` or `uvloop`; without it uvloop where it is installed."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop that nobody runs yet. Raises ValueError where the variable asks for something else than the two."""
    wanted = os.environ.get(LOOP_VARIABLE, "")
    if wanted not in ("", "asyncio", "uvloop"):
        raise ValueError(f"{LOOP_VARIABLE}={wanted}: expected asyncio or uvloop")
    if wanted != "asyncio":
        try:
            import uvloop
        except ImportError:
            if wanted:
                raise
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()


class FileShares(NamedTuple):
    """How many of the process's descriptors may be connections, and how many segments of logs."""

    connections: int
    segments: int


def share_files(limit: int) -> FileShares:
    """Shares out `limit` descriptors, so that connections can never take those that the logs need.

    A log that cannot open a file takes its directory offline: without shares, a thousand clients would stop a broker
    whose limit is 1,024.
    """
    free = max(limit - OTHER_FILES, 2)
    segments = min(MOST_OPEN_SEGMENTS, free // 2)
    return FileShares(free - segments, segments)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs `main` to its end on a new loop, as asyncio.run does.

    Its result is not that of the runner's task: where the runner gives SIGINT back, the interpreter writes that task
    out with all of its result, and throws it away. Of a cluster with many partitions that is a long one.
    """
    results: list[Result] = []

    async def keep() -> None:
        results.append(await main)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(keep())
    return results[0]


def raise_file_limit() -> int:
    """Lets the process open as many files as the system allows it; returns how many those are.

    A broker holds three files for each segment it reads and one for each connection; the usual soft limit of 1,024
    is gone with a few hundred partitions.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else _UNLIMITED
