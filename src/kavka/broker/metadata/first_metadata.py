"""FirstMetadata: what a broker that has just started does with clients that ask about the cluster.

Until the controller has sent it the cluster's metadata, a broker knows of no brokers and no topics. A client believes
such an answer: librdkafka 2.16 then forgets every broker it knew, also those in its configuration, and never asks
again. Apache Kafka 3.9 answers so with ZooKeeper; with KRaft it serves nobody before it knows the cluster. Here such a
client waits for a moment. Then its connection is closed, and it asks another broker or tries again.
"""

from __future__ import annotations

import asyncio
from typing import Final

METADATA_PATIENCE_S: Final = 2.0
"""How long a client waits that asks about a cluster of which this broker knows nothing yet."""


class FirstMetadata:
    """`informed` is set when the controller has sent the cluster's metadata."""

    def __init__(self, informed: asyncio.Event) -> None:
        self._informed = informed

    @property
    def is_there(self) -> bool:
        """Whether the broker was informed of the cluster."""
        return self._informed.is_set()

    async def wait(self) -> bool:
        """Waits up to METADATA_PATIENCE_S for the cluster's metadata. Returns whether it came."""
        return await self.wait_for(METADATA_PATIENCE_S)

    async def wait_for(self, timeout_s: float) -> bool:
        """Waits up to `timeout_s` for the cluster's metadata, without which no broker can be named to clients. Returns
        whether it came."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._informed.wait()
        except TimeoutError:
            return False
        return True
