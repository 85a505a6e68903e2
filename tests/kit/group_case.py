"""A coordinator of one partition in virtual time, with members of both protocols, which tests of groups share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.consumer_protocol import encode_assignment
from kavka.coordinator.groups.classic.decide.membership import (
    JoinAnswer,
    JoinProtocol,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
)
from kavka.coordinator.groups.consumer.decide.heartbeat import ConsumerHeartbeat, HeartbeatAnswer
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.groups.decide.rebalance import Rebalance
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.codec import encode
from kavka.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tests.kit.group_surroundings import HandMadeTopics, OffsetsLog, group_surroundings

GROUP = "g"
SESSION_S = 45
REBALANCE_MS = 20_000


class Case:
    """A coordinator of one partition, with a topic t of four partitions."""

    def __init__(self, *, initial_delay_ms: int = 0, **limits: object) -> None:
        """`initial_delay_ms`: how long the first member of a classic group waits for others."""
        self.log = OffsetsLog(delay_s=0.001)
        self.topics = HandMadeTopics(t=4)
        self.rebalances: list[Rebalance] = []
        self._limits, self._initial_delay_ms = limits, initial_delay_ms
        self.protocol_type = "consumer"
        self.metadata: dict[str, bytes] = {}
        """What members say under a protocol, where it is not what they say under the others."""

    async def start(self) -> GroupCoordinator:
        loop = asyncio.get_running_loop()

        def wall_ms() -> int:
            return 1_700_000_000_000 + int(loop.time() * 1000)

        around = group_surroundings(self.topics, wall_ms=wall_ms, **self._limits)
        classic = replace(around.classic_limits, initial_rebalance_delay_ms=self._initial_delay_ms)
        around = around._replace(classic_limits=classic)
        self.groups = GroupCoordinator(
            loop, self.log, around._replace(on_rebalance=self.rebalances.append), offset_metadata_max_bytes=16
        )
        self.groups.set_partition_count(1)
        await self.groups.load(0, leader_epoch=0)
        return self.groups

    async def beat(
        self, member: str, epoch: int = 0, *, sees: Callable[[str], bool] | None = None, **fields: object
    ) -> HeartbeatAnswer:
        request = ConsumerHeartbeat(
            GROUP,
            member,
            epoch,
            None,
            None,
            REBALANCE_MS if epoch == 0 else -1,
            ["t"] if epoch == 0 else None,
            None,
            None,
            {} if epoch == 0 else None,
            "client",
            "/127.0.0.1",
        )
        return await self.groups.consumer_heartbeat(request._replace(**fields), sees)  # type: ignore[arg-type]

    async def refused(self, member: str, epoch: int = 0, **fields: object) -> ErrorCode:
        with pytest.raises(RequestError) as refusal:
            await self.beat(member, epoch, **fields)
        return refusal.value.code

    @property
    def state(self) -> str:
        group = self.groups.describe_consumer_group(GROUP)
        return "none" if group is None else group.state

    # -- classic members

    async def join(
        self,
        member: str = "",
        *names: str,
        owned: Mapping[str, Sequence[int]] | None = None,
        metadata: bytes | None = None,
        instance: str | None = None,
        topics: Sequence[str] = ("t",),
    ) -> JoinAnswer:
        """A JoinGroup with the protocols `names`, each with the same subscription."""
        said = subscription(*topics, owned=owned) if metadata is None else metadata
        request = JoinRequest(
            member,
            instance,
            "old",
            "/127.0.0.1",
            10_000,
            REBALANCE_MS,
            self.protocol_type,
            [JoinProtocol(name, self.metadata.get(name, said)) for name in names or ("range",)],
            require_known_member_id=False,
        )
        return await self.groups.join(GROUP, request)

    async def sync(
        self,
        joined: JoinAnswer,
        assignments: Mapping[str, bytes] | None = None,
        *,
        protocol: str | None = "range",
        instance: str | None = None,
    ) -> SyncAnswer:
        return await self.groups.sync(
            GROUP,
            SyncRequest(joined.member_id, instance, joined.generation, self.protocol_type, protocol, assignments or {}),
        )

    async def classic_member(self) -> JoinAnswer:
        """A classic group of one member that has all partitions."""
        joined = await self.join()
        await self.sync(joined, {joined.member_id: encode_assignment({"t": [0, 1, 2, 3]}, 1)})
        return joined

    async def two_classic_members(self, first: bytes, second: bytes, *names: str) -> tuple[JoinAnswer, JoinAnswer]:
        """A classic group of two with these assignments, the leader's first."""
        leader = await self.join("", *names)
        joining = asyncio.ensure_future(self.join("", *names))
        await asyncio.sleep(0)
        leader = await self.join(leader.member_id, *names)
        follower = await joining
        assert leader.leader == leader.member_id
        parts = {leader.member_id: first, follower.member_id: second}
        protocol = names[0] if names else "range"
        await asyncio.gather(self.sync(leader, parts, protocol=protocol), self.sync(follower, protocol=protocol))
        return leader, follower


def subscription(*topics: str, owned: Mapping[str, Sequence[int]] | None = None, generation: int = -1) -> bytes:
    """A consumer's subscription, in version 2."""
    parts = [TopicPartition(topic=topic, partitions=list(numbers)) for topic, numbers in (owned or {}).items()]
    message = ConsumerProtocolSubscription(
        topics=list(topics), user_data=None, owned_partitions=parts, generation_id=generation
    )
    return b"\x00\x02" + encode(message, 2)


def told(answer: HeartbeatAnswer) -> list[int]:
    assert answer.assignment is not None
    return sorted(number for numbers in answer.assignment.values() for number in numbers)
