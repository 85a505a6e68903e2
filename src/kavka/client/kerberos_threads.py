"""The threads on which Kerberos' library waits for a KDC: clients have them beside those of their event loop.

The library waits for a KDC that does not answer longer than a connection does, and cannot be interrupted. On the loop's
own threads, which look up host names and check passwords, everything else would wait with it.

    I1  THREADS calls of a loop wait at a time; the others wait for them, and are not begun if their caller is gone
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

THREADS: Final = 4

Result = TypeVar("Result")

_pools: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor]] = WeakKeyDictionary()
"""By loop: a process that was forked has a loop of its own, and none of the threads."""


async def beside(call: Callable[[], Result]) -> Result:
    """What the call gives."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = ThreadPoolExecutor(THREADS, thread_name_prefix="kavka-tickets")
    return await loop.run_in_executor(pool, call)
