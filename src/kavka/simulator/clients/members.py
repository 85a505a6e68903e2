"""Members of a simulated consumer group.

Members are kavka's own consumers: they read "orders", and sometimes commit what they have read. A member is a place:
after a crash another process takes it, with another consumer and another member id.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kavka.client.consumer import Consumer
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.errors import KavkaError
from kavka.model import TopicPartition
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


class Members:
    """The members' places of one group, and which process has each."""

    def __init__(self, world: World, topic: str) -> None:
        self._world = world
        self._topic = topic
        self._loops: list[NodeLoop | None] = []
        self._consumers: list[Consumer | None] = []
        self._leaving: list[bool] = []

    def __len__(self) -> int:
        return len(self._loops)

    def add(self) -> None:
        """Another place, taken at once."""
        self._loops.append(None)
        self._consumers.append(None)
        self._leaving.append(False)
        self.join(len(self._loops) - 1)

    def loop(self, place: int) -> NodeLoop | None:
        """The process that has the place. None while it is empty."""
        return self._loops[place] if place < len(self._loops) else None

    def join(self, place: int) -> None:
        """Takes the place if it is empty."""
        if self._loops[place] is None:
            clients = self._world.clients
            loop = self._loops[place] = clients.node("member")
            self._leaving[place] = False
            work = self._live(place, loop, self._world.scheduler.new_random())
            clients.watch(loop.create_task(work))

    def leave(self, place: int) -> None:
        """The member closes its consumer when it looks next."""
        self._leaving[place] = True

    def crash(self, place: int) -> None:
        loop = self._loops[place]
        if loop is not None:
            loop.kill()
            self._world.network.process_died(loop)
            self._loops[place] = self._consumers[place] = None

    def heal(self) -> None:
        """All places are taken, and no process is paused."""
        for place, loop in enumerate(self._loops):
            if loop is not None and loop.is_paused:
                loop.resume()
            self._leaving[place] = False
            self.join(place)

    def missing(self, expected: list[TopicPartition]) -> list[str]:
        """G6: what still keeps the group from being stable, in words."""
        if not self._loops:
            return []
        given = [partition for consumer in self._consumers if consumer is not None for partition in consumer.assignment]
        generations = {consumer.membership for consumer in self._consumers if consumer is not None}
        if sorted(given) == sorted(expected) and len({generation for _, generation in generations}) == 1:
            return []
        return [f"group {GROUP}: {given} of {expected} given, members {sorted(generations)}"]

    async def _live(self, place: int, loop: NodeLoop, random: Random) -> None:
        while not self._leaving[place]:
            try:
                async with (
                    self._world.clients.cluster(loop) as cluster,
                    Consumer(cluster, SETTINGS) as consumer,
                ):
                    self._consumers[place] = consumer
                    await self._read(place, consumer, random)
            except KavkaError:
                await asyncio.sleep(RETRY_S)
        self._loops[place] = self._consumers[place] = None

    async def _read(self, place: int, consumer: Consumer, random: Random) -> None:
        rules = self._world.observer.groups
        await consumer.subscribe([self._topic])
        is_committed = True
        while not self._leaving[place]:
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
