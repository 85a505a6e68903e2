"""Patience: how long a request waits for ZooKeeper, until it is answered that ZooKeeper did not say.

Decides when the wait is over. Must not know what is asked of ZooKeeper. For requests that carry no time of their own:
users, access control lists, tokens, quotas, settings. Apache Kafka waits for as long as ZooKeeper is away; its clients
give up after 30 s (request.timeout.ms) and do not learn why.

    I1  all that one request asks of ZooKeeper has PATIENCE_S together; then nothing more is begun for it
    I2  what was under way is given up, and its outcome is unknown: it may have been written
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from kavka.zookeeper.port import OutcomeUnknown

PATIENCE_S: Final = 20.0
"""Longer than the sessions of most brokers (zookeeper.session.timeout.ms is 18 s), shorter than clients wait."""

T = TypeVar("T")


class Patience:
    """Of one request; its time begins now."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + PATIENCE_S

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives. Raises OutcomeUnknown where the time is over."""
        if self._loop.time() >= self._until:
            work.close()
            raise OutcomeUnknown(_LATE)
        try:
            async with asyncio.timeout_at(self._until):
                return await work
        except TimeoutError as late:
            raise OutcomeUnknown(_LATE) from late


_LATE: Final = f"ZooKeeper did not answer within {PATIENCE_S:.0f} s; see whether it runs, and what its log says"
