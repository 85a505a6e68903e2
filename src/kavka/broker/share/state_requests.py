"""The requests that leaders and group coordinators send to the coordinator of states, and its answers.

Decides only how each is translated; handlers of the network and callers on this broker share it.

Source: Kafka's ShareCoordinatorService.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from kavka.coordinator.share_state.coordinator import ShareCoordinator
from kavka.coordinator.share_state.decide.records import ShareKey, UpdateRecord
from kavka.coordinator.share_state.decide.shard import AskedNumber, WriteNumber
from kavka.errors import ErrorCode, RequestError
from kavka.model import StateBatch
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages import delete_share_group_state_response as deleted
from kavka.protocol.messages import initialize_share_group_state_response as initialized
from kavka.protocol.messages import read_share_group_state_response as was_read
from kavka.protocol.messages import read_share_group_state_summary_response as summarized
from kavka.protocol.messages import write_share_group_state_response as written
from kavka.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from kavka.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from kavka.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from kavka.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from kavka.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest

UNNUMBERED: Final = -1
"""What a request says that has no number."""
MOST_TOLD: Final = 1_000
"""Groups that are named in one answer."""


async def initialize(
    coordinator: ShareCoordinator, message: InitializeShareGroupStateRequest
) -> initialized.InitializeShareGroupStateResponse:
    """InitializeShareGroupState."""

    async def one(topic_id: uuid.UUID, data: Any) -> initialized.PartitionResult:
        key = ShareKey(message.group_id, topic_id, data.partition)
        await coordinator.initialize(key, data.state_epoch, data.start_offset, _asked_number(data))
        return initialized.PartitionResult(partition=data.partition)

    return initialized.InitializeShareGroupStateResponse(
        results=[
            initialized.InitializeStateResult(
                topic_id=topic.topic_id,
                partitions=await _each(topic.topic_id, topic.partitions, one, initialized.PartitionResult),
            )
            for topic in _asked(message)
        ]
    )


async def read(
    coordinator: ShareCoordinator, message: ReadShareGroupStateRequest
) -> was_read.ReadShareGroupStateResponse:
    """ReadShareGroupState."""

    async def one(topic_id: uuid.UUID, data: Any) -> was_read.PartitionResult:
        key = ShareKey(message.group_id, topic_id, data.partition)
        state = await coordinator.read(key, data.leader_epoch, _write_number(data))
        return was_read.PartitionResult(
            partition=data.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                was_read.StateBatch(first_offset=first, last_offset=last, delivery_state=code, delivery_count=count)
                for first, last, code, count in state.batches
            ],
        )

    return was_read.ReadShareGroupStateResponse(
        results=[
            was_read.ReadStateResult(
                topic_id=topic.topic_id,
                partitions=await _each(topic.topic_id, topic.partitions, one, was_read.PartitionResult),
            )
            for topic in _asked(message)
        ]
    )


async def write(
    coordinator: ShareCoordinator, message: WriteShareGroupStateRequest
) -> written.WriteShareGroupStateResponse:
    """WriteShareGroupState."""

    async def one(topic_id: uuid.UUID, data: Any) -> written.PartitionResult:
        update = UpdateRecord(
            ShareKey(message.group_id, topic_id, data.partition),
            0,
            data.leader_epoch,
            data.start_offset,
            data.delivery_complete_count,
            [
                StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in data.state_batches
            ],
        )
        await coordinator.write(update, data.state_epoch, _write_number(data))
        return written.PartitionResult(partition=data.partition)

    return written.WriteShareGroupStateResponse(
        results=[
            written.WriteStateResult(
                topic_id=topic.topic_id,
                partitions=await _each(topic.topic_id, topic.partitions, one, written.PartitionResult),
            )
            for topic in _asked(message)
        ]
    )


async def delete(
    coordinator: ShareCoordinator, message: DeleteShareGroupStateRequest
) -> deleted.DeleteShareGroupStateResponse:
    """DeleteShareGroupState."""

    async def one(topic_id: uuid.UUID, data: Any) -> deleted.PartitionResult:
        await coordinator.delete(ShareKey(message.group_id, topic_id, data.partition), _asked_number(data))
        return deleted.PartitionResult(partition=data.partition)

    return deleted.DeleteShareGroupStateResponse(
        results=[
            deleted.DeleteStateResult(
                topic_id=topic.topic_id,
                partitions=await _each(topic.topic_id, topic.partitions, one, deleted.PartitionResult),
            )
            for topic in _asked(message)
        ]
    )


async def summary(
    coordinator: ShareCoordinator, message: ReadShareGroupStateSummaryRequest
) -> summarized.ReadShareGroupStateSummaryResponse:
    """ReadShareGroupStateSummary: a state that was never initialised has no start offset. Asked for it, the answer says
    which groups have dead letters that are due, MOST_TOLD at most."""
    due: summarized.KavkaStatesWithDueLetters | None = None
    if message.kavka_due_letters:
        found = coordinator.due_letters()
        due = summarized.KavkaStatesWithDueLetters(
            state_partitions=list(found.partitions), group_ids=list(found.groups[:MOST_TOLD])
        )

    async def one(topic_id: uuid.UUID, data: Any) -> summarized.PartitionResult:
        state = coordinator.summary(ShareKey(message.group_id, topic_id, data.partition))
        if state is None:
            return summarized.PartitionResult(
                partition=data.partition, state_epoch=0, leader_epoch=0, start_offset=-1, delivery_complete_count=-1
            )
        return summarized.PartitionResult(
            partition=data.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.complete_count,
        )

    return summarized.ReadShareGroupStateSummaryResponse(
        results=[
            summarized.ReadStateSummaryResult(
                topic_id=topic.topic_id,
                partitions=await _each(topic.topic_id, topic.partitions, one, summarized.PartitionResult),
            )
            for topic in _asked(message)
        ],
        kavka_due_letters=due,
    )


def _write_number(data: Any) -> WriteNumber | None:
    """Of a leader's request. Any: a read, or a write."""
    if data.kavka_number == UNNUMBERED:
        return None
    return WriteNumber(data.kavka_broker_epoch, data.kavka_number)


