"""Which registered brokers answer: one that died a moment ago is registered until its session ends.

Decides how long a broker may take. Must not know which command asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster

BROKER_PATIENCE_S = 2.0
"""How long one broker may take to accept a connection and say which versions it speaks; then it does not answer."""


async def answers(cluster: Cluster, broker_id: int) -> bool:
    """Whether a connection to the broker stands."""
    from kavka.errors import KavkaError

    try:
        async with asyncio.timeout(BROKER_PATIENCE_S):
            await cluster.connection(broker_id)
    except (KavkaError, TimeoutError):
        return False
    return True


async def silent_brokers(cluster: Cluster, broker_ids: Collection[int]) -> list[int]:
    """Those that do not answer; all are asked at once."""
    found = await asyncio.gather(*(answers(cluster, broker_id) for broker_id in broker_ids))
    return sorted(broker_id for broker_id, answered in zip(broker_ids, found, strict=True) if not answered)
