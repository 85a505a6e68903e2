"""What a shard's writer replays of what it wrote, and what it tells of bytes that say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard
from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import GroupLimits, StoredGroup
from kavka.coordinator.groups.decide.records import group_record
from kavka.coordinator.groups.decide.shard import GroupShard
from kavka.coordinator.groups.shard_writer import ShardWriter
from kavka.coordinator.shared.decide.records import CoordinatorRecord, with_version
from kavka.errors import ErrorCode
from tests.kit.told_lines import told_lines

LIMITS = GroupLimits(10, 1_800_000, 0, 100)


class Log:
    """Commits at once."""

    async def append(self, partition: int, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        return ErrorCode.NONE


def shard_and_writer() -> tuple[ActiveGroupShard, ShardWriter]:
    active = ActiveGroupShard(3, GroupShard(LIMITS, offset_metadata_max_bytes=4_096), 1, lambda: (0, 0))
    log: Any = Log()
    return active, ShardWriter(log, lambda: 0)


def stored(generation: int) -> ClassicGroup:
    group = ClassicGroup("g", LIMITS, 0)
    group.restore(StoredGroup(generation, "consumer", None, None, [], None), 0)
    return group


@pytest.mark.parametrize("way", ["write", "write_change"])
def test_the_record_of_a_classic_group_is_the_group_only_where_the_log_is_read(way: str) -> None:
    """Written, it is a copy of the group that is there, which may hold requests and be further by now."""
    active, writer = shard_and_writer()
    writes: Callable[[ActiveGroupShard, Sequence[CoordinatorRecord]], Awaitable[ErrorCode]] = getattr(writer, way)
    record = group_record(stored(7), wall_ms=0)

    async def written() -> ErrorCode:
        return await writes(active, [record])

    assert asyncio.run(written()) is ErrorCode.NONE
    assert active.shard.groups == {}
    there = active.shard.groups["g"] = stored(8)
    assert asyncio.run(written()) is ErrorCode.NONE
    assert active.shard.groups == {"g": there}
    writer.replay(active, record, 1, loading=True)
    assert active.shard.groups["g"].generation == 7


def test_bytes_that_are_no_record_are_told_of_with_their_partition() -> None:
    _, writer = shard_and_writer()
    with told_lines("kavka.coordinator.groups.shard_writer") as told:
        assert writer.decoded(3, CoordinatorRecord(with_version(999, b""), None)) is None
        assert told == [], "a kind of another release is none of ours"
        assert writer.decoded(3, CoordinatorRecord(b"", None)) is None
    assert [(line.level, line.event, line.keys["partition"]) for line in told] == [
        ("warning", "coordinator record skipped", 3)
    ]
    assert told[0].keys["why"]
