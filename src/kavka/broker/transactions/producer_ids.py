"""ProducerIds: ids that no producer of this cluster has had before (P2).

A block of 1,000 ids is reserved in `/latest_producer_id_block` by compare-and-set before its first id is given out. A
write with an unknown outcome may have reserved the block already; the next try then reserves the one behind it, and
at the worst a block of ids is never used.

Where there are logs and no block was ever reserved, the logs may be older than ZooKeeper's tree (adoption.py). A log
that remembers a producer would take the first records of another one with its id for repetitions, acknowledge them and
drop them; so the first block lies above all ids that the logs remember. It lies far above them (`stay_above`): the
transaction coordinator may remember others, and Apache Kafka, if it gets its logs back, goes on with the block behind
its own last one. Later blocks follow the first: what a client claims in its batches has no say then.

Source: Kafka's ZkProducerIdManager.
"""

from __future__ import annotations

import asyncio

from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.model import BrokerId
from kavka.zookeeper.port import BadVersion, NodeExists, NoNode, OutcomeUnknown, ZooKeeper
from kavka.zookeeper.znode_paths import PRODUCER_ID_BLOCK_PATH
from kavka.zookeeper.znodes import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock

MAX_ATTEMPTS = 10
"""How often to try to reserve a block before the producer is told to try again."""
DISTANCE = 1 << 32
"""Ids between those of an earlier life and the first one of this: more than any cluster gives out, and room for 2^31
lives."""
_LAST_BLOCK = 2**63 - 1 - PRODUCER_ID_BLOCK_SIZE
"""The highest id that a block may begin with."""


class ProducerIds:
    """Gives out producer ids; one at a time reserves the next block."""

    def __init__(self, zookeeper: ZooKeeper, broker_id: BrokerId) -> None:
        self._zookeeper = zookeeper
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._first_block = 0
        self._lock = asyncio.Lock()

    def stay_above(self, producer_id: int) -> None:
        """There is a log, which remembers `producer_id` (0 for none): if no block was reserved yet, the first one lies
        far above it. To be called before `next`."""
        first = (producer_id + DISTANCE) // PRODUCER_ID_BLOCK_SIZE * PRODUCER_ID_BLOCK_SIZE
        if first <= _LAST_BLOCK:  # Beyond, no cluster gave it out.
            self._first_block = max(self._first_block, first)

    async def next(self) -> int:
        """An id. Raises `RequestError` if no block can be reserved now: COORDINATOR_LOAD_IN_PROGRESS, with which
        clients ask this broker again. A producer without a transactional id has no coordinator to look for."""
        async with self._lock:
            if self._next == self._end:
                block = await self._reserve(self._broker_id)
                self._next, self._end = block.first, block.last + 1
            self._next += 1
            return self._next - 1

    async def reserve_for(self, broker_id: BrokerId) -> ProducerIdBlock:
        """A block for another broker, which has its controller write. Raises as `next`."""
        async with self._lock:
            return await self._reserve(broker_id)

    async def _reserve(self, broker_id: BrokerId) -> ProducerIdBlock:
        for _attempt in range(MAX_ATTEMPTS):
            try:
                try:
                    data, stat = await self._zookeeper.get(PRODUCER_ID_BLOCK_PATH)
                except NoNode:
                    block = _block(broker_id, self._first_block)
                    await self._zookeeper.create(PRODUCER_ID_BLOCK_PATH, block.encode())
                    return block
                block = _block(broker_id, ProducerIdBlock.decode(data).last + 1 if data else self._first_block)
                await self._zookeeper.set(PRODUCER_ID_BLOCK_PATH, block.encode(), version=stat.version)
            except (BadVersion, NodeExists, OutcomeUnknown):
                continue
            except ZooKeeperError as failure:
                raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(failure)) from failure
            return block
        raise RequestError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no block of producer ids after {MAX_ATTEMPTS} tries"
        )


def _block(broker_id: BrokerId, first: int) -> ProducerIdBlock:
    if first > _LAST_BLOCK:
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
    return ProducerIdBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
