"""Late: a part of the broker that is made, and whose modules are imported, with its first use.

Decides nothing. Most brokers start before anyone asks for a group or a transaction, and many never serve one: a start
pays neither the time nor the memory for what it does not need. Which parts are late:

    | part                     | made with                                                                         |
    |--------------------------|-----------------------------------------------------------------------------------|
    | groups                   | the first order about the offsets topic, or the first request about a group       |
    | transactions             | the first order about the transactions topic, or the first request about one      |
    | states of share groups   | the first order about the topic of their states, or the first request about one   |
    | share groups' records    | the first ShareFetch or ShareAcknowledge                                          |
    | streams groups' topics,  | the first heartbeat of a group whose internal topics are missing, the first       |
    | and a census of groups   | downgrade of a feature                                                            |
    | moves of logs            | the first AlterReplicaLogDirs                                                     |
    | searches by time         | the first ListOffsets with a timestamp, or share group that begins at one         |
    | telemetry of clients     | the first ApiVersions                                                             |
    | who writes and reads     | the first Produce, Fetch of a consumer, or ShareFetch                             |
    | quotas of clients        | the first quota that is set for a user or a client id                             |
    | traces of requests       | the first slow request, or the first one of the sample                            |
    | a cleaner's pass         | the first log that is compacted (`upkeep/log_cleaner.py`)                         |
    | an API's handler         | the first request of the API (`api/loader.py`)                                    |
    | a ZooKeeper, or a client | the settings say which of the two a broker needs (`runtime/server.py`)            |

The import stands in the function that makes the part, and nowhere else; a module that only names the part's type
imports it under TYPE_CHECKING. `tests/integration/broker/test_imports_of_a_start.py` counts what a start imports.

    I1  code that visits a part on a timer or at the end uses `made`, so that it does not make a part that nobody used
    I2  making a part reads no clock, starts no task and draws nothing, so the moment does not matter
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Late(Generic[_T_co]):
    """Called, it returns the part; `make` makes it in the first call.

    `made` is the part if it was made, else None. It is to be read only, and no property: every request reads one.
    """

    __slots__ = ("_make", "made")

    def __init__(self, make: Callable[[], _T_co]) -> None:
        self._make = make
        self.made: _T_co | None = None

    def __call__(self) -> _T_co:
        if self.made is None:
            self.made = self._make()
        return self.made


async def every(interval_ms: int, late: Late[_T], work: Callable[[_T], Awaitable[None]]) -> None:
    """Runs `work` on the part every `interval_ms` once it is made, until cancelled."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        part = late.made
        if part is not None:
            await work(part)
