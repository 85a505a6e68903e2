"""Groups as an observer reads them: lists from every broker, then members and offsets of some of them at a time.

Decides how many groups one round looks into (`GROUPS_PER_ROUND`; those longest not looked at come first) and how many
requests for them are under way, and how many runs of a share group's records are kept. Must not know what is made of a
group's lag.

Source: KIP-222, KIP-848, KIP-932; kavka.client.group_admin, kavka.client.share_group_admin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kavka.client.cluster import Cluster
from kavka.client.group_admin import SHARE, GroupAdmin, ListedGroup, ShownGroup
from kavka.client.share_group_admin import InFlight, ShareGroupAdmin, SharePosition, ShareRecords
from kavka.errors import KavkaError
from kavka.model import TopicPartition

GROUPS_PER_ROUND: Final = 200
REQUESTS_AT_ONCE: Final = 8
GROUP_PATIENCE_S: Final = 4.0
CONSUMERS: Final = ("consumer", "streams", "")
"""Protocol types whose offsets are a consumer's; the empty one has committed without being a member."""
MAX_RUNS: Final = 1_000
"""Runs of records that are kept of one share group: those that come first in their partitions."""


@dataclass(slots=True)
class GroupReading:
    """One group, described at `read_at_ms`; `problem` says why the last attempt failed. `shares` and `records` are a
    share group's: where it is, and what is in flight (None where brokers do not tell)."""

    listed: ListedGroup
    shown: ShownGroup | None = None
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    read_at_ms: int = 0
    problem: str = ""
    shares: Mapping[TopicPartition, SharePosition] = field(default_factory=dict)
    records: Mapping[TopicPartition, ShareRecords] | None = None

    def failed(self, listed: ListedGroup, problem: str) -> GroupReading:
        """What is known when another attempt has failed."""
        return replace(self, listed=listed, problem=problem)


async def list_groups(cluster: Cluster) -> dict[str, ListedGroup]:
    """All groups by id. Raises KavkaError, TimeoutError if a broker does not answer."""
    async with asyncio.timeout(GROUP_PATIENCE_S):
        return {group.group_id: group for group in await GroupAdmin(cluster).list_groups()}


async def read_groups(
    cluster: Cluster, listed: Mapping[str, ListedGroup], known: Mapping[str, GroupReading], *, now_ms: int
) -> dict[str, GroupReading]:
    """All that are listed; of at most GROUPS_PER_ROUND the members and offsets are read now."""
    result = {name: known.get(name) or GroupReading(group) for name, group in listed.items()}
    due = sorted(listed, key=lambda name: (result[name].read_at_ms, name))[:GROUPS_PER_ROUND]
    slots = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def read(name: str) -> None:
        async with slots:
            result[name] = await _read(cluster, listed[name], result[name], now_ms)

    await asyncio.gather(*map(read, due))
    for name, group in listed.items():
        result[name].listed = group
    return result


async def _read(cluster: Cluster, listed: ListedGroup, before: GroupReading, now_ms: int) -> GroupReading:
    admin, shares = GroupAdmin(cluster), ShareGroupAdmin(cluster)
    positions: Mapping[TopicPartition, SharePosition] = {}
    told: InFlight | None = None
    try:
        async with asyncio.timeout(GROUP_PATIENCE_S):
            shown = await admin.describe(listed.group_id)
            offsets = await admin.offsets(listed.group_id) if listed.protocol_type in CONSUMERS else {}
            if shown.kind == SHARE:
                positions, told = await asyncio.gather(
                    shares.positions(listed.group_id), shares.in_flight(listed.group_id)
                )
    except TimeoutError:
        problem = f"its coordinator, broker {listed.coordinator}, did not answer within {GROUP_PATIENCE_S:.0f} s"
        return before.failed(listed, problem)
    except KavkaError as refused:
        return before.failed(listed, str(refused))
    committed = {name: each.offset for name, each in offsets.items()}
    records = None if told is None else _bounded(told.partitions)
    return GroupReading(listed, shown, committed, now_ms, shares=positions, records=records)


def _bounded(partitions: Mapping[TopicPartition, ShareRecords]) -> dict[TopicPartition, ShareRecords]:
    left = MAX_RUNS
    kept = {}
    for partition, records in partitions.items():
        kept[partition] = records._replace(runs=records.runs[:left])
        left -= len(kept[partition].runs)
    return kept
