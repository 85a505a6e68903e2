"""A coordinator of one partition in virtual time, with members of a Kafka Streams application."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.groups.decide.rebalance import Rebalance
from kavka.coordinator.groups.streams.decide.group import StreamsGroup, StreamsGroupLimits
from kavka.coordinator.groups.streams.decide.heartbeat import StreamsAnswer, StreamsHeartbeat
from kavka.coordinator.groups.streams.decide.tasks import TaskIds
from kavka.coordinator.groups.streams.decide.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
)
from kavka.coordinator.groups.streams.flow import StreamsSurroundings
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import HandMadeTopics, OffsetsLog, group_surroundings

APPLICATION = "app"
REBALANCE_MS = 20_000
CHANGELOG = f"{APPLICATION}-counts-changelog"
REPARTITION = f"{APPLICATION}-by-word-repartition"
LIMITS = StreamsGroupLimits(45_000, 5_000, 10, 0, 0, 0)


def internal(name: str, partitions: int = 0, replicas: int = 0, **settings: str) -> InternalTopic:
    return InternalTopic(name, partitions, replicas, tuple(settings.items()))


def part(
    name: str,
    *sources: str,
    changelogs: Sequence[InternalTopic] = (),
    sinks: Sequence[str] = (),
    repartitions: Sequence[InternalTopic] = (),
    together: Sequence[CopartitionGroup] = (),
) -> Subtopology:
    """A subtopology."""
    return Subtopology(name, sources, (), tuple(changelogs), tuple(sinks), tuple(repartitions), tuple(together))


def topology(*parts: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch, {each.subtopology_id: each for each in parts})


STATELESS = topology(part("0", "t"))
COUNTS = topology(
    part("0", "t", sinks=[REPARTITION]),
    part("1", repartitions=[internal(REPARTITION)], changelogs=[internal(CHANGELOG)]),
)
"""Words are counted: they are sent to the partition that counts them, and the counts are kept."""


class StreamsCase:
    """A coordinator of one partition, with a topic t of four partitions."""

    def __init__(self, **limits: int) -> None:
        self.log = OffsetsLog(delay_s=0.001)
        self.topics = HandMadeTopics(t=4)
        self.rebalances: list[Rebalance] = []
        self.is_enabled = True
        self.limits: dict[str, int] = limits

    async def start(self) -> GroupCoordinator:
        """A new coordinator, which reads what the log has."""
        loop = asyncio.get_running_loop()

        def wall_ms() -> int:
            return 1_700_000_000_000 + int(loop.time() * 1000)

        def limits(_group_id: str) -> StreamsGroupLimits:
            fields = {name: getattr(LIMITS, name) for name in StreamsGroupLimits.__slots__}
            return StreamsGroupLimits(**{**fields, **self.limits})

        around = group_surroundings(self.topics, wall_ms=wall_ms)
        self.groups = GroupCoordinator(
            loop,
            self.log,
            around._replace(on_rebalance=self.rebalances.append),
            offset_metadata_max_bytes=16,
            streams=StreamsSurroundings(self.topics, limits, lambda: self.is_enabled, wall_ms, self.rebalances.append),
        )
        self.groups.set_partition_count(1)
        await self.groups.load(0, leader_epoch=0)
        return self.groups

    async def beat(
        self,
        member: str,
        epoch: int = 0,
        *,
        application: Topology = STATELESS,
        has: Mapping[str, Sequence[int]] | None = None,
        **fields: object,
    ) -> StreamsAnswer:
        """`has`: the active tasks that the member says it has."""
        is_joining = epoch == 0
        owned: TaskIds | None = None if has is None else {name: frozenset(numbers) for name, numbers in has.items()}
        nothing: TaskIds = {}
        request = StreamsHeartbeat(
            APPLICATION,
            member,
            epoch,
            0,
            None,
            None,
            REBALANCE_MS if is_joining else -1,
            application if is_joining else None,
            nothing if is_joining else owned,
            None if owned is None and not is_joining else nothing,
            None if owned is None and not is_joining else nothing,
            f"process-of-{member}" if is_joining else None,
            None,
            () if is_joining else None,
            False,
            False,
            False,
            "client",
            "/127.0.0.1",
        )
        return await self.groups.streams_heartbeat(request._replace(**fields))  # type: ignore[arg-type]

    async def refused(self, member: str, epoch: int = 0, **fields: object) -> RequestError:
        with pytest.raises(RequestError) as refusal:
            await self.beat(member, epoch, **fields)  # type: ignore[arg-type]
        return refusal.value

    @property
    def group(self) -> StreamsGroup:
        found = self.groups.describe_streams_group(APPLICATION)
        assert found is not None
        return found


def active(answer: StreamsAnswer) -> dict[str, list[int]]:
    """The active tasks that the answer tells."""
    assert answer.tasks is not None
    return {name: sorted(numbers) for name, numbers in sorted(answer.tasks.active.items())}


def codes(answer: StreamsAnswer) -> list[str]:
    return [status.code.name for status in answer.statuses]


def code(refusal: RequestError) -> ErrorCode:
    return refusal.code
