"""ShareGroupAdmin: share groups (KIP-932) as an administrator sees them: positions, new positions, deletions.

Their members are shown by `GroupAdmin`, as those of other groups.

A share group commits no offsets. Its position in a partition is the first record that is not done yet, and some behind
it may be done already: so the lag is told by its coordinator, and is not the distance to the end of the log.

Which records are in flight only kavka's brokers tell, each of the partitions that it leads: in a tagged field that
Apache Kafka does not know, and leaves out.

Source: Kafka's ListShareGroupOffsetsHandler, AlterShareGroupOffsetsHandler and
DeleteShareGroupOffsetsHandler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kavka.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from kavka.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kavka.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from kavka.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kavka.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    KavkaShareRecords,
    KavkaShareRun,
)

RECORD_STATES: Final[Mapping[int, str]] = {
    0: "available",
    1: "acquired",
    2: "acknowledged",
    3: "archiving",
    4: "archived",
}
"""Kafka's names of the states of a record, by their numbers on the wire."""


class SharePosition(NamedTuple):
    """Where a group is in a partition: `start` is the first record that is not done; `lag` counts those that are not,
    None where it is not known."""

    start: int
    lag: int | None


class RecordRun(NamedTuple):
    """Records `first` to `last`, which are in the same state (of RECORD_STATES) and were delivered equally often.

    `member_id` has acquired them, for `lock_left_ms` more; both are None where nobody has. `being_written`: the state
    that they will have once that is stored; None where nothing is being stored.
    """

    first: int
    last: int
    state: str
    deliveries: int
    member_id: str | None
    lock_left_ms: int | None
    being_written: str | None


class ShareRecords(NamedTuple):
    """The records of one partition from `start`, the first that is not done, to `end`, one past the last that was
    delivered; `in_flight` counts those of them that are not done. Of `run_count` runs the first are in `runs`."""

    start: int
    end: int
    in_flight: int
    run_count: int
    runs: tuple[RecordRun, ...]


class InFlight(NamedTuple):
    """What brokers tell of a group's records, by partition; partitions in which nobody has fetched since their leader
    has led them are not there. `silent`: brokers that did not answer, by id, with what was wrong."""

    partitions: Mapping[TopicPartition, ShareRecords]
    silent: Mapping[int, str]


