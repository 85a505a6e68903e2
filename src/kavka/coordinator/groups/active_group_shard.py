"""ActiveGroupShard: the groups of one partition that is loaded here, with what the flows around them need.

Keeps the order of appends (positions), the timer of each group, whose turn it is, and the ends of transactions that
were heard of while the log was being read.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from kavka.coordinator.groups.decide.shard import GroupShard
from kavka.coordinator.groups.turns import Turns
from kavka.coordinator.shared.active_shards import ActiveShard
from kavka.model import LeaderEpoch


class Ending(NamedTuple):
    """The end of a transaction that was heard of while its partition's log was being read."""

    producer_id: int
    committed: bool


class ActiveGroupShard(ActiveShard):
    """`partition` of `__consumer_offsets`."""

    __slots__ = ("_position", "endings", "shard", "timers", "turns")

    def __init__(self, partition: int, shard: GroupShard, leader_epoch: LeaderEpoch) -> None:
        super().__init__(partition, leader_epoch)
        self.shard = shard
        self.timers: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        self.endings: list[Ending] = []
        self.turns = Turns()
        self._position = 0

    def next_position(self) -> int:
        """The place of the next append in the order of the log."""
        self._position += 1
        return self._position
