"""TransactionReader: a cluster's open transactions, and those that hang, a piece at a time.

Decides how many partitions one round asks about (`PARTITIONS_PER_ROUND`; all of them in turn) and how many transactions
it looks into. Must not know what is made of a hanging one.

Source: KIP-664; kavka.client.transaction_admin says when a transaction hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.client.cluster import Cluster
from kavka.client.transaction_admin import TransactionAdmin
from kavka.model import TopicPartition
from kavka.observe.snapshot import TransactionView

OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
PARTITIONS_PER_ROUND: Final = 500
MAX_DESCRIBED: Final = 100
PATIENCE_S: Final = 8.0


class TransactionReader:
    """Goes through the partitions of one cluster, some at each `read`."""

    def __init__(self, cluster: Cluster) -> None:
        self._admin = TransactionAdmin(cluster)
        self._next = 0
        self._hanging: dict[TopicPartition, list[TransactionView]] = {}

    async def read(self, by_leader: Mapping[int, Sequence[TopicPartition]], now_ms: int) -> tuple[TransactionView, ...]:
        """The transactions that are open, and those that hang as far as the partitions have been looked at.

        Raises KavkaError, TimeoutError.
        """
        async with asyncio.timeout(PATIENCE_S):
            listed = await self._admin.list_transactions(states=OPEN_STATES)
            found = []
            for each in listed[:MAX_DESCRIBED]:
                shown = await self._admin.describe(each.transactional_id)
                found.append(
                    TransactionView(
                        each.transactional_id,
                        each.producer_id,
                        shown.state,
                        each.coordinator,
                        shown.started_ms,
                        shown.timeout_ms,
                        tuple(shown.partitions),
                    )
                )
            await self._look_for_hanging(sorted(p for led in by_leader.values() for p in led), now_ms)
        return (*found, *(each for some in self._hanging.values() for each in some))

    async def _look_for_hanging(self, partitions: Sequence[TopicPartition], now_ms: int) -> None:
        if self._next >= len(partitions):
            self._next = 0
        some = partitions[self._next : self._next + PARTITIONS_PER_ROUND]
        self._next += PARTITIONS_PER_ROUND
        hanging: dict[TopicPartition, list[TransactionView]] = {}
        for producer in await self._admin.find_hanging(some, now_ms=now_ms):
            hanging.setdefault(producer.partition, []).append(
                TransactionView(
                    "",
                    producer.producer_id,
                    "hangs",
                    -1,
                    producer.last_timestamp_ms,
                    -1,
                    (producer.partition,),
                    hangs=True,
                )
            )
        there = set(partitions)
        looked_at = set(some)
        self._hanging = {
            **{name: each for name, each in self._hanging.items() if name in there and name not in looked_at},
            **hanging,
        }
