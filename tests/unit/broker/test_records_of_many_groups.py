"""What records of share groups are in flight, asked for more groups than there are."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from kavka.broker.api.share.describe_share_group_offsets import handle
from kavka.broker.share.led_share_partitions import LedShare, ShareLeaders
from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.model import LeaderEpoch, TopicPartition
from kavka.protocol.messages import DescribeShareGroupOffsetsRequest
from kavka.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequestGroup
from kavka.share.decide.share_partition import SharePartition

LED, ASKED = 50, 200


class Counted(dict[ShareKey, LedShare]):
    """Counts how often all that is led is gone through."""

    passes = 0

    def values(self) -> Any:
        self.passes += 1
        return super().values()


def led(index: int) -> LedShare:
    key = ShareKey(f"group-{index % 2}", UUID(int=1), index)
    hosted = SimpleNamespace(is_leader=True, leader_epoch=3, topic_partition=TopicPartition("t", index))
    return LedShare(key, cast(Any, hosted), (LeaderEpoch(3), 1), SharePartition(0, ()), 0.0)


def test_all_that_is_led_is_gone_through_once_however_many_groups_are_named() -> None:
    """A request has room for millions of names, and handlers run on the loop that serves everybody."""

    async def ask() -> tuple[int, list[int]]:
        loop = asyncio.get_running_loop()
        leaders = ShareLeaders(cast(Any, None), cast(Any, None), cast(Any, SimpleNamespace(loop=loop)))
        shares = leaders._led = Counted()
        for one in map(led, reversed(range(LED))):
            shares[one.key] = one
        broker = SimpleNamespace(serves_share_groups=lambda: True, share=SimpleNamespace(leaders=leaders))
        groups = [DescribeShareGroupOffsetsRequestGroup(group_id=f"group-{index}") for index in range(ASKED)]
        message = DescribeShareGroupOffsetsRequest(groups=groups, kavka_records_only=True)
        answer = await handle(cast(Any, broker), cast(Any, None), message)
        assert [group.group_id for group in answer.groups] == [group.group_id for group in groups]
        (topic,) = answer.groups[1].topics
        return shares.passes, [partition.partition_index for partition in topic.partitions]

    assert asyncio.run(ask()) == (1, list(range(1, LED, 2)))