class ShareGroupAdmin:
    """Share groups of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def positions(self, group_id: str) -> dict[TopicPartition, SharePosition]:
        """Where the group is in all partitions in which it has begun. Raises `RequestError`."""

        async def ask() -> dict[TopicPartition, SharePosition]:
            node_id = await self._cluster.find_coordinator(group_id)
            wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
            answer = await self._cluster.ask(
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                DescribeShareGroupOffsetsRequest(groups=[wanted]),
                DescribeShareGroupOffsetsResponse,
                node_id=node_id,
            )
            raise_for(answer.groups[0].error_code, f"offsets of group {group_id!r}")
            return {
                TopicPartition(topic.topic_name, partition.partition_index): SharePosition(
                    partition.start_offset, partition.lag if partition.lag >= 0 else None
                )
                for topic in answer.groups[0].topics
                for partition in topic.partitions
                if partition.error_code == ErrorCode.NONE and partition.start_offset >= 0
            }

        return await self._cluster.retry(ask, what=f"fetch offsets of group {group_id!r}")

    async def in_flight(self, group_id: str) -> InFlight | None:
        """Which records of the group are in flight, as the leaders of its partitions have it; None where no broker
        tells: those of Apache Kafka do not. Raises `RequestError`, `ConnectionFailed` if all of them fail."""
        await self._cluster.retry(lambda: self._cluster.refresh([]), what="find brokers")
        brokers = sorted(self._cluster.brokers)
        answers = await asyncio.gather(
            *(self._in_flight_at(node_id, group_id) for node_id in brokers), return_exceptions=True
        )
        partitions: dict[TopicPartition, ShareRecords] = {}
        failures: dict[int, RequestError | ConnectionFailed] = {}
        has_told = False
        for node_id, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, RequestError | ConnectionFailed):
                failures[node_id] = answer
            elif isinstance(answer, BaseException):
                raise answer
            elif answer is not None:
                has_told = True
                partitions.update(answer)
        if len(failures) == len(brokers):
            raise failures[brokers[0]]
        if not has_told:
            return None
        return InFlight(dict(sorted(partitions.items())), {node_id: str(why) for node_id, why in failures.items()})

    async def _in_flight_at(self, node_id: int, group_id: str) -> dict[TopicPartition, ShareRecords] | None:
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
        try:
            answer = await self._cluster.ask(
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                DescribeShareGroupOffsetsRequest(groups=[wanted], kavka_records_only=True),
                DescribeShareGroupOffsetsResponse,
                node_id=node_id,
            )
        except RequestError as refused:
            if refused.code is ErrorCode.UNSUPPORTED_VERSION:  # It serves no share groups.
                return None
            raise
        if not answer.kavka_records_only:
            return None  # It has passed over what it does not know, and answered something else.
        (group,) = answer.groups
        if group.error_code == ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise_for(group.error_code, f"records of group {group_id!r}")
        return {
            TopicPartition(topic.topic_name, each.partition_index): _records(each.start_offset, each.kavka_records)
            for topic in group.topics
            for each in topic.partitions
            if each.kavka_records is not None
        }

    async def set_positions(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Has a group without members begin there, and forget what it did with later records. Raises `RequestError`."""
        topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            entry = topics.setdefault(topic, AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[]))
            entry.partitions.append(
                AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
            )

        async def ask() -> None:
            node_id = await self._cluster.find_coordinator(group_id)
            answer = await self._cluster.ask(
                ApiKey.ALTER_SHARE_GROUP_OFFSETS,
                AlterShareGroupOffsetsRequest(group_id=group_id, topics=list(topics.values())),
                AlterShareGroupOffsetsResponse,
                node_id=node_id,
            )
            raise_for(answer.error_code, f"offsets of group {group_id!r}")
            for found in answer.responses:
                for partition in found.partitions:
                    raise_for(partition.error_code, f"offset of {found.topic_name}-{partition.partition_index}")

        await self._cluster.retry(ask, what=f"set offsets of group {group_id!r}")

    async def delete_positions(self, group_id: str, topics: Sequence[str]) -> dict[str, ErrorCode]:
        """Has a group without members forget these topics; an error code for each. Raises `RequestError`."""

        async def ask() -> dict[str, ErrorCode]:
            node_id = await self._cluster.find_coordinator(group_id)
            wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
            answer = await self._cluster.ask(
                ApiKey.DELETE_SHARE_GROUP_OFFSETS,
                DeleteShareGroupOffsetsRequest(group_id=group_id, topics=wanted),
                DeleteShareGroupOffsetsResponse,
                node_id=node_id,
            )
            raise_for(answer.error_code, f"offsets of group {group_id!r}")
            return {topic.topic_name: ErrorCode(topic.error_code) for topic in answer.responses}

        return await self._cluster.retry(ask, what=f"delete offsets of group {group_id!r}")


def _records(start: int, told: KavkaShareRecords) -> ShareRecords:
    return ShareRecords(start, told.end_offset, told.in_flight, told.run_count, tuple(map(_run, told.runs)))


def _run(run: KavkaShareRun) -> RecordRun:
    is_held = run.lock_left_ms >= 0
    return RecordRun(
        run.first_offset,
        run.last_offset,
        RECORD_STATES.get(run.state, str(run.state)),
        run.delivery_count,
        run.member_id if is_held else None,
        run.lock_left_ms if is_held else None,
        None if run.being_written < 0 else RECORD_STATES.get(run.being_written, str(run.being_written)),
    )
