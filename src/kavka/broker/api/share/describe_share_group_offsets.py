"""DescribeShareGroupOffsets (key 90): where share groups are in partitions, and how much is left for them.

Behaviour   With topics: what the states' coordinators say of each partition, whatever group it is of; -1 where there is
            no state. Without (null): all partitions of a group that is coordinated here. The lag counts what is not
            done yet, and is -1 where it is not known. A group whose topics are not named is described once, however
            often it is named. A list without any topic answers nothing.
            With `kavka_records_only`, a tagged field that only kavka's own programs set: the share-partitions of any
            group that are served here, and which of their records are in flight: at most MOST_RUNS runs in one answer.
            Apache Kafka passes over the field, and answers as if it was not there: with no such field in the answer.
Versions    0; 1 lag (KIP-1226).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from kavka.broker.share.offsets import ShareOffset
from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kavka.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
    KavkaShareRecords,
    KavkaShareRun,
)
from kavka.protocol.schema import ZERO_UUID
from kavka.share.decide.in_flight import InFlight, Run, look

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request

MOST_RUNS: Final = 10_000
"""Runs of records in one answer: about half a megabyte. How many there are of a partition is told in any case."""


def handle(
    broker: ShareBroker, request: Request, message: DescribeShareGroupOffsetsRequest
) -> Awaitable[DescribeShareGroupOffsetsResponse]:
    return _show_records(broker, message) if message.kavka_records_only else _describe(broker, message)


async def _describe(
    broker: ShareBroker, message: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    whole: set[str] = set()
    asked = []
    for group in message.groups:
        if group.topics is not None or group.group_id not in whole:
            asked.append(group)
        if group.topics is None:
            whole.add(group.group_id)
    return DescribeShareGroupOffsetsResponse(groups=[await _group(broker, group) for group in asked])


async def _group(
    broker: ShareBroker, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        if not broker.serves_share_groups():
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        keys, missing = _all_keys(broker, asked.group_id) if asked.topics is None else _keys(broker, asked)
        if keys and not asked.group_id:
            raise RequestError(ErrorCode.INVALID_GROUP_ID)
    except RequestError as refused:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id,
            error_code=refused.code,
            error_message=refused.message or ErrorCode(refused.code).name,
        )
    topics: dict[str, DescribeShareGroupOffsetsResponseTopic] = {}
    for key, found in (await broker.share.offsets.describe(keys)).items():
        topic = topics.get(keys[key])
        if topic is None:
            topic = topics[keys[key]] = DescribeShareGroupOffsetsResponseTopic(
                topic_name=keys[key], topic_id=key.topic_id
            )
        topic.partitions.append(_partition(key.partition, found))
    return DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=[*topics.values(), *missing])


async def _show_records(
    broker: ShareBroker, message: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    groups: dict[str, DescribeShareGroupOffsetsResponseGroup] = {}
    left = MOST_RUNS
    serves = broker.serves_share_groups()
    leaders = broker.share.leaders
    led_here = leaders.led_for_each({asked.group_id for asked in message.groups}) if serves else {}
    for asked in message.groups:
        if asked.group_id in groups:
            continue
        shown = groups[asked.group_id] = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
        if not serves:
            shown.error_code, shown.error_message = ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION.name
            continue
        for led in led_here.get(asked.group_id, ()):
            if not led.is_current():  # Others were served since the list was made.
                continue
            name = led.hosted.topic_partition.topic
            if not shown.topics or shown.topics[-1].topic_name != name:
                shown.topics.append(
                    DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=led.key.topic_id, partitions=[])
                )
            found = look(led.records, leaders.now_ms(), left)
            left -= len(found.runs)
            shown.topics[-1].partitions.append(
                DescribeShareGroupOffsetsResponsePartition(
                    partition_index=led.key.partition,
                    start_offset=found.start,
                    leader_epoch=led.leader_epoch,
                    kavka_records=_records(found),
                )
            )
            await asyncio.sleep(0)
    return DescribeShareGroupOffsetsResponse(groups=list(groups.values()), kavka_records_only=True)


def _records(found: InFlight) -> KavkaShareRecords:
    return KavkaShareRecords(
        end_offset=found.end, in_flight=found.records, run_count=found.run_count, runs=[_run(run) for run in found.runs]
    )


def _run(run: Run) -> KavkaShareRun:
    return KavkaShareRun(
        first_offset=run.first,
        last_offset=run.last,
        state=run.state,
        being_written=-1 if run.being_written is None else run.being_written,
        delivery_count=run.deliveries,
        member_id=run.member_id,
        lock_left_ms=-1 if run.lock_left_ms is None else run.lock_left_ms,
    )


def _keys(
    broker: ShareBroker, asked: DescribeShareGroupOffsetsRequestGroup
) -> tuple[dict[ShareKey, str], list[DescribeShareGroupOffsetsResponseTopic]]:
    """The share-partitions that are asked for, with their topics' names, and the topics that do not exist."""
    keys: dict[ShareKey, str] = {}
    missing: list[DescribeShareGroupOffsetsResponseTopic] = []
    for topic in asked.topics or ():
        topic_id = broker.metadata.topic_id(topic.topic_name)
        if topic_id == ZERO_UUID:
            partitions = [_partition(index, ShareOffset(-1, 0, -1)) for index in topic.partitions]
            missing.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name, topic_id=ZERO_UUID, partitions=partitions
                )
            )
            continue
        for index in topic.partitions:
            keys[ShareKey(asked.group_id, topic_id, index)] = topic.topic_name
    return keys, missing


def _all_keys(
    broker: ShareBroker, group_id: str
) -> tuple[dict[ShareKey, str], list[DescribeShareGroupOffsetsResponseTopic]]:
    """All share-partitions of a group that have a state. Raises `RequestError`."""
    group = broker.groups.describe_share_group(group_id) if group_id else None
    keys = {}
    for topic_id, named in group.states.initialized.items() if group is not None else ():
        name = broker.metadata.topic_name(topic_id)
        if name is not None:
            keys.update({ShareKey(group_id, topic_id, index): name for index in sorted(named.partitions)})
    return keys, []


def _partition(index: int, found: ShareOffset) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=found.start_offset,
        leader_epoch=found.leader_epoch,
        lag=found.lag,
        error_code=found.error,
        error_message=None if found.error is ErrorCode.NONE else found.error.name,
    )
