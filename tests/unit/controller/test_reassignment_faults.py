"""Reassignments under random faults: brokers die, leaders change ISRs, controllers are killed, answers are lost.

Whatever happened, when the faults are over every partition comes to rest where somebody wanted it; the ISR was never
emptied nor added to by a controller, and no disk keeps a replica that nobody assigned to it (R3, R21).
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.port import ConnectionLoss, NodeExists
from kavka.zookeeper.znode_paths import REASSIGN_PARTITIONS_PATH
from kavka.zookeeper.znodes import ReassignPartitions
from tests.kit.memory_directory import in_memory
from tests.unit.controller.reassignment_support import Controller, Killed, World, run

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
STEPS = 25


class Fate:
    """Draws what happens next from a seed, and makes it happen."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._wanted: dict[TopicPartition, list[set[int]]] = {partition: [{1, 2, 3}] for partition in PARTITIONS}

    async def step(self) -> None:
        acts = (self._ask, self._ask, self._cancel, self._submit, self._catch_up, self._catch_up, self._shrink)
        act = self._rng.choice((*acts, self._die, self._return, self._fail))
        try:
            await act()
            if self._rng.random() < 0.7:  # Else it decides on what it knew before.
                await self._controller.work()
        except Killed:
            await self._succeed()
        except ConnectionLoss:
            writes, self._controller.has_work = self._controller.writes, True
            writes.outage, writes.outage_at = False, -1

    async def settle(self) -> None:
        """The last fault is over: all brokers are back, and one controller goes on."""
        self._world.live = {BrokerId(broker_id) for broker_id in range(1, 7)}
        await self._succeed()
        await self._controller.take_in_brokers()
        for _ in range(3):
            await self._world.run_on(PARTITIONS)
        assignment = await self._world.assignment()
        assert (assignment.adding_replicas, assignment.removing_replicas) == ({}, {})
        assert self._controller.reassignments.listing() == {}
        for partition in PARTITIONS:
            replicas = set(assignment.partitions[partition.partition])
            assert replicas in self._wanted[partition]
            state, _ = await self._world.state(partition)
            assert set(state.isr) == replicas
            assert state.leader in replicas
            assert set(self._world.replicas(partition)) == replicas

    @property
    def _controller(self) -> Controller:
        assert self._world.controller is not None
        return self._world.controller

    async def _succeed(self) -> None:
        controller = await self._world.new_controller()
        await controller.begin()
        await controller.take_in_brokers()

    def _target(self, partition: TopicPartition) -> tuple[int, ...]:
        target = tuple(self._rng.sample(range(1, 7), self._rng.randint(1, 4)))
        self._wanted[partition].append(set(target))
        return target

    async def _ask(self) -> None:
        some = self._rng.sample(PARTITIONS, self._rng.randint(1, len(PARTITIONS)))
        await self._controller.reassignments.alter({partition: self._target(partition) for partition in some})

    async def _cancel(self) -> None:
        await self._controller.reassignments.alter({self._rng.choice(PARTITIONS): None})

    async def _submit(self) -> None:
        partition = self._rng.choice(PARTITIONS)
        try:
            await self._world.admin.create(
                REASSIGN_PARTITIONS_PATH, ReassignPartitions({partition: self._target(partition)}).encode()
            )
        except NodeExists:
            return
        await self._controller.reassignments.take_submitted()

    async def _catch_up(self) -> None:
        await self._world.catch_up(self._rng.choice(PARTITIONS))

    async def _shrink(self) -> None:
        await self._world.shrink(self._rng.choice(PARTITIONS), BrokerId(self._rng.randint(1, 6)))

    async def _die(self) -> None:
        if len(self._world.live) > 3:
            self._world.live.discard(BrokerId(self._rng.randint(1, 6)))
            await self._controller.take_in_brokers()

    async def _return(self) -> None:
        self._world.live.add(BrokerId(self._rng.randint(1, 6)))
        await self._controller.take_in_brokers()

    async def _fail(self) -> None:
        fault = self._rng.choice(["kill_before", "kill_after", "lose_before", "lose_after", "outage_at"])
        setattr(self._controller.writes, fault, self._controller.writes.made + self._rng.randint(0, 3))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_whatever_happens_partitions_come_to_rest_where_somebody_wanted_them(seed: int) -> None:
    async def scenario(world: World) -> None:
        await world.create({partition.partition: (1, 2, 3) for partition in PARTITIONS})
        controller = await world.new_controller()
        await controller.begin()
        fate = Fate(world, random.Random(seed))
        for _ in range(STEPS):
            await fate.step()
        await fate.settle()

    with in_memory("kavka-reassignments-") as directory:
        run(directory, scenario)