def _asked_number(data: Any) -> AskedNumber | None:
    """Of a request of a group's coordinator. Any: it has a state made, set or deleted."""
    if data.kavka_number == UNNUMBERED:
        return None
    return AskedNumber(
        data.kavka_coordinators_topic, data.kavka_coordinator_epoch, data.kavka_broker_epoch, data.kavka_number
    )


def _asked(message: Any) -> Sequence[Any]:
    """The topics of a request; none of one that names no group, or a topic without partitions. Any: as `_each`."""
    is_whole = message.group_id and all(topic.partitions for topic in message.topics)
    return message.topics if is_whole else ()


async def _each(
    topic_id: uuid.UUID,
    partitions: Sequence[Any],
    answer: Callable[[uuid.UUID, Any], Awaitable[Any]],
    refusal: Callable[..., Any],
) -> list[Any]:
    """The answers in order. Any: the five APIs have messages of their own, which differ in their fields."""
    results = []
    for data in partitions:
        try:
            results.append(await answer(topic_id, data))
        except RequestError as refused:
            text = refused.message or ErrorCode(refused.code).name
            results.append(refusal(partition=data.partition, error_code=refused.code, error_message=text))
    return results


_ANSWERS: Final[Mapping[ApiKey, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (
        initialized.InitializeShareGroupStateResponse,
        initialized.InitializeStateResult,
        initialized.PartitionResult,
    ),
    ApiKey.READ_SHARE_GROUP_STATE: (
        was_read.ReadShareGroupStateResponse,
        was_read.ReadStateResult,
        was_read.PartitionResult,
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: (
        written.WriteShareGroupStateResponse,
        written.WriteStateResult,
        written.PartitionResult,
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: (
        deleted.DeleteShareGroupStateResponse,
        deleted.DeleteStateResult,
        deleted.PartitionResult,
    ),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (
        summarized.ReadShareGroupStateSummaryResponse,
        summarized.ReadStateSummaryResult,
        summarized.PartitionResult,
    ),
}


def refused(key: ApiKey, message: Any, code: ErrorCode, why: str) -> Any:
    """The answer of one of the five APIs with the same error for every partition."""
    answer, of_topic, of_partition = _ANSWERS[key]
    return answer(
        results=[
            of_topic(
                topic_id=topic.topic_id,
                partitions=[
                    of_partition(partition=data.partition, error_code=code, error_message=why)
                    for data in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
