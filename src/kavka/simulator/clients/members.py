"""Members of a simulated consumer group.

Members are kavka's own consumers: they read "orders", and sometimes commit what they have read. A place that
lost its process is taken by another one (places.py).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kavka.client.consumer import Consumer
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.errors import KavkaError
from kavka.model import TopicPartition
from kavka.simulator.clients.places import Places
from kavka.simulator.clients.workload import FETCH_WAIT_MS

if TYPE_CHECKING:
    from random import Random

    from kavka.simulator.host.scheduler import NodeLoop
    from kavka.simulator.world import World

GROUP: Final = "readers"
SETTINGS: Final = ConsumerSettings(
    group_id=GROUP,
    auto_offset_reset=OffsetReset.EARLIEST,
    enable_auto_commit=False,
    session_timeout_ms=8_000,
    rebalance_timeout_ms=12_000,
    heartbeat_interval_ms=2_000,
    fetch_max_wait_ms=FETCH_WAIT_MS,
)
RETRY_S: Final = 0.5


class Members(Places[Consumer]):
    """The members of one consumer group."""

    node = "member"

    def __init__(self, world: World, topic: str) -> None:
        super().__init__(world)
        self._topic = topic

    def missing(self, expected: list[TopicPartition]) -> list[str]:
        """G6: what still keeps the group from being stable, in words."""
        if not self.loops:
            return []
        given = [partition for consumer in self.clients if consumer is not None for partition in consumer.assignment]
        generations = {consumer.membership for consumer in self.clients if consumer is not None}
        if sorted(given) == sorted(expected) and len({generation for _, generation in generations}) == 1:
            return []
        return [f"group {GROUP}: {given} of {expected} given, members {sorted(generations)}"]

    async def _live(self, place: int, loop: NodeLoop, random: Random) -> None:
        while not self.leaving[place]:
            try:
                async with (
                    self.world.clients.cluster(loop) as cluster,
                    Consumer(cluster, SETTINGS) as consumer,
                ):
                    self.clients[place] = consumer
                    await self._read(place, consumer, random)
            except KavkaError:
                await asyncio.sleep(RETRY_S)
        self.empty(place)

    async def _read(self, place: int, consumer: Consumer, random: Random) -> None:
        rules = self.world.observer.groups
        await consumer.subscribe([self._topic])
        is_committed = True
        while not self.leaving[place]:
            for record in await consumer.poll(timeout_ms=1_000):
                is_committed = False
                key = (GROUP, TopicPartition(record.topic, record.partition))
                rules.delivered.setdefault(key, {})[record.offset] = None
            if not is_committed and random.random() < 0.5:
                try:
                    await consumer.commit()
                    is_committed = True
                except KavkaError:
                    pass  # Its outcome is open; what was given is given again to whoever has the partition next.
